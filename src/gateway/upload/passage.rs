//! The state that both halves of an upload share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Body;
use tokio::time::Instant;

use super::judge::Judge;
use crate::gateway::agree::claim::{Agreement, Inspection, Refused};
use crate::gateway::outbound::Cut;
use crate::net::received::Received;
use crate::protocol::refusal::{BodyFault, Refusal};

/// Whom the exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The client, for the next piece.
    Client,
    /// The upstream: to take a piece, or to answer.
    Upstream,
}

/// What came of the judgement.
#[derive(Debug)]
enum Verdict {
    /// Not all of the body has come.
    Open(Judge),
    /// The body agrees with its claim, if it has one. What was kept back of it may follow.
    Agreed(Option<Agreement>, Bytes),
    /// It is refused; nothing is left once that has been told.
    Refused(Option<Refused>),
}

/// A body on its way through.
#[derive(Debug)]
pub(super) struct Passage {
    /// What is still to come from the client; nothing once the body has ended, or is drained.
    rest: Option<Received>,
    /// Whether the client was asked for it: one that waits for a `100 Continue` sends nothing before.
    is_asked_for: bool,
    /// What may be sent next.
    ready: Bytes,
    verdict: Verdict,
    /// How many bytes have come.
    received: Arc<AtomicU64>,
    waits_for: Side,
    since: Instant,
    /// When it was certain that the body is refused, while it is read on.
    refuted_since: Option<Instant>,
    /// Whether the client went, if its body broke off.
    client_gone: bool,
    /// An answer is passed on already. What was sent may not be broken off before that is complete.
    answered: bool,
    /// Nobody sends the body any more, so that the exchange reads it.
    unsent: bool,
    /// All of it was sent.
    sent: bool,
    /// Whoever waits for the verdict.
    waker: Option<Waker>,
}

impl Passage {
    /// A body of which nothing has been read.
    pub(super) fn new(
        judge: Judge,
        rest: Received,
        is_asked_for: bool,
        received: Arc<AtomicU64>,
    ) -> Passage {
        Passage {
            rest: Some(rest),
            is_asked_for,
            ready: Bytes::new(),
            verdict: Verdict::Open(judge),
            received,
            waits_for: Side::Upstream,
            since: Instant::now(),
            refuted_since: None,
            client_gone: false,
            answered: false,
            unsent: false,
            sent: false,
            waker: None,
        }
    }

    /// Whether the body is refused whatever of it is still to come.
    pub(super) fn is_refuted(&self) -> bool {
        match &self.verdict {
            Verdict::Open(judge) => judge.contradicts(),
            Verdict::Agreed(..) => false,
            Verdict::Refused(_) => true,
        }
    }

