//! Sizes, times and counts as people write them: `64Ki`, `30s`, `256`.
//!
//! The grammar is narrow on purpose. What other tools read differently (`4M`, `010`, `1_000`,
//! `1e3`) is refused with the spelling that says the same without doubt.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::finding::{Flaw, shown};

/// The units of sizes, largest first.
const SIZES: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
/// The units of times in milliseconds, largest first.
const TIMES: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a size in bytes: a whole number, alone or with `Ki`, `Mi` or `Gi` directly behind it.
///
/// # Errors
/// Everything else, and what is outside `range`.
pub fn parse_size(text: &str, range: &RangeInclusive<u64>) -> Result<u64, Flaw> {
    let (number, unit) = split(text);
    let factor = match SIZES.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(size_unit(text, number, unit)),
    };
    let bytes = whole(text, number, "a size such as `64Ki`")?.checked_mul(factor);
    within(text, bytes, range, size)
}

/// Reads a time in milliseconds: a whole number with `ms`, `s`, `m` or `h` directly behind it.
///
/// # Errors
/// Everything else, and what is outside `range` (in milliseconds).
pub fn parse_duration(text: &str, range: &RangeInclusive<u64>) -> Result<u64, Flaw> {
    let (number, unit) = split(text);
    let Some((_, factor)) = TIMES.iter().find(|(name, _)| *name == unit) else {
        return Err(time_unit(text, number, unit));
    };
    let millis = whole(text, number, "a time such as `30s`")?.checked_mul(*factor);
    within(text, millis, range, |ms| {
        duration(Duration::from_millis(ms))
    })
}

/// Reads a count: a whole number without a unit.
///
/// # Errors
/// Everything else, and what is outside `range`.
pub fn parse_count(text: &str, range: &RangeInclusive<u64>) -> Result<u64, Flaw> {
    let (number, unit) = split(text);
    if !unit.is_empty() && !number.is_empty() && !unit.starts_with('.') {
        return Err(Flaw::of(
            text,
            "is not a whole number",
            "this key counts things, so it takes a number without a unit",
        ));
    }
    let count = whole(text, text, "a whole number such as `100`")?;
    within(text, Some(count), range, |count| count.to_string())
}

/// A size as [`parse_size`] reads it, in the largest unit that leaves a whole number.
#[must_use]
pub fn size(bytes: u64) -> String {
    match SIZES
        .iter()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
    {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// A time as [`parse_duration`] reads it, in the largest unit that leaves a whole number.
#[must_use]
pub fn duration(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match TIMES
        .iter()
        .find(|(_, factor)| millis > 0 && millis.is_multiple_of(*factor))
    {
        Some((name, factor)) => format!("{}{name}", millis / factor),
        None => "0s".to_owned(),
    }
}

/// The leading digits, and what follows them.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The number in `digits`; the flaw names the whole `text`.
fn whole(text: &str, digits: &str, wanted: &str) -> Result<u64, Flaw> {
    let refused = |cause: &str, hint: String| Err(Flaw::of(text, cause, hint));
    if text.starts_with('-') {
        return refused("is negative", format!("write {wanted}"));
    }
    if digits.is_empty() || digits.bytes().any(|b| !b.is_ascii_digit()) {
        return refused("is not a whole number", format!("write {wanted}"));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return refused(
            "begins with a zero, which some readers take for an octal number",
            format!("write `{}`", text.trim_start_matches('0')),
        );
    }
    match digits.parse() {
        Ok(number) => Ok(number),
        Err(_) => refused(
            "is larger than any number we can hold",
            format!("write {wanted}"),
        ),
    }
}

/// `number`, if it is within `range`.
fn within(
    text: &str,
    number: Option<u64>,
    range: &RangeInclusive<u64>,
    write: impl Fn(u64) -> String,
) -> Result<u64, Flaw> {
    match number {
        Some(number) if range.contains(&number) => Ok(number),
        Some(number) if number < *range.start() => Err(Flaw::of(
            text,
            "is too small",
            format!("the least here is `{}`", write(*range.start())),
        )),
        _ => Err(Flaw::of(
            text,
            "is too large",
            format!("the most here is `{}`", write(*range.end())),
        )),
    }
}

/// The flaw of a size with a unit that we do not take.
fn size_unit(text: &str, number: &str, unit: &str) -> Flaw {
    let meant = match unit.trim().to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" | "ki" => "Ki",
        "m" | "mb" | "mib" | "mi" => "Mi",
        "g" | "gb" | "gib" | "gi" => "Gi",
        "b" | "bytes" | "byte" => "",
        _ => return no_unit(text, number, unit, "a size", "`512`, `64Ki` or `4Mi`"),
    };
    if number.is_empty() {
        return no_unit(text, number, unit, "a size", "`512`, `64Ki` or `4Mi`");
    }
    Flaw::of(
        text,
        "is not a size",
        format!("write `{number}{meant}` (sizes are bytes, `Ki` is 1024 of them)"),
    )
}

/// The flaw of a time without a unit that we take.
fn time_unit(text: &str, number: &str, unit: &str) -> Flaw {
    if unit.is_empty() {
        return Flaw::of(
            text,
            "has no unit",
            format!("write `{number}s` for seconds or `{number}ms` for milliseconds"),
        );
    }
    let meant = match unit.trim().to_ascii_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" | "s" => "s",
        "min" | "mins" | "minute" | "minutes" | "m" => "m",
        "hr" | "hrs" | "hour" | "hours" | "h" => "h",
        "msec" | "millis" | "milliseconds" | "ms" => "ms",
        "d" | "day" | "days" => {
            return Flaw::of(text, "is not a time", "write days as hours: `24h`");
        }
        _ => return no_unit(text, number, unit, "a time", "`250ms`, `30s`, `5m` or `1h`"),
    };
    if number.is_empty() {
        return no_unit(text, number, unit, "a time", "`250ms`, `30s`, `5m` or `1h`");
    }
    Flaw::of(text, "is not a time", format!("write `{number}{meant}`"))
}

