//! The same over HTTP/2, on either side: a request that breaks off is a stream that is reset, and
//! its neighbours on the connection go on.

use super::sink::{Manner, Sink, Then};
use super::{BEGUN, FRAMINGS, Upload, before, call, send};
use crate::harness::upstream2::{CANCEL, Call, Manners, Reply2, Step, Upstream2};
use crate::harness::{Gateway, Policy, Refusal, Request};
use crate::http2::Client2;

/// The request with and without its length.
fn announced(request: &Request) -> [Request; 2] {
    let length = request.body.len().to_string();
    [
        request.clone().header("Content-Length", &length),
        request.clone(),
    ]
}

fn bad(request: &Request) -> Request {
    request
        .clone()
        .edit("\"name\":\"echo\"", "\"name\":\"evil\"")
}

#[test]
fn a_clients_stream_passes_while_it_comes() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let mut client = Client2::connect(&gateway);
    for request in announced(&call("echo", 2 << 20)) {
        let mut stream = client.begin(&request);
        let (first, rest) = request.body.split_at(1 << 20);
        stream.upload(first, false);
        sink.wait("the beginning", |seen| {
            !seen.is_complete() && seen.raw.len() >= BEGUN
        });
        stream.upload(rest, true);
        assert_eq!(stream.read().status, 200);
        let seen = sink.last();
        assert!(seen.is_complete() && seen.body() == request.body);
        let has_length = seen.head().unwrap().has("content-length");
        let is_announced = request.lines.iter().any(|line| line.0 == "Content-Length");
        assert_eq!(has_length, is_announced);
    }
}

#[test]
fn a_clients_stream_that_disagrees_leaves_no_complete_request() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let mut client = Client2::connect(&gateway);
    let good = call("echo", 1 << 20);
    for (number, request) in announced(&bad(&good)).into_iter().enumerate() {
        let mut neighbour = client.begin(&call("next", 10));
        let answer = client.exchange(&request);
        assert_eq!(answer.status, 400);
        let json = answer.json();
        assert_eq!(
            (&json["id"], &json["error"]["code"]),
            (&1.into(), &(-32020).into())
        );
        sink.wait_for_requests(2 * number + 1);
        sink.broke_off("a mismatch");
        neighbour.upload(&call("next", 10).body, true);
        assert_eq!(neighbour.read().status, 200);
    }
}

#[test]
fn a_clients_stream_without_its_end_is_not_complete() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let mut client = Client2::connect(&gateway);
    let request = call("echo", 1 << 20);
    let mut stream = client.begin(&request);
    stream.upload(&request.body, false);
    let message = request.body.len();
    sink.wait("all but the brace", |seen| seen.body().len() >= message - 1);
    assert_eq!(sink.last().body().len(), message - 1);
    stream.reset();
    sink.broke_off("a reset");
    let record = &gateway.wait_for_records(1)[0];
    assert_eq!(
        (&record["end"], &record["body"]),
        (&"client_gone".into(), &"streamed".into())
    );
    assert_eq!(client.exchange(&call("next", 10)).status, 200);
}

#[test]
fn an_early_error_passes_to_a_clients_stream_at_once() {
    let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";
    let sink = Sink::with(Manner {
        answer_at: Some((100 << 10, busy.into())),
        then: Then::ReadOn,
        ..Manner::default()
    });
    let gateway = before(&sink, |policy| policy);
    let mut client = Client2::connect(&gateway);
    for request in announced(&call("echo", 4 << 20)) {
        let mut stream = client.begin(&request);
        stream.upload(&request.body[..1 << 20], false);
        let answer = stream.read();
        assert_eq!((answer.status, answer.body.as_slice()), (503, &b"busy"[..]));
        sink.broke_off("an early error");
        assert_eq!(client.exchange(&call("next", 10)).status, 200);
    }
}

fn before2(upstream: &Upstream2, shape: impl FnOnce(Policy) -> Policy) -> Gateway {
    let policy = Policy::to_url(&upstream.url()).upstream("http", "2");
    Gateway::start(&shape(policy))
}

/// The streams of large calls, in the order in which they came.
fn large(upstream: &Upstream2) -> Vec<Call> {
    let calls = upstream.log().calls;
    calls
        .into_iter()
        .filter(|call| call.body.len() > 10_000)
        .collect()
}

