//! The body of a request on its way to the upstream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pass::Passing;
use crate::net::upstream;

/// The connections to an upstream.
pub(super) type Pool = upstream::Pool<Outbound>;
/// One of them in use.
pub(super) type Lease = upstream::Lease<Outbound>;

/// What is sent upstream.
#[derive(Debug)]
pub(super) enum Outbound {
    /// The bytes that were scanned; what is left of them.
    Whole(Bytes),
    /// What a client sends, unread.
    Passed(Box<Passing>),
}

impl upstream::Outbound for Outbound {
    fn again(&self) -> Option<Outbound> {
        match self {
            Outbound::Whole(bytes) => Some(Outbound::Whole(bytes.clone())),
            Outbound::Passed(_) => None,
        }
    }
}

/// A body was cut off before its end; whoever cut it knows why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's body was cut off")
    }
}

impl std::error::Error for Cut {}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Outbound::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Outbound::Passed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outbound::Whole(bytes) => bytes.is_empty(),
            Outbound::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outbound::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outbound::Passed(body) => body.size_hint(),
        }
    }
}
