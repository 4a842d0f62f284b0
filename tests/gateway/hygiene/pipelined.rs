//! Requests that stand behind others on a connection, and bodies where none is expected.

use crate::harness::{Play, Reply, Request, Site, Upstream};

#[test]
fn a_request_behind_a_stream_waits_for_its_turn() {
    let (upstream, plays) = Upstream::controlled();
    let site = Site::before(upstream, |policy| policy);
    // Far more than the gateway may read ahead while the first exchange is under way.
    let text = "x".repeat(300_000);
    let second = Request::call("second").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{text}\"}}"),
    );
    let mut client = site.gateway.connect();
    std::thread::scope(|scope| {
        let writing = client.wire.stream.try_clone().unwrap();
        let bytes = [Request::call("first").bytes(), second.bytes()].concat();
        scope.spawn(move || std::io::Write::write_all(&mut &writing, &bytes).unwrap());
        plays.send(Play::sse_head()).unwrap();
        let (_, mut body) = client.read_head();
        for number in 0..5 {
            let event = format!("data: {number}\n\n");
            plays.send(Play::chunk(&event)).unwrap();
            client.read_until(&mut body, event.as_bytes());
        }
        assert_eq!(site.upstream.runs("second"), 0, "not before its turn");
        plays.send(Play::end()).unwrap();
        assert_eq!(body.next(&mut client.wire), Ok(None));
        plays
            .send(Play::Last(
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            ))
            .unwrap();
        assert_eq!(client.read().text(), "{}");
    });
    assert!(
        site.upstream.last().body == second.body,
        "the second came whole"
    );
    assert_eq!(site.upstream.runs("first"), 1);
}

#[test]
fn a_body_where_none_is_expected_is_read_as_no_request() {
    let hidden = Request::call("hidden").bytes();
    for (method, versions) in [("GET", None), ("DELETE", None), ("GET", Some("2026-07-28"))] {
        let site = Site::new();
        let mut request = Request::get().method(method).body(hidden.clone());
        if let Some(version) = versions {
            request = request.header("MCP-Protocol-Version", version);
        }
        for request in [request.clone(), request.chunked(64)] {
            let mut client = site.gateway.connect();
            let answer = client.exchange(&request);
            assert!([200, 400, 405].contains(&answer.status), "{answer:?}");
            if answer
                .head
                .values("connection")
                .iter()
                .all(|value| value != "close")
            {
                site.works(method, &mut client);
            }
            assert_eq!(site.upstream.runs("hidden"), 0, "{method}");
            for received in site.upstream.log().requests {
                let name = received.json()["params"]["name"].clone();
                assert!(received.body.is_empty() || name == "good", "{received:?}");
            }
        }
    }
}

#[test]
fn a_message_that_is_a_request_and_a_response_is_neither() {
    use crate::harness::Refusal;
    let site = Site::new();
    for member in [
        "\"result\":{},",
        "\"error\":{\"code\":1,\"message\":\"\"},",
        "\"result\":null,",
    ] {
        for request in [Request::call("echo"), Request::legacy_call("echo")] {
            let request = request.edit("\"method\":", &format!("{member}\"method\":"));
            site.refuses(member, &request, &Refusal::of(400, -32600));
        }
    }
    let both = r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#;
    let request = Request::legacy_call("echo").body(both);
    site.refuses("both", &request, &Refusal::of(400, -32600).with_some_id());
    let neither = Request::legacy_call("echo").body(r#"{"jsonrpc":"2.0","id":1}"#);
    site.refuses("neither", &neither, &Refusal::of(400, -32600));
    let no_id = Request::legacy_call("echo").body(r#"{"jsonrpc":"2.0","result":{}}"#);
    site.refuses("no id", &no_id, &Refusal::of(400, -32600).id("null"));
}

#[test]
fn a_client_of_http_1_0_gets_its_answer_and_the_end() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("stream") => Reply::sse("data: 1\n\n"),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    for tool in ["stream", "echo"] {
        let bytes = String::from_utf8(Request::call(tool).bytes()).unwrap();
        let mut client = site.gateway.connect();
        client.send_bytes(bytes.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes());
        let answer = client.read();
        assert_eq!(answer.status, 200);
        assert!(!answer.head.has("transfer-encoding"), "{answer:?}");
        assert!(!answer.body.is_empty());
        assert!(client.is_closed());
        assert!(site.upstream.last().head.start.ends_with("HTTP/1.1"));
    }
}