/// The flaw of what has no unit that we could guess at.
fn no_unit(text: &str, number: &str, unit: &str, what: &str, examples: &str) -> Flaw {
    if text.starts_with('-') {
        return Flaw::of(
            text,
            "is negative",
            format!("write {what} such as {examples}"),
        );
    }
    let hint = if !number.is_empty() && unit.starts_with(['.', ',']) {
        format!("write a whole number in a smaller unit: {what} such as {examples}")
    } else if !number.is_empty() && unit.bytes().any(|b| b.is_ascii_digit()) {
        format!("write one number with one unit: {what} such as {examples}")
    } else {
        format!("write {what} such as {examples}")
    };
    Flaw::new(format!("{} is not {what}", shown(text)), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: RangeInclusive<u64> = 0..=u64::MAX;

    #[test]
    fn sizes_and_times_read_as_they_are_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64Ki", 65_536),
            ("4Mi", 4 << 20),
            ("1Gi", 1 << 30),
        ] {
            assert_eq!(parse_size(text, &ANY), Ok(bytes));
            assert_eq!(size(bytes), text);
        }
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_duration(text, &ANY), Ok(millis));
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(size(1500), "1500");
        assert_eq!(duration(Duration::from_secs(90)), "90s");
        assert_eq!(parse_count("100", &ANY), Ok(100));
    }

    #[test]
    fn a_wrong_unit_is_answered_with_the_right_one() {
        for (text, hint) in [
            ("4MB", "write `4Mi`"),
            ("4M", "write `4Mi`"),
            ("4 Mi", "write `4Mi`"),
            ("4mi", "write `4Mi`"),
            ("64k", "write `64Ki`"),
            ("512B", "write `512` "),
            ("1.5Mi", "smaller unit"),
            ("-1", "such as"),
            ("Mi", "such as"),
            ("010", "write `10`"),
            ("1_000", "such as"),
            ("0x10", "such as"),
            ("1e3", "such as"),
            ("", "such as"),
        ] {
            let flaw = parse_size(text, &ANY).unwrap_err();
            assert!(flaw.hint.contains(hint), "{text}: {flaw:?}");
        }
        for (text, hint) in [
            ("30", "write `30s`"),
            ("0", "write `0s`"),
            ("30sec", "write `30s`"),
            ("5min", "write `5m`"),
            ("1 h", "write `1h`"),
            ("30S", "write `30s`"),
            ("1d", "`24h`"),
            ("1m30s", "one number with one unit"),
            ("1.5s", "smaller unit"),
            ("-5s", "such as"),
            ("soon", "such as"),
        ] {
            let flaw = parse_duration(text, &ANY).unwrap_err();
            assert!(flaw.hint.contains(hint), "{text}: {flaw:?}");
        }
        for text in ["1k", "1.0", "-1", "1e2", "0x1", "07", "", "+1", "many"] {
            assert!(parse_count(text, &ANY).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_and_overflow_are_kept() {
        let range = 1..=1 << 20;
        assert!(
            parse_size("0", &range)
                .unwrap_err()
                .hint
                .contains("least here is `1`")
        );
        assert!(
            parse_size("2Mi", &range)
                .unwrap_err()
                .hint
                .contains("most here is `1Mi`")
        );
        assert!(
            parse_size("99999999999Gi", &range)
                .unwrap_err()
                .cause
                .contains("too large")
        );
        assert!(parse_size("99999999999999999999999", &range).is_err());
        assert!(
            parse_duration("99999999999999999h", &range)
                .unwrap_err()
                .cause
                .contains("too large")
        );
        assert!(
            parse_duration("0s", &range)
                .unwrap_err()
                .hint
                .contains("least here is `1ms`")
        );
    }
}
