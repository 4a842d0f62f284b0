//! A value of every refusal that there is.

use std::convert::identity;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use weirgate::protocol::frame::{Bounds, Flaw, FlawKind, Paths, scan};
use weirgate::protocol::header::{Malformed, spelled};
use weirgate::protocol::refusal::{
    BodyFault, CatalogFault, HeaderFault, HttpFault, MessageFault, OverloadFault, Refusal,
    Unchecked, UpstreamFault, VersionFault,
};
use weirgate::protocol::version::{Version, Versions};

/// A refusal, and the variant that it is.
pub(crate) struct Sample {
    pub(crate) variant: &'static str,
    pub(crate) refusal: Refusal,
}

impl Sample {
    /// The raw id that is known when this is refused.
    pub(crate) fn id(&self) -> Option<Bytes> {
        match &self.refusal {
            Refusal::Http(_) => None,
            Refusal::Message(MessageFault::Unreadable(flaw)) => {
                flaw.id().map(Bytes::copy_from_slice)
            }
            Refusal::Message(_)
            | Refusal::Header(_)
            | Refusal::Version(_)
            | Refusal::Overload(_)
            | Refusal::Catalog(_)
            | Refusal::Upstream(_) => Some(Bytes::from_static(b"7")),
        }
    }
}

/// Samples of every variant of one kind, which `$of` reads in a value. The match has no `_`, so a
/// new variant does not compile before it has a row here; and a value in the wrong row is noticed.
/// An empty row is for a variant that only holds another kind, which has its own rows.
macro_rules! every {
    ($type:ty, $of:expr, { $($variant:pat => [$($value:expr),* $(,)?],)+ }) => {
        in_rows(
            |value: &$type| match $of(value) {
                $($variant => stringify!($variant),)+
            },
            vec![$((stringify!($variant), vec![$($value),*])),+],
        )
    };
}

