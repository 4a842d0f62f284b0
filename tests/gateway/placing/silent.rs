//! Messages without a version header: of clients of 2025-03-26 and before, or in a known session.

use serde_json::json;

use crate::harness::{
    HEADERLESS, LEGACY, LEGACY_ONLY, MIXED, MODERN_ONLY, Refusal, Request, Site, in_session,
};

fn silent(request: Request) -> Request {
    request.without("MCP-Protocol-Version")
}

#[test]
fn a_request_without_version_is_legacy_where_such_clients_are_served() {
    for versions in [HEADERLESS, &["2025-03-26"], &["2024-11-05", LEGACY]] {
        let site = Site::serving(versions);
        site.forwards("a call", &silent(Request::legacy_call("echo")));
        assert_eq!(site.last_record()["era"], "legacy");
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 3, "result": {}}),
        ] {
            site.forwards("a message", &silent(Request::legacy_message(message)));
        }
        site.forwards("a DELETE", &silent(Request::delete("unheard-of")));
        let get = site.gateway.ask(&silent(Request::get()));
        assert_eq!(
            get.head.value("allow").unwrap(),
            "POST",
            "the upstream's answer"
        );
    }
}

#[test]
fn a_request_without_version_is_refused_elsewhere() {
    for versions in [MIXED, MODERN_ONLY, LEGACY_ONLY] {
        let site = Site::serving(versions);
        let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version"]);
        site.refuses("a call", &silent(Request::legacy_call("echo")), &refusal);
        site.refuses("an unknown session", &in_session("unheard-of"), &refusal);
        let refusal = Refusal::any_of(400, &[-32020, -32600]).with_some_id();
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 3, "result": {}}),
        ] {
            let request = silent(Request::legacy_message(message));
            site.refuses("a message", &request, &refusal);
        }
    }
}

#[test]
fn gets_and_deletes_without_version_or_known_session_go_nowhere() {
    for versions in [MIXED, LEGACY_ONLY] {
        let site = Site::serving(versions);
        for request in [Request::get(), Request::delete("unheard-of")] {
            let answer = site.gateway.ask(&silent(request));
            assert!((400..500).contains(&answer.status), "{answer:?}");
            assert_eq!(site.upstream.request_count(), 0);
        }
    }
}

#[test]
fn a_known_session_needs_no_version_header() {
    for versions in [MIXED, LEGACY_ONLY] {
        let site = Site::serving(versions);
        site.forwards("the handshake", &Request::initialize(LEGACY));
        let received = site.forwards("a call", &in_session("session-1"));
        assert_eq!(received.head.value("mcp-session-id").unwrap(), "session-1");
        assert_eq!(site.upstream.runs("echo"), 1);
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 3, "result": {}}),
        ] {
            let request = silent(Request::legacy_message(message));
            let request = request.header("Mcp-Session-Id", "session-1");
            site.forwards("a message", &request);
        }
        let get = silent(Request::get()).header("Mcp-Session-Id", "session-1");
        let answer = site.gateway.ask(&get);
        assert_eq!(
            answer.head.value("allow").unwrap(),
            "POST",
            "the upstream's answer"
        );
        site.records(1);
        site.forwards("the end", &silent(Request::delete("session-1")));
        let refusal = Refusal::of(400, -32020);
        site.refuses("another session", &in_session("session-2"), &refusal);
    }
}

#[test]
fn a_session_is_known_on_the_connection_of_anybody() {
    let site = Site::new();
    // Known by its id and not by the connection, and the session of one route only.
    let mut first = site.gateway.connect();
    assert_eq!(first.exchange(&Request::initialize(LEGACY)).status, 200);
    drop(first);
    let answer = site.gateway.ask(&in_session("session-1"));
    assert_eq!(answer.status, 200);
}

#[test]
fn a_session_does_not_make_a_modern_request_legacy() {
    let site = Site::new();
    site.forwards("the handshake", &Request::initialize(LEGACY));
    let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version"]);
    let request = silent(Request::call("echo")).header("Mcp-Session-Id", "session-1");
    site.refuses("a modern body in a session", &request, &refusal);
    let request = Request::call("echo").header("Mcp-Session-Id", "session-1");
    let received = site.forwards("a modern call with a session", &request);
    assert!(!received.head.has("mcp-session-id"));
}

#[test]
fn a_session_of_one_route_is_unknown_on_another() {
    let site = Site::with(|policy| {
        policy.set(
            "/routes",
            json!([{"name": "a", "path": "/mcp", "upstream": "up"},
                   {"name": "b", "path": "/b", "upstream": "up"}]),
        )
    });
    site.forwards("the handshake", &Request::initialize(LEGACY));
    let elsewhere = in_session("session-1").target("/b");
    site.refuses("elsewhere", &elsewhere, &Refusal::of(400, -32020));
}
