//! Bodies that are certain to be refused long before their end: they are read on only as far as the
//! body of any refused request, and then the client is told what is known.

use super::sink::Sink;
use super::{BEGUN, FRAMINGS, META, Upload, before, call};
use crate::harness::{Client, Gateway, Refusal, Request, Response};
use crate::http2::Client2;

const SIZE: usize = 100 << 20;
const DRAINED: u64 = 1 << 20;
/// What may come beside what is counted: a piece on either side of the bound.
const SLACK: u64 = 1 << 20;

/// Names another tool than its headers, behind so many bytes, and goes on for long.
fn contradicting(behind: usize) -> Request {
    Request::call("echo").body(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"a\":\"{}\",\
         \"name\":\"evil\",{META},\"arguments\":{{\"a\":\"{}\"}}}}}}",
        "x".repeat(behind),
        "y".repeat(SIZE)
    ))
}

fn told(what: &str, answer: &Response) {
    Refusal::of(400, -32020)
        .id("7")
        .names(&["Mcp-Name", "echo", "evil"])
        .check(what, answer);
    assert_eq!(answer.head.value("connection").as_deref(), Some("close"));
}

/// The record of the only exchange: it was refused for its header.
fn record_of(gateway: &Gateway) -> serde_json::Value {
    let record = gateway.wait_for_records(1).remove(0);
    assert_eq!(record["verdict"], "refused:header_mismatch", "{record}");
    assert_eq!(record["body"], "streamed", "{record}");
    record
}

#[test]
fn only_a_part_of_it_is_read() {
    for behind in [0, 512 << 10] {
        let request = contradicting(behind);
        for framed in FRAMINGS {
            let what = format!("behind {behind}, {framed:?}");
            let sink = Sink::start();
            let gateway = before(&sink, |policy| policy.bound("drain_bytes_max", "1Mi"));
            let mut upload = Upload::begin(&gateway, &request, framed);
            // What is sent is little more than what is read, so that all of it is taken.
            let sent = behind + (4 << 20);
            for piece in request.body[..sent].chunks(256 << 10) {
                upload.piece(piece);
            }
            told(&what, &upload.answer());
            assert!(upload.client.is_closed(), "{what}");
            let read = record_of(&gateway)["bytes_in"].as_u64().unwrap_or_default();
            let bound = behind as u64 + DRAINED + SLACK;
            assert!((DRAINED..bound).contains(&read), "{what}: {read} were read");
            match behind {
                0 => assert_eq!(sink.requests().len(), 0, "{what}"),
                _ => {
                    let body = sink.broke_off(&what).body();
                    assert!(!body.windows(4).any(|four| four == b"evil"), "{what}");
                }
            }
        }
    }
}

#[test]
fn whoever_sends_all_of_it_is_not_heard_to_the_end() {
    let request = contradicting(0);
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| policy);
        let mut upload = Upload::begin(&gateway, &request, framed);
        let sent = request.body.chunks(256 << 10).take_while(|piece| {
            // The connection ends while it is written to.
            upload.try_piece(piece).is_ok()
        });
        let sent = sent.map(<[u8]>::len).sum::<usize>();
        assert!(sent < SIZE / 2, "{framed:?}: {sent} were taken");
        let read = record_of(&gateway)["bytes_in"].as_u64().unwrap_or_default();
        let bound = (16 << 20) + SLACK;
        assert!(read < bound, "{framed:?}: {read} were read");
        assert_eq!(sink.requests().len(), 0);
    }
}

#[test]
fn over_http_2_its_stream_ends_and_no_other() {
    let request = contradicting(512 << 10);
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy.bound("drain_bytes_max", "1Mi"));
    let mut client = Client2::connect(&gateway);
    let mut neighbour = client.begin(&call("next", 10));
    let mut stream = client.begin(&request);
    stream.upload(&request.body[..2 << 20], false);
    let answer = stream.read();
    assert_eq!(answer.status, 400);
    let json = answer.json();
    assert_eq!(
        (&json["id"], &json["error"]["code"]),
        (&7.into(), &(-32020).into())
    );
    record_of(&gateway);
    sink.broke_off("a mismatch");
    neighbour.upload(&call("next", 10).body, true);
    assert_eq!(neighbour.read().status, 200);
}

/// A client that has sent so much of this request, which goes on.
fn sent(gateway: &Gateway, request: &Request, count: usize) -> Client {
    let mut upload = Upload::begin(gateway, request, super::Framed::Length);
    upload.piece(&request.body[..count]);
    upload.client
}

#[test]
fn whoever_stalls_in_it_is_told_what_is_known() {
    // Either bound ends the wait, and neither is told of.
    for (key, bound) in [("drain_timeout", "200ms"), ("body_idle_timeout", "200ms")] {
        for behind in [0, 512 << 10] {
            let request = contradicting(behind);
            let sink = Sink::start();
            let gateway = before(&sink, |policy| policy.bound(key, bound));
            let mut client = sent(&gateway, &request, behind + BEGUN);
            told(key, &client.read());
            assert!(client.is_closed(), "{key}");
            record_of(&gateway);
            match behind {
                0 => assert_eq!(sink.requests().len(), 0),
                _ => drop(sink.broke_off(key)),
            }
        }
    }
}

#[test]
fn whoever_trickles_it_is_told_in_the_same_time() {
    let request = contradicting(0);
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy.bound("drain_timeout", "500ms"));
    let mut client = sent(&gateway, &request, BEGUN);
    let begun = std::time::Instant::now();
    // It is never silent for long, and has not sent a mebibyte when it is answered.
    while gateway.records().is_empty() {
        assert!(begun.elapsed() < super::LONG, "it was never answered");
        let _ = client.wire.write(b"y");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    told("a trickle", &client.read());
    let read = record_of(&gateway)["bytes_in"].as_u64().unwrap_or_default();
    assert!(read < DRAINED, "{read}");
    assert_eq!(sink.requests().len(), 0);
}

#[test]
fn within_the_bound_the_worst_of_it_is_told() {
    let mut request = contradicting(0);
    request.body.truncate(2 << 20);
    request.body.extend_from_slice(b"\n");
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| policy.bound("drain_bytes_max", "4Mi"));
        let (mut client, answer) = super::send(&gateway, &request, framed);
        Refusal::of(400, -32700)
            .id("null")
            .check("a line end in a text", &answer);
        assert_eq!(client.exchange(&call("next", 10)).status, 200);
    }
}
