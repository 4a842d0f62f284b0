//! Servers that give no list: what becomes of the calls then.

use std::sync::Arc;

use serde_json::json;

use super::{QUERY, before, call, error, good, list, lists, page, passes, refused, result, server};
use crate::harness::{Gateway, Policy, Received, Refusal, Reply, Upstream};

type Script = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

fn script(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Script {
    Arc::new(script)
}

/// Servers that have no list.
fn without() -> Vec<(&'static str, Script)> {
    vec![
        ("404", script(|_| Reply::with_lines(404, "", ""))),
        (
            "405",
            script(|_| Reply::with_lines(405, "Allow: GET\r\n", "")),
        ),
        (
            "400",
            script(|_| Reply::with_lines(400, "Content-Type: text/plain\r\n", "what?")),
        ),
        (
            "a legacy server",
            script(|request| error(request, 400, -32000)),
        ),
        (
            "another version",
            script(|request| error(request, 400, -32022)),
        ),
        ("-32601", script(|request| error(request, 200, -32601))),
        (
            "404 and -32601",
            script(|request| error(request, 404, -32601)),
        ),
        (
            "no tools",
            script(|request| Reply::json(200, result(request, r#""x":1"#))),
        ),
        (
            "tools that are none",
            script(|request| Reply::json(200, result(request, r#""tools":{"query":1}"#))),
        ),
    ]
}

#[test]
fn without_a_list_calls_pass_unjudged() {
    for (what, script) in without() {
        let upstream = server(move |request| script(request));
        let gateway = before(&upstream);
        for number in 1..=3 {
            // A header that no list could confirm goes on as it is.
            let request = call(r#"{"region":"eu"}"#).header("Mcp-Param-Region", "us");
            let received = passes(what, &gateway, &upstream, &request);
            assert_eq!(received.head.values("mcp-param-region"), ["us"]);
            let records = gateway.wait_for_records(number);
            assert_eq!(records[number - 1]["schema"], "none", "{what}");
        }
        assert_eq!(lists(&upstream).len(), 1, "{what}");
    }
}

#[test]
fn a_route_may_refuse_what_it_has_no_definition_of() {
    let required = |upstream: &Upstream| {
        let policy = Policy::new(upstream).remembering();
        Gateway::start(&policy.set("/routes/0/catalog/required", json!(true)))
    };
    let unknown = Refusal::of(502, 502).names(&["tool_unknown", "query", "catalog.required"]);
    for (what, script) in without() {
        let upstream = server(move |request| script(request));
        let gateway = required(&upstream);
        for _ in 0..2 {
            refused(what, &gateway, &upstream, &good(), &unknown);
        }
        assert_eq!(lists(&upstream).len(), 1, "{what}");
    }
    let upstream =
        server(|request| page(request, r#"{"name":"other","inputSchema":{}}"#, r#""x":1"#));
    let gateway = required(&upstream);
    refused("not listed", &gateway, &upstream, &good(), &unknown);
    passes(
        "listed",
        &gateway,
        &upstream,
        &super::call_of("other", "{}"),
    );
}

#[test]
fn a_tool_that_is_not_listed_is_for_its_server_to_refuse() {
    let upstream =
        server(|request| page(request, r#"{"name":"other","inputSchema":{}}"#, r#""x":1"#));
    let gateway = before(&upstream);
    for number in 1..=2 {
        passes("not listed", &gateway, &upstream, &good());
        let records = gateway.wait_for_records(number);
        assert_eq!(records[number - 1]["schema"], "none");
    }
    assert_eq!(lists(&upstream).len(), 1);
}

#[test]
fn who_must_sign_in_is_told_by_the_server_itself() {
    for (status, with_body) in [(401, true), (401, false), (403, true)] {
        let upstream = Upstream::with(move |request| {
            if request.head.has("authorization") {
                return match request.json()["method"] == "tools/list" {
                    true => page(request, QUERY, super::PUBLIC),
                    false => Reply::usual(request),
                };
            }
            let id = request.json()["id"].clone();
            let body = match with_body {
                true => format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"sign in"}}}}"#
                ),
                false => String::new(),
            };
            Reply::with_lines(
                status,
                "Content-Type: application/json\r\nWWW-Authenticate: Bearer resource_metadata=\"https://x.example/\"\r\n",
                body,
            )
        });
        let gateway = before(&upstream);
        for _ in 0..2 {
            let answer = gateway.ask(&good());
            assert_eq!(answer.status, status, "{answer:?}");
            let challenge = answer.head.value("www-authenticate");
            assert_eq!(
                challenge.as_deref(),
                Some("Bearer resource_metadata=\"https://x.example/\"")
            );
            if with_body {
                assert_eq!(answer.json()["error"]["message"], "sign in");
                assert_eq!(answer.raw_id().as_deref(), Some("1"));
            }
        }
        assert_eq!(super::calls(&upstream).len(), 2);
        // Whoever has signed in is judged.
        let signed_in = good().header("Authorization", "Bearer a");
        passes("signed in", &gateway, &upstream, &signed_in);
        let wrong = call(r#"{"region":"eu"}"#).header("Authorization", "Bearer a");
        refused(
            "signed in",
            &gateway,
            &upstream,
            &wrong,
            &super::mismatch("Mcp-Param-Region"),
        );
    }
}

#[test]
fn a_server_that_fails_to_list_is_told_of() {
    let failing: Vec<(&str, Script)> = vec![
        ("500", script(|_| Reply::with_lines(500, "", ""))),
        ("503", script(|request| error(request, 503, -32603))),
        (
            "429",
            script(|_| Reply::with_lines(429, "Retry-After: 1\r\n", "")),
        ),
        ("an error", script(|request| error(request, 200, -32603))),
        ("no JSON", script(|_| Reply::json(200, "{\"jsonrpc\""))),
        (
            "a broken connection",
            script(|_| Reply::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{")),
        ),
        ("no answer", script(|_| Reply::raw_then_reset(""))),
    ];
    for (what, script) in failing {
        let upstream = server(move |request| script(request));
        let gateway = before(&upstream);
        for number in 1..=2 {
            let refusal = Refusal::of(502, 502).names(&["upstream \"up\""]);
            let answer = refused(what, &gateway, &upstream, &good(), &refusal);
            let said = answer.json()["error"]["message"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(
                said.contains("list") || said.contains("answer"),
                "{what}: {said}"
            );
            // It may be well again by the next call.
            assert_eq!(lists(&upstream).len(), number, "{what}");
        }
    }
    let upstream = server(|_| Reply::silence());
    let policy = Policy::new(&upstream).remembering();
    let gateway = Gateway::start(&policy.upstream("response_header_timeout", "200ms"));
    let late = Refusal::of(504, 504).names(&["response_header_timeout"]);
    refused("silence", &gateway, &upstream, &good(), &late);
}

#[test]
fn a_server_that_has_recovered_is_asked_again() {
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let upstream = server(
        move |request| match failing.load(std::sync::atomic::Ordering::SeqCst) {
            true => Reply::with_lines(503, "", ""),
            false => page(request, QUERY, super::PUBLIC),
        },
    );
    let gateway = before(&upstream);
    refused("down", &gateway, &upstream, &good(), &Refusal::of(502, 502));
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    passes("up", &gateway, &upstream, &good());
}

#[test]
fn a_list_that_passes_ends_that_there_is_none() {
    let lists_now = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let listing = Arc::clone(&lists_now);
    let upstream = server(
        move |request| match listing.load(std::sync::atomic::Ordering::SeqCst) {
            true => page(request, QUERY, super::PRIVATE),
            false => error(request, 404, -32601),
        },
    );
    let gateway = before(&upstream);
    passes("no list", &gateway, &upstream, &call(r#"{"region":"eu"}"#));
    lists_now.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(gateway.ask(&list()).status, 200);
    let refusal = super::mismatch("Mcp-Param-Region");
    refused(
        "a list",
        &gateway,
        &upstream,
        &call(r#"{"region":"eu"}"#),
        &refusal,
    );
}
