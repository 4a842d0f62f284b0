//! Calls that are too large to be held, judged by their headers first and by their bodies while they
//! pass.

use super::{PUBLIC, QUERY, before, call, good, listing, lists, mismatch, page, passes, server};
use crate::harness::{Gateway, Request, Upstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call with so much text that it streams.
fn large(region: &str) -> Request {
    let text = "x".repeat(300 << 10);
    call(&format!(r#"{{"text":"{text}",{region}}}"#))
}

/// The call is refused, however its body is framed.
#[track_caller]
fn refused(what: &str, gateway: &Gateway, request: &Request) {
    for request in [request.clone(), request.clone().chunked(64 << 10)] {
        let answer = gateway.ask(&request);
        mismatch("Mcp-Param-Region").check(what, &answer);
    }
}

/// So many calls were whole; of all others the server has never seen the end.
fn assert_whole(upstream: &Upstream, count: usize) {
    upstream.wait("the end of what was refused", |log| {
        let broken = log.requests.iter().filter(|request| !request.complete);
        broken
            .into_iter()
            .all(|request| log.ended(request.connection).is_some())
    });
    assert_eq!(upstream.runs("query"), count);
}

#[test]
fn the_headers_are_held_against_a_body_that_passes_by() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    let region = r#""region":"eu""#;
    let whole = large(region).header("Mcp-Param-Region", "eu");
    for request in [whole.clone(), whole.chunked(64 << 10)] {
        let received = passes("agrees", &gateway, &upstream, &request);
        assert_eq!(received.head.values("mcp-param-region"), ["eu"]);
    }
    assert_eq!(lists(&upstream).len(), 1);
    let bad = [
        ("missing", large(region)),
        ("other", large(region).header("Mcp-Param-Region", "us")),
        (
            "twice",
            large(region)
                .line("Mcp-Param-Region", "eu")
                .line("Mcp-Param-Region", "eu"),
        ),
        (
            "unexpected",
            large(r#""region":null"#).header("Mcp-Param-Region", "eu"),
        ),
        (
            "malformed",
            large(region).header("Mcp-Param-Region", "=?base64?!?="),
        ),
    ];
    for (what, request) in bad {
        refused(what, &gateway, &request);
    }
    assert_whole(&upstream, 2);
    assert_eq!(gateway.ask(&good()).status, 200);
    assert_whole(&upstream, 3);
}

#[test]
fn a_large_call_that_disagrees_has_the_list_read_again() {
    let changed = Arc::new(AtomicBool::new(false));
    let has_changed = Arc::clone(&changed);
    // What was the region before is the area now.
    let upstream = server(move |request| {
        let tool = match has_changed.load(Ordering::SeqCst) {
            false => QUERY.to_owned(),
            true => QUERY.replace("\"region\"", "\"area\""),
        };
        page(request, &tool, PUBLIC)
    });
    let gateway = before(&upstream);
    passes("as it was", &gateway, &upstream, &good());
    changed.store(true, Ordering::SeqCst);
    let request = large(r#""area":"eu""#).header("Mcp-Param-Region", "eu");
    mismatch("Mcp-Param-Region").check("as it was", &gateway.ask(&request));
    assert_eq!(gateway.ask(&request).status, 200);
    assert_whole(&upstream, 2);
    assert_eq!(lists(&upstream).len(), 2);
}
