//! A slash behind the path of an endpoint makes no difference, whatever the method.

use serde_json::json;

use crate::harness::{Request, Site};

#[test]
fn every_method_reads_the_path_with_and_without_a_slash_alike() {
    let page = "https://app.example.com";
    let site = Site::with(|policy| policy.set("/routes/0/origins", json!([page])));
    for request in [
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::get(),
        Request::delete("s"),
        Request::new("OPTIONS", "/mcp"),
        Request::new("OPTIONS", "/mcp")
            .header("Origin", page)
            .header("Access-Control-Request-Method", "POST"),
        Request::new("PUT", "/mcp"),
    ] {
        let targets = ["/mcp", "/mcp/", "/mcp?a=1", "/mcp/?a=1"];
        let mut answers = Vec::new();
        for target in targets {
            let before = site.upstream.request_count();
            let answer = site.gateway.ask(&request.clone().target(target));
            let sent = site.upstream.request_count() - before;
            assert!(!answer.head.has("location"), "{target}: a redirect of ours");
            answers.push((answer.status, answer.body, sent));
        }
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "{answers:?}"
        );
    }
    for target in [
        "/mcp//", "//mcp", "/MCP", "/mcp/x", "/%6Dcp", "/mcp/.", "/mcp;a",
    ] {
        let before = site.upstream.request_count();
        let answer = site.gateway.ask(&Request::call("echo").target(target));
        assert_eq!(answer.status, 404, "{target}");
        assert_eq!(site.upstream.request_count(), before, "{target}");
    }
}
