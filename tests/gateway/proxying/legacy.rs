//! The legacy transport through us: the server's own stream, the end of a session, answers of the
//! client to the server.

use serde_json::json;

use crate::harness::{Play, Request, Site, Upstream};

#[test]
fn a_get_stream_is_opened_and_resumed() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    let request = Request::get()
        .header("Mcp-Session-Id", "s-1")
        .header("Last-Event-ID", "41");
    let mut client = site.gateway.connect();
    client.send(&request);
    plays.send(Play::sse_head()).unwrap();
    let (head, mut body) = client.read_head();
    assert_eq!(head.status(), 200);
    plays.send(Play::chunk("id: 42\ndata: {}\n\n")).unwrap();
    client.read_until(&mut body, b"id: 42\ndata: {}\n\n");
    let received = site.upstream.last();
    assert_eq!(received.method, "GET");
    assert_eq!(received.head.value("last-event-id").unwrap(), "41");
    assert_eq!(received.head.value("mcp-session-id").unwrap(), "s-1");
    assert_eq!(received.head.value("accept").unwrap(), "text/event-stream");
    assert!(received.body.is_empty() && !received.head.has("transfer-encoding"));
}

#[test]
fn a_get_stream_that_nobody_reads_is_closed() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::get());
    plays.send(Play::sse_head()).unwrap();
    client.read_head();
    client.wire.reset();
    let took = site
        .upstream
        .wait("the end of the stream", |log| log.ended(0).is_some());
    println!("the stream was gone after {took:?}");
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "client_gone", "{record}");
    assert_eq!(record["http_method"], "GET");
}

#[test]
fn the_end_of_a_session_reaches_the_upstream() {
    let site = Site::new();
    site.forwards("the handshake", &Request::initialize("2025-11-25"));
    let received = site.forwards("the end", &Request::delete("session-1"));
    assert_eq!(received.method, "DELETE");
    assert_eq!(received.head.value("mcp-session-id").unwrap(), "session-1");
}

#[test]
fn a_clients_responses_reach_the_upstream() {
    let site = Site::new();
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "result": {"roots": [{"uri": "file:///x"}]}}),
        json!({"jsonrpc": "2.0", "id": "s-7", "error": {"code": -32603, "message": "no"}}),
    ] {
        let request = Request::legacy_message(message).header("Mcp-Session-Id", "s-1");
        let received = site.forwards("a response", &request);
        assert_eq!(received.head.value("mcp-session-id").unwrap(), "s-1");
        assert!(!received.head.has("mcp-method"));
    }
    for record in site.gateway.records() {
        assert_eq!(record["era"], "legacy");
    }
}

#[test]
fn a_whole_legacy_conversation_on_one_connection() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    let answer = client.exchange(&Request::initialize("2025-11-25"));
    let session = answer.head.value("mcp-session-id").unwrap();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let steps = [
        (Request::legacy_message(initialized), 202),
        (Request::get(), 405),
        (Request::legacy("tools/list", json!({})), 200),
        (
            Request::legacy_call("echo").header("Mcp-Method", "tools/call"),
            200,
        ),
        (Request::legacy("ping", json!({})), 200),
        (
            Request::legacy("resources/subscribe", json!({"uri": "a://b"})),
            200,
        ),
        (Request::delete(&session), 200),
    ];
    for (request, status) in steps {
        let request = request.header("Mcp-Session-Id", &session);
        assert_eq!(client.exchange(&request).status, status, "{request:?}");
        let received = site.upstream.last();
        assert_eq!(received.head.value("mcp-session-id").unwrap(), session);
        assert_eq!(received.body, request.body);
    }
    assert_eq!(site.upstream.log().connections.len(), 1);
}
