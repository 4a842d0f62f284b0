//! The request's body: taken in whole within its bounds, or read and thrown away after a refusal.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::policy::plan::Bounds;
use crate::protocol::header::{self, Reading};
use crate::protocol::refusal::BodyFault;

/// Judges what the head says of the body.
///
/// # Errors
/// 415 for another media type or any content coding, 413 for an announced length over the bound.
pub fn check(head: &Parts, bounds: &Bounds) -> Result<(), BodyFault> {
    match header::read(&head.headers, &CONTENT_TYPE) {
        Reading::Once(value) if is_json(value) => {}
        reading => return Err(BodyFault::MediaType { found: shown(reading) }),
    }
    match header::read(&head.headers, &CONTENT_ENCODING) {
        Reading::Absent => {}
        reading => return Err(BodyFault::ContentEncoding { found: shown(reading) }),
    }
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(length) if length > bounds.body_bytes_max as u64 => {
            Err(BodyFault::TooLarge { max: bounds.body_bytes_max })
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a media type is JSON, in UTF-8 where it names a charset.
fn is_json(value: &[u8]) -> bool {
    if value == b"application/json" {
        return true;
    }
    let Ok(value) = std::str::from_utf8(value) else {
        return false;
    };
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, charset)) if name.trim().eq_ignore_ascii_case("charset") => {
                let charset = charset.trim().trim_matches('"');
                charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
            }
            Some((name, _)) => !name.is_empty(),
            None => parameter.is_empty(),
        })
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
pub async fn whole(mut body: Incoming, bounds: &Bounds) -> Result<Bytes, BodyFault> {
    let Some(first) = next(&mut body, bounds.body_idle_timeout).await? else {
        return Ok(Bytes::new());
    };
    if first.len() > bounds.body_bytes_max {
        drain(body, bounds);
        return Err(BodyFault::TooLarge { max: bounds.body_bytes_max });
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
            return Err(BodyFault::TooLarge { max: bounds.body_bytes_max });
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// The next piece of a body; trailers are passed over.
async fn next(body: &mut Incoming, idle: Duration) -> Result<Option<Bytes>, BodyFault> {
    loop {
        match timeout(idle, body.frame()).await {
            Err(_) => return Err(BodyFault::Timeout { max: idle }),
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(BodyFault::Broken),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads and throws away what is left of a refused request's body, within its bounds and beside
/// the answer: a client that is still sending then reads the answer, and the connection can go on.
pub fn drain(mut body: Incoming, bounds: &Bounds) {
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

/// Drains the body of a request that was refused at its head. A client that waits for a
/// `100 Continue` has sent nothing yet, and reading would ask it to.
pub fn drain_unread(head: &Parts, body: Incoming, bounds: &Bounds) {
    if !head.headers.contains_key(EXPECT) {
        drain(body, bounds);
    }
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
        ] {
            assert!(!is_json(value.as_bytes()), "{value}");
        }
    }
}
