//! Upstreams over HTTP/2: requests beside each other on one connection, and a further connection
//! before one of them would wait.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use super::{before2, plain, record_of, works2};
use crate::harness::upstream2::{CANCEL, Call, Manners, Reply2, Step, Upstream2};
use crate::harness::wire::BodyReader;
use crate::harness::{Client, Gateway, Policy, Request, Upstream};

type Begun = Receiver<(Call, Sender<Step>)>;

/// A stream that has begun: its client, what is left to read of it, and what it is written through.
struct Open {
    client: Client,
    body: BodyReader,
    call: Call,
    steps: Sender<Step>,
}

fn open(gateway: &Gateway, begun: &Begun, tool: &str) -> Open {
    let mut client = gateway.connect();
    client.send(&Request::call(tool));
    let (call, steps) = begun.recv().unwrap();
    steps.send(Step::sse()).unwrap();
    steps.send(Step::Data(b"data: 1\n\n".to_vec())).unwrap();
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, b"data: 1\n\n");
    Open {
        client,
        body,
        call,
        steps,
    }
}

impl Open {
    fn finish(mut self) {
        self.steps
            .send(Step::Last(b"data: 2\n\n".to_vec()))
            .unwrap();
        self.client.read_until(&mut self.body, b"data: 2\n\n");
        assert_eq!(
            self.body.next(&mut self.client.wire),
            Ok(None),
            "a clean end"
        );
    }
}

fn finish_all(streams: Vec<Open>) {
    streams.into_iter().for_each(Open::finish);
}

#[test]
fn calls_share_one_connection() {
    let upstream = Upstream2::with(Reply2::usual);
    let gateway = before2(&upstream, plain);
    for number in 0..20 {
        works2(&gateway, &upstream, &format!("tool-{number}"));
    }
    std::thread::scope(|scope| {
        for number in 20..60 {
            let (gateway, upstream) = (&gateway, &upstream);
            scope.spawn(move || works2(gateway, upstream, &format!("tool-{number}")));
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
    let gateway = before2(&upstream, plain);
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(3_000_000));
    let upload = Request::call("large").edit("\"arguments\":{}", &large);
    assert_eq!(gateway.ask(&upload).status, 200);
    assert_eq!(upstream.log().calls[0].body, upload.body);
}

#[test]
fn a_stream_never_waits_for_another() {
    for (peer_max, our_max, connections) in [(Some(1), 100, 7), (None, 3, 3), (Some(2), 3, 4)] {
        let (upstream, begun) = Upstream2::staged(Manners {
            streams_max: peer_max,
            ..Manners::default()
        });
        let gateway = before2(&upstream, |policy| {
            policy.upstream("http2_streams_max", our_max)
        });
        let open: Vec<_> = (0..7)
            .map(|number| open(&gateway, &begun, &format!("listen-{number}")))
            .collect();
        assert_eq!(upstream.log().connections.len(), connections);
        finish_all(open);
    }
}

#[test]
fn streams_that_begin_at_once_never_wait_either() {
    let (upstream, begun) = Upstream2::staged(Manners {
        streams_max: Some(2),
        ..Manners::default()
    });
    let gateway = before2(&upstream, plain);
    let mut clients: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&Request::call(&format!("listen-{number}")));
    }
    // All of them arrive although none is answered.
    let calls: Vec<_> = (0..20).map(|_| begun.recv().unwrap()).collect();
    for connection in 0..upstream.log().connections.len() {
        let here = calls
            .iter()
            .filter(|(call, _)| call.connection == connection);
        assert!(here.count() <= 2);
    }
    for (_, steps) in &calls {
        steps.send(Step::json()).unwrap();
        steps.send(Step::Last(b"{}".to_vec())).unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.read().text(), "{}");
    }
}

