//! The body of a request on its way to the upstream, and the connection that it takes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::upload::{Guarded, Halted, Upload};
use crate::net::upstream;

/// The connections to an upstream.
pub(super) type Pool = upstream::Pool<Outbound>;

/// One of them in use, with what is still on its way over it. Dropping it breaks both off.
#[derive(Debug)]
pub(super) struct Lease {
    // In this order: nothing may take the body's end for a proper one.
    connection: upstream::Lease<Outbound>,
    upload: Option<Upload>,
}

impl Lease {
    /// Whether the connection had served another exchange before.
    #[must_use]
    pub(super) fn reused(&self) -> bool {
        self.connection.reused()
    }

    /// The same, with the body that streams over it.
    #[must_use]
    pub(super) fn carrying(self, upload: Option<Upload>) -> Lease {
        Lease { upload, ..self }
    }

    /// Keeps the connection for the next exchange. Only after the answer was read to its end. A
    /// connection whose upstream has answered before it had the whole request ends here, and what
    /// is left of the request with it.
    pub(super) fn give_back(self) {
        if self.upload.as_ref().is_none_or(Upload::is_sent) {
            self.connection.give_back();
        }
    }
}

impl From<upstream::Lease<Outbound>> for Lease {
    fn from(connection: upstream::Lease<Outbound>) -> Lease {
        Lease {
            connection,
            upload: None,
        }
    }
}

/// What is sent upstream.
#[derive(Debug)]
pub(super) enum Outbound {
    /// The bytes that were scanned; what is left of them.
    Whole(Bytes),
    /// Bytes that are scanned as they pass.
    Guarded(Guarded),
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Halted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Halted>>> {
        match &mut *self {
            Outbound::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Outbound::Guarded(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outbound::Whole(bytes) => bytes.is_empty(),
            Outbound::Guarded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outbound::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outbound::Guarded(body) => body.size_hint(),
        }
    }
}
