//! An answer that is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::audience::Audience;
use super::change::{Concern, Standing};
use super::key::{self, Key, Question};
use super::kind::Kind;
use super::place::place;
use crate::gateway::recall::Selection;
use crate::protocol::canonical::Digest;
use crate::protocol::response::Response;

/// What an entry takes beside its answer and its description: its own room, and what the library
/// and the allocator need for it. Measured with jemalloc: 690 bytes each of 10,000 entries, 770 each
/// of 1,000. The rest is for the header of the answer's buffer, and for sizes that are rounded up.
const OVERHEAD_BYTES: usize = 1024;

/// What an answer is about, for people.
#[derive(Debug)]
pub(in crate::gateway) struct About {
    /// The name of the route.
    pub(in crate::gateway) route: Box<str>,
    /// The name of the upstream.
    pub(in crate::gateway) upstream: Box<str>,
    /// What was asked for.
    pub(in crate::gateway) kind: Kind,
    /// In which version.
    pub(in crate::gateway) version: &'static str,
    /// The URI of a resource, the cursor of a page.
    pub(in crate::gateway) target: Option<Box<str>>,
    pub(super) key: Key,
    list: Digest,
    place: Option<Box<str>>,
}

impl About {
    pub(super) fn of(question: &Question<'_>) -> About {
        let asking = &question.asking;
        let target = question.target.as_deref();
        About {
            route: asking.route.into(),
            upstream: asking.upstream.into(),
            kind: asking.kind,
            version: key::version(asking.version),
            target: target.map(Box::from),
            key: question.key,
            list: question.list,
            place: target.filter(|_| asking.kind == Kind::Contents).map(place),
        }
    }

    /// Who may be given the answer.
    #[must_use]
    pub(in crate::gateway) fn audience(&self) -> Audience {
        self.key.audience
    }

    /// The list that it is a page of.
    pub(super) fn list(&self) -> Digest {
        self.list
    }

    /// Where its resource stands among others.
    pub(super) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    pub(super) fn concern(&self) -> Concern<'_> {
        Concern {
            kind: self.kind,
            list: self.list,
            place: self.place(),
        }
    }

    fn held_bytes(&self) -> usize {
        let target = self.target.as_deref().map_or(0, str::len);
        let place = self.place().map_or(0, str::len);
        self.route.len() + self.upstream.len() + target + place
    }
}

/// An answer that is kept, unfiltered and as it came.
#[derive(Debug)]
pub(in crate::gateway) struct Entry {
    response: Arc<Response>,
    selection: Selection,
    about: Arc<About>,
    received: Instant,
    ttl: Duration,
    /// How long after it was fresh it may be used while its server fails.
    stale: Duration,
    standing: Standing,
    hits: AtomicU64,
    is_refreshed: AtomicBool,
}

impl Entry {
    /// An answer of which `selection` leaves, that came at `received`, is fresh for `ttl` and of use for `stale` beyond that
    /// while its server fails, and stands so to changes.
    pub(super) fn new(
        response: Arc<Response>,
        selection: Selection,
        about: Arc<About>,
        received: Instant,
        ttl: Duration,
        stale: Duration,
        standing: Standing,
    ) -> Entry {
        Entry {
            response,
            selection,
            about,
            received,
            ttl,
            stale,
            standing,
            hits: AtomicU64::new(0),
            is_refreshed: AtomicBool::new(false),
        }
    }

    /// The answer, with the id of the request that it came for.
    #[must_use]
    pub(in crate::gateway) fn response(&self) -> &Response {
        &self.response
    }

    /// What of it leaves.
    #[must_use]
    pub(in crate::gateway) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// What it is about.
    #[must_use]
    pub(in crate::gateway) fn about(&self) -> &About {
        &self.about
    }

