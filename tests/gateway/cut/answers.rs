//! Upstreams that answer early, break off, stall or are not there.

use std::time::Duration;

use super::sink::{Manner, Sink, Then};
use super::{BEGUN, FRAMINGS, Upload, before, call, send};
use crate::harness::{Gateway, Policy, Refusal, eventually};

const EARLY: usize = 100 << 10;

fn answering(answer: &str, then: Then) -> Sink {
    Sink::with(Manner {
        answer_at: Some((EARLY, answer.as_bytes().to_vec())),
        then,
        ..Manner::default()
    })
}

const ACCEPTED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
const MOVED: &str = "HTTP/1.1 307 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy";
const TOO_LARGE: &str =
    "HTTP/1.1 413 Large\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlarge\r\n0\r\n\r\n";

#[test]
fn an_answer_before_the_verdict_waits_for_it() {
    for (answer, status) in [(ACCEPTED, 200), (MOVED, 307)] {
        for then in [Then::ReadOn, Then::Close] {
            for framed in FRAMINGS {
                let sink = answering(answer, then);
                let gateway = before(&sink, |policy| policy);
                let good = call("echo", 1 << 20);
                let bad = good.clone().edit("\"name\":\"echo\"", "\"name\":\"evil\"");
                for (request, expected) in [(&bad, 400), (&good, status)] {
                    let mut upload = Upload::begin(&gateway, request, framed);
                    let (first, rest) = request.body.split_at(512 << 10);
                    upload.piece(first);
                    sink.wait_for_bytes(EARLY);
                    upload.piece(rest);
                    upload.end();
                    let answer = upload.answer();
                    assert_eq!(answer.status, expected, "{then:?}, {framed:?}: {answer:?}");
                    if expected == 400 {
                        assert!(!sink.broke_off("a mismatch").is_complete());
                    } else if matches!(then, Then::ReadOn) {
                        // A read that ends this request must not hold the beginning of the next.
                        sink.wait("all of it", |seen| seen.is_complete());
                    }
                    assert_eq!(upload.client.exchange(&call("next", 10)).status, 200);
                }
            }
        }
    }
}

#[test]
fn an_early_error_passes_at_once_and_ends_the_upload() {
    for (early, status, text) in [(BUSY, 503, "busy"), (TOO_LARGE, 413, "large")] {
        for then in [Then::ReadOn, Then::Close] {
            for framed in FRAMINGS {
                let sink = answering(early, then);
                let gateway = before(&sink, |policy| policy);
                let request = call("echo", 4 << 20);
                let (first, rest) = request.body.split_at(512 << 10);
                let mut upload = Upload::begin(&gateway, &request, framed);
                upload.piece(first);
                // The answer is here although the body is not.
                let answer = upload.answer();
                assert_eq!(
                    (answer.status, answer.text()),
                    (status, text.into()),
                    "{then:?} {framed:?}"
                );
                // A client that sends no more holds no connection of the upstream.
                sink.broke_off("an early error");
                // One that goes on is read, and its connection serves the next exchange.
                upload.piece(rest);
                upload.end();
                assert_eq!(upload.client.exchange(&call("next", 10)).status, 200);
                let record = &gateway.wait_for_records(2)[0];
                assert_eq!(
                    (&record["verdict"], &record["upstream_status"]),
                    (&"forwarded".into(), &status.into())
                );
                assert_eq!(record["body"], "streamed");
            }
        }
    }
}

#[test]
fn an_early_error_is_read_by_a_client_that_sends_everything_first() {
    for framed in FRAMINGS {
        let sink = answering(BUSY, Then::ReadOn);
        let gateway = before(&sink, |policy| policy);
        let (mut client, answer) = send(&gateway, &call("echo", 8 << 20), framed);
        assert_eq!(
            (answer.status, answer.text()),
            (503, "busy".into()),
            "{framed:?}"
        );
        assert_eq!(client.exchange(&call("next", 10)).status, 200);
    }
}

#[test]
fn an_upstream_that_breaks_off_is_told() {
    for then in [Then::Close, Then::Reset] {
        for framed in FRAMINGS {
            let sink = answering("", then);
            let gateway = before(&sink, |policy| policy);
            let request = call("echo", 4 << 20);
            let (mut client, answer) = send(&gateway, &request, framed);
            Refusal::of(502, 502)
                .names(&["up"])
                .check("broke off", &answer);
            assert_eq!(
                client.exchange(&call("next", 10)).status,
                200,
                "{then:?} {framed:?}"
            );
            assert_eq!(sink.requests().len(), 2, "never repeated");
        }
    }
}

