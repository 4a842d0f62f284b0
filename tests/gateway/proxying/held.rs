//! Answers that must be read before they go on: within bounds, in time, and only what clients
//! would read.

use serde_json::json;

use crate::harness::{
    Framing, LEGACY, Play, Policy, Reply, Request, Response, Site, Upstream, in_session,
};

const ACCEPTED: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const EVENTS: &str = "Content-Type: text/event-stream\r\nMcp-Session-Id: s\r\n";

/// A server that answers a handshake like this, and everything else as usual.
fn greeting(reply: Reply) -> Upstream {
    Upstream::with(
        move |request| match request.json()["method"] == "initialize" {
            true => reply.clone(),
            false => Reply::usual(request),
        },
    )
}

fn site(reply: Reply, shape: impl FnOnce(Policy) -> Policy) -> Site {
    Site::before(greeting(reply), shape)
}

/// The client is told that the answer cannot be read, and the session that it opened is ended.
fn ends_the_handshake(what: &str, site: &Site, answer: &Response) {
    assert_eq!(answer.status, 200, "{what}: told in band: {answer:?}");
    assert_eq!(answer.code(), Some(502), "{what}: {answer:?}");
    assert_eq!(answer.raw_id().as_deref(), Some("1"), "{what}");
    assert!(!answer.head.has("mcp-session-id"), "{what}: {answer:?}");
    site.upstream.wait("a DELETE of the session", |log| {
        let mut deletes = log.requests.iter().filter(|r| r.method == "DELETE");
        deletes.any(|request| request.head.value("mcp-session-id").as_deref() == Some("s"))
    });
    site.upstream.wait("the end of the answer", |log| {
        let greeted = log
            .requests
            .iter()
            .find(|r| r.json()["method"] == "initialize");
        greeted.is_some_and(|request| log.ended(request.connection).is_some())
    });
    let record = &site.records(1)[0];
    assert_eq!(record["verdict"], "refused:upstream_unreadable", "{record}");
    // A session that is none makes no version known.
    assert_eq!(
        site.gateway.ask(&in_session("s")).code(),
        Some(-32020),
        "{what}"
    );
}

#[test]
fn a_primed_stream_of_a_handshake_passes_as_it_came() {
    for end in ["\n", "\r\n", "\r"] {
        for prime in [
            vec!["id: e-1", "data: ", ""],
            vec!["id: e-1", "data", ""],
            vec!["id: e-1", ""],
            vec!["event: message", "id: e-1", "data:", "retry: 500", ""],
            vec![": primed", ""],
            vec!["event: ping", "data: not a message", ""],
        ] {
            let result = format!("data: {ACCEPTED}");
            let lines = [
                prime.clone(),
                vec!["event: message", "id: e-2", &result, "", ""],
            ];
            let stream = lines.concat().join(end);
            for reply in [
                Reply::with_lines(200, EVENTS, &stream),
                Reply::Steps(vec![
                    Play::Send(
                        format!("HTTP/1.1 200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n\r\n")
                            .into_bytes(),
                    ),
                    Play::chunk(&stream[..9]),
                    Play::chunk(&stream[9..]),
                    Play::end(),
                ]),
            ] {
                let site = site(reply, |policy| policy);
                let answer = site.gateway.ask(&Request::initialize(LEGACY));
                assert_eq!(answer.text(), stream, "{stream:?}");
                assert_eq!(answer.head.value("mcp-session-id").unwrap(), "s");
                let record = &site.records(1)[0];
                assert_eq!(record["version"], LEGACY, "{record}");
                site.forwards("the next call", &in_session("s"));
            }
        }
    }
}

#[test]
fn a_version_in_an_event_that_clients_pass_over_settles_nothing() {
    let refused = ACCEPTED.replace(LEGACY, "2024-11-05");
    for (passed_over, chosen, code) in [
        (ACCEPTED, refused.as_str(), Some(-32602)),
        (refused.as_str(), ACCEPTED, None),
    ] {
        let stream = format!("event: other\ndata: {passed_over}\n\ndata: {chosen}\n\n");
        let site = site(Reply::with_lines(200, EVENTS, &stream), |policy| policy);
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        assert_eq!(answer.code(), code, "{answer:?}");
    }
}