fn in_rows<T: Debug>(
    variant_of: fn(&T) -> &'static str,
    rows: Vec<(&'static str, Vec<T>)>,
) -> Vec<(&'static str, T)> {
    let mut samples = Vec::new();
    for (variant, values) in rows {
        for value in values {
            assert_eq!(variant_of(&value), variant, "{value:?}");
            samples.push((variant.split([' ', '(']).next().unwrap_or_default(), value));
        }
    }
    samples
}

/// All of them, in the order in which the README lists them.
pub(crate) fn all() -> Vec<Sample> {
    // A new kind does not compile before it is here, and its samples belong below.
    const _: fn(&Refusal) = |refusal| match refusal {
        Refusal::Message(_)
        | Refusal::Header(_)
        | Refusal::Version(_)
        | Refusal::Http(_)
        | Refusal::Overload(_)
        | Refusal::Catalog(_)
        | Refusal::Upstream(_) => {}
    };
    let flaws = flaws()
        .into_iter()
        .map(|(variant, flaw)| (variant, MessageFault::Unreadable(flaw)));
    [
        named(http_faults()),
        named(body_faults()),
        named(flaws),
        named(message_faults()),
        named(header_faults()),
        named(version_faults()),
        named(overload_faults()),
        named(catalog_faults()),
        named(upstream_faults()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn named<T: Into<Refusal>>(faults: impl IntoIterator<Item = (&'static str, T)>) -> Vec<Sample> {
    let samples = faults.into_iter().map(|(variant, fault)| Sample {
        variant,
        refusal: fault.into(),
    });
    samples.collect()
}

fn http_faults() -> Vec<(&'static str, HttpFault)> {
    every!(HttpFault, identity, {
        HttpFault::NotFound => [HttpFault::NotFound],
        HttpFault::WellKnown => [HttpFault::WellKnown],
        HttpFault::MethodNotAllowed { .. } => [
            HttpFault::MethodNotAllowed { allow: "POST, OPTIONS" },
        ],
        HttpFault::PathUnclear { .. } => [HttpFault::PathUnclear {
            why: "the path has a dot segment (`.` or `..`), which some servers resolve".into(),
        }],
        HttpFault::HostUnclear { .. } => [HttpFault::HostUnclear { why: "is missing" }],
        HttpFault::Host { .. } => [HttpFault::Host { host: "elsewhere.example".into() }],
        HttpFault::Origin { .. } => [
            HttpFault::Origin { origin: "https://elsewhere.example".into() },
        ],
        HttpFault::HeadTooLarge { .. } => [
            HttpFault::HeadTooLarge { limit: "listen.header_count_max", max: 64 },
            HttpFault::HeadTooLarge { limit: "listen.header_bytes_max", max: 32 << 10 },
        ],
        HttpFault::TargetTooLong => [HttpFault::TargetTooLong],
        HttpFault::Body(_) => [],
    })
}

fn body_faults() -> Vec<(&'static str, BodyFault)> {
    every!(BodyFault, identity, {
        BodyFault::TransferCoding => [BodyFault::TransferCoding],
        BodyFault::LengthBesideChunks => [BodyFault::LengthBesideChunks],
        BodyFault::MediaType { .. } => [BodyFault::MediaType { found: "text/plain".into() }],
        BodyFault::ContentEncoding { .. } => [BodyFault::ContentEncoding { found: "gzip".into() }],
        BodyFault::TooLarge { .. } => [
            BodyFault::TooLarge { limit: "bounds.body_bytes_max", max: 4 << 20 },
            BodyFault::TooLarge { limit: "bounds.stream_bytes_max", max: 256 << 20 },
        ],
        BodyFault::Padding { .. } => [BodyFault::Padding { max: 64 << 10 }],
        BodyFault::Timeout { .. } => [BodyFault::Timeout { max: Duration::from_secs(30) }],
        BodyFault::Broken => [BodyFault::Broken],
    })
}

fn flaws() -> Vec<(&'static str, Flaw)> {
    let long = "x".repeat(600);
    every!(Flaw, Flaw::kind, {
        FlawKind::Syntax => [flaw("{id: 7}")],
        FlawKind::ControlCharacter => [flaw("{\"id\": \"\n\"}")],
        FlawKind::BadEscape => [flaw(r#"{"id": "\x"}"#)],
        FlawKind::BadNumber => [flaw(r#"{"id": 7.}"#)],
        FlawKind::TrailingData => [flaw(r#"{"jsonrpc":"2.0","id":7,"method":"ping"} {}"#)],
        FlawKind::ByteOrderMark => [flaw("\u{feff}{}")],
        FlawKind::InvalidUtf8 => [flaw(b"{\"id\": \"\xff\"}")],
        FlawKind::Truncated => [flaw(r#"{"jsonrpc":"2.0","id":7"#), flaw("")],
        FlawKind::RootArray => [flaw(r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#)],
        FlawKind::RootScalar => [flaw("7")],
        FlawKind::TooDeep => [flaw(format!(r#"{{"id":7,"params":{{"a":{}"#, "[".repeat(64)))],
        FlawKind::RepeatedKey => [flaw(r#"{"jsonrpc":"2.0","id":7,"method":"a","method":"b"}"#)],
        FlawKind::CaseVariant => [flaw(r#"{"jsonrpc":"2.0","id":7,"Method":"tools/call"}"#)],
        FlawKind::TooManyKeys => [flaw(many_keys())],
        FlawKind::TooLong => [
            flaw(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{long}"}}"#)),
            flaw(format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#)),
            flaw(format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{}"}}}}"#,
                long.repeat(14)
            )),
        ],
        FlawKind::LoneSurrogate => [flaw(r#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#)],
        FlawKind::Version => [flaw(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#)],
        FlawKind::IdType => [flaw(r#"{"jsonrpc":"2.0","id":7.5,"method":"ping"}"#)],
        FlawKind::MethodMissing => [flaw(r#"{"jsonrpc":"2.0","id":7}"#)],
        FlawKind::MethodType => [flaw(r#"{"jsonrpc":"2.0","id":7,"method":7}"#)],
        FlawKind::ParamsType => [flaw(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#)],
        FlawKind::MethodAndResult => [
            flaw(r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#),
        ],
        FlawKind::ResultAndError => [flaw(r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#)],
    })
}

/// What the scanner has against `body`.
fn flaw(body: impl AsRef<[u8]>) -> Flaw {
    let body = Bytes::copy_from_slice(body.as_ref());
    scan(body, &Bounds::default(), &Paths::default()).expect_err("a body with a flaw")
}

fn many_keys() -> String {
    let keys: Vec<String> = (0..300).map(|number| format!("\"k{number}\":0")).collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{}}}}}"#,
        keys.join(",")
    )
}

fn message_faults() -> Vec<(&'static str, MessageFault)> {
    every!(MessageFault, identity, {
        MessageFault::ResponseNotAllowed => [MessageFault::ResponseNotAllowed],
        MessageFault::MetaKey { .. } => [MessageFault::MetaKey {
            key: "io.modelcontextprotocol/clientCapabilities",
            expected: "an object",
        }],
        MessageFault::MethodText { .. } => [MessageFault::MethodText {
            method: "wörk".into(),
        }],
        MessageFault::NameParameter { .. } => [MessageFault::NameParameter {
            key: "uri",
            method: "resources/read".into(),
        }],
        MessageFault::Unreadable(_) => [],
    })
}

fn header_faults() -> Vec<(&'static str, HeaderFault)> {
    let name = || spelled::NAME.to_owned();
    let param = || format!("{}Region", spelled::PARAM_PREFIX);
    let body = || Some("echo".to_owned());
    let malformed = |why| HeaderFault::Malformed {
        name: name(),
        why,
        body: body(),
    };
    let unchecked = |why| HeaderFault::Unchecked { name: param(), why };
    // A new way to be malformed does not compile before it has a sample below.
    const _: fn(Malformed) = |why| match why {
        Malformed::Byte
        | Malformed::Base64
        | Malformed::Utf8
        | Malformed::TooLong
        | Malformed::Number => {}
    };
    const _: fn(Unchecked) = |why| match why {
        Unchecked::TooLong { .. } | Unchecked::Surrogate | Unchecked::Exponent => {}
    };
    every!(HeaderFault, identity, {
        HeaderFault::Missing { .. } => [
            HeaderFault::Missing { name: name(), body: body() },
            HeaderFault::Missing { name: spelled::PROTOCOL_VERSION.into(), body: None },
            HeaderFault::Missing { name: param(), body: Some("us-west1".into()) },
        ],
        HeaderFault::Repeated { .. } => [HeaderFault::Repeated { name: name() }],
        HeaderFault::Malformed { .. } => [
            malformed(Malformed::Byte),
            malformed(Malformed::Base64),
            malformed(Malformed::Utf8),
            malformed(Malformed::TooLong),
            HeaderFault::Malformed {
                name: param(),
                why: Malformed::Number,
                body: Some("42".into()),
            },
            HeaderFault::Malformed {
                name: spelled::PROTOCOL_VERSION.into(),
                why: Malformed::Byte,
                body: None,
            },
        ],
        HeaderFault::Mismatch { .. } => [HeaderFault::Mismatch {
            name: name(),
            header: "forecast".into(),
            body: "echo".into(),
        }],
        HeaderFault::Unexpected { .. } => [HeaderFault::Unexpected {
            name: param(),
            header: "us-west1".into(),
            found: "null",
        }],
        HeaderFault::Unchecked { .. } => [
            unchecked(Unchecked::TooLong { max: 8 << 10 }),
            unchecked(Unchecked::Surrogate),
            unchecked(Unchecked::Exponent),
        ],
        HeaderFault::Legacy { .. } => [HeaderFault::Legacy { name: name() }],
    })
}

fn version_faults() -> Vec<(&'static str, VersionFault)> {
    let modern_only = Versions::of(&[Version::V2026_07_28]);
    let legacy_only = Versions::of(&[Version::V2025_06_18, Version::V2025_11_25]);
    let both = Versions::of(&[Version::V2025_11_25, Version::V2026_07_28]);
    let unsupported = |requested: &str, supported| VersionFault::Unsupported {
        requested: requested.into(),
        supported,
    };
    every!(VersionFault, identity, {
        VersionFault::Unsupported { .. } => [
            unsupported("2024-11-05", both),
            unsupported("2026-07-28", legacy_only),
        ],
        VersionFault::Handshake { .. } => [VersionFault::Handshake {
            requested: "2025-11-25".into(),
            supported: modern_only,
        }],
        VersionFault::Negotiated { .. } => [VersionFault::Negotiated {
            requested: "2025-03-26".into(),
            supported: legacy_only,
        }],
        VersionFault::MethodNotFound { .. } => [VersionFault::MethodNotFound {
            method: "ping".into(),
            supported: both,
        }],
    })
}

fn overload_faults() -> Vec<(&'static str, OverloadFault)> {
    every!(OverloadFault, identity, {
        OverloadFault::Requests { .. } => [OverloadFault::Requests { max: 10_000 }],
    })
}

fn catalog_faults() -> Vec<(&'static str, CatalogFault)> {
    every!(CatalogFault, identity, {
        CatalogFault::Unknown { .. } => [CatalogFault::Unknown {
            upstream: "weather".into(),
            tool: "query".into(),
        }],
        CatalogFault::NotPinned { .. } => [CatalogFault::NotPinned {
            tool: "query".into(),
            how: "was not pinned",
        }],
    })
}

fn upstream_faults() -> Vec<(&'static str, UpstreamFault)> {
    let upstream = || "weather".to_owned();
    every!(UpstreamFault, identity, {
        UpstreamFault::Failed { .. } => [UpstreamFault::Failed {
            upstream: upstream(),
            what: "cannot be reached",
            detail: "for the log alone".into(),
        }],
        UpstreamFault::Refused { .. } => [
            UpstreamFault::Refused {
                upstream: upstream(),
                status: 401,
                challenge: Some(HeaderValue::from_static("Bearer resource_metadata=\"https://x\"")),
            },
            UpstreamFault::Refused {
                upstream: upstream(),
                status: 403,
                challenge: None,
            },
            UpstreamFault::Refused {
                upstream: upstream(),
                status: 404,
                challenge: None,
            },
        ],
        UpstreamFault::Timeout { .. } => [
            UpstreamFault::Timeout {
                upstream: upstream(),
                limit: "connect_timeout",
                max: Duration::from_secs(5),
            },
            UpstreamFault::Timeout {
                upstream: upstream(),
                limit: "response_header_timeout",
                max: Duration::from_secs(300),
            },
            UpstreamFault::Timeout {
                upstream: upstream(),
                limit: "deadline.tools",
                max: Duration::from_secs(600),
            },
        ],
        UpstreamFault::Unreadable { .. } => [UpstreamFault::Unreadable {
            upstream: upstream(),
            what: "an answer that must be read and cannot be",
        }],
    })
}
