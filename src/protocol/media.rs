//! Media types: what a body says that it is, and what a client accepts (RFC 9110, 8.3.1 and 12.5.1).
//! They are parsed, because the same type can be written in many ways.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// One JSON document.
pub const JSON: &str = "application/json";
/// Server-sent events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Whether a media type is JSON, in UTF-8 where it names a charset.
#[must_use]
pub fn is_json(value: &[u8]) -> bool {
    if value == JSON.as_bytes() {
        return true;
    }
    let Ok(value) = std::str::from_utf8(value) else {
        return false;
    };
    let (essence, mut rest) = value.split_at(value.find(';').unwrap_or(value.len()));
    if !essence.trim().eq_ignore_ascii_case(JSON) {
        return false;
    }
    while let Some(parameter) = rest.strip_prefix(';') {
        let Some((name, charset, after)) = parameter_of(parameter) else {
            return false;
        };
        if name.eq_ignore_ascii_case("charset") && !charset.eq_ignore_ascii_case("utf-8") {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Whether an answer is a stream of events, whatever its parameters: the format knows UTF-8 only.
#[must_use]
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next();
        essence.is_some_and(|essence| {
            essence
                .trim_ascii()
                .eq_ignore_ascii_case(EVENT_STREAM.as_bytes())
        })
    })
}

/// Whether the bytes of an answer are coded, and cannot be read as they are.
#[must_use]
pub fn is_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| {
        !coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"identity")
    })
}

/// The first of the parameters behind a semicolon, and what comes after it (RFC 9110, 5.6.6). An
/// empty parameter is one, with an empty name.
fn parameter_of(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start();
    let end = text.find([';', '=']).unwrap_or(text.len());
    let (name, rest) = (text[..end].trim_end(), &text[end..]);
    let Some(value) = rest.strip_prefix('=') else {
        return name.is_empty().then_some(("", "", rest));
    };
    let (value, rest) = match value.strip_prefix('"') {
        Some(quoted) => {
            // A quoted pair could hide the quote that ends the string, so none is read.
            let end = quoted.find(['"', '\\'])?;
            let rest = quoted[end..].strip_prefix('"')?;
            (&quoted[..end], rest.trim_start())
        }
        None => {
            let (token, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
            // A comma would begin a second media type.
            (!token.contains([',', '"'])).then_some((token.trim_end(), rest))?
        }
    };
    let whole = !name.is_empty() && (rest.is_empty() || rest.starts_with(';'));
    whole.then_some((name, value, rest))
}

/// Which form of answer a client accepts, of the two that we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// [`JSON`]: wherever it is acceptable, or where nothing that we have is.
    Json,
    /// [`EVENT_STREAM`] and not JSON.
    EventStream,
}

impl Accepts {
    /// Reads the value of an `Accept` header: of the ranges that match a form, the most specific
    /// one says whether it is acceptable.
    #[must_use]
    pub fn of(accept: Option<&HeaderValue>) -> Accepts {
        let accept = accept.and_then(|line| line.to_str().ok()).unwrap_or("*/*");
        if is_acceptable(accept, JSON, "application/*")
            || !is_acceptable(accept, EVENT_STREAM, "text/*")
        {
            Accepts::Json
        } else {
            Accepts::EventStream
        }
    }
}

fn is_acceptable(accept: &str, form: &str, group: &str) -> bool {
    let mut found = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let ranks = [(form, 2), (group, 1), ("*/*", 0)];
        let rank = ranks
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known));
        if let Some((_, rank)) = rank
            && found.is_none_or(|(best, _)| *rank > best)
        {
            found = Some((*rank, !parts.any(is_zero_weight)));
        }
    }
    found.is_some_and(|(_, acceptable)| acceptable)
}

/// Whether a parameter of a media range says that the range is not acceptable.
fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter
        .strip_prefix("q=")
        .or_else(|| parameter.strip_prefix("Q="));
    weight.and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_parsed() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\" ; v=1",
            "application/json;",
            "application/json; profile=\"a;b, c\"; charset=utf-8",
        ] {
            assert!(is_json(value.as_bytes()), "{value}");
        }
        for value in [
            "",
            "text/plain",
            "application/jsonx",
            "application/json-seq",
            "application/json, text/plain",
            "application/json; charset=utf-16",
            "text/plain; application/json",
            "application/json; nonsense",
            "application/json; a=b, text/plain",
            "application/json; a=\"b\\\"; charset=utf-16; c=\"\"",
            "application/json; charset=\"utf-8\" x",
        ] {
            assert!(!is_json(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn event_streams_are_told_apart() {
        for (value, is_stream) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-stream;", true),
            ("text/event-streams", false),
            ("application/json; text/event-stream", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(is_event_stream(&headers), is_stream, "{value}");
        }
        assert!(!is_event_stream(&HeaderMap::new()));
    }

    #[test]
    fn only_identity_is_no_coding() {
        for (values, is_coded_so) in [
            (&[][..], false),
            (&["identity"], false),
            (&[" Identity "], false),
            (&["gzip"], true),
            (&["identity", "br"], true),
            (&["identity, gzip"], true),
            (&[""], true),
        ] {
            let lines = values
                .iter()
                .map(|value| (CONTENT_ENCODING, HeaderValue::from_static(value)));
            let mut headers = HeaderMap::new();
            lines.for_each(|(name, value)| {
                headers.append(name, value);
            });
            assert_eq!(is_coded(&headers), is_coded_so, "{values:?}");
        }
    }

    #[test]
    fn json_is_chosen_wherever_it_is_acceptable() {
        for (accept, accepts) in [
            ("application/json, text/event-stream", Accepts::Json),
            ("text/event-stream, application/json;q=0.1", Accepts::Json),
            ("text/event-stream", Accepts::EventStream),
            ("TEXT/Event-Stream; q=1", Accepts::EventStream),
            (
                "text/event-stream, application/json;q=0",
                Accepts::EventStream,
            ),
            ("text/event-stream;q=0", Accepts::Json),
            ("application/json;q=0.0, */*", Accepts::EventStream),
            ("*/*;q=0, text/*", Accepts::EventStream),
            ("text/html", Accepts::Json),
            ("*/*", Accepts::Json),
        ] {
            let line = HeaderValue::from_static(accept);
            assert_eq!(Accepts::of(Some(&line)), accepts, "{accept}");
        }
        assert_eq!(Accepts::of(None), Accepts::Json);
    }
}
