//! Comments in silence: only where the policy asks for them, and only between events.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Fault, Play, Policy, Reply, Request, Site, Upstream};

const COMMENT: &str = ": keep-alive\n\n";
/// Several times what the policies below wait for.
const LONG: Duration = Duration::from_millis(500);

fn soon(policy: Policy) -> Policy {
    policy.set("/routes/0/streams/keep_alive", json!("50ms"))
}

#[test]
fn a_silent_stream_gets_comments() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, soon);
    for request in [
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::modern("subscriptions/listen", json!({})),
        Request::get(),
    ] {
        let mut client = site.gateway.connect();
        client.send(&request);
        plays.send(Play::sse_head()).unwrap();
        let (_, mut body) = client.read_head();
        let mut seen = client.read_until(&mut body, COMMENT.repeat(2).as_bytes());
        plays.send(Play::chunk("data: 1\n\n")).unwrap();
        seen.extend(client.read_until(&mut body, b"data: 1\n\n"));
        seen.extend(client.read_until(&mut body, COMMENT.as_bytes()));
        plays.send(Play::end()).unwrap();
        while let Some(part) = body.next(&mut client.wire).unwrap() {
            seen.extend(part);
        }
        let seen = String::from_utf8(seen).unwrap();
        assert_eq!(seen.replace(COMMENT, ""), "data: 1\n\n");
        let record = &site.records(1)[0];
        assert_eq!(record["end"], "complete", "{record}");
        assert_eq!(record["bytes_out"], seen.len(), "{record}");
        assert!(!client.is_closed(), "the end of the stream was a clean one");
    }
}

#[test]
fn no_comment_stands_within_an_event() {
    // The upstream stops within each of these, and the event goes on behind the pause.
    for (begun, rest) in [
        ("data: 1", "\n\n"),
        ("data: 1\n", "data: 2\n\n"),
        ("data: 1\r\n", "\r\n"),
        ("data: 1\r", "\n\r\n"),
        ("id: 7\n", "data: 1\n\n"),
        ("event: message\n: note\n", "data: 1\n\n"),
        (": half a com", "ment\n\n"),
    ] {
        let steps = vec![
            Play::sse_head(),
            Play::chunk(begun),
            Play::Pause(LONG),
            Play::chunk(rest),
            Play::end(),
        ];
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        let site = Site::before(upstream, soon);
        let answer = site.gateway.ask(&Request::call("echo"));
        // On a busy machine, one may come before the first byte or behind the last one.
        let text = answer.text();
        let event = format!("{begun}{rest}");
        assert!(text.contains(&event), "{event:?} was cut: {text:?}");
        assert_eq!(text.replace(COMMENT, ""), event);
    }
}

#[test]
fn a_comment_never_comes_before_the_head() {
    let upstream = Upstream::with(|_| {
        Reply::Steps(vec![
            Play::Pause(LONG),
            Play::sse_head(),
            Play::chunk("data: 1\n\n"),
            Play::end(),
        ])
    });
    let site = Site::before(upstream, soon);
    let answer = site.gateway.ask(&Request::call("echo"));
    assert_eq!(answer.head.start, "HTTP/1.1 200 OK");
    assert_eq!(answer.text().replace(COMMENT, ""), "data: 1\n\n");
}

#[test]
fn other_answers_get_no_comments() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (lines, first, rest) in [
        // A document that is written slowly.
        (
            format!("Content-Type: application/json\r\n{chunked}"),
            Play::chunk("{\n\n"),
            vec![Play::chunk("}"), Play::end()],
        ),
        // Events that were counted or coded before they were sent.
        (
            "Content-Type: text/event-stream\r\nContent-Length: 18\r\n".to_owned(),
            Play::Send(b"data: 1\n\n".to_vec()),
            vec![Play::Last(b"data: 2\n\n".to_vec())],
        ),
        (
            format!("Content-Type: text/event-stream\r\nContent-Encoding: br\r\n{chunked}"),
            Play::chunk("coded\n\n"),
            vec![Play::chunk("coded"), Play::end()],
        ),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
        let steps = [vec![Play::Send(head), first, Play::Pause(LONG)], rest].concat();
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        let site = Site::before(upstream, soon);
        let answer = site.gateway.ask(&Request::call("echo"));
        assert!(!answer.text().contains(COMMENT), "{answer:?}");
        assert_eq!(site.records(1)[0]["end"], "complete");
    }
}

#[test]
fn without_the_key_a_stream_keeps_silent() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    plays.send(Play::sse_head()).unwrap();
    let (_, mut body) = client.read_head();
    client.wire.set_patience(LONG);
    assert_eq!(body.next(&mut client.wire), Err(Fault::Silence));
}

#[test]
fn a_mark_behind_a_comment_hides_no_event() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, soon);
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    plays.send(Play::sse_head()).unwrap();
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, COMMENT.as_bytes());
    plays.send(Play::chunk("\u{feff}data: 1\n\n")).unwrap();
    let seen = client.read_until(&mut body, b"data: 1\n\n");
    assert_eq!(
        String::from_utf8(seen).unwrap().replace(COMMENT, ""),
        "data: 1\n\n"
    );
}
