//! The routing headers against the body, and what they become on the way to the upstream: each one
//! line at most, with the value that the body has.

pub(super) mod claim;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::catalog::ParamLines;
use super::message::Message;
use super::place::Placed;
use crate::policy::plan::{LegacyHeaders, Missing, Protocol, Route};
use crate::protocol::frame::Text;
use crate::protocol::head::Fields;
use crate::protocol::header::{self, Reading, spelled};
use crate::protocol::refusal::{HeaderFault, MessageFault, Refusal};
use crate::protocol::version::{Era, Version};

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
    /// The line that says `text`, encoded where it must be. What the client sent stays where it
    /// is the same.
    fn encoded(text: &str, found: Reading<'_>) -> Line {
        match found {
            Reading::Once(bytes) if bytes == text.as_bytes() && header::stands_plain(text) => {
                Line::Keep
            }
            Reading::Once(_) | Reading::Absent | Reading::Repeated => {
                Line::Set(header::encode(text))
            }
        }
    }

    /// The line that says `text` unencoded; none where a header cannot say it.
    fn plain(text: &str, found: Reading<'_>) -> Line {
        match found {
            _ if !header::stands_plain(text) => Line::Remove,
            Reading::Once(bytes) if bytes == text.as_bytes() => Line::Keep,
            _ => HeaderValue::from_str(text).map_or(Line::Remove, Line::Set),
        }
    }
}

/// The routing headers of one message as they go upstream. Only [`agree`] makes one, and a
/// [`Claim`](claim::Claim), whose body never comes to its end unless it agrees; so nothing is
/// forwarded whose headers were not held against its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    version: Line,
    method: Line,
    name: Line,
    params: bool,
    /// The argument headers that take the place of the client's.
    param_lines: ParamLines,
}

impl Routing {
    /// Whether `Mcp-Param-*` go on.
    #[must_use]
    pub(super) fn passes_params(&self) -> bool {
        self.params
    }

    /// Those of a modern message of this version, method and name; `found` is what the client
    /// sent.
    fn modern(version: &str, method: &str, name: Option<&str>, found: &Fields<'_>) -> Routing {
        Routing {
            version: Line::plain(version, found.protocol_version),
            method: Line::plain(method, found.method),
            name: match name {
                Some(name) => Line::encoded(name, found.name),
                None => Line::Remove,
            },
            params: true,
            param_lines: ParamLines::new(),
        }
    }

    /// Those of a request of our own, whose body we write.
    #[must_use]
    pub(super) fn of_our_own(era: Era, version: Option<Version>, method: &'static str) -> Routing {
        let version = version.filter(|_| era == Era::Modern);
        Routing {
            version: version.map_or(Line::Keep, |version| {
                Line::Set(HeaderValue::from_static(version.as_str()))
            }),
            method: Line::Set(HeaderValue::from_static(method)),
            name: Line::Remove,
            params: false,
            param_lines: ParamLines::new(),
        }
    }

    /// The same, with these argument headers in place of the client's.
    #[must_use]
    pub(super) fn with_params(self, param_lines: ParamLines) -> Routing {
        Routing {
            param_lines,
            ..self
        }
    }

