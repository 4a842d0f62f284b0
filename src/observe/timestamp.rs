//! Points in time as the log writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::line::digit;

/// RFC 3339 in UTC with milliseconds. A clock before 1970 reads as 1970, one past the year 9999
/// as its last second: both are broken clocks, and the width stays.
pub(super) fn timestamp(time: SystemTime) -> [u8; 24] {
    const YEAR_9999_ENDS: u64 = 253_402_300_799;
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs().min(YEAR_9999_ENDS);
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = (seconds % 86_400) as u32;
    let millis = since.subsec_millis();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    two(&mut text, 0, year / 100);
    two(&mut text, 2, year % 100);
    two(&mut text, 5, month);
    two(&mut text, 8, day);
    two(&mut text, 11, of_day / 3600);
    two(&mut text, 14, of_day / 60 % 60);
    two(&mut text, 17, of_day % 60);
    two(&mut text, 20, millis / 10);
    text[22] = digit(millis % 10);
    text
}

/// Year, month and day of the Gregorian calendar, `days` days after 1970-01-01. The year is
/// taken to begin in March, so that the leap day is its last and months follow one formula.
const fn civil(days: u64) -> (u32, u32, u32) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let from_year_0 = days + 719_468;
    let (cycle, day) = (
        from_year_0 / DAYS_IN_400_YEARS,
        from_year_0 % DAYS_IN_400_YEARS,
    );
    let year_of_cycle = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = cycle * 400 + year_of_cycle + (month <= 2) as u64;
    (year as u32, month as u32, day_of_month as u32)
}

fn two(text: &mut [u8; 24], at: usize, value: u32) {
    text[at] = digit(value / 10);
    text[at + 1] = digit(value % 10);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_calendar_times() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_785_230_102_007, "2026-07-28T09:15:02.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (4_107_456_000_000, "2100-02-28T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(std::str::from_utf8(&timestamp(time)), Ok(expected));
        }
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(&timestamp(early), b"1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..2_932_897 {
            assert_eq!(civil(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1), "9999 was the last year");
    }
}
