//! Who may be given what was fetched for a request, as long as routes authenticate nobody.

use http::HeaderMap;

use super::status::Why;
use crate::policy::plan::{LegacyCache, LegacyScope};
use crate::protocol::header;
use crate::protocol::version::Era;

/// Who may be given an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gateway) enum Audience {
    /// Anybody: it is public, and was fetched by a request that cannot have had a credential.
    Anybody,
    /// Requests that may have a credential: it is public, but a server that asks for credentials
    /// may have given it to one. Without this, a client that has none yet would never see the 401
    /// that starts its sign-in.
    Credentialed,
    /// Requests of the same legacy session with the same headers: both are in the key.
    Session,
}

impl Audience {
    /// Who may be given the answer to a request with these headers; `has_query` where its target
    /// has a query of its own, which may be a key as well. `legacy` is how answers to it are kept
    /// if it is of a legacy version.
    ///
    /// # Errors
    /// [`Why::NoSession`] where only requests of the same session may be given it and this one has
    /// none.
    pub(super) fn of(
        era: Era,
        headers: &HeaderMap,
        has_query: bool,
        legacy: Option<LegacyCache>,
    ) -> Result<Audience, Why> {
        if legacy.is_some_and(|legacy| legacy.scope == LegacyScope::Session) {
            let mut sessions = headers.get_all(header::SESSION_ID).iter();
            return match (sessions.next(), sessions.next()) {
                (Some(id), None) if !id.is_empty() => Ok(Audience::Session),
                _ => Err(Why::NoSession),
            };
        }
        let is_bare = || headers.keys().all(|name| is_harmless(name.as_str(), era));
        match !has_query && is_bare() {
            true => Ok(Audience::Anybody),
            false => Ok(Audience::Credentialed),
        }
    }

    /// The word for it.
    #[must_use]
    pub(in crate::gateway) const fn word(self) -> &'static str {
        match self {
            Audience::Anybody => "anybody",
            Audience::Credentialed => "credentialed",
            Audience::Session => "session",
        }
    }
}

/// Whether the field called `name`, in lower case, cannot be what a server knows its caller by. A
/// credential may stand in any field, so these are all: what belongs to HTTP itself, to browsers,
/// to tracing and to MCP, and what proxies say of where a request came from.
///
/// The id of a session is one in legacy versions: some servers ask for a credential only when a
/// session begins. Modern requests lose it on their way.
#[must_use]
pub(in crate::gateway) fn is_harmless(name: &str, era: Era) -> bool {
    match name {
        // The message, and what the client makes of the answer.
        "host" | "user-agent" | "accept" | "accept-encoding" | "accept-language"
        | "accept-charset" | "content-type" | "content-length" | "content-encoding" | "expect"
        | "date" | "cache-control" | "pragma" | "priority" => true,
        // The connection.
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer"
        | "transfer-encoding" | "upgrade" => true,
        // The way.
        "forwarded" | "via" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto"
        | "x-forwarded-port" | "x-real-ip" => true,
        // Browsers.
        "origin" | "dnt" | "sec-gpc" | "sec-fetch-dest" | "sec-fetch-mode" | "sec-fetch-site"
        | "sec-ch-ua" | "sec-ch-ua-mobile" | "sec-ch-ua-platform" => true,
        // Tracing.
        "traceparent" | "tracestate" | "baggage" | "x-request-id" | "x-correlation-id" => true,
        // MCP.
        "mcp-protocol-version" | "mcp-method" | "mcp-name" => true,
        name => era == Era::Modern && header::is_of_session(name),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let mut map = HeaderMap::new();
        for (name, value) in lines.iter().map(line) {
            map.append(name, value);
        }
        map
    }

    const USUAL: [(&str, &str); 8] = [
        ("host", "tools.example.com"),
        ("user-agent", "node"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("content-length", "200"),
        ("connection", "keep-alive"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
    ];

    fn legacy(scope: LegacyScope) -> Option<LegacyCache> {
        let ttl = Duration::from_secs(60);
        Some(LegacyCache { ttl, scope })
    }

    #[test]
    fn a_request_is_bare_only_if_every_header_is_known_to_be_harmless() {
        let of = |line: (&'static str, &'static str)| {
            let all = headers(&[&USUAL[..], &[line]].concat());
            Audience::of(Era::Modern, &all, false, None)
        };
        for name in [
            "via",
            "x-forwarded-for",
            "traceparent",
            "origin",
            "mcp-session-id",
            "last-event-id",
        ] {
            assert_eq!(of((name, "x")), Ok(Audience::Anybody), "{name}");
        }
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
            "api-key",
            "x-forwarded-access-token",
            "x-forwarded-user",
            "x-forwarded-client-cert",
            "mcp-param-token",
            "referer",
            "x-anything",
        ] {
            assert_eq!(of((name, "x")), Ok(Audience::Credentialed), "{name}");
        }
        // An empty one is there.
        assert_eq!(of(("authorization", "")), Ok(Audience::Credentialed));
    }

    #[test]
    fn a_query_may_be_a_credential() {
        let usual = headers(&USUAL);
        let audience = Audience::of(Era::Modern, &usual, true, None);
        assert_eq!(audience, Ok(Audience::Credentialed));
    }

    #[test]
    fn the_id_of_a_legacy_session_is_a_credential() {
        let session = headers(&[&USUAL[..], &[("mcp-session-id", "s")]].concat());
        let public = legacy(LegacyScope::Public);
        let of = |headers: &HeaderMap| Audience::of(Era::Legacy, headers, false, public);
        assert_eq!(of(&session), Ok(Audience::Credentialed));
        assert_eq!(of(&headers(&USUAL)), Ok(Audience::Anybody));
    }

    #[test]
    fn what_belongs_to_a_session_needs_one() {
        let session = legacy(LegacyScope::Session);
        let of = |ids: &[&'static str]| {
            let ids: Vec<_> = ids.iter().map(|id| ("mcp-session-id", *id)).collect();
            let all = headers(&[&USUAL[..], &ids].concat());
            Audience::of(Era::Legacy, &all, false, session)
        };
        assert_eq!(of(&["s"]), Ok(Audience::Session));
        for ids in [&[][..], &[""], &["s", "s"]] {
            assert_eq!(of(ids), Err(Why::NoSession), "{ids:?}");
        }
    }
}
