//! What the admin listener shows of a running gateway.

use crate::admin::inspection::{Entries, Entry, Filter, Inspected, Pinned};
use crate::gateway::Gateway;

impl Inspected for Gateway {
    fn entries(&self, filter: &Filter, max: usize) -> Entries {
        let Filter { route, method, uri } = filter;
        let mut found = self.remembered(route.as_deref(), method.as_deref(), uri.as_deref());
        let entries = found.by_ref().take(max).map(|entry| Entry {
            route: entry.route,
            upstream: entry.upstream,
            method: entry.method,
            version: entry.version,
            uri: entry.uri,
            cursor: entry.cursor,
            audience: entry.audience,
            age: entry.age,
            ttl_left: entry.ttl_left,
            bytes: entry.bytes,
            hits: entry.hits,
        });
        Entries {
            found: entries.collect(),
            truncated: found.next().is_some(),
        }
    }

    fn purge(&self, filter: &Filter) -> usize {
        let Filter { route, method, uri } = filter;
        self.forget(route.as_deref(), method.as_deref(), uri.as_deref())
    }

    fn pins(&self) -> Vec<Pinned> {
        let pinned = self.pinned().map(|pinned| Pinned {
            route: pinned.route,
            file: pinned.file.display().to_string(),
            on_change: pinned.on_change,
            difference: pinned.difference,
        });
        pinned.collect()
    }
}
