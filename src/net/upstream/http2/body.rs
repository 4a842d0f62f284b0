//! The two bodies of an exchange over HTTP/2.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body::SizeHint;

use crate::net::upstream::Outbound;

/// The sending of a body: never more than the peer and the send buffer take.
pub(super) struct Upload<B> {
    body: B,
    stream: SendStream<Bytes>,
    unsent: Bytes,
}

impl<B: Outbound> Upload<B> {
    /// Sends `body` on `stream`.
    pub(super) fn new(body: B, stream: SendStream<Bytes>) -> Upload<B> {
        Upload {
            body,
            stream,
            unsent: Bytes::new(),
        }
    }

    /// Hands these bytes over, and tells whether the peer goes on taking bytes.
    fn send(&mut self, data: Bytes, is_last: bool) -> bool {
        self.stream.send_data(data, is_last).is_ok() && !is_last
    }

    /// Waits until the peer takes some of what is unsent; tells whether it ever will.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.stream.reserve_capacity(self.unsent.len());
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(false),
            }
        }
        Poll::Ready(true)
    }
}

impl<B: Outbound> Future for Upload<B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if !this.unsent.is_empty() {
                if !ready!(this.poll_room(cx)) {
                    return Poll::Ready(());
                }
                let room = this.stream.capacity().min(this.unsent.len());
                let piece = this.unsent.split_to(room);
                let is_last = this.unsent.is_empty() && this.body.is_end_stream();
                if !this.send(piece, is_last) {
                    return Poll::Ready(());
                }
                continue;
            }
            if this.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(());
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => this.unsent = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => {
                    this.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(());
                }
                None => {
                    this.send(Bytes::new(), true);
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct Inbound {
    stream: RecvStream,
    /// How many bytes are still to come, where the head said how many there are.
    left: Option<u64>,
}

impl Inbound {
    /// The answer with its body.
    pub(super) fn of(response: Response<RecvStream>) -> Response<Inbound> {
        // The library holds the bytes that come against it.
        let length = response.headers().get(CONTENT_LENGTH);
        let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|stream| Inbound { stream, left })
    }

    /// The next bytes; none once the upstream has ended its answer.
    pub(in crate::net::upstream) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, h2::Error>>> {
        let data = ready!(self.stream.poll_data(cx));
        // A reset behind the end of an answer is none of it (RFC 9113, section 8.1): the library tells
        // the end then. Any other breaks the answer off, whatever its code.
        if let Some(Ok(data)) = &data {
            // It fails where the stream has ended, whose window nobody needs.
            let _ = self.stream.flow_control().release_capacity(data.len());
            let length = data.len() as u64;
            self.left = self.left.map(|left| left.saturating_sub(length));
        }
        Poll::Ready(data)
    }

    pub(in crate::net::upstream) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    pub(in crate::net::upstream) fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
