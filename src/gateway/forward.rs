//! The request that goes upstream: its target, its headers, and the bytes that were scanned.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

use super::agree::Routing;
use super::hop;
use crate::net::upstream::{Failure, Lease, Pool};
use crate::policy::plan::Upstream;
use crate::protocol::header;
use crate::protocol::refusal::{HttpFault, UpstreamFault};
use crate::protocol::version::Era;

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const X_FORWARDED: &str = "x-forwarded-";

/// Where the requests of a route go.
#[derive(Debug)]
pub(super) struct Destination {
    pool: Arc<Pool>,
    authority: HeaderValue,
    target: Uri,
}

impl Destination {
    /// The destination that `pool` leads to.
    ///
    /// # Errors
    /// An authority or path that no request can carry; a checked policy has none.
    pub(super) fn new(pool: Arc<Pool>) -> Result<Destination, http::Error> {
        let upstream = pool.upstream();
        let authority = HeaderValue::from_str(&upstream.authority)?;
        let target = target(upstream, None)?;
        Ok(Destination {
            pool,
            authority,
            target,
        })
    }

    /// The upstream, as the policy has it.
    #[must_use]
    pub(super) fn upstream(&self) -> &Upstream {
        self.pool.upstream()
    }

    /// The request that `head` and `body` become.
    ///
    /// # Errors
    /// [`HttpFault::TargetTooLong`].
    pub(super) fn request(
        &self,
        mut head: Parts,
        body: Bytes,
        routing: Routing,
        era: Era,
    ) -> Result<Request<Full<Bytes>>, HttpFault> {
        head.uri = match head.uri.query() {
            None => self.target.clone(),
            // It was a part of a target already, so that only its length can be too much.
            Some(query) => {
                target(self.upstream(), Some(query)).map_err(|_| HttpFault::TargetTooLong)?
            }
        };
        head.version = http::Version::HTTP_11;
        depart(&mut head.headers, routing, era);
        head.headers.insert(HOST, self.authority.clone());
        Ok(Request::from_parts(head, Full::new(body)))
    }

    /// Sends `request` and waits for the head of the answer.
    ///
    /// # Errors
    /// [`UpstreamFault::Failed`] and [`UpstreamFault::Timeout`].
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Lease), UpstreamFault> {
        let sent = self.pool.send(request).await;
        let (response, lease) = sent.map_err(|failure| self.fault(&failure))?;
        if response.status().is_informational() {
            // No answer follows one that changes the protocol, and nobody asked for that.
            return Err(UpstreamFault::Failed {
                upstream: self.upstream().name.clone(),
                what: "changed the protocol unasked",
                detail: response.status().to_string(),
            });
        }
        Ok((response, lease))
    }

    /// Ends a session of the upstream that no client will use, beside the answer that says so.
    pub(super) fn end_session(&self, session: HeaderValue) {
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = Method::DELETE;
        *request.uri_mut() = self.target.clone();
        request.headers_mut().insert(HOST, self.authority.clone());
        request.headers_mut().insert(header::SESSION_ID, session);
        let pool = self.pool.clone();
        tokio::spawn(async move {
            // The client has its answer; a server that cannot be told forgets the session itself.
            let _ = pool.send(request).await;
        });
    }

    fn fault(&self, failure: &Failure) -> UpstreamFault {
        let upstream = self.upstream();
        let timeout = |limit, max| UpstreamFault::Timeout {
            upstream: upstream.name.clone(),
            limit,
            max,
        };
        let failed = |what| UpstreamFault::Failed {
            upstream: upstream.name.clone(),
            what,
            detail: failure.detail(),
        };
        match failure {
            Failure::ConnectTimeout => timeout("connect_timeout", upstream.connect_timeout),
            Failure::HeaderTimeout => {
                timeout("response_header_timeout", upstream.response_header_timeout)
            }
            Failure::Connect(_) => failed("cannot be reached"),
            Failure::Broken(_) => failed("broke off before it answered"),
        }
    }
}

/// The upstream's own path and query, with the request's query behind them.
fn target(upstream: &Upstream, query: Option<&str>) -> Result<Uri, http::Error> {
    let joined = match (&upstream.query, query) {
        (None, None) => upstream.path.clone(),
        (Some(one), None) => format!("{}?{one}", upstream.path),
        (None, Some(one)) => format!("{}?{one}", upstream.path),
        (Some(first), Some(second)) => format!("{}?{first}&{second}", upstream.path),
    };
    Ok(Uri::from(PathAndQuery::try_from(joined)?))
}

/// Turns the headers that came from the client into those that go to the upstream.
fn depart(headers: &mut HeaderMap, routing: Routing, era: Era) {
    let passes_params = routing.passes_params();
    hop::strip(headers, |name| match name {
        // The body was asked for here, and its length is that of the bytes that go on.
        "expect" | "content-length" => true,
        "forwarded" | "x-real-ip" => true,
        name if header::is_of_session(name) => era == Era::Modern,
        name => is_strange(name, passes_params),
    });
    // What must be read of an answer can be read only as it is.
    headers.insert(ACCEPT_ENCODING, IDENTITY);
    routing.apply(headers);
}

/// Whether a field must not go on: what strangers say about where a request came from, argument
/// headers that nobody validated, and names that a server which folds `_` into `-` would take for
/// one of ours.
fn is_strange(name: &str, passes_params: bool) -> bool {
    name.starts_with(X_FORWARDED)
        || (!passes_params && name.starts_with(header::PARAM_PREFIX))
        || (name.contains('_') && is_routing_lookalike(name))
}

fn is_routing_lookalike(name: &str) -> bool {
    let folded = name.replace('_', "-");
    folded.starts_with("mcp-")
        || folded.starts_with(X_FORWARDED)
        || folded == "last-event-id"
        || folded == "x-real-ip"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_names_do_not_pass() {
        for name in [
            "mcp_method",
            "mcp-param_region",
            "mcp_session-id",
            "x_forwarded_for",
        ] {
            assert!(is_strange(name, true), "{name}");
        }
        for name in ["x_trace", "authorization", "mcp-param-region"] {
            assert!(!is_strange(name, true), "{name}");
        }
        assert!(is_strange("mcp-param-region", false));
    }
}
