//! Why a body is no message that we pass on.

use std::fmt;

use bytes::Bytes;

use crate::protocol::lexer;

/// An offence of a body, with what the client needs to know to mend it.
///
/// Displayed, it is a sentence for the client. It names keys and offsets, never the value of
/// an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    kind: FlawKind,
    at: usize,
    detail: Detail,
    id: Option<Bytes>,
}

/// The kinds of flaws. The first eight are offences against JSON itself (−32700), the others
/// against what a message may be (−32600).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlawKind {
    /// A byte that the JSON grammar does not allow where it stands.
    Syntax,
    /// An unescaped control character within a string.
    ControlCharacter,
    /// An escape sequence that JSON does not have.
    BadEscape,
    /// A malformed number.
    BadNumber,
    /// Something that follows the message.
    TrailingData,
    /// A byte order mark before the message.
    ByteOrderMark,
    /// Bytes that are no UTF-8.
    InvalidUtf8,
    /// The body ends too early; it may be empty.
    Truncated,
    /// An array at the root: a batch.
    RootArray,
    /// A string, number, boolean or null at the root.
    RootScalar,
    /// More objects and arrays within one another than allowed.
    TooDeep,
    /// The same key twice in an object that is read strictly.
    RepeatedKey,
    /// A key that differs only in case from one that we decide on.
    CaseVariant,
    /// More keys than allowed in an object that is read strictly.
    TooManyKeys,
    /// A value, or a key in an object that is read strictly, that is longer than allowed.
    TooLong,
    /// A string that decides, or a key, with half of a surrogate pair in it.
    LoneSurrogate,
    /// `jsonrpc` is absent or not `"2.0"`.
    Version,
    /// `id` is neither a string nor an integer.
    IdType,
    /// There is neither a method nor a result or an error.
    MethodMissing,
    /// `method` is no string.
    MethodType,
    /// `params` is neither an object nor null.
    ParamsType,
    /// The message has a method and also a result or an error.
    MethodAndResult,
    /// The message has a result and also an error.
    ResultAndError,
}

/// How much of a key a sentence quotes.
const KEY_CHARS_MAX: usize = 64;

/// What a flaw's sentence needs besides the kind and the offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Detail {
    None,
    /// What the grammar would have allowed.
    Expected(&'static str),
    Bound(usize),
    /// An object, by its name.
    Object {
        object: &'static str,
        bound: usize,
    },
    /// A key of an object, and the known key that it resembles.
    Key {
        object: &'static str,
        key: Box<str>,
        known: &'static str,
    },
    /// A value, by its key.
    Value {
        key: &'static str,
        bound: usize,
    },
}

impl Detail {
    /// An object and a limit of it; 0 is none.
    pub(super) fn object(object: &'static str, bound: usize) -> Detail {
        Detail::Object { object, bound }
    }

    /// A key, shortened if it is long, and the known one that it resembles, if any.
    pub(super) fn key(object: &'static str, name: &[u8], known: &'static str) -> Detail {
        let name = String::from_utf8_lossy(name);
        let key = name.chars().take(KEY_CHARS_MAX).collect::<String>().into();
        Detail::Key { object, key, known }
    }
}

impl Flaw {
    pub(super) fn new(kind: FlawKind, at: usize, detail: Detail) -> Flaw {
        Flaw {
            kind,
            at,
            detail,
            id: None,
        }
    }

    /// The flaw, with the id that the answer has to echo.
    pub(super) fn of_message(self, id: Option<Bytes>) -> Flaw {
        Flaw { id, ..self }
    }

    /// The kind of the flaw.
    pub fn kind(&self) -> FlawKind {
        self.kind
    }

    /// The offset of the byte where it shows.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether the body is no JSON at all (−32700); else it is no message (−32600).
    pub fn is_parse_error(&self) -> bool {
        self.kind.is_parse_error()
    }

