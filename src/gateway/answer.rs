//! Answers that must be read before they go on: those that say which versions will be spoken. What
//! is read is held back, within bounds; the rest streams.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::outbound::Lease;
use super::relay::{self, Source};
use crate::net::upstream::Inbound;
use crate::policy::plan::Route;
use crate::protocol::event::{self, Event, Splitter};
use crate::protocol::media;
use crate::protocol::refusal::{Refusal, UpstreamFault};
use crate::protocol::version::Era;

/// What one message of an answer turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    /// Not the response: a notification or a request that comes before it.
    NotYet,
    /// The response, and what was read in it.
    Response(T),
    /// Not readable one way only.
    Unreadable,
}

#[derive(Deserialize)]
struct Message<R> {
    result: Option<R>,
    error: Option<IgnoredAny>,
}

/// Reads the result of a response; none where it is an error.
pub(super) fn result<'m, R: Deserialize<'m>>(message: &'m [u8]) -> Read<Option<R>> {
    match serde_json::from_slice(message) {
        Ok(Message {
            result: None,
            error: None,
        }) => Read::NotYet,
        Ok(Message {
            result: Some(_),
            error: Some(_),
        })
        | Err(_) => Read::Unreadable,
        Ok(Message { result, .. }) => Read::Response(result),
    }
}

/// Where in the bytes that are held a message stands.
#[derive(Debug)]
enum Place {
    /// In one piece.
    Piece(Range<usize>),
    /// In several lines of the event that takes these bytes.
    Lines(Range<usize>),
}

/// An answer whose response was read.
pub(super) struct Held {
    head: http::response::Parts,
    bytes: Bytes,
    message: Place,
    rest: Inbound,
    lease: Lease,
}

impl Held {
    /// The answer as it came.
    #[must_use]
    pub(super) fn pass(self, era: Era) -> Response<Source> {
        let held = Some(self.bytes).filter(|bytes| !bytes.is_empty());
        relay::resume(self.head, held, self.rest, self.lease, era)
    }

    /// The answer with `message` in place of the one that was read. All other bytes stay, but those
    /// of an event whose data several lines make.
    #[must_use]
    pub(super) fn replace(mut self, message: &[u8], era: Era) -> Response<Source> {
        let (place, message) = match self.message {
            Place::Piece(place) => (place, Cow::Borrowed(message)),
            Place::Lines(place) => (place, Cow::Owned(event::message(message))),
        };
        let (before, behind) = (&self.bytes[..place.start], &self.bytes[place.end..]);
        self.bytes = [before, &message, behind].concat().into();
        self.message = Place::Piece(0..0);
        // The length was that of the bytes before.
        self.head.headers.remove(http::header::CONTENT_LENGTH);
        self.pass(era)
    }
}

/// Holds an answer back until `read` has found the response in it.
///
/// # Errors
/// [`UpstreamFault::Unreadable`] where there is none, or not within the route's bounds.
pub(super) async fn hold<T>(
    response: Response<Inbound>,
    lease: Lease,
    route: &Route,
    read: impl Fn(&[u8]) -> Read<T>,
) -> Result<(Held, T), Refusal> {
    let (head, mut rest) = response.into_parts();
    let finding = async {
        if media::is_coded(&head.headers) {
            Err(CODED)
        } else if media::is_event_stream(&head.headers) {
            find_event(&mut rest, route, read).await
        } else {
            find_document(&mut rest, route, read).await
        }
    };
    let max = route.upstream.response_header_timeout;
    let found = timeout(max, finding).await.unwrap_or(Err(LATE));
    let (bytes, message, value) = found.map_err(|what| UpstreamFault::Unreadable {
        upstream: route.upstream.name.clone(),
        what,
    })?;
    Ok((
        Held {
            head,
            bytes,
            message,
            rest,
            lease,
        },
        value,
    ))
}

type Found<T> = Result<(Bytes, Place, T), &'static str>;

const TOO_LONG: &str = "an answer that must be read and exceeds bounds.buffer_bytes";
const UNREADABLE: &str = "an answer that must be read and cannot be";
const BROKEN: &str = "an answer that must be read and broke off";
const LATE: &str = "an answer that must be read and took longer than response_header_timeout";
const CODED: &str = "an answer that must be read with a Content-Encoding, unasked";

async fn find_document<T>(
    rest: &mut Inbound,
    route: &Route,
    read: impl Fn(&[u8]) -> Read<T>,
) -> Found<T> {
    let mut held = BytesMut::new();
    while let Some(chunk) = next(rest, route, held.len()).await? {
        held.extend_from_slice(&chunk);
    }
    match read(&held) {
        Read::Response(value) => {
            let message = Place::Piece(0..held.len());
            Ok((held.freeze(), message, value))
        }
        Read::NotYet | Read::Unreadable => Err(UNREADABLE),
    }
}

async fn find_event<T>(
    rest: &mut Inbound,
    route: &Route,
    read: impl Fn(&[u8]) -> Read<T>,
) -> Found<T> {
    let mut held = BytesMut::new();
    let mut splitter = Splitter::new(route.bounds.buffer_bytes);
    let mut event_start = 0;
    while let Some(chunk) = next(rest, route, held.len()).await? {
        held.extend_from_slice(&chunk);
        let mut unread = &chunk[..];
        while let Some(event) = splitter.next(&mut unread).map_err(|_| TOO_LONG)? {
            let event_end = offset(event.end)?;
            if is_message(&event) {
                match read(event.data) {
                    Read::Response(value) => {
                        let message = match event.data_at {
                            Some(at) => Place::Piece(offset(at)?..offset(at)? + event.data.len()),
                            None => Place::Lines(event_start..event_end),
                        };
                        return Ok((held.freeze(), message, value));
                    }
                    Read::NotYet => {}
                    Read::Unreadable => return Err(UNREADABLE),
                }
            }
            event_start = event_end;
        }
    }
    Err(BROKEN)
}

/// Whether clients read a message in an event: they pass over other types, and over the event
/// that only has an id, with which servers begin a stream that can be resumed.
fn is_message(event: &Event<'_>) -> bool {
    !event.data.is_empty() && event.event.is_none_or(|kind| kind == b"message")
}

/// A place in the stream as one in what is held of it.
fn offset(at: u64) -> Result<usize, &'static str> {
    usize::try_from(at).map_err(|_| TOO_LONG)
}

/// The next piece, where `held` bytes are held back already.
async fn next(
    rest: &mut Inbound,
    route: &Route,
    held: usize,
) -> Result<Option<Bytes>, &'static str> {
    if rest.is_end_stream() {
        return Ok(None);
    }
    match rest.frame().await {
        None => Ok(None),
        Some(Err(_)) => Err(BROKEN),
        Some(Ok(frame)) => {
            let chunk = frame.into_data().unwrap_or_default();
            if held + chunk.len() > route.bounds.buffer_bytes {
                return Err(TOO_LONG);
            }
            Ok(Some(chunk))
        }
    }
}
