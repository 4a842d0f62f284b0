//! Large uploads that are refused: the client, which sends all of it before it reads, still reads
//! the answer.

use std::io::Write;
use std::time::Duration;

use crate::harness::{Refusal, Request, Response, Site};

const UPLOAD: usize = 5 << 20;

fn large() -> Request {
    Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(UPLOAD)),
    )
}

/// Sends everything, and only then begins to read. The connection serves on, unless the answer
/// says that it will not.
fn upload(site: &Site, request: &Request) -> Response {
    let mut client = site.gateway.connect();
    client.send(request);
    let answer = client.read();
    if !answer
        .head
        .values("connection")
        .contains(&"close".to_owned())
    {
        let next = client.exchange(&site.good);
        assert_eq!(next.status, 200, "behind {answer:?}: {next:?}");
    }
    answer
}

#[test]
fn an_upload_refused_at_its_head_still_reads_the_answer() {
    let site = Site::new();
    let large = large();
    for (what, request, status) in [
        (
            "text",
            large.clone().header("Content-Type", "text/plain"),
            415,
        ),
        (
            "an encoding",
            large.clone().header("Content-Encoding", "gzip"),
            415,
        ),
        ("a path", large.clone().target("/other"), 404),
        (
            "an origin",
            large.clone().header("Origin", "https://evil.example"),
            403,
        ),
        ("a host", large.clone().header("Host", "evil.example"), 403),
        ("a method", large.clone().method("PUT"), 405),
        (
            "its size",
            large.header("MCP-Protocol-Version", "2025-11-25"),
            413,
        ),
    ] {
        for request in [request.clone(), request.chunked(64 << 10)] {
            let answer = upload(&site, &request);
            assert_eq!(answer.status, status, "{what}: {answer:?}");
            assert_eq!(site.upstream.runs("echo"), 0, "{what}");
        }
    }
    site.works("uploads", &mut site.gateway.connect());
}

#[test]
fn too_large_names_the_limit() {
    let site = Site::with(|policy| {
        policy
            .bound("body_bytes_max", 1000)
            .bound("stream_bytes_max", 0)
            .bound("buffer_bytes", 1000)
            .bound("name_bytes_max", 1000)
    });
    let over = Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"x\":\"{}\"", "x".repeat(1000)),
    );
    let refusal = Refusal::of(413, 413)
        .with_some_id()
        .names(&["body_bytes_max", "1000"]);
    // A body that was not read has no id and no era, so legacy clients get the status too.
    for request in [
        over.clone(),
        over.header("MCP-Protocol-Version", "2025-11-25"),
    ] {
        for request in [request.clone(), request.chunked(100)] {
            let answer = upload(&site, &request);
            refusal.check("413", &answer);
        }
    }
    assert_eq!(site.upstream.runs("echo"), 0);
    let spare = 1000 - Request::call("").body.len();
    let exact = Request::call(&"x".repeat(spare));
    assert_eq!(exact.body.len(), 1000);
    let answer = site.gateway.ask(&exact);
    assert_eq!(answer.status, 200, "exactly the limit: {answer:?}");
    assert_eq!(site.upstream.last().body, exact.body);
}

#[test]
fn a_length_beyond_all_numbers_is_refused() {
    let site = Site::new();
    for length in [
        "18446744073709551615",
        "99999999999999999999999",
        "9223372036854775807",
    ] {
        let request = Request::call("echo").header("Content-Length", length);
        let mut client = site.gateway.connect();
        client.send_bytes(&request.head_bytes());
        let answer = client.read();
        // A number that fits no integer is refused by the HTTP library, in its own words.
        assert!((400..=431).contains(&answer.status), "{answer:?}");
    }
    assert_eq!(site.upstream.request_count(), 0);
    site.works("lengths", &mut site.gateway.connect());
}

#[test]
fn what_is_drained_is_bounded() {
    let site = Site::with(|policy| {
        policy
            .bound("drain_bytes_max", 256 << 10)
            .bound("drain_timeout", "2s")
    });
    let request = Request::call("echo")
        .header("Content-Type", "text/plain")
        .header("Content-Length", &(1_u64 << 40).to_string());
    let client = site.gateway.connect();
    let stream = &client.wire.stream;
    stream
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    (&*stream).write_all(&request.head_bytes()).unwrap();
    let chunk = vec![b'x'; 64 << 10];
    let mut sent = 0;
    // A gateway that read for as long as we send would never end this; what it takes beyond the
    // bound are the buffers of both sockets.
    while sent < 64 << 20 && (&*stream).write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    site.works("an endless upload", &mut site.gateway.connect());
}

#[test]
fn a_body_within_the_limit_goes_upstream_whole() {
    let site = Site::new();
    let text = "é\\n".repeat(700_000);
    let request = Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{text}\"}}"),
    );
    for request in [request.clone(), request.chunked(100_000)] {
        let answer = upload(&site, &request);
        assert_eq!(answer.status, 200);
        let uploads: Vec<_> = site.upstream.log().requests;
        let upload = uploads
            .iter()
            .rfind(|received| received.body.len() > 1_000_000);
        assert!(upload.is_some_and(|upload| upload.complete && upload.body == request.body));
    }
}
