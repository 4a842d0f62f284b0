//! What is learned from a list of tools on its way to somebody.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;

use super::lists::{self, ListKey, Page};
use super::tool::Definition;
use super::{Catalog, Whose};
use crate::gateway::serving::Serving;
use crate::observe::{Level, Log};
use crate::policy::pin::{self, Difference, OnChange, Standing};
use crate::policy::plan::Route;
use crate::protocol::canonical::Digest;
use crate::protocol::response::{List, Response, Scope};
use crate::protocol::version::{Era, Version};

/// How the answer to a request for a list of tools is learned from.
pub(in crate::gateway) struct Learning {
    catalog: Arc<Catalog>,
    route: Arc<Route>,
    /// The key of the list if it is for everybody, and if it is for the caller alone.
    keys: [ListKey; 2],
    era: Era,
    cursor: Option<String>,
    /// The number of changes that the upstream had told of.
    epoch: u64,
    log: Log,
}

/// What came of it: for each item of the list, whether it stays.
pub(in crate::gateway) struct Learned(Vec<bool>);

impl Learned {
    /// Whether the item at this position stays.
    #[must_use]
    pub(in crate::gateway) fn stays(&self, index: usize) -> bool {
        self.0.get(index).copied().unwrap_or(true)
    }
}

impl Learning {
    /// From the answer to a request with this head, which is made from now on. `cursor` is that of
    /// the page that it asks for.
    #[must_use]
    pub(in crate::gateway) fn new(
        serving: &Serving,
        head: &Parts,
        era: Era,
        version: Option<Version>,
        cursor: Option<String>,
    ) -> Learning {
        Learning {
            catalog: Arc::clone(&serving.catalog),
            route: Arc::clone(&serving.route),
            keys: Whose::ALL.map(|whose| serving.catalog.key(whose, era, version, head)),
            era,
            cursor,
            epoch: serving.follower.changes().tools(),
            log: serving.log.clone(),
        }
    }

    /// Learns from the answer, if it is a list of tools.
    pub(in crate::gateway) fn learn(&self, response: &Response) -> Learned {
        let Some(items) = response.items(List::Tools) else {
            return Learned(Vec::new());
        };
        // What has no name that can be read is no tool, nor one that was pinned.
        let pin = self.route.pin.as_ref();
        let hides = pin.filter(|pin| pin.on_change != OnChange::Warn);
        let mut stays = vec![self.era == Era::Legacy && hides.is_none(); items.len()];
        let named: Vec<(usize, Cow<'_, str>, &[u8], Digest)> = items
            .enumerate()
            .filter_map(|(index, item)| Some((index, item.name()?, item.raw(), digest(item.raw()))))
            .collect();
        let definitions: Vec<Definition<'_>> = named
            .iter()
            .map(|(_, name, raw, digest)| Definition {
                name,
                raw,
                digest: *digest,
            })
            .collect();
        let (is_shared, ttl_ms) = match response.hints() {
            Ok(hints) => (hints.scope == Scope::Public, hints.ttl_ms),
            Err(_) => (false, 0),
        };
        let next = response
            .next_cursor()
            .and_then(|raw| serde_json::from_slice::<String>(raw).ok());
        let page = Page {
            cursor: self.cursor.as_deref(),
            next: next.as_deref(),
            tools: &definitions,
            ttl: Duration::from_millis(ttl_ms).min(self.route.cache.max_ttl),
            epoch: self.epoch,
        };
        let learned =
            self.catalog
                .lists
                .learn(self.keys[usize::from(!is_shared)], &page, Instant::now());
        for ((index, ..), tool) in named.iter().zip(&learned.tools) {
            stays[*index] = self.era == Era::Legacy || tool.annotations().is_ok();
        }
        if self.era == Era::Modern {
            self.tell_of_invalid(&learned);
        }
        if let Some(pin) = &self.route.pin {
            self.compare(pin, &definitions, &learned);
        }
        if let Some(pin) = hides {
            for (index, name, _, digest) in &named {
                let standing = pin.lock.standing(name, digest);
                stays[*index] &= standing == Standing::Pinned;
            }
        }
        Learned(stays)
    }

    fn tell_of_invalid(&self, learned: &lists::Learned) {
        for at in &learned.untold {
            let tool = &learned.tools[*at];
            if let Err(why) = tool.annotations() {
                self.log.event(
                    Level::Warn,
                    "a tool is not listed, because its definition is not valid",
                    &[
                        ("route", &self.route.name),
                        ("tool", &tool.name()),
                        ("why", why),
                    ],
                );
            }
        }
    }

    /// Holds the tools of a page against what was pinned; where it was the last, those of all pages.
    fn compare(&self, pin: &pin::Pin, page: &[Definition<'_>], learned: &lists::Learned) {
        let page = page.iter().map(|tool| (tool.name, tool.digest));
        let all = learned.all.iter().flatten();
        let all = all.map(|tool| (tool.name(), *tool.digest()));
        let found = all.chain(page).collect();
        let is_whole = learned.all.is_some();
        let pins = &self.catalog.pins;
        pins.compare(pin, found, is_whole, &self.route, &self.log);
    }
}

/// A definition by its canonical form; by its bytes, where it has none.
fn digest(raw: &[u8]) -> Digest {
    pin::digest(raw).unwrap_or_else(|_| Digest::of(raw))
}

/// How the tools of a route differ from what was pinned, as far as it has been seen.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Pins(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// How each tool stands that was listed.
    standings: BTreeMap<String, (Digest, Standing)>,
    difference: Option<Difference>,
}

impl Pins {
    /// Where the tools differ; absent while none were listed.
    #[must_use]
    pub(in crate::gateway) fn difference(&self) -> Option<Difference> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.difference.clone()
    }

