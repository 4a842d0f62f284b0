//! Answers that must be read before they go on: those that say which versions will be spoken. What
//! is read is held back, within bounds; the rest streams.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

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
use crate::protocol::event::{self, Splitter};
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

    /// What has come of it.
    #[must_use]
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Nothing of the answer goes on. Where it has ended, its connection serves the next exchange.
    pub(super) fn done(self) {
        if self.rest.is_end_stream() {
            self.lease.give_back();
        }
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

/// Within which bounds an answer is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most bytes of it.
    pub(super) bytes_max: usize,
    /// What is said of one that has more.
    pub(super) too_long: &'static str,
    /// How long its server may pause.
    pub(super) idle_timeout: Duration,
    /// How long all of it may take, where that is bounded.
    pub(super) whole_timeout: Option<Duration>,
}

/// Why an answer could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is all there, or will be, and can go on as it is where it need not be read.
    Whole(&'static str),
    /// The rest of it is lost.
    Lost(&'static str),
}

impl Unread {
    /// What is wrong with it.
    #[must_use]
    pub(super) fn what(self) -> &'static str {
        match self {
            Unread::Whole(what) | Unread::Lost(what) => what,
        }
    }
}

/// Holds an answer back until `read` has found the response in it, if it is there.
pub(super) async fn hold<T>(
    response: Response<Inbound>,
    lease: Lease,
    limits: Limits,
    read: impl Fn(&[u8]) -> Read<T>,
) -> (Held, Result<T, Unread>) {
    let (head, rest) = response.into_parts();
    let mut holding = Holding {
        rest,
        held: BytesMut::new(),
        limits,
    };
    let finding = async {
        if media::is_coded(&head.headers) {
            Err(Unread::Whole(CODED))
        } else if media::is_event_stream(&head.headers) {
            holding.find_event(read).await
        } else {
            holding.find_document(read).await
        }
    };
    let found = match limits.whole_timeout {
        None => finding.await,
        Some(max) => timeout(max, finding)
            .await
            .unwrap_or(Err(Unread::Lost(LATE))),
    };
    let (message, found) = match found {
        Ok((place, value)) => (place, Ok(value)),
        Err(unread) => (Place::Piece(0..0), Err(unread)),
    };
    let held = Held {
        head,
        bytes: holding.held.freeze(),
        message,
        rest: holding.rest,
        lease,
    };
    (held, found)
}

/// Holds back an answer that must be read.
///
/// # Errors
/// [`UpstreamFault::Unreadable`] where there is no response in it, or not within the route's bounds.
pub(super) async fn demand<T>(
    response: Response<Inbound>,
    lease: Lease,
    route: &Route,
    read: impl Fn(&[u8]) -> Read<T>,
) -> Result<(Held, T), Refusal> {
    let limits = Limits {
        bytes_max: route.bounds.buffer_bytes,
        too_long: "an answer that must be read and exceeds bounds.buffer_bytes",
        idle_timeout: route.upstream.response_idle_timeout,
        // As much as the head, it says whether there will be anything.
        whole_timeout: Some(route.upstream.response_header_timeout),
    };
    let (held, found) = hold(response, lease, limits, read).await;
    match found {
        Ok(value) => Ok((held, value)),
        Err(unread) => Err(UpstreamFault::Unreadable {
            upstream: route.upstream.name.clone(),
            what: unread.what(),
        }
        .into()),
    }
}

const UNREADABLE: &str = "an answer that must be read and cannot be";
const BROKEN: &str = "an answer that must be read and broke off";
const LATE: &str = "an answer that must be read and took longer than response_header_timeout";
const PAUSED: &str = "an answer that must be read and paused for longer than response_idle_timeout";
const CODED: &str = "an answer that must be read with a Content-Encoding, unasked";

/// An answer of which a part is held.
struct Holding {
    rest: Inbound,
    held: BytesMut,
    limits: Limits,
}

impl Holding {
    async fn find_document<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Read<T>,
    ) -> Result<(Place, T), Unread> {
        while self.next().await?.is_some() {}
        match read(&self.held) {
            Read::Response(value) => Ok((Place::Piece(0..self.held.len()), value)),
            Read::NotYet | Read::Unreadable => Err(Unread::Whole(UNREADABLE)),
        }
    }

    async fn find_event<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Read<T>,
    ) -> Result<(Place, T), Unread> {
        let too_long = Unread::Whole(self.limits.too_long);
        let mut splitter = Splitter::new(self.limits.bytes_max);
        let mut event_start = 0;
        while let Some(chunk) = self.next().await? {
            let mut unread = &chunk[..];
            while let Some(event) = splitter.next(&mut unread).map_err(|_| too_long)? {
                let event_end = offset(event.end).ok_or(too_long)?;
                if relay::is_message(&event) {
                    match read(event.data) {
                        Read::Response(value) => {
                            let at = event.data_at.and_then(offset);
                            let place = match at {
                                Some(at) => Place::Piece(at..at + event.data.len()),
                                None => Place::Lines(event_start..event_end),
                            };
                            return Ok((place, value));
                        }
                        Read::NotYet => {}
                        Read::Unreadable => return Err(Unread::Whole(UNREADABLE)),
                    }
                }
                event_start = event_end;
            }
        }
        Err(Unread::Lost(BROKEN))
    }

    /// The next piece, which is held with those before it.
    async fn next(&mut self) -> Result<Option<Bytes>, Unread> {
        if self.rest.is_end_stream() {
            return Ok(None);
        }
        let next = timeout(self.limits.idle_timeout, self.rest.frame());
        match next.await {
            Err(_) => Err(Unread::Lost(PAUSED)),
            Ok(None) => Ok(None),
            Ok(Some(Err(_))) => Err(Unread::Lost(BROKEN)),
            Ok(Some(Ok(frame))) => {
                let chunk = frame.into_data().unwrap_or_default();
                self.held.extend_from_slice(&chunk);
                match self.held.len() > self.limits.bytes_max {
                    true => Err(Unread::Whole(self.limits.too_long)),
                    false => Ok(Some(chunk)),
                }
            }
        }
    }
}

/// A place in the stream as one in what is held of it.
fn offset(at: u64) -> Option<usize> {
    usize::try_from(at).ok()
}
