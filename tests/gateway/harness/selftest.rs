//! The raw client against the fake upstream directly: what judges the gateway is judged first.

use serde_json::json;

use super::{Client, Fault, Framing, Play, Reply, Request, Upstream, contains, raw_member};

#[test]
fn a_request_arrives_with_the_bytes_it_was_sent_with() {
    let upstream = Upstream::start();
    let request = Request::call("echo").line("X-Odd", b" caf\xc3\xa9 ".as_slice());
    let answer = Client::connect(upstream.address).exchange(&request);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["result"]["content"][0]["text"], "echo");
    let received = upstream.last();
    assert_eq!(received.head.bytes, request.head_bytes());
    assert_eq!(received.body, request.body);
    assert_eq!(received.head.values("x-odd"), ["café"]);
    assert_eq!(upstream.runs("echo"), 1);
}

#[test]
fn one_connection_serves_many_requests_however_they_are_framed() {
    let upstream = Upstream::start();
    let mut client = Client::connect(upstream.address);
    for round in 1..=6 {
        let request = Request::call("echo").id(&format!("{round}"));
        let request = match round % 2 {
            0 => request.chunked(7),
            _ => request,
        };
        let answer = client.exchange(&request);
        assert_eq!(answer.raw_id(), Some(round.to_string()));
        assert_eq!(upstream.last().body, request.body);
    }
    client.dribble(&Request::call("echo").bytes());
    assert_eq!(client.read().status, 200);
    let log = upstream.log();
    assert_eq!((log.connections.len(), log.requests.len()), (1, 7));
    assert!(!client.is_closed());
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let upstream = Upstream::start();
    let mut client = Client::connect(upstream.address);
    let both = [
        Request::call("a").id("\"\"").bytes(),
        Request::call("b").id("0").bytes(),
    ];
    client.send_bytes(&both.concat());
    let ids = [client.read().raw_id(), client.read().raw_id()];
    assert_eq!(ids, [Some("\"\"".to_owned()), Some("0".to_owned())]);
}

#[test]
fn a_request_cut_short_is_known_to_be_incomplete() {
    let upstream = Upstream::start();
    let mut client = Client::connect(upstream.address);
    let bytes = Request::call("echo").bytes();
    client.send_bytes(&bytes[..bytes.len() - 1]);
    client.wire.finish();
    upstream.wait("the end of the connection", |log| {
        matches!(log.ended(0), Some(Fault::Closed(_)))
    });
    assert!(!upstream.last().complete);
    assert_eq!(upstream.runs("echo"), 0);
}

#[test]
fn the_ways_to_go_are_told_apart() {
    let (upstream, _plays) = Upstream::controlled();
    for (number, reset) in [false, true].into_iter().enumerate() {
        let mut client = Client::connect(upstream.address);
        client.send(&Request::call("echo"));
        upstream.wait_for_requests(number + 1);
        match reset {
            true => client.wire.reset(),
            false => client.wire.finish(),
        }
        upstream.wait("the end of the connection", |log| {
            log.ended(number)
                .is_some_and(|ended| (*ended == Fault::Reset) == reset)
        });
    }
}

#[test]
fn an_event_stream_is_written_step_by_step() {
    let (upstream, plays) = Upstream::controlled();
    let mut client = Client::connect(upstream.address);
    client.send(&Request::call("echo"));
    plays.send(Play::sse_head()).unwrap();
    let (head, mut body) = client.read_head();
    assert_eq!(head.value("content-type").unwrap(), "text/event-stream");
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        plays.send(Play::chunk(event)).unwrap();
        assert_eq!(
            client.read_until(&mut body, event.as_bytes()),
            event.as_bytes()
        );
    }
    plays.send(Play::end()).unwrap();
    assert_eq!(body.next(&mut client.wire), Ok(None));
    assert!(!client.is_closed());
}

#[test]
fn unfinished_answers_are_faults() {
    let cases: [(Reply, Fault); 4] = [
        (
            Reply::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
            Fault::Closed(0),
        ),
        (
            Reply::raw_then_close(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            ),
            Fault::Closed(0),
        ),
        (
            Reply::raw_then_reset("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
            Fault::Reset,
        ),
        (Reply::raw_then_close(""), Fault::Closed(0)),
    ];
    for (reply, fault) in cases {
        let upstream = Upstream::with(move |_| reply.clone());
        let mut client = Client::connect(upstream.address);
        client.send(&Request::call("echo"));
        assert_eq!(client.try_read().map(|_| ()), Err(fault));
    }
}

#[test]
fn an_answer_without_length_ends_with_its_connection() {
    let upstream = Upstream::with(|_| Reply::raw_then_close("HTTP/1.1 200 OK\r\n\r\nall"));
    let answer = Client::connect(upstream.address).exchange(&Request::call("echo"));
    assert_eq!(
        (answer.framing, answer.text()),
        (Framing::UntilClose, "all".into())
    );
}

#[test]
fn interim_answers_are_kept_apart() {
    let upstream = Upstream::with(|_| {
        Reply::raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    });
    let answer = Client::connect(upstream.address).exchange(&Request::call("echo"));
    assert_eq!((answer.status, answer.interim), (204, vec![100]));
}

#[test]
fn the_usual_answers_have_the_shapes_of_a_server_of_both_eras() {
    let upstream = Upstream::start();
    let mut client = Client::connect(upstream.address);
    let answer = client.exchange(&Request::initialize("2025-11-25"));
    assert_eq!(answer.head.value("mcp-session-id").unwrap(), "session-1");
    assert_eq!(
        client
            .exchange(&Request::modern_notification("notifications/x"))
            .status,
        202
    );
    assert_eq!(client.exchange(&Request::get()).status, 405);
    assert_eq!(client.exchange(&Request::delete("session-1")).status, 200);
    let response = Request::legacy_message(json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    assert_eq!(client.exchange(&response).status, 202);
}

#[test]
fn raw_members_keep_their_bytes() {
    let document = br#"{"id": 1.0e1 , "a": null}"#;
    assert_eq!(raw_member(document, "id").unwrap(), "1.0e1");
    assert_eq!(raw_member(document, "a").unwrap(), "null");
    assert_eq!(raw_member(document, "b"), None);
    assert!(contains(b"abc", b"bc") && !contains(b"abc", b"cb"));
}