    /// The policy's name of the bound that was exceeded, if that is the flaw.
    pub fn limit(&self) -> Option<&'static str> {
        match (self.kind, &self.detail) {
            (FlawKind::TooDeep, _) => Some("bounds.depth_max"),
            (FlawKind::TooManyKeys, _) => Some("bounds.keys_max"),
            (FlawKind::TooLong, Detail::Value { key: "method", .. }) => {
                Some("bounds.method_bytes_max")
            }
            (FlawKind::TooLong, Detail::Value { key, .. }) if is_identifier(key) => {
                Some("bounds.id_bytes_max")
            }
            (FlawKind::TooLong, _) => Some("bounds.name_bytes_max"),
            _ => None,
        }
    }

    /// The id to echo, as it was written: none if the body is no JSON, or has no id of the
    /// right type, or more than one.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }
}

fn is_identifier(key: &str) -> bool {
    key == "id" || key == "progressToken"
}

impl From<lexer::Error> for Flaw {
    fn from(error: lexer::Error) -> Flaw {
        let mut detail = Detail::None;
        let kind = match error.kind {
            lexer::ErrorKind::Unexpected(expected) => {
                detail = Detail::Expected(expected);
                FlawKind::Syntax
            }
            lexer::ErrorKind::ControlCharacter => FlawKind::ControlCharacter,
            lexer::ErrorKind::BadEscape => FlawKind::BadEscape,
            lexer::ErrorKind::BadNumber => FlawKind::BadNumber,
            lexer::ErrorKind::TrailingData => FlawKind::TrailingData,
            lexer::ErrorKind::ByteOrderMark => FlawKind::ByteOrderMark,
            lexer::ErrorKind::InvalidUtf8 => FlawKind::InvalidUtf8,
            lexer::ErrorKind::Truncated => FlawKind::Truncated,
            lexer::ErrorKind::TooDeep => FlawKind::TooDeep,
        };
        Flaw::new(kind, error.at, detail)
    }
}

impl FlawKind {
    /// Every kind.
    pub const ALL: [FlawKind; 23] = [
        FlawKind::Syntax,
        FlawKind::ControlCharacter,
        FlawKind::BadEscape,
        FlawKind::BadNumber,
        FlawKind::TrailingData,
        FlawKind::ByteOrderMark,
        FlawKind::InvalidUtf8,
        FlawKind::Truncated,
        FlawKind::RootArray,
        FlawKind::RootScalar,
        FlawKind::TooDeep,
        FlawKind::RepeatedKey,
        FlawKind::CaseVariant,
        FlawKind::TooManyKeys,
        FlawKind::TooLong,
        FlawKind::LoneSurrogate,
        FlawKind::Version,
        FlawKind::IdType,
        FlawKind::MethodMissing,
        FlawKind::MethodType,
        FlawKind::ParamsType,
        FlawKind::MethodAndResult,
        FlawKind::ResultAndError,
    ];

