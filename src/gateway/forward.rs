//! The request that goes upstream: its target, its headers, and the bytes that were scanned.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, COOKIE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use tokio::runtime::Handle;

use super::agree::Routing;
use super::hop;
use super::outbound::{Lease, Outbound, Pool};
use super::sender::Sender;
use crate::net::tls::Fault;
use crate::net::upstream::{Failure, Inbound};
use crate::policy::plan::Upstream;
use crate::protocol::header;
use crate::protocol::refusal::{HttpFault, UpstreamFault};
use crate::protocol::version::Era;

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const X_FORWARDED: &str = "x-forwarded-";

/// Where the requests of a route go.
#[derive(Clone, Debug)]
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
        body: Outbound,
        routing: Routing,
        era: Era,
        sender: Option<&Sender>,
    ) -> Result<Request<Outbound>, HttpFault> {
        let host = named_host(&head);
        head.uri = match head.uri.query() {
            None => self.target.clone(),
            // It was a part of a target already, so that only its length can be too much.
            Some(query) => {
                target(self.upstream(), Some(query)).map_err(|_| HttpFault::TargetTooLong)?
            }
        };
        depart(&mut head.headers, routing, era);
        self.address(&mut head, host, sender);
        Ok(Request::from_parts(head, body))
    }

    /// The request that `head` and a body become that nobody reads: with its own path and query, and
    /// without the routing headers, which nobody held against a message.
    ///
    /// # Errors
    /// [`HttpFault::TargetTooLong`].
    pub(super) fn pass(
        &self,
        mut head: Parts,
        body: Outbound,
        sender: &Sender,
    ) -> Result<Request<Outbound>, HttpFault> {
        let target = head.uri.path_and_query().cloned();
        let host = named_host(&head);
        head.uri = target.map(Uri::from).ok_or(HttpFault::TargetTooLong)?;
        hop::strip(&mut head.headers, |name| match name {
            "expect" | "content-length" => true,
            name => name.starts_with(header::PREFIX) || is_strange(name, false),
        });
        self.address(&mut head, host, Some(sender));
        Ok(Request::from_parts(head, body))
    }

    /// Writes into `head` where it goes and where it came from; `host` is the one that it named.
    fn address(&self, head: &mut Parts, host: HeaderValue, sender: Option<&Sender>) {
        if head.version > Version::HTTP_11 {
            // Later versions may divide cookies among lines, and HTTP/1.1 may not (RFC 9113, 8.2.3).
            if let Some(cookies) = header::joined(&head.headers, COOKIE, b"; ") {
                head.headers.insert(COOKIE, cookies);
            }
        }
        head.version = Version::HTTP_11;
        if let Some(sender) = sender {
            sender.tell(&mut head.headers, self.upstream().forwarded, host);
        }
        head.headers.insert(HOST, self.authority.clone());
    }

    /// Sends `request` and waits for the head of the answer; with a body that is still coming in, the
    /// exchange keeps the time.
    ///
    /// # Errors
    /// [`UpstreamFault::Failed`] and [`UpstreamFault::Timeout`].
    pub(super) async fn send(
        &self,
        request: Request<Outbound>,
    ) -> Result<(Response<Inbound>, Lease), UpstreamFault> {
        let head_timeout = match request.body() {
            Outbound::Whole(_) => Some(self.upstream().response_header_timeout),
            Outbound::Streamed(_) => None,
        };
        let sent = self.pool.send(request, head_timeout).await;
        let (response, lease) = sent.map_err(|failure| self.fault(&failure))?;
        let broken = |what, detail: String| {
            Err(UpstreamFault::Failed {
                upstream: self.upstream().name.clone(),
                what,
                detail,
            })
        };
        if response.status().is_informational() {
            // No answer follows one that changes the protocol, and nobody asked for that.
            return broken(
                "changed the protocol unasked",
                response.status().to_string(),
            );
        }
        if let Some(coding) = response.headers().get(TRANSFER_ENCODING)
            && !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        {
            // The bytes are still coded, and the coding belongs to a connection that ends here.
            return broken("used a transfer coding unasked", format!("{coding:?}"));
        }
        Ok((response, lease.into()))
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
            Failure::Resolve(_) => failed("has a name that could not be resolved"),
            Failure::Connect(_) => failed("cannot be reached"),
            Failure::Tls(Fault::NotTls) => failed("does not speak TLS"),
            Failure::Tls(Fault::Untrusted(_)) => failed("has a certificate that is not trusted"),
            Failure::Tls(Fault::Refused(_)) => failed("refused the TLS handshake"),
            Failure::Tls(_) => failed("broke off the TLS handshake"),
            Failure::Broken(_) => failed("broke off before it answered"),
        }
    }
}

