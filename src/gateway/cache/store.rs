//! The memory: entries by their keys, bounded in bytes and in number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use moka::Expiry;
use moka::sync::Cache;

use super::change::Standing;
use super::entry::{About, Entry};
use super::flight::{Boarding, Fill, Flights, Waiting};
use super::key::{Asking, Key, Question};
use super::place::place;
use super::status::Why;
use crate::policy::plan::Memory;

/// How many keys may be known at once whose answers are not shared.
const MARKERS_MAX: u64 = 4096;
/// For how long requests do not wait for one another after an answer that its server does not let
/// be shared. It is likely to say the same again, and then all that waited have waited in vain.
const UNSHARED: Duration = Duration::from_secs(10);
/// The same after an answer that may have been the matter of one caller or of one moment.
const PASSING: Duration = Duration::from_secs(1);

/// The answers that are kept, of all routes.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Store {
    kept: Arc<Kept>,
    secret: [u8; 32],
}

/// What a request for something that may be kept comes to.
#[derive(Debug)]
pub(in crate::gateway) enum Look {
    /// It is answered from memory.
    Hit(Hit),
    /// It goes upstream.
    Lead(Fill),
    /// It waits for the answer to another one.
    Wait(Waiting),
}

/// An answer from memory.
#[derive(Debug)]
pub(in crate::gateway) struct Hit {
    /// The answer.
    pub(in crate::gateway) entry: Arc<Entry>,
    /// Where it is to be fetched again beside this: the right to do so, in the context of this
    /// request.
    pub(in crate::gateway) refresh: Option<Fill>,
}

/// Which entries are meant: those of which all is true that is said.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::gateway) struct Filter<'f> {
    /// They are of the route with this name.
    pub(in crate::gateway) route: Option<&'f str>,
    /// They answer this method.
    pub(in crate::gateway) method: Option<&'f str>,
    /// They are of the resource with this URI.
    pub(in crate::gateway) uri: Option<&'f str>,
}

impl Filter<'_> {
    fn matches(&self, about: &About, sought: Option<&str>) -> bool {
        self.route.is_none_or(|route| *about.route == *route)
            && self
                .method
                .is_none_or(|method| about.kind.method() == method)
            && sought.is_none_or(|sought| about.place() == Some(sought))
    }
}

