//! Paths, HTTP methods and the shape of a head.

use crate::harness::{Client, Fault, Refusal, Request, Site};

#[test]
fn an_unknown_path_is_ours_to_answer() {
    let site = Site::new();
    for target in [
        "/",
        "/other",
        "/mcp2",
        "/MCP",
        "/mcp/more",
        "/mcp//",
        "//mcp",
        "/%6dcp",
        "/x/../mcp",
        "/./mcp",
        "/mcp;a=b",
        "/mcp%2f",
    ] {
        for request in [Request::call("echo"), Request::get(), Request::delete("s")] {
            let mut client = site.gateway.connect();
            let before = site.upstream.request_count();
            let answer = client.exchange(&request.target(target));
            assert_eq!(answer.status, 404, "{target}: {answer:?}");
            assert_eq!(site.upstream.request_count(), before, "{target}");
            site.works(target, &mut client);
        }
    }
}

#[test]
fn a_slash_behind_the_path_makes_no_difference() {
    let site = Site::new();
    for target in ["/mcp", "/mcp/", "/mcp?", "/mcp/?a=b"] {
        let received = site.forwards(target, &Request::call("echo").target(target));
        assert_eq!(received.target.split('?').next(), Some("/mcp"), "{target}");
    }
}

#[test]
fn well_known_paths_are_never_forwarded() {
    let site = Site::with(|policy| policy.set("/routes/0/path", "/".into()));
    for target in [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
    ] {
        let answer = site.gateway.ask(&Request::new("GET", target));
        assert_eq!(answer.status, 404, "{target}: {answer:?}");
        assert_eq!(site.upstream.request_count(), 0, "{target}");
    }
    site.records(5);
    site.forwards("the root", &Request::call("echo").target("/"));
}

#[test]
fn other_methods_are_refused_with_those_that_are_allowed() {
    let site = Site::new();
    for method in ["PUT", "PATCH", "TRACE", "PROPFIND", "post", "BREW"] {
        let mut client = site.gateway.connect();
        let before = site.upstream.request_count();
        let answer = client.exchange(&Request::call("echo").method(method));
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
        let allow = answer.head.value("allow").unwrap();
        for allowed in ["POST", "GET", "DELETE", "OPTIONS"] {
            assert!(allow.contains(allowed), "{method}: {allow}");
        }
        assert_eq!(site.upstream.request_count(), before, "{method}");
        site.works(method, &mut client);
    }
}

#[test]
fn head_and_connect_get_no_further() {
    let site = Site::new();
    for request in [
        Request::new("HEAD", "/mcp"),
        Request::new("CONNECT", "example.com:443"),
        Request::new("OPTIONS", "*"),
        Request::new("OPTIONS", "/mcp"),
    ] {
        let mut client = site.gateway.connect();
        client.send(&request);
        let (head, _) = client.read_head();
        assert!(head.status() < 500, "{}: {}", request.method, head.start);
        assert!(
            request.method != "CONNECT" || head.status() >= 400,
            "{}",
            head.start
        );
        assert_eq!(site.upstream.request_count(), 0, "{}", request.method);
    }
}

/// Sends these bytes and expects that they are refused, one way or the other, and that nothing of
/// them, nor of the good call behind them, runs as something else.
fn goes_nowhere(site: &Site, what: &str, bytes: &[u8]) {
    let before = site.upstream.request_count();
    let mut client: Client = site.gateway.connect();
    client.send_bytes(bytes);
    client.wire.finish();
    if let Ok(answer) = client.try_read() {
        assert!((400..=505).contains(&answer.status), "{what}: {answer:?}");
    }
    assert_eq!(site.upstream.request_count(), before, "{what}: forwarded");
    site.works(what, &mut site.gateway.connect());
}

/// A call with these header lines instead of its length, and this for a body.
fn framed(lines: &str, body: &str) -> Vec<u8> {
    let head = Request::call("echo")
        .header("Content-Length", "0")
        .head_bytes();
    let head = String::from_utf8(head).unwrap();
    format!("{}{body}", head.replace("Content-Length: 0\r\n", lines)).into_bytes()
}

fn call_body() -> String {
    String::from_utf8(Request::call("echo").body).unwrap()
}

#[test]
fn lengths_that_two_parsers_could_read_differently_go_nowhere() {
    let site = Site::new();
    let body = call_body();
    let length = body.len();
    for lines in [
        format!("Content-Length: {length}\r\nContent-Length: 5\r\n"),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length: 0x{length:x}\r\n"),
        format!("Content-Length: {length}, 5\r\n"),
        format!("Content-Length : {length}\r\n"),
        format!("X-A: b\r\n c\r\nContent-Length: {length}\r\n"),
        "Content-Length: -1\r\n".to_owned(),
    ] {
        goes_nowhere(&site, &lines, &framed(&lines, &body));
    }
}