#[test]
fn an_upstreams_stream_ends_only_with_a_body_that_agrees() {
    let upstream = Upstream2::with(Reply2::usual);
    let gateway = before2(&upstream, |policy| policy);
    let good = call("echo", 1 << 20);
    for (number, framed) in FRAMINGS.into_iter().enumerate() {
        let mut upload = Upload::begin(&gateway, &good, framed);
        let (first, rest) = good.body.split_at(512 << 10);
        upload.piece(first);
        upstream.wait("the beginning", |log| {
            log.calls
                .iter()
                .filter(|call| call.body.len() > BEGUN)
                .count()
                == 2 * number + 1
        });
        assert!(!large(&upstream)[2 * number].complete);
        upload.piece(rest);
        upload.end();
        assert_eq!(upload.answer().status, 200);
        let passed = large(&upstream)[2 * number].clone();
        assert!(passed.complete && passed.body == good.body, "{framed:?}");

        let (mut client, answer) = send(&gateway, &bad(&good), framed);
        Refusal::of(400, -32020)
            .names(&["Mcp-Name"])
            .check("a mismatch", &answer);
        upstream.wait("the reset", |log| {
            log.calls
                .iter()
                .filter(|call| call.reset == Some(CANCEL))
                .count()
                == number + 1
        });
        let refused = large(&upstream)[2 * number + 1].clone();
        assert!(!refused.complete, "{framed:?}");
        assert!(bad(&good).body.starts_with(&refused.body));
        assert_eq!(client.exchange(&call("next", 10)).status, 200);
    }
    assert_eq!(upstream.log().connections.len(), 1, "it serves them all");
}

#[test]
fn an_early_answer_on_an_upstreams_stream() {
    let manners = Manners {
        early: true,
        ..Manners::default()
    };
    let good = call("echo", 4 << 20);
    for framed in FRAMINGS {
        // An error passes at once, and the rest is not wanted.
        let head = Step::Head(503, Vec::new());
        let upstream = Upstream2::mannered(manners, move |_| {
            Reply2::Steps(vec![head.clone(), Step::Last(b"busy".to_vec())])
        });
        let gateway = before2(&upstream, |policy| policy);
        let mut upload = Upload::begin(&gateway, &good, framed);
        upload.piece(&good.body[..512 << 10]);
        let answer = upload.answer();
        assert_eq!((answer.status, answer.text()), (503, "busy".into()));
        upstream.wait("the end of the upload", |log| log.calls[0].reset.is_some());
        assert!(!upstream.log().calls[0].complete);
        upload.piece(&good.body[512 << 10..]);
        upload.end();
        assert_eq!(upload.client.exchange(&call("next", 10)).status, 503);

        // Anything else waits for the verdict.
        let upstream = Upstream2::mannered(manners, |_| {
            Reply2::Steps(vec![Step::json(), Step::Last(b"{}".to_vec())])
        });
        let gateway = before2(&upstream, |policy| policy);
        assert_eq!(send(&gateway, &bad(&good), framed).1.status, 400);
        upstream.wait("the reset", |log| log.calls[0].reset.is_some());
        assert_eq!(send(&gateway, &good, framed).1.status, 200);
        upstream.wait("all of it", |log| log.calls[1].complete);
        assert!(upstream.log().calls[1].body == good.body);
    }
}

#[test]
fn an_upstreams_stream_that_takes_nothing_is_a_timeout() {
    let manners = Manners {
        reads: false,
        ..Manners::default()
    };
    for framed in FRAMINGS {
        let upstream = Upstream2::mannered(manners, Reply2::usual);
        let gateway = before2(&upstream, |policy| {
            policy
                .upstream("response_header_timeout", "300ms")
                .bound("body_idle_timeout", "5s")
        });
        let (mut client, answer) = send(&gateway, &call("echo", 4 << 20), framed);
        Refusal::of(504, 504)
            .names(&["response_header_timeout"])
            .check("a full window", &answer);
        upstream.wait("the reset", |log| log.calls[0].reset == Some(CANCEL));
        // What is left of the connection's window is enough for a small one.
        assert!(matches!(
            client.exchange(&call("next", 10)).status,
            200 | 504
        ));
    }
}

#[test]
fn a_client_that_goes_resets_its_stream_and_no_other() {
    for framed in FRAMINGS {
        let upstream = Upstream2::with(Reply2::usual);
        let gateway = before2(&upstream, |policy| policy);
        let good = call("echo", 4 << 20);
        let mut stays = Upload::begin(&gateway, &good, framed);
        stays.piece(&good.body[..1 << 20]);
        let mut goes = Upload::begin(&gateway, &good, framed);
        goes.piece(&good.body[..1 << 20]);
        upstream.wait("both", |log| {
            log.calls
                .iter()
                .filter(|call| call.body.len() > BEGUN)
                .count()
                == 2
        });
        goes.client.wire.reset();
        upstream.wait("one reset", |log| {
            log.calls.iter().filter(|call| call.reset.is_some()).count() == 1
        });
        stays.piece(&good.body[1 << 20..]);
        stays.end();
        assert_eq!(stays.answer().status, 200);
        let complete = large(&upstream).into_iter().filter(|call| call.complete);
        assert_eq!(complete.count(), 1, "{framed:?}");
    }
}
