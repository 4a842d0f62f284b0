//! Who of those that ask the same at once goes upstream, and what the others are told.
//!
//! A key has at most one open flight, and that one [`Fill`] which leads it. When the fill is
//! dropped, it passes to one of those that wait; it travels in the channel that each of them
//! listens to, so that one that is sent to nobody any more is dropped there, and passes on again.
//! The lock is never held while somebody is told something.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::change::Standing;
use super::entry::{About, Entry};
use super::key::{Key, Question};
use super::status::Why;
use super::store::Kept;
use crate::gateway::recall::Selection;
use crate::policy::plan::LegacyCache;
use crate::protocol::response::{Response, Scope};

/// What one that waits is told.
#[derive(Debug)]
enum Told {
    /// This is the answer.
    Answer(Arc<Entry>),
    /// There was none; this one is not fresh, but may be used.
    Stale(Arc<Entry>),
    /// Ask in the place of the one that went before.
    Lead(Fill),
    /// Ask, everyone for themselves.
    Alone(Why),
}

/// Those that wait, by the order in which they came.
type Waiters = BTreeMap<u64, oneshot::Sender<Told>>;

/// The keys that somebody is fetching.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    flights: HashMap<Key, Waiters>,
    tickets: u64,
}

/// What becomes of one that asks while it does not know of others.
pub(super) enum Boarding {
    /// It is the first, and has to see to the flight's end.
    Leads,
    /// It waits.
    Waits(Ticket),
    /// There is no place left to wait in.
    Crowded,
}

/// The place of one that waits.
#[derive(Debug)]
pub(super) struct Ticket {
    number: u64,
    told: oneshot::Receiver<Told>,
}

impl Flights {
    /// Waits for what is fetched under `key`; where nothing is, fetches it, unless `known` has been
    /// found by now.
    pub(super) fn board<T>(
        &self,
        key: Key,
        waiters_max: usize,
        known: impl FnOnce() -> Option<T>,
    ) -> Result<Boarding, T> {
        let mut open = self.lock();
        let number = open.tickets;
        match open.flights.get_mut(&key) {
            Some(waiters) if waiters.len() >= waiters_max => Ok(Boarding::Crowded),
            Some(waiters) => {
                let (tell, told) = oneshot::channel();
                waiters.insert(number, tell);
                open.tickets += 1;
                Ok(Boarding::Waits(Ticket { number, told }))
            }
            None => match known() {
                Some(known) => Err(known),
                None => {
                    open.flights.insert(key, Waiters::new());
                    Ok(Boarding::Leads)
                }
            },
        }
    }

    /// Begins to fetch what nobody else is fetching.
    pub(super) fn begin(&self, key: Key) -> bool {
        let mut open = self.lock();
        let is_first = !open.flights.contains_key(&key);
        open.flights.entry(key).or_default();
        is_first
    }

