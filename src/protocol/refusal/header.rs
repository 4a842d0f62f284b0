//! Refusals of the routing headers: `HeaderMismatch` (specification, "Server Validation").

use super::telling::{Telling, code, quoted};
use crate::protocol::header::{Malformed, spelled};

/// Why a header cannot be held against the argument that it repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unchecked {
    /// The argument is longer than what is compared.
    TooLong {
        /// Most bytes of an argument that is compared, as it is written.
        max: usize,
    },
    /// The argument has half of a surrogate pair, which no header can encode.
    Surrogate,
    /// The argument is a number whose exponent is beyond all use.
    Exponent,
}

/// What is wrong with a routing header. `name` is the header, as the specification spells it.
#[derive(Debug)]
pub enum HeaderFault {
    /// A required one is missing.
    Missing {
        /// The header.
        name: String,
        /// What it must say, where the body knows.
        body: Option<String>,
    },
    /// It stands more than once.
    Repeated {
        /// The header.
        name: String,
    },
    /// It cannot be decoded.
    Malformed {
        /// The header.
        name: String,
        /// What is wrong with it.
        why: Malformed,
        /// What it must say, where the body knows.
        body: Option<String>,
    },
    /// It and the body differ.
    Mismatch {
        /// The header.
        name: String,
        /// What it says.
        header: String,
        /// What the body says.
        body: String,
    },
    /// It repeats an argument, and there is none that a header can repeat.
    Unexpected {
        /// The header.
        name: String,
        /// What it says.
        header: String,
        /// What the argument is: "not there", "null", …
        found: &'static str,
    },
    /// It repeats an argument, which cannot be read.
    Unchecked {
        /// The header.
        name: String,
        /// Why not.
        why: Unchecked,
    },
    /// It stands on a legacy request, where the route refuses that.
    Legacy {
        /// The header.
        name: String,
    },
}

impl HeaderFault {
    /// Whether it is about the header of an argument, which the definition of a tool asks for.
    #[must_use]
    pub fn is_of_argument(&self) -> bool {
        let (HeaderFault::Missing { name, .. }
        | HeaderFault::Repeated { name }
        | HeaderFault::Malformed { name, .. }
        | HeaderFault::Mismatch { name, .. }
        | HeaderFault::Unexpected { name, .. }
        | HeaderFault::Unchecked { name, .. }
        | HeaderFault::Legacy { name }) = self;
        name.starts_with(spelled::PARAM_PREFIX)
    }

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
            .hint(missing_hint(name, body.is_some())),
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
            HeaderFault::Unexpected {
                name,
                header,
                found,
            } => mismatch(
                "header_unexpected",
                format!(
                    "{name} header says {}, but the argument that it repeats is {found}",
                    quoted(header)
                ),
            )
            .header(name)
            .hint("leave the header out where the argument is no string, number or boolean"),
            HeaderFault::Unchecked { name, why } => unchecked(name, *why),
            HeaderFault::Legacy { name } => mismatch(
                "legacy_header",
                format!("{name} header is refused here: no version before 2026-07-28 validates it"),
            )
            .header(name)
            .hint("leave the header out, or set protocol.routing_headers.legacy: verify or drop"),
        }
    }
}

fn missing_hint(name: &str, known: bool) -> &'static str {
    if name.starts_with(spelled::PARAM_PREFIX) {
        return "list the tools again and send the headers that the tool's inputSchema asks for, or set \
                protocol.routing_headers.missing: mirror on the route for clients that lag";
    }
    if known {
        return "send the header as the specification says, or set \
                protocol.routing_headers.missing: mirror on the route for clients that lag";
    }
    // Without a version nothing says that the request is a modern one.
    "send the header as the specification says, or list \"2025-03-26\" in \
     protocol.versions of the route for clients that never send it"
}

fn unchecked(name: &str, why: Unchecked) -> Telling {
    let (why, hint) = match why {
        Unchecked::TooLong { max } => (
            format!("is longer than {max} bytes"),
            "send a shorter argument, or raise bounds.name_bytes_max of the route",
        ),
        Unchecked::Surrogate => (
            "has half of a surrogate pair".to_owned(),
            "send text that is valid Unicode",
        ),
        Unchecked::Exponent => (
            "has an exponent beyond ±999999999".to_owned(),
            "send a number that readers can hold",
        ),
    };
    let message = format!(
        "{name} header cannot be held against the body: the argument that it repeats {why}"
    );
    let telling = Telling::protocol("header_unchecked", code::HEADER_MISMATCH, message);
    telling.header(name).hint(hint)
}
