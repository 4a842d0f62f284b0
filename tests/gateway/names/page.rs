//! What a page may read: the server's answers and the gateway's own refusals.

use serde_json::json;

use crate::harness::{Policy, Reply, Request, Response, Site, Upstream};

const PAGE: &str = "https://app.example.com";

fn listed(policy: Policy) -> Policy {
    policy.set("/routes/0/origins", json!([PAGE]))
}

fn assert_readable(what: &str, answer: &Response) {
    let head = &answer.head;
    assert_eq!(
        head.values("access-control-allow-origin"),
        [PAGE],
        "{what}: {head:?}"
    );
    let exposed = head
        .value("access-control-expose-headers")
        .unwrap_or_default();
    for name in [
        "WWW-Authenticate",
        "Retry-After",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
    ] {
        assert!(exposed.contains(name), "{what}: {exposed}");
    }
    let vary = head.values("vary").join(",").to_lowercase();
    assert!(vary.contains("origin"), "{what}: {vary}");
    assert!(!head.has("access-control-allow-credentials"), "{what}");
}

fn assert_silent(what: &str, answer: &Response) {
    let head = String::from_utf8_lossy(&answer.head.bytes).to_lowercase();
    assert!(!head.contains("access-control-"), "{what}: {head}");
}

#[test]
fn answers_of_the_server_and_of_the_gateway_can_be_read() {
    let site = Site::with(listed);
    for (what, request, status) in [
        ("a call", Request::call("echo"), 200),
        ("a legacy call", Request::legacy_call("echo"), 200),
        ("a handshake", Request::initialize("2025-11-25"), 200),
        (
            "a notification",
            Request::modern_notification("notifications/x"),
            202,
        ),
        ("the server's 405", Request::get(), 405),
        ("the end of a session", Request::delete("s"), 200),
        ("a body that is no JSON", Request::post("nonsense"), 400),
        (
            "a header that differs",
            Request::call("echo").header("Mcp-Name", "other"),
            400,
        ),
        (
            "another media type",
            Request::call("echo").header("Content-Type", "text/plain"),
            415,
        ),
        ("another method", Request::call("echo").method("PUT"), 405),
        ("options", Request::new("OPTIONS", "/mcp"), 204),
    ] {
        let answer = site.gateway.ask(&request.clone().header("Origin", PAGE));
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_readable(what, &answer);
        let answer = site.gateway.ask(&request);
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_silent(what, &answer);
        assert!(!answer.head.has("vary"), "{what}");
    }
}

#[test]
fn an_upstream_that_fails_is_told_to_the_page() {
    let upstream = Upstream::with(|_| Reply::raw_then_close("nonsense\r\n\r\n"));
    let site = Site::before(upstream, listed);
    let answer = site
        .gateway
        .ask(&Request::call("echo").header("Origin", PAGE));
    assert_eq!(answer.status, 502, "{answer:?}");
    assert_readable("502", &answer);
}

#[test]
fn what_the_server_says_of_pages_is_replaced() {
    let upstream = Upstream::with(|_| {
        Reply::with_lines(
            429,
            "Content-Type: application/json\r\nRetry-After: 7\r\nVary: Accept-Language\r\n\
             Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n\
             Access-Control-Expose-Headers: X-Secret\r\nAccess-Control-Max-Age: 99999\r\n",
            "{}",
        )
    });
    let site = Site::before(upstream, listed);
    let answer = site
        .gateway
        .ask(&Request::call("echo").header("Origin", PAGE));
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_readable("a limit of the server's", &answer);
    assert_eq!(answer.head.values("retry-after"), ["7"]);
    assert_eq!(answer.head.values("vary"), ["Accept-Language", "Origin"]);
    assert!(!answer.head.has("access-control-max-age"));
    let exposed = answer.head.value("access-control-expose-headers").unwrap();
    assert!(!exposed.contains("X-Secret"), "{exposed}");

    let answer = site.gateway.ask(&Request::call("echo"));
    assert_silent("nobody asks from a page", &answer);
    assert_eq!(answer.head.values("vary"), ["Accept-Language"]);
}

#[test]
fn a_page_that_is_not_let_in_reads_nothing() {
    let site = Site::with(listed);
    for origin in [
        "https://evil.example",
        "null",
        "https://APP.example.com.evil.example",
    ] {
        let answer = site
            .gateway
            .ask(&Request::call("echo").header("Origin", origin));
        assert_eq!(answer.status, 403, "{origin}");
        assert_silent(origin, &answer);
    }
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn cookies_are_for_pages_where_the_policy_says_so() {
    let site =
        Site::with(|policy| listed(policy).set("/routes/0/cors", json!({"credentials": true})));
    let answer = site
        .gateway
        .ask(&Request::call("echo").header("Origin", PAGE));
    assert_eq!(answer.head.values("access-control-allow-origin"), [PAGE]);
    assert_eq!(
        answer.head.values("access-control-allow-credentials"),
        ["true"]
    );
}
