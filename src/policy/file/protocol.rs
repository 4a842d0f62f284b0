//! `protocol` and `bounds`, of routes and of the defaults.

use crate::policy::finding::{Flaw, shown};
use crate::policy::plan::{Bounds, Cors, LegacyHeaders, LegacyRefusals, Missing, Protocol, Route};
use crate::policy::unit::{duration, size};
use crate::protocol::lexer::DEPTH_MAX;
use crate::protocol::version::{Version, Versions};

use super::Setting;
use super::key::{self, Key, Shown};
use super::node::{Data, Node, is_date};
use super::reader::Reader;

const MISSING: [(&str, Missing); 2] = [("reject", Missing::Reject), ("mirror", Missing::Mirror)];

const LEGACY: [(&str, LegacyHeaders); 3] = [
    ("verify", LegacyHeaders::Verify),
    ("drop", LegacyHeaders::Drop),
    ("refuse", LegacyHeaders::Refuse),
];

const LEGACY_REFUSALS: [(&str, LegacyRefusals); 2] = [
    ("in_band", LegacyRefusals::InBand),
    ("status", LegacyRefusals::Status),
];

/// The word of `choices` that stands for `value`.
pub(super) fn word<T: PartialEq>(choices: &[(&'static str, T)], value: T) -> &'static str {
    choices
        .iter()
        .find(|(_, choice)| *choice == value)
        .map_or("", |(word, _)| word)
}

pub(super) const PROTOCOL: &[Key<Protocol>] = &[
    Key {
        name: "versions",
        read: read_versions,
        show: |p| {
            let versions: Vec<_> = p.versions.iter().map(|v| format!("\"{v}\"")).collect();
            Shown::Value(format!("[{}]", versions.join(", ")))
        },
    },
    Key {
        name: "routing_headers",
        read: |p, n, r| {
            key::read(n, "`routing_headers`", ROUTING_HEADERS, p, r);
        },
        show: |p| key::show(ROUTING_HEADERS, p),
    },
    Key {
        name: "legacy_refusals",
        read: |p, n, r| r.choice(n, &LEGACY_REFUSALS, &mut p.legacy_refusals),
        show: |p| Shown::value(word(&LEGACY_REFUSALS, p.legacy_refusals)),
    },
];

const ROUTING_HEADERS: &[Key<Protocol>] = &[
    Key {
        name: "missing",
        read: |p, n, r| r.choice(n, &MISSING, &mut p.missing),
        show: |p| Shown::value(word(&MISSING, p.missing)),
    },
    Key {
        name: "legacy",
        read: |p, n, r| r.choice(n, &LEGACY, &mut p.legacy),
        show: |p| Shown::value(word(&LEGACY, p.legacy)),
    },
];

/// Reads `protocol`, and warns of what has no effect or a surprising one.
pub(super) fn read(node: &Node, protocol: &mut Protocol, reader: &mut Reader<'_>) {
    if !key::read(node, "`protocol`", PROTOCOL, protocol, reader) {
        return;
    }
    let versions = protocol.versions;
    let no_effect = |era: &str| {
        Flaw::new(
            format!("this has no effect, because no {era} version is listed"),
            format!("remove it, or list a {era} version"),
        )
    };
    if let Some(missing) = node.find_path(&["routing_headers", "missing"])
        && !versions.serves_modern()
    {
        reader.warn(&missing.place, no_effect("modern"));
    }
    for path in [&["routing_headers", "legacy"][..], &["legacy_refusals"]] {
        if let Some(legacy) = node.find_path(path)
            && !versions.serves_legacy()
        {
            reader.warn(&legacy.place, no_effect("legacy"));
        }
    }
    if let Some(refusals) = node.find("legacy_refusals")
        && protocol.legacy_refusals == LegacyRefusals::Status
        && versions.serves_legacy()
    {
        reader.warn(
            &refusals.place,
            Flaw::new(
                "Python clients of legacy versions lose their session over a status of 4xx or 5xx",
                "keep `in_band` unless your clients cope",
            ),
        );
    }
}

/// Reads the versions of a route. They look like dates, which is why they must be quoted: a YAML
/// 1.1 reader makes a timestamp of them.
fn read_versions(protocol: &mut Protocol, node: &Node, reader: &mut Reader<'_>) {
    let wanted = "a list of quoted versions such as [\"2026-07-28\"]";
    if let Data::Scalar(scalar) = &node.data
        && is_date(&scalar.text)
    {
        let flaw = Flaw::new(
            format!("expected a list, found the version {}", shown(&scalar.text)),
            format!("write it in brackets and quotes: `[\"{}\"]`", scalar.text),
        );
        reader.refuse(&node.place, flaw);
        return;
    }
    let Some(versions) = reader.texts(node, wanted, parse_version) else {
        return;
    };
    protocol.versions = Versions::of(&versions);
    let Data::List(elements) = &node.data else {
        return;
    };
    for element in elements {
        if let Data::Scalar(scalar) = &element.data
            && let Some(flaw) = surprise(&scalar.text)
        {
            reader.warn(&element.place, flaw);
        }
    }
}

/// What somebody who lists this version may not expect.
fn surprise(version: &str) -> Option<Flaw> {
    match Version::parse(version)? {
        Version::V2025_03_26 => Some(Flaw::new(
            "JSON-RPC batches, which 2025-03-26 allows, are refused, and requests without a \
             version header are taken as legacy",
            "list 2025-03-26 only for clients that speak nothing newer",
        )),
        Version::V2024_11_05 => Some(Flaw::new(
            "2024-11-05 is served over Streamable HTTP only, not over its own HTTP+SSE transport, \
             and requests without a version header are taken as legacy",
            "list 2024-11-05 only for clients that need it",
        )),
        Version::V2025_06_18 | Version::V2025_11_25 | Version::V2026_07_28 => None,
    }
}

fn parse_version(text: &str) -> Result<Version, Flaw> {
    Version::parse(text).ok_or_else(|| {
        let known: Vec<_> = Version::ALL
            .iter()
            .rev()
            .map(|v| format!("\"{v}\""))
            .collect();
        Flaw::of(
            text,
            "is not a protocol version that this gateway knows",
            format!("known are {}", known.join(", ")),
        )
    })
}

pub(super) const BOUNDS: &[Key<Bounds>] = &[
    Key {
        name: "body_bytes_max",
        read: |b, n, r| r.size(n, 1..=1 << 30, &mut b.body_bytes_max),
        show: |b| Shown::value(size(b.body_bytes_max as u64)),
    },
    Key {
        name: "stream_bytes_max",
        // With 0 no body streams.
        read: |b, n, r| r.size(n, 0..=1 << 40, &mut b.stream_bytes_max),
        show: |b| Shown::value(size(b.stream_bytes_max as u64)),
    },
    Key {
        name: "buffer_bytes",
        read: |b, n, r| r.size(n, 1..=1 << 30, &mut b.buffer_bytes),
        show: |b| Shown::value(size(b.buffer_bytes as u64)),
    },
    Key {
        name: "body_idle_timeout",
        read: |b, n, r| r.duration(n, &mut b.body_idle_timeout),
        show: |b| Shown::value(duration(b.body_idle_timeout)),
    },
    Key {
        name: "drain_bytes_max",
        // Nothing is drained with 0, and clients that are still sending then lose the answer.
        read: |b, n, r| r.size(n, 0..=1 << 30, &mut b.drain_bytes_max),
        show: |b| Shown::value(size(b.drain_bytes_max as u64)),
    },
    Key {
        name: "drain_timeout",
        read: |b, n, r| r.duration(n, &mut b.drain_timeout),
        show: |b| Shown::value(duration(b.drain_timeout)),
    },
    Key {
        name: "depth_max",
        // A tool call with client capabilities needs five levels.
        read: |b, n, r| r.count(n, 5..=DEPTH_MAX.into(), &mut b.message.depth_max),
        show: |b| Shown::value(b.message.depth_max),
    },
    Key {
        name: "keys_max",
        read: |b, n, r| r.count(n, 8..=1 << 16, &mut b.message.keys_max),
        show: |b| Shown::value(b.message.keys_max),
    },
    Key {
        name: "method_bytes_max",
        read: |b, n, r| r.size(n, 32..=64 << 10, &mut b.message.method_bytes_max),
        show: |b| Shown::value(size(b.message.method_bytes_max as u64)),
    },
    Key {
        name: "name_bytes_max",
        read: |b, n, r| r.size(n, 1..=1 << 20, &mut b.message.name_bytes_max),
        show: |b| Shown::value(size(b.message.name_bytes_max as u64)),
    },
    Key {
        name: "id_bytes_max",
        read: |b, n, r| r.size(n, 1..=64 << 10, &mut b.message.id_bytes_max),
        show: |b| Shown::value(size(b.message.id_bytes_max as u64)),
    },
    Key {
        name: "sessions_max",
        read: |b, n, r| r.count(n, 1..=10_000_000, &mut b.sessions_max),
        show: |b| Shown::value(b.sessions_max),
    },
    Key {
        name: "session_idle_timeout",
        read: |b, n, r| r.duration(n, &mut b.session_idle_timeout),
        show: |b| Shown::value(duration(b.session_idle_timeout)),
    },
];

/// What of a route is not at its default.
pub(super) fn settings(route: &Route) -> Vec<Setting> {
    let mut settings = key::differences(super::route::CORS, "cors", &route.cors, &Cors::default());
    if route.pass.is_none() {
        let default = Protocol::default();
        settings.extend(key::differences(
            PROTOCOL,
            "protocol",
            &route.protocol,
            &default,
        ));
    }
    settings.extend(key::differences(
        BOUNDS,
        "bounds",
        &route.bounds,
        &Bounds::default(),
    ));
    settings
}

/// Refuses bounds that contradict each other: the larger of the two could never be reached. `node`
/// is the mapping that has `bounds`; the finding stands where the lesser was written there.
pub(super) fn check_bounds(
    node: &Node,
    bounds: &Bounds,
    header_bytes_max: usize,
    reader: &mut Reader<'_>,
) {
    let bytes = |name: &str, value: usize| (name.to_owned(), value);
    let body = bytes("body_bytes_max", bounds.body_bytes_max);
    let name = bytes("name_bytes_max", bounds.message.name_bytes_max);
    let header = bytes("listen.header_bytes_max", header_bytes_max);
    for ((lesser, less), (greater, more)) in [
        (bytes("buffer_bytes", bounds.buffer_bytes), body.clone()),
        (name.clone(), body.clone()),
        (bytes("id_bytes_max", bounds.message.id_bytes_max), body),
        // A modern request repeats the name in a header.
        (name, header),
    ] {
        if less <= more {
            continue;
        }
        // A default that another bound makes unreachable means nothing, and harms nobody.
        if let Some(written) = node.find_path(&["bounds", &lesser]) {
            reader.refuse(
                &written.place,
                Flaw::new(
                    format!(
                        "`{lesser}` is {} and could never be reached, because `{greater}` is {}",
                        size(less as u64),
                        size(more as u64)
                    ),
                    "lower the one or raise the other; what is not written has its default",
                ),
            );
        }
    }
}