impl Store {
    /// An empty memory with these bounds.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(in crate::gateway) fn new(memory: &Memory) -> io::Result<Store> {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| io::Error::other("there are no random bytes"))?;
        Ok(Store {
            kept: Arc::new(Kept::new(memory)),
            secret,
        })
    }

    /// What a request asks for.
    ///
    /// # Errors
    /// Why it is not answered from memory.
    pub(in crate::gateway) fn question<'q>(&self, asking: Asking<'q>) -> Result<Question<'q>, Why> {
        match self.kept.capacity {
            0 => Err(Why::Off),
            _ => Question::of(asking, &self.secret),
        }
    }

    /// What the request comes to at `now`.
    #[must_use]
    pub(in crate::gateway) fn look(&self, question: &Question<'_>, now: Instant) -> Look {
        // Before anything is looked for: a change from now on makes void what is fetched.
        let standing = Standing::from_now(question.asking.changes);
        let fill = |standing, stale, alone| Fill::new(&self.kept, question, standing, stale, alone);
        let stale = match self.kept.find(question, now) {
            Found::Nothing(stale) => stale,
            Found::Fresh(entry) => return Look::Hit(self.hit(question, entry, now)),
            Found::Marked(why) => return Look::Lead(fill(standing, None, Some(why))),
        };
        let waiters_max = question.asking.policy.waiters_max;
        // An answer may have come since it was looked for, and its flight have ended.
        let boarding = self.kept.flights.board(question.key, waiters_max, || {
            match self.kept.find(question, now) {
                Found::Nothing(_) => None,
                found => Some(found),
            }
        });
        match boarding {
            Ok(Boarding::Leads) => Look::Lead(fill(standing, stale, None)),
            Ok(Boarding::Waits(ticket)) => {
                let own = fill(standing, stale, Some(Why::Late));
                Look::Wait(Waiting::new(ticket, own))
            }
            Ok(Boarding::Crowded) => Look::Lead(fill(standing, stale, Some(Why::Crowded))),
            Err(Found::Fresh(entry)) => Look::Hit(self.hit(question, entry, now)),
            Err(Found::Marked(why)) => Look::Lead(fill(standing, None, Some(why))),
            Err(Found::Nothing(stale)) => Look::Lead(fill(standing, stale, Some(Why::Late))),
        }
    }

    /// Most bytes of one answer that is kept.
    #[must_use]
    pub(in crate::gateway) fn entry_bytes_max(&self) -> usize {
        self.kept.entry_bytes_max
    }

    /// The entries that are meant and still hold, in no order.
    pub(in crate::gateway) fn entries<'f>(
        &'f self,
        filter: Filter<'f>,
    ) -> impl Iterator<Item = Arc<Entry>> + 'f {
        let sought = filter.uri.map(place);
        let entries = self.kept.entries.iter().map(|(_, entry)| entry);
        entries
            .filter(move |entry| entry.holds() && filter.matches(entry.about(), sought.as_deref()))
    }

    /// Forgets the entries that are meant, and says how many there were. What is being fetched
    /// meanwhile is not kept, whatever it is.
    pub(in crate::gateway) fn purge(&self, filter: &Filter<'_>) -> usize {
        self.kept.purges.fetch_add(1, Ordering::SeqCst);
        let sought = filter.uri.map(place);
        let mut count = 0;
        for (key, entry) in &self.kept.entries {
            if filter.matches(entry.about(), sought.as_deref()) {
                self.kept.entries.invalidate(&*key);
                count += 1;
            }
        }
        self.kept.entries.run_pending_tasks();
        count
    }

    /// How many bytes and entries there are.
    #[cfg(test)]
    pub(super) fn held(&self) -> (u64, u64) {
        let (mut bytes, mut count) = (0, 0);
        for (_, entry) in &self.kept.entries {
            bytes += entry.held_bytes() as u64;
            count += 1;
        }
        (bytes, count)
    }

    /// How many keys are fetched, and how many requests wait for them.
    #[cfg(test)]
    pub(super) fn flights(&self) -> (usize, usize) {
        self.kept.flights.count()
    }

    fn hit(&self, question: &Question<'_>, entry: Arc<Entry>, now: Instant) -> Hit {
        entry.hit();
        let about = entry.about();
        // What this request would fetch belongs under its own key.
        let refreshes = about.key == question.key
            && entry.is_due(now, question.asking.policy.refresh_before)
            && entry.takes_refresh()
            && self.kept.flights.begin(question.key);
        let refresh = refreshes.then(|| {
            let standing = Standing::from_now(question.asking.changes);
            Fill::new(&self.kept, question, standing, Some(entry.clone()), None)
        });
        Hit { entry, refresh }
    }
}

/// What is in memory, and what is on its way there.
#[derive(Debug)]
pub(super) struct Kept {
    entries: Cache<Key, Arc<Entry>>,
    markers: Cache<Key, Marker>,
    flights: Flights,
    /// How often entries were purged.
    purges: AtomicU64,
    /// Most bytes of all entries.
    capacity: u64,
    entry_bytes_max: usize,
}

/// The last answer was not shared.
#[derive(Clone, Copy, Debug)]
struct Marker {
    at: Instant,
    why: Why,
}

/// What is known of a question.
enum Found {
    Fresh(Arc<Entry>),
    Marked(Why),
    /// Nothing, or what is not fresh any more.
    Nothing(Option<Arc<Entry>>),
}