    /// How long ago it came.
    #[must_use]
    pub(in crate::gateway) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.received)
    }

    /// Whether it came later.
    pub(super) fn is_newer_than(&self, other: &Entry) -> bool {
        self.received > other.received
    }

    /// For how long it is still fresh, in milliseconds: what `ttlMs` says when it leaves. A begun
    /// millisecond is left away, so that a chain of caches ends not later than the server said.
    #[must_use]
    pub(in crate::gateway) fn ttl_ms(&self, now: Instant) -> u64 {
        let left = self.ttl.saturating_sub(self.age(now));
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// For how long it is still fresh, in whole seconds, rounded down; below zero once it is not.
    #[must_use]
    pub(in crate::gateway) fn ttl_seconds(&self, now: Instant) -> i64 {
        let age = self.age(now);
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match self.ttl.checked_sub(age) {
            Some(left) => seconds(left),
            None => {
                let over = age.saturating_sub(self.ttl);
                let begun = i64::from(over.subsec_nanos() > 0);
                -seconds(over).saturating_add(begun)
            }
        }
    }

    /// The bytes that it takes, what describes it included.
    #[must_use]
    pub(in crate::gateway) fn held_bytes(&self) -> usize {
        OVERHEAD_BYTES
            + self.response.held_bytes()
            + self.selection.held_bytes()
            + self.about.held_bytes()
    }

    /// How many requests it has answered from memory.
    #[must_use]
    pub(in crate::gateway) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nothing has changed since it was asked for.
    pub(super) fn holds(&self) -> bool {
        self.standing.holds(&self.about.concern())
    }

    /// How long it may be of use, from when it came.
    pub(super) fn lifetime(&self) -> Duration {
        self.ttl.saturating_add(self.stale)
    }

    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.age(now) < self.ttl
    }

    /// Whether it may still be served at `now` while its server fails.
    pub(super) fn is_usable(&self, now: Instant) -> bool {
        self.age(now) < self.lifetime()
    }

    /// Whether it is time to fetch it again, before it is stale. Not before half of its time is
    /// over: what is fresh for less than `before` would else be fetched again and again.
    pub(super) fn is_due(&self, now: Instant, before: Duration) -> bool {
        !before.is_zero() && self.age(now) >= self.ttl.saturating_sub(before.min(self.ttl / 2))
    }

    /// The right to fetch it again before it is stale, which it gives once.
    pub(super) fn takes_refresh(&self) -> bool {
        !self.is_refreshed.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::gateway::cache::Changes;
    use crate::protocol::response::Message;

    fn entry(ttl: Duration, received: Instant) -> Entry {
        let json = br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
        let Message::Response(response) = Message::read(Bytes::from_static(json)) else {
            panic!("no response");
        };
        let digest = Digest::of(b"");
        let about = About {
            route: "r".into(),
            upstream: "u".into(),
            kind: Kind::Tools,
            version: "2026-07-28",
            target: None,
            key: Key {
                digest,
                audience: Audience::Anybody,
            },
            list: digest,
            place: None,
        };
        let standing = Standing::from_now(&Arc::new(Changes::default()));
        Entry::new(
            Arc::new(response),
            Selection::default(),
            Arc::new(about),
            received,
            ttl,
            Duration::MAX,
            standing,
        )
    }

    #[test]
    fn what_is_left_is_rounded_down() {
        let came = Instant::now();
        let ttl = Duration::from_millis(2_000);
        let entry = entry(ttl, came);
        for (age_micros, ms, seconds, fresh) in [
            (0, 2_000, 2, true),
            (1, 1_999, 1, true),
            (1_000_000, 1_000, 1, true),
            (1_999_999, 0, 0, true),
            (2_000_000, 0, 0, false),
            (2_000_001, 0, -1, false),
            (5_000_000, 0, -3, false),
        ] {
            let now = came + Duration::from_micros(age_micros);
            assert_eq!(entry.ttl_ms(now), ms, "{age_micros}");
            assert_eq!(entry.ttl_seconds(now), seconds, "{age_micros}");
            assert_eq!(entry.is_fresh(now), fresh, "{age_micros}");
        }
        // A clock that is behind makes nothing younger than new.
        assert_eq!(entry.ttl_ms(came - Duration::from_secs(1)), 2_000);
    }

    #[test]
    fn no_time_is_too_long() {
        let came = Instant::now();
        for ttl in [Duration::from_millis(u64::MAX), Duration::MAX] {
            let entry = entry(ttl, came);
            let now = came + Duration::from_secs(1);
            assert!(entry.is_fresh(now) && entry.is_usable(now));
            assert!(!entry.is_due(now, Duration::from_secs(1)));
            assert!(entry.ttl_ms(now) > u64::MAX / 2);
            assert!(entry.ttl_seconds(now) > i64::MAX / 1_000_000);
        }
    }

    #[test]
    fn it_is_due_once_shortly_before_it_is_stale() {
        let came = Instant::now();
        let entry = entry(Duration::from_secs(10), came);
        let due = |age, before| {
            entry.is_due(came + Duration::from_secs(age), Duration::from_secs(before))
        };
        assert!(!due(6, 3) && due(7, 3));
        assert!(!due(9, 0), "nobody asked for it");
        assert!(!due(4, 60) && due(5, 60), "not before half of its time");
        assert!(entry.takes_refresh() && !entry.takes_refresh());
    }
}
