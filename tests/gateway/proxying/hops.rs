//! Each leg's headers are its own: hop-by-hop ones end here, and nobody's word about who stands
//! before us is passed on.

use crate::harness::{Reply, Request, Site, Upstream};

#[test]
fn ordinary_headers_pass_in_both_directions() {
    let upstream = Upstream::with(|_| {
        Reply::with_lines(
            200,
            "Content-Type: application/json\r\nX-Answer: a, b\r\nX-Twice: 1\r\nX-Twice: 2\r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\nCache-Control: no-store\r\nServer: theirs\r\n",
            "{}",
        )
    });
    let site = Site::before(upstream, |policy| policy);
    let request = Request::call("echo")
        .line("X-Request", "a, b")
        .line("X-Many", "1")
        .line("X-Many", "2")
        .line("User-Agent", "test/1")
        .line("Authorization", "Bearer token-1")
        .line("Cookie", "a=b; c=d")
        .line(
            "Traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
    let received = site.forwards("headers", &request).head;
    assert_eq!(received.values("x-request"), ["a, b"]);
    assert_eq!(received.values("x-many"), ["1", "2"]);
    assert_eq!(received.values("user-agent"), ["test/1"]);
    assert_eq!(received.values("authorization"), ["Bearer token-1"]);
    assert_eq!(received.values("cookie"), ["a=b; c=d"]);
    assert_eq!(received.values("traceparent").len(), 1);
    let answer = site.gateway.ask(&request).head;
    assert_eq!(answer.values("x-answer"), ["a, b"]);
    assert_eq!(answer.values("x-twice"), ["1", "2"]);
    assert_eq!(answer.values("date"), ["Mon, 30 Nov 2026 00:00:00 GMT"]);
    assert_eq!(answer.values("server"), ["theirs"]);
    assert_eq!(answer.values("cache-control"), ["no-store"]);
}

#[test]
fn hop_by_hop_headers_of_the_request_end_here() {
    let site = Site::new();
    let request = Request::call("echo")
        .line("Connection", "keep-alive, X-Foo")
        .line("Connection", "x-bar")
        .line("X-Foo", "nominated")
        .line("X-Bar", "nominated")
        .line("Keep-Alive", "timeout=5")
        .line("TE", "trailers")
        .line("Proxy-Authorization", "Basic x")
        .line("Proxy-Connection", "keep-alive")
        .line("Upgrade", "websocket")
        .line("X-Kept", "kept");
    let head = site.forwards("hop by hop", &request).head;
    for name in [
        "x-foo",
        "x-bar",
        "keep-alive",
        "te",
        "proxy-authorization",
        "proxy-connection",
        "upgrade",
    ] {
        assert!(!head.has(name), "{name} went upstream");
    }
    assert!(
        head.values("connection").iter().all(|v| v == "keep-alive"),
        "{head:?}"
    );
    assert!(head.has("x-kept"));
}

#[test]
fn a_client_cannot_nominate_what_we_need() {
    let site = Site::new();
    let request = Request::call("echo").line(
        "Connection",
        "Mcp-Name, mcp-method, MCP-Protocol-Version, Host, Content-Length, Content-Type",
    );
    let before = site.upstream.request_count();
    let answer = site.gateway.ask(&request);
    if answer.status == 400 {
        assert_eq!(site.upstream.request_count(), before);
        return;
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    let head = site.upstream.last().head;
    assert_eq!(head.value("mcp-name").unwrap(), "echo");
    assert_eq!(head.value("mcp-method").unwrap(), "tools/call");
    assert!(head.has("mcp-protocol-version") && head.has("host"));
    assert_eq!(site.upstream.last().body, request.body);
}

#[test]
fn hop_by_hop_headers_of_the_answer_end_here() {
    let upstream = Upstream::with(|_| {
        Reply::with_lines(
            200,
            "Connection: X-Foo, keep-alive\r\nX-Foo: nominated\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nProxy-Connection: close\r\nX-Kept: kept\r\n",
            "{}",
        )
    });
    let site = Site::before(upstream, |policy| policy);
    let head = site.gateway.ask(&Request::call("echo")).head;
    for name in ["x-foo", "proxy-authenticate", "upgrade", "proxy-connection"] {
        assert!(!head.has(name), "{name} reached the client");
    }
    assert!(!head.values("keep-alive").contains(&"timeout=5".to_owned()));
    assert!(head.has("x-kept"));
}

#[test]
fn a_connection_is_closed_only_on_its_own_leg() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"] == "last" {
        true => Reply::Steps(vec![
            crate::harness::Play::Send(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            ),
            crate::harness::Play::Close,
        ]),
        false => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    for _ in 0..3 {
        let answer = client.exchange(&Request::call("last"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
    }
    site.works("an upstream that closed", &mut client);
    let answer = client.exchange(&Request::call("good").line("Connection", "close"));
    assert_eq!(answer.status, 200);
    assert!(client.is_closed(), "the client asked for it");
    let connections = site.upstream.log().connections.len();
    site.works("a client that closed", &mut site.gateway.connect());
    assert_eq!(site.upstream.log().connections.len(), connections, "reused");
}

#[test]
fn what_strangers_say_about_the_path_is_not_copied() {
    let site = Site::new();
    let names = [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Real-IP",
    ];
    for request in [Request::call("echo"), Request::legacy_call("echo")] {
        let request = names.iter().fold(request, |request, name| {
            request.line(name, "stranger.example")
        });
        let head = site.forwards("forwarding headers", &request).head;
        let bytes = String::from_utf8_lossy(&head.bytes).into_owned();
        assert!(!bytes.contains("stranger.example"), "{bytes}");
    }
}

#[test]
fn host_is_the_upstreams_own() {
    let site = Site::new();
    let authority = site.upstream.address.to_string();
    for host in ["127.0.0.1", "localhost:8080", "[::1]:9"] {
        let head = site
            .forwards(host, &Request::call("echo").header("Host", host))
            .head;
        assert_eq!(head.values("host"), [authority.as_str()]);
    }
}

#[test]
fn the_upstreams_body_length_is_the_bodys() {
    let site = Site::new();
    let received = site.forwards("a length", &Request::call("echo"));
    let length = received.head.value("content-length");
    assert_eq!(length, Some(received.body.len().to_string()));
}

#[test]
fn an_offer_to_upgrade_is_passed_over() {
    // What Java's client sends with its first request, whatever it asks for.
    let site = Site::new();
    let mut client = site.gateway.connect();
    let request = Request::call("good")
        .line("Connection", "Upgrade, HTTP2-Settings")
        .line("Upgrade", "h2c")
        .line("HTTP2-Settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA");
    for _ in 0..3 {
        let answer = client.exchange(&request);
        assert_eq!(answer.status, 200, "{answer:?}");
        let head = site.upstream.last().head;
        for name in ["upgrade", "http2-settings", "connection"] {
            assert!(!head.has(name), "{name} went upstream");
        }
        assert!(!answer.head.has("upgrade"), "{answer:?}");
    }
    assert_eq!(site.upstream.runs("good"), 3);
    site.works("offers", &mut client);
}

#[test]
fn trailers_end_here_in_both_directions() {
    let upstream = Upstream::with(|_| {
        Reply::raw(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-Told\r\n\
             Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Told: late\r\nMcp-Session-Id: s\r\n\r\n",
        )
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    let call = Request::call("echo")
        .line("TE", "trailers")
        .line("Trailer", "Mcp-Name")
        .chunked(20);
    let mut bytes = call.bytes();
    bytes.truncate(bytes.len() - 2);
    bytes.extend_from_slice(b"Mcp-Name: other\r\nX-Told: late\r\n\r\n");
    for round in 1..=3 {
        client.send_bytes(&bytes);
        let head = client.wire.head().expect("an answer");
        assert!(!head.has("trailer"), "{head:?}");
        // Byte by byte, with nothing behind the last chunk.
        let body = b"2\r\n{}\r\n0\r\n\r\n";
        assert_eq!(client.wire.exactly(body.len()).unwrap(), body);
        let received = site.upstream.last();
        assert_eq!(received.head.values("mcp-name"), ["echo"]);
        assert_eq!(received.body, call.body);
        assert!(!received.head.has("trailer"), "{received:?}");
        assert_eq!(site.upstream.request_count(), round);
    }
    assert_eq!(site.upstream.log().connections.len(), 1);
}
