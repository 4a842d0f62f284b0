//! A deadline while the client takes nothing: it is looked at when something can be passed on, and
//! until then the limit on taking nothing bounds the answer.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::{UNTAKEN, events, narrow};
use crate::harness::{Client, Reply, Request, Site, Upstream};

/// A client that takes nothing of an endless answer to a call with a deadline of 300 ms.
fn flooded(write_idle_timeout: &str) -> (Site, Client) {
    let upstream = Upstream::with(|_| Reply::Steps(events(400, 64 << 10)));
    let site = Site::before(upstream, |policy| {
        policy
            .set("/routes/0/deadline/call", json!("300ms"))
            .listen("write_idle_timeout", write_idle_timeout)
    });
    let mut client = narrow(&site.gateway, 4096);
    client.send(&Request::call("flood"));
    client.read_head();
    (site, client)
}

fn wait_for_end(site: &Site) {
    site.upstream
        .wait("the end of the flood", |log| log.ended(0).is_some());
}

#[test]
fn a_call_whose_client_takes_nothing_is_bounded_by_the_limit_on_that() {
    let (site, _client) = flooded("900ms");
    wait_for_end(&site);
    let record = &site.records(1)[0];
    assert_eq!(record["end"], UNTAKEN, "{record}");
}

#[test]
fn a_call_that_is_late_ends_as_soon_as_its_client_takes_something() {
    let (site, mut client) = flooded("1m");
    sleep(Duration::from_millis(600));
    assert_eq!(site.upstream.log().ended(0), None, "nobody can be told");
    let mut came = 0;
    let ending = loop {
        match client.wire.exactly(1024) {
            Ok(piece) => came += piece.len(),
            Err(fault) => break fault,
        }
    };
    println!("{came} bytes came before {ending:?}");
    assert!(came < 400 * (64 << 10));
    wait_for_end(&site);
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "limit:deadline.call", "{record}");
}
