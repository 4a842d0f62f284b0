//! What upstreams say of their tools, as far as calls are judged by it: learned from their lists,
//! believed for a while.
//!
//! A list that is public is known to all callers; one that is private only to those with the same
//! credentials. Nothing of it is ever told to anybody: it is what calls are held against.

mod judge;
mod learning;
mod lists;
mod tool;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::header::{HOST, HeaderName};
use http::request::Parts;
use tokio::time::Instant;

pub(super) use judge::{Calling, ParamLines, doubt_by_claim};
pub(super) use learning::Learning;
pub(super) use tool::Tool;

use self::learning::Pins;
use self::lists::{ListKey, Lists};
use super::cache;
use crate::policy::pin::Difference;
use crate::policy::plan;
use crate::protocol::header;
use crate::protocol::version::{Era, Version};

/// What a route knows of the tools of its upstream.
#[derive(Debug)]
pub(super) struct Catalog {
    lists: Lists,
    pins: Pins,
    /// Two, whose results together nobody can foretell and nothing else comes to.
    hashers: [RandomState; 2],
    /// When they were last doubted.
    doubted: Mutex<Option<Instant>>,
    /// The turns to fetch a list that somebody has or waits for.
    turns: Mutex<HashMap<ListKey, Weak<Turn>>>,
}

/// The turn to fetch a list: whoever waited for it finds what the one before has learned.
type Turn = tokio::sync::Mutex<()>;

/// How often all that is known of a server's tools may be doubted at most.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// Whose list it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// That of everybody who has any credentials, or none, as the caller has.
    Everybody,
    /// That of the caller.
    Caller,
}

impl Whose {
    const ALL: [Whose; 2] = [Whose::Everybody, Whose::Caller];
}

impl Catalog {
    /// Nothing is known yet.
    pub(super) fn new(policy: &plan::Catalog) -> Catalog {
        Catalog {
            lists: Lists::new(policy),
            pins: Pins::default(),
            hashers: [RandomState::new(), RandomState::new()],
            doubted: Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// How the tools differ from what was pinned, as far as that has been seen.
    #[must_use]
    pub(super) fn difference(&self) -> Option<Difference> {
        self.pins.difference()
    }

    /// Whether what is known of the tools is to be forgotten, because their server contradicts it.
    /// Not often, since any client can make it do so.
    #[must_use]
    pub(super) fn doubts(&self, now: Instant) -> bool {
        self.doubts_where(now, || true)
    }

    /// The same because a call does not agree with what is known of its tool, which is in one of these
    /// lists.
    fn doubts_tool(&self, keys: [ListKey; 2], name: &str, now: Instant) -> bool {
        let is_doubtful = |key| self.lists.mismatch(key, name, now);
        self.doubts_where(now, || keys.into_iter().all(is_doubtful))
    }

    fn doubts_where(&self, now: Instant, is_doubtful: impl FnOnce() -> bool) -> bool {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = doubted.is_none_or(|at| now.saturating_duration_since(at) >= DOUBT_PAUSE);
        let doubts = is_due && is_doubtful();
        if doubts {
            *doubted = Some(now);
        }
        doubts
    }

    /// The turn to fetch the list with this key.
    fn turn(&self, key: ListKey) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// The key of a list for whoever sends requests with this head. That of everybody costs less.
    fn key(&self, whose: Whose, era: Era, version: Option<Version>, head: &Parts) -> ListKey {
        let mut key = [0; 32];
        key[0] = u8::from(era == Era::Modern);
        key[1] = version.map_or(0, |version| version as u8 + 1);
        let mut host = None;
        let mut own = (whose == Whose::Caller)
            .then(|| self.hashers.each_ref().map(BuildHasher::build_hasher));
        // A query may be a credential as well.
        let query = head.uri.query().unwrap_or_default();
        let mut has_credential = !query.is_empty();
        for line @ (name, value) in &head.headers {
            if *name == HOST {
                host = host.or(Some(value.as_bytes()));
            } else if (own.is_some() || !has_credential) && is_credential(name, era) {
                has_credential = true;
                let hashers = own.iter_mut().flatten();
                hashers.for_each(|hasher| line.hash(hasher));
            }
        }
        // What was given to somebody with credentials is not for those without.
        key[2] = u8::from(has_credential);
        if let Some(hashers) = own {
            key[2] = 2;
            for (index, hasher) in hashers.iter().enumerate() {
                key[16 + 8 * index..24 + 8 * index].copy_from_slice(&hasher.finish().to_le_bytes());
            }
        }
        // Upstreams are told the host that a request named, and may be several servers by it.
        let authority = || head.uri.authority().map(|named| named.as_str().as_bytes());
        let host = host.or_else(authority).unwrap_or_default();
        let mut place = self.hashers[0].build_hasher();
        place.write_usize(host.len());
        place.write(host);
        place.write(query.as_bytes());
        key[8..16].copy_from_slice(&place.finish().to_le_bytes());
        ListKey(key.into())
    }
}

/// Whether a server may know its caller by this field when it lists its tools. The arguments of a call
/// are not asked about with its list.
fn is_credential(name: &HeaderName, era: Era) -> bool {
    let name = name.as_str();
    !cache::is_harmless(name, era) && !name.starts_with(header::PARAM_PREFIX)
}
