//! Calls that are too large to be held, judged by their headers first and by their bodies while they
//! pass.

use super::{
    PUBLIC, QUERY, before, call, calls, good, listing, lists, mismatch, page, passes, server,
};
use crate::harness::{Gateway, Request, Upstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call with so much text that it streams.
fn large(region: &str) -> Request {
    let text = "x".repeat(300 << 10);
    call(&format!(r#"{{"text":"{text}",{region}}}"#))
}

/// The call is refused, and whatever has come of it to the server is no whole request.
#[track_caller]
fn refused(what: &str, gateway: &Gateway, upstream: &Upstream, request: &Request) {
    for chunk in [None, Some(64 << 10)] {
        let before = calls(upstream).len();
        let request = match chunk {
            None => request.clone(),
            Some(size) => request.clone().chunked(size),
        };
        let answer = gateway.ask(&request);
        mismatch("Mcp-Param-Region").check(what, &answer);
        upstream.wait(what, |log| {
            let last = log.requests.last().map(|request| request.connection);
            log.requests.len() == before || last.is_none_or(|last| log.ended(last).is_some())
        });
        let calls = calls(upstream);
        assert!(calls[before..].iter().all(|call| !call.complete), "{what}");
    }
}

#[test]
fn the_headers_are_held_against_a_body_that_passes_by() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    let region = r#""region":"eu""#;
    let good = large(region).header("Mcp-Param-Region", "eu");
    for request in [good.clone(), good.chunked(64 << 10)] {
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
        refused(what, &gateway, &upstream, &request);
    }
    assert_eq!(upstream.runs("query"), 2);
    passes("afterwards", &gateway, &upstream, &super::good());
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
    refused_once(&gateway, &request);
    passes("as it is", &gateway, &upstream, &request);
    assert_eq!(lists(&upstream).len(), 2);
}

#[track_caller]
fn refused_once(gateway: &Gateway, request: &Request) {
    mismatch("Mcp-Param-Region").check("as it was", &gateway.ask(request));
}