#[test]
fn an_upstream_that_is_not_there_is_told() {
    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let gateway = Gateway::start(&Policy::to_url(&format!("http://{address}/mcp")));
    for framed in FRAMINGS {
        let (mut client, answer) = send(&gateway, &call("echo", 4 << 20), framed);
        Refusal::of(502, 502).check("nobody", &answer);
        assert_eq!(client.exchange(&call("next", 10)).status, 502);
    }
}

#[test]
fn an_upstream_that_does_not_read_stops_its_client() {
    for framed in FRAMINGS {
        let sink = Sink::with(Manner {
            pause_at: Some(1),
            ..Manner::default()
        });
        // Silence of the client is not what is waited for here.
        let gateway = before(&sink, |policy| policy.bound("body_idle_timeout", "500ms"));
        let request = call("echo", 60 << 20);
        let mut upload = Upload::begin(&gateway, &request, framed);
        let begun = gateway.memory();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for piece in request.body.chunks(1 << 20) {
                    upload.piece(piece);
                }
                upload.end();
            });
            sink.wait_for_bytes(1);
            std::thread::sleep(Duration::from_millis(1500));
            assert!(!sending.is_finished(), "nobody takes 60 MiB");
            let memory = gateway.memory();
            assert!(memory < begun + (8 << 20), "{memory} bytes, {begun} before");
            sink.go_on();
            sending.join().expect("all of it is taken");
        });
        assert_eq!(upload.answer().status, 200);
        assert!(sink.last().body() == request.body, "{framed:?}");
    }
}

#[test]
fn an_upstream_that_never_reads_on_is_a_timeout() {
    for framed in FRAMINGS {
        let sink = Sink::with(Manner {
            pause_at: Some(1),
            ..Manner::default()
        });
        let gateway = before(&sink, |policy| {
            policy
                .upstream("response_header_timeout", "300ms")
                .bound("drain_bytes_max", "128Mi")
        });
        let (_, answer) = send(&gateway, &call("echo", 60 << 20), framed);
        Refusal::of(504, 504)
            .names(&["response_header_timeout"])
            .check("stalled", &answer);
        sink.go_on();
        sink.broke_off("a timeout");
    }
}

#[test]
fn the_time_for_an_answer_runs_from_the_end_of_the_upload() {
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| {
            policy.upstream("response_header_timeout", "2s")
        });
        let request = call("echo", 1 << 20);
        let mut upload = Upload::begin(&gateway, &request, framed);
        for piece in request.body.chunks(request.body.len() / 8) {
            upload.piece(piece);
            std::thread::sleep(Duration::from_millis(400));
        }
        upload.end();
        assert_eq!(upload.answer().status, 200, "{framed:?}");
        // And it does run from there.
        let silent = answering("HTTP/1.1 ", Then::ReadOn);
        let gateway = before(&silent, |policy| {
            policy.upstream("response_header_timeout", "300ms")
        });
        let (_, answer) = send(&gateway, &request, framed);
        Refusal::of(504, 504)
            .with_some_id()
            .check("silent", &answer);
        assert!(silent.last().is_complete());
        eventually("the connection ends", || silent.last().ended.is_some());
    }
}

#[test]
fn several_upload_at_once() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let begun = gateway.memory();
    std::thread::scope(|scope| {
        for number in 0..12 {
            let gateway = &gateway;
            scope.spawn(move || {
                let framed = FRAMINGS[number % 2];
                let request = call(&format!("tool-{number}"), (2 + number % 3) << 20);
                let bad = request
                    .clone()
                    .edit(&format!("\"name\":\"tool-{number}\""), "\"name\":\"x\"");
                for (request, status) in [(&request, 200), (&bad, 400), (&request, 200)] {
                    let mut upload = Upload::begin(gateway, request, framed);
                    for piece in request.body.chunks(BEGUN) {
                        upload.piece(piece);
                    }
                    upload.end();
                    assert_eq!(upload.answer().status, status, "{number}");
                }
            });
        }
    });
    let memory = gateway.memory_peak() - begun;
    println!("12 uploads at once: {} KiB", memory >> 10);
    assert!(memory < 24 << 20, "{memory} bytes");
    let complete: Vec<_> = sink
        .requests()
        .into_iter()
        .filter(super::sink::Seen::is_complete)
        .collect();
    assert_eq!(complete.len(), 24);
    for seen in complete {
        let name = seen.head().unwrap().value("mcp-name").unwrap();
        let body = seen.body();
        assert!(
            body.ends_with(format!("\"name\":\"{name}\"}},\"method\":\"tools/call\"}}").as_bytes())
        );
    }
}
