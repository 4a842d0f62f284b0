//! Event streams: as bytes, as soon as the bytes are there.

use serde_json::json;

use crate::harness::{Fault, Framing, Play, Reply, Request, Site, Upstream};

/// Streams of real servers and odd ones: every line end, comments, fields in any order, and data
/// that only looks like an end.
const STREAMS: &[&str] = &[
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
    ":\n\n: keepalive\n\ndata: 1\n\n",
    ": ping\r\n\r\ndata: 1\r\n\r\n",
    "\u{feff}data: 1\n\n",
    "data: 1\rdata: 2\r\r",
    "id: 7\nretry: 10\ndata\ndata:x\ndata: {\n data: }\n\n\n\n",
    "data: an event without its end",
    "data: \0\u{1f600}\n\n",
    "",
];

#[test]
fn a_stream_keeps_its_bytes_however_it_is_framed() {
    for stream in STREAMS {
        let length = Reply::with_lines(200, "Content-Type: text/event-stream\r\n", stream);
        let mut replies = vec![length];
        // A chunk of no bytes would be the end.
        if !stream.is_empty() {
            replies.push(Reply::sse(stream));
        }
        for reply in replies {
            let site = Site::before(Upstream::with(move |_| reply.clone()), |policy| policy);
            for request in [Request::call("echo"), Request::legacy_call("echo")] {
                let mut client = site.gateway.connect();
                let answer = client.exchange(&request);
                assert_eq!((answer.status, answer.text().as_str()), (200, *stream));
                let kind = answer.head.value("content-type").unwrap();
                assert_eq!(kind, "text/event-stream");
                assert!(answer.framing != Framing::UntilClose, "{stream:?}");
                assert_eq!(client.exchange(&request).text(), *stream);
                let end = match *stream {
                    "" => "no_response",
                    stream if stream.ends_with("its end") => "half_event",
                    _ => "complete",
                };
                for record in site.records(2) {
                    assert_eq!(record["end"], end, "{record}");
                    assert_eq!(record["bytes_out"], stream.len(), "{record}");
                }
            }
        }
    }
}

#[test]
fn headers_come_before_the_first_event() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    for request in [
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::modern("subscriptions/listen", json!({"toolsListChanged": true})),
        Request::get(),
    ] {
        let mut client = site.gateway.connect();
        client.send(&request);
        plays.send(Play::sse_head()).unwrap();
        // Nothing else has been written yet: the head is all that there is to read.
        let (head, mut body) = client.read_head();
        assert_eq!(head.status(), 200);
        assert_eq!(head.value("x-accel-buffering").as_deref(), Some("no"));
        plays.send(Play::chunk("data: late\n\n")).unwrap();
        client.read_until(&mut body, b"data: late\n\n");
        plays.send(Play::end()).unwrap();
        assert_eq!(body.next(&mut client.wire), Ok(None));
    }
}

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    for request in [
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::get(),
    ] {
        let mut client = site.gateway.connect();
        client.send(&request);
        plays.send(Play::sse_head()).unwrap();
        let (_, mut body) = client.read_head();
        for number in 0..20 {
            let event = format!("event: message\ndata: {{\"n\":{number}}}\n\n");
            plays.send(Play::chunk(&event)).unwrap();
            let came = client.read_until(&mut body, event.as_bytes());
            assert_eq!(String::from_utf8(came).unwrap(), event);
        }
        // Half an event is not held back either.
        for half in ["data: {\"par", "t\":1}\n", "\n"] {
            plays.send(Play::chunk(half)).unwrap();
            let came = client.read_until(&mut body, half.as_bytes());
            assert_eq!(came, half.as_bytes());
        }
        plays.send(Play::end()).unwrap();
        assert_eq!(body.next(&mut client.wire), Ok(None));
        assert!(!client.is_closed());
    }
}

#[test]
fn a_json_answer_in_pieces_arrives_in_pieces() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n";
    plays.send(Play::Send(head.to_vec())).unwrap();
    let (_, mut body) = client.read_head();
    for piece in ["{\"a\"", ": 1}"] {
        plays.send(Play::Send(piece.as_bytes().to_vec())).unwrap();
        client.read_until(&mut body, piece.as_bytes());
    }
    assert_eq!(body.next(&mut client.wire), Ok(None));
}

#[test]
fn many_streams_are_open_at_once() {
    let endless = Upstream::with(|_| Reply::Steps(vec![Play::sse_head()]));
    let site = Site::before(endless, |policy| policy);
    let mut clients: Vec<_> = (0..40).map(|_| site.gateway.connect()).collect();
    for client in &mut clients {
        client.send(&Request::modern("subscriptions/listen", json!({})));
        assert_eq!(client.read_head().0.status(), 200);
    }
    assert_eq!(
        site.upstream.log().open(),
        40,
        "each has its own connection"
    );
    drop(clients);
    let took = site
        .upstream
        .wait("the end of all of them", |log| log.open() == 0);
    println!("40 streams were gone after {took:?}");
}

#[test]
fn a_stream_outlives_every_time_limit() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| {
        policy
            .upstream("response_header_timeout", "300ms")
            .upstream("connect_timeout", "300ms")
            .listen("header_read_timeout", "300ms")
            .bound("body_idle_timeout", "300ms")
    });
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    plays.send(Play::sse_head()).unwrap();
    let (_, mut body) = client.read_head();
    plays
        .send(Play::Pause(std::time::Duration::from_secs(1)))
        .unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    client.read_until(&mut body, b"data: 1\n\n");
    plays.send(Play::end()).unwrap();
    assert_eq!(body.next(&mut client.wire), Ok(None));
}

#[test]
fn an_upstream_that_breaks_off_is_no_end() {
    for reset in [false, true] {
        let (upstream, plays) = Upstream::controlled();
        let site = Site::before(upstream, |policy| policy);
        let mut client = site.gateway.connect();
        client.send(&Request::call("echo"));
        plays.send(Play::sse_head()).unwrap();
        let (_, mut body) = client.read_head();
        plays.send(Play::chunk("data: 1\n\n")).unwrap();
        client.read_until(&mut body, b"data: 1\n\n");
        plays
            .send(if reset { Play::Reset } else { Play::Close })
            .unwrap();
        let end = body.next(&mut client.wire);
        assert!(
            matches!(end, Err(Fault::Closed(_) | Fault::Reset)),
            "{end:?}"
        );
        let record = &site.records(1)[0];
        assert_eq!(record["end"], "upstream_failed", "{record}");
        assert_eq!(record["status"], 200);
    }
}
