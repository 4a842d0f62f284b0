//! The cache against a model of what it may do: callers, answers, changes, failures and time in any
//! order.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LEGACY_TTL: Duration = Duration::from_secs(100);

/// Who asks: their headers.
const CALLERS: [&[(&str, &str)]; 7] = [
    &[],
    &[("traceparent", "00-1-1-00")],
    &[("authorization", "Bearer a")],
    &[("x-api-key", "b")],
    &[("mcp-session-id", "s"), ("authorization", "Bearer a")],
    &[("mcp-session-id", "t"), ("authorization", "Bearer a")],
    &[("mcp-session-id", "s"), ("authorization", "Bearer b")],
];
/// The first of them that speaks a legacy version.
const LEGACY: usize = 4;

/// What is asked for: method, parameters, and the segments of a URI.
const TARGETS: [(&str, &str, &[&str]); 6] = [
    ("tools/list", "{}", &[]),
    ("tools/list", r#"{"cursor":"c"}"#, &[]),
    ("prompts/list", "{}", &[]),
    ("resources/read", r#"{"uri":"a:/x"}"#, &["x"]),
    ("resources/read", r#"{"uri":"a:/x/y"}"#, &["x", "y"]),
    ("resources/read", r#"{"uri":"a:/xy"}"#, &["xy"]),
];

/// The first page and the second of one list.
const PAGES: [usize; 2] = [0, 1];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Ask { caller: usize, target: usize },
    End { fetch: usize, how: Ending },
    Change(Told),
    Leave(usize),
    GiveUp(usize),
    Pass(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Public(u64),
    Private,
    NoHints,
    Error,
    CursorInvalid,
    Failed,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Tools,
    Prompts,
    Updated(usize),
    Gap,
    Purged,
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        6 => prop_oneof![Just(0), Just(60), Just(60), Just(200), Just(u64::MAX / 1000)].prop_map(Ending::Public),
        1 => Just(Ending::Private),
        1 => Just(Ending::NoHints),
        1 => Just(Ending::Error),
        1 => Just(Ending::CursorInvalid),
        2 => Just(Ending::Failed),
        2 => Just(Ending::GivenUp),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        2 => Just(Told::Tools),
        1 => Just(Told::Prompts),
        3 => (3..TARGETS.len()).prop_map(Told::Updated),
        1 => Just(Told::Gap),
        1 => Just(Told::Purged),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (0..CALLERS.len(), 0..TARGETS.len())
            .prop_map(|(caller, target)| Event::Ask { caller, target }),
        8 => (any::<usize>(), ending()).prop_map(|(fetch, how)| Event::End { fetch, how }),
        2 => told().prop_map(Event::Change),
        1 => any::<usize>().prop_map(Event::Leave),
        1 => any::<usize>().prop_map(Event::GiveUp),
        4 => prop_oneof![Just(10), Just(30), Just(60), Just(100)].prop_map(Event::Pass),
    ]
}

/// What an answer is shared under: its target, and the callers that it is for.
type Slot = (usize, usize);

/// Callers without a credential are those of the first slot, modern ones with any those of the
/// second, and each legacy one has its own.
fn slot(caller: usize, target: usize) -> Slot {
    let who = match caller {
        0 | 1 => 0,
        2 | 3 => 2,
        legacy => legacy,
    };
    (target, who)
}

fn request(caller: usize, target: usize, policy: plan::Cache, changes: &Arc<Changes>) -> Sent {
    let (method, params, _) = TARGETS[target];
    let mut sent = Sent::new(method, params, policy, changes);
    for (name, value) in CALLERS[caller] {
        sent = sent.with(name, value);
    }
    match caller >= LEGACY {
        true => sent.of_version(Version::V2025_06_18),
        false => sent,
    }
}

/// An answer of the upstream. Its number is its text.
#[derive(Debug)]
struct Given {
    slot: Slot,
    /// How many events there had been when it was asked for.
    began: usize,
    received: Instant,
    /// For how long it may be served; absent where it may not be shared at all.
    ttl: Option<Duration>,
}

struct Fetch {
    fill: Fill,
    caller: usize,
    target: usize,
    began: usize,
    is_refresh: bool,
}

struct World {
    store: Store,
    policy: plan::Cache,
    memory: Memory,
    changes: Arc<Changes>,
    sent: HashMap<(usize, usize), Sent>,
    now: Instant,
    events: usize,
    given: Vec<Given>,
    fetches: Vec<Fetch>,
    waiting: Vec<(Waiting, usize, usize)>,
    /// The answer that each slot should have in memory.
    kept: HashMap<Slot, usize>,
    /// Changes, with the number of their event.
    told: Vec<(usize, Told)>,
    /// Lists of which a cursor was invalid, by the caller's slot.
    invalid: Vec<(usize, Slot)>,
    /// Slots whose fetch has just failed.
    failed: Option<Slot>,
    refreshed: HashSet<usize>,
}

impl World {
    fn new(policy: plan::Cache, memory: Memory) -> World {
        World {
            store: Store::new(&memory).unwrap(),
            policy,
            memory,
            sent: HashMap::new(),
            changes: Arc::default(),
            now: Instant::now(),
            events: 0,
            given: Vec::new(),
            fetches: Vec::new(),
            waiting: Vec::new(),
            kept: HashMap::new(),
            told: Vec::new(),
            invalid: Vec::new(),
            failed: None,
            refreshed: HashSet::new(),
        }
    }

    /// Whether something was told after event `began` that concerns the answer of a slot.
    fn is_void(&self, (target, who): Slot, began: usize) -> bool {
        let (method, _, segments) = TARGETS[target];
        let told = self.told.iter().filter(|(at, _)| *at > began);
        let is_told = told.map(|(_, told)| told).any(|told| match *told {
            Told::Tools => method == "tools/list",
            Told::Prompts => method == "prompts/list",
            Told::Updated(other) => {
                let other = TARGETS[other].2;
                !segments.is_empty() && (segments.starts_with(other) || other.starts_with(segments))
            }
            Told::Gap | Told::Purged => true,
        });
        let is_modern = |who: usize| who < LEGACY;
        let is_invalid = self.invalid.iter().any(|(at, list)| {
            let same = list.1 == who || is_modern(list.1) && is_modern(who);
            *at > began && PAGES.contains(&target) && same
        });
        is_told || is_invalid
    }

    /// The answer with which a request must be served, if there is one.
    fn must_serve(&self, caller: usize, target: usize) -> Option<usize> {
        let own = slot(caller, target);
        let anybody = (own.1 == 2).then_some((target, 0));
        [Some(own), anybody].into_iter().flatten().find_map(|slot| {
            let number = *self.kept.get(&slot)?;
            let given = &self.given[number];
            let fresh = self.now - given.received < given.ttl?;
            (fresh && !self.is_void(slot, given.began)).then_some(number)
        })
    }

    /// Holds an answer that is served against everything that must not be.
    fn served(&self, caller: usize, target: usize, entry: &Entry, is_stale: bool) {
        let number = text(entry).parse::<usize>().unwrap();
        let given = &self.given[number];
        let own = slot(caller, target);
        assert_eq!(given.slot.0, target, "of another question");
        let is_for = given.slot == own || own.1 == 2 && given.slot.1 == 0;
        assert!(is_for, "{:?} is not for {own:?}", given.slot);
        let ttl = given.ttl.expect("it was not to be shared");
        let age = self.now - given.received;
        assert!(!self.is_void(given.slot, given.began), "it has changed");
        if is_stale {
            assert!(age < ttl + self.policy.stale_if_error, "too stale");
            assert_eq!(self.failed, Some(own), "nothing failed");
            let kept = self.kept.get(&given.slot);
            assert_eq!(kept, Some(&number), "another answer came after it");
        } else {
            assert!(age < ttl, "not fresh");
            assert_eq!(entry.ttl_ms(self.now), (ttl - age).as_millis() as u64);
        }
    }

    fn has_evictions(&self) -> bool {
        self.memory.entries_max < 1000
    }

    fn ask(&mut self, caller: usize, target: usize) {
        let (policy, changes) = (self.policy, &self.changes);
        let sent = self.sent.entry((caller, target));
        let sent = sent.or_insert_with(|| request(caller, target, policy, changes));
        let look = sent.look(&self.store, self.now);
        let must = self.must_serve(caller, target);
        let own = slot(caller, target);
        match look {
            Look::Hit(hit) => {
                self.served(caller, target, &hit.entry, false);
                if let Some(fill) = hit.refresh {
                    let number = text(&hit.entry).parse::<usize>().unwrap();
                    assert_eq!(self.given[number].slot, own, "in another's context");
                    assert!(self.refreshed.insert(number), "twice");
                    let left = hit.entry.ttl_ms(self.now);
                    assert!(u128::from(left) <= self.policy.refresh_before.as_millis());
                    self.fetches(fill, caller, target, true);
                }
            }
            Look::Lead(fill) => {
                assert!(must.is_none() || self.has_evictions(), "asked again");
                self.fetches(fill, caller, target, false);
            }
            Look::Wait(waiting) => {
                assert!(
                    must.is_none() || self.has_evictions(),
                    "waits for what is there"
                );
                assert_eq!(self.leaders(own), 1, "it waits for nobody");
                self.waiting.push((waiting, caller, target));
                let waiting = self.waiting.iter().filter(|(_, c, t)| slot(*c, *t) == own);
                assert!(waiting.count() <= self.policy.waiters_max, "too many wait");
            }
        }
    }

    fn fetches(&mut self, fill: Fill, caller: usize, target: usize, is_refresh: bool) {
        let began = self.events;
        let leads = fill.is_alone().is_none();
        self.fetches.push(Fetch {
            fill,
            caller,
            target,
            began,
            is_refresh,
        });
        let own = slot(caller, target);
        assert!(!leads || self.leaders(own) == 1, "two lead at once");
    }

    fn leaders(&self, own: Slot) -> usize {
        let fetches = self.fetches.iter();
        let own = fetches.filter(|fetch| slot(fetch.caller, fetch.target) == own);
        own.filter(|fetch| fetch.fill.is_alone().is_none()).count()
    }

    fn end(&mut self, index: usize, how: Ending) {
        if self.fetches.is_empty() {
            return;
        }
        let fetch = self.fetches.swap_remove(index % self.fetches.len());
        let own = slot(fetch.caller, fetch.target);
        match how {
            Ending::Public(ttl) => {
                let hints = format!(r#","ttlMs":{},"cacheScope":"public""#, ttl * 1000);
                self.answered(fetch, &hints, Some(Duration::from_secs(ttl)));
            }
            Ending::Private => {
                self.answered(fetch, r#","ttlMs":60000,"cacheScope":"private""#, None);
            }
            Ending::NoHints => self.answered(fetch, "", None),
            Ending::Error => {
                fetch.fill.unshareable(self.now, Why::Error);
                self.kept.remove(&own);
            }
            Ending::CursorInvalid => {
                fetch.fill.cursor_invalid(self.now);
                if fetch.target == PAGES[1] {
                    self.invalid.push((self.events, own));
                }
                self.kept.remove(&own);
            }
            Ending::Failed => {
                self.failed = Some(own);
                if let Some(entry) = fetch.fill.failed(self.now)
                    && !fetch.is_refresh
                {
                    self.served(fetch.caller, fetch.target, &entry, true);
                }
            }
            Ending::GivenUp => drop(fetch.fill),
        }
    }

    /// The upstream gives the next answer.
    fn answered(&mut self, fetch: Fetch, hints: &str, told: Option<Duration>) {
        let own = slot(fetch.caller, fetch.target);
        let ttl = match fetch.caller >= LEGACY {
            true => Some(LEGACY_TTL),
            false => told,
        };
        let ttl = ttl.filter(|ttl| !ttl.is_zero());
        let number = self.given.len();
        self.given.push(Given {
            slot: own,
            began: fetch.began,
            received: self.now,
            ttl: ttl.map(|ttl| ttl.min(self.policy.max_ttl)),
        });
        let answer = answer(&number.to_string(), hints);
        match fetch.fill.keep(self.now, &answer, Selection::default()) {
            Ok(entry) => {
                assert!(ttl.is_some(), "it was not to be shared");
                assert!(!self.is_void(own, fetch.began), "it had changed");
                assert_eq!(text(&entry), number.to_string());
                self.kept.insert(own, number);
            }
            Err(Why::Voided) => assert!(self.is_void(own, fetch.began), "nothing has changed"),
            Err(_) => {
                assert!(ttl.is_none(), "it could have been kept");
                self.kept.remove(&own);
            }
        }
    }

    fn tell(&mut self, told: Told) {
        self.told.push((self.events, told));
        match told {
            Told::Tools => self.changes.changed(Change::Tools),
            Told::Prompts => self.changes.changed(Change::Prompts),
            Told::Updated(target) => {
                let uri = format!("a:/{}", TARGETS[target].2.join("/"));
                self.changes.resource_updated(&uri);
            }
            Told::Gap => self.changes.gap(),
            Told::Purged => {
                self.store.purge(&Filter::default());
            }
        }
    }

    fn happens(&mut self, event: Event) {
        self.events += 1;
        self.failed = None;
        match event {
            Event::Ask { caller, target } => self.ask(caller, target),
            Event::End { fetch, how } => self.end(fetch, how),
            Event::Change(told) => self.tell(told),
            Event::Pass(seconds) => self.now += Duration::from_secs(seconds),
            Event::Leave(index) if !self.waiting.is_empty() => {
                self.waiting.swap_remove(index % self.waiting.len());
            }
            Event::GiveUp(index) if !self.waiting.is_empty() => {
                let index = index % self.waiting.len();
                let (waiting, caller, target) = self.waiting.swap_remove(index);
                self.came_to(waiting.give_up(), caller, target);
            }
            Event::Leave(_) | Event::GiveUp(_) => {}
        }
        self.listen();
        // Nothing that was done in this step is told by a later number.
        self.events += 1;
        let (bytes, entries) = self.store.held();
        assert!(bytes <= self.memory.bytes_max && entries <= self.memory.entries_max as u64);
        let (_, waiting) = self.store.flights();
        assert_eq!(waiting, self.waiting.len());
    }

    /// Hears what those are told that wait.
    fn listen(&mut self) {
        for (mut waiting, caller, target) in std::mem::take(&mut self.waiting) {
            let mut context = Context::from_waker(Waker::noop());
            let polled = pin!(waiting.outcome()).poll(&mut context);
            match polled {
                Poll::Ready(outcome) => self.came_to(outcome, caller, target),
                Poll::Pending => self.waiting.push((waiting, caller, target)),
            }
        }
    }

    fn came_to(&mut self, outcome: Outcome, caller: usize, target: usize) {
        match outcome {
            Outcome::Answer(entry) => self.served(caller, target, &entry, false),
            Outcome::Stale(entry) => self.served(caller, target, &entry, true),
            Outcome::Lead(fill) => self.fetches(fill, caller, target, false),
        }
    }

    /// Everything is given up.
    fn ends(&mut self) {
        while !self.fetches.is_empty() {
            self.happens(Event::End {
                fetch: 0,
                how: Ending::GivenUp,
            });
        }
        assert!(self.waiting.is_empty(), "somebody was never told");
        assert_eq!(self.store.flights(), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_does_what_it_may(
        events in vec(event(), 1..120),
        // Few at a time, so that they meet.
        first in 0..CALLERS.len(),
        callers in prop_oneof![Just(1), Just(3), Just(CALLERS.len())],
        targets in prop_oneof![Just(1), Just(2), Just(TARGETS.len())],
        stale_if_error in prop_oneof![1 => Just(0), 2 => Just(100)],
        refresh_before in prop_oneof![Just(0), Just(40)],
        waiters_max in prop_oneof![Just(1), Just(1000)],
        entries_max in prop_oneof![Just(3), Just(10_000)],
    ) {
        let policy = plan::Cache {
            stale_if_error: Duration::from_secs(stale_if_error),
            refresh_before: Duration::from_secs(refresh_before),
            waiters_max,
            legacy: Some(LegacyCache { ttl: LEGACY_TTL, scope: LegacyScope::Session }),
            ..plan::Cache::default()
        };
        let memory = Memory { entries_max, ..Memory::default() };
        let mut world = World::new(policy, memory);
        for event in events {
            world.happens(match event {
                Event::Ask { caller, target } => Event::Ask {
                    caller: (caller % callers + first) % CALLERS.len(),
                    target: target % targets,
                },
                other => other,
            });
        }
        world.ends();
    }
}