/// A request that ends a session, but for the session's id. It has the target and the credentials
/// of the request that opened it, without which a server may not listen.
#[derive(Debug)]
pub(super) struct Farewell {
    pool: Arc<Pool>,
    request: Request<Outbound>,
}

impl Farewell {
    /// The farewell to the session that `request` is about to open at `destination`.
    pub(super) fn after(request: &Request<Outbound>, destination: &Destination) -> Farewell {
        let mut farewell = Request::new(Outbound::Whole(Bytes::new()));
        *farewell.method_mut() = Method::DELETE;
        *farewell.uri_mut() = request.uri().clone();
        *farewell.headers_mut() = request.headers().clone();
        for name in [CONTENT_TYPE, ACCEPT, header::METHOD, header::NAME] {
            farewell.headers_mut().remove(name);
        }
        Farewell {
            pool: destination.pool.clone(),
            request: farewell,
        }
    }

    /// The session has been opened, and nobody uses it yet.
    pub(super) fn opened(mut self, session: HeaderValue) -> Unused {
        let headers = self.request.headers_mut();
        headers.insert(header::SESSION_ID, session);
        Unused(Some(self))
    }
}

/// A session of the upstream that no client uses. It is ended when this is dropped, whatever the
/// reason: a refusal, a deadline, or that the client has gone.
#[derive(Debug)]
pub(super) struct Unused(Option<Farewell>);

impl Unused {
    /// The client gets the session.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        // Without a runtime the process ends, and with it the connections to the upstream.
        if let Some(Farewell { pool, request }) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                let head_timeout = pool.upstream().response_header_timeout;
                // A server that cannot be told forgets the session itself.
                let _ = pool.send(request, Some(head_timeout)).await;
            });
        }
    }
}

/// The upstream's own path and query, with the request's query behind them.
fn target(upstream: &Upstream, query: Option<&str>) -> Result<Uri, http::Error> {
    let own = upstream.query.as_deref().filter(|own| !own.is_empty());
    let joined = match (own, query) {
        (None, None) => upstream.path.clone(),
        (Some(one), None) => format!("{}?{one}", upstream.path),
        (None, Some(one)) => format!("{}?{one}", upstream.path),
        (Some(first), Some(second)) => format!("{}?{first}&{second}", upstream.path),
    };
    Ok(Uri::from(PathAndQuery::try_from(joined)?))
}

/// The host that a request names, which was judged.
fn named_host(head: &Parts) -> HeaderValue {
    match (head.uri.authority(), head.headers.get(HOST)) {
        (_, Some(host)) => host.clone(),
        (Some(authority), None) => {
            HeaderValue::from_str(authority.as_str()).unwrap_or(HeaderValue::from_static(""))
        }
        (None, None) => HeaderValue::from_static(""),
    }
}

/// Turns the headers that came from the client into those that go to the upstream.
fn depart(headers: &mut HeaderMap, routing: Routing, era: Era) {
    let passes_params = routing.passes_params();
    hop::strip(headers, |name| match name {
        // The body was asked for here, and its length is that of the bytes that go on.
        "expect" | "content-length" => true,
        name if header::is_of_session(name) => era == Era::Modern,
        name => is_strange(name, passes_params),
    });
    // What must be read of an answer can be read only as it is.
    headers.insert(ACCEPT_ENCODING, IDENTITY);
    routing.apply(headers);
}

/// Whether a field must not go on: what strangers say about where a request came from and which path
/// it asked for, argument headers that nobody validated, and names with `_`, which some servers fold
/// into `-` and then take for a field of another name.
fn is_strange(name: &str, passes_params: bool) -> bool {
    name.starts_with(X_FORWARDED)
        || matches!(
            name,
            "forwarded"
                | "x-real-ip"
                | "x-client-ip"
                | "x-cluster-client-ip"
                | "true-client-ip"
                | "cf-connecting-ip"
                | "fastly-client-ip"
                | "x-forwarded"
                | "forwarded-for"
                | "client-ip"
                | "proxy-client-ip"
                | "wl-proxy-client-ip"
                | "x-remote-ip"
                | "x-remote-addr"
                | "x-proxyuser-ip"
                | "x-azure-clientip"
                | "x-envoy-external-address"
                | "x-host"
                | "x-url-scheme"
                | "front-end-https"
                | "x-http-method-override"
                | "x-original-forwarded-for"
                | "x-original-host"
                | "x-original-url"
                | "x-rewrite-url"
        )
        || (!passes_params && name.starts_with(header::PARAM_PREFIX))
        || name.bytes().any(|byte| byte == b'_')
}

#[cfg(test)]
mod tests;
