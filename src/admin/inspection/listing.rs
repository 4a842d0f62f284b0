//! What is shown, as JSON of bounded length.

use serde_json::{Map, Value, json};

use super::{Entry, Filter, Inspected, Pinned};
use crate::policy::pin::OnChange;

/// Most entries of one answer.
pub(super) const ENTRIES_MAX: usize = 1000;
/// Most bytes of what peers have named in one answer; single URIs and cursors can be long.
const NAMED_BYTES_MAX: usize = 2 << 20;
/// Most tools of one answer.
pub(super) const TOOLS_MAX: usize = 1000;

/// The answers in memory that the filter admits.
pub(super) fn entries(inspected: &dyn Inspected, filter: &Filter) -> Value {
    let entries = inspected.entries(filter, ENTRIES_MAX);
    let mut named_bytes = 0;
    let shown: Vec<Value> = entries
        .found
        .iter()
        .take(ENTRIES_MAX)
        .take_while(|entry| {
            let named = [&entry.uri, &entry.cursor].into_iter().flatten();
            named_bytes += named.map(String::len).sum::<usize>();
            named_bytes <= NAMED_BYTES_MAX
        })
        .map(shown)
        .collect();
    let truncated = entries.truncated || shown.len() < entries.found.len();
    json!({ "entries": shown, "truncated": truncated })
}

fn shown(entry: &Entry) -> Value {
    let mut shown = json!({
        "route": entry.route,
        "upstream": entry.upstream,
        "method": entry.method,
        "version": entry.version,
        "audience": entry.audience,
        "age_seconds": entry.age.as_secs(),
        "ttl_left_seconds": entry.ttl_left.as_secs(),
        "bytes": entry.bytes,
        "hits": entry.hits,
    });
    for (name, value) in [("uri", &entry.uri), ("cursor", &entry.cursor)] {
        if let Some(value) = value {
            shown[name] = json!(value);
        }
    }
    shown
}

/// Where tools differ from what was pinned.
pub(super) fn pins(pins: &[Pinned]) -> Value {
    let mut room = TOOLS_MAX;
    let mut truncated = false;
    let mut cut = |tools: &[String]| {
        let shown = &tools[..tools.len().min(room)];
        room -= shown.len();
        truncated |= shown.len() < tools.len();
        json!(shown)
    };
    let mut routes = Map::new();
    for pin in pins {
        let mut route = json!({
            "file": pin.file,
            "on_change": match pin.on_change {
                OnChange::Warn => "warn",
                OnChange::Hide => "hide",
                OnChange::Block => "block",
            },
            "listed": pin.difference.is_some(),
        });
        if let Some(difference) = &pin.difference {
            route["changed"] = cut(&difference.changed);
            route["added"] = cut(&difference.added);
            route["vanished"] = cut(&difference.vanished);
        }
        routes.insert(pin.route.clone(), route);
    }
    json!({ "routes": routes, "truncated": truncated })
}
