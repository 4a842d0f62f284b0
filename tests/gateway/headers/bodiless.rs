//! Routing headers where no body could confirm them: they are nobody's word, and go nowhere.

use serde_json::json;

use crate::harness::{Received, Request, Site};

fn carries_claims(received: &Received) -> bool {
    received.head.lines.iter().any(|line| {
        let name = line.name.to_lowercase();
        name == "mcp-method" || name == "mcp-name" || name.starts_with("mcp-param")
    })
}

fn claiming(request: Request) -> Request {
    request
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "forged")
        .header("Mcp-Param-Region", "forged")
}

#[test]
fn claims_beside_no_body_or_a_response_do_not_go_upstream() {
    for rule in ["verify", "drop", "refuse"] {
        let site = Site::with(|policy| policy.routing_headers("legacy", rule));
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        for request in [
            Request::get(),
            Request::delete("s"),
            Request::legacy_message(response),
        ] {
            let before = site.upstream.request_count();
            let answer = site.gateway.ask(&claiming(request.clone()));
            if site.upstream.request_count() > before {
                let received = site.upstream.last();
                assert!(!carries_claims(&received), "{rule}: {received:?}");
            } else {
                assert_eq!(answer.status, 400, "{rule}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_name_on_a_legacy_method_without_one_does_not_go_upstream() {
    for rule in ["verify", "drop"] {
        let site = Site::with(|policy| policy.routing_headers("legacy", rule));
        for request in [
            Request::legacy("tools/list", json!({})),
            Request::initialize("2025-11-25"),
            Request::legacy_message(json!({"jsonrpc": "2.0", "method": "notifications/x"})),
        ] {
            let before = site.upstream.request_count();
            let answer = site.gateway.ask(&request.header("Mcp-Name", "forged"));
            if site.upstream.request_count() > before {
                let received = site.upstream.last();
                assert!(!received.head.has("mcp-name"), "{rule}: {received:?}");
            } else {
                assert_eq!(answer.status, 400, "{rule}: {answer:?}");
            }
        }
    }
}
