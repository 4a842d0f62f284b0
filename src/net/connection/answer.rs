//! The body of an answer on its way through the library, which keeps its exchange in flight.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};

use super::streams::{Open, Taking};
use crate::net::wire::{InFlight, Peer, Watch};

/// An exchange in flight, before its answer is known.
#[derive(Debug)]
pub(super) struct Tracking<S> {
    exchange: InFlight<S>,
    /// How far the client takes the answer, where the connection alone does not tell.
    taking: Option<Arc<Taking>>,
    /// Whether the client can take an end of the connection for that of the answer.
    ends_with_connection: bool,
}

impl<S> Tracking<S>
where
    Watch<S>: Clone,
{
    /// An exchange of HTTP/1, of this version.
    pub(super) fn of_request(watch: &Watch<S>, version: Version) -> Tracking<S> {
        Tracking {
            exchange: watch.begin_exchange(),
            taking: None,
            ends_with_connection: version == Version::HTTP_10,
        }
    }

    /// An exchange of HTTP/2, which is about to be executed as one of `open`.
    pub(super) fn of_stream(watch: &Watch<S>, open: &Open) -> Tracking<S> {
        Tracking {
            exchange: watch.begin_exchange(),
            taking: Some(open.announce()),
            ends_with_connection: false,
        }
    }
}

impl<S> Tracking<S> {
    /// The answer, which keeps the exchange in flight until it is dropped.
    pub(super) fn around<B>(self, body: B) -> Tracked<B, S>
    where
        B: Body,
        S: Peer,
    {
        Tracked {
            // The library never asks for a body that is known to be empty.
            has_ended: body.is_end_stream(),
            body,
            has_failed: false,
            tracking: self,
        }
    }
}

/// A body that keeps its exchange in flight. The library drops what it has not written yet when it
/// hears that a body failed; so it hears of that only when what came before is written.
pub(super) struct Tracked<B, S: Peer> {
    body: B,
    has_failed: bool,
    has_ended: bool,
    tracking: Tracking<S>,
}

/// The answer broke off. Why is in the record of its exchange; the client is told no more than that,
/// and not what an upstream gave for a reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer broke off")
    }
}

impl Error for BrokenOff {}

impl<B: Body<Data = Bytes> + Unpin, S: Peer> Body for Tracked<B, S> {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        let taking = this.tracking.taking.as_deref();
        if let Some(taking) = taking {
            taking.taken();
        }
        if !this.has_failed {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(taking) = taking {
                        taking.handed();
                    }
                    this.has_ended = this.body.is_end_stream();
                    return Poll::Ready(Some(Ok(frame)));
                }
                None => {
                    this.has_ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(_)) => this.has_failed = true,
            }
        }
        ready!(this.tracking.exchange.poll_written(cx));
        Poll::Ready(Some(Err(BrokenOff)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B, S: Peer> Drop for Tracked<B, S> {
    fn drop(&mut self) {
        if self.tracking.ends_with_connection && !self.has_ended {
            self.tracking.exchange.reset_on_drop();
        }
    }
}
