//! What an upstream has told of changes: entries from before, and fetches that had begun before,
//! are void.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kind::Kind;
use super::place::{above, place};
use crate::protocol::canonical::Digest;

/// How many places and lists one upstream may name before it is as if it had named them all: what a
/// peer names is bounded.
const MARKS_MAX: usize = 1024;
/// How long a URI may be before it is as if it named all resources.
const URI_BYTES_MAX: usize = 2048;

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and of their templates.
    Resources,
    /// Anything may have: changes were missed.
    All,
}

impl Change {
    const fn kinds(self) -> &'static [Kind] {
        match self {
            Change::Tools => &[Kind::Tools],
            Change::Prompts => &[Kind::Prompts],
            Change::Resources => &[Kind::Resources, Kind::Templates],
            Change::All => &Kind::ALL,
        }
    }
}

/// A point between two changes of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Moment(u64);

/// The changes of one upstream, counted.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Changes {
    /// How many there were. It is raised after they were noted, so that whoever sees the number
    /// sees them too.
    count: AtomicU64,
    /// How many of them concerned the list of tools.
    tools: AtomicU64,
    noted: Mutex<Noted>,
}

/// When what has changed last.
#[derive(Debug, Default)]
struct Noted {
    count: Moment,
    kinds: [Moment; Kind::ALL.len()],
    lists: Marks<Digest>,
    places: Marks<Box<str>>,
}

/// What an answer is about, as far as changes concern it.
#[derive(Debug)]
pub(super) struct Concern<'e> {
    pub(super) kind: Kind,
    /// The list that it is a page of.
    pub(super) list: Digest,
    /// The place of its resource.
    pub(super) place: Option<&'e str>,
}

