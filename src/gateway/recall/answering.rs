//! Reads an answer of the upstream: keeps it where it may be kept, learns the tools that it lists,
//! and decides what of it leaves.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;

use super::view::{Selection, Undecidable, View};
use super::{note, told};
use crate::gateway::answer::{self, Limits, Read, Unread};
use crate::gateway::cache::{Entry, Fill, Status, Why};
use crate::gateway::catalog::Learning;
use crate::gateway::follow::{self, Follower};
use crate::gateway::outbound::Lease;
use crate::gateway::relay::{self, Reader, Source, Verdict};
use crate::net::upstream::Inbound;
use crate::observe::Exchange;
use crate::protocol::media;
use crate::protocol::refusal::{self, Refusal, UpstreamFault};
use crate::protocol::response::{Message, Notification, Response};
use crate::protocol::version::Era;

const UNREADABLE: &str = "an answer that must be read and cannot be";

/// How the answer to one request is read.
pub(in crate::gateway) struct Answering {
    view: View,
    limits: Limits,
    era: Era,
    /// The raw id of the request, if it is known before the answer.
    id: Option<Bytes>,
    /// The right to keep it.
    fill: Option<Fill>,
    learning: Option<Learning>,
    follower: Arc<Follower>,
    /// When it began, where that is what its age counts from.
    began: Option<Instant>,
    /// Whether it was kept, once that is known; the log learns it too.
    kept: Arc<OnceLock<&'static str>>,
    status: Option<Status>,
}

/// What leaves of a message.
enum Leaving {
    AsItCame,
    Otherwise(Bytes),
    Nothing,
}

impl Answering {
    /// The answer to a request of this era with this id, as `view` has it leave. Of one that need not
    /// be read, no more than `entry_bytes_max` is held.
    #[must_use]
    pub(in crate::gateway) fn new(
        view: View,
        era: Era,
        id: Option<Bytes>,
        entry_bytes_max: usize,
        follower: &Arc<Follower>,
    ) -> Answering {
        Answering {
            limits: view.limits(entry_bytes_max),
            view,
            era,
            id,
            fill: None,
            learning: None,
            follower: Arc::clone(follower),
            began: None,
            kept: Arc::default(),
            status: None,
        }
    }

    /// The same, which keeps it.
    #[must_use]
    pub(in crate::gateway) fn keeping(mut self, fill: Fill) -> Answering {
        self.status = Some(Status::Fetched {
            had_stale: fill.had_stale(),
            // Until more is known: why it goes upstream beside others.
            kept: fill.is_alone().map(Err),
        });
        self.fill = Some(fill);
        self
    }

    /// Whether there is anything to read it for.
    #[must_use]
    pub(in crate::gateway) fn has_use(&self) -> bool {
        self.fill.is_some() || self.learning.is_some() || self.view.demands()
    }

    /// The same, which goes past the memory.
    #[must_use]
    pub(in crate::gateway) fn bypassing(mut self, why: Why) -> Answering {
        // Where nothing is kept, nothing need be said of it.
        self.status = (why != Why::Off).then_some(Status::Bypass(why));
        self
    }

    /// The same, which learns from it.
    #[must_use]
    pub(in crate::gateway) fn learning(mut self, learning: Option<Learning>) -> Answering {
        self.learning = learning;
        self
    }

    /// Within which bounds it is held.
    #[must_use]
    pub(in crate::gateway) fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether it is a page behind the first that is to be kept.
    #[must_use]
    pub(in crate::gateway) fn is_of_page(&self) -> bool {
        self.fill.as_ref().is_some_and(Fill::is_of_page)
    }

    /// Says in an answer that is not read, and in the log, what memory had to do with it.
    pub(in crate::gateway) fn note(
        &self,
        answered: &mut Result<http::Response<Source>, Refusal>,
        exchange: &mut Exchange,
    ) {
        match (self.status, answered) {
            (Some(status), Ok(response)) => note(response, status, exchange),
            (Some(status), Err(_)) => told(status, exchange),
            (None, _) => {}
        }
    }

