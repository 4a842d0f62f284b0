//! Faults of one HTTP/2 stream, which its neighbours do not notice, and of a connection with several.

use std::time::Duration;

use super::{before2, broken_off, plain, record_of, works2};
use crate::harness::upstream2::{
    CANCEL, Call, INTERNAL_ERROR, Manners, NO_ERROR, REFUSED_STREAM, Reply2, Step, Upstream2, frame,
};
use crate::harness::{Gateway, Request};

/// An upstream that answers the tool `ill` in this way, and others as usual.
fn ill(steps: Vec<Step>) -> Upstream2 {
    Upstream2::with(move |call| match call.tool().as_str() {
        "ill" => Reply2::Steps(steps.clone()),
        _ => Reply2::usual(call),
    })
}

/// The call failed with this status, told in general words; its tool ran once.
fn is_told(what: &str, gateway: &Gateway, upstream: &Upstream2, status: u16) {
    let answer = gateway.ask(&Request::call("ill"));
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(answer.code(), Some(i64::from(status)), "{what}");
    assert_eq!(upstream.runs("ill"), 1, "{what}: never repeated");
    let record = record_of(gateway, "ill");
    assert_eq!(record["end"], "complete", "{what}: {record}");
    assert!(
        record["verdict"]
            .as_str()
            .unwrap_or_default()
            .starts_with("refused:"),
        "{record}"
    );
}

#[test]
fn a_stream_that_is_reset_before_its_answer_is_told() {
    for code in [NO_ERROR, INTERNAL_ERROR, CANCEL, 1, 3, 11, 13, 99] {
        let upstream = ill(vec![Step::Reset(code)]);
        let gateway = before2(&upstream, plain);
        is_told(&format!("code {code}"), &gateway, &upstream, 502);
        works2(&gateway, &upstream, "next");
        assert_eq!(upstream.log().connections.len(), 1, "code {code}");
    }
}

#[test]
fn a_stream_that_is_reset_within_its_answer_breaks_off() {
    let half = b"data: 1\n\ndata: ha".to_vec();
    for code in [NO_ERROR, INTERNAL_ERROR, CANCEL, REFUSED_STREAM] {
        let upstream = ill(vec![
            Step::sse(),
            Step::Data(half.clone()),
            Step::Pause(Duration::from_millis(50)),
            Step::Reset(code),
        ]);
        let gateway = before2(&upstream, plain);
        let mut client = gateway.connect();
        client.send(&Request::call("ill"));
        let what = format!("code {code}");
        assert_eq!(broken_off(&what, &mut client), half, "{what}");
        assert_eq!(
            record_of(&gateway, "ill")["end"],
            "upstream_failed",
            "{what}"
        );
        assert_eq!(upstream.runs("ill"), 1, "{what}");
        works2(&gateway, &upstream, "next");
        assert_eq!(upstream.log().connections.len(), 1, "{what}");
    }
}

#[test]
fn an_answer_of_another_length_than_it_said_breaks_off() {
    let head = Step::Head(200, vec![("content-length", "10".into())]);
    for (what, steps) in [
        (
            "too short",
            vec![head.clone(), Step::Last(b"12345".to_vec())],
        ),
        (
            "too long",
            vec![
                head.clone(),
                Step::Data(b"12345".to_vec()),
                Step::Last(b"1234567".to_vec()),
            ],
        ),
        ("nothing", vec![head.clone(), Step::Last(Vec::new())]),
    ] {
        let upstream = ill(steps);
        let gateway = before2(&upstream, plain);
        let mut client = gateway.connect();
        client.send(&Request::call("ill"));
        let seen = broken_off(what, &mut client);
        assert!(b"12345".starts_with(&seen), "{what}: {seen:?}");
        assert_eq!(
            record_of(&gateway, "ill")["end"],
            "upstream_failed",
            "{what}"
        );
        works2(&gateway, &upstream, "next");
        assert_eq!(upstream.log().connections.len(), 1, "{what}");
    }
}

