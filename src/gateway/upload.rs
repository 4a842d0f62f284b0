//! A request's body on its way through: read from the client, judged, and sent upstream, without
//! being held. The upstream's request becomes complete only if the body is found good: where it is a
//! message, by what its headers claim.
//!
//! Two halves share one state. [`Streamed`] is the body that the connection to the upstream polls;
//! [`Upload`] is what the exchange has of it: it waits for the verdict, keeps the time, and reads
//! what is left if the upstream does not take it. There is no channel between client and upstream
//! that could come to an end of its own: only the judge's verdict ends the body.

mod judge;
mod passage;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use self::judge::Judge;
use self::passage::{Passage, Side};
use super::agree::claim::{Claim, Inspection, Refused};
use super::outbound::{Cut, Lease};
use super::receive::{self, Part};
use crate::net::alarm::Alarm;
use crate::net::received::Received;
use crate::net::upstream::Inbound;
use crate::policy::plan::Route;
use crate::protocol::refusal::{Addressee, BodyFault, Refusal, UpstreamFault};

/// The body as the connection to the upstream has it.
pub(super) struct Streamed {
    passage: Arc<Mutex<Passage>>,
    /// How long the body is, if the client said so.
    length: Option<u64>,
}

/// The body as the exchange has it. What is left of it when this is dropped is drained.
pub(super) struct Upload {
    passage: Arc<Mutex<Passage>>,
    route: Arc<Route>,
}

/// Begins to let a body through to `route` whose headers make `claim`. `received` counts what comes.
///
/// # Errors
/// The verdict, where the beginning of the body settles already that it is refused: nothing of it
/// is sent then.
pub(super) async fn begin(
    claim: Claim,
    route: &Arc<Route>,
    part: Part,
    received: Arc<AtomicU64>,
) -> Result<(Upload, Streamed), Refused> {
    let Part { held, rest } = part;
    let known = rest.size_hint().exact();
    let length = known.map(|rest| rest + held.len() as u64);
    let judge = Judge::Claimed(Box::new(Inspection::new(claim, route.clone())));
    let mut passage = Passage::new(judge, rest, true, received);
    passage.read(held.freeze());
    let (upload, streamed) = halves(passage, length, route);
    if upload.passage().is_refuted() {
        drop(streamed);
        return Err(upload.refusal().await);
    }
    Ok((upload, streamed))
}

/// Begins to let a body through to `route` that nobody reads. A client that `expects` to be asked for
/// it is, once the upstream wants it. `received` counts what comes.
#[must_use]
pub(super) fn begin_unread(
    route: &Arc<Route>,
    body: Received,
    expects: bool,
    received: Arc<AtomicU64>,
) -> (Upload, Streamed) {
    let length = body.size_hint().exact();
    let judge = Judge::Unread {
        passed: 0,
        bounds: route.bounds,
    };
    halves(Passage::new(judge, body, !expects, received), length, route)
}

fn halves(passage: Passage, length: Option<u64>, route: &Arc<Route>) -> (Upload, Streamed) {
    let passage = Arc::new(Mutex::new(passage));
    let upload = Upload {
        passage: passage.clone(),
        route: route.clone(),
    };
    (upload, Streamed { passage, length })
}

impl Upload {
    /// The raw id of the request, if it has come already.
    #[must_use]
    pub(super) fn id(&self) -> Option<Bytes> {
        self.passage().id()
    }

    /// What knows the raw id, if it has come, when this half is gone already.
    pub(super) fn late_id(&self) -> impl Fn() -> Option<Bytes> + use<> {
        let passage = self.passage.clone();
        move || lock(&passage).id()
    }

    /// Whether all of the body was sent.
    #[must_use]
    pub(super) fn is_sent(&self) -> bool {
        self.passage().is_sent()
    }

    /// Waits for the upstream's answer to the request that `sending` sends, and where the body makes
    /// a claim, with an answer that is no error for the verdict too: until then it might be the answer
    /// to something else. `to` learns the id.
    ///
    /// # Errors
    /// The verdict, that one of the two sides was too slow, or why there is no answer.
    pub(super) async fn answer(
        self,
        sending: impl Future<Output = Result<(Response<Inbound>, Lease), UpstreamFault>>,
        to: &mut Addressee,
    ) -> Result<(Response<Inbound>, Lease), Refusal> {
        let answered = self.judged(sending).await;
        let (response, lease) = answered.map_err(|refused| refused.tell(to))?;
        to.id = self.id();
        Ok((response, lease.carrying(self)))
    }

