//! The body of an answer, as the upstream sends it.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http2;

/// The body of an upstream's answer. It ends only where the upstream ended it; whatever else stops it
/// is an error.
#[derive(Debug)]
pub enum Inbound {
    /// Over HTTP/1.1.
    Http1(Incoming),
    /// Over HTTP/2.
    Http2(Box<http2::Inbound>),
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Inbound::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Inbound::Http2(body) => {
                let data = ready!(body.poll_data(cx));
                Poll::Ready(data.map(|data| data.map(Frame::data).map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Inbound::Http1(body) => body.is_end_stream(),
            Inbound::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Inbound::Http1(body) => body.size_hint(),
            Inbound::Http2(body) => body.size_hint(),
        }
    }
}
