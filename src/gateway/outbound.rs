//! The body of a request on its way to the upstream, and the connection that it takes.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::upload::{Streamed, Upload};
use crate::net::upstream;

/// The connections to an upstream.
pub(super) type Pool = upstream::Pool<Outbound>;

/// One of them in use, with what is still on its way over it. Dropping it breaks both off.
#[derive(Debug)]
pub(super) struct Lease {
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
    pub(super) fn carrying(self, upload: Upload) -> Lease {
        Lease {
            upload: Some(upload),
            ..self
        }
    }

    /// Keeps the connection for the next exchange. Only after the answer was read to its end. Where
    /// the upstream has answered before it had all of a body that streams, the request ends here,
    /// and with it what is left of the body.
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
    /// What a client sends, judged as it passes.
    Streamed(Streamed),
}

impl upstream::Outbound for Outbound {
    fn again(&self) -> Option<Outbound> {
        match self {
            Outbound::Whole(bytes) => Some(Outbound::Whole(bytes.clone())),
            Outbound::Streamed(_) => None,
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
            Outbound::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outbound::Whole(bytes) => bytes.is_empty(),
            Outbound::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outbound::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outbound::Streamed(body) => body.size_hint(),
        }
    }
}
