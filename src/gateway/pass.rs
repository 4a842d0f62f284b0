//! Routes that pass requests through unread: no MCP in them, and so nothing of it is promised to
//! whoever reads them next. Bodies stream both ways, within the bounds of the route.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep, timeout};

use super::inquiry::Inquiry;
use super::outbound::{Cut, Outbound};
use super::relay::{self, Source};
use super::serving::Serving;
use super::{cors, intake, receive};
use crate::net::received::Received;
use crate::policy::plan::{Bounds, Origins, Upstream};
use crate::protocol::refusal::{BodyFault, HttpFault, Refusal, UpstreamFault};
use crate::protocol::version::Era;

/// What may be asked of such a route: everything that leaves the connection what it is, and that
/// does not give its headers away. This is the part of it that has a name.
pub(super) const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Passes a request on as it came, and its answer back.
///
/// # Errors
/// 503 where it is one too many; 405 for CONNECT and TRACE; what is wrong with the body; a fault of
/// the upstream.
pub(super) async fn pass(
    serving: &Serving,
    head: Parts,
    body: Received,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let (route, destination) = (&*serving.route, &serving.destination);
    let acceptable = intake::check(&head)
        .map_err(Refusal::from)
        .and_then(|()| Ok(check(&head, &body, &route.bounds)?));
    if let Err(refusal) = acceptable {
        return Err(inquiry.refuse_unread(&head, body, &route.bounds, refusal));
    }
    let Inquiry {
        exchange, sender, ..
    } = inquiry;
    let expects = head.headers.contains_key(EXPECT);
    let received = exchange.receiving();
    let cut_off = Arc::new(Mutex::new(None));
    let body = Passing {
        body: Some(body),
        is_asked_for: !expects,
        bounds: route.bounds,
        silence: None,
        received: received.clone(),
        cut_off: cut_off.clone(),
    };
    let request = destination.pass(head, Outbound::Passed(Box::new(body)), sender)?;
    let sending = destination.send(request);
    let (response, lease) = match answer(sending, &route.upstream, &received).await {
        Ok(answered) => answered,
        Err(fault) => {
            let own = cut_off
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let Some(own) = own else {
                return Err(fault.into());
            };
            if own.is_gone {
                let idle = route.bounds.body_idle_timeout;
                return Err(receive::broken(true, idle).await.into());
            }
            return Err(own.fault.into());
        }
    };
    exchange.upstream_connection(lease.reused());
    exchange.upstream_status(response.status().as_u16());
    // As in an exchange of a legacy version, no field of the answer is foreign to it.
    let mut response = relay::pass(response, lease, Era::Legacy);
    if route.origins != Origins::None {
        // Unlike those of MCP, such answers are kept by caches.
        cors::vary(response.headers_mut());
    }
    Ok(response)
}

/// Waits for the head of an answer. The time that a server has for it begins anew while the body is
/// still on its way.
async fn answer<T>(
    sending: impl Future<Output = Result<T, UpstreamFault>>,
    upstream: &Upstream,
    received: &AtomicU64,
) -> Result<T, UpstreamFault> {
    let max = upstream.response_header_timeout;
    let mut sending = pin!(sending);
    loop {
        let before = received.load(Ordering::Relaxed);
        match timeout(max, &mut sending).await {
            Ok(answered) => return answered,
            Err(_) if received.load(Ordering::Relaxed) > before => {}
            Err(_) => {
                return Err(UpstreamFault::Timeout {
                    upstream: upstream.name.clone(),
                    limit: "response_header_timeout",
                    max,
                });
            }
        }
    }
}

/// Whether a body is longer than any that passes: the larger of the two bounds counts, because
/// nothing of it is held.
fn exceeds(length: u64, bounds: &Bounds) -> bool {
    length > bounds.stream_bytes_max.max(bounds.body_bytes_max) as u64
}

fn too_large(bounds: &Bounds) -> BodyFault {
    if bounds.stream_bytes_max > bounds.body_bytes_max {
        receive::too_large_to_stream(bounds)
    } else {
        receive::too_large(bounds)
    }
}

/// Judges what the head says.
fn check(head: &Parts, body: &Received, bounds: &Bounds) -> Result<(), HttpFault> {
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        return Err(HttpFault::MethodNotAllowed { allow: METHODS });
    }
    if exceeds(body.size_hint().lower(), bounds) {
        return Err(too_large(bounds).into());
    }
    Ok(())
}

/// Why a body was cut off.
#[derive(Debug)]
struct CutOff {
    fault: BodyFault,
    /// Whether its client ended.
    is_gone: bool,
}

/// A body on its way through.
#[derive(Debug)]
pub(super) struct Passing {
    body: Option<Received>,
    /// Whether the client was asked for it: one that waits for a `100 Continue` sends nothing
    /// before.
    is_asked_for: bool,
    bounds: Bounds,
    /// Since when the client is silent, while it is.
    silence: Option<Pin<Box<Sleep>>>,
    received: Arc<AtomicU64>,
    /// Where it is said why the body was cut off: whoever waits for the answer learns no more than
    /// that the connection failed.
    cut_off: Arc<Mutex<Option<CutOff>>>,
}

impl Passing {
    /// The body is cut off, so that the request upstream never becomes complete.
    fn cut(&mut self, fault: BodyFault, is_gone: bool) -> Cut {
        if !matches!(fault, BodyFault::TooLarge { .. }) {
            // Nothing follows that could be read.
            self.body = None;
        }
        let mut place = self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(CutOff { fault, is_gone });
        Cut
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Cut> {
        let max = self.bounds.body_idle_timeout;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(max)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(self.cut(BodyFault::Timeout { max }, false))
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        this.is_asked_for = true;
        loop {
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            let frame = match Pin::new(body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return this.poll_silence(cx).map(|cut| Some(Err(cut))),
            };
            this.silence = None;
            let data = match frame {
                None => {
                    this.body = None;
                    return Poll::Ready(None);
                }
                // Trailers belong to the connection that they came on.
                Some(Ok(frame)) => frame.into_data().ok(),
                Some(Err(error)) => {
                    let cut = this.cut(BodyFault::Broken, error.is_gone());
                    return Poll::Ready(Some(Err(cut)));
                }
            };
            if let Some(data) = data {
                let length = data.len() as u64;
                let before = this.received.fetch_add(length, Ordering::Relaxed);
                if exceeds(before + length, &this.bounds) {
                    let cut = this.cut(too_large(&this.bounds), false);
                    return Poll::Ready(Some(Err(cut)));
                }
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.body.as_ref();
        rest.map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Passing {
    /// The upstream may answer, or fail, before it has read everything. The client, which still
    /// sends, reads the answer only if somebody takes in the rest.
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && self.is_asked_for
        {
            receive::drain(body, &self.bounds);
        }
    }
}
