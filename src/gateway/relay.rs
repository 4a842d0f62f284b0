//! The answer on its way to the client: bytes as they come, headers of this leg only.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Response, Version};
use http_body::{Body, Frame, SizeHint};

use super::outbound::Lease;
use super::{cors, hop};
use crate::net::upstream::Inbound;
use crate::observe::{End, Exchange};
use crate::protocol::header;
use crate::protocol::version::Era;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");

/// What an answer is made of.
#[derive(Debug)]
pub(super) enum Source {
    /// An answer of our own; the option empties as it is sent.
    Own(Option<Bytes>),
    /// The upstream's answer: what was held back to be read, then the rest as it comes.
    Upstream {
        /// What was held back.
        held: Option<Bytes>,
        /// The rest.
        rest: Inbound,
        /// The connection that it comes from.
        lease: Option<Lease>,
    },
}

/// An answer with the open record of its exchange, which is closed when this is dropped.
pub struct Outgoing {
    source: Source,
    exchange: Exchange,
}

impl Outgoing {
    /// The answer made of `source`, accounted for in `exchange`.
    #[must_use]
    pub(super) fn new(source: Source, exchange: Exchange) -> Outgoing {
        let mut outgoing = Outgoing { source, exchange };
        // A body that is known to be empty is never asked for.
        if outgoing.is_end_stream() {
            outgoing.complete();
        }
        outgoing
    }

    /// Nothing is left to send: the record is complete, and the connection to the upstream serves
    /// the next exchange.
    fn complete(&mut self) {
        self.exchange.ended(End::Complete);
        if let Source::Upstream { lease, .. } = &mut self.source
            && let Some(lease) = lease.take()
        {
            lease.give_back();
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let data = match &mut this.source {
            Source::Own(whole) => whole.take(),
            Source::Upstream { held, rest, .. } => match held.take() {
                Some(held) => Some(held),
                None => match ready!(Pin::new(rest).poll_frame(cx)) {
                    Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                    Some(Err(error)) => {
                        this.exchange.ended(End::UpstreamFailed);
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => None,
                },
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
            Source::Own(whole) => whole.is_none(),
            Source::Upstream { held, rest, .. } => held.is_none() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(whole) => SizeHint::with_exact(whole.as_ref().map_or(0, Bytes::len) as u64),
            Source::Upstream { held, rest, .. } => {
                let held = held.as_ref().map_or(0, Bytes::len) as u64;
                // The length of the rest is what the upstream claims.
                let mut hint = rest.size_hint();
                if let Some(upper) = hint.upper() {
                    hint.set_upper(upper.saturating_add(held));
                }
                hint.set_lower(hint.lower().saturating_add(held));
                hint
            }
        }
    }
}

/// Turns the head that came from the upstream into the one that goes to the client. The version of
/// HTTP is that of one connection too: an answer in 1.0 would end the client's.
pub(super) fn arrive(head: &mut Parts, era: Era) {
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
    if is_event_stream(&head.headers) {
        head.headers.insert(X_ACCEL_BUFFERING, NO);
    }
}

/// Whether an answer is a stream of events.
#[must_use]
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let essence = value
            .as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"text/event-stream")
    })
}

/// The upstream's answer, as it goes on.
#[must_use]
pub(super) fn pass(response: Response<Inbound>, lease: Lease, era: Era) -> Response<Source> {
    let (mut head, rest) = response.into_parts();
    arrive(&mut head, era);
    let source = Source::Upstream {
        held: None,
        rest,
        lease: Some(lease),
    };
    Response::from_parts(head, source)
}
