//! Requests of our own to an upstream, in the context of a client: with its headers, so that the
//! upstream tells us what it would tell it.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Uri};

use super::agree::Routing;
use super::answer::{self, Limits, Read};
use super::forward::Destination;
use super::outbound::Outbound;
use super::sender::Sender;
use crate::protocol::media;
use crate::protocol::refusal::{HttpFault, UpstreamFault};
use crate::protocol::version::{Era, Version};

const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// On whose behalf we ask: the head of its request, as far as an upstream may decide by it.
#[derive(Clone, Debug)]
pub(super) struct Behalf {
    uri: Uri,
    version: http::Version,
    headers: HeaderMap,
    sender: Sender,
}

/// What became of a request of our own.
#[derive(Debug)]
pub(super) enum Told {
    /// The message with its response, and the status that it came with.
    Response(Bytes),
    /// An answer with this status, in which there is none.
    Status(u16),
}

impl Behalf {
    /// On behalf of whoever sent `head`.
    #[must_use]
    pub(super) fn of(head: &Parts, sender: &Sender) -> Behalf {
        Behalf {
            uri: head.uri.clone(),
            version: head.version,
            headers: head.headers.clone(),
            sender: sender.clone(),
        }
    }

    /// The request with this message, which is a modern one.
    ///
    /// # Errors
    /// [`HttpFault::TargetTooLong`].
    pub(super) fn request(
        &self,
        destination: &Destination,
        version: Version,
        method: &'static str,
        message: Bytes,
    ) -> Result<Request<Outbound>, HttpFault> {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        head.uri = self.uri.clone();
        head.version = self.version;
        head.headers = self.headers.clone();
        head.headers.remove(EXPECT);
        head.headers.insert(ACCEPT, EITHER);
        head.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
        let routing = Routing::of_our_own(version, method);
        let body = Outbound::Whole(message);
        destination.request(head, body, routing, Era::Modern, &self.sender)
    }
}

/// Sends a request of our own, and reads its answer within `limits`.
///
/// # Errors
/// A fault of the upstream.
pub(super) async fn ask(
    destination: &Destination,
    request: Request<Outbound>,
    limits: Limits,
    is_response: impl Fn(&[u8]) -> Read<Bytes>,
) -> Result<Told, UpstreamFault> {
    let (response, lease) = destination.send(request).await?;
    let status = response.status();
    let (held, found) = answer::hold(response, lease, limits, is_response).await;
    match found {
        Ok(message) => {
            held.done();
            Ok(Told::Response(message))
        }
        Err(_) if !status.is_success() => Ok(Told::Status(status.as_u16())),
        Err(unread) => Err(UpstreamFault::Unreadable {
            upstream: destination.upstream().name.clone(),
            what: unread.what(),
        }),
    }
}
