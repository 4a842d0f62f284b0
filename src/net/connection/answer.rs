//! The body of an answer on its way through the library, which keeps its exchange in flight.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::Version;
use http_body::{Body, Frame, SizeHint};

use super::streams::{Open, Taking};
use crate::net::listener::Answer;
use crate::net::wire::{InFlight, Peer, Watch};

/// What ends an answer of which the client takes nothing.
const UNTAKEN: &str = "listen.write_idle_timeout";

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
        B: Answer,
        S: Peer,
    {
        Tracked {
            // The library never asks for a body that is known to be empty.
            has_ended: body.is_end_stream(),
            body,
            has_paused: false,
            has_failed: false,
            tracking: self,
        }
    }
}

/// A body that keeps its exchange in flight. The library drops what it has not written yet when it
/// hears that a body failed; so it hears of that only when what came before is written.
pub(super) struct Tracked<B: Answer, S: Peer> {
    body: B,
    has_paused: bool,
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

/// A piece of an answer on its way through the library.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    /// Whose last one it is, where the library may have no room for it.
    last_of: Option<Arc<Taking>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(taking) = &self.last_of
            && !self.bytes.is_empty()
        {
            taking.lost();
        }
    }
}

impl<B: Answer, S: Peer> Body for Tracked<B, S> {
    type Data = Piece;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, BrokenOff>>> {
        let this = &mut *self;
        let taking = this.tracking.taking.as_ref();
        if let Some(taking) = taking {
            taking.taken();
        }
        if !this.has_failed {
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.has_ended = this.body.is_end_stream();
                    let last_of = taking.filter(|_| this.has_ended).cloned();
                    if let Some(taking) = taking {
                        taking.handed();
                    }
                    let piece = frame.map_data(|bytes| Piece { bytes, last_of });
                    return Poll::Ready(Some(Ok(piece)));
                }
                Poll::Ready(None) => {
                    this.has_ended = true;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => this.has_failed = true,
                Poll::Pending => {
                    if !this.has_paused {
                        this.has_paused = true;
                        this.tracking.exchange.forget_head();
                    }
                    return Poll::Pending;
                }
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

impl<B: Answer, S: Peer> Drop for Tracked<B, S> {
    fn drop(&mut self) {
        let Tracking {
            exchange,
            taking,
            ends_with_connection,
        } = &self.tracking;
        // The library drops the piece that there was no room for before the body that it came from.
        let was_lost = taking.as_ref().is_some_and(|taking| taking.was_lost());
        if self.has_ended && !was_lost {
            return;
        }
        let given_up =
            exchange.is_given_up() || taking.as_ref().is_some_and(|taking| taking.was_given_up());
        self.body.untaken(given_up.then_some(UNTAKEN));
        if *ends_with_connection {
            exchange.reset_on_drop();
        }
    }
}
