//! What a browser asks before it sends: answered by the gateway alone, before anything else.

use serde_json::json;

use crate::harness::{MODERN_ONLY, Refusal, Request, Response, Site};

const PAGE: &str = "https://app.example.com";

fn site(shape: impl FnOnce(crate::harness::Policy) -> crate::harness::Policy) -> Site {
    Site::with(|policy| shape(policy.set("/routes/0/origins", json!([PAGE]))))
}

fn asking(headers: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .header("Origin", PAGE)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", headers)
}

/// The names in a list, in lower case.
fn list(answer: &Response, name: &str) -> Vec<String> {
    let value = answer.head.value(name).unwrap_or_default();
    let names = value.split(',').map(|name| name.trim().to_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_page_of_a_listed_origin_may_send_what_mcp_needs() {
    let site = site(|policy| policy);
    let asked = "content-type, mcp-method, mcp-name, mcp-protocol-version, mcp-param-region, \
                 Mcp-Param-Team-Id, authorization, traceparent";
    let mut client = site.gateway.connect();
    let answer = client.exchange(&asking(asked));
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
    let head = &answer.head;
    assert_eq!(head.values("access-control-allow-origin"), [PAGE]);
    assert_eq!(
        list(&answer, "access-control-allow-methods"),
        ["post", "get", "delete", "options"]
    );
    let allowed = list(&answer, "access-control-allow-headers");
    for name in asked.split(',') {
        let name = name.trim().to_lowercase();
        assert!(allowed.contains(&name), "{name}: {allowed:?}");
    }
    for name in [
        "mcp-session-id",
        "last-event-id",
        "accept",
        "tracestate",
        "baggage",
    ] {
        assert!(allowed.contains(&name.to_owned()), "{name}: {allowed:?}");
    }
    assert_eq!(head.values("access-control-max-age"), ["7200"]);
    assert!(list(&answer, "vary").contains(&"origin".to_owned()));
    for name in [
        "access-control-allow-credentials",
        "access-control-allow-private-network",
    ] {
        assert!(!head.has(name), "{name}");
    }
    assert_eq!(site.upstream.request_count(), 0);
    site.works("after a preflight", &mut client);
    let records = site.records(2);
    assert_eq!(records[0]["verdict"], "answered", "{records:?}");
    assert_eq!(records[0]["route"], "main", "{records:?}");
}

#[test]
fn what_is_not_mcps_is_left_out_until_the_policy_names_it() {
    let asked = "x-evil, *, cookie, mcp-param-, mcp-param-a_b, mcp-params, x-tenant";
    let plain = site(|policy| policy);
    let answer = plain.gateway.ask(&asking(asked));
    let allowed = list(&answer, "access-control-allow-headers");
    for name in asked.split(", ") {
        assert!(!allowed.contains(&name.to_owned()), "{name}: {allowed:?}");
    }
    let named = site(|policy| {
        policy.set(
            "/routes/0/cors",
            json!({"headers": ["X-Tenant"], "max_age": "10m", "credentials": true}),
        )
    });
    let answer = named.gateway.ask(&asking(asked));
    let allowed = list(&answer, "access-control-allow-headers");
    assert!(allowed.contains(&"x-tenant".to_owned()) && !allowed.contains(&"x-evil".to_owned()));
    assert_eq!(answer.head.values("access-control-max-age"), ["600"]);
    assert_eq!(
        answer.head.values("access-control-allow-credentials"),
        ["true"]
    );
    assert_eq!(answer.head.values("access-control-allow-origin"), [PAGE]);
}

#[test]
fn what_is_echoed_is_bounded() {
    let site = site(|policy| policy);
    let names: Vec<_> = (0..1000)
        .map(|number| format!("mcp-param-p{number}"))
        .collect();
    let answer = site.gateway.ask(&asking(&names.join(",")));
    assert_eq!(answer.status, 204);
    let allowed = list(&answer, "access-control-allow-headers");
    let params = allowed.iter().filter(|name| name.starts_with("mcp-param-"));
    assert_eq!(params.count(), 64);
}

#[test]
fn methods_are_those_that_the_route_serves() {
    let site = site(|policy| policy.versions(MODERN_ONLY));
    let answer = site.gateway.ask(&asking("mcp-method"));
    assert_eq!(
        list(&answer, "access-control-allow-methods"),
        ["post", "options"]
    );
}

#[test]
fn a_page_of_another_origin_is_told_nothing() {
    let site = site(|policy| policy);
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "https://app.example.com:443",
        "file://",
    ] {
        let answer = site
            .gateway
            .ask(&asking("mcp-method").header("Origin", origin));
        Refusal::of_head(403).check(origin, &answer);
        let head = String::from_utf8_lossy(&answer.head.bytes).to_lowercase();
        assert!(!head.contains("access-control-"), "{origin}: {head}");
    }
    let repeated = asking("mcp-method").line("Origin", PAGE);
    assert_eq!(site.gateway.ask(&repeated).status, 403);
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn a_server_in_a_private_network_may_be_asked_for_by_a_listed_page() {
    let site = site(|policy| policy);
    let answer = site
        .gateway
        .ask(&asking("mcp-method").header("Access-Control-Request-Private-Network", "true"));
    let allowed = answer.head.values("access-control-allow-private-network");
    assert_eq!(allowed, ["true"]);
}

#[test]
fn options_that_ask_for_no_permission_are_answered_as_before() {
    let site = site(|policy| policy);
    let answer = site.gateway.ask(&Request::new("OPTIONS", "/mcp"));
    assert_eq!(answer.status, 204);
    assert_eq!(
        answer.head.value("allow").unwrap(),
        "POST, GET, DELETE, OPTIONS"
    );
    let head = String::from_utf8_lossy(&answer.head.bytes).to_lowercase();
    assert!(
        !head.contains("access-control-") && !head.contains("vary"),
        "{head}"
    );
    assert_eq!(site.upstream.request_count(), 0);
}
