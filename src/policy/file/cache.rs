//! `cache` and `catalog`, of routes and of the defaults, and the `cache` of the gateway as a whole:
//! what is served from memory, and what is learned from lists.

use std::time::Duration;

use crate::policy::finding::Flaw;
use crate::policy::plan::{Cache, Catalog, LegacyCache, LegacyScope, Memory, Order, Protocol};
use crate::policy::unit::{duration, size};

use super::Setting;
use super::key::{self, Key, SWITCH, Section, Seen, Shown, word};
use super::node::Node;
use super::protocol::no_effect;
use super::reader::Reader;

pub(super) const MEMORY: &[Key<Memory>] = &[
    Key {
        name: "bytes_max",
        // With 0 nothing is kept.
        read: |m, n, r| r.size(n, 0..=1 << 40, &mut m.bytes_max),
        show: |m| Shown::value(size(m.bytes_max)),
    },
    Key {
        name: "entries_max",
        read: |m, n, r| r.count(n, 1..=10_000_000, &mut m.entries_max),
        show: |m| Shown::value(m.entries_max),
    },
    Key {
        name: "entry_bytes_max",
        read: |m, n, r| r.size(n, 1..=1 << 30, &mut m.entry_bytes_max),
        show: |m| Shown::value(size(m.entry_bytes_max as u64)),
    },
];

const CACHE: &[Key<Cache>] = &[
    Key {
        name: "max_ttl",
        read: |c, n, r| r.duration(n, &mut c.max_ttl),
        show: |c| Shown::value(duration(c.max_ttl)),
    },
    Key {
        name: "stale_if_error",
        read: |c, n, r| read_or_off(n, &mut c.stale_if_error, r),
        show: |c| Shown::value(or_off(c.stale_if_error)),
    },
    Key {
        name: "refresh_before",
        read: |c, n, r| read_or_off(n, &mut c.refresh_before, r),
        show: |c| Shown::value(or_off(c.refresh_before)),
    },
    Key {
        name: "wait_timeout",
        read: |c, n, r| r.duration(n, &mut c.wait_timeout),
        show: |c| Shown::value(duration(c.wait_timeout)),
    },
    Key {
        name: "waiters_max",
        // With 0 nobody waits, and every miss goes upstream.
        read: |c, n, r| r.count(n, 0..=10_000_000, &mut c.waiters_max),
        show: |c| Shown::value(c.waiters_max),
    },
    Key {
        name: "legacy",
        read: |c, n, r| read_legacy(n, &mut c.legacy, r),
        show: |c| show_legacy(c.legacy),
    },
];

/// What the keys of `cache.legacy` say.
#[derive(Default)]
struct DraftLegacy {
    ttl: Option<Duration>,
    scope: Option<LegacyScope>,
}

/// The words for [`LegacyScope`].
const SCOPES: [(&str, Option<LegacyScope>); 2] = [
    ("session", Some(LegacyScope::Session)),
    ("public", Some(LegacyScope::Public)),
];

const LEGACY: &[Key<DraftLegacy>] = &[
    Key {
        name: "ttl",
        read: |l, n, r| r.duration_or_off(n, &mut l.ttl),
        show: |l| Shown::value(l.ttl.map_or_else(|| "none".to_owned(), duration)),
    },
    Key {
        name: "scope",
        read: |l, n, r| r.choice(n, &SCOPES, &mut l.scope),
        show: |l| Shown::value(l.scope.map_or("none", |scope| word(&SCOPES, Some(scope)))),
    },
];

/// The words for [`Order`].
const ORDERS: [(&str, Order); 2] = [("upstream", Order::Upstream), ("name", Order::Name)];

const CATALOG: &[Key<Catalog>] = &[
    Key {
        name: "required",
        read: |c, n, r| r.choice(n, &SWITCH, &mut c.required),
        show: |c| Shown::value(c.required),
    },
    Key {
        name: "order",
        read: |c, n, r| r.choice(n, &ORDERS, &mut c.order),
        show: |c| Shown::value(word(&ORDERS, c.order)),
    },
    Key {
        name: "max_age",
        read: |c, n, r| r.duration(n, &mut c.max_age),
        show: |c| Shown::value(duration(c.max_age)),
    },
    Key {
        name: "tools_max",
        read: |c, n, r| r.count(n, 1..=1_000_000, &mut c.tools_max),
        show: |c| Shown::value(c.tools_max),
    },
    Key {
        name: "list_bytes_max",
        read: |c, n, r| r.size(n, 1..=1 << 30, &mut c.list_bytes_max),
        show: |c| Shown::value(size(c.list_bytes_max as u64)),
    },
    Key {
        name: "lists_max",
        read: |c, n, r| r.count(n, 1..=1_000_000, &mut c.lists_max),
        show: |c| Shown::value(c.lists_max),
    },
];

/// Reads the `cache` of the gateway as a whole.
pub(super) fn read_memory(node: &Node, memory: &mut Memory, reader: &mut Reader<'_>) {
    let seen = key::read(node, "`cache`", MEMORY, memory, reader);
    let bytes_max = memory.bytes_max;
    let known = seen.knows("bytes_max") && seen.knows("entry_bytes_max");
    if memory.entry_bytes_max as u64 <= bytes_max || !known {
        return;
    }
    match seen.place("entry_bytes_max") {
        Some(written) => {
            let flaw = Flaw::new(
                format!(
                    "`entry_bytes_max` is {} and could never be reached, because `bytes_max` is {}",
                    size(memory.entry_bytes_max as u64),
                    size(bytes_max)
                ),
                "lower the one or raise the other; what is not written has its default",
            );
            reader.refuse(written, flaw);
        }
        // A default gives way to what was written.
        None => memory.entry_bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX),
    }
}

