//! Arguments in headers: what `x-mcp-header` in a tool's schema asks for, and whether the headers of a
//! call say what its arguments are (specification, "Custom Headers from Tool Parameters").
//!
//! Where the specification leaves room, this follows the official SDKs: values of unknown keywords are
//! data, a `type` that is a list is no primitive type, and a header beside an argument that is not there
//! is refused, because somebody could decide by it.

mod decimal;
mod schema;

use std::borrow::Cow;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use self::decimal::{Decimal, NoDecimal};
use super::frame::{Argument, Json, Outline, Paths};
use super::header::{self, Malformed, Reading};
use super::refusal::{HeaderFault, Unchecked};

/// The annotations of one tool. Cheap to hold for each tool of a list: most have none.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    annotations: Box<[Annotation]>,
    paths: Paths,
}

/// An argument that is repeated in a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    header: HeaderName,
    spelled: Box<str>,
    path: Box<[Box<str>]>,
}

/// Why a tool's annotations make it invalid: clients drop such a tool, and so do we.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The definition or its schema cannot be read; serde_json's words.
    Unreadable(String),
    /// The schema is no object.
    NoObject,
    /// A key stands twice in a schema that has annotations.
    Repeated(String),
    /// An annotation somewhere else than on an argument that `properties` alone lead to.
    Unreachable {
        /// The names of the path, joined by dots; empty at the root.
        at: String,
    },
    /// An annotation that is no string, on the argument with this path.
    NoString {
        /// The names of the path, joined by dots.
        at: String,
    },
    /// An annotation that makes no header name, on the argument with this path.
    Token {
        /// The names of the path, joined by dots.
        at: String,
        /// What it says.
        name: String,
    },
    /// An annotation on an argument that is neither string nor integer nor boolean.
    Type {
        /// The names of the path, joined by dots.
        at: String,
        /// Its type, if that is one.
        kind: Option<String>,
    },
    /// Two annotations that differ in case at most.
    Twice(String),
    /// More annotations, or longer names, than are remembered.
    TooMany,
    /// The list has another tool of the same name.
    Ambiguous,
}

/// What the header of an argument is, beside the argument.
#[derive(Debug)]
pub enum Verdict {
    /// It agrees, and goes on as it stands; or it is not there and need not be.
    Agree,
    /// It agrees, and goes on in this spelling, which every reader takes for the same.
    Respelled(HeaderValue),
    /// It is not there and ought to be.
    Missing {
        /// What it would say.
        value: HeaderValue,
        /// How its absence is told.
        fault: HeaderFault,
    },
}

impl Annotations {
    /// Reads the annotations of a raw `inputSchema`.
    ///
    /// # Errors
    /// What makes the tool invalid.
    pub fn read(input_schema: &str) -> Result<Annotations, Invalid> {
        let annotations = schema::annotations(input_schema)?;
        Ok(Annotations {
            paths: Paths::new(annotations.iter().map(|annotation| annotation.path.iter())),
            annotations: annotations.into(),
        })
    }

    /// The arguments that a scan is to find; [`Outline::argument`] takes the positions of
    /// [`Annotations::iter`].
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty()
    }

    /// All of them, in the order of the schema.
    pub fn iter(&self) -> impl Iterator<Item = &Annotation> {
        self.annotations.iter()
    }

    /// Holds the headers of a call against its arguments, which a scan with [`Annotations::paths`]
    /// has found. Gives the lines that go upstream in place of the client's; all others agree as they
    /// stand. With `supplies`, missing ones are among them.
    ///
    /// # Errors
    /// The first that is missing, repeated, malformed, unexpected or different, or whose argument is
    /// longer than `argument_bytes_max`, as it is written.
    pub fn agree(
        &self,
        call: &Outline,
        headers: &HeaderMap,
        argument_bytes_max: usize,
        supplies: bool,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, HeaderFault> {
        let mut lines = Vec::new();
        for (at, annotation) in self.annotations.iter().enumerate() {
            let reading = Reading::of(headers, &annotation.header);
            match annotation.judge(call.argument(at), reading, argument_bytes_max)? {
                Verdict::Agree => {}
                Verdict::Missing { fault, .. } if !supplies => return Err(fault),
                Verdict::Respelled(value) | Verdict::Missing { value, .. } => {
                    lines.push((annotation.header.clone(), value));
                }
            }
        }
        Ok(lines)
    }
}