    /// How many keys are fetched, and how many wait for them.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        let open = self.lock();
        let waiting = open.flights.values().map(BTreeMap::len).sum();
        (open.flights.len(), waiting)
    }

    /// The one that has waited longest; the flight ends where there is none.
    fn next(&self, key: &Key) -> Option<oneshot::Sender<Told>> {
        let mut open = self.lock();
        let next = open.flights.get_mut(key)?.pop_first();
        if next.is_none() {
            open.flights.remove(key);
        }
        next.map(|(_, tell)| tell)
    }

    /// Those that wait, who do so no longer; the flight goes on.
    fn leave_all(&self, key: &Key) -> Waiters {
        let mut open = self.lock();
        let waiters = open.flights.get_mut(key);
        waiters.map(mem::take).unwrap_or_default()
    }

    /// Ends the flight.
    fn end(&self, key: &Key) -> Waiters {
        self.lock().flights.remove(key).unwrap_or_default()
    }

    fn leave(&self, key: &Key, number: u64) {
        if let Some(waiters) = self.lock().flights.get_mut(key) {
            waiters.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request may do with the answer that it fetches.
#[derive(Clone, Debug)]
struct Terms {
    kept: Arc<Kept>,
    about: Arc<About>,
    max_ttl: Duration,
    stale_if_error: Duration,
    legacy: Option<LegacyCache>,
    /// What is in memory and not fresh any more.
    stale: Option<Arc<Entry>>,
}

impl Terms {
    fn key(&self) -> &Key {
        &self.about.key
    }

    /// How long an answer is fresh.
    fn ttl(&self, response: &Response) -> Result<Duration, Why> {
        if response.error().is_some() {
            return Err(Why::Error);
        }
        if !response.is_complete() {
            return Err(Why::InputRequired);
        }
        let ttl = match self.legacy {
            Some(legacy) => legacy.ttl,
            None => {
                let hints = response.hints().map_err(|_| Why::Hints)?;
                match hints.scope {
                    Scope::Public => Duration::from_millis(hints.ttl_ms),
                    Scope::Private => return Err(Why::Private),
                }
            }
        };
        match ttl.min(self.max_ttl) {
            Duration::ZERO => Err(Why::TtlZero),
            ttl => Ok(ttl),
        }
    }
}

/// The right, and for the one that leads a flight the duty, to fetch an answer.
///
/// Dropped, it is as if the request had been given up, and one of those that wait takes it over.
#[derive(Debug)]
pub(in crate::gateway) struct Fill {
    terms: Terms,
    standing: Standing,
    /// How often the memory had been cleared when it began.
    purges: u64,
    /// Why it leads nobody, if it does not.
    alone: Option<Why>,
    /// Whether it leads a flight.
    leads: bool,
}

impl Fill {
    /// The right to fetch the answer to `question`: of the one that leads the flight of its key, or
    /// of one that asks for itself, for this reason.
    pub(super) fn new(
        kept: &Arc<Kept>,
        question: &Question<'_>,
        standing: Standing,
        stale: Option<Arc<Entry>>,
        alone: Option<Why>,
    ) -> Fill {
        let policy = question.asking.policy;
        Fill {
            terms: Terms {
                kept: kept.clone(),
                about: Arc::new(About::of(question)),
                max_ttl: policy.max_ttl,
                stale_if_error: policy.stale_if_error,
                legacy: question.legacy,
                stale,
            },
            standing,
            purges: kept.purges(),
            alone,
            leads: alone.is_none(),
        }
    }

    /// Why it goes upstream beside others that ask the same, if it does.
    #[must_use]
    pub(in crate::gateway) fn is_alone(&self) -> Option<Why> {
        self.alone
    }

    /// Whether what is fetched is a page of a list behind the first.
    #[must_use]
    pub(in crate::gateway) fn is_of_page(&self) -> bool {
        self.terms.about.kind.is_list() && self.terms.about.target.is_some()
    }

    /// Whether there is an answer in memory that is not fresh any more.
    #[must_use]
    pub(in crate::gateway) fn had_stale(&self) -> bool {
        self.terms.stale.is_some()
    }

    /// Keeps the answer, whose age counts from `received`, if it may be kept, and gives it to those
    /// that wait, be it for this one or for another that asks the same. Where it changed while it was fetched, one of them fetches it again; where it may
    /// not be shared, they all do.
    ///
    /// `selection` is what of it leaves, whoever is given it. The answer's bytes must have a buffer of
    /// their own, since all of that is kept.
    ///
    /// # Errors
    /// Why it was not kept.
    pub(in crate::gateway) fn keep(
        mut self,
        received: Instant,
        response: &Arc<Response>,
        selection: Selection,
    ) -> Result<Arc<Entry>, Why> {
        let ttl = match self.terms.ttl(response) {
            Ok(ttl) => ttl,
            Err(why) => {
                self.unshareable(received, why);
                return Err(why);
            }
        };
        let Terms { about, kept, .. } = self.terms.clone();
        let (stale, standing) = (self.terms.stale_if_error, self.standing.clone());
        let response = response.clone();
        let entry = Entry::new(response, selection, about, received, ttl, stale, standing);
        if !kept.has_room_for(&entry) {
            self.unshareable(received, Why::TooLarge);
            return Err(Why::TooLarge);
        }
        let entry = Arc::new(entry);
        if !entry.holds() || !kept.insert(&entry, self.purges) {
            // Dropped, it passes on.
            return Err(Why::Voided);
        }
        let flights = self.terms.kept.flights();
        let waiters = match mem::take(&mut self.leads) {
            true => flights.end(self.terms.key()),
            // Somebody asked before this one and has no answer yet: nobody need wait for that.
            false => flights.leave_all(self.terms.key()),
        };
        tell(waiters, || Told::Answer(entry.clone()));
        Ok(entry)
    }

    /// The answer, which came at `now`, may not be shared: it is for this caller alone, or an
    /// error, or too long. Those that wait ask for themselves, and so do others for a little while.
    pub(in crate::gateway) fn unshareable(mut self, now: Instant, why: Why) {
        self.terms.kept.mark(*self.terms.key(), now, why);
        self.tell(|| Told::Alone(why));
    }

    /// The answer says that the cursor of the request does not hold: no page of its list does.
    pub(in crate::gateway) fn cursor_invalid(self, now: Instant) {
        if self.is_of_page() {
            let changes = self.standing.changes();
            changes.list_voided(self.terms.about.list());
        }
        self.unshareable(now, Why::Error);
    }

    /// There was no answer, or one with a 5xx, at `now`. Gives what may be served instead, to those
    /// that wait as well; where there is nothing, one of them tries.
    #[must_use]
    pub(in crate::gateway) fn failed(mut self, now: Instant) -> Option<Arc<Entry>> {
        let kept = &self.terms.kept;
        let is_usable = |stale: &Arc<Entry>| {
            // An answer that was not to be shared may have taken it away meanwhile.
            stale.is_usable(now) && stale.holds() && kept.has(stale)
        };
        let stale = self.terms.stale.clone().filter(is_usable)?;
        self.tell(|| Told::Stale(stale.clone()));
        Some(stale)
    }

    /// Ends the flight, if it leads one.
    fn tell(&mut self, told: impl Fn() -> Told) {
        if mem::take(&mut self.leads) {
            tell(self.terms.kept.flights().end(self.terms.key()), told);
        }
    }

    /// The same, which begins now.
    fn renewed(&self, alone: Option<Why>) -> Fill {
        Fill {
            terms: self.terms.clone(),
            standing: Standing::from_now(self.standing.changes()),
            purges: self.terms.kept.purges(),
            alone,
            leads: alone.is_none(),
        }
    }
}

fn tell(waiters: Waiters, told: impl Fn() -> Told) {
    for (_, tell) in waiters {
        // Who has gone meanwhile needs nothing.
        let _ = tell.send(told());
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        if !mem::take(&mut self.leads) {
            return;
        }
        let kept = self.terms.kept.clone();
        let mut next = self.renewed(None);
        while let Some(tell) = kept.flights().next(next.terms.key()) {
            match tell.send(Told::Lead(next)) {
                Ok(()) => return,
                Err(Told::Lead(back)) => next = back,
                Err(_) => return,
            }
        }
        // The flight has ended.
        next.leads = false;
    }
}

/// A request that waits for the answer to another one. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(in crate::gateway) struct Waiting {
    ticket: Ticket,
    /// What it may do once it asks for itself.
    own: Fill,
}

/// What the waiting came to.
#[derive(Debug)]
pub(in crate::gateway) enum Outcome {
    /// The answer to the other request.
    Answer(Arc<Entry>),
    /// An answer that is not fresh any more, because the other request failed.
    Stale(Arc<Entry>),
    /// It has to ask: in the place of the other one, or for itself.
    Lead(Fill),
}

impl Waiting {
    /// With this place, and with the right to ask for itself.
    pub(super) fn new(ticket: Ticket, own: Fill) -> Waiting {
        Waiting { ticket, own }
    }

    /// Waits, for as long as the caller likes; nothing is lost if this is given up and asked again.
    /// Once it has told the outcome, it is of no more use.
    pub(in crate::gateway) async fn outcome(&mut self) -> Outcome {
        let told = (&mut self.ticket.told).await;
        self.heard(told.ok())
    }

    /// Waits no longer: what it came to in this moment, or the right to ask for itself.
    #[must_use]
    pub(in crate::gateway) fn give_up(mut self) -> Outcome {
        let told = self.ticket.told.try_recv();
        self.heard(told.ok())
    }

    fn heard(&self, told: Option<Told>) -> Outcome {
        match told {
            Some(Told::Answer(entry)) => Outcome::Answer(entry),
            Some(Told::Stale(entry)) => Outcome::Stale(entry),
            Some(Told::Lead(fill)) => Outcome::Lead(fill),
            Some(Told::Alone(why)) => Outcome::Lead(self.own.renewed(Some(why))),
            None => Outcome::Lead(self.own.renewed(Some(Why::Late))),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let terms = &self.own.terms;
        terms.kept.flights().leave(terms.key(), self.ticket.number);
    }
}