    /// There was no answer, or one with a 5xx. Gives what may be served instead.
    #[must_use]
    pub(in crate::gateway) fn failed(&mut self) -> Option<Arc<Entry>> {
        let stale = self.fill.take()?.failed(Instant::now());
        if stale.is_none() {
            self.told(Err(Why::Error));
        }
        stale
    }

    /// The answer is an error that leaves nothing to be served.
    pub(in crate::gateway) fn refused(&mut self) {
        self.unshareable(Why::Error);
    }

    /// Reads an answer whose head says that all is well, and passes on what leaves of it.
    ///
    /// # Errors
    /// [`UpstreamFault::Unreadable`] where it must be read and cannot be.
    /// It stays where it is, so that what was lost on its way can be made up for, unless it reads on
    /// while the answer passes.
    pub(in crate::gateway) async fn settle(
        slot: &mut Option<Box<Answering>>,
        response: http::Response<Inbound>,
        lease: Lease,
        era: Era,
        exchange: &mut Exchange,
    ) -> Result<http::Response<Source>, Refusal> {
        let reads_on =
            media::is_event_stream(response.headers()) && !media::is_coded(response.headers());
        match slot {
            None => Ok(relay::pass(response, lease, era)),
            Some(answering) if !reads_on => {
                answering.settle_document(response, lease, exchange).await
            }
            Some(_) => {
                let response = relay::pass(response, lease, era);
                Ok(match slot.take() {
                    Some(answering) => answering.settle_stream(response, exchange),
                    None => response,
                })
            }
        }
    }

