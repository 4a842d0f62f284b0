//! Routing headers on legacy requests: a claim that nobody ever validated.

use serde_json::json;

use crate::harness::{LEGACY, Refusal, Request, Site};

fn site(rule: &str) -> Site {
    Site::with(|policy| policy.routing_headers("legacy", rule))
}

/// What mcp-remote sends on 2025-11-25.
fn claiming(method: &str, name: &str) -> Request {
    Request::legacy_call("echo")
        .header("Mcp-Method", method)
        .header("Mcp-Name", name)
}

#[test]
fn headers_that_agree_pass_by_default() {
    for site in [Site::new(), site("verify")] {
        let received = site.forwards("agreeing", &claiming("tools/call", "echo"));
        assert_eq!(received.head.value("mcp-method").unwrap(), "tools/call");
        assert_eq!(received.head.value("mcp-name").unwrap(), "echo");
        assert_eq!(received.head.value("mcp-protocol-version").unwrap(), LEGACY);
        let needless = claiming("tools/call", "=?base64?ZWNobw==?=");
        let received = site.forwards("needlessly encoded", &needless);
        assert_eq!(received.head.value("mcp-name").unwrap(), "echo");
    }
}

#[test]
fn headers_that_differ_are_refused_by_default() {
    let site = Site::new();
    let agreeing = claiming("tools/call", "echo");
    for (header, request) in [
        ("Mcp-Name", claiming("tools/call", "other")),
        ("Mcp-Name", claiming("tools/call", "=?base64?!?=")),
        ("Mcp-Method", claiming("tools/list", "echo")),
        (
            "Mcp-Method",
            agreeing.clone().line("Mcp-Method", "tools/call"),
        ),
        ("Mcp-Name", agreeing.line("mcp-name", "echo")),
    ] {
        let refusal = Refusal::of(400, -32020).names(&[header]);
        site.refuses(header, &request, &refusal);
    }
}

#[test]
fn one_of_the_headers_alone_is_no_fault() {
    let site = Site::new();
    let agreeing = claiming("tools/call", "echo");
    for request in [
        agreeing.clone().without("Mcp-Name"),
        agreeing.clone().without("Mcp-Method"),
    ] {
        let received = site.forwards("one alone", &request);
        assert_eq!(received.head.value("mcp-method").unwrap(), "tools/call");
        assert_eq!(received.head.value("mcp-name").unwrap(), "echo");
    }
}

#[test]
fn drop_replaces_them_unread() {
    let site = site("drop");
    for request in [
        claiming("tools/list", "other"),
        claiming("tools/call", "=?base64?!?="),
        claiming("tools/call", "echo").line("Mcp-Name", b"\xff".as_slice()),
    ] {
        let received = site.forwards("dropped", &request);
        assert_eq!(received.head.value("mcp-method").unwrap(), "tools/call");
        assert_eq!(received.head.value("mcp-name").unwrap(), "echo");
    }
}

#[test]
fn refuse_takes_none() {
    let site = site("refuse");
    for (header, value) in [("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")] {
        let request = Request::legacy_call("echo").header(header, value);
        let refusal = Refusal::of(400, -32020).names(&[header]);
        site.refuses(header, &request, &refusal);
    }
    site.forwards("none", &Request::legacy_call("echo"));
    site.forwards("a modern call", &Request::call("echo"));
}

#[test]
fn what_goes_upstream_is_rebuilt_whatever_the_client_sent() {
    for rule in ["verify", "drop", "refuse"] {
        let site = site(rule);
        for (request, method, name) in [
            (Request::legacy_call("echo"), "tools/call", Some("echo")),
            (
                Request::legacy("resources/read", json!({"uri": "a://é"})),
                "resources/read",
                Some("=?base64?YTovL8Op?="),
            ),
            (Request::legacy("tools/list", json!({})), "tools/list", None),
            (Request::initialize(LEGACY), "initialize", None),
            (
                Request::legacy_message(
                    json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
                ),
                "notifications/initialized",
                None,
            ),
        ] {
            let received = site.forwards(method, &request);
            assert_eq!(received.head.value("mcp-method").as_deref(), Some(method));
            assert_eq!(received.head.value("mcp-name").as_deref(), name);
        }
        let response = Request::legacy_message(json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
        let received = site.forwards("a response has no method", &response);
        assert!(!received.head.has("mcp-method") && !received.head.has("mcp-name"));
    }
}

#[test]
fn an_oversized_name_is_left_out() {
    let site = Site::new();
    // Allowed as a name, but encoded it takes more than servers accept in a header line.
    let name = "é".repeat(4_000);
    let received = site.forwards("8,000 bytes", &Request::legacy_call(&name));
    assert!(
        !received.head.has("mcp-name"),
        "a line of {} bytes",
        received.head.bytes.len()
    );
    assert_eq!(received.head.value("mcp-method").unwrap(), "tools/call");
}

#[test]
fn a_version_header_in_two_lines_is_refused() {
    let site = Site::new();
    for second in [LEGACY, "2025-06-18", "2026-07-28"] {
        let request = Request::legacy_call("echo").line("MCP-Protocol-Version", second);
        let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version"]);
        site.refuses(second, &request, &refusal);
    }
}

#[test]
fn a_session_in_two_lines_is_refused() {
    let site = Site::new();
    let request = Request::legacy_call("echo")
        .line("Mcp-Session-Id", "a")
        .line("Mcp-Session-Id", "b");
    let before = site.upstream.request_count();
    let answer = site.gateway.ask(&request);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(site.upstream.request_count(), before);
}
