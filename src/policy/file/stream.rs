//! `streams` and `deadline`, of routes and of the defaults, and `shutdown`: how long an answer may
//! take on its way, and how it ends.

use std::time::Duration;

use crate::policy::finding::Flaw;
use crate::policy::plan::{Deadlines, Shutdown, StreamEnd, Streams};
use crate::policy::unit::duration;

use super::key::{self, Key, Shown, word};
use super::node::{Data, Node};
use super::reader::Reader;
use super::shape::Shape;

pub(super) const STREAMS: &[Key<Streams>] = &[
    Key {
        name: "keep_alive",
        read: |s, n, r| r.duration_or_off(n, &mut s.keep_alive),
        show: |s| Shown::value(or_off(s.keep_alive)),
    },
    Key {
        name: "idle_timeout",
        read: |s, n, r| r.duration(n, &mut s.idle_timeout),
        show: |s| Shown::value(duration(s.idle_timeout)),
    },
];

pub(super) const DEADLINES: &[Key<Deadlines>] = &[
    Key {
        name: "call",
        read: |d, n, r| r.duration_or_off(n, &mut d.call),
        show: |d| Shown::value(or_off(d.call)),
    },
    Key {
        name: "tools",
        read: read_tools,
        show: show_tools,
    },
];

const STREAM_ENDS: [(&str, StreamEnd); 2] = [("end", StreamEnd::End), ("break", StreamEnd::Break)];

pub(super) const SHUTDOWN: &[Key<Shutdown>] = &[
    Key {
        name: "notice",
        read: |s, n, r| r.duration(n, &mut s.notice),
        show: |s| Shown::value(duration(s.notice)),
    },
    Key {
        name: "timeout",
        read: |s, n, r| r.duration(n, &mut s.timeout),
        show: |s| Shown::value(duration(s.timeout)),
    },
    Key {
        name: "streams",
        read: |s, n, r| r.choice(n, &STREAM_ENDS, &mut s.streams),
        show: |s| Shown::value(word(&STREAM_ENDS, s.streams)),
    },
];

/// Reads `streams` of a route or of the defaults.
pub(super) fn read_streams(node: &Node, streams: &mut Streams, reader: &mut Reader<'_>) {
    key::read(node, "`streams`", STREAMS, streams, reader);
    if let Some(keep_alive) = node.find("keep_alive")
        && streams
            .keep_alive
            .is_some_and(|every| every >= streams.idle_timeout)
    {
        let flaw = Flaw::new(
            "this has no effect, because `idle_timeout` ends a stream that was silent for so long",
            "lower `keep_alive`, or raise `idle_timeout`",
        );
        reader.warn(&keep_alive.place, flaw);
    }
}

/// Reads `deadline` of a route or of the defaults.
pub(super) fn read_deadlines(node: &Node, deadlines: &mut Deadlines, reader: &mut Reader<'_>) {
    key::read(node, "`deadline`", DEADLINES, deadlines, reader);
}

fn or_off(time: Option<Duration>) -> String {
    time.map_or_else(|| "off".to_owned(), duration)
}

/// Reads the tools with a deadline of their own. A route keeps those of the defaults that it does
/// not name.
fn read_tools(deadlines: &mut Deadlines, node: &Node, reader: &mut Reader<'_>) {
    if reader.is_asked(node, || Shape::Named(Vec::new())) {
        return reader.duration_or_off(node, &mut None);
    }
    let Data::Mapping(entries) = &node.data else {
        if !matches!(node.data, Data::Refused) {
            let flaw = Flaw::new(
                format!("`tools` must be a mapping, found {}", node.describe()),
                "write each tool as `name: 10m`",
            );
            reader.refuse(&node.place, flaw);
        }
        return;
    };
    for (word, value) in entries {
        if word.text.is_empty() {
            let flaw = Flaw::new(
                "`\"\"` names no tool, so nothing would be enforced by it",
                "write the name of a tool, or `call` for every request",
            );
            reader.refuse(&word.place, flaw);
        }
        if reader.is_text(word) {
            let mut limit = None;
            reader.duration_or_off(value, &mut limit);
            deadlines.tools.insert(word.text.clone(), limit);
        }
    }
}

fn show_tools(deadlines: &Deadlines) -> Shown {
    let mut tools: Vec<_> = deadlines
        .tools
        .iter()
        .map(|(name, limit)| format!("{name}: {}", or_off(*limit)))
        .collect();
    if tools.is_empty() {
        return Shown::value("none");
    }
    tools.sort_unstable();
    Shown::Value(format!("{{ {} }}", tools.join(", ")))
}
