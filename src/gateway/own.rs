//! Requests of our own to an upstream, in the context of a client: with its headers, so that the
//! upstream tells us what it would tell it.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri};

use super::agree::Routing;
use super::answer::{self, Limits, Read};
use super::forward::Destination;
use super::outbound::Outbound;
use super::sender::Sender;
use crate::protocol::header;
use crate::protocol::media;
use crate::protocol::refusal::{HttpFault, UpstreamFault};
use crate::protocol::response::{Message, Response};
use crate::protocol::version::{Era, Version};

const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// On whose behalf we ask: the head of its request, as far as an upstream may decide by it.
#[derive(Clone, Debug)]
pub(super) struct Behalf {
    era: Era,
    uri: Uri,
    version: http::Version,
    headers: HeaderMap,
    /// Who it is; ourselves, where nobody is named.
    sender: Option<Sender>,
}

/// What became of a request of our own.
#[derive(Debug)]
pub(super) enum Told {
    /// The response.
    Response(Response),
    /// An answer with this status, which is no success, whatever is in it; and what it asks for to
    /// sign in.
    Status(StatusCode, Option<HeaderValue>),
}

/// Counts the requests of our own.
static IDS: AtomicU64 = AtomicU64::new(1);

/// The message of a request of our own: in the modern era with these raw capabilities of its client,
/// and these further members of its parameters, raw and each with a comma before it.
#[must_use]
pub(super) fn message(
    era: Era,
    version: Option<Version>,
    method: &'static str,
    capabilities: &str,
    params: &[u8],
) -> Bytes {
    // Servers tell the requests of one legacy session apart by their ids.
    let id = IDS.fetch_add(1, Ordering::Relaxed).to_string();
    let version = version.unwrap_or(Version::V2026_07_28);
    if era == Era::Legacy {
        return [
            br#"{"jsonrpc":"2.0","id":"weirgate-"#,
            id.as_bytes(),
            br#"","method":""#,
            method.as_bytes(),
            br#"","params":{"_meta":{}"#,
            params,
            b"}}",
        ]
        .concat()
        .into();
    }
    [
        br#"{"jsonrpc":"2.0","id":"weirgate-"#,
        id.as_bytes(),
        br#"","method":""#,
        method.as_bytes(),
        br#"","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":""#,
        version.as_str().as_bytes(),
        br#"","io.modelcontextprotocol/clientInfo":{"name":"weirgate","version":""#,
        env!("CARGO_PKG_VERSION").as_bytes(),
        br#""},"io.modelcontextprotocol/clientCapabilities":"#,
        capabilities.as_bytes(),
        b"}",
        params,
        b"}}",
    ]
    .concat()
    .into()
}

impl Behalf {
    /// On behalf of whoever sent `head`, which is of this era.
    #[must_use]
    pub(super) fn of(head: &Parts, sender: &Sender, era: Era) -> Behalf {
        // What we ask for has no arguments.
        let is_argument = |name: &str| name.starts_with(header::PARAM_PREFIX);
        let headers = head.headers.iter();
        let headers = headers.filter(|(name, _)| !is_argument(name.as_str()));
        Behalf {
            era,
            uri: head.uri.clone(),
            version: head.version,
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            sender: Some(sender.clone()),
        }
    }

    /// On our own behalf: without anything that belongs to a client.
    #[must_use]
    pub(super) fn ours() -> Behalf {
        Behalf {
            era: Era::Modern,
            uri: Uri::from_static("/"),
            version: http::Version::HTTP_11,
            headers: HeaderMap::new(),
            sender: None,
        }
    }

    /// Its era.
    #[must_use]
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// The head of a request for it, as it would come to us.
    #[must_use]
    pub(super) fn head(&self) -> Parts {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        head.uri = self.uri.clone();
        head.version = self.version;
        head.headers = self.headers.clone();
        head.headers.remove(EXPECT);
        head.headers.insert(ACCEPT, EITHER);
        head.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
        head
    }

    /// The request with this message.
    ///
    /// # Errors
    /// [`HttpFault::TargetTooLong`].
    pub(super) fn request(
        &self,
        destination: &Destination,
        version: Option<Version>,
        method: &'static str,
        message: Bytes,
    ) -> Result<Request<Outbound>, HttpFault> {
        let routing = Routing::of_our_own(self.era, version, method);
        let body = Outbound::Whole(message);
        destination.request(self.head(), body, routing, self.era, self.sender.as_ref())
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
) -> Result<Told, UpstreamFault> {
    let (response, lease) = destination.send(request).await?;
    let status = response.status();
    let challenge = header::joined(response.headers(), WWW_AUTHENTICATE, b", ");
    let (held, found) = answer::hold(response, lease, limits, response_in).await;
    match found {
        _ if !status.is_success() => {
            held.done();
            Ok(Told::Status(status, challenge))
        }
        Ok(response) => {
            held.done();
            Ok(Told::Response(response))
        }
        Err(unread) => Err(UpstreamFault::Unreadable {
            upstream: destination.upstream().name.clone(),
            what: unread.what(),
        }),
    }
}

/// The response, if that is what a message is.
pub(super) fn response_in(message: &[u8]) -> Read<Response> {
    match Message::read(Bytes::copy_from_slice(message)) {
        Message::Other { .. } => Read::NotYet,
        Message::Response(response) => Read::Response(response),
        Message::Unreadable(_) => Read::Unreadable,
    }
}
