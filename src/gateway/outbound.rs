//! The body of a request on its way to the upstream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

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
}

impl upstream::Outbound for Outbound {
    fn again(&self) -> Option<Outbound> {
        let Outbound::Whole(bytes) = self;
        Some(Outbound::Whole(bytes.clone()))
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Outbound::Whole(bytes) = &mut *self;
        let bytes = std::mem::take(bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        let Outbound::Whole(bytes) = self;
        bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let Outbound::Whole(bytes) = self;
        SizeHint::with_exact(bytes.len() as u64)
    }
}
