//! Routes that pass requests through unread: no MCP in them, and so nothing of it is promised to
//! whoever reads them next. Bodies stream both ways, within the bounds of the route.

use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http::{Method, Response};
use http_body::Body;

use super::inquiry::Inquiry;
use super::outbound::Outbound;
use super::relay::{self, Source};
use super::serving::Serving;
use super::{cors, intake, receive, upload};
use crate::net::received::Received;
use crate::policy::plan::{Bounds, Origins};
use crate::protocol::refusal::{HttpFault, Refusal};
use crate::protocol::version::Era;

/// What may be asked of such a route: everything that leaves the connection what it is, and that
/// does not give its headers away. This is the part of it that has a name.
pub(super) const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Passes a request on as it came, and its answer back.
///
/// # Errors
/// 503 where it is one too many; 405 for CONNECT and TRACE; what is wrong with the body; a fault of
/// the upstream.
pub(super) async fn pass(
    serving: &Serving,
    head: Parts,
    body: Received,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let (route, destination) = (&serving.route, &serving.destination);
    if let Err(refusal) = check(&head, &body, &route.bounds) {
        return Err(inquiry.refuse_unread(&head, body, &route.bounds, refusal));
    }
    let Inquiry {
        sender,
        exchange,
        to,
        ..
    } = inquiry;
    let (upload, body) = if body.is_end_stream() {
        (None, Outbound::Whole(Bytes::new()))
    } else {
        let expects = head.headers.contains_key(EXPECT);
        let (upload, body) = upload::begin_unread(route, body, expects, exchange.receiving());
        (Some(upload), Outbound::Streamed(body))
    };
    let request = destination.pass(head, body, sender)?;
    let sending = destination.send(request);
    let (response, lease) = match upload {
        None => sending.await?,
        Some(upload) => upload.answer(sending, to).await?,
    };
    exchange.upstream_connection(lease.reused());
    exchange.upstream_status(response.status().as_u16());
    // As in an exchange of a legacy version, no field of the answer is foreign to it.
    let mut response = relay::pass(response, lease, Era::Legacy);
    if route.origins != Origins::None {
        // Unlike those of MCP, such answers are kept by caches.
        cors::vary(response.headers_mut());
    }
    Ok(response)
}

/// Judges what the head says.
fn check(head: &Parts, body: &Received, bounds: &Bounds) -> Result<(), Refusal> {
    intake::check(head)?;
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        return Err(HttpFault::MethodNotAllowed { allow: METHODS }.into());
    }
    receive::check_unread(body.size_hint().lower(), bounds)?;
    Ok(())
}
