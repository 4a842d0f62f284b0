//! Upstreams over HTTP/2: streams beside each other, further connections before one would wait, and
//! streams that end alone.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::upstream2::{
    CANCEL, INTERNAL_ERROR, Manners, NO_ERROR, REFUSED_STREAM, Reply2, Step, Upstream2,
};
use crate::harness::{Client, Fault, Gateway, Policy, Request};

/// A gateway that knows that this upstream speaks HTTP/2.
fn before(upstream: &Upstream2, shape: impl FnOnce(Policy) -> Policy) -> Gateway {
    let policy = Policy::to_url(&upstream.url()).upstream("http", "2");
    Gateway::start(&shape(policy))
}

fn plain(policy: Policy) -> Policy {
    policy
}

fn works(gateway: &Gateway, upstream: &Upstream2, tool: &str) {
    let answer = gateway.ask(&Request::call(tool));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["result"]["content"][0]["text"], tool);
    assert_eq!(upstream.runs(tool), 1);
}

#[test]
fn calls_share_one_connection() {
    let upstream = Upstream2::with(Reply2::usual);
    let gateway = before(&upstream, plain);
    for number in 0..20 {
        works(&gateway, &upstream, &format!("tool-{number}"));
    }
    std::thread::scope(|scope| {
        for number in 20..60 {
            let (gateway, upstream) = (&gateway, &upstream);
            scope.spawn(move || works(gateway, upstream, &format!("tool-{number}")));
        }
    });
    assert_eq!(upstream.log().connections.len(), 1);
    let records = gateway.wait_for_records(60);
    assert_eq!(records[0]["upstream_reused"], false);
    assert!(records[1..].iter().all(|r| r["upstream_reused"] == true));
    assert!(
        records.iter().all(|r| r["end"] == "complete"),
        "{records:?}"
    );
}

#[test]
fn a_large_body_arrives_whole() {
    let upstream = Upstream2::with(Reply2::usual);
    let gateway = before(&upstream, plain);
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(3_000_000));
    let upload = Request::call("large").edit("\"arguments\":{}", &large);
    assert_eq!(gateway.ask(&upload).status, 200);
    assert_eq!(upstream.log().calls[0].body, upload.body);
}
