//! The answer on its way to the client: bytes as they come, headers of this leg only.

mod asked;
mod events;
mod flow;
mod messages;
mod patience;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, Version};
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use self::events::{Events, Form};
use self::flow::Flow;
use self::messages::Messages;
use self::patience::Patience;
use super::intake::Seat;
use super::outbound::Lease;
use super::{cors, hop};
use crate::net::listener::Answer;
use crate::net::upstream::Inbound;
use crate::observe::{End, Exchange};
use crate::policy::plan::{Route, StreamEnd};
use crate::protocol::header;
use crate::protocol::media;
use crate::protocol::response::Pieces;
use crate::protocol::version::Era;

pub(super) use self::asked::{Asked, Deadline};
pub(super) use self::messages::{Reader, Verdict, is_message};

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");

/// What an answer is made of.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every answer is the upstream's, and would pay for a box"
)]
pub(super) enum Source {
    /// An answer of our own, of which this is left.
    Own(Left),
    /// The upstream's answer.
    Upstream(Flow),
}

/// What is left of an answer of our own.
pub(super) type Left = <Pieces as IntoIterator>::IntoIter;

impl Source {
    /// An answer of our own, without a body.
    pub(super) fn empty() -> Source {
        Source::own(Pieces::default())
    }

    /// An answer of our own with this body.
    pub(super) fn own(body: impl Into<Pieces>) -> Source {
        Source::Own(body.into().into_iter())
    }
}

/// Why an answer broke off after its head.
#[derive(Debug)]
pub enum StreamFault {
    /// The upstream broke it off.
    Upstream(Box<dyn Error + Send + Sync>),
    /// It reached this limit of the policy.
    Limit(&'static str),
    /// The process ends, and the policy says that such a stream breaks off.
    ShutDown,
}

impl StreamFault {
    fn end(&self) -> End {
        match self {
            StreamFault::Upstream(_) => End::UpstreamFailed,
            StreamFault::Limit(limit) => End::Limit(limit),
            StreamFault::ShutDown => End::ShutDown,
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamFault::Upstream(error) => error.fmt(f),
            StreamFault::Limit(limit) => write!(f, "the answer exceeded {limit}"),
            StreamFault::ShutDown => f.write_str("the gateway ends"),
        }
    }
}

impl Error for StreamFault {}

/// Says when the streams without an end of their own are to end, and how.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// Cancelled once the process is told to end.
    pub(super) begins: CancellationToken,
    /// What becomes of the streams then.
    pub(super) streams: StreamEnd,
}

/// An answer with the open record of its exchange, which is closed when this is dropped.
pub struct Outgoing {
    source: Source,
    exchange: Exchange,
    /// Held until the answer has been sent or dropped.
    _seat: Seat,
}

impl Outgoing {
    /// The answer made of `source`, accounted for in `exchange`.
    #[must_use]
    pub(super) fn new(source: Source, exchange: Exchange, seat: Seat) -> Outgoing {
        let mut outgoing = Outgoing {
            source,
            exchange,
            _seat: seat,
        };
        // A body that is known to be empty is never asked for.
        if outgoing.is_end_stream() {
            outgoing.complete();
        }
        outgoing
    }

    /// Nothing is left to send: the record is complete, and the connection to the upstream serves
    /// the next exchange.
    fn complete(&mut self) {
        let end = match &mut self.source {
            Source::Own(_) => End::Complete,
            Source::Upstream(flow) => flow.complete(),
        };
        self.exchange.ended(end);
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamFault>>> {
        let this = &mut *self;
        let data = match &mut this.source {
            Source::Own(left) => left.next(),
            Source::Upstream(flow) => match ready!(flow.poll(cx)).transpose() {
                Ok(data) => data,
                Err(fault) => {
                    this.exchange.ended(fault.end());
                    return Poll::Ready(Some(Err(fault)));
                }
            },
        };
        if let Some(data) = &data {
            this.exchange.sent(data.len() as u64);
        }
        // After its last piece, a body of known length is not asked for more.
        if data.is_none() || this.is_end_stream() {
            this.complete();
        }
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(left) => left.as_slice().is_empty(),
            Source::Upstream(flow) => flow.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(left) => {
                let bytes: usize = left.as_slice().iter().map(Bytes::len).sum();
                SizeHint::with_exact(bytes as u64)
            }
            Source::Upstream(flow) => flow.size_hint(),
        }
    }
}

