//! The routing headers against the body, and what they become on the way to the upstream: each one
//! line at most, with the value that the body has.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::place::Placed;
use crate::policy::plan::{LegacyHeaders, Missing, Protocol};
use crate::protocol::frame::{Field, Frame, Kind, Text};
use crate::protocol::header::{self, Malformed, Reading, spelled};
use crate::protocol::method;
use crate::protocol::refusal::{HeaderFault, MessageFault, Refusal};
use crate::protocol::version::Era;

/// Most bytes of a rebuilt `Mcp-Name` on a legacy request, whose reader never asked for one:
/// servers commonly refuse a head over 8 KiB.
const LEGACY_NAME_BYTES_MAX: usize = 4096;

/// What becomes of one header field on the way upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    /// It stands there once already, as it would be rebuilt.
    Keep,
    /// It is replaced or supplied.
    Set(HeaderValue),
    /// It goes.
    Remove,
}

impl Line {
    /// The line that says `value`, where `found` is what the client sent.
    fn says(value: HeaderValue, found: Reading<'_>) -> Line {
        match found {
            Reading::Once(bytes) if bytes == value.as_bytes() => Line::Keep,
            Reading::Once(_) | Reading::Absent | Reading::Repeated => Line::Set(value),
        }
    }

    /// The line that says `text` unencoded; none where a header cannot say it.
    fn plain(text: &str, found: Reading<'_>) -> Line {
        match found {
            Reading::Once(bytes) if bytes == text.as_bytes() => Line::Keep,
            _ if !header::stands_plain(text) => Line::Remove,
            _ => HeaderValue::from_str(text).map_or(Line::Remove, Line::Set),
        }
    }
}

/// The routing headers of one message as they go upstream. Only [`agree`] makes one, so nothing is
/// forwarded whose headers were not held against its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    version: Line,
    method: Line,
    name: Line,
    params: bool,
}

impl Routing {
    /// Whether `Mcp-Param-*` go on.
    #[must_use]
    pub fn passes_params(&self) -> bool {
        self.params
    }

    /// Writes the routing headers into the head that goes upstream.
    pub fn apply(self, headers: &mut HeaderMap) {
        write(headers, header::PROTOCOL_VERSION, self.version);
        write(headers, header::METHOD, self.method);
        write(headers, header::NAME, self.name);
    }
}

fn write(headers: &mut HeaderMap, name: HeaderName, line: Line) {
    match line {
        Line::Keep => {}
        Line::Set(value) => {
            headers.insert(name, value);
        }
        Line::Remove => {
            headers.remove(name);
        }
    }
}

/// Holds the routing headers of a message against its body.
///
/// # Errors
/// What is missing, repeated, malformed or different (−32020), the parameter that `Mcp-Name`
/// repeats where it is no string (−32602).
pub fn agree(
    placed: &Placed,
    frame: &Frame,
    headers: &HeaderMap,
    protocol: &Protocol,
    name_bytes_max: usize,
) -> Result<Routing, Refusal> {
    let method = frame.method().unwrap_or_default();
    let message = Message {
        frame,
        method: &method,
        name_field: method::name_field(&method),
        method_line: header::read(headers, &header::METHOD),
        name_line: header::read(headers, &header::NAME),
        name_bytes_max,
    };
    match placed.era() {
        Era::Modern => message.agree_modern(placed, protocol.missing),
        Era::Legacy => message.agree_legacy(headers, protocol.legacy),
    }
}

/// Judges the routing headers of a legacy request without a body, which can confirm none of them.
///
/// # Errors
/// [`HeaderFault::Legacy`] where the route refuses them.
pub fn agree_bodiless(headers: &HeaderMap, protocol: &Protocol) -> Result<Routing, HeaderFault> {
    read_session(headers)?;
    if protocol.legacy == LegacyHeaders::Refuse {
        refuse_any(headers)?;
    }
    Ok(Routing {
        version: Line::Keep,
        method: Line::Remove,
        name: Line::Remove,
        params: false,
    })
}

/// A message beside the lines that speak of it.
struct Message<'a> {
    frame: &'a Frame,
    method: &'a str,
    name_field: Option<Field>,
    method_line: Reading<'a>,
    name_line: Reading<'a>,
    name_bytes_max: usize,
}