#[test]
fn codings_that_two_parsers_could_read_differently_go_nowhere() {
    let site = Site::new();
    let body = call_body();
    let length = body.len();
    let chunks = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked, gzip\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
    ] {
        goes_nowhere(&site, &lines, &framed(&lines, &chunks));
    }
}

#[test]
fn a_length_beside_chunks_is_refused_and_ends_the_connection() {
    let site = Site::new();
    let body = call_body();
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let refusal = Refusal::of_head(400).names(&["length_beside_chunks", "Content-Length"]);
    let mut refused = 0;
    for length in [0, 5, body.len(), chunks.len(), 9000] {
        for lines in [
            format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            format!("CONTENT-LENGTH: {length}\r\nTransfer-Encoding: chunked\r\n"),
            format!("content-length:{length}\r\ntransfer-encoding:Chunked\r\n"),
        ] {
            let whole = framed(&lines, &chunks);
            // Were the length believed, this would be one more request, or none.
            let behind = Request::call("smuggled").bytes();
            let bytes = [whole, behind].concat();
            for pieces in [bytes.len(), 100, 7] {
                let mut client = site.gateway.connect();
                for piece in bytes.chunks(pieces) {
                    // It is closed once it was answered.
                    let _ = client.wire.write(piece);
                }
                let answer = client.read();
                refusal.check(&lines, &answer);
                let ending = client.wire.ending();
                assert!(
                    matches!(ending, Fault::Closed(0) | Fault::Reset),
                    "{ending:?}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!(site.records(refused).len(), refused);
    assert_eq!(site.upstream.request_count(), 0);
}

/// The head of a request that stands behind another is not seen as it came. The chunks are what
/// counts then, as they are for the library, and nothing behind them is read.
#[test]
fn a_length_beside_chunks_in_a_pipeline_means_nothing_and_ends_the_connection() {
    let site = Site::new();
    let body = call_body();
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let lines = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n";
    let first = Request::call("first").bytes();
    let behind = Request::call("smuggled").bytes();
    let mut client = site.gateway.connect();
    client.send_bytes(&[first, framed(lines, &chunks), behind].concat());
    assert_eq!(client.read().status, 200);
    let answer = client.read();
    assert!([200, 400].contains(&answer.status), "{answer:?}");
    let ending = client.wire.ending();
    assert!(
        matches!(ending, Fault::Closed(0) | Fault::Reset),
        "{ending:?}"
    );
    for received in &site.upstream.log().requests[1..] {
        assert_eq!(received.body, body.as_bytes());
        assert!(received.head.request_framing().is_ok());
    }
    assert_eq!(site.upstream.runs("smuggled"), 0);
}

#[test]
fn bad_chunks_go_nowhere() {
    let site = Site::new();
    let body = call_body();
    let length = body.len();
    for chunks in [
        format!("zz\r\n{body}\r\n0\r\n\r\n"),
        format!("-1\r\n{body}\r\n0\r\n\r\n"),
        format!("fffffffffffffffff\r\n{body}"),
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", length - 3),
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", length + 3),
        format!("{length:x}\r\n{body}0\r\n\r\n"),
    ] {
        goes_nowhere(
            &site,
            &chunks,
            &framed("Transfer-Encoding: chunked\r\n", &chunks),
        );
    }
}

#[test]
fn what_is_no_http_1_1_goes_nowhere() {
    let site = Site::new();
    for (what, bytes) in [
        ("garbage", "\0\x01\x02garbage\r\n\r\n"),
        ("TLS", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03"),
        ("a bare request", "GET /mcp\r\n\r\n"),
        ("HTTP/3.0", "GET /mcp HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n"),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("no colon", "GET /mcp HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n"),
        ("a blank target", "GET  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ] {
        goes_nowhere(&site, what, bytes.as_bytes());
    }
}

#[test]
fn a_target_with_an_authority_of_its_own_does_not_pass_the_host_rule() {
    let site = Site::new();
    let refused = site
        .gateway
        .ask(&Request::call("echo").target("http://evil.example/mcp"));
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn refusals_say_what_is_wrong_in_words() {
    let site = Site::new();
    let answer = site
        .gateway
        .ask(&Request::call("echo").header("Content-Type", "text/plain"));
    Refusal::of_head(415)
        .names(&["application/json"])
        .check("415", &answer);
    let answer = site
        .gateway
        .ask(&Request::call("echo").header("Content-Encoding", "gzip"));
    Refusal::of_head(415)
        .names(&["Content-Encoding"])
        .check("415", &answer);
}
