//! Upstreams that fall silent in the middle of an answer: it breaks off, and the log says which
//! limit it was.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Fault, Play, Policy, Reply, Request, Site, Upstream};

/// The answer breaks off, its upstream's request ends, and the next call works.
fn breaks_off(what: &str, steps: Vec<Play>, shape: fn(Policy) -> Policy, limit: &str) {
    let upstream = Upstream::with(
        move |request| match request.json()["params"]["name"].as_str() {
            Some("good") => Reply::usual(request),
            _ => Reply::Steps(steps.clone()),
        },
    );
    let site = Site::before(upstream, shape);
    for request in [Request::call("echo"), Request::legacy_call("echo")] {
        let fault = site.gateway.connect().try_exchange(&request);
        let fault = fault.expect_err(what);
        assert!(
            matches!(fault, Fault::Closed(_) | Fault::Reset),
            "{what}: {fault:?}"
        );
        let connection = site.upstream.last().connection;
        site.upstream.wait("the end of the request", |log| {
            log.ended(connection).is_some()
        });
        let record = &site.records(1)[0];
        assert_eq!(record["end"], format!("limit:{limit}"), "{what}: {record}");
        assert_eq!(record["status"], 200, "{what}: {record}");
    }
    assert_eq!(site.upstream.runs("echo"), 2, "{what}: never repeated");
    site.works(what, &mut site.gateway.connect());
}

fn streams(policy: Policy) -> Policy {
    policy.set("/routes/0/streams/idle_timeout", json!("200ms"))
}

fn answers(policy: Policy) -> Policy {
    policy.upstream("response_idle_timeout", "200ms")
}

#[test]
fn a_stream_that_is_silent_for_too_long() {
    for begun in [
        vec![],
        vec![Play::chunk("data: 1\n\n")],
        vec![Play::chunk("data: ha")],
    ] {
        let steps = [vec![Play::sse_head()], begun].concat();
        breaks_off("a stream", steps, streams, "streams.idle_timeout");
    }
}

#[test]
fn our_own_comments_are_no_word_of_the_upstream() {
    let shape = |policy| streams(policy).set("/routes/0/streams/keep_alive", json!("20ms"));
    let steps = vec![Play::sse_head(), Play::chunk("data: 1\n\n")];
    breaks_off("comments", steps, shape, "streams.idle_timeout");
}

#[test]
fn an_answer_that_pauses_for_too_long() {
    let head = |framing: &str| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{framing}\r\n\r\n");
        Play::Send(head.into_bytes())
    };
    for (what, steps) in [
        (
            "a length",
            vec![head("Content-Length: 9"), Play::Send(b"{\"a\"".to_vec())],
        ),
        ("no byte of it", vec![head("Content-Length: 9")]),
        (
            "chunks",
            vec![head("Transfer-Encoding: chunked"), Play::chunk("{\"a\":1}")],
        ),
    ] {
        breaks_off(what, steps, answers, "response_idle_timeout");
    }
}

#[test]
fn each_kind_of_answer_has_its_own_limit() {
    for (shape, steps) in [
        (
            answers as fn(Policy) -> Policy,
            vec![
                Play::sse_head(),
                Play::Pause(Duration::from_millis(600)),
                Play::chunk("data: 1\n\n"),
                Play::end(),
            ],
        ),
        (
            streams,
            vec![
                Play::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec()),
                Play::Pause(Duration::from_millis(600)),
                Play::Last(b"{}".to_vec()),
            ],
        ),
    ] {
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        let site = Site::before(upstream, shape);
        assert_eq!(site.gateway.ask(&Request::call("echo")).status, 200);
        assert_eq!(site.records(1)[0]["end"], "complete");
    }
}

#[test]
fn an_answer_that_goes_on_may_take_long() {
    let mut steps = vec![Play::sse_head()];
    for _ in 0..15 {
        steps.extend([
            Play::Pause(Duration::from_millis(100)),
            Play::chunk("data: 1\n\n"),
        ]);
    }
    steps.push(Play::end());
    let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
    let site = Site::before(upstream, |policy| {
        policy.set("/routes/0/streams/idle_timeout", json!("1s"))
    });
    let answer = site.gateway.ask(&Request::call("echo"));
    assert_eq!(answer.text(), "data: 1\n\n".repeat(15));
}
