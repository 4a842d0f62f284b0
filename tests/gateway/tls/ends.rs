//! How an encrypted connection ends, and what each side makes of it.

use super::Shop;
use crate::harness::{Fault, Play, Reply, Request, Upstream, eventually};

#[test]
fn a_client_that_goes_cancels_its_exchange() {
    for resets in [false, true] {
        let shop = Shop::with(Upstream::with(|_| Reply::silence()), &[], |policy| policy);
        let mut client = shop.connect();
        client.send(&Request::call("t"));
        shop.upstream.wait_for_requests(1);
        assert!(shop.upstream.log().ended(0).is_none());
        match resets {
            true => client.wire.reset(),
            // The word of a good end, with the other direction still open.
            false => client.wire.finish(),
        }
        shop.upstream
            .wait("the end of the upstream's request", |log| {
                log.ended(0).is_some()
            });
        let record = &shop.gateway.wait_for_records(1)[0];
        assert_eq!(record["end"], "client_gone", "resets: {resets}");
    }
}

#[test]
fn an_answer_that_is_complete_ends_in_good_order() {
    let shop = Shop::new();
    let mut client = shop.connect();
    let answer = client.exchange(&Request::call("t").header("Connection", "close"));
    assert_eq!(answer.status, 200);
    assert_eq!(client.wire.ending(), Fault::Closed(0));
}

#[test]
fn a_connection_that_is_no_longer_used_ends_in_good_order() {
    let shop = Shop::with(Upstream::start(), &[], |policy| {
        policy.listen("header_read_timeout", "100ms")
    });
    let mut client = shop.connect();
    assert_eq!(client.exchange(&Request::call("t")).status, 200);
    assert_eq!(client.wire.ending(), Fault::Closed(0));
}

#[test]
fn an_answer_that_breaks_off_has_no_good_end() {
    let (upstream, plays) = Upstream::controlled();
    let shop = Shop::with(upstream, &[], |policy| policy);
    let mut client = shop.connect();
    client.send(&Request::call("t"));
    for play in [Play::sse_head(), Play::chunk(": here\n\n")] {
        plays.send(play).unwrap();
    }
    let (head, mut body) = client.read_head();
    assert_eq!(head.status(), 200);
    client.read_until(&mut body, b": here\n\n");
    plays.send(Play::Reset).unwrap();
    let fault = loop {
        match body.next(&mut client.wire) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the answer came to a good end"),
            Err(fault) => break fault,
        }
    };
    // The tunnel resets where the word of a good end is missing.
    assert_eq!(fault, Fault::Reset);
}

#[test]
fn what_was_written_before_an_answer_breaks_off_arrives() {
    let (upstream, plays) = Upstream::controlled();
    let shop = Shop::with(upstream, &[], |policy| policy);
    let mut client = shop.connect();
    client.send(&Request::call("t"));
    plays.send(Play::sse_head()).unwrap();
    let (_, mut body) = client.read_head();
    // More than any buffer on the way holds, so that some of it waits in ours for a slow reader.
    let piece = format!(": {}\n\n", "x".repeat(64 << 10));
    for _ in 0..4 {
        plays.send(Play::chunk(&piece)).unwrap();
    }
    plays.send(Play::Close).unwrap();
    shop.upstream
        .wait("the end of the upstream", |log| log.ended(0).is_some());
    let mut count = 0;
    while let Ok(Some(part)) = body.next(&mut client.wire) {
        count += part.len();
    }
    assert_eq!(count, 4 * piece.len());
}

#[test]
fn an_upload_with_its_answer_comes_through_whole() {
    let shop = Shop::with(Upstream::start(), &[], |policy| policy);
    let mut client = shop.connect();
    let padding = format!("\"{}\"", "y".repeat(1 << 20));
    let call = Request::modern(
        "tools/call",
        serde_json::json!({"name": "t", "arguments": {"padding": padding}}),
    );
    assert_eq!(client.exchange(&call).status, 200);
    assert_eq!(shop.upstream.last().body, call.body);
    eventually("one record", || shop.gateway.records().len() == 1);
}