/// Reads `cache` of a route or of the defaults: a mapping, or `off`.
pub(super) fn read(node: &Node, cache: &mut Section<Cache>, reader: &mut Reader<'_>) {
    cache.value.enabled = !reader.is_word(node, "off");
    if !cache.value.enabled {
        return;
    }
    cache.read(node, "`cache`", CACHE, reader);
    let Section { value: cache, seen } = cache;
    if let Some(written) = seen.place("refresh_before")
        && seen.knows("refresh_before")
        && seen.knows("max_ttl")
        && cache.refresh_before >= cache.max_ttl
    {
        let flaw = Flaw::new(
            "with this every answer is fetched again with each use, because none is fresh for longer \
             than `max_ttl`",
            "lower `refresh_before`, or raise `max_ttl`",
        );
        reader.refuse(written, flaw);
    }
    if let Some(written) = node.find_path(&["legacy", "ttl"])
        && let Some(legacy) = cache.legacy
        && legacy.ttl > cache.max_ttl
    {
        let flaw = Flaw::new(
            "this has no effect beyond `max_ttl`",
            "lower `ttl`, or raise `max_ttl`",
        );
        reader.warn(&written.place, flaw);
    }
}

/// Reads `catalog` of a route or of the defaults: a mapping, or `off`.
pub(super) fn read_catalog(node: &Node, catalog: &mut Catalog, reader: &mut Reader<'_>) {
    catalog.enabled = !reader.is_word(node, "off");
    if !catalog.enabled {
        return;
    }
    key::read(node, "`catalog`", CATALOG, catalog, reader);
}

/// Refuses and warns of what a route says and its versions do not bear; `route` is what became of the
/// keys of the route.
pub(super) fn check(
    route: &Seen,
    cache: &Section<Cache>,
    catalog: &Catalog,
    protocol: &Section<Protocol>,
    reader: &mut Reader<'_>,
) {
    let versions = protocol.value.versions;
    if let Some(written) = route.place("catalog").filter(|_| catalog.enabled)
        && protocol.seen.knows("versions")
        && !versions.serves_modern()
    {
        let flaw = Flaw::new(
            "nothing is enforced by `catalog` where no modern version is listed",
            "remove it, or list a modern version under `protocol.versions`",
        );
        reader.refuse(written, flaw);
    }
    let Section { value: cache, seen } = cache;
    let Some(written) = route.place("cache").filter(|_| cache.enabled) else {
        return;
    };
    if !versions.serves_modern() && cache.legacy.is_none() {
        let flaw = Flaw::new(
            "this has no effect, because only legacy versions are listed, whose answers do not say \
             whether they may be kept",
            "remove it, or write `legacy: { ttl: …, scope: … }` below it",
        );
        reader.warn(written, flaw);
    }
    if let Some(legacy) = seen.place("legacy")
        && cache.legacy.is_some()
        && !versions.serves_legacy()
    {
        reader.warn(legacy, no_effect("legacy"));
    }
}

/// The default of each key of `cache`.
pub(super) fn show(cache: &Cache) -> Shown {
    key::show(CACHE, cache)
}

/// The default of each key of `catalog`.
pub(super) fn show_catalog(catalog: &Catalog) -> Shown {
    key::show(CATALOG, catalog)
}

/// The setting of a route that has `key` off.
pub(super) fn off(key: &str) -> Setting {
    Setting {
        key: key.to_owned(),
        value: "off".to_owned(),
        default: "on".to_owned(),
    }
}

/// Reads `cache.legacy`: both of its keys, because neither has a default that anybody could guess;
/// or `off`.
fn read_legacy(node: &Node, legacy: &mut Option<LegacyCache>, reader: &mut Reader<'_>) {
    if reader.is_word(node, "off") {
        *legacy = None;
        return;
    }
    let mut draft = DraftLegacy::default();
    let seen = key::read(node, "`legacy`", LEGACY, &mut draft, reader);
    if draft.ttl.is_none() && seen.knows("ttl") {
        let flaw = Flaw::new(
            "`legacy` has no `ttl`, and legacy answers have none of their own",
            "write `ttl: 5m`, or `legacy: off`",
        );
        reader.refuse(&node.place, flaw);
    }
    if draft.scope.is_none() && seen.knows("scope") {
        let flaw = Flaw::new(
            "`legacy` has no `scope`, and legacy answers do not say who may be given them",
            "write `scope: session`, or `scope: public` if they are the same for everybody",
        );
        reader.refuse(&node.place, flaw);
    }
    if let (Some(ttl), Some(scope)) = (draft.ttl, draft.scope) {
        *legacy = Some(LegacyCache { ttl, scope });
    }
}

fn show_legacy(legacy: Option<LegacyCache>) -> Shown {
    let draft = DraftLegacy {
        ttl: legacy.map(|legacy| legacy.ttl),
        scope: legacy.map(|legacy| legacy.scope),
    };
    key::show(LEGACY, &draft)
}

/// Reads a time, or `off` for zero.
fn read_or_off(node: &Node, into: &mut Duration, reader: &mut Reader<'_>) {
    let mut time = Some(*into);
    reader.duration_or_off(node, &mut time);
    *into = time.unwrap_or_default();
}

fn or_off(time: Duration) -> String {
    if time.is_zero() {
        "off".to_owned()
    } else {
        duration(time)
    }
}
