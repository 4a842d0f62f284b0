//! What is remembered of upstreams' answers, and what is done with the lists of tools.

use std::time::Duration;

/// The memory that the caches of all routes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Most bytes of all entries together, what describes them included; 0 keeps nothing.
    pub bytes_max: u64,
    /// Most entries.
    pub entries_max: usize,
    /// Most bytes of one entry. A longer answer passes and is not kept.
    pub entry_bytes_max: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            bytes_max: 64 << 20,
            entries_max: 10_000,
            entry_bytes_max: 1 << 20,
        }
    }
}

/// What a route serves from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Whether it serves anything from memory.
    pub enabled: bool,
    /// The longest that an answer is fresh, whatever its server says.
    pub max_ttl: Duration,
    /// How long beyond that it may be served while the server fails; zero for never.
    pub stale_if_error: Duration,
    /// How long before its end of freshness an answer that is asked for is fetched again, beside
    /// the answer from memory; zero for never.
    pub refresh_before: Duration,
    /// How long a request waits for the answer to another that asks the same.
    pub wait_timeout: Duration,
    /// Most requests that wait for one answer; further ones go upstream themselves.
    pub waiters_max: usize,
    /// How answers of legacy versions are kept, which say nothing of it themselves; without it
    /// they are not.
    pub legacy: Option<LegacyCache>,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            enabled: true,
            max_ttl: Duration::from_secs(3600),
            stale_if_error: Duration::ZERO,
            refresh_before: Duration::ZERO,
            wait_timeout: Duration::from_secs(10),
            waiters_max: 10_000,
            legacy: None,
        }
    }
}

/// How answers of legacy versions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyCache {
    /// How long they are fresh.
    pub ttl: Duration,
    /// Who may be given them.
    pub scope: LegacyScope,
}

/// Who may be given an answer of a legacy version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyScope {
    /// Requests of the same session with the same credentials.
    Session,
    /// Anybody: the policy says that answers depend neither on the session nor on its beginning.
    Public,
}

/// What a route does with the lists of its upstream, and what it learns from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Whether anything is learned from lists, so that the argument headers of calls are judged.
    pub enabled: bool,
    /// Whether a call is refused while the definition of its tool cannot be had.
    pub required: bool,
    /// In which order lists leave.
    pub order: Order,
    /// How long a definition is believed after its list was read.
    pub max_age: Duration,
    /// Most tools that are remembered of one list.
    pub tools_max: usize,
    /// Most lists that are remembered: callers of different credentials have lists of their own.
    pub lists_max: usize,
    /// Most bytes of a page that must be read before it leaves.
    pub list_bytes_max: usize,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog {
            enabled: true,
            required: false,
            order: Order::Upstream,
            max_age: Duration::from_secs(300),
            tools_max: 10_000,
            lists_max: 1_000,
            list_bytes_max: 4 << 20,
        }
    }
}

/// The order of what a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the upstream has it.
    Upstream,
    /// By name (of resources, by URI), within each page.
    Name,
}
