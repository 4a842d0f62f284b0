//! What upstreams say of their tools, as far as calls are judged by it: learned from their lists,
//! believed for a while.
//!
//! A list that is public is known to all callers; one that is private only to those with the same
//! credentials. Nothing of it is ever told to anybody: it is what calls are held against.

mod judge;
mod learning;
mod lists;
mod tool;

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

pub(super) use judge::{Calling, ParamLines};
pub(super) use learning::Learning;
pub(super) use tool::Tool;

use self::learning::Pins;
use self::lists::{ListKey, Lists};
use super::cache;
use crate::policy::pin::Difference;
use crate::policy::plan;
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
}

/// How often all that is known of a server's tools may be doubted at most.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// Where the lists of a caller may be.
#[derive(Clone, Copy, Debug)]
struct Keys {
    shared: ListKey,
    own: ListKey,
}

impl Keys {
    /// That of a list which everybody may be given who has any credentials, or none, as this caller
    /// has; or that of its own.
    fn of(self, is_shared: bool) -> ListKey {
        match is_shared {
            true => self.shared,
            false => self.own,
        }
    }
}

impl Catalog {
    /// Nothing is known yet.
    pub(super) fn new(policy: &plan::Catalog) -> Catalog {
        Catalog {
            lists: Lists::new(policy),
            pins: Pins::default(),
            hashers: [RandomState::new(), RandomState::new()],
            doubted: Mutex::default(),
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
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = doubted.is_none_or(|at| now.saturating_duration_since(at) >= DOUBT_PAUSE);
        if is_due {
            *doubted = Some(now);
        }
        is_due
    }

    /// The keys of the lists for a caller with these headers.
    fn keys(&self, era: Era, version: Option<Version>, headers: &HeaderMap) -> Keys {
        let mut key = [0; 32];
        key[0] = u8::from(era == Era::Modern);
        key[1] = version.map_or(0, |version| version as u8 + 1);
        let mut own = key;
        own[2] = 1;
        let mut hashers = self.hashers.each_ref().map(BuildHasher::build_hasher);
        for (name, value) in headers {
            if !cache::is_harmless(name.as_str(), era) {
                // What was given to somebody with credentials is not for those without.
                key[3] = 1;
                for hasher in &mut hashers {
                    name.hash(hasher);
                    value.hash(hasher);
                }
            }
        }
        for (index, hasher) in hashers.iter().enumerate() {
            own[16 + 8 * index..24 + 8 * index].copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Keys {
            shared: ListKey(key.into()),
            own: ListKey(own.into()),
        }
    }
}