    async fn judged<L>(
        &self,
        sending: impl Future<Output = Result<(Response<Inbound>, L), UpstreamFault>>,
    ) -> Result<(Response<Inbound>, L), Refused> {
        let sending = async { Ok(sending.await) };
        let answer = match self.watch(sending).await? {
            Ok(answer) => answer,
            // The connection broke off because the body did.
            Err(_) if self.passage().is_refuted() => return Err(self.refusal().await),
            Err(fault) => return Err(self.refused(fault.into())),
        };
        let status = answer.0.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if !self.passage().answer(is_error) {
            self.verdict().await?;
        }
        Ok(answer)
    }

    /// The verdict on the body, once all of it has been read, and sent where it is good.
    async fn verdict(&self) -> Result<(), Refused> {
        let verdict = poll_fn(|cx| self.passage().poll_verdict(cx));
        let outcome = self.watch(verdict).await;
        if self.passage().client_gone() {
            receive::broken(true, self.route.bounds.body_idle_timeout).await;
        }
        outcome
    }

    /// Why a body is refused of which that is certain.
    async fn refusal(&self) -> Refused {
        match self.verdict().await {
            Err(refused) => refused,
            // What contradicts its claim never agrees with it; and it was not sent.
            Ok(()) => self.refused(BodyFault::Broken.into()),
        }
    }

    fn refused(&self, refusal: Refusal) -> Refused {
        self.passage().refused(refusal)
    }

    /// Waits for `future` for as long as neither side is silent for too long.
    async fn watch<T>(
        &self,
        future: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Refused> {
        let mut future = pin!(future);
        let mut alarm = Alarm::new(Instant::now() + self.shortest_limit());
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = future.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            while alarm.poll(cx).is_ready() {
                match self.next_look(Instant::now()) {
                    Ok(next) => alarm.reset(next),
                    Err(refused) => return Poll::Ready(Err(refused)),
                }
            }
            Poll::Pending
        })
        .await
    }

    /// When to look next for silence, and for a body that is read on only to tell the worst of it;
    /// the side that we wait for may have changed until then.
    fn next_look(&self, now: Instant) -> Result<Instant, Refused> {
        let mut passage = self.passage();
        let (side, since) = passage.waits();
        let max = self.limit(side);
        let silent_at = since + max;
        let drain_timeout = self.route.bounds.drain_timeout;
        let ends_at = match passage.refuted_since() {
            Some(since) => silent_at.min(since + drain_timeout),
            None => silent_at,
        };
        if ends_at > now {
            return Ok(ends_at.min(now + self.shortest_limit()));
        }
        Err(match side {
            Side::Client => passage.give_up(BodyFault::Timeout { max }.into()),
            Side::Upstream => {
                let fault = UpstreamFault::Timeout {
                    upstream: self.route.upstream.name.clone(),
                    limit: "response_header_timeout",
                    max,
                };
                passage.refused(fault.into())
            }
        })
    }

    fn limit(&self, side: Side) -> Duration {
        match side {
            Side::Client => self.route.bounds.body_idle_timeout,
            Side::Upstream => self.route.upstream.response_header_timeout,
        }
    }

    fn shortest_limit(&self) -> Duration {
        let drain_timeout = self.route.bounds.drain_timeout;
        let silence = self.limit(Side::Client).min(self.limit(Side::Upstream));
        silence.min(drain_timeout)
    }

    fn passage(&self) -> MutexGuard<'_, Passage> {
        lock(&self.passage)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let rest = self.passage().take_rest();
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

impl Body for Streamed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let next = ready!(lock(&self.passage).poll_send(cx));
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.passage).is_sent()
    }

    fn size_hint(&self) -> SizeHint {
        self.length
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        lock(&self.passage).abandon();
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

fn lock(passage: &Mutex<Passage>) -> MutexGuard<'_, Passage> {
    // A panic in one half ends the exchange, and with it the other.
    passage.lock().unwrap_or_else(PoisonError::into_inner)
}