impl Answer for Outgoing {
    fn untaken(&mut self, limit: Option<&'static str>) {
        self.exchange.untaken(limit);
    }
}

/// Turns the head that came from the upstream into the one that goes to the client. The version of
/// HTTP is that of one connection too: an answer in 1.0 would end the client's.
fn arrive(head: &mut Parts, era: Era) {
    head.version = Version::HTTP_11;
    hop::strip(&mut head.headers, |name| {
        // Which pages may read an answer is for the hop to the browser to say.
        (era == Era::Modern && header::is_of_session(name)) || name.starts_with(cors::PREFIX)
    });
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let one = match (lengths.next(), lengths.next()) {
        (None, _) => true,
        (Some(length), None) => length.as_bytes().iter().all(u8::is_ascii_digit),
        (Some(_), Some(_)) => false,
    };
    if !one {
        // Equal lengths in a list or in two lines were read as one, which the library writes anew.
        head.headers.remove(CONTENT_LENGTH);
    }
}

/// Whether nothing but the end of its connection ends an answer with this head, so that a server
/// that dies looks like one that is done (RFC 9112, 6.3).
fn is_ended_by_close(head: &Parts) -> bool {
    head.version <= Version::HTTP_11
        && !head.headers.contains_key(CONTENT_LENGTH)
        && !head.headers.contains_key(TRANSFER_ENCODING)
}

/// The upstream's answer, as it goes on.
#[must_use]
pub(super) fn pass(response: Response<Inbound>, lease: Lease, era: Era) -> Response<Source> {
    let (head, rest) = response.into_parts();
    resume(head, None, rest, lease, era)
}

/// The same of an answer of which `held` was held back to be read.
#[must_use]
pub(super) fn resume(
    mut head: Parts,
    held: Option<Bytes>,
    rest: Inbound,
    lease: Lease,
    era: Era,
) -> Response<Source> {
    let ends_by_close = is_ended_by_close(&head);
    arrive(&mut head, era);
    let flow = Flow::new(held, rest, lease, ends_by_close);
    Response::from_parts(head, Source::Upstream(flow))
}

/// From now on the messages of a stream are read; events of at most `event_bytes_max` bytes.
pub(super) fn read(
    response: &mut Response<Source>,
    reader: Box<dyn Reader>,
    event_bytes_max: usize,
) {
    if let Source::Upstream(flow) = response.body_mut() {
        flow.read(Messages::new(reader, event_bytes_max));
    }
}

/// Watches over an answer on its way: how long it may pause and take, and what may be put into it
/// where it is a stream of events.
#[must_use]
pub(super) fn watch(
    mut response: Response<Source>,
    asked: &Asked,
    route: &Route,
    drain: &Drain,
) -> Response<Source> {
    let is_stream = media::is_event_stream(response.headers());
    if is_stream {
        let headers = response.headers_mut();
        headers.insert(X_ACCEL_BUFFERING, NO);
        *headers = fitted(std::mem::take(headers));
    }
    let is_coded = is_stream && media::is_coded(response.headers());
    let Source::Upstream(flow) = response.body_mut() else {
        return response;
    };
    let (limit, max) = match is_stream {
        true => ("streams.idle_timeout", route.streams.idle_timeout),
        false => (
            "response_idle_timeout",
            route.upstream.response_idle_timeout,
        ),
    };
    let mut patience = Patience::new(max, limit, asked.deadline);
    let events = is_stream.then(|| {
        let form = match flow.size_hint().exact() {
            _ if is_coded => Form::Coded,
            Some(_) => Form::Counted,
            None => Form::Open,
        };
        if form == Form::Open {
            patience.keep_alive(route.streams.keep_alive);
        }
        Events::new(form, asked, route, drain)
    });
    flow.watch(patience, events);
    response
}

/// The same fields in a map that has no room beyond them. The library keeps the map for as long as the
/// stream lasts, and this one has the room of the request's.
fn fitted(headers: HeaderMap) -> HeaderMap {
    let mut fitted = HeaderMap::with_capacity(headers.len());
    fitted.extend(headers);
    fitted
}