impl Changes {
    /// The upstream tells that this has changed.
    pub(in crate::gateway) fn changed(&self, change: Change) {
        self.note(|noted| {
            for kind in change.kinds() {
                noted.kinds[*kind as usize] = noted.count;
            }
        });
        if change.kinds().contains(&Kind::Tools) {
            self.tools.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The upstream tells that the resource at `uri` has changed: with it change those above and
    /// below it (specification, "Resource Subscriptions": the URI may be that of a sub-resource).
    pub(in crate::gateway) fn resource_updated(&self, uri: &str) {
        self.note(|noted| match uri.len() <= URI_BYTES_MAX {
            true => noted.places.mark(place(uri), noted.count),
            false => noted.kinds[Kind::Contents as usize] = noted.count,
        });
    }

    /// What was told may not be all: the stream of notifications broke off.
    pub(in crate::gateway) fn gap(&self) {
        self.changed(Change::All);
    }

    /// A cursor of this list does not hold any more, and so no page of it does.
    pub(super) fn list_voided(&self, list: Digest) {
        self.note(|noted| noted.lists.mark(list, noted.count));
    }

    /// How many changes of the list of tools, or of everything, it has told of: a number that any
    /// further one makes another.
    #[must_use]
    pub(in crate::gateway) fn tools(&self) -> u64 {
        self.tools.load(Ordering::Acquire)
    }

    /// Now.
    fn moment(&self) -> Moment {
        Moment(self.count.load(Ordering::Acquire))
    }

    /// The moment until which nothing has changed that concerns an answer of `since`; absent where
    /// something has.
    fn spared(&self, concern: &Concern<'_>, since: Moment) -> Option<Moment> {
        let noted = self.lock();
        let spared = noted.kinds[concern.kind as usize] <= since
            && (!concern.kind.is_list() || !noted.lists.is_marked(&concern.list, since))
            && concern
                .place
                .is_none_or(|place| !noted.places.concern(place, since));
        spared.then_some(noted.count)
    }

    fn note(&self, change: impl FnOnce(&mut Noted)) {
        let mut noted = self.lock();
        noted.count.0 += 1;
        change(&mut noted);
        self.count.store(noted.count.0, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an answer stands to the changes of its upstream since it was asked for.
#[derive(Debug)]
pub(super) struct Standing {
    changes: Arc<Changes>,
    /// Until when nothing has changed that concerns it.
    until: AtomicU64,
}

impl Standing {
    /// Of an answer that is asked for from now on.
    pub(super) fn from_now(changes: &Arc<Changes>) -> Standing {
        Standing {
            changes: changes.clone(),
            until: AtomicU64::new(changes.moment().0),
        }
    }

    /// The changes.
    pub(super) fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// Whether nothing has changed that concerns the answer.
    pub(super) fn holds(&self, concern: &Concern<'_>) -> bool {
        let until = Moment(self.until.load(Ordering::Acquire));
        if self.changes.moment() == until {
            return true;
        }
        match self.changes.spared(concern, until) {
            // Where two look at once, the later number may be lost: it is looked for again.
            Some(now) => {
                self.until.store(now.0, Ordering::Release);
                true
            }
            None => false,
        }
    }
}

impl Clone for Standing {
    fn clone(&self) -> Standing {
        Standing {
            changes: self.changes.clone(),
            until: AtomicU64::new(self.until.load(Ordering::Acquire)),
        }
    }
}

/// When each of some things has changed last. Bounded: where there are too many, all are taken to
/// have changed with the last of them.
#[derive(Debug)]
struct Marks<K> {
    last: BTreeMap<K, Moment>,
    /// Until here, everything has changed.
    floor: Moment,
}

impl<K> Default for Marks<K> {
    fn default() -> Self {
        Marks {
            last: BTreeMap::new(),
            floor: Moment::default(),
        }
    }
}

impl<K: Ord> Marks<K> {
    fn mark(&mut self, what: K, now: Moment) {
        if self.last.len() >= MARKS_MAX {
            self.last.clear();
            self.floor = now;
        }
        self.last.insert(what, now);
    }

    fn is_marked<Q: Ord + ?Sized>(&self, what: &Q, since: Moment) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.floor > since || self.last.get(what).is_some_and(|at| *at > since)
    }
}

impl Marks<Box<str>> {
    /// Whether the resource at this place, or one above or below it, has changed.
    fn concern(&self, place: &str, since: Moment) -> bool {
        if self.is_marked(place, since) || above(place).any(|above| self.is_marked(above, since)) {
            return true;
        }
        // All that begins with the place and a slash, and nothing else, lies between these two.
        let (first, behind) = (format!("{place}/"), format!("{place}0"));
        let below = (
            Bound::Included(first.as_str()),
            Bound::Excluded(behind.as_str()),
        );
        self.last
            .range::<str, _>(below)
            .any(|(_, marked)| *marked > since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concerns(kind: Kind, list: u8, uri: Option<&str>) -> impl Fn(&Changes, Moment) -> bool {
        let place = uri.map(place);
        move |changes, moment| {
            let concern = Concern {
                kind,
                list: Digest::of(&[list]),
                place: place.as_deref(),
            };
            changes.spared(&concern, moment).is_none()
        }
    }

    fn read(uri: &str) -> impl Fn(&Changes, Moment) -> bool {
        concerns(Kind::Contents, 0, Some(uri))
    }

    #[test]
    fn a_change_concerns_what_was_there_before_it() {
        let changes = Changes::default();
        let tools = concerns(Kind::Tools, 0, None);
        let before = changes.moment();
        assert!(!tools(&changes, before));
        changes.changed(Change::Tools);
        assert!(tools(&changes, before));
        assert!(!tools(&changes, changes.moment()));
        // Another change does not take it back.
        changes.changed(Change::Prompts);
        assert!(tools(&changes, before));
    }

    #[test]
    fn a_notification_concerns_its_lists() {
        use Kind::{Contents, Discover, Prompts, Resources, Templates, Tools};
        for (change, expected) in [
            (Change::Tools, &[Tools][..]),
            (Change::Prompts, &[Prompts]),
            (Change::Resources, &[Resources, Templates]),
        ] {
            let changes = Changes::default();
            changes.changed(change);
            for kind in [Discover, Tools, Prompts, Resources, Templates, Contents] {
                let uri = (kind == Contents).then_some("a:b");
                let concerned = concerns(kind, 0, uri)(&changes, Moment(0));
                assert_eq!(concerned, expected.contains(&kind), "{change:?} {kind:?}");
            }
        }
        let changes = Changes::default();
        changes.gap();
        for kind in Kind::ALL {
            assert!(concerns(kind, 0, None)(&changes, Moment(0)), "{kind:?}");
        }
    }

    #[test]
    fn an_update_concerns_the_resource_and_those_above_and_below_it() {
        let changes = Changes::default();
        changes.resource_updated("file:///a/b");
        for uri in [
            "file:///a/b",
            "file:///a/b/",
            "file:///a/b/c/d",
            "file:///a/b?x",
            "file:///a",
            "file:///",
        ] {
            assert!(read(uri)(&changes, Moment(0)), "{uri}");
            assert!(!read(uri)(&changes, changes.moment()), "{uri}");
        }
        for uri in [
            "file:///a/bc",
            "file:///a/b.c",
            "file:///a/c",
            "other:///a/b",
        ] {
            assert!(!read(uri)(&changes, Moment(0)), "{uri}");
        }
        assert!(!concerns(Kind::Resources, 0, None)(&changes, Moment(0)));
    }

    #[test]
    fn a_voided_list_concerns_its_pages_alone() {
        let changes = Changes::default();
        changes.list_voided(Digest::of(&[1]));
        assert!(concerns(Kind::Tools, 1, None)(&changes, Moment(0)));
        assert!(!concerns(Kind::Tools, 2, None)(&changes, Moment(0)));
    }

    #[test]
    fn what_was_asked_for_before_a_change_does_not_hold() {
        let changes = Arc::new(Changes::default());
        let concern = Concern {
            kind: Kind::Tools,
            list: Digest::of(&[1]),
            place: None,
        };
        let standing = Standing::from_now(&changes);
        // Others leave it alone, also after it was looked at between them.
        for _ in 0..3 {
            changes.resource_updated("file:///a");
            changes.changed(Change::Prompts);
            assert!(standing.holds(&concern));
        }
        let copy = standing.clone();
        changes.changed(Change::Tools);
        for _ in 0..2 {
            assert!(!standing.holds(&concern) && !copy.holds(&concern));
            changes.changed(Change::Prompts);
        }
        assert!(Standing::from_now(&changes).holds(&concern));
    }

    #[test]
    fn too_much_that_is_named_is_everything() {
        let changes = Changes::default();
        let long = format!("file:///{}", "a".repeat(URI_BYTES_MAX));
        changes.resource_updated(&long);
        assert!(read("file:///x")(&changes, Moment(0)));

        let changes = Changes::default();
        for index in 0..MARKS_MAX {
            changes.resource_updated(&format!("file:///a/{index}"));
        }
        assert!(!read("file:///x")(&changes, Moment(0)));
        changes.resource_updated("file:///a/more");
        assert!(read("file:///x")(&changes, Moment(0)));
        assert!(!read("file:///x")(&changes, changes.moment()));
        assert_eq!(changes.lock().places.last.len(), 1);
    }
}
