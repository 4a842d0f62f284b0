//! The request's body: taken in within its bounds, whole or as much as is scanned before the rest
//! may stream; or read and thrown away after a refusal.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::net::received::{BrokenOff, Received};
use crate::policy::plan::Bounds;
use crate::protocol::frame::{Paths, Scanner};
use crate::protocol::head::Fields;
use crate::protocol::header::Reading;
use crate::protocol::media::is_json;
use crate::protocol::refusal::BodyFault;

/// Judges what the head says of the body; `streams` is asked whether the head is such that a body
/// over `buffer_bytes` may stream.
///
/// # Errors
/// 415 for another media type or any content coding, 413 for an announced length over the bound.
pub(super) fn check(
    fields: &Fields<'_>,
    body: &Received,
    bounds: &Bounds,
    streams: impl FnOnce() -> bool,
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
    let length = body.size_hint().lower();
    if length <= bounds.body_bytes_max as u64 {
        return Ok(());
    }
    if !streams() {
        return Err(too_large(bounds));
    }
    if length > bounds.stream_bytes_max as u64 {
        return Err(too_large_to_stream(bounds));
    }
    Ok(())
}

/// A body over what is held.
#[must_use]
pub(super) fn too_large(bounds: &Bounds) -> BodyFault {
    BodyFault::TooLarge {
        limit: "bounds.body_bytes_max",
        max: bounds.body_bytes_max,
    }
}

/// A body over what streams.
#[must_use]
pub(super) fn too_large_to_stream(bounds: &Bounds) -> BodyFault {
    BodyFault::TooLarge {
        limit: "bounds.stream_bytes_max",
        max: bounds.stream_bytes_max,
    }
}

/// Judges the length of a body that nobody reads, as far as it is known: the larger of the two bounds
/// counts, because nothing of it is held.
///
/// # Errors
/// 413 over that bound.
pub(super) fn check_unread(length: u64, bounds: &Bounds) -> Result<(), BodyFault> {
    let fault = match bounds.stream_bytes_max > bounds.body_bytes_max {
        true => too_large_to_stream(bounds),
        false => too_large(bounds),
    };
    match length > bounds.stream_bytes_max.max(bounds.body_bytes_max) as u64 {
        true => Err(fault),
        false => Ok(()),
    }
}

fn shown(reading: Reading<'_>) -> String {
    match reading {
        Reading::Absent => "absent".into(),
        Reading::Repeated => "given more than once".into(),
        Reading::Once(value) => String::from_utf8_lossy(value).into_owned(),
    }
}

/// What was taken in of a body.
#[derive(Debug)]
pub(super) enum Taken {
    /// All of it.
    Whole(Bytes),
    /// A little more than is held of a body that streams.
    Part(Part),
}

/// The beginning of a body, and what is to come of it.
#[derive(Debug)]
pub(super) struct Part {
    /// What has come.
    pub(super) held: BytesMut,
    /// The rest.
    pub(super) rest: Received,
}

/// Takes in a body up to `buffer_bytes`. One that came in one piece is not copied.
///
/// # Errors
/// 408, or that the client broke off.
pub(super) async fn take(mut body: Received, bounds: &Bounds) -> Result<Taken, BodyFault> {
    let Some(first) = next(&mut body, bounds.body_idle_timeout).await? else {
        return Ok(Taken::Whole(Bytes::new()));
    };
    if body.is_end_stream() && first.len() <= bounds.body_bytes_max {
        return Ok(Taken::Whole(first));
    }
    // What is announced is not set aside in full before it comes: a length costs nothing to claim.
    let rest = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut held = BytesMut::with_capacity(first.len() + rest.min(bounds.buffer_bytes));
    held.extend_from_slice(&first);
    drop(first);
    while held.len() <= bounds.buffer_bytes.min(bounds.body_bytes_max) {
        match next(&mut body, bounds.body_idle_timeout).await? {
            Some(piece) => held.extend_from_slice(&piece),
            None => return Ok(Taken::Whole(held.freeze())),
        }
    }
    Ok(Taken::Part(Part { held, rest: body }))
}

impl Part {
    /// The raw id of the message that this begins, if it has come already.
    #[must_use]
    pub(super) fn id(&self, bounds: &Bounds) -> Option<Bytes> {
        let mut scanner = Scanner::new(&bounds.message, &Paths::default());
        // Whatever may be wrong with the rest, what was found before it stands.
        let _ = scanner.push(&self.held);
        scanner.id()
    }

    /// Takes in the rest of a body that may not stream.
    ///
    /// # Errors
    /// 413, 408, or that the client broke off. What then still comes is drained.
    pub(super) async fn whole(self, bounds: &Bounds) -> Result<Bytes, BodyFault> {
        let Part { mut held, mut rest } = self;
        loop {
            if held.len() > bounds.body_bytes_max {
                drain(rest, bounds);
                return Err(too_large(bounds));
            }
            match next(&mut rest, bounds.body_idle_timeout).await? {
                Some(piece) => held.extend_from_slice(&piece),
                None => return Ok(held.freeze()),
            }
        }
    }
}

/// The next piece of a body; trailers are passed over.
async fn next(body: &mut Received, idle: Duration) -> Result<Option<Bytes>, BodyFault> {
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
            Some(Err(error)) => return Err(broken(error.is_gone(), idle).await),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// What is there already: a small body mostly came with its head, and needs no timer.
async fn at_once(body: &mut Received) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await
}

/// The fault of a body that broke off, told at once unless its client has gone.
pub(super) async fn broken(is_gone: bool, idle: Duration) -> BodyFault {
    if is_gone {
        // Nobody is left to be answered. Whoever watches the connection drops this exchange; the
        // pause only bounds it.
        sleep(idle).await;
    }
    BodyFault::Broken
}

/// Reads and throws away what is left of a refused request's body, within its bounds and beside
/// the answer: a client that is still sending then reads the answer, and the connection can go on.
pub(super) fn drain(mut body: Received, bounds: &Bounds) {
    if body.is_end_stream() {
        return;
    }
    // Nobody is to be answered any more when the runtime has ended.
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let (mut left, time) = (bounds.drain_bytes_max, bounds.drain_timeout);
    runtime.spawn(timeout(time, async move {
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
pub(super) fn drain_unread(head: &Parts, body: Received, bounds: &Bounds) -> bool {
    if head.headers.contains_key(EXPECT) && !body.is_end_stream() {
        return false;
    }
    drain(body, bounds);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_nobody_reads_the_larger_bound_counts() {
        for (body_bytes_max, stream_bytes_max, larger, named) in [
            (10, 20, 20, "bounds.stream_bytes_max"),
            (20, 10, 20, "bounds.body_bytes_max"),
            (20, 0, 20, "bounds.body_bytes_max"),
            (20, 20, 20, "bounds.body_bytes_max"),
        ] {
            let bounds = Bounds {
                body_bytes_max,
                stream_bytes_max,
                ..Bounds::default()
            };
            assert!(check_unread(larger, &bounds).is_ok());
            let fault = check_unread(larger + 1, &bounds).expect_err("too long");
            assert!(
                matches!(fault, BodyFault::TooLarge { limit, max: 20 } if limit == named),
                "{fault:?}"
            );
        }
    }
}
