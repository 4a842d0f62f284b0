//! Refusals of the routing headers: `HeaderMismatch` (specification, "Server Validation").

use super::telling::{Telling, code, quoted};
use crate::protocol::header::Malformed;

/// What is wrong with a routing header. `name` is the header, as the specification spells it.
#[derive(Debug)]
pub enum HeaderFault {
    /// A required one is missing.
    Missing {
        /// The header.
        name: &'static str,
        /// What it must say, where the body knows.
        body: Option<String>,
    },
    /// It stands more than once.
    Repeated {
        /// The header.
        name: &'static str,
    },
    /// It cannot be decoded.
    Malformed {
        /// The header.
        name: &'static str,
        /// What is wrong with it.
        why: Malformed,
        /// What it must say, where the body knows.
        body: Option<String>,
    },
    /// It and the body differ.
    Mismatch {
        /// The header.
        name: &'static str,
        /// What it says.
        header: String,
        /// What the body says.
        body: String,
    },
    /// It stands on a legacy request, where the route refuses that.
    Legacy {
        /// The header.
        name: String,
    },
}

impl HeaderFault {
    pub(super) fn telling(&self) -> Telling {
        let mismatch = |reason, message| Telling::protocol(reason, code::HEADER_MISMATCH, message);
        match self {
            HeaderFault::Missing { name, body } => mismatch(
                "header_missing",
                match body {
                    Some(body) => {
                        format!("{name} header is missing; the body says {}", quoted(body))
                    }
                    None => format!("{name} header is missing"),
                },
            )
            .header(name)
            .hint(match body {
                Some(_) => {
                    "send the header as the specification says, or set \
                     protocol.routing_headers.missing: mirror on the route for clients that lag"
                }
                // Without a version nothing says that the request is a modern one.
                None => {
                    "send the header as the specification says, or list \"2025-03-26\" in \
                     protocol.versions of the route for clients that never send it"
                }
            }),
            HeaderFault::Repeated { name } => mismatch(
                "header_repeated",
                format!("{name} header stands more than once; it may stand once only"),
            )
            .header(name)
            .hint("send one header line with this name"),
            HeaderFault::Malformed { name, why, body } => mismatch(
                "header_malformed",
                match body {
                    Some(body) => format!(
                        "{name} header cannot be read: {why}; the body says {}",
                        quoted(body)
                    ),
                    None => format!("{name} header cannot be read: {why}"),
                },
            )
            .header(name)
            .hint(match body {
                Some(_) => "send the body's value, base64-encoded where it is not plain ASCII",
                None => "send the version in plain ASCII",
            }),
            HeaderFault::Mismatch { name, header, body } => mismatch(
                "header_mismatch",
                format!(
                    "{name} header says {}, but the body says {}",
                    quoted(header),
                    quoted(body)
                ),
            )
            .header(name)
            .hint("send the header with the value that the body has"),
            HeaderFault::Legacy { name } => mismatch(
                "legacy_header",
                format!("{name} header is refused here: no version before 2026-07-28 validates it"),
            )
            .header(name)
            .hint("leave the header out, or set protocol.routing_headers.legacy: verify or drop"),
        }
    }
}
