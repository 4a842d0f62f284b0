//! `protocol`, of routes and of the defaults: versions, and what becomes of headers.

use crate::policy::finding::{Flaw, shown};
use crate::policy::plan::{LegacyHeaders, LegacyRefusals, Missing, Protocol};
use crate::protocol::version::{Version, Versions};

use super::key::{self, Key, Section, Shown, word};
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
pub(super) fn read(node: &Node, protocol: &mut Section<Protocol>, reader: &mut Reader<'_>) {
    protocol.read(node, "`protocol`", PROTOCOL, reader);
    let protocol = &protocol.value;
    let versions = protocol.versions;
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

/// The flaw of what concerns the versions of an era of which none is accepted.
pub(super) fn no_effect(era: &str) -> Flaw {
    Flaw::new(
        format!("this has no effect, because no {era} version is listed"),
        format!("remove it, or list a {era} version"),
    )
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
