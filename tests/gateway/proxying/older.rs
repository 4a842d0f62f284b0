//! HTTP/1.0 on either side: the version of HTTP belongs to one connection and is not passed on.

use crate::harness::{Client, Fault, Framing, Play, Reply, Request, Site, Upstream};

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn site(reply: Reply) -> Site {
    Site::before(Upstream::with(move |_| reply.clone()), |policy| policy)
}

/// Sends a request as a client of HTTP/1.0 does.
fn send_as_1_0(client: &mut Client, request: &Request) {
    let text = String::from_utf8(request.bytes()).expect("text");
    client.send_bytes(text.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes());
}

#[test]
fn an_answer_in_1_0_goes_on_in_1_1() {
    let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n";
    let length = RESULT.len();
    for reply in [
        Reply::raw_then_close(format!("{head}\r\n{RESULT}")),
        Reply::raw_then_close(format!("{head}Content-Length: {length}\r\n\r\n{RESULT}")),
        Reply::raw(format!(
            "{head}Connection: keep-alive\r\nContent-Length: {length}\r\n\r\n{RESULT}"
        )),
    ] {
        let site = site(reply.clone());
        // The client's connection is none of the upstream's business.
        let mut client = site.gateway.connect();
        for request in [
            Request::call("echo"),
            Request::legacy_call("echo"),
            Request::call("echo"),
        ] {
            let answer = client.exchange(&request);
            assert_eq!((answer.status, answer.text().as_str()), (200, RESULT));
            assert!(answer.head.start.starts_with("HTTP/1.1 "), "{answer:?}");
            assert_ne!(answer.framing, Framing::UntilClose, "{reply:?}");
        }
        assert!(!client.is_closed(), "{reply:?}");
    }
}

#[test]
fn a_stream_in_1_0_goes_on_in_1_1_and_ends_with_its_connection() {
    let site = site(Reply::Steps(vec![
        Play::Send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_vec()),
        Play::Send(b"data: 1\n\n".to_vec()),
        Play::Close,
    ]));
    let mut client = site.gateway.connect();
    for _ in 0..2 {
        let answer = client.exchange(&Request::call("echo"));
        assert_eq!(answer.framing, Framing::Chunked);
        assert_eq!(answer.text(), "data: 1\n\n");
    }
}

#[test]
fn a_client_of_1_0_is_answered_in_1_0() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("stream") => Reply::sse("data: 1\n\n"),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    for tool in ["echo", "stream"] {
        for line in ["close", "keep-alive"] {
            let mut client = site.gateway.connect();
            send_as_1_0(&mut client, &Request::call(tool).line("Connection", line));
            let answer = client.read();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.head.start.starts_with("HTTP/1.0 "), "{answer:?}");
            assert_ne!(answer.framing, Framing::Chunked, "{answer:?}");
            // Upstream it is a request of our own.
            let received = site.upstream.last();
            assert!(received.head.start.ends_with(" HTTP/1.1"), "{received:?}");
            let ends = line == "close" || tool == "stream";
            assert_eq!(client.is_closed(), ends, "{tool}, {line}");
            assert_eq!(site.records(1)[0]["end"], "complete");
        }
    }
    assert_eq!(site.upstream.log().connections.len(), 1);
}

#[test]
fn a_client_of_1_0_that_is_refused_reads_why() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    send_as_1_0(&mut client, &Request::call("echo").without("Mcp-Name"));
    let answer = client.read();
    assert_eq!((answer.status, answer.code()), (400, Some(-32020)));
    assert!(matches!(client.wire.ending(), Fault::Closed(0)));
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn answers_without_a_body_have_none_whatever_they_claim() {
    for (head, status) in [
        ("304 Not Modified\r\nContent-Length: 50\r\nETag: \"a\"", 304),
        ("204 No Content\r\nContent-Length: 0", 204),
        ("204 No Content\r\nTransfer-Encoding: chunked", 204),
        ("202 Accepted\r\nContent-Length: 0", 202),
        ("205 Reset Content\r\nContent-Length: 0", 205),
    ] {
        let site = site(Reply::raw(format!("HTTP/1.1 {head}\r\n\r\n")));
        let mut client = site.gateway.connect();
        for _ in 0..2 {
            let answer = client.exchange(&Request::call("echo"));
            assert_eq!((answer.status, answer.body.len()), (status, 0), "{head}");
        }
        assert!(!client.is_closed(), "{head}");
        assert_eq!(site.upstream.log().connections.len(), 1, "{head}");
        for record in site.records(2) {
            assert_eq!(record["end"], "complete", "{record}");
        }
    }
}
