//! The routing headers: their names, and the encoding that carries any text in a header value
//! (specification, "Request Metadata" and "Value Encoding").

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::refusal::HeaderFault;

/// `MCP-Protocol-Version`.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Method`.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Mcp-Session-Id`, of legacy sessions.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How the names of all headers of MCP begin.
pub const PREFIX: &str = "mcp-";
/// How the names of argument headers begin.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// The same names as the specification spells them, for messages.
pub mod spelled {
    /// `MCP-Protocol-Version`.
    pub const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
    /// `Mcp-Method`.
    pub const METHOD: &str = "Mcp-Method";
    /// `Mcp-Name`.
    pub const NAME: &str = "Mcp-Name";
    /// `Mcp-Session-Id`.
    pub const SESSION_ID: &str = "Mcp-Session-Id";
    /// How the names of argument headers begin.
    pub const PARAM_PREFIX: &str = "Mcp-Param-";
}

/// The value of a field whose lines make one with `separator` between them; none where there is no
/// line. A single line is not copied.
#[must_use]
pub fn joined(headers: &HeaderMap, name: HeaderName, separator: &[u8]) -> Option<HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?;
    let Some(second) = lines.next() else {
        return Some(first.clone());
    };
    let all = [first, second].into_iter().chain(lines);
    let all: Vec<_> = all.map(HeaderValue::as_bytes).collect();
    HeaderValue::from_bytes(&all.join(separator)).ok()
}

/// Whether the field called `name`, in lower case, belongs to the sessions and resumed streams of
/// legacy versions; a modern exchange has none in either direction.
#[must_use]
pub fn is_of_session(name: &str) -> bool {
    matches!(name, "mcp-session-id" | "last-event-id")
}

/// What a request says in a field that may stand once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<'a> {
    /// No such field line.
    Absent,
    /// One field line; its value without the blanks around it.
    Once(&'a [u8]),
    /// More than one field line, be they equal: hops before and behind us may read different ones.
    Repeated,
}

impl<'a> Reading<'a> {
    /// What `headers` say in this field.
    #[must_use]
    pub fn of(headers: &'a HeaderMap, name: &HeaderName) -> Reading<'a> {
        let mut lines = headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (None, _) => Reading::Absent,
            (Some(value), None) => Reading::Once(trim(value.as_bytes())),
            (Some(_), Some(_)) => Reading::Repeated,
        }
    }

    /// The value of a routing header, called `name` in messages, if it is there.
    ///
    /// # Errors
    /// [`HeaderFault::Repeated`].
    pub fn once(self, name: &str) -> Result<Option<&'a [u8]>, HeaderFault> {
        match self {
            Reading::Absent => Ok(None),
            Reading::Once(value) => Ok(Some(value)),
            Reading::Repeated => Err(HeaderFault::Repeated {
                name: name.to_owned(),
            }),
        }
    }
}

/// Removes SP and HTAB at both ends, nothing else.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Why a header value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A byte outside 0x21–0x7E, SP and HTAB.
    Byte,
    /// What stands between the markers is not canonical base64.
    Base64,
    /// The decoded bytes are not UTF-8.
    Utf8,
    /// Longer than any name that the gateway accepts, encoded.
    TooLong,
    /// The argument is a number, and this is none as JSON writes them.
    Number,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Byte => "it has a byte that a header value may not have",
            Malformed::Base64 => "what stands between =?base64? and ?= is not padded base64",
            Malformed::Utf8 => "the bytes that it encodes are not UTF-8",
            Malformed::TooLong => "it is longer than any name that is accepted here",
            Malformed::Number => "it is no number as JSON writes them",
        })
    }
}

/// The empty text, encoded: some readers take a header without a value for none.
pub const EMPTY: &str = "=?base64??=";

const OPEN: &[u8] = b"=?base64?";
const CLOSE: &[u8] = b"?=";

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | b' ' | b'\t')
}

/// What stands between the markers of a value that looks encoded.
fn sentinel(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(OPEN)?.strip_suffix(CLOSE)
}