#[test]
fn what_is_no_http2_ends_the_connection() {
    for (what, bytes) in [
        (
            "another protocol",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
        ),
        ("a window update of nothing", frame(8, 0, 0, &[0; 4])),
        (
            "a header block that no table has",
            frame(1, 5, 1, &[0xff, 0xff, 0xff]),
        ),
        ("a body without a head", frame(0, 1, 1, b"{}")),
        ("a stream that nobody opened", frame(1, 5, 9, &[0x88])),
        ("a promise", frame(5, 4, 1, &[0, 0, 0, 2, 0x88])),
        (
            "a frame longer than was allowed",
            frame(0, 0, 1, &[0; 20_000]),
        ),
    ] {
        let upstream = ill(vec![Step::Raw(bytes)]);
        let gateway = before2(&upstream, plain);
        is_told(what, &gateway, &upstream, 502);
        works2(&gateway, &upstream, "next");
    }
}

#[test]
fn a_connection_that_closes_is_told_or_breaks_off() {
    let upstream = ill(vec![Step::Close]);
    let gateway = before2(&upstream, plain);
    is_told("closed", &gateway, &upstream, 502);
    works2(&gateway, &upstream, "next");

    let steps = vec![
        Step::sse(),
        Step::Data(b"data: 1\n\n".to_vec()),
        Step::Pause(Duration::from_millis(50)),
        Step::Close,
    ];
    let upstream = ill(steps);
    let gateway = before2(&upstream, plain);
    let mut client = gateway.connect();
    client.send(&Request::call("ill"));
    assert_eq!(broken_off("closed", &mut client), b"data: 1\n\n");
    assert_eq!(record_of(&gateway, "ill")["end"], "upstream_failed");
    works2(&gateway, &upstream, "next");
}

#[test]
fn a_request_that_was_refused_unread_is_sent_again() {
    let upstream = Upstream2::with(|call: &Call| match (call.tool().as_str(), call.stream) {
        ("busy", 1) | ("always", _) => Reply2::Steps(vec![Step::Reset(REFUSED_STREAM)]),
        _ => Reply2::usual(call),
    });
    let gateway = before2(&upstream, plain);
    let answer = gateway.ask(&Request::call("busy"));
    assert_eq!(
        (answer.status, upstream.runs("busy")),
        (200, 2),
        "{answer:?}"
    );
    let log = upstream.log();
    let calls = log.calls_of("busy");
    assert_eq!(calls[0].body, calls[1].body);
    let answer = gateway.ask(&Request::call("always"));
    assert_eq!(
        (answer.status, upstream.runs("always")),
        (502, 3),
        "{answer:?}"
    );
}

#[test]
fn a_late_answer_resets_its_stream_alone() {
    let upstream = Upstream2::with(|call| match call.tool().as_str() {
        "ill" => Reply2::silence(),
        _ => Reply2::usual(call),
    });
    let gateway = before2(&upstream, |policy| {
        policy.upstream("response_header_timeout", "200ms")
    });
    is_told("late", &gateway, &upstream, 504);
    upstream.wait("the reset", |log| log.calls[0].reset == Some(CANCEL));
    works2(&gateway, &upstream, "next");
    assert_eq!(upstream.log().connections.len(), 1);
}

#[test]
fn streams_below_the_last_one_of_a_goaway_finish() {
    let (upstream, begun) = Upstream2::staged(Manners::default());
    let gateway = before2(&upstream, plain);
    let ask = |tool: &str| {
        let mut client = gateway.connect();
        client.send(&Request::call(tool));
        let (call, steps) = begun.recv().unwrap();
        (client, call, steps)
    };
    let (mut first, below, first_steps) = ask("below");
    let (mut second, _, _second_steps) = ask("above");
    first_steps
        .send(Step::GoAway(below.stream, NO_ERROR))
        .unwrap();
    let told = second.read();
    assert_eq!((told.status, told.code()), (502, Some(502)), "{told:?}");
    assert_eq!(
        upstream.runs("above"),
        1,
        "not known to be untouched, so not repeated"
    );
    let (mut third, call, third_steps) = ask("new");
    assert_eq!(call.connection, 1, "a closing connection takes no more");
    for (client, steps) in [(&mut first, first_steps), (&mut third, third_steps)] {
        steps.send(Step::json()).unwrap();
        steps.send(Step::Last(b"{}".to_vec())).unwrap();
        assert_eq!(client.read().text(), "{}");
    }
    upstream.wait("the end of the first connection", |log| {
        log.connections[0].is_some()
    });
    assert_eq!(upstream.log().open(), 1);
}