impl Message<'_> {
    fn agree_modern(&self, placed: &Placed, missing: Missing) -> Result<Routing, Refusal> {
        let name = match self.name_field {
            Some(field) => Some(self.text(field)?),
            None => None,
        };
        if !header::stands_plain(self.method) {
            return Err(HeaderFault::Malformed {
                name: spelled::METHOD,
                why: Malformed::Byte,
                body: Some(self.method.to_owned()),
            }
            .into());
        }
        let required = self.frame.kind() == Kind::Request && missing == Missing::Reject;
        if !self.confirms_method()? && required {
            return Err(missing_line(spelled::METHOD, self.method).into());
        }
        if let Some(name) = &name
            && !self.confirms_name(name)?
            && required
        {
            return Err(missing_line(spelled::NAME, name).into());
        }
        let version = placed.version().unwrap_or_default();
        Ok(Routing {
            version: if placed.version_in_header() {
                Line::Keep
            } else {
                Line::plain(version, Reading::Absent)
            },
            method: Line::plain(self.method, self.method_line),
            name: match name {
                Some(name) => Line::says(header::encode(&name), self.name_line),
                None => Line::Remove,
            },
            params: true,
        })
    }

    fn agree_legacy(&self, headers: &HeaderMap, rule: LegacyHeaders) -> Result<Routing, Refusal> {
        read_session(headers)?;
        // A legacy body may name its target by something else than a string; then there is
        // nothing to rebuild, and nothing that a header could agree with.
        let name = self.name_field.and_then(|field| self.text(field).ok());
        match rule {
            LegacyHeaders::Verify => {
                self.confirms_method()?;
                if self.name_field.is_some() {
                    self.confirms_name(name.as_deref().unwrap_or_default())?;
                }
            }
            LegacyHeaders::Drop => {}
            LegacyHeaders::Refuse => refuse_any(headers)?,
        }
        Ok(Routing {
            version: Line::Keep,
            method: if self.method.is_empty() {
                Line::Remove
            } else {
                Line::plain(self.method, self.method_line)
            },
            name: match name.map(|name| header::encode(&name)) {
                Some(value) if value.len() <= LEGACY_NAME_BYTES_MAX => {
                    Line::says(value, self.name_line)
                }
                Some(_) | None => Line::Remove,
            },
            params: false,
        })
    }

    /// The parameter that names the target.
    fn text(&self, field: Field) -> Result<Cow<'_, str>, MessageFault> {
        match self.frame.text(field) {
            Text::Is(text) => Ok(text),
            Text::Absent | Text::WrongType => Err(MessageFault::NameParameter {
                key: field.key(),
                method: self.method.to_owned(),
            }),
        }
    }

    /// Whether `Mcp-Method` is there; it then agrees.
    fn confirms_method(&self) -> Result<bool, HeaderFault> {
        let name = spelled::METHOD;
        match self.method_line {
            Reading::Absent => Ok(false),
            Reading::Repeated => Err(HeaderFault::Repeated { name }),
            Reading::Once(value) if value == self.method.as_bytes() => Ok(true),
            Reading::Once(value) => Err(HeaderFault::Mismatch {
                name,
                header: String::from_utf8_lossy(value).into_owned(),
                body: self.method.to_owned(),
            }),
        }
    }

    /// Whether `Mcp-Name` is there; it then agrees once decoded.
    fn confirms_name(&self, body: &str) -> Result<bool, HeaderFault> {
        let name = spelled::NAME;
        let value = match self.name_line {
            Reading::Absent => return Ok(false),
            Reading::Repeated => return Err(HeaderFault::Repeated { name }),
            Reading::Once(value) => value,
        };
        let said =
            header::decode(value, self.name_bytes_max).map_err(|why| HeaderFault::Malformed {
                name,
                why,
                body: Some(body.to_owned()),
            })?;
        if said == body {
            return Ok(true);
        }
        Err(HeaderFault::Mismatch {
            name,
            header: said.into_owned(),
            body: body.to_owned(),
        })
    }
}

fn missing_line(name: &'static str, body: &str) -> HeaderFault {
    HeaderFault::Missing {
        name,
        body: Some(body.to_owned()),
    }
}

/// A request belongs to one session; of two, hops before and behind us may read different ones.
fn read_session(headers: &HeaderMap) -> Result<(), HeaderFault> {
    match header::read(headers, &header::SESSION_ID) {
        Reading::Absent | Reading::Once(_) => Ok(()),
        Reading::Repeated => Err(HeaderFault::Repeated {
            name: spelled::SESSION_ID,
        }),
    }
}

fn refuse_any(headers: &HeaderMap) -> Result<(), HeaderFault> {
    let legacy = |name: &str| {
        Err(HeaderFault::Legacy {
            name: name.to_owned(),
        })
    };
    let routing = headers.keys().find(|name| {
        **name == header::METHOD
            || **name == header::NAME
            || name.as_str().starts_with(header::PARAM_PREFIX)
    });
    match routing {
        Some(name) if *name == header::METHOD => legacy(spelled::METHOD),
        Some(name) if *name == header::NAME => legacy(spelled::NAME),
        Some(name) => legacy(name.as_str()),
        None => Ok(()),
    }
}