#[test]
fn a_limit_that_is_lowered_later_holds_from_then_on() {
    let (upstream, begun) = Upstream2::staged(Manners::default());
    let gateway = before2(&upstream, plain);
    let mut streams: Vec<_> = (0..3)
        .map(|number| open(&gateway, &begun, &format!("first-{number}")))
        .collect();
    assert_eq!(upstream.log().connections.len(), 1);
    let before = upstream.log().confirmed;
    streams[0].steps.send(Step::StreamsMax(2)).unwrap();
    upstream.wait("the settings to be confirmed", |log| log.confirmed > before);
    streams.push(open(&gateway, &begun, "second"));
    assert_eq!(streams[3].call.connection, 1, "the first has one too many");
    streams.drain(..2).for_each(Open::finish);
    // There is room for one more on the first connection now.
    record_of(&gateway, "first-1");
    let third = open(&gateway, &begun, "third");
    assert_eq!(third.call.connection, 0);
    streams.push(third);
    finish_all(streams);
}

#[test]
fn a_slot_is_given_back_once_however_its_stream_ends() {
    let (upstream, begun) = Upstream2::staged(Manners {
        streams_max: Some(1),
        ..Manners::default()
    });
    let gateway = before2(&upstream, plain);
    for round in 0..5 {
        open(&gateway, &begun, &format!("finished-{round}")).finish();
        record_of(&gateway, &format!("finished-{round}"));
        let left = open(&gateway, &begun, &format!("left-{round}"));
        let stream = left.call.stream;
        drop(left.client);
        upstream.wait("the reset of what was left", |log| {
            let mut calls = log.calls.iter();
            calls.any(|call| call.stream == stream && call.reset == Some(CANCEL))
        });
    }
    assert_eq!(
        upstream.log().connections.len(),
        1,
        "of one stream at a time"
    );
}

#[test]
fn connections_that_are_not_needed_end() {
    let (upstream, begun) = Upstream2::staged(Manners {
        streams_max: Some(1),
        ..Manners::default()
    });
    let gateway = before2(&upstream, |policy| policy.upstream("idle_timeout", "200ms"));
    let mut streams: Vec<_> = (0..3)
        .map(|number| open(&gateway, &begun, &format!("listen-{number}")))
        .collect();
    streams.drain(1..).for_each(Open::finish);
    upstream.wait("the end of those that are idle", |log| log.open() == 1);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(upstream.log().open(), 1, "a stream is open on it");
    finish_all(streams);
    upstream.wait("the end of the last", |log| log.open() == 0);
}

#[test]
fn a_peer_that_vanished_is_found() {
    let (upstream, begun) = Upstream2::staged(Manners {
        answers_pings: false,
        ..Manners::default()
    });
    let gateway = before2(&upstream, |policy| {
        policy.upstream("http2_ping_interval", "100ms")
    });
    let mut open = open(&gateway, &begun, "listen");
    assert!(
        open.body.next(&mut open.client.wire).is_err(),
        "no clean end"
    );
    assert_eq!(record_of(&gateway, "listen")["end"], "upstream_failed");
    assert_eq!(upstream.log().pings, 1);
    upstream.wait("the end of the connection", |log| log.open() == 0);
}

#[test]
fn a_peer_that_is_there_is_left_alone() {
    let (upstream, begun) = Upstream2::staged(Manners::default());
    let gateway = before2(&upstream, |policy| {
        policy.upstream("http2_ping_interval", "50ms")
    });
    let open = open(&gateway, &begun, "listen");
    upstream.wait("several pings", |log| log.pings > 5);
    open.finish();
}

#[test]
fn a_server_that_speaks_no_http2_is_told_of_before_anything_is_sent() {
    let upstream = Upstream::start();
    let policy = Policy::new(&upstream).upstream("http", "2");
    let gateway = Gateway::start(&policy.upstream("connect_timeout", "500ms"));
    let answer = gateway.ask(&Request::call("echo"));
    assert!(matches!(answer.status, 502 | 504), "{answer:?}");
    assert_eq!(upstream.runs("echo"), 0);
}