    /// Whether all of the body was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.sent
    }

    /// Whether the body broke off because its client went.
    pub(super) fn client_gone(&self) -> bool {
        self.client_gone
    }

    /// The id, if it has come already.
    pub(super) fn id(&self) -> Option<Bytes> {
        match &self.verdict {
            Verdict::Open(judge) => judge.inspection().and_then(Inspection::id),
            Verdict::Agreed(agreement, _) => agreement.as_ref().and_then(Agreement::id),
            Verdict::Refused(refused) => refused.as_ref().and_then(|refused| refused.id.clone()),
        }
    }

    /// A refusal that is told to the id that is known so far.
    pub(super) fn refused(&self, refusal: Refusal) -> Refused {
        Refused::new(refusal, self.id())
    }

    /// Since when it is certain that a body is refused which is still read.
    pub(super) fn refuted_since(&self) -> Option<Instant> {
        self.refuted_since
            .filter(|_| matches!(self.verdict, Verdict::Open(_)))
    }

    /// No more is read of a body that does not come to its end. Gives what is known to be wrong with
    /// it, or else `silence`.
    pub(super) fn give_up(&mut self, silence: Refusal) -> Refused {
        let refused = match &self.verdict {
            Verdict::Open(judge) => judge.conclude(silence),
            Verdict::Agreed(..) | Verdict::Refused(_) => self.refused(silence).closing(),
        };
        self.rest = None;
        self.settle(Verdict::Refused(None));
        refused
    }

    /// Whom the exchange waits for, and since when.
    pub(super) fn waits(&self) -> (Side, Instant) {
        (self.waits_for, self.since)
    }

    /// An answer has come. Tells whether it passes at once: it waits for the verdict where it is no
    /// error and might be the answer to something else, and where the body was refused first.
    pub(super) fn answer(&mut self, is_error: bool) -> bool {
        let waits = match &self.verdict {
            Verdict::Open(judge) => !is_error && judge.inspection().is_some(),
            Verdict::Agreed(..) | Verdict::Refused(_) => false,
        };
        self.answered = !waits && !self.is_refuted();
        self.answered
    }

    /// Nobody sends the body any more.
    pub(super) fn abandon(&mut self) {
        self.unsent = true;
        self.wake();
    }

    /// What is left of the body, and comes; it is not sent any more.
    pub(super) fn take_rest(&mut self) -> Option<Received> {
        self.rest.take().filter(|_| self.is_asked_for)
    }

    /// The next piece that may be sent; `None` at the proper end.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            if !self.ready.is_empty() {
                self.wait_for(Side::Upstream);
                if matches!(&self.verdict, Verdict::Agreed(_, tail) if tail.is_empty()) {
                    self.finish();
                }
                return Poll::Ready(Some(Ok(std::mem::take(&mut self.ready))));
            }
            match &mut self.verdict {
                Verdict::Agreed(_, tail) => {
                    let tail = std::mem::take(tail);
                    self.wait_for(Side::Upstream);
                    self.finish();
                    return Poll::Ready((!tail.is_empty()).then_some(Ok(tail)));
                }
                Verdict::Refused(_) => return self.cut(),
                Verdict::Open(judge) if judge.contradicts() => return self.cut(),
                Verdict::Open(_) => ready!(self.poll_read(cx)),
            }
        }
    }

    /// The verdict, once nothing is left to do for it: what is found good has been sent, unless nobody
    /// sends the body any more. Then it is read here.
    pub(super) fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        loop {
            match &mut self.verdict {
                // Whoever passes an answer on ends the request with it, and with the request what
                // has not been sent of it.
                Verdict::Agreed(..) if self.sent || self.unsent => return Poll::Ready(Ok(())),
                Verdict::Refused(refused) => {
                    let refused = refused.take();
                    let told = refused.unwrap_or_else(|| Refused::new(BodyFault::Broken, None));
                    return Poll::Ready(Err(told));
                }
                Verdict::Open(_) if self.unsent => {
                    ready!(self.poll_read(cx));
                    self.ready.clear();
                }
                Verdict::Agreed(..) | Verdict::Open(_) => {
                    self.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }

    /// Sends no more. The connection would break off the answer with the request, so that it is
    /// left waiting where there is one; it ends with its exchange.
    fn cut(&self) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.answered {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(Cut)))
    }

    /// Reads one piece of the body, or its end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_asked_for = true;
        let Some(rest) = &mut self.rest else {
            // It is drained, and nobody is left who would be told.
            self.settle(Verdict::Refused(None));
            return Poll::Ready(());
        };
        match Pin::new(rest).poll_frame(cx) {
            Poll::Pending => {
                if self.waits_for != Side::Client {
                    self.wait_for(Side::Client);
                }
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.wait_for(Side::Client);
                // Trailers are of the client's leg only.
                if let Ok(data) = frame.into_data() {
                    self.read(data);
                }
            }
            Poll::Ready(Some(Err(error))) => {
                self.client_gone = error.is_gone();
                let refused = self.refused(BodyFault::Broken.into());
                self.settle(Verdict::Refused(Some(refused)));
                self.rest = None;
            }
            Poll::Ready(None) => self.end(),
        }
        Poll::Ready(())
    }

    /// Takes in a piece that has come.
    pub(super) fn read(&mut self, piece: Bytes) {
        let length = piece.len() as u64;
        self.received.fetch_add(length, Ordering::Relaxed);
        let Verdict::Open(judge) = &mut self.verdict else {
            return;
        };
        match judge.read(piece) {
            Ok(passes) => self.ready = passes,
            Err(refused) => {
                if refused.closes {
                    self.rest = None;
                }
                return self.settle(Verdict::Refused(Some(refused)));
            }
        }
        if judge.contradicts() {
            self.refuted_since.get_or_insert_with(Instant::now);
            // None of it goes on, so that nobody waits for the upstream.
            self.wait_for(Side::Client);
        }
        // A body of known length is complete for its reader with its last piece, so that this one
        // does not go on before all of it has been judged.
        if self.rest.as_ref().is_none_or(is_at_end) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.rest = None;
        let verdict = match std::mem::replace(&mut self.verdict, Verdict::Refused(None)) {
            Verdict::Open(judge) => match judge.end() {
                Ok((agreement, tail)) => Verdict::Agreed(agreement, tail),
                Err(refused) => Verdict::Refused(Some(refused)),
            },
            settled => settled,
        };
        match verdict {
            Verdict::Refused(_) => self.ready.clear(),
            Verdict::Agreed(..) | Verdict::Open(_) => self.wait_for(Side::Upstream),
        }
        self.settle(verdict);
    }

    /// All of the body has been taken.
    fn finish(&mut self) {
        self.sent = true;
        self.wake();
    }

    fn settle(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait_for(&mut self, side: Side) {
        self.waits_for = side;
        self.since = Instant::now();
    }
}

fn is_at_end(body: &Received) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}
