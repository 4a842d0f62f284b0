//! `initialize`: the way into the legacy era, and the one result that is read before it passes.

use serde_json::json;

use crate::harness::{
    HEADERLESS, LEGACY, LEGACY_ONLY, MIXED, MODERN, MODERN_ONLY, Received, Refusal, Reply, Request,
    Site, Upstream, in_session,
};

#[test]
fn a_handshake_is_legacy_whatever_version_it_asks_for() {
    for versions in [MIXED, LEGACY_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        // The second is what rmcp sends, the third nobody has ever heard of.
        for asked in [LEGACY, MODERN, "1999-01-01"] {
            let received = site.forwards(asked, &Request::initialize(asked));
            assert_eq!(received.json()["params"]["protocolVersion"], asked);
            assert_eq!(site.last_record()["era"], "legacy");
        }
        let with_header = Request::initialize(LEGACY).header("MCP-Protocol-Version", LEGACY);
        site.forwards("with a legacy header", &with_header);
    }
}

#[test]
fn the_session_of_the_answer_reaches_the_client() {
    let site = Site::new();
    let answer = site.gateway.ask(&Request::initialize(LEGACY));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.head.value("mcp-session-id").unwrap(), "session-1");
    assert_eq!(answer.json()["result"]["protocolVersion"], LEGACY);
}

#[test]
fn a_handshake_with_a_modern_header_contradicts_itself() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let request = Request::initialize(LEGACY).header("MCP-Protocol-Version", MODERN);
        let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version", MODERN]);
        site.refuses("a modern header", &request, &refusal);
    }
}

#[test]
fn a_modern_only_route_tells_old_clients_what_it_serves() {
    let site = Site::serving(MODERN_ONLY);
    let refusal = Refusal::of(400, -32022).supported(MODERN_ONLY);
    for asked in [LEGACY, MODERN] {
        let answer = site.refuses(asked, &Request::initialize(asked), &refusal);
        assert!(answer.json()["error"]["data"]["requested"].is_string());
    }
    let with_header = Request::initialize(LEGACY).header("MCP-Protocol-Version", LEGACY);
    site.refuses("with a legacy header", &with_header, &refusal);
}

#[test]
fn a_handshake_in_a_modern_envelope_is_an_unknown_method() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let request = Request::modern("initialize", json!({"protocolVersion": MODERN}));
        let refusal = Refusal::of(404, -32601).names(&[MODERN]);
        site.refuses("a modern envelope", &request, &refusal);
    }
}

/// An upstream that negotiates 2024-11-05, answering as JSON or as an event stream.
fn negotiating(as_events: bool) -> Upstream {
    Upstream::with(move |request: &Received| {
        if request.json()["method"] != "initialize" {
            return Reply::usual(request);
        }
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}"#;
        let (kind, body) = match as_events {
            true => (
                "text/event-stream",
                format!(": hello\n\nevent: message\ndata: {result}\n\n"),
            ),
            false => ("application/json", result.to_owned()),
        };
        let lines = format!("Content-Type: {kind}\r\nMcp-Session-Id: old-7\r\n");
        Reply::with_lines(200, &lines, body)
    })
}

#[test]
fn a_negotiated_version_that_the_route_refuses_ends_the_handshake() {
    for as_events in [false, true] {
        let site = Site::before(negotiating(as_events), |policy| policy);
        let request = Request::initialize("2024-11-05").target("/mcp?tenant=5");
        let request = request.header("Authorization", "Bearer of-the-client");
        let answer = site.gateway.ask(&request);
        // What we refuse of a readable legacy request travels in band.
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.code(), Some(-32602), "{answer:?}");
        assert_eq!(answer.raw_id().as_deref(), Some("1"));
        let data = &answer.json()["error"]["data"];
        assert!(data["requested"].is_string(), "{data}");
        let supported = data["supported"].to_string();
        assert!(supported.contains(LEGACY) && !supported.contains("2024-11-05"));
        assert!(!answer.head.has("mcp-session-id"), "a session that is none");
        site.upstream.wait("a DELETE of the session", |log| {
            log.requests.iter().any(|request| {
                request.method == "DELETE"
                    && request.head.value("mcp-session-id").as_deref() == Some("old-7")
            })
        });
        // A server that knows its clients by these would not listen without them.
        let farewell = site.upstream.last();
        assert!(
            farewell.head.start.starts_with("DELETE /mcp?tenant=5 "),
            "{farewell:?}"
        );
        let credentials = farewell.head.value("authorization");
        assert_eq!(credentials.as_deref(), Some("Bearer of-the-client"));
        assert!(!farewell.head.has("mcp-method") && !farewell.head.has("content-type"));
        let refusal = Refusal::of(400, -32020);
        site.records(1);
        site.refuses("a session that is none", &in_session("old-7"), &refusal);
    }
}