impl Invalid {
    /// Why a definition or its schema cannot be read.
    #[must_use]
    pub fn unreadable(why: &serde_json::Error) -> Invalid {
        Invalid::Unreadable(schema::shortened(&why.to_string()))
    }
}

impl Annotation {
    /// The header.
    #[must_use]
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The header as the schema spells it, for messages: `Mcp-Param-Region`.
    #[must_use]
    pub fn spelled(&self) -> &str {
        &self.spelled
    }

    /// What the schema calls it: `Region`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spelled[header::PARAM_PREFIX.len()..]
    }

    /// The names that lead from `params.arguments` to the argument.
    #[must_use]
    pub fn path(&self) -> &[Box<str>] {
        &self.path
    }

    /// Holds the header against the argument, by the type that the argument has: one that the schema
    /// does not allow is for the tool to refuse.
    ///
    /// # Errors
    /// As [`Annotations::agree`], but for what is missing.
    pub fn judge(
        &self,
        argument: Option<Argument<'_>>,
        reading: Reading<'_>,
        argument_bytes_max: usize,
    ) -> Result<Verdict, HeaderFault> {
        let header = reading.once(&self.spelled)?;
        let value = match repeatable(argument) {
            Ok(argument) => self.value(argument, argument_bytes_max)?,
            Err(found) => {
                return header.map_or(Ok(Verdict::Agree), |header| {
                    Err(self.unexpected(header, found))
                });
            }
        };
        match header {
            Some(header) => self.compare(header, &value),
            None if value.may_be_absent() => Ok(Verdict::Agree),
            None => Ok(Verdict::Missing {
                value: value.encoded(),
                fault: HeaderFault::Missing {
                    name: self.spelled.to_string(),
                    body: Some(value.to_string()),
                },
            }),
        }
    }

    /// What the argument is.
    fn value<'a>(
        &self,
        argument: Argument<'a>,
        bytes_max: usize,
    ) -> Result<Value<'a>, HeaderFault> {
        let unchecked = |why| HeaderFault::Unchecked {
            name: self.spelled.to_string(),
            why,
        };
        // A value that passed by is not at hand if it is too long; one that is at hand is judged alike.
        let raw = argument.raw.filter(|raw| raw.len() <= bytes_max);
        let Some(raw) = raw.and_then(|raw| std::str::from_utf8(raw).ok()) else {
            return Err(unchecked(Unchecked::TooLong { max: bytes_max }));
        };
        match argument.json {
            Json::String => argument
                .text()
                .map(Value::Text)
                .ok_or_else(|| unchecked(Unchecked::Surrogate)),
            Json::Number => Decimal::read(raw)
                .map(|number| Value::Number(number, raw))
                .map_err(|_| unchecked(Unchecked::Exponent)),
            Json::Boolean | Json::Null | Json::Array | Json::Object => Ok(Value::Boolean(raw)),
        }
    }

    fn compare(&self, header: &[u8], value: &Value<'_>) -> Result<Verdict, HeaderFault> {
        let malformed = |why| HeaderFault::Malformed {
            name: self.spelled.to_string(),
            why,
            body: Some(value.to_string()),
        };
        // What an encoding stands for is never longer than the encoding.
        let said = header::decode(header, header.len()).map_err(malformed)?;
        let same = match value {
            Value::Text(text) => said == *text,
            Value::Boolean(word) => said == *word,
            Value::Number(number, _) => match Decimal::read(&said) {
                Ok(said) => said == *number,
                Err(NoDecimal::Exponent) => false,
                Err(NoDecimal::Grammar) => return Err(malformed(Malformed::Number)),
            },
        };
        if !same {
            return Err(HeaderFault::Mismatch {
                name: self.spelled.to_string(),
                header: said.into_owned(),
                body: value.to_string(),
            });
        }
        if value.is_spelled(header) {
            return Ok(Verdict::Agree);
        }
        let written = value.encoded();
        if written.as_bytes() == header {
            return Ok(Verdict::Agree);
        }
        Ok(Verdict::Respelled(written))
    }

    fn unexpected(&self, header: &[u8], found: &'static str) -> HeaderFault {
        HeaderFault::Unexpected {
            name: self.spelled.to_string(),
            header: String::from_utf8_lossy(header).into_owned(),
            found,
        }
    }
}

