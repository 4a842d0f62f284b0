//! The lists of tools that were seen on their way to somebody, or fetched by us, and what they say of
//! a name.

mod list;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::Instant;

use self::list::{Belief, List};
use super::tool::{Definition, Tool};
use crate::policy::plan::Catalog;
use crate::protocol::canonical::Digest;

/// How many invalid definitions are remembered as told of. When there are more, all are told of again.
const TOLD_MAX: usize = 4096;

/// What may have a list of its own: a digest of route, upstream, version, capabilities and audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gateway) struct ListKey(pub(in crate::gateway) Digest);

/// A page of a list.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Page<'a> {
    /// What was asked for: the cursor; none for the first page.
    pub(in crate::gateway) cursor: Option<&'a str>,
    /// The cursor of the next page; none behind the last.
    pub(in crate::gateway) next: Option<&'a str>,
    /// The tools, in their order.
    pub(in crate::gateway) tools: &'a [Definition<'a>],
    /// How long the page is fresh, as far as the policy allows.
    pub(in crate::gateway) ttl: Duration,
    /// How many changes the upstream had told of when the page was asked for.
    pub(in crate::gateway) epoch: u64,
}

/// What came of reading a page.
#[derive(Debug)]
pub(in crate::gateway) struct Learned {
    /// The tools, as many as the page has, in its order.
    pub(in crate::gateway) tools: Vec<Arc<Tool>>,
    /// The positions of those that are invalid and were not told of before: for the log.
    pub(in crate::gateway) untold: Vec<usize>,
    /// All tools of the list, where this was the last of its pages and all had room.
    pub(in crate::gateway) all: Option<Vec<Arc<Tool>>>,
}

/// What is known of a name.
#[derive(Clone, Debug)]
pub(in crate::gateway) enum Knowledge {
    /// Its definition.
    Known(Arc<Tool>),
    /// The list has no such tool.
    Absent,
    /// Nothing; the list can be asked for.
    Unknown,
    /// Nothing, and asking again would not help for now: there is no list, or a list too long to be
    /// remembered.
    NoList,
}

/// The lists of one route, bounded in number and length.
#[derive(Debug)]
pub(in crate::gateway) struct Lists {
    max_age: Duration,
    tools_max: usize,
    lists_max: usize,
    lists: RwLock<HashMap<ListKey, List>>,
    /// Counts uses, so that the list whose last one is furthest back is known.
    uses: AtomicU64,
    /// The invalid definitions that the log has heard of.
    told: Mutex<HashSet<Digest>>,
}

impl Lists {
    /// No lists yet, and never more than the policy allows.
    #[must_use]
    pub(in crate::gateway) fn new(catalog: &Catalog) -> Lists {
        Lists {
            max_age: catalog.max_age,
            tools_max: catalog.tools_max,
            lists_max: catalog.lists_max.max(1),
            lists: RwLock::default(),
            uses: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// Remembers a page that arrived at `now`. It is believed as long as it is fresh, and no shorter
    /// than the policy's `max_age`.
    pub(in crate::gateway) fn learn(&self, key: ListKey, page: &Page<'_>, now: Instant) -> Learned {
        let mut tools = self.read(key, page.tools);
        let belief = Belief::new(page.epoch, now, self.max_age.max(page.ttl));
        let mut all = None;
        self.change(key, |list| {
            if list.learn(page, &mut tools, belief, self.tools_max, now) {
                all = Some(list.tools());
            }
        });
        let invalid = |tool: &Tool| tool.annotations().is_err() && self.is_untold(*tool.digest());
        let untold = (0..tools.len()).filter(|at| invalid(&tools[*at]));
        Learned {
            untold: untold.collect(),
            tools,
            all,
        }
    }

    /// What is known at `now` of the tool called `name`. `epoch` is the number of the last change of
    /// the list that the upstream has told of; what was asked for before it is void.
    #[must_use]
    pub(in crate::gateway) fn tool(
        &self,
        key: ListKey,
        name: &str,
        epoch: u64,
        now: Instant,
    ) -> Knowledge {
        match self.lists().get(&key) {
            Some(list) => {
                self.touch(list);
                list.tool(name, epoch, now)
            }
            None => Knowledge::Unknown,
        }
    }

    /// Remembers for `age` that no list could be had, which was asked for at `epoch`.
    pub(in crate::gateway) fn no_list(
        &self,
        key: ListKey,
        epoch: u64,
        age: Duration,
        now: Instant,
    ) {
        self.change(key, |list| list.no_list(Belief::new(epoch, now, age)));
    }

    /// Whether the list is to be asked for again, because a call did not agree with what is known of
    /// its tool. True once for each definition while it is believed, and not often for one list: any
    /// client can make this happen.
    #[must_use]
    pub(in crate::gateway) fn mismatch(&self, key: ListKey, name: &str, now: Instant) -> bool {
        let mut lists = self.lists_mut();
        lists.get_mut(&key).is_none_or(|list| list.doubt(name, now))
    }

    /// Reads the definitions, those that are known already excepted. Of two with one name, which
    /// readers could take differently, none is valid.
    fn read(&self, key: ListKey, definitions: &[Definition<'_>]) -> Vec<Arc<Tool>> {
        let mut names: HashMap<&str, Option<Digest>> = HashMap::new();
        for definition in definitions {
            match names.entry(definition.name) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Some(definition.digest));
                }
                Entry::Occupied(mut other) if *other.get() != Some(definition.digest) => {
                    other.insert(None);
                }
                Entry::Occupied(_) => {}
            }
        }
        let read = definitions.iter().map(|definition| {
            if names.get(definition.name) == Some(&None) {
                return Arc::new(Tool::ambiguous(definition));
            }
            let known = self
                .lists()
                .get(&key)
                .and_then(|list| list.same(definition));
            known.unwrap_or_else(|| Arc::new(Tool::read(definition)))
        });
        read.collect()
    }

    /// Changes a list, which is made if it is not there.
    fn change(&self, key: ListKey, change: impl FnOnce(&mut List)) {
        let mut lists = self.lists_mut();
        if lists.len() >= self.lists_max && !lists.contains_key(&key) {
            forget_some(&mut lists);
        }
        let list = lists.entry(key).or_default();
        self.touch(list);
        change(list);
    }

    fn is_untold(&self, digest: Digest) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(digest)
    }

    /// The list is used. One that was the last to be used stays that, and nothing is written.
    fn touch(&self, list: &List) {
        if list.used() < self.uses.load(Ordering::Relaxed) || list.used() == 0 {
            list.touch(1 + self.uses.fetch_add(1, Ordering::Relaxed));
        }
    }

    // No method of a list leaves it half changed.
    fn lists(&self) -> RwLockReadGuard<'_, HashMap<ListKey, List>> {
        self.lists.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists_mut(&self) -> RwLockWriteGuard<'_, HashMap<ListKey, List>> {
        self.lists.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the lists that were not used for the longest time: several at once, so that the search for
/// them is not repeated with each new list.
fn forget_some(lists: &mut HashMap<ListKey, List>) {
    let mut used: Vec<u64> = lists.values().map(List::used).collect();
    if used.is_empty() {
        return;
    }
    let at = used.len() / 16;
    let (_, last, _) = used.select_nth_unstable(at);
    let last = *last;
    lists.retain(|_, list| list.used() > last);
}

#[cfg(test)]
mod tests;
