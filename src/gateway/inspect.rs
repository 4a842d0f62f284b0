//! What a running gateway shows of itself to whoever operates it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cache::{Entry, Filter, Kind};
use super::serving::Gateway;
use crate::policy::pin::{Difference, OnChange};

/// An answer in memory.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The name of its route.
    pub route: String,
    /// The name of the upstream that gave it.
    pub upstream: String,
    /// The method that asked for it.
    pub method: &'static str,
    /// The protocol version in which it was asked for.
    pub version: &'static str,
    /// The URI of a resource.
    pub uri: Option<String>,
    /// The cursor of a page behind the first.
    pub cursor: Option<String>,
    /// Who may be given it, in one word.
    pub audience: &'static str,
    /// How long ago it came.
    pub age: Duration,
    /// How long it is still fresh.
    pub ttl_left: Duration,
    /// What it takes of the memory, in bytes.
    pub bytes: usize,
    /// How often it was given.
    pub hits: u64,
}

impl Remembered {
    fn of(entry: &Entry, now: Instant) -> Remembered {
        let about = entry.about();
        let target = about.target.as_deref().map(str::to_owned);
        let is_contents = about.kind == Kind::Contents;
        Remembered {
            route: about.route.to_string(),
            upstream: about.upstream.to_string(),
            method: about.kind.method(),
            version: about.version,
            uri: target.clone().filter(|_| is_contents),
            cursor: target.filter(|_| !is_contents),
            audience: about.audience().word(),
            age: entry.age(now),
            ttl_left: Duration::from_millis(entry.ttl_ms(now)),
            bytes: entry.held_bytes(),
            hits: entry.hits(),
        }
    }
}

/// A route that holds its tools against a lock file.
#[derive(Clone, Debug)]
pub struct PinnedRoute {
    /// Its name.
    pub route: String,
    /// The lock file.
    pub file: PathBuf,
    /// What becomes of a tool that differs.
    pub on_change: OnChange,
    /// Where the tools differed when they were last listed; none while they were not.
    pub difference: Option<Difference>,
}

impl Gateway {
    /// The answers in memory, in no order; of this route, method and URI where they are named.
    pub fn remembered<'g>(
        &'g self,
        route: Option<&'g str>,
        method: Option<&'g str>,
        uri: Option<&'g str>,
    ) -> impl Iterator<Item = Remembered> + 'g {
        let filter = Filter { route, method, uri };
        let now = Instant::now();
        let entries = self.running().store.entries(filter);
        entries.map(move |entry| Remembered::of(&entry, now))
    }

    /// Forgets the same answers, and says how many there were.
    pub fn forget(&self, route: Option<&str>, method: Option<&str>, uri: Option<&str>) -> usize {
        self.running().store.purge(&Filter { route, method, uri })
    }

    /// The routes that hold their tools against a lock file.
    pub fn pinned(&self) -> impl Iterator<Item = PinnedRoute> {
        self.running().routes.iter().filter_map(|serving| {
            let pin = serving.route.pin.as_ref()?;
            Some(PinnedRoute {
                route: serving.route.name.clone(),
                file: pin.file.clone(),
                on_change: pin.on_change,
                difference: serving.catalog.difference(),
            })
        })
    }
}
