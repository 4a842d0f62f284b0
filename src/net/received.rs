//! The body of a request, as its client sends it.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of a client's request. It ends only where the client ended it; whatever else stops it is
/// an error.
#[derive(Debug)]
pub struct Received {
    body: Incoming,
    /// Over HTTP/2 the library takes a stream that its client resets without a complaint for one that
    /// has ended, and what has come of the body for all of it.
    is_stream: bool,
}

/// A body that broke off.
#[derive(Clone, Copy, Debug)]
pub struct BrokenOff {
    is_gone: bool,
}

impl Received {
    /// The body of a request over HTTP/1.1.
    #[must_use]
    pub fn over_connection(body: Incoming) -> Received {
        Received {
            body,
            is_stream: false,
        }
    }

    /// The body of a request over HTTP/2.
    pub(super) fn over_stream(body: Incoming) -> Received {
        Received {
            body,
            is_stream: true,
        }
    }
}

impl BrokenOff {
    /// Whether the body ended because its client did, and not because it cannot be read.
    #[must_use]
    pub fn is_gone(self) -> bool {
        self.is_gone
    }
}

impl From<&hyper::Error> for BrokenOff {
    fn from(error: &hyper::Error) -> BrokenOff {
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>());
        let is_gone = error.is_incomplete_message()
            || cause.is_some_and(|cause| {
                matches!(
                    cause.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
                )
            });
        BrokenOff { is_gone }
    }
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's body broke off")
    }
}

impl Error for BrokenOff {}

impl Body for Received {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        Poll::Ready(match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(error)) => Some(Err(BrokenOff::from(&error))),
            None if this.is_stream && !this.body.is_end_stream() => {
                Some(Err(BrokenOff { is_gone: true }))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