    /// Holds the tools of a page against what was pinned, and tells the log of each that has come to
    /// differ. Where `is_whole`, those that are pinned and not `found` have vanished.
    fn compare(
        &self,
        pin: &pin::Pin,
        found: BTreeMap<&str, Digest>,
        is_whole: bool,
        route: &Route,
        log: &Log,
    ) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listed = BTreeMap::new();
        for (name, digest) in found {
            let standing = pin.lock.standing(name, &digest);
            let before = seen.standings.get(name);
            if standing != Standing::Pinned && before != Some(&(digest, standing)) {
                let what = match standing {
                    Standing::Changed => "a tool is not as it was pinned",
                    Standing::Added | Standing::Pinned => "a tool was not pinned",
                };
                let mut fields: Vec<(&'static str, &dyn std::fmt::Display)> =
                    vec![("route", &route.name), ("tool", &name), ("found", &digest)];
                let pinned = pin.lock.tools().get(name);
                if let Some(pinned) = pinned {
                    fields.push(("pinned", pinned));
                }
                log.event(Level::Warn, what, &fields);
            }
            listed.insert(name.to_owned(), (digest, standing));
        }
        match is_whole {
            true => seen.standings = listed,
            false => seen.standings.extend(listed),
        }
        // What a peer names is bounded: further tools are judged and told of, and not remembered.
        while seen.standings.len() > STANDINGS_MAX {
            seen.standings.pop_last();
        }
        let digests = seen.standings.iter();
        let digests = digests
            .map(|(name, (digest, _))| (name.clone(), *digest))
            .collect();
        let mut difference = pin.lock.difference(&digests);
        let vanished_before = seen.difference.take().unwrap_or_default().vanished;
        if !is_whole {
            difference.vanished = vanished_before.clone();
        }
        for name in difference
            .vanished
            .iter()
            .filter(|name| !vanished_before.contains(name))
        {
            let fields: [(&'static str, &dyn std::fmt::Display); 2] =
                [("route", &route.name), ("tool", name)];
            log.event(Level::Warn, "a pinned tool has vanished", &fields);
        }
        seen.difference = Some(difference);
    }
}

/// How many tools are remembered with how they stand to what was pinned.
const STANDINGS_MAX: usize = 10_000;
