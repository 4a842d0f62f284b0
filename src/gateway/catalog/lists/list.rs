//! One list: what its pages have said, how long that is believed, and whether all of them were read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{Knowledge, Page};
use crate::gateway::catalog::tool::{Definition, Tool};

/// How long after a list was asked for again because of a mismatch it is not once more.
const DOUBT_INTERVAL: Duration = Duration::from_secs(5);

/// How long something is believed, unless a change is told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    epoch: u64,
    until: Instant,
}

impl Belief {
    /// Of what was asked for at `epoch`, and arrived at `now`.
    pub(super) fn new(epoch: u64, now: Instant, age: Duration) -> Belief {
        // An age that no clock can reach is none.
        let until = now.checked_add(age).unwrap_or(now);
        Belief { epoch, until }
    }

    fn holds(self, epoch: u64, now: Instant) -> bool {
        self.epoch >= epoch && now < self.until
    }

    fn and(self, other: Belief) -> Belief {
        Belief {
            epoch: self.epoch.min(other.epoch),
            until: self.until.min(other.until),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct List {
    used: AtomicU64,
    tools: HashMap<Box<str>, Known>,
    /// The pages that were read one after another since the last first one.
    chain: Option<Chain>,
    /// Counts chains.
    chains: u64,
    /// Whether all pages were read, and whether all tools had room.
    complete: Option<(Belief, Room)>,
    /// There is no list.
    none: Option<Belief>,
    /// When a mismatch had it asked for again.
    doubted: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    tool: Arc<Tool>,
    belief: Belief,
    /// The chain that it was read in; none for a page out of the order.
    chain: Option<u64>,
    /// Whether a mismatch had it asked for again.
    doubted: bool,
}

#[derive(Debug)]
struct Chain {
    /// The cursor of the next page.
    next: Box<str>,
    belief: Belief,
    room: Room,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    TooLittle,
}

impl List {
    pub(super) fn touch(&self, number: u64) {
        self.used.fetch_max(number, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The tools that are remembered.
    pub(super) fn tools(&self) -> Vec<Arc<Tool>> {
        let tools = self.tools.values().map(|known| Arc::clone(&known.tool));
        tools.collect()
    }

    /// How many tools are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.tools.len()
    }

    /// The tool of an equal definition, so that it need not be read again.
    pub(super) fn same(&self, definition: &Definition<'_>) -> Option<Arc<Tool>> {
        let tool = &self.tools.get(definition.name)?.tool;
        (*tool.digest() == definition.digest && !tool.is_ambiguous()).then(|| Arc::clone(tool))
    }

    pub(super) fn tool(&self, name: &str, epoch: u64, now: Instant) -> Knowledge {
        let known = self.tools.get(name);
        if let Some(known) = known.filter(|known| known.belief.holds(epoch, now)) {
            return Knowledge::Known(Arc::clone(&known.tool));
        }
        let complete = self.complete.filter(|(belief, _)| belief.holds(epoch, now));
        match complete {
            Some((_, Room::Enough)) if known.is_none() => Knowledge::Absent,
            Some((_, Room::TooLittle)) if known.is_none() => Knowledge::NoList,
            _ if self.none.is_some_and(|none| none.holds(epoch, now)) => Knowledge::NoList,
            Some(_) | None => Knowledge::Unknown,
        }
    }

    pub(super) fn no_list(&mut self, belief: Belief) {
        self.none = Some(belief);
    }

    pub(super) fn doubt(&mut self, name: &str, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < DOUBT_INTERVAL;
        if self.doubted.is_some_and(lately) {
            return false;
        }
        if let Some(known) = self.tools.get_mut(name) {
            if known.doubted {
                return false;
            }
            known.doubted = true;
        }
        self.doubted = Some(now);
        true
    }

    /// Takes a page, whose tools are `tools`; one that a page before has in another definition becomes
    /// invalid. True where all of the list is known with it.
    pub(super) fn learn(
        &mut self,
        page: &Page<'_>,
        tools: &mut [Arc<Tool>],
        belief: Belief,
        tools_max: usize,
        now: Instant,
    ) -> bool {
        self.none = None;
        let chained = self.continues(page, belief);
        let number = chained.map(|_| self.chains);
        let mut room = Room::Enough;
        if self.tools.len() + tools.len() > tools_max {
            self.tidy(number, page.epoch, now);
        }
        for (tool, definition) in tools.iter_mut().zip(page.tools) {
            if self.tools.len() >= tools_max && !self.tools.contains_key(tool.name()) {
                room = Room::TooLittle;
                continue;
            }
            self.remember(tool, definition, belief, number, now);
        }
        let Some((belief, before)) = chained else {
            return false;
        };
        if before == Room::TooLittle {
            room = before;
        }
        match page.next {
            Some(next) => {
                self.chain = Some(Chain {
                    next: next.into(),
                    belief,
                    room,
                });
                false
            }
            None => {
                self.tools.retain(|_, known| known.chain == number);
                self.complete = Some((belief, room));
                room == Room::Enough
            }
        }
    }

    /// What is believed of the pages up to this one, if it is the next in order: the first, or the one
    /// whose cursor the last one gave. The chain is taken; a page that leads on puts it back.
    fn continues(&mut self, page: &Page<'_>, belief: Belief) -> Option<(Belief, Room)> {
        match page.cursor {
            // A slow first page does not undo what was asked for after it.
            None if self.epoch() > belief.epoch => None,
            None => {
                self.chains += 1;
                self.chain = None;
                Some((belief, Room::Enough))
            }
            Some(cursor) => {
                let chain = self.chain.take_if(|chain| *chain.next == *cursor)?;
                Some((chain.belief.and(belief), chain.room))
            }
        }
    }

    /// How recent the pages are that were read in their order.
    fn epoch(&self) -> u64 {
        let chain = self.chain.as_ref().map_or(0, |chain| chain.belief.epoch);
        let complete = self.complete.map_or(0, |(belief, _)| belief.epoch);
        chain.max(complete)
    }

    /// Takes one tool of a page.
    fn remember(
        &mut self,
        tool: &mut Arc<Tool>,
        definition: &Definition<'_>,
        belief: Belief,
        chain: Option<u64>,
        now: Instant,
    ) {
        let mut learned = Known {
            tool: Arc::clone(tool),
            belief,
            chain,
            doubted: false,
        };
        if let Some(known) = self.tools.get_mut(definition.name) {
            let same = known.tool.digest() == tool.digest();
            // Of two definitions in one list, two readers could take different ones; but between its
            // pages a list may change.
            let twice =
                chain.is_some() && known.chain == chain && known.belief.epoch == belief.epoch;
            if twice && (!same || known.tool.is_ambiguous()) {
                *tool = Arc::new(Tool::ambiguous(definition));
                learned.tool = Arc::clone(tool);
            }
            // A page out of the order does not take back that the tool was read in its order.
            learned.chain = chain.or(known.chain);
            if known.belief.epoch > belief.epoch {
                known.chain = learned.chain;
                return;
            }
            learned.doubted = same && known.doubted && known.belief.holds(belief.epoch, now);
        }
        self.tools.insert(definition.name.into(), learned);
    }

    /// Makes room: forgets what is not believed any more, and what the last page of this chain would
    /// make forgotten.
    fn tidy(&mut self, chain: Option<u64>, epoch: u64, now: Instant) {
        let before = self.tools.len();
        self.tools.retain(|_, known| {
            known.belief.holds(epoch, now) && (chain.is_none() || known.chain == chain)
        });
        // What was forgotten may be on the list all the same.
        if self.tools.len() < before {
            self.complete = None;
        }
    }
}