    fn settle_stream(
        mut self: Box<Self>,
        mut response: http::Response<Source>,
        exchange: &mut Exchange,
    ) -> http::Response<Source> {
        if self.view.demands() {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        if let Some(status) = self.status {
            note(&mut response, status, exchange);
            exchange.storing(Arc::clone(&self.kept));
        }
        // Its client takes the rest as it likes, and must not make old what others are given.
        self.began = Some(Instant::now());
        let bytes_max = self.limits.bytes_max;
        relay::read(&mut response, self, bytes_max);
        response
    }

    async fn settle_document(
        &mut self,
        response: http::Response<Inbound>,
        lease: Lease,
        exchange: &mut Exchange,
    ) -> Result<http::Response<Source>, Refusal> {
        let whole = |_: &[u8]| Read::Response(());
        let (held, found) = answer::hold(response, lease, self.limits, whole).await;
        let leaving = match found {
            Ok(()) => self.respond(held.bytes()),
            Err(unread) => self.pass_unread(unread)?,
        };
        let mut response = match leaving {
            Leaving::AsItCame => held.pass(self.era),
            Leaving::Otherwise(message) => held.replace(&message, self.era),
            Leaving::Nothing => return Err(self.fault(UNREADABLE).into()),
        };
        if let Some(status) = self.status {
            note(&mut response, status, exchange);
        }
        if let Some(word) = self.kept.get() {
            exchange.stored(word);
        }
        Ok(response)
    }

    /// Reads an answer for nobody but the memory.
    pub(in crate::gateway) fn keep_only(&mut self, response: Response) {
        let _ = self.decide(response);
    }

    /// An answer that could not be read goes on as it is, if it need not be.
    fn pass_unread(&mut self, unread: Unread) -> Result<Leaving, Refusal> {
        match unread {
            Unread::Whole(what) if what == self.limits.too_long => self.unshareable(Why::TooLarge),
            Unread::Whole(_) => self.unshareable(Why::Unreadable),
            // As if it had not come.
            Unread::Lost(_) => {
                self.told(Err(Why::Truncated));
                return Err(self.fault(unread.what()).into());
            }
        }
        match self.view.demands() {
            true => Err(self.fault(unread.what()).into()),
            false => Ok(Leaving::AsItCame),
        }
    }

    /// Reads one message, and says what leaves of it.
    fn respond(&mut self, message: &[u8]) -> Leaving {
        if let Some(notification) = Notification::read(message) {
            follow::heed(&notification, self.follower.changes());
        }
        match Message::read(Bytes::copy_from_slice(message)) {
            Message::Other { .. } => Leaving::AsItCame,
            Message::Response(response) => self.decide(response),
            Message::Unreadable(_) => {
                self.unshareable(Why::Unreadable);
                match self.view.demands() {
                    true => Leaving::Nothing,
                    false => Leaving::AsItCame,
                }
            }
        }
    }

    fn decide(&mut self, response: Response) -> Leaving {
        let Ok(selection) = self.select(&response) else {
            self.unshareable(Why::Unreadable);
            return Leaving::Nothing;
        };
        let leaving = match selection.is_whole() {
            true => Leaving::AsItCame,
            false => Leaving::Otherwise(View::leave(&response, &selection, None, None).whole()),
        };
        self.keep(response, selection);
        leaving
    }

    /// What of a response leaves; what it says of tools is learned.
    fn select(&self, response: &Response) -> Result<Selection, Undecidable> {
        let learned = self
            .learning
            .as_ref()
            .map(|learning| learning.learn(response));
        let stays = |index| learned.as_ref().is_none_or(|learned| learned.stays(index));
        self.view.select(response, stays)
    }

    fn keep(&mut self, response: Response, selection: Selection) {
        let now = Instant::now();
        // An answer to something else is not kept as the answer to this.
        let is_own = match (&self.id, response.id()) {
            (Some(asked), Some(told)) => asked[..] == *told,
            (Some(_), None) => response.error().is_some(),
            (None, _) => true,
        };
        let Some(fill) = self.fill.take() else {
            return;
        };
        let kept = match response.error() {
            _ if !is_own => {
                fill.unshareable(now, Why::Unreadable);
                Err(Why::Unreadable)
            }
            Some(error) if error.is_invalid_params() => {
                fill.cursor_invalid(now);
                Err(Why::Error)
            }
            _ => {
                let kept = fill.keep(self.began.unwrap_or(now), &Arc::new(response), selection);
                kept.map(|entry| entry.ttl_seconds(now))
            }
        };
        if kept.is_ok() && self.era == Era::Modern {
            self.follower.begin();
        }
        self.told(kept);
    }

    fn unshareable(&mut self, why: Why) {
        if let Some(fill) = self.fill.take() {
            fill.unshareable(Instant::now(), why);
            self.told(Err(why));
        }
    }

    /// Tells what became of the answer. The first word counts.
    fn told(&mut self, now_kept: Result<i64, Why>) {
        let word = now_kept.map_or_else(Why::word, |_| "stored");
        if self.kept.set(word).is_ok()
            && let Some(Status::Fetched { kept, .. }) = &mut self.status
        {
            *kept = Some(now_kept);
        }
    }

    fn fault(&self, what: &'static str) -> UpstreamFault {
        UpstreamFault::Unreadable {
            upstream: self.view.route().upstream.name.clone(),
            what,
        }
    }

    /// The event that says that an answer must be read and cannot be.
    fn last_words(&self, what: &'static str) -> Bytes {
        let refusal = Refusal::from(self.fault(what));
        refusal::event(&refusal.telling(), self.id.as_deref()).into()
    }
}

impl Reader for Answering {
    fn edits(&self) -> bool {
        self.view.demands()
    }

    fn read(&mut self, message: &[u8]) -> Verdict {
        match self.respond(message) {
            Leaving::AsItCame => Verdict::Pass,
            Leaving::Otherwise(message) => Verdict::Replace(message),
            Leaving::Nothing => Verdict::End(self.last_words(UNREADABLE)),
        }
    }

    fn exceeded(&mut self) -> Option<Bytes> {
        self.unshareable(Why::TooLarge);
        let too_long = self.limits.too_long;
        self.view.demands().then(|| self.last_words(too_long))
    }

    fn ended(&mut self, cut: bool) -> Option<Bytes> {
        // Who waits for the answer tries for itself.
        if self.fill.take().is_some() {
            self.told(Err(Why::Truncated));
        }
        let broken = "an answer that must be read and broke off";
        cut.then(|| self.last_words(broken))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.fill.is_some() {
            self.told(Err(Why::Truncated));
        }
    }
}