impl Kept {
    fn new(memory: &Memory) -> Kept {
        let entries_max = memory.entries_max as u64;
        // One entry cannot be counted with more than these bytes.
        let countable = entries_max.saturating_mul(u64::from(u32::MAX));
        let capacity = memory.bytes_max.min(countable);
        // Every entry counts for its bytes, and for no less than its share of them all: so there
        // are never more bytes than there may be, and never more entries.
        let share = capacity.div_ceil(entries_max.max(1));
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Kept {
            entries: Cache::builder()
                .max_capacity(capacity)
                .weigher(move |_, entry: &Arc<Entry>| weight(entry).max(share))
                .expire_after(Lifetime)
                .build(),
            markers: Cache::new(MARKERS_MAX),
            flights: Flights::default(),
            purges: AtomicU64::new(0),
            capacity,
            entry_bytes_max: memory.entry_bytes_max,
        }
    }

    pub(super) fn flights(&self) -> &Flights {
        &self.flights
    }

    pub(super) fn purges(&self) -> u64 {
        self.purges.load(Ordering::SeqCst)
    }

    /// Whether an entry is no longer than one may be.
    pub(super) fn has_room_for(&self, entry: &Entry) -> bool {
        let bytes = entry.held_bytes() as u64;
        entry.response().bytes().len() <= self.entry_bytes_max
            && bytes <= self.capacity.min(u64::from(u32::MAX))
    }

    /// Keeps an entry that was asked for when there had been `purges`. Says whether it did, because
    /// there was none since, and no newer answer either.
    pub(super) fn insert(&self, entry: &Arc<Entry>, purges: u64) -> bool {
        // What is in memory may have been asked for since, and stays then.
        if self.purges() != purges {
            return false;
        }
        let key = entry.about().key;
        let kept = self.entries.get(&key);
        if kept.is_some_and(|kept| kept.is_newer_than(entry) && kept.holds()) {
            return false;
        }
        self.entries.insert(key, entry.clone());
        // Entries beyond the bounds go now, not when the library finds time.
        self.entries.run_pending_tasks();
        // Looked at again, so that a purge meanwhile either has found the entry or is seen here.
        let holds = self.purges() == purges;
        match holds {
            true => self.markers.invalidate(&key),
            false => self.entries.invalidate(&key),
        }
        holds
    }

    /// The answer under `key` is not shared: it was asked for, and its server would have it so.
    pub(super) fn mark(&self, key: Key, now: Instant, why: Why) {
        self.markers.insert(key, Marker { at: now, why });
        self.entries.invalidate(&key);
    }

    /// Whether this very entry is still in memory.
    pub(super) fn has(&self, entry: &Arc<Entry>) -> bool {
        let kept = self.entries.get(&entry.about().key);
        kept.is_some_and(|kept| Arc::ptr_eq(&kept, entry))
    }

    fn find(&self, question: &Question<'_>, now: Instant) -> Found {
        let mut stale = None;
        for key in question.keys() {
            let Some(entry) = self.entries.get(&key).filter(|entry| entry.holds()) else {
                continue;
            };
            match entry.is_fresh(now) {
                true => return Found::Fresh(entry),
                false => stale = stale.or(Some(entry)),
            }
        }
        match self.markers.get(&question.key) {
            Some(marker) if marker.stands(now) => Found::Marked(marker.why),
            _ => Found::Nothing(stale),
        }
    }
}

fn weight(entry: &Entry) -> u32 {
    u32::try_from(entry.held_bytes()).unwrap_or(u32::MAX)
}

impl Marker {
    fn stands(&self, now: Instant) -> bool {
        let time = match self.why {
            Why::Private | Why::TtlZero | Why::Hints | Why::TooLarge => UNSHARED,
            _ => PASSING,
        };
        now.saturating_duration_since(self.at) < time
    }
}

/// Gives the room of an entry back when it is of no more use. Whether it may be used is decided by
/// the time that those have who ask.
struct Lifetime;

impl Expiry<Key, Arc<Entry>> for Lifetime {
    fn expire_after_create(&self, _: &Key, entry: &Arc<Entry>, _: Instant) -> Option<Duration> {
        Some(entry.lifetime())
    }

    fn expire_after_update(
        &self,
        _: &Key,
        entry: &Arc<Entry>,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.lifetime())
    }
}