#[test]
fn a_negotiated_version_that_the_route_accepts_passes_as_it_came() {
    for as_events in [false, true] {
        let site = Site::before(negotiating(as_events), |policy| policy.versions(HEADERLESS));
        let answer = site.gateway.ask(&Request::initialize("2024-11-05"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["result"]["protocolVersion"], "2024-11-05");
        assert_eq!(answer.head.value("mcp-session-id").unwrap(), "old-7");
        assert_eq!(
            as_events,
            answer.text().starts_with(": hello\n\nevent: message\n")
        );
        site.records(1);
        site.forwards("the next call", &in_session("old-7"));
        assert_eq!(site.upstream.request_count(), 2, "no DELETE");
    }
}

#[test]
fn an_upstream_that_refuses_the_handshake_is_heard() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such version"}}"#;
    for (status, kind) in [
        (200, "application/json"),
        (400, "application/json"),
        (401, "text/plain"),
    ] {
        let upstream = Upstream::with(move |_| {
            Reply::with_lines(status, &format!("Content-Type: {kind}\r\n"), error)
        });
        let site = Site::before(upstream, |policy| policy);
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        assert_eq!((answer.status, answer.text().as_str()), (status, error));
        assert_eq!(site.upstream.request_count(), 1, "no DELETE");
    }
}

const ACCEPTED: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const REFUSED: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}"#;

/// A site whose upstream answers the handshake like this, in a session of its own.
fn answering(status: u16, lines: &'static str, body: &'static str) -> Site {
    let upstream = Upstream::with(move |request| match request.method.as_str() {
        "DELETE" => Reply::usual(request),
        _ => Reply::with_lines(status, &format!("{lines}Mcp-Session-Id: s\r\n"), body),
    });
    Site::before(upstream, |policy| policy)
}

#[test]
fn a_handshake_answer_that_cannot_be_read_is_not_passed_on() {
    let json = "Content-Type: application/json\r\n";
    let encoded = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    // 'I cannot check this' is a refusal: the client gets an error with its id, the session ends.
    for (lines, body) in [
        (json, "not json"),
        (json, ""),
        (json, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        (
            json,
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":20251125}}"#,
        ),
        (
            json,
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","protocolVersion":"2024-11-05"}}"#,
        ),
        (
            json,
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"},"result":{"protocolVersion":"2024-11-05"}}"#,
        ),
        (encoded, "\u{1f}\u{8b}\u{8}"),
        ("Content-Type: text/html\r\n", "<html>"),
    ] {
        let site = answering(200, lines, body);
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        assert!(answer.code().is_some(), "{body}: {answer:?}");
        assert_eq!(answer.raw_id().as_deref(), Some("1"), "{body}");
        assert!(!answer.head.has("mcp-session-id"), "{body}");
    }
}

#[test]
fn a_result_is_read_whatever_success_it_comes_with() {
    let json = "Content-Type: application/json\r\n";
    for status in [200, 201, 203, 206] {
        let answer = answering(status, json, REFUSED)
            .gateway
            .ask(&Request::initialize(LEGACY));
        assert_eq!(answer.code(), Some(-32602), "{status}: {answer:?}");
        let answer = answering(status, json, ACCEPTED)
            .gateway
            .ask(&Request::initialize(LEGACY));
        assert_eq!(answer.text(), ACCEPTED, "{status}");
    }
}

#[test]
fn what_must_be_read_is_asked_for_without_an_encoding() {
    let site = Site::new();
    for request in [
        Request::initialize(LEGACY),
        Request::modern("server/discover", json!({})),
    ] {
        let request = request.header("Accept-Encoding", "gzip, deflate, br");
        let received = site.forwards("an encoding", &request);
        for value in received.head.values("accept-encoding") {
            assert_eq!(value, "identity");
        }
    }
}
