//! What is kept stays within its bounds, whatever is asked.

use serde_json::{Value, json};

use super::{Stage, list, numbering};
use crate::admin::admin_address;
use crate::harness::{Client, Request};

/// As many keys as a test without optimisation gets through in seconds; the comparison of the
/// benches asks for a hundred thousand.
const KEYS: usize = 20_000;

fn entries(stage: &Stage) -> Vec<Value> {
    let admin = admin_address(&stage.site.gateway).expect("an address");
    let mut shown = Client::connect(admin)
        .exchange(&Request::new("GET", "/cache"))
        .json();
    assert_eq!(shown["truncated"], false, "all of them are shown");
    match shown["entries"].take() {
        Value::Array(entries) => entries,
        other => panic!("{other}"),
    }
}

fn bytes(entries: &[Value]) -> u64 {
    entries
        .iter()
        .filter_map(|entry| entry["bytes"].as_u64())
        .sum()
}

fn page(cursor: usize) -> Request {
    Request::modern("prompts/list", json!({"cursor": format!("page-{cursor}")}))
}

#[test]
fn many_keys_stay_under_the_bound_of_bytes() {
    const BYTES_MAX: u64 = 1 << 20;
    let stage = Stage::with(numbering(), |policy| {
        policy.set("/cache", json!({"bytes_max": "1Mi"}))
    });
    let mut client = stage.site.gateway.connect();
    let mut before = 0;
    for number in 0..KEYS {
        let answer = client.exchange(&page(number));
        assert_eq!(answer.status, 200);
        if number == KEYS / 4 {
            before = stage.site.gateway.memory();
        }
        if number % (KEYS / 10) == 0 {
            assert!(bytes(&entries(&stage)) <= BYTES_MAX);
        }
    }
    let kept = entries(&stage);
    let (count, bytes, memory) = (kept.len(), bytes(&kept), stage.site.gateway.memory());
    println!("{count} entries of {bytes} bytes; {before} bytes of memory became {memory}");
    assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
    assert_eq!(stage.fetched(), KEYS);
    // What is counted is what is held: it is full after the first quarter, and does not grow on.
    assert!(memory < before + (8 << 20), "{before} became {memory}");
}

#[test]
fn there_are_no_more_entries_than_there_may_be() {
    let stage = Stage::with(numbering(), |policy| {
        policy.set("/cache", json!({"entries_max": 50}))
    });
    let mut client = stage.site.gateway.connect();
    for number in 0..500 {
        assert_eq!(client.exchange(&page(number)).status, 200);
    }
    let count = entries(&stage).len();
    assert!((25..=50).contains(&count), "{count}");
}

#[test]
fn what_is_asked_for_often_outlives_what_was_asked_for_once() {
    let stage = Stage::with(numbering(), |policy| {
        policy.set("/cache", json!({"entries_max": 50}))
    });
    let mut client = stage.site.gateway.connect();
    let mut upstream = 0;
    for number in 0..500 {
        for request in [list("prompts/list"), page(number)] {
            let answer = client.exchange(&request);
            let status = super::cache_status(&answer);
            let is_often = request.body == list("prompts/list").body;
            upstream += usize::from(is_often && !status.starts_with("weirgate; hit"));
        }
    }
    assert_eq!(
        upstream, 1,
        "the one that is asked for all the time was fetched so often"
    );
}
