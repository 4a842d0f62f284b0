//! The request that goes upstream: its target, its headers, and the bytes that were scanned.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;

use super::agree::Routing;
use super::hop;
use super::outbound::{Lease, Outbound, Pool};
use crate::net::upstream::Failure;
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
        body: Outbound,
        routing: Routing,
        era: Era,
    ) -> Result<Request<Outbound>, HttpFault> {
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
        Ok(Request::from_parts(head, body))
    }

    /// Sends `request` and waits for the head of the answer; whoever sends a body that streams
    /// keeps the time.
    ///
    /// # Errors
    /// [`UpstreamFault::Failed`] and [`UpstreamFault::Timeout`].
    pub(super) async fn send(
        &self,
        request: Request<Outbound>,
    ) -> Result<(Response<Incoming>, Lease), UpstreamFault> {
        let head_timeout = match request.body() {
            Outbound::Whole(_) => Some(self.upstream().response_header_timeout),
            Outbound::Guarded(_) => None,
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

    /// Ends a session of the upstream that no client will use, beside the answer that says so.
    pub(super) fn end_session(&self, farewell: Farewell, session: HeaderValue) {
        let Farewell(mut request) = farewell;
        request.headers_mut().insert(header::SESSION_ID, session);
        let pool = self.pool.clone();
        tokio::spawn(async move {
            let head_timeout = pool.upstream().response_header_timeout;
            // The client has its answer; a server that cannot be told forgets the session itself.
            let _ = pool.send(request, Some(head_timeout)).await;
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

/// A request that ends a session, but for the session's id. It has the target and the credentials
/// of the request that opened it, without which a server may not listen.
#[derive(Debug)]
pub(super) struct Farewell(Request<Outbound>);

impl Farewell {
    /// The farewell to the session that `request` is about to open.
    pub(super) fn after(request: &Request<Outbound>) -> Farewell {
        let mut farewell = Request::new(Outbound::Whole(Bytes::new()));
        *farewell.method_mut() = Method::DELETE;
        *farewell.uri_mut() = request.uri().clone();
        *farewell.headers_mut() = request.headers().clone();
        for name in [CONTENT_TYPE, ACCEPT, header::METHOD, header::NAME] {
            farewell.headers_mut().remove(name);
        }
        Farewell(farewell)
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
/// headers that nobody validated, and names with `_`, which some servers fold into `-` and then take
/// for a field of another name.
fn is_strange(name: &str, passes_params: bool) -> bool {
    name.starts_with(X_FORWARDED)
        || (!passes_params && name.starts_with(header::PARAM_PREFIX))
        || name.bytes().any(|byte| byte == b'_')
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::*;
    use crate::gateway::agree::agree_bodiless;
    use crate::policy::plan::Protocol;
    use crate::protocol::head::Fields;

    fn upstream(path: &str, query: Option<&str>) -> Arc<Upstream> {
        Arc::new(Upstream {
            authority: "up.example:81".into(),
            query: query.map(str::to_owned),
            ..Upstream::at("up", "up.example", 81, path)
        })
    }

    /// A head with this target and these lines, and what it becomes.
    fn forwarded(
        upstream: Arc<Upstream>,
        uri: &str,
        lines: &[(&str, &str)],
        era: Era,
    ) -> Result<Request<Outbound>, HttpFault> {
        let mut request = Request::get(uri).version(http::Version::HTTP_10);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a head").into_parts();
        let fields = Fields::read(&head.headers);
        let routing = agree_bodiless(&fields, &head.headers, &Protocol::default());
        let routing = routing.expect("no lines of its own");
        let destination = Destination::new(Pool::new(upstream)).expect("a target");
        destination.request(head, Outbound::Whole(Bytes::from("body")), routing, era)
    }

    #[test]
    fn targets_are_joined() {
        for (path, own, asked, joined) in [
            ("/mcp", None, "/x", "/mcp"),
            ("/mcp", None, "/x?a=1&a=2", "/mcp?a=1&a=2"),
            ("/", None, "/x?", "/?"),
            ("/deep/er/", None, "/x", "/deep/er/"),
            (
                "/b%20c",
                None,
                "/x?%2f=%20&q=a/../b//c?d",
                "/b%20c?%2f=%20&q=a/../b//c?d",
            ),
            ("/mcp", Some("key=1"), "/x", "/mcp?key=1"),
            ("/mcp", Some("key=1"), "/x?key=2", "/mcp?key=1&key=2"),
            ("/mcp", Some("key=1"), "/x?", "/mcp?key=1&"),
            ("/mcp", Some(""), "/x?a", "/mcp?a"),
            ("/mcp", None, "http://other.example:9/x?a=1", "/mcp?a=1"),
        ] {
            let request = forwarded(upstream(path, own), asked, &[], Era::Legacy);
            let request = request.expect("a target");
            assert_eq!(request.uri().to_string(), joined, "{asked} before {path}");
            assert_eq!(request.version(), http::Version::HTTP_11);
        }
    }

    #[test]
    fn a_target_that_grows_too_long_is_refused() {
        const TARGET_BYTES_MAX: usize = 65_534;
        for (path, own, length, fits) in [
            ("/p", None, TARGET_BYTES_MAX - "/p?".len(), true),
            ("/pp", None, TARGET_BYTES_MAX - "/p?".len(), false),
            ("/p", Some("k"), TARGET_BYTES_MAX - "/p?k&".len(), true),
            ("/p", Some("kk"), TARGET_BYTES_MAX - "/p?k&".len(), false),
        ] {
            let query = "q".repeat(length);
            let asked = format!("/?{query}");
            match forwarded(upstream(path, own), &asked, &[], Era::Legacy) {
                Ok(request) => {
                    assert!(fits, "{path}");
                    assert!(
                        request
                            .uri()
                            .query()
                            .is_some_and(|all| all.ends_with(&query))
                    );
                }
                Err(fault) => assert!(!fits, "{path}: {fault:?}"),
            }
        }
    }

    #[tokio::test]
    async fn the_request_is_of_our_own_leg_and_has_the_bodys_bytes() {
        let lines = [
            ("host", "client.example"),
            ("host", "second.example"),
            ("connection", "x-nominated, mcp-session-id, host"),
            ("x-nominated", "1"),
            ("expect", "100-continue"),
            ("content-length", "999"),
            ("transfer-encoding", "chunked"),
            ("accept-encoding", "gzip"),
            ("accept-encoding", "br"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-anything", "1"),
            ("forwarded", "for=1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("x_forwarded_for", "1.2.3.4"),
            ("mcp-param-region", "x"),
            ("mcp-session-id", "s"),
            ("last-event-id", "7"),
            ("x-kept", "a, b"),
            ("x-kept", "c"),
        ];
        for (era, of_session) in [(Era::Legacy, true), (Era::Modern, false)] {
            let request = forwarded(upstream("/mcp", None), "/x", &lines, era);
            let (head, body) = request.expect("a target").into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            assert_eq!(body, "body");
            let mut left: Vec<_> = head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
                .collect();
            left.sort_unstable();
            let mut expected = vec![
                ("accept-encoding", "identity"),
                ("host", "up.example:81"),
                ("x-kept", "a, b"),
                ("x-kept", "c"),
            ];
            if of_session {
                expected.extend([("last-event-id", "7"), ("mcp-session-id", "s")]);
            }
            expected.sort_unstable();
            assert_eq!(left, expected, "{era:?}");
        }
    }

    #[test]
    fn folded_names_do_not_pass() {
        for name in [
            "mcp_method",
            "mcp-param_region",
            "mcp_session-id",
            "x_forwarded_for",
            "last_event_id",
            "x_real-ip",
        ] {
            assert!(is_strange(name, true), "{name}");
        }
        for name in ["x-trace", "authorization", "mcp-param-region"] {
            assert!(!is_strange(name, true), "{name}");
        }
        assert!(is_strange("mcp-param-region", false));
    }

    proptest! {
        /// No name that a server could take for one of ours, or for the word of a proxy, goes on,
        /// whatever is nominated beside it.
        #[test]
        fn nothing_goes_on_that_could_be_taken_for_ours(
            names in prop::collection::btree_set(
                "(mcp[-_](method|name|param[-_]x|session[-_]id|protocol[-_]version)|x[-_]forwarded[-_][a-z]{1,4}|x[-_]real[-_]ip|last[-_]event[-_]id|[a-z]{1,6})", 0..8),
            nominated in prop::collection::vec("[a-zA-Z-]{1,12}", 0..3),
        ) {
            let nominated = nominated.join(", ");
            let mut lines: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
            lines.push(("connection", &nominated));
            let request = forwarded(upstream("/mcp", None), "/x", &lines, Era::Modern);
            let headers = request.expect("a target").headers().clone();
            for name in headers.keys().map(HeaderName::as_str) {
                let folded = name.replace('_', "-");
                prop_assert!(!folded.starts_with("x-forwarded-"), "{name}");
                prop_assert!(!folded.starts_with("mcp-") || name == "mcp-protocol-version");
                prop_assert!(!["x-real-ip", "last-event-id", "connection"].contains(&folded.as_str()));
            }
            prop_assert_eq!(headers.get_all("host").iter().count(), 1);
        }
    }
}
