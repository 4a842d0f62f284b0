//! How an encrypted connection ends, and what each side makes of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Shop;
use crate::harness::tunnel::RUNTIME;
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
fn a_client_that_goes_behind_more_than_is_read_ahead_is_noticed() {
    for resets in [false, true] {
        let shop = Shop::with(Upstream::with(|_| Reply::silence()), &[], |policy| policy);
        let mut client = shop.connect();
        client.send(&Request::call("t"));
        shop.upstream.wait_for_requests(1);
        client.send_bytes(&b"\r\n".repeat(32 << 10));
        match resets {
            true => client.wire.reset(),
            false => client.wire.finish(),
        }
        shop.upstream
            .wait("the end of the upstream's request", |log| {
                log.ended(0).is_some()
            });
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
fn the_end_of_the_process_waits_for_no_handshake() {
    let mut shop = Shop::with(Upstream::start(), &[], |policy| {
        policy.listen("handshake_timeout", "1h")
    });
    let silent = std::net::TcpStream::connect(shop.gateway.address).unwrap();
    let mut client = shop.connect();
    assert_eq!(client.exchange(&Request::call("t")).status, 200);
    // Long before the time that open exchanges would be given.
    assert_eq!(shop.gateway.end_by("INT"), Some(0));
    assert_eq!(client.wire.ending(), Fault::Closed(0));
    drop(silent);
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
    // More than all sockets on the way hold, so that some of it waits in the gateway, encrypted and
    // not, when the upstream ends.
    const PIECES: usize = 512;
    const PIECE_BYTES: usize = 64 << 10;
    plays.send(Play::sse_head()).unwrap();
    for _ in 0..PIECES {
        let event = format!(": {}\n\n", "z".repeat(PIECE_BYTES));
        plays.send(Play::chunk(&event)).unwrap();
    }
    plays.send(Play::Close).unwrap();
    let offer = shop.papers.offer();
    let (read, ended) = RUNTIME.block_on(async {
        let mut stream = offer.shake(shop.gateway.address).await.unwrap();
        let call = Request::call("t").bytes();
        stream.write_all(&call).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut read = Vec::new();
        let ended = stream.read_to_end(&mut read).await;
        (read, ended)
    });
    // Neither a last chunk nor the word of a good end: this is no whole answer.
    assert_eq!(
        ended.map_err(|error| error.kind()),
        Err(std::io::ErrorKind::UnexpectedEof)
    );
    let head = read.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let arrived = read[head..].iter().filter(|byte| **byte == b'z').count();
    assert_eq!(arrived, PIECES * PIECE_BYTES);
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
