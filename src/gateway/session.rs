//! Legacy sessions that were opened through us, with the version that each speaks. A request that
//! belongs to one needs no version header; after a restart they are unknown again.

use moka::sync::Cache;

use crate::policy::plan::Bounds;
use crate::protocol::version::Version;

/// Longer ids than this are not remembered: what a peer names is bounded.
const ID_BYTES_MAX: usize = 512;

/// The known sessions of one route.
#[derive(Debug)]
pub(super) struct Sessions(Cache<Box<[u8]>, Version>);

impl Sessions {
    /// No sessions yet, and never more than the route's bounds allow.
    #[must_use]
    pub(super) fn new(bounds: &Bounds) -> Sessions {
        Sessions(
            Cache::builder()
                .max_capacity(bounds.sessions_max)
                .time_to_idle(bounds.session_idle_timeout)
                .build(),
        )
    }

    /// Remembers that session `id` speaks `version`.
    pub(super) fn open(&self, id: &[u8], version: Version) {
        if !id.is_empty() && id.len() <= ID_BYTES_MAX {
            self.0.insert(id.into(), version);
        }
    }

    /// The version of session `id`, if it is known.
    #[must_use]
    pub(super) fn version(&self, id: &[u8]) -> Option<Version> {
        self.0.get(id)
    }

    /// Forgets session `id`.
    pub(super) fn close(&self, id: &[u8]) {
        self.0.invalidate(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_until_it_is_closed() {
        let sessions = Sessions::new(&Bounds::default());
        assert_eq!(sessions.version(b"a"), None);
        sessions.open(b"a", Version::V2025_06_18);
        assert_eq!(sessions.version(b"a"), Some(Version::V2025_06_18));
        sessions.close(b"a");
        assert_eq!(sessions.version(b"a"), None);
    }

    #[test]
    fn an_oversized_id_is_never_held() {
        let sessions = Sessions::new(&Bounds::default());
        let id = vec![b'a'; ID_BYTES_MAX + 1];
        sessions.open(&id, Version::V2025_06_18);
        assert_eq!(sessions.version(&id), None);
    }
}