    /// A short name, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            FlawKind::Syntax => "syntax",
            FlawKind::ControlCharacter => "control-character",
            FlawKind::BadEscape => "bad-escape",
            FlawKind::BadNumber => "bad-number",
            FlawKind::TrailingData => "trailing-data",
            FlawKind::ByteOrderMark => "byte-order-mark",
            FlawKind::InvalidUtf8 => "invalid-utf8",
            FlawKind::Truncated => "truncated",
            FlawKind::RootArray => "root-array",
            FlawKind::RootScalar => "root-scalar",
            FlawKind::TooDeep => "too-deep",
            FlawKind::RepeatedKey => "repeated-key",
            FlawKind::CaseVariant => "case-variant",
            FlawKind::TooManyKeys => "too-many-keys",
            FlawKind::TooLong => "too-long",
            FlawKind::LoneSurrogate => "lone-surrogate",
            FlawKind::Version => "version",
            FlawKind::IdType => "id-type",
            FlawKind::MethodMissing => "method-missing",
            FlawKind::MethodType => "method-type",
            FlawKind::ParamsType => "params-type",
            FlawKind::MethodAndResult => "method-and-result",
            FlawKind::ResultAndError => "result-and-error",
        }
    }

    fn is_parse_error(self) -> bool {
        matches!(
            self,
            FlawKind::Syntax
                | FlawKind::ControlCharacter
                | FlawKind::BadEscape
                | FlawKind::BadNumber
                | FlawKind::TrailingData
                | FlawKind::ByteOrderMark
                | FlawKind::InvalidUtf8
                | FlawKind::Truncated
        )
    }

    /// What is wrong, and where it helps what to do, up to the offset.
    fn sentence(self) -> &'static str {
        match self {
            FlawKind::Syntax => "the body is not JSON",
            FlawKind::ControlCharacter => {
                "the body is not JSON: a control character in a string must be escaped"
            }
            FlawKind::BadEscape => {
                "the body is not JSON: a backslash in a string begins no known escape sequence"
            }
            FlawKind::BadNumber => "the body is not JSON: a number is malformed",
            FlawKind::TrailingData => {
                "the body goes on behind the message: send one message in each request"
            }
            FlawKind::ByteOrderMark => {
                "the body begins with a byte order mark: send UTF-8 without one"
            }
            FlawKind::InvalidUtf8 => "the body is not UTF-8",
            FlawKind::Truncated => "the body ends before the message does",
            FlawKind::RootArray => {
                "the body is an array: batches were removed from the protocol in 2025-06-18, \
                 send each message in a request of its own"
            }
            FlawKind::RootScalar => "the body must be one JSON object",
            FlawKind::TooDeep => "objects and arrays nest too deep",
            FlawKind::RepeatedKey => {
                "a key is repeated, and readers disagree about which value counts"
            }
            FlawKind::CaseVariant => {
                "a key differs only in case from one with a meaning, and readers disagree about it"
            }
            FlawKind::TooManyKeys => "an object has too many keys",
            FlawKind::TooLong => "a text is too long",
            FlawKind::LoneSurrogate => "a text has half of a surrogate pair in it",
            FlawKind::Version => "the member \"jsonrpc\" must be \"2.0\"",
            FlawKind::IdType => "the member \"id\" must be a string or an integer",
            FlawKind::MethodMissing => "the member \"method\" is missing",
            FlawKind::MethodType => "the member \"method\" must be a string",
            FlawKind::ParamsType => "the member \"params\" must be an object",
            FlawKind::MethodAndResult => {
                "a message with a \"method\" must have neither \"result\" nor \"error\""
            }
            FlawKind::ResultAndError => "a message must not have both \"result\" and \"error\"",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == FlawKind::Truncated && self.at == 0 {
            return f.write_str("the body is empty");
        }
        write!(f, "{} (at byte {}", self.kind.sentence(), self.at)?;
        match &self.detail {
            Detail::None => {}
            Detail::Expected(expected) => write!(f, ", where {expected} was expected")?,
            Detail::Bound(bound) => write!(f, ", the limit is {bound}")?,
            Detail::Object { object, bound: 0 } => write!(f, ", in {object}")?,
            Detail::Object { object, bound } => write!(f, ", in {object}, the limit is {bound}")?,
            Detail::Key {
                object,
                key,
                known: "",
            } => write!(f, ", {key:?} in {object}")?,
            Detail::Key { object, key, known } => {
                write!(f, ", {key:?} instead of {known:?} in {object}")?;
            }
            Detail::Value { key, bound: 0 } => write!(f, ", in {key:?}")?,
            Detail::Value { key, bound } => {
                write!(f, ", in {key:?}, the limit is {bound} bytes")?;
            }
        }
        f.write_str(")")
    }
}

impl std::error::Error for Flaw {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_first_eight_are_parse_errors() {
        for (index, kind) in FlawKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.is_parse_error(), index < 8, "{kind:?}");
            let same = FlawKind::ALL
                .iter()
                .filter(|other| other.as_str() == kind.as_str());
            assert_eq!(same.count(), 1, "{kind:?}");
        }
    }

    #[test]
    fn the_sentence_says_what_where_and_how_much() {
        let detail = Detail::Key {
            object: "params",
            key: "na\nme".into(),
            known: "",
        };
        let flaw = Flaw::new(FlawKind::RepeatedKey, 17, detail);
        assert_eq!(
            flaw.to_string(),
            "a key is repeated, and readers disagree about which value counts \
             (at byte 17, \"na\\nme\" in params)"
        );
        let flaw = Flaw::new(
            FlawKind::TooLong,
            3,
            Detail::Value {
                key: "id",
                bound: 512,
            },
        );
        assert_eq!(
            flaw.to_string(),
            "a text is too long (at byte 3, in \"id\", the limit is 512 bytes)"
        );
    }
}
