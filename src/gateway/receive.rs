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

/// Whether a media type is JSON, in UTF-8 where it names a charset.
fn is_json(value: &[u8]) -> bool {
    if value == b"application/json" {
        return true;
    }
    let Ok(value) = std::str::from_utf8(value) else {
        return false;
    };
    let (essence, mut rest) = value.split_at(value.find(';').unwrap_or(value.len()));
    if !essence.trim().eq_ignore_ascii_case("application/json") {
        return false;
    }
    while let Some(parameter) = rest.strip_prefix(';') {
        let Some((name, charset, after)) = parameter_of(parameter) else {
            return false;
        };
        if name.eq_ignore_ascii_case("charset") && !charset.eq_ignore_ascii_case("utf-8") {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// The first of the parameters behind a semicolon, and what comes after it (RFC 9110, 5.6.6). An
/// empty parameter is one, with an empty name.
fn parameter_of(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start();
    let end = text.find([';', '=']).unwrap_or(text.len());
    let (name, rest) = (text[..end].trim_end(), &text[end..]);
    let Some(value) = rest.strip_prefix('=') else {
        return name.is_empty().then_some(("", "", rest));
    };
    let (value, rest) = match value.strip_prefix('"') {
        Some(quoted) => {
            // A quoted pair could hide the quote that ends the string, so none is read.
            let end = quoted.find(['"', '\\'])?;
            let rest = quoted[end..].strip_prefix('"')?;
            (&quoted[..end], rest.trim_start())
        }
        None => {
            let (token, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
            // A comma would begin a second media type.
            (!token.contains([',', '"'])).then_some((token.trim_end(), rest))?
        }
    };
    let whole = !name.is_empty() && (rest.is_empty() || rest.starts_with(';'));
    whole.then_some((name, value, rest))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_parsed() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\" ; v=1",
            "application/json;",
            "application/json; profile=\"a;b, c\"; charset=utf-8",
        ] {
            assert!(is_json(value.as_bytes()), "{value}");
        }
        for value in [
            "",
            "text/plain",
            "application/jsonx",
            "application/json-seq",
            "application/json, text/plain",
            "application/json; charset=utf-16",
            "text/plain; application/json",
            "application/json; nonsense",
            "application/json; a=b, text/plain",
            "application/json; a=\"b\\\"; charset=utf-16; c=\"\"",
            "application/json; charset=\"utf-8\" x",
        ] {
            assert!(!is_json(value.as_bytes()), "{value}");
        }
    }
}