#[test]
fn a_goaway_that_is_followed_by_the_end_breaks_streams_off() {
    for (last, code) in [
        (1, NO_ERROR),
        (u32::MAX >> 1, NO_ERROR),
        (1, INTERNAL_ERROR),
    ] {
        let upstream = ill(vec![
            Step::sse(),
            Step::Data(b"data: 1\n\n".to_vec()),
            Step::GoAway(last, code),
            Step::Pause(Duration::from_millis(50)),
            Step::Close,
        ]);
        let gateway = before2(&upstream, plain);
        let mut client = gateway.connect();
        client.send(&Request::call("ill"));
        assert_eq!(broken_off("after a goaway", &mut client), b"data: 1\n\n");
        assert_eq!(record_of(&gateway, "ill")["end"], "upstream_failed");
        works2(&gateway, &upstream, "next");
        assert_eq!(upstream.runs("ill"), 1);
    }
}

#[test]
fn a_goaway_before_the_answer_runs_nothing_twice() {
    for (last, code) in [
        (0, NO_ERROR),
        (1, NO_ERROR),
        (0, INTERNAL_ERROR),
        (1, INTERNAL_ERROR),
    ] {
        let upstream = ill(vec![Step::GoAway(last, code), Step::Close]);
        let gateway = before2(&upstream, plain);
        is_told("a goaway", &gateway, &upstream, 502);
        works2(&gateway, &upstream, "next");
    }
}

/// This call with more in it than a stream's window. Of a legacy one, the gateway has all before it
/// sends any of it.
fn large(call: Request) -> Request {
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(1_000_000));
    call.edit("\"arguments\":{}", &large)
}

#[test]
fn an_answer_that_comes_before_the_request_was_read_is_the_answer() {
    for (what, end) in [
        ("the rest is not wanted", Some(Step::Reset(NO_ERROR))),
        ("the rest is read", None),
    ] {
        for status in [200, 413] {
            let end = end.clone();
            let reads = end.is_none();
            let manners = Manners {
                reads,
                early: true,
                ..Manners::default()
            };
            let upstream = Upstream2::mannered(manners, move |_| {
                let steps = [Step::Head(status, Vec::new()), Step::Last(b"{}".to_vec())];
                Reply2::Steps(steps.into_iter().chain(end.clone()).collect())
            });
            let gateway = before2(&upstream, plain);
            for _ in 0..10 {
                let answer = gateway.ask(&large(Request::legacy_call("large")));
                assert_eq!(
                    (answer.status, answer.text().as_str()),
                    (status, "{}"),
                    "{what}"
                );
            }
            let records = gateway.wait_for_records(10);
            assert!(
                records.iter().all(|r| r["end"] == "complete"),
                "{what}: {records:?}"
            );
            if reads {
                upstream.wait("every body", |log| {
                    log.calls.iter().all(|call| call.complete)
                });
            }
        }
    }
}

#[test]
fn an_upload_that_nobody_reads_ends_with_its_answer() {
    let manners = Manners {
        reads: false,
        early: true,
        ..Manners::default()
    };
    let upstream = Upstream2::mannered(manners, |_| {
        Reply2::Steps(vec![Step::json(), Step::Last(b"{}".to_vec())])
    });
    let gateway = before2(&upstream, |policy| policy.upstream("idle_timeout", "300ms"));
    assert_eq!(
        gateway.ask(&large(Request::legacy_call("large"))).status,
        200
    );
    upstream.wait("the reset of the stream", |log| {
        log.calls[0].reset == Some(CANCEL)
    });
    upstream.wait("the end of the idle connection", |log| log.open() == 0);
}