/// The argument, if a header can repeat it; else what it is instead.
fn repeatable(argument: Option<Argument<'_>>) -> Result<Argument<'_>, &'static str> {
    let argument = argument.ok_or("not there")?;
    match argument.json {
        Json::String | Json::Number | Json::Boolean => Ok(argument),
        Json::Null => Err("null"),
        Json::Array => Err("an array"),
        Json::Object => Err("an object"),
    }
}

/// An argument that a header can repeat.
enum Value<'a> {
    Text(Cow<'a, str>),
    Boolean(&'a str),
    Number(Decimal<'a>, &'a str),
}

impl Value<'_> {
    /// Whether a client may leave the header out though the argument is there: integers that not every
    /// reader holds exactly are not to be repeated.
    fn may_be_absent(&self) -> bool {
        matches!(self, Value::Number(number, _) if number.is_unsafe_integer())
    }

    /// Whether the header says it as it stands in the body.
    fn is_spelled(&self, header: &[u8]) -> bool {
        match self {
            // An empty header is taken for none by some readers.
            Value::Text(text) => {
                !text.is_empty() && header == text.as_bytes() && header::stands_plain(text)
            }
            Value::Boolean(raw) | Value::Number(_, raw) => header == raw.as_bytes(),
        }
    }

    /// The header that repeats it.
    fn encoded(&self) -> HeaderValue {
        match self {
            Value::Text(text) if text.is_empty() => HeaderValue::from_static(header::EMPTY),
            Value::Text(text) => header::encode(text),
            Value::Boolean(word) => header::encode(word),
            Value::Number(number, _) => header::encode(&number.spelled()),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Value::Text(text) => text,
            Value::Boolean(raw) | Value::Number(_, raw) => raw,
        })
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Invalid::NoObject => f.write_str("its inputSchema is no object"),
            Invalid::Repeated(key) => {
                write!(
                    f,
                    "its inputSchema has x-mcp-header, and the key {key:?} twice"
                )
            }
            Invalid::Unreachable { at } => write!(
                f,
                "x-mcp-header of {at:?} is on no argument that properties alone lead to"
            ),
            Invalid::NoString { at } => write!(f, "x-mcp-header of {at:?} is no string"),
            Invalid::Token { at, name } => write!(
                f,
                "x-mcp-header of {at:?} is {name:?}, which is no token that a header name can end in"
            ),
            Invalid::Type { at, kind } => {
                write!(f, "x-mcp-header of {at:?}, ")?;
                match kind {
                    Some(kind) => write!(f, "whose type is {kind:?}, ")?,
                    None => f.write_str("which has no single type, ")?,
                }
                f.write_str("may only be on a string, integer or boolean")
            }
            Invalid::Twice(name) => {
                write!(f, "x-mcp-header {name:?} stands twice, but for its case")
            }
            Invalid::Ambiguous => f.write_str("the list has another tool of the same name"),
            Invalid::TooMany => f.write_str("it has more, or longer, x-mcp-header than are read"),
        }
    }
}

#[cfg(test)]
mod tests;