    /// Writes the routing headers into the head that goes upstream.
    pub(super) fn apply(self, headers: &mut HeaderMap) {
        write(headers, header::PROTOCOL_VERSION, self.version);
        write(headers, header::METHOD, self.method);
        write(headers, header::NAME, self.name);
        for (name, value) in self.param_lines {
            headers.insert(name, value);
        }
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
pub(super) fn agree(
    placed: &Placed,
    message: &Message<'_>,
    fields: &Fields<'_>,
    headers: &HeaderMap,
    route: &Route,
) -> Result<Routing, Refusal> {
    let lines = Lines {
        message,
        fields,
        name_bytes_max: route.bounds.message.name_bytes_max,
    };
    match placed.era() {
        Era::Modern => lines.agree_modern(placed, route.protocol.missing),
        Era::Legacy => lines.agree_legacy(headers, route.protocol.legacy),
    }
}

/// Judges the routing headers of a legacy request without a body, which can confirm none of them.
///
/// # Errors
/// [`HeaderFault::Legacy`] where the route refuses them.
pub(super) fn agree_bodiless(
    fields: &Fields<'_>,
    headers: &HeaderMap,
    protocol: &Protocol,
) -> Result<Routing, HeaderFault> {
    read_session(fields)?;
    if protocol.legacy == LegacyHeaders::Refuse {
        refuse_any(headers)?;
    }
    Ok(Routing {
        version: Line::Keep,
        method: Line::Remove,
        name: Line::Remove,
        params: false,
        param_lines: ParamLines::new(),
    })
}

/// A message beside the lines that speak of it.
struct Lines<'a> {
    message: &'a Message<'a>,
    fields: &'a Fields<'a>,
    name_bytes_max: usize,
}

impl Lines<'_> {
    fn agree_modern(&self, placed: &Placed, missing: Missing) -> Result<Routing, Refusal> {
        let method = self.message.method();
        if let Some((field, Text::Absent | Text::WrongType)) = self.message.target() {
            return Err(MessageFault::NameParameter {
                key: field.key(),
                method: method.to_owned(),
            }
            .into());
        }
        if !header::stands_plain(method) {
            return Err(MessageFault::MethodText {
                method: method.to_owned(),
            }
            .into());
        }
        let required = self.message.is_request() && missing == Missing::Reject;
        if !self.confirms_method()? && required {
            return Err(missing_line(spelled::METHOD, method).into());
        }
        let name = self.message.name();
        if let Some(name) = name
            && !self.confirms_name(name)?
            && required
        {
            return Err(missing_line(spelled::NAME, name).into());
        }
        let version = placed.version().unwrap_or_default();
        Ok(Routing::modern(version, method, name, self.fields))
    }

    fn agree_legacy(&self, headers: &HeaderMap, rule: LegacyHeaders) -> Result<Routing, Refusal> {
        read_session(self.fields)?;
        let (method, name) = (self.message.method(), self.message.name());
        match rule {
            LegacyHeaders::Verify => {
                self.confirms_method()?;
                // A legacy body may name its target by something else than a string; then there
                // is nothing that a header could agree with, and nothing to rebuild.
                if self.message.target().is_some() {
                    self.confirms_name(name.unwrap_or_default())?;
                }
            }
            LegacyHeaders::Drop => {}
            LegacyHeaders::Refuse => refuse_any(headers)?,
        }
        Ok(Routing {
            version: Line::Keep,
            method: match method {
                "" => Line::Remove,
                method => Line::plain(method, self.fields.method),
            },
            name: match name {
                Some(name) if header::encoded_len(name) <= LEGACY_NAME_BYTES_MAX => {
                    Line::encoded(name, self.fields.name)
                }
                Some(_) | None => Line::Remove,
            },
            params: false,
            param_lines: ParamLines::new(),
        })
    }

    /// Whether `Mcp-Method` is there; it then agrees.
    fn confirms_method(&self) -> Result<bool, HeaderFault> {
        let name = spelled::METHOD;
        let body = self.message.method();
        match self.fields.method.once(name)? {
            None => Ok(false),
            Some(value) if value == body.as_bytes() => Ok(true),
            Some(value) => Err(HeaderFault::Mismatch {
                name: name.into(),
                header: String::from_utf8_lossy(value).into_owned(),
                body: body.to_owned(),
            }),
        }
    }

    /// Whether `Mcp-Name` is there; it then agrees once decoded.
    fn confirms_name(&self, body: &str) -> Result<bool, HeaderFault> {
        let name = spelled::NAME;
        let Some(value) = self.fields.name.once(name)? else {
            return Ok(false);
        };
        let said =
            header::decode(value, self.name_bytes_max).map_err(|why| HeaderFault::Malformed {
                name: name.into(),
                why,
                body: Some(body.to_owned()),
            })?;
        if said == body {
            return Ok(true);
        }
        Err(HeaderFault::Mismatch {
            name: name.into(),
            header: said.into_owned(),
            body: body.to_owned(),
        })
    }
}

fn missing_line(name: &str, body: &str) -> HeaderFault {
    HeaderFault::Missing {
        name: name.to_owned(),
        body: Some(body.to_owned()),
    }
}

/// A request belongs to one session; of two, hops before and behind us may read different ones.
fn read_session(fields: &Fields<'_>) -> Result<(), HeaderFault> {
    fields.session_id.once(spelled::SESSION_ID).map(drop)
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

#[cfg(test)]
mod tests;