/// The text that a trimmed header value stands for: itself, or what it encodes.
///
/// # Errors
/// What is wrong with it. The size is checked before decoding: `decoded_bytes_max` is the most
/// that the text may have.
pub fn decode(value: &[u8], decoded_bytes_max: usize) -> Result<Cow<'_, str>, Malformed> {
    if let Some(encoded) = sentinel(value) {
        if encoded.len() / 4 > decoded_bytes_max / 3 + 1 {
            return Err(Malformed::TooLong);
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| Malformed::Base64)?;
        return String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|_| Malformed::Utf8);
    }
    decode_plain(value).map(Cow::Borrowed)
}

/// The text of a trimmed value that is never encoded.
///
/// # Errors
/// [`Malformed::Byte`].
pub fn decode_plain(value: &[u8]) -> Result<&str, Malformed> {
    if !value.iter().all(|byte| is_plain(*byte)) {
        return Err(Malformed::Byte);
    }
    std::str::from_utf8(value).map_err(|_| Malformed::Byte)
}

/// Whether `text` may stand in a header as it is. What only resembles an encoded value is encoded
/// too, because readers differ over markers that overlap.
#[must_use]
pub fn stands_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| is_plain(*byte))
        && trim(bytes).len() == bytes.len()
        && !(bytes.starts_with(OPEN) && bytes.ends_with(CLOSE))
}

/// How many bytes the header value that stands for `text` has.
#[must_use]
pub fn encoded_len(text: &str) -> usize {
    if stands_plain(text) {
        return text.len();
    }
    OPEN.len() + text.len().div_ceil(3) * 4 + CLOSE.len()
}

/// The header value that stands for `text`: plain where it can be, encoded where it must.
#[must_use]
pub fn encode(text: &str) -> HeaderValue {
    if stands_plain(text)
        && let Ok(value) = HeaderValue::from_str(text)
    {
        return value;
    }
    let mut value = String::with_capacity(encoded_len(text));
    value.push_str("=?base64?");
    STANDARD.encode_string(text, &mut value);
    value.push_str("?=");
    // Base64 and its markers are plain ASCII, so this conversion has nothing to refuse.
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 8192;

    #[test]
    fn values_decode_as_the_specification_says() {
        for (value, text) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("=?base64??=", ""),
            ("=?base64?SGVsbG8=?=", "Hello"),
            ("=?base64?IHBhZGRlZCA=?=", " padded "),
            ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
            // The markers are case-sensitive, and both must stand.
            ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
            ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            ("=?base64?=", "=?base64?="),
        ] {
            assert_eq!(
                decode(value.as_bytes(), MAX).as_deref(),
                Ok(text),
                "{value}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_one_way_is_malformed() {
        for (value, why) in [
            (&b"h\xc3\xa9llo"[..], Malformed::Byte),
            (b"a\x7f", Malformed::Byte),
            (b"=?base64?SGVsbG8?=", Malformed::Base64),
            (b"=?base64?SGVs bG8=?=", Malformed::Base64),
            (b"=?base64?SGVsbG9=?=", Malformed::Base64),
            (b"=?base64?_-8=?=", Malformed::Base64),
            (b"=?base64?/w==?=", Malformed::Utf8),
        ] {
            assert_eq!(decode(value, MAX), Err(why), "{value:?}");
        }
        let long = format!("=?base64?{}?=", "QUFB".repeat(3000));
        assert_eq!(decode(long.as_bytes(), MAX), Err(Malformed::TooLong));
    }

    proptest! {
        #[test]
        fn any_text_survives_the_round_trip(text in any::<String>()) {
            let value = encode(&text);
            prop_assert!(value.as_bytes().iter().all(|b| is_plain(*b)));
            prop_assert_eq!(trim(value.as_bytes()), value.as_bytes());
            prop_assert_eq!(value.len(), encoded_len(&text));
            let decoded = decode(value.as_bytes(), text.len()).map(Cow::into_owned);
            prop_assert_eq!(decoded, Ok(text));
        }

        #[test]
        fn plain_text_stays_plain(text in "[!-~]([ -~\t]*[!-~])?") {
            prop_assume!(!(text.starts_with("=?base64?") && text.ends_with("?=")));
            let value = encode(&text);
            prop_assert_eq!(value.as_bytes(), text.as_bytes());
        }
    }
}
