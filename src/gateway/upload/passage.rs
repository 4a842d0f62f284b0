//! The state that both halves of an upload share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Body;
use tokio::time::Instant;

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

/// What came of the inspection.
#[derive(Debug)]
enum Verdict {
    /// Not all of the body has come.
    Open(Box<Inspection>),
    /// The body agrees. What was kept back of it may follow.
    Agreed(Agreement, Bytes),
    /// It is refused; nothing is left once that has been told.
    Refused(Option<Refused>),
}

/// A body on its way through.
#[derive(Debug)]
pub(super) struct Passage {
    /// What is still to come from the client; nothing once the body has ended, or is drained.
    rest: Option<Received>,
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
    /// A body of which `first` has come already.
    pub(super) fn new(
        inspection: Inspection,
        first: Bytes,
        rest: Received,
        received: Arc<AtomicU64>,
    ) -> Passage {
        let mut passage = Passage {
            rest: Some(rest),
            ready: Bytes::new(),
            verdict: Verdict::Open(Box::new(inspection)),
            received,
            waits_for: Side::Upstream,
            since: Instant::now(),
            refuted_since: None,
            client_gone: false,
            answered: false,
            unsent: false,
            sent: false,
            waker: None,
        };
        passage.read(first);
        passage
    }

    /// Whether the body is refused whatever of it is still to come.
    pub(super) fn is_refuted(&self) -> bool {
        match &self.verdict {
            Verdict::Open(inspection) => inspection.contradicts(),
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
            Verdict::Open(inspection) => inspection.id(),
            Verdict::Agreed(agreement, _) => agreement.id(),
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

    /// No more is read of a body that is refused whatever follows. Gives what is known of why.
    pub(super) fn conclude(&mut self) -> Refused {
        let refused = match &self.verdict {
            Verdict::Open(inspection) => inspection.conclude(),
            Verdict::Agreed(..) | Verdict::Refused(_) => self.refused(BodyFault::Broken.into()),
        };
        self.rest = None;
        self.settle(Verdict::Refused(None));
        refused
    }

    /// Whom the exchange waits for, and since when.
    pub(super) fn waits(&self) -> (Side, Instant) {
        (self.waits_for, self.since)
    }

    /// The answer of the upstream passes before the verdict, unless the body was refused first;
    /// tells whether it does.
    pub(super) fn answer(&mut self) -> bool {
        self.answered = !self.is_refuted();
        self.answered
    }

    /// Nobody sends the body any more.
    pub(super) fn abandon(&mut self) {
        self.unsent = true;
        self.wake();
    }

    /// What is left of the body; it is not sent any more.
    pub(super) fn take_rest(&mut self) -> Option<Received> {
        self.rest.take()
    }

    /// The next piece that may be sent; `None` at the proper end.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        loop {
            if !self.ready.is_empty() {
                self.wait_for(Side::Upstream);
                return Poll::Ready(Some(Ok(std::mem::take(&mut self.ready))));
            }
            match &mut self.verdict {
                Verdict::Agreed(_, tail) => {
                    let tail = std::mem::take(tail);
                    self.sent = true;
                    self.wait_for(Side::Upstream);
                    return Poll::Ready((!tail.is_empty()).then_some(Ok(tail)));
                }
                Verdict::Refused(_) => return self.cut(),
                Verdict::Open(inspection) if inspection.contradicts() => return self.cut(),
                Verdict::Open(_) => ready!(self.poll_read(cx)),
            }
        }
    }

    /// The verdict. Where nobody sends the body any more, it is read here.
    pub(super) fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        loop {
            match &mut self.verdict {
                Verdict::Agreed(..) => return Poll::Ready(Ok(())),
                Verdict::Refused(refused) => {
                    let refused = refused.take();
                    let told = refused.unwrap_or_else(|| Refused::new(BodyFault::Broken, None));
                    return Poll::Ready(Err(told));
                }
                Verdict::Open(_) if self.unsent => {
                    ready!(self.poll_read(cx));
                    self.ready.clear();
                }
                Verdict::Open(_) => {
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

    fn read(&mut self, piece: Bytes) {
        let length = piece.len() as u64;
        self.received.fetch_add(length, Ordering::Relaxed);
        let Verdict::Open(inspection) = &mut self.verdict else {
            return;
        };
        match inspection.read(piece) {
            Ok(passes) => self.ready = passes,
            Err(refused) => {
                if refused.closes {
                    self.rest = None;
                }
                return self.settle(Verdict::Refused(Some(refused)));
            }
        }
        if inspection.contradicts() {
            self.refuted_since.get_or_insert_with(Instant::now);
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
            Verdict::Open(inspection) => match inspection.end() {
                Ok((agreement, tail)) => Verdict::Agreed(agreement, tail),
                Err(refused) => Verdict::Refused(Some(refused)),
            },
            settled => settled,
        };
        if let Verdict::Refused(_) = verdict {
            self.ready.clear();
        }
        self.settle(verdict);
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
