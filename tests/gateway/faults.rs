//! Upstreams at fault: each test observes what the upstream received, how often a tool ran, what is
//! left open, what the client got byte for byte, and what the log says of the exchange.

mod framing;
mod leaving;
mod multiplexed;
mod single;
mod streams;

use serde_json::Value;

use crate::harness::upstream2::Upstream2;
use crate::harness::{Client, Fault, Gateway, Policy, Request};

/// A gateway that knows that this upstream speaks HTTP/2.
fn before2(upstream: &Upstream2, shape: impl FnOnce(Policy) -> Policy) -> Gateway {
    let policy = Policy::to_url(&upstream.url()).upstream("http", "2");
    Gateway::start(&shape(policy))
}

/// A policy as it is.
fn plain(policy: Policy) -> Policy {
    policy
}

/// A policy under which every body is held whole before it is sent.
fn held(policy: Policy) -> Policy {
    policy.bound("stream_bytes_max", 0)
}

/// A call of this tool, which was never called before, runs it once.
fn works2(gateway: &Gateway, upstream: &Upstream2, tool: &str) {
    let answer = gateway.ask(&Request::call(tool));
    assert_eq!(answer.status, 200, "{tool}: {answer:?}");
    assert_eq!(answer.json()["result"]["content"][0]["text"], tool);
    assert_eq!(upstream.runs(tool), 1, "{tool}");
}

/// What came of an answer until it broke off, which it must.
fn broken_off(what: &str, client: &mut Client) -> Vec<u8> {
    let (_, mut body) = client.read_head();
    let mut seen = Vec::new();
    loop {
        match body.next(&mut client.wire) {
            Ok(Some(part)) => seen.extend(part),
            Err(Fault::Closed(_) | Fault::Reset) => return seen,
            end => panic!(
                "{what}: {end:?} behind {:?}",
                String::from_utf8_lossy(&seen)
            ),
        }
    }
}

/// The record of this tool's call, once there is one.
fn record_of(gateway: &Gateway, tool: &str) -> Value {
    let mut count = 1;
    loop {
        let records = gateway.wait_for_records(count);
        if let Some(record) = records.iter().find(|record| record["name"] == tool) {
            return record.clone();
        }
        count = records.len() + 1;
    }
}
