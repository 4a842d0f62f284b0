//! Refusals of the HTTP request around a message.

use std::time::Duration;

use super::telling::{Telling, quoted};

/// What is said, in HTTP/1.1, to a client that is not encrypted where it must be.
pub const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\n\r\nthis port speaks TLS: the URL must begin with `https://`.\n";

/// What is wrong with a request.
#[derive(Debug)]
pub enum HttpFault {
    /// The HTTP method is not served on this path.
    MethodNotAllowed {
        /// What is, as `Allow` lists it.
        allow: &'static str,
    },
    /// No route has this path.
    NotFound,
    /// A well-known path that no route declares.
    WellKnown,
    /// The path can be read as more than one, where a route takes many.
    PathUnclear {
        /// What is wrong.
        why: String,
    },
    /// `Host` is missing, repeated or malformed.
    HostUnclear {
        /// What is wrong.
        why: &'static str,
    },
    /// `Host` names somebody else.
    Host {
        /// What it says.
        host: String,
    },
    /// `Origin` is not let in.
    Origin {
        /// What it says.
        origin: String,
    },
    /// Too many or too long header fields.
    HeadTooLarge {
        /// The bound's name in the policy.
        limit: &'static str,
        /// The bound.
        max: usize,
    },
    /// The request's query, behind the upstream's path, is longer than a target can be.
    TargetTooLong,
    /// The body, or what the head says of it.
    Body(BodyFault),
}

/// What is wrong with the body of a request, or with what its head says of it.
#[derive(Debug)]
pub enum BodyFault {
    /// The body is not declared as JSON.
    MediaType {
        /// What it is declared as.
        found: String,
    },
    /// The body is encoded.
    ContentEncoding {
        /// How.
        found: String,
    },
    /// A transfer coding other than `chunked`.
    TransferCoding,
    /// A length beside chunks: hops before us may have gone by the one or by the other.
    LengthBesideChunks,
    /// The body is too long.
    TooLarge {
        /// The bound's name in the policy.
        limit: &'static str,
        /// The bound, in bytes.
        max: usize,
    },
    /// A body that streams has too many blanks behind its message, which must be held.
    Padding {
        /// The bound, in bytes.
        max: usize,
    },
    /// The client paused for too long while it sent the body.
    Timeout {
        /// The bound.
        max: Duration,
    },
    /// The body broke off, or its chunks could not be read.
    Broken,
}

impl From<BodyFault> for HttpFault {
    fn from(fault: BodyFault) -> HttpFault {
        HttpFault::Body(fault)
    }
}

impl HttpFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            HttpFault::MethodNotAllowed { allow } => Telling::own(
                "method_not_allowed",
                405,
                format!(
                    "this request may not be made with this HTTP method; this path takes {allow}"
                ),
            )
            .allow(allow)
            .hint(
                "send messages with POST; GET and DELETE are for sessions of versions before \
                 2026-07-28, and must name the session or its version",
            ),
            HttpFault::NotFound => Telling::own(
                "not_found",
                404,
                "no route of this gateway has this path".into(),
            )
            .hint("paths are compared exactly; see the routes of the policy"),
            HttpFault::WellKnown => Telling::own(
                "well_known",
                404,
                "this gateway publishes no document at this path".into(),
            ),
            HttpFault::PathUnclear { why } => Telling::own(
                "path_unclear",
                400,
                format!("this is not one clear path: {why}"),
            )
            .hint("write the path plainly, as the server reads it"),
            HttpFault::HostUnclear { why } => {
                Telling::own("host_unclear", 400, format!("Host header {why}")).header("Host")
            }
            HttpFault::Host { host } => Telling::own(
                "host",
                403,
                format!(
                    "Host header names {}, which is not served here",
                    quoted(host)
                ),
            )
            .header("Host")
            .hint("name the host in the route's hosts"),
            HttpFault::Origin { origin } => Telling::own(
                "origin",
                403,
                format!("Origin {} is not allowed here", quoted(origin)),
            )
            .header("Origin")
            .hint("name the origin in the route's origins"),
            HttpFault::HeadTooLarge { limit, max } => Telling::own(
                "head_too_large",
                431,
                format!("the request's header fields exceed {limit} ({max})"),
            )
            .limit(limit),
            HttpFault::TargetTooLong => Telling::own(
                "target_too_long",
                414,
                "the request's query is too long to stand behind the upstream's path".into(),
            )
            .hint("shorten the query, or the path in the upstream's url"),
            HttpFault::Body(fault) => fault.telling(),
        }
    }
}

impl BodyFault {
    fn telling(&self) -> Telling {
        match self {
            BodyFault::MediaType { found } => Telling::own(
                "media_type",
                415,
                format!(
                    "Content-Type must be application/json in one header line, but is {}",
                    quoted(found)
                ),
            )
            .header("Content-Type"),
            BodyFault::ContentEncoding { found } => Telling::own(
                "content_encoding",
                415,
                format!("Content-Encoding {} is not accepted", quoted(found)),
            )
            .header("Content-Encoding")
            .hint("send the body as it is"),
            BodyFault::TransferCoding => Telling::own(
                "transfer_coding",
                400,
                "Transfer-Encoding must be absent or \"chunked\", in one header line".into(),
            )
            .header("Transfer-Encoding"),
            BodyFault::LengthBesideChunks => Telling::own(
                "length_beside_chunks",
                400,
                "Content-Length may not stand beside Transfer-Encoding".into(),
            )
            .header("Content-Length")
            .hint("send one of the two; whoever stands between may have read the body by either")
            .closes(),
            BodyFault::TooLarge { limit, max } => Telling::own(
                "body_too_large",
                413,
                format!("the request's body exceeds {limit} ({max} bytes)"),
            )
            .limit(limit)
            .hint(
                "send less, or raise the bound; a body passes up to bounds.stream_bytes_max if \
                 its routing headers are those of a request of 2026-07-28",
            ),
            BodyFault::Padding { max } => Telling::own(
                "body_padding",
                413,
                format!(
                    "more than bounds.buffer_bytes ({max} bytes) follow the message in the \
                     request's body"
                ),
            )
            .limit("bounds.buffer_bytes")
            .hint("end the body with the message's closing brace"),
            BodyFault::Timeout { max } => Telling::own(
                "body_timeout",
                408,
                format!("the request's body paused for over bounds.body_idle_timeout ({max:?})"),
            )
            .limit("bounds.body_idle_timeout")
            .closes(),
            BodyFault::Broken => Telling::own(
                "body_broken",
                400,
                "the request's body broke off, or its chunks cannot be read".into(),
            )
            .closes(),
        }
    }
}
