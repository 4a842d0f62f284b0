//! The request's body: taken in whole within its bounds, or read and thrown away after a refusal.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use crate::policy::plan::Bounds;
use crate::protocol::head::Fields;
use crate::protocol::header::Reading;
use crate::protocol::media::is_json;
use crate::protocol::refusal::BodyFault;

/// Judges what the head says of the body.
///
/// # Errors
/// 415 for another media type or any content coding, 413 for an announced length over the bound.
pub(super) fn check(
    fields: &Fields<'_>,
    body: &Incoming,
    bounds: &Bounds,
) -> Result<(), BodyFault> {
    match fields.content_type {
        Reading::Once(value) if is_json(value) => {}
        reading => {
            return Err(BodyFault::MediaType {
                found: shown(reading),
            });
        }
    }
    match fields.content_encoding {
        Reading::Absent => {}
        reading => {
            return Err(BodyFault::ContentEncoding {
                found: shown(reading),
            });
        }
    }
    if body.size_hint().lower() > bounds.body_bytes_max as u64 {
        return Err(BodyFault::TooLarge {
            max: bounds.body_bytes_max,
        });
    }
    Ok(())
}

fn shown(reading: Reading<'_>) -> String {
    match reading {
        Reading::Absent => "absent".into(),
        Reading::Repeated => "given more than once".into(),
        Reading::Once(value) => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Takes in a whole body. A body that came in one piece is not copied.
///
/// # Errors
/// 413, 408, or that the client broke off. What then still comes is drained.
pub(super) async fn whole(mut body: Incoming, bounds: &Bounds) -> Result<Bytes, BodyFault> {
    let Some(first) = next(&mut body, bounds.body_idle_timeout).await? else {
        return Ok(Bytes::new());
    };
    if first.len() > bounds.body_bytes_max {
        drain(body, bounds);
        return Err(BodyFault::TooLarge {
            max: bounds.body_bytes_max,
        });
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    // What is announced is not set aside in full before it comes: a length costs nothing to claim.
    let rest = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut whole = BytesMut::with_capacity(first.len() + rest.min(bounds.buffer_bytes));
    whole.extend_from_slice(&first);
    drop(first);
    while let Some(chunk) = next(&mut body, bounds.body_idle_timeout).await? {
        if whole.len() + chunk.len() > bounds.body_bytes_max {
            drain(body, bounds);
            return Err(BodyFault::TooLarge {
                max: bounds.body_bytes_max,
            });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// The next piece of a body; trailers are passed over.
async fn next(body: &mut Incoming, idle: Duration) -> Result<Option<Bytes>, BodyFault> {
    loop {
        let frame = match at_once(body).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => match timeout(idle, body.frame()).await {
                Ok(frame) => frame,
                Err(_) => return Err(BodyFault::Timeout { max: idle }),
            },
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) if is_gone(&error) => {
                // Nobody is left to be answered. Whoever watches the connection drops this
                // exchange; the pause only bounds it.
                sleep(idle).await;
                return Err(BodyFault::Broken);
            }
            Some(Err(_)) => return Err(BodyFault::Broken),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// What is there already: a small body mostly came with its head, and needs no timer.
async fn at_once(body: &mut Incoming) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await
}

/// Whether a body ended because its client did, and not because it cannot be read.
pub(super) fn is_gone(error: &hyper::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    error.is_incomplete_message()
        || cause.is_some_and(|cause| {
            matches!(
                cause.kind(),
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof
            )
        })
}

/// Reads and throws away what is left of a refused request's body, within its bounds and beside
/// the answer: a client that is still sending then reads the answer, and the connection can go on.
pub(super) fn drain(mut body: Incoming, bounds: &Bounds) {
    if body.is_end_stream() {
        return;
    }
    let (mut left, time) = (bounds.drain_bytes_max, bounds.drain_timeout);
    tokio::spawn(timeout(time, async move {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }));
}

/// Drains the body of a request that was refused at its head; tells whether the connection can go
/// on. A client that waits for a `100 Continue` has sent nothing yet, and reading would ask it to.
#[must_use]
pub(super) fn drain_unread(head: &Parts, body: Incoming, bounds: &Bounds) -> bool {
    if head.headers.contains_key(EXPECT) && !body.is_end_stream() {
        return false;
    }
    drain(body, bounds);
    true
}
