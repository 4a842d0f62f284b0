//! The end of streams that have none of their own, once the process is told to end.

use std::sync::Arc;

use serde_json::json;

use crate::harness::wire::BodyReader;
use crate::harness::{Client, Fault, Gateway, Play, Policy, Reply, Request, Upstream};

const ID: &str = "9223372036854775807";

/// A gateway that ends such streams so, and the others when they end or after 5 s.
fn before(upstream: &Upstream, streams: &str) -> Gateway {
    let shutdown = json!({"notice": "1ms", "timeout": "5s", "streams": streams});
    Gateway::start(&Policy::new(upstream).set("/shutdown", shutdown))
}

/// A stream that is open, with its first event.
fn open(gateway: &Gateway, request: &Request) -> (Client, BodyReader) {
    let mut client = gateway.connect();
    client.send(request);
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, b"data: 1\n\n");
    (client, body)
}

/// The process has ended as it should, and this stands in its only record.
fn ended(mut gateway: Gateway) -> String {
    assert_eq!(gateway.ended(), Some(0));
    let record = gateway.wait_for_records(1).remove(0);
    record["end"].as_str().unwrap_or_default().to_owned()
}

fn listen() -> Request {
    Request::modern("subscriptions/listen", json!({"toolsListChanged": true})).id(ID)
}

/// What is left of a body, and how it ends.
fn rest(client: &mut Client, body: &mut BodyReader) -> (String, Result<(), Fault>) {
    let mut seen = Vec::new();
    let end = loop {
        match body.next(&mut client.wire) {
            Ok(Some(part)) => seen.extend(part),
            Ok(None) => break Ok(()),
            Err(fault) => break Err(fault),
        }
    };
    (String::from_utf8(seen).unwrap(), end)
}

fn is_broken(end: &Result<(), Fault>) -> bool {
    matches!(end, Err(Fault::Closed(_) | Fault::Reset))
}

/// A server whose streams send one event and are then silent.
fn begins() -> Upstream {
    Upstream::with(|_| Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]))
}

#[test]
fn a_subscription_ends_with_its_result() {
    let upstream = begins();
    let gateway = before(&upstream, "end");
    let (mut client, mut body) = open(&gateway, &listen());
    gateway.signal("TERM");
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    let expected = format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{ID},\"result\":{{\"resultType\":\
         \"complete\",\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{ID}}}}}}}\n\n"
    );
    assert_eq!(last, expected);
    upstream.wait("the end of the stream", |log| log.ended(0).is_some());
    assert_eq!(ended(gateway), "shut_down");
}

#[test]
fn a_result_waits_for_the_end_of_an_event() {
    let (upstream, plays) = Upstream::controlled();
    let gateway = before(&upstream, "end");
    plays.send(Play::sse_head()).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    let (mut client, mut body) = open(&gateway, &listen());
    plays.send(Play::chunk("data: ha")).unwrap();
    client.read_until(&mut body, b"data: ha");
    gateway.signal("TERM");
    plays.send(Play::chunk("lf\n\n")).unwrap();
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    assert!(last.starts_with("lf\n\nevent: message\ndata: {"), "{last}");
}

#[test]
fn a_subscription_that_breaks_tells_the_client_to_listen_again() {
    let upstream = begins();
    for request in [listen(), Request::get()] {
        let gateway = before(&upstream, "break");
        let (mut client, mut body) = open(&gateway, &request);
        gateway.signal("TERM");
        let (last, end) = rest(&mut client, &mut body);
        assert!(last.is_empty() && is_broken(&end), "{last} {end:?}");
        assert_eq!(ended(gateway), "shut_down");
    }
    upstream.wait("the end of the streams", |log| log.open() == 0);
}

#[test]
fn the_stream_of_a_legacy_server_ends_between_events() {
    let (upstream, plays) = Upstream::controlled();
    let gateway = before(&upstream, "end");
    plays.send(Play::sse_head()).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    let (mut client, mut body) = open(&gateway, &Request::get());
    plays.send(Play::chunk("data: ha")).unwrap();
    client.read_until(&mut body, b"data: ha");
    gateway.signal("TERM");
    plays.send(Play::chunk("lf\n\n")).unwrap();
    assert_eq!(rest(&mut client, &mut body), ("lf\n\n".to_owned(), Ok(())));
}

#[test]
fn other_streams_go_on() {
    for streams in ["end", "break"] {
        for request in [Request::call("long"), Request::legacy_call("long")] {
            let (upstream, plays) = Upstream::controlled();
            let gateway = before(&upstream, streams);
            plays.send(Play::sse_head()).unwrap();
            plays.send(Play::chunk("data: 1\n\n")).unwrap();
            let (mut client, mut body) = open(&gateway, &request);
            gateway.signal("TERM");
            plays.send(Play::chunk("data: 2\n\n")).unwrap();
            plays.send(Play::end()).unwrap();
            let whole = ("data: 2\n\n".to_owned(), Ok(()));
            assert_eq!(rest(&mut client, &mut body), whole);
            assert_eq!(ended(gateway), "complete");
        }
    }
}

#[test]
fn a_fault_of_the_upstream_is_no_graceful_end() {
    for (what, ending) in [
        ("closed", vec![Play::Close]),
        ("reset", vec![Play::Reset]),
        ("garbage", vec![Play::Send(b"zz\r\n".to_vec())]),
    ] {
        let (upstream, plays) = Upstream::controlled();
        let gateway = before(&upstream, "end");
        plays.send(Play::sse_head()).unwrap();
        plays.send(Play::chunk("data: 1\n\n")).unwrap();
        let (mut client, mut body) = open(&gateway, &listen());
        // In the middle of an event, so that the end has to wait for what the upstream does.
        plays.send(Play::chunk("data: ha")).unwrap();
        client.read_until(&mut body, b"data: ha");
        gateway.signal("TERM");
        for step in ending {
            plays.send(step).unwrap();
        }
        let (last, end) = rest(&mut client, &mut body);
        assert!(last.is_empty() && is_broken(&end), "{what}: {last} {end:?}");
        assert_eq!(ended(gateway), "upstream_failed", "{what}");
    }
}

#[test]
fn what_cannot_end_in_good_order_breaks() {
    for lines in [
        "Content-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Content-Length: 500",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{lines}\r\n\r\n");
        let first = match lines.contains("chunked") {
            true => Play::chunk("data: 1\n\n"),
            false => Play::Send(b"data: 1\n\n".to_vec()),
        };
        let steps = vec![Play::Send(head.into_bytes()), first];
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        for request in [listen(), Request::get()] {
            let gateway = before(&upstream, "end");
            let (mut client, mut body) = open(&gateway, &request);
            gateway.signal("TERM");
            let (last, end) = rest(&mut client, &mut body);
            assert!(
                last.is_empty() && is_broken(&end),
                "{lines}: {last} {end:?}"
            );
        }
    }
}

#[test]
fn a_busy_subscription_ends_too() {
    let steps = std::iter::repeat_n(Play::chunk("data: 1\n\n"), 100_000);
    let steps: Vec<_> = std::iter::once(Play::sse_head()).chain(steps).collect();
    let steps = Arc::new(steps);
    let upstream = Upstream::with(move |_| Reply::Steps(steps.to_vec()));
    let gateway = before(&upstream, "end");
    let (mut client, mut body) = open(&gateway, &listen());
    gateway.signal("TERM");
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    assert!(last.ends_with("}}}\n\n"), "{}", last.len());
    assert_eq!(ended(gateway), "shut_down");
}
