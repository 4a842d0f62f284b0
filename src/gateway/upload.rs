//! A request's body on its way through: read from the client, inspected, and sent upstream, without
//! being held. The upstream's request becomes complete only if the body agrees with its headers.
//!
//! Two halves share one state. [`Guarded`] is the body that the connection to the upstream polls;
//! [`Upload`] is what the exchange has of it: it waits for the verdict, keeps the time, and reads
//! what is left if the upstream does not take it. There is no channel between client and upstream
//! that could come to an end of its own: only an [`Agreement`] ends the body.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::claim::{Agreement, Claim, Inspection, Refused};
use super::receive::{self, Part};
use crate::net::alarm::Alarm;
use crate::observe::Passed;
use crate::policy::plan::Route;
use crate::protocol::refusal::{BodyFault, Refusal, UpstreamFault};

/// The body as the connection to the upstream has it.
pub(super) struct Guarded {
    passage: Arc<Mutex<Passage>>,
    /// How long the body is, if the client said so.
    length: Option<u64>,
}

/// The body as the exchange has it. What is left of it when this is dropped is drained.
pub(super) struct Upload {
    passage: Arc<Mutex<Passage>>,
    route: Arc<Route>,
}

/// The body went no further. Why is for the exchange to tell; the upstream sees a request that
/// breaks off.
#[derive(Debug)]
pub(super) struct Halted;

impl fmt::Display for Halted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's body was not let through")
    }
}

impl Error for Halted {}

/// Whom the exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
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
    /// It is refused.
    Refused(Option<Refused>),
}

/// A body on its way through.
struct Passage {
    /// What is still to come from the client; nothing once the body has ended, or is drained.
    rest: Option<Incoming>,
    /// What may be sent next.
    ready: Bytes,
    verdict: Verdict,
    passed: Passed,
    waits_for: Side,
    since: Instant,
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
    fn wait_for(&mut self, side: Side) {
        self.waits_for = side;
        self.since = Instant::now();
    }

