//! Large uploads: taken, or refused while they still come, and the connection serves on.

use super::Client2;
use crate::harness::{Request, Site};

fn large(bytes: usize) -> Request {
    Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(bytes)),
    )
}

#[test]
fn an_upload_that_is_refused_still_reads_the_answer() {
    let site = Site::new();
    let large = large(5 << 20);
    let mut client = Client2::connect(&site.gateway);
    // Together many times what all windows hold: whatever is not given back is missed in the end.
    for round in 0..4 {
        for (what, request, status) in [
            (
                "text",
                large.clone().header("Content-Type", "text/plain"),
                415,
            ),
            ("a path", large.clone().target("/other"), 404),
            ("a host", large.clone().header("Host", "evil.example"), 403),
            (
                "its size",
                large.clone().header("MCP-Protocol-Version", "2025-11-25"),
                413,
            ),
            (
                "its announced size",
                large
                    .clone()
                    .header("MCP-Protocol-Version", "2025-11-25")
                    .header("Content-Length", &large.body.len().to_string()),
                413,
            ),
        ] {
            let answer = client.exchange(&request);
            assert_eq!(answer.status, status, "{round}, {what}: {answer:?}");
        }
        assert_eq!(client.exchange(&site.good).status, 200, "{round}");
    }
    assert_eq!(site.upstream.runs("echo"), 0);
}

#[test]
fn uploads_that_are_taken_arrive_whole_beside_each_other() {
    let site = Site::with(|policy| policy.bound("body_bytes_max", "8Mi"));
    let mut client = Client2::connect(&site.gateway);
    let request = large(3 << 20);
    let streams: Vec<_> = (0..4).map(|_| client.send(&request)).collect();
    for stream in streams {
        let answer = stream.read();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let log = site.upstream.log();
    assert_eq!(log.requests.len(), 4);
    assert!(
        log.requests
            .iter()
            .all(|received| received.complete && received.body == request.body)
    );
}

#[test]
fn an_upload_that_pauses_is_refused_and_stops_no_other() {
    let site = Site::with(|policy| policy.bound("body_idle_timeout", "300ms"));
    let mut client = Client2::connect(&site.gateway);
    let request = Request::call("echo");
    let mut pausing: Vec<_> = (0..5)
        .map(|_| {
            let mut stream = client.begin(&request);
            stream.upload(&request.body[..20], false);
            stream
        })
        .collect();
    assert_eq!(client.exchange(&site.good).status, 200);
    for stream in pausing.drain(..) {
        let answer = stream.read();
        assert_eq!(answer.status, 408);
    }
    assert_eq!(client.exchange(&site.good).status, 200);
    assert_eq!(site.upstream.runs("echo"), 0);
}
