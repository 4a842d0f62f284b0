//! What one refusal tells, before it is known to whom.

use std::fmt::Write as _;

use http::HeaderValue;
use serde::Serialize;

use crate::protocol::version::Versions;

/// JSON-RPC and MCP error codes (specification, "Error Codes").
pub(super) mod code {
    pub(in super::super) const PARSE: i32 = -32700;
    pub(in super::super) const INVALID_REQUEST: i32 = -32600;
    pub(in super::super) const METHOD_NOT_FOUND: i32 = -32601;
    pub(in super::super) const INVALID_PARAMS: i32 = -32602;
    pub(in super::super) const HEADER_MISMATCH: i32 = -32020;
    pub(in super::super) const UNSUPPORTED_VERSION: i32 = -32022;
}

/// Most characters of a peer's own text that an answer repeats.
const QUOTED_CHARS_MAX: usize = 200;

/// One row of the table of refusals, filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Telling {
    /// A stable name, for logs and for the README's table.
    pub reason: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The JSON-RPC code.
    pub code: i32,
    /// Whether a readable legacy request is told in band: as HTTP 200 with an error, because
    /// legacy clients lose their session over a status.
    pub in_band: bool,
    /// The sentence: what is wrong, and where.
    pub message: String,
    /// The error's `data`: which header, limit or version, and what to change.
    pub data: Data,
    /// What `Allow` says beside it.
    pub allow: Option<&'static str>,
    /// What `Retry-After` says beside it, in seconds.
    pub retry_after: Option<u32>,
    /// What `WWW-Authenticate` says beside it.
    pub challenge: Option<HeaderValue>,
    /// Whether the connection ends with it, because its next byte could be anything.
    pub closes: bool,
}

/// The `data` member of a refusal's JSON-RPC error.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Data {
    #[serde(skip_serializing_if = "Option::is_none")]
    supported: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

impl Telling {
    /// A refusal that the protocol defines: 400, with the code given.
    pub(super) fn protocol(reason: &'static str, code: i32, message: String) -> Telling {
        Telling {
            reason,
            status: 400,
            code,
            in_band: false,
            message,
            data: Data {
                reason: Some(reason),
                ..Data::default()
            },
            allow: None,
            retry_after: None,
            challenge: None,
            closes: false,
        }
    }

    /// A refusal of our own: the HTTP status is the code too, outside the range that JSON-RPC
    /// reserves.
    pub(super) fn own(reason: &'static str, status: u16, message: String) -> Telling {
        Telling {
            status,
            ..Telling::protocol(reason, i32::from(status), message)
        }
    }

    /// The header or the limit that it is about: what a log may say, where values may not stand.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.data.header.as_deref().or(self.data.limit)
    }

    pub(super) fn status(self, status: u16) -> Telling {
        Telling { status, ..self }
    }

    pub(super) fn in_band(self) -> Telling {
        Telling {
            in_band: true,
            ..self
        }
    }

    pub(super) fn allow(self, allow: &'static str) -> Telling {
        Telling {
            allow: Some(allow),
            ..self
        }
    }

    pub(super) fn retry_after(self, seconds: u32) -> Telling {
        Telling {
            retry_after: Some(seconds),
            ..self
        }
    }

    pub(super) fn challenge(self, challenge: Option<HeaderValue>) -> Telling {
        Telling { challenge, ..self }
    }

    pub(super) fn closes(self) -> Telling {
        Telling {
            closes: true,
            ..self
        }
    }

    pub(super) fn header(mut self, header: &str) -> Telling {
        self.data.header = Some(shortened(header));
        self
    }

    pub(super) fn limit(mut self, limit: &'static str) -> Telling {
        self.data.limit = Some(limit);
        self
    }

    pub(super) fn upstream(mut self, upstream: &str) -> Telling {
        self.data.upstream = Some(upstream.to_owned());
        self
    }

    pub(super) fn hint(mut self, hint: &'static str) -> Telling {
        self.data.hint = Some(hint);
        self
    }

    pub(super) fn supported(mut self, supported: Versions) -> Telling {
        self.data.supported = Some(names(supported));
        self
    }

    /// Exactly the data that the specification gives to errors about versions.
    pub(super) fn versions(mut self, requested: &str, supported: Versions) -> Telling {
        self.data = Data {
            requested: Some(shortened(requested)),
            ..Data::default()
        };
        self.supported(supported)
    }
}

fn names(versions: Versions) -> Vec<&'static str> {
    versions.iter().map(|version| version.as_str()).collect()
}

/// Versions for a sentence.
pub(super) fn list(versions: Versions) -> String {
    names(versions).join(", ")
}

fn shortened(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).collect()
}

/// A peer's text between quotation marks, bounded, with what would not print escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(QUOTED_CHARS_MAX) + 2);
    out.push('"');
    let mut chars = text.chars();
    for c in chars.by_ref().take(QUOTED_CHARS_MAX) {
        if c.is_control() {
            // Writing into a string cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_text_is_bounded_and_printable() {
        assert_eq!(quoted("a\nb\u{1b}[31m"), "\"a\\nb\\u{1b}[31m\"");
        let long = quoted(&"é".repeat(1000));
        assert_eq!(long.chars().count(), QUOTED_CHARS_MAX + 3);
        assert!(long.ends_with("…\""));
    }
}