    fn settle(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next piece that may be sent; `None` at the proper end.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Halted>>> {
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
                Verdict::Refused(_) => return self.halt(),
                Verdict::Open(inspection) if inspection.contradicts() => return self.halt(),
                Verdict::Open(_) => ready!(self.poll_read(cx)),
            }
        }
    }

    /// Sends no more. The connection would break off the answer with the request, so that it is
    /// left waiting where there is one; it ends with its exchange.
    fn halt(&self) -> Poll<Option<Result<Bytes, Halted>>> {
        if self.answered {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(Halted)))
    }

    /// Reads one piece of the body, or its end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(rest) = &mut self.rest else {
            // Drained, so that nobody will ever know.
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
                self.client_gone = receive::is_gone(&error);
                self.refuse(BodyFault::Broken.into());
                self.rest = None;
            }
            Poll::Ready(None) => self.end(),
        }
        Poll::Ready(())
    }

    fn read(&mut self, piece: Bytes) {
        self.passed.add(piece.len() as u64);
        let Verdict::Open(inspection) = &mut self.verdict else {
            return;
        };
        match inspection.read(piece) {
            Ok(passes) => self.ready = passes,
            Err(refused) => return self.settle(Verdict::Refused(Some(refused))),
        }
        // A body of known length is complete for its reader with its last piece, so that this one
        // does not go on before all of it has been judged.
        if self.rest.as_ref().is_none_or(is_at_end) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.rest = None;
        let verdict = std::mem::replace(&mut self.verdict, Verdict::Refused(None));
        let verdict = match verdict {
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

    fn refuse(&mut self, refusal: Refusal) {
        if let Verdict::Open(inspection) = &self.verdict {
            let refused = inspection.refused(refusal);
            self.settle(Verdict::Refused(Some(refused)));
        }
    }

    /// The verdict; read for here if nobody sends what is read.
    fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        loop {
            match &mut self.verdict {
                Verdict::Agreed(..) => return Poll::Ready(Ok(())),
                Verdict::Refused(refused) => {
                    return Poll::Ready(Err(refused.take().unwrap_or(Refused {
                        refusal: BodyFault::Broken.into(),
                        id: None,
                    })));
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
}

fn is_at_end(body: &Incoming) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

fn lock(passage: &Mutex<Passage>) -> MutexGuard<'_, Passage> {
    // A panic in one half ends the exchange, and with it the other.
    passage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to let a body through to `route` whose headers make `claim`. `passed` counts what comes.
///
/// # Errors
/// The verdict, where the beginning of the body settles already that it is refused: nothing of it
/// is sent then.
pub(super) async fn begin(
    claim: Claim,
    route: &Arc<Route>,
    part: Part,
    passed: Passed,
) -> Result<(Upload, Guarded), Refused> {
    let Part { held, rest } = part;
    let length = rest
        .size_hint()
        .exact()
        .map(|rest| rest + held.len() as u64);
    let inspection = Inspection::new(claim, route.clone());
    let mut passage = Passage {
        rest: Some(rest),
        ready: Bytes::new(),
        verdict: Verdict::Open(Box::new(inspection)),
        passed,
        waits_for: Side::Upstream,
        since: Instant::now(),
        client_gone: false,
        answered: false,
        unsent: false,
        sent: false,
        waker: None,
    };
    passage.read(held.freeze());
    let passage = Arc::new(Mutex::new(passage));
    let upload = Upload {
        passage: passage.clone(),
        route: route.clone(),
    };
    let guarded = Guarded { passage, length };
    if upload.is_refuted() {
        drop(guarded);
        return Err(upload.refusal().await);
    }
    Ok((upload, guarded))
}

impl Upload {
    /// Whether the body is refused whatever of it is still to come.
    fn is_refuted(&self) -> bool {
        match &lock(&self.passage).verdict {
            Verdict::Open(inspection) => inspection.contradicts(),
            Verdict::Agreed(..) => false,
            Verdict::Refused(_) => true,
        }
    }

    /// Whether all of the body was sent.
    #[must_use]
    pub(super) fn is_sent(&self) -> bool {
        lock(&self.passage).sent
    }

    /// The verdict on the body, once all of it has been read.
    ///
    /// # Errors
    /// What a body would have been refused for that is read first, or that it did not come in
    /// time.
    async fn verdict(&self) -> Result<(), Refused> {
        let verdict = poll_fn(|cx| lock(&self.passage).poll_verdict(cx));
        let refused = match self.watch(verdict).await {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        if lock(&self.passage).client_gone {
            receive::broken(true, self.route.bounds.body_idle_timeout).await;
        }
        Err(refused)
    }

    /// Waits for the upstream's answer to the request that `sending` sends, and with an answer that
    /// is no error for the verdict too: until then it might be the answer to something else.
    ///
    /// # Errors
    /// The verdict, that one of the two sides was too slow, or why there is no answer.
    pub(super) async fn answer<B, L>(
        &self,
        sending: impl Future<Output = Result<(Response<B>, L), UpstreamFault>>,
    ) -> Result<(Response<B>, L), Refused> {
        let sending = async { Ok(sending.await) };
        match self.watch(sending).await? {
            Ok((response, lease)) => {
                let status = response.status();
                let is_error = status.is_client_error() || status.is_server_error();
                if !(is_error && self.passes_unjudged()) {
                    self.verdict().await?;
                }
                Ok((response, lease))
            }
            // The connection broke off because the body did.
            Err(_) if self.is_refuted() => Err(self.refusal().await),
            Err(fault) => Err(self.refused(fault.into())),
        }
    }

    /// Why a body is refused of which that is certain.
    async fn refusal(&self) -> Refused {
        match self.verdict().await {
            Err(refused) => refused,
            // What contradicts its claim never agrees with it; and it was not sent.
            Ok(()) => self.refused(BodyFault::Broken.into()),
        }
    }

    /// Notes that the upstream's answer passes before the verdict; not any more if the body was
    /// refused first.
    fn passes_unjudged(&self) -> bool {
        let refuted = self.is_refuted();
        lock(&self.passage).answered = !refuted;
        !refuted
    }

    /// A refusal that is told to the id that is known so far.
    fn refused(&self, refusal: Refusal) -> Refused {
        match &lock(&self.passage).verdict {
            Verdict::Open(inspection) => inspection.refused(refusal),
            Verdict::Agreed(..) | Verdict::Refused(_) => Refused { refusal, id: None },
        }
    }

    /// Waits for `future` for as long as neither side is silent for too long.
    async fn watch<T>(
        &self,
        future: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Refused> {
        let mut future = pin!(future);
        let mut alarm = Alarm::new(Instant::now() + self.shorter_limit());
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = future.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            while alarm.poll(cx).is_ready() {
                match self.next_look(Instant::now()) {
                    Ok(next) => alarm.reset(next),
                    Err(refusal) => return Poll::Ready(Err(self.refused(refusal))),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// When to look next for silence; the side that we wait for may have changed until then.
    fn next_look(&self, now: Instant) -> Result<Instant, Refusal> {
        let (side, since) = {
            let passage = lock(&self.passage);
            (passage.waits_for, passage.since)
        };
        let due = since + self.limit(side);
        if due > now {
            return Ok(due.min(now + self.shorter_limit()));
        }
        let max = self.limit(side);
        Err(match side {
            Side::Client => BodyFault::Timeout { max }.into(),
            Side::Upstream => UpstreamFault::Timeout {
                upstream: self.route.upstream.name.clone(),
                limit: "response_header_timeout",
                max,
            }
            .into(),
        })
    }

    fn limit(&self, side: Side) -> Duration {
        match side {
            Side::Client => self.route.bounds.body_idle_timeout,
            Side::Upstream => self.route.upstream.response_header_timeout,
        }
    }

    fn shorter_limit(&self) -> Duration {
        self.limit(Side::Client).min(self.limit(Side::Upstream))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let rest = lock(&self.passage).rest.take();
        if let Some(rest) = rest {
            receive::drain(rest, &self.route.bounds);
        }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").finish_non_exhaustive()
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Halted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Halted>>> {
        let next = ready!(lock(&self.passage).poll_send(cx));
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.passage).sent
    }

    fn size_hint(&self) -> SizeHint {
        self.length
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut passage = lock(&self.passage);
        passage.unsent = true;
        if let Some(waker) = passage.waker.take() {
            waker.wake();
        }
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
