//! `bounds`, of routes and of the defaults: what one exchange may make us hold or wait for.

use crate::policy::finding::Flaw;
use crate::policy::plan::{Bounds, Listen, Missing, Protocol};
use crate::policy::unit::{duration, size};
use crate::protocol::lexer::DEPTH_MAX;

use super::key::{Key, Section, Shown};
use super::protocol;
use super::reader::Reader;

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

/// Refuses bounds that contradict each other: the larger of the two could never be reached. The
/// finding stands where it was written.
pub(super) fn check(bounds: &Section<Bounds>, listen: &Section<Listen>, reader: &mut Reader<'_>) {
    let Section { value, seen } = bounds;
    let known = |key: &str| seen.knows(key);
    let body = (
        "body_bytes_max",
        value.body_bytes_max,
        known("body_bytes_max"),
    );
    let header_bytes_max = listen.value.header_bytes_max;
    let header_is_known = listen.seen.knows("header_bytes_max");
    let header = ("listen.header_bytes_max", header_bytes_max, header_is_known);
    for (lesser, less, (greater, more, greater_is_known)) in [
        ("buffer_bytes", value.buffer_bytes, body),
        ("name_bytes_max", value.message.name_bytes_max, body),
        ("id_bytes_max", value.message.id_bytes_max, body),
        // A modern request repeats the name in a header.
        ("name_bytes_max", value.message.name_bytes_max, header),
    ] {
        if less <= more || !greater_is_known || !known(lesser) {
            continue;
        }
        // A default that another bound makes unreachable means nothing, and harms nobody.
        if let Some(place) = seen.place(lesser) {
            let cause = format!(
                "`{lesser}` is {} and could never be reached, because `{greater}` is {}",
                size(less as u64),
                size(more as u64)
            );
            let hint = "lower the one or raise the other; what is not written has its default";
            reader.refuse(place, Flaw::new(cause, hint));
        }
    }
}

/// Refuses that of the two bounds on a body which has no effect where bodies pass through unread:
/// nothing of them is held, so the larger counts.
pub(super) fn check_unread(bounds: &Section<Bounds>, reader: &mut Reader<'_>) {
    let Section { value, seen } = bounds;
    let body = ("body_bytes_max", value.body_bytes_max);
    let stream = ("stream_bytes_max", value.stream_bytes_max);
    let (lesser, greater) = if body.1 < stream.1 {
        (body, stream)
    } else {
        (stream, body)
    };
    if lesser.1 < greater.1
        && seen.knows(lesser.0)
        && seen.knows(greater.0)
        && let Some(place) = seen.place(lesser.0)
    {
        let cause = format!(
            "nothing is enforced by `{}` where requests pass through unread: `{}` is {}, and the \
             larger of the two counts",
            lesser.0,
            greater.0,
            size(greater.1 as u64)
        );
        let hint = "give both the same value, or write the larger alone; what is not written has its \
                    default";
        reader.refuse(place, Flaw::new(cause, hint));
    }
}

/// Warns of bounds that a route names and that have no effect beside its versions and header rules.
pub(super) fn warn_of_unused(
    bounds: &Section<Bounds>,
    protocol: &Protocol,
    reader: &mut Reader<'_>,
) {
    let Section { value, seen } = bounds;
    if !protocol.versions.serves_legacy() {
        for key in ["sessions_max", "session_idle_timeout"] {
            if let Some(place) = seen.place(key) {
                reader.warn(place, protocol::no_effect("legacy"));
            }
        }
    }
    let Some(place) = seen.place("stream_bytes_max") else {
        return;
    };
    if !protocol.versions.serves_modern() {
        reader.warn(place, protocol::no_effect("modern"));
    } else if protocol.missing == Missing::Mirror {
        let flaw = Flaw::new(
            "this has no effect, because no body streams with `missing: mirror`",
            "remove it, or write `missing: reject`",
        );
        reader.warn(place, flaw);
    } else if value.stream_bytes_max > 0 && value.stream_bytes_max <= value.body_bytes_max {
        let flaw = Flaw::new(
            format!(
                "no body streams here, because `body_bytes_max` is {}: what is larger is refused, and \
                 what is smaller is held",
                size(value.body_bytes_max as u64)
            ),
            "raise this or lower `body_bytes_max`; write 0 if no body shall stream",
        );
        reader.warn(place, flaw);
    }
}