#[test]
fn interim_answers_redirects_and_trailers() {
    let interim = || Step::Head(103, vec![("link", "</a>".into())]);
    let moved = vec![("location", "http://elsewhere.invalid/mcp".to_owned())];
    let upstream = ill(vec![
        interim(),
        interim(),
        Step::Head(307, moved),
        Step::Last(Vec::new()),
    ]);
    let gateway = before2(&upstream, plain);
    let answer = gateway.ask(&Request::call("ill"));
    assert_eq!((answer.status, answer.interim.as_slice()), (307, &[][..]));
    assert_eq!(
        answer.head.value("location").unwrap(),
        "http://elsewhere.invalid/mcp"
    );
    assert_eq!(upstream.runs("ill"), 1, "never followed");

    // A field without a name table: `x: y`, behind the body.
    let trailers = frame(1, 5, 1, &[0, 1, b'x', 1, b'y']);
    let upstream = ill(vec![
        Step::json(),
        Step::Data(b"{}".to_vec()),
        Step::Raw(trailers),
    ]);
    let gateway = before2(&upstream, plain);
    assert_eq!(gateway.ask(&Request::call("ill")).text(), "{}");
    assert_eq!(record_of(&gateway, "ill")["end"], "complete");
    works2(&gateway, &upstream, "next");
    assert_eq!(upstream.log().connections.len(), 1);
}

#[test]
fn an_answer_that_begins_twice_breaks_off() {
    for status in [103, 200] {
        let upstream = ill(vec![
            Step::sse(),
            Step::Data(b"data: 1\n\n".to_vec()),
            Step::Pause(Duration::from_millis(50)),
            Step::Head(status, Vec::new()),
            Step::Last(b"data: 2\n\n".to_vec()),
        ]);
        let gateway = before2(&upstream, plain);
        let mut client = gateway.connect();
        client.send(&Request::call("ill"));
        let what = format!("a second head, {status}");
        assert_eq!(broken_off(&what, &mut client), b"data: 1\n\n");
        assert_eq!(record_of(&gateway, "ill")["end"], "upstream_failed");
        works2(&gateway, &upstream, "next");
    }
}

#[test]
fn an_answer_that_trickles_is_whole() {
    let body = "data: 1\n\n: a word\n\ndata: \u{fc}\n\n";
    let pieces = body.bytes().flat_map(|byte| {
        let pause = Step::Pause(Duration::from_micros(500));
        [Step::Data(vec![byte]), pause]
    });
    let steps = std::iter::once(Step::sse()).chain(pieces);
    let upstream = ill(steps.chain([Step::Last(Vec::new())]).collect());
    let gateway = before2(&upstream, plain);
    assert_eq!(gateway.ask(&Request::call("ill")).text(), body);
    assert_eq!(record_of(&gateway, "ill")["end"], "complete");
    works2(&gateway, &upstream, "next");
    assert_eq!(upstream.log().connections.len(), 1);
}

#[test]
fn interim_answers_without_end_are_no_answer() {
    let interim = |_| {
        [
            Step::Head(103, Vec::new()),
            Step::Pause(Duration::from_millis(1)),
        ]
    };
    let upstream = ill((0..10_000).flat_map(interim).collect());
    let gateway = before2(&upstream, |policy| {
        policy.upstream("response_header_timeout", "300ms")
    });
    is_told("no answer", &gateway, &upstream, 504);
    upstream.wait("the reset", |log| log.calls[0].reset == Some(CANCEL));
    works2(&gateway, &upstream, "next");
}

#[test]
fn a_server_that_never_reads_is_a_timeout() {
    let manners = Manners {
        reads: false,
        ..Manners::default()
    };
    let upstream = Upstream2::mannered(manners, |_| Reply2::silence());
    let gateway = before2(&upstream, |policy| {
        policy.upstream("response_header_timeout", "300ms")
    });
    let answer = gateway.ask(&large(Request::call("large")));
    assert_eq!(
        (answer.status, answer.code()),
        (504, Some(504)),
        "{answer:?}"
    );
    assert!(
        answer.text().contains("response_header_timeout"),
        "{answer:?}"
    );
    upstream.wait("the reset", |log| log.calls[0].reset == Some(CANCEL));
    assert!(!upstream.log().calls[0].complete);
    assert_eq!(upstream.log().open(), 1, "the connection is left alone");
}
