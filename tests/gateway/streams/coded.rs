//! Answers with a Content-Encoding, which we never ask for: refused where they must be read, and
//! passed on as they are elsewhere.

use serde_json::json;

use crate::harness::{LEGACY, Reply, Request, Site, Upstream};

/// `{"jsonrpc":"2.0","id":1,"result":{}}` by gzip would begin so; nobody here reads on.
const CODED: &str = "\u{1f}\u{8b}not for us";

fn site(coding: &'static str, kind: &'static str) -> Site {
    Site::before(
        Upstream::with(move |_| {
            let lines = format!("Content-Type: {kind}\r\nContent-Encoding: {coding}\r\n");
            Reply::with_lines(200, &lines, CODED)
        }),
        |policy| policy,
    )
}

#[test]
fn what_must_be_read_is_refused() {
    for kind in ["application/json", "text/event-stream"] {
        for coding in ["gzip", "br", "identity, gzip", ""] {
            let site = site(coding, kind);
            let answer = site.gateway.ask(&Request::initialize(LEGACY));
            assert_eq!(answer.code(), Some(502), "{coding}: {answer:?}");
            assert!(answer.text().contains("Content-Encoding"), "{answer:?}");
            let probe = site
                .gateway
                .ask(&Request::modern("server/discover", json!({})));
            assert_eq!(probe.status, 502, "{coding}: {probe:?}");
            assert!(probe.text().contains("Content-Encoding"), "{probe:?}");
            for record in site.records(2) {
                assert_eq!(record["verdict"], "refused:upstream_unreadable", "{record}");
            }
            let received = site.upstream.last();
            assert_eq!(received.head.value("accept-encoding").unwrap(), "identity");
        }
    }
}

#[test]
fn what_is_not_read_passes_untouched() {
    for kind in ["application/json", "text/event-stream"] {
        let site = site("gzip", kind);
        for request in [Request::call("echo"), Request::legacy_call("echo")] {
            let answer = site.gateway.ask(&request);
            assert_eq!((answer.status, answer.text().as_str()), (200, CODED));
            assert_eq!(answer.head.value("content-encoding").unwrap(), "gzip");
        }
    }
}

#[test]
fn identity_is_no_coding() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
    let lines = "Content-Type: application/json\r\nContent-Encoding: identity\r\n";
    let upstream = Upstream::with(move |_| Reply::with_lines(200, lines, body));
    let site = Site::before(upstream, |policy| policy);
    assert_eq!(site.gateway.ask(&Request::initialize(LEGACY)).text(), body);
}

#[test]
fn nothing_is_coded_on_the_way() {
    let events = "data: 1\n\n".repeat(5000);
    let stream = events.clone();
    let site = Site::before(Upstream::with(move |_| Reply::sse(&stream)), |policy| {
        policy
    });
    let request = Request::call("echo").header("Accept-Encoding", "gzip, br, zstd");
    let answer = site.gateway.ask(&request);
    assert!(!answer.head.has("content-encoding"), "{answer:?}");
    assert_eq!(answer.text(), events);
}