#[test]
fn an_answer_over_the_bound_is_not_passed_on() {
    let padded = |bytes: usize| {
        let padding = "x".repeat(bytes - ACCEPTED.len() - r#""p":"","#.len());
        ACCEPTED.replacen('{', &format!("{{\"p\":\"{padding}\","), 1)
    };
    let json = "Content-Type: application/json\r\nMcp-Session-Id: s\r\n";
    let bound = |policy: Policy| policy.bound("buffer_bytes", "8Ki");
    let fits = padded(8 << 10);
    let site = site(Reply::with_lines(200, json, &fits), bound);
    let answer = site.gateway.ask(&Request::initialize(LEGACY));
    assert_eq!(answer.text(), fits);
    for (what, reply) in [
        (
            "a document",
            Reply::with_lines(200, json, padded((8 << 10) + 1)),
        ),
        (
            "a long document",
            Reply::with_lines(200, json, padded(4 << 20)),
        ),
        (
            "an event",
            Reply::with_lines(200, EVENTS, format!("data: {}\n\n", padded(8 << 10))),
        ),
        (
            "many events before it",
            Reply::with_lines(
                200,
                EVENTS,
                format!("{}data: {ACCEPTED}\n\n", ": ping\n\n".repeat(2000)),
            ),
        ),
    ] {
        let site = self::site(reply, bound);
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        assert!(answer.text().contains("bounds.buffer_bytes"), "{answer:?}");
        ends_the_handshake(what, &site, &answer);
    }
}

#[test]
fn an_answer_that_breaks_off_is_not_passed_on() {
    let half = &ACCEPTED[..40];
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\n";
    let events = format!("HTTP/1.1 200 OK\r\n{EVENTS}");
    for bytes in [
        format!("{json}Content-Length: {}\r\n\r\n{half}", ACCEPTED.len()),
        format!("{json}Transfer-Encoding: chunked\r\n\r\n28\r\n{half}\r\n"),
        // The document is whole, but nobody says so.
        format!(
            "{json}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{ACCEPTED}\r\n",
            ACCEPTED.len()
        ),
        format!("{events}Content-Length: 300\r\n\r\ndata: {half}"),
        // An event without the blank line at its end is none.
        format!(
            "{events}Content-Length: {}\r\n\r\ndata: {ACCEPTED}\n",
            ACCEPTED.len() + 7
        ),
        format!("{events}Content-Length: 0\r\n\r\n"),
    ] {
        let site = site(Reply::raw_then_close(bytes.as_str()), |policy| policy);
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        ends_the_handshake(&bytes, &site, &answer);
    }
}

#[test]
fn an_answer_that_never_ends_is_given_up() {
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\n";
    let events = format!("HTTP/1.1 200 OK\r\n{EVENTS}Transfer-Encoding: chunked\r\n\r\n");
    for bytes in [
        format!("{json}Content-Length: 500\r\n\r\n{ACCEPTED}"),
        format!("{json}Transfer-Encoding: chunked\r\n\r\n"),
        events.clone(),
        format!("{events}8\r\n: ping\n\n\r\n"),
    ] {
        let site = site(Reply::raw(bytes.as_str()), |policy| {
            policy.upstream("response_header_timeout", "300ms")
        });
        let answer = site.gateway.ask(&Request::initialize(LEGACY));
        assert!(
            answer.text().contains("response_header_timeout"),
            "{answer:?}"
        );
        ends_the_handshake(&bytes, &site, &answer);
    }
}

#[test]
fn a_client_that_goes_while_its_answer_is_held_ends_it() {
    for request in [
        Request::initialize(LEGACY),
        Request::modern("server/discover", json!({})),
    ] {
        let (upstream, answers) = Upstream::staged();
        let site = Site::before(upstream, |policy| policy);
        let mut client = site.gateway.connect();
        client.send(&request);
        let plays = answers.recv().unwrap();
        plays.send(Play::sse_head()).unwrap();
        plays.send(Play::chunk(": ping\n\n")).unwrap();
        drop(client);
        site.upstream
            .wait("the end of the request", |log| log.ended(0).is_some());
        assert_eq!(site.records(1)[0]["end"], "client_gone");
    }
}

#[test]
fn a_probe_whose_answer_cannot_be_read_is_told_so_outside_the_protocol() {
    for reply in [
        Reply::json(200, "not json"),
        Reply::json(
            200,
            r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":"2026-07-28"}}"#,
        ),
        Reply::raw_then_close(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        ),
        Reply::json(200, "x".repeat(100_000)),
    ] {
        let upstream = Upstream::with(move |_| reply.clone());
        let site = Site::before(upstream, |policy| policy);
        let answer = site
            .gateway
            .ask(&Request::modern("server/discover", json!({})));
        assert_eq!(answer.status, 502, "{answer:?}");
        let kind = answer.head.value("content-type").unwrap();
        assert_eq!(kind, "application/problem+json", "{answer:?}");
        assert_ne!(answer.framing, Framing::UntilClose);
    }
}
