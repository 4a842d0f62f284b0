//! What does not stream: it is read whole, or it is too large.

use super::sink::Sink;
use super::{FRAMINGS, Framed, Upload, before, call, send};
use crate::harness::{Policy, Refusal, Request};

type Shape = fn(Policy) -> Policy;

/// Requests over the buffer that may not stream, with the policies under which that is so.
fn held(size: usize) -> Vec<(&'static str, Request, Shape)> {
    let same: Shape = |policy| policy;
    let mirror: Shape = |policy| policy.routing_headers("missing", "mirror");
    let call = call("echo", size);
    let legacy = Request::legacy_call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(size)),
    );
    vec![
        ("legacy", legacy, same),
        ("mirror", call.clone(), mirror),
        (
            "mirror, and a header is missing",
            call.clone().without("Mcp-Name"),
            mirror,
        ),
        ("by policy", call, |policy| {
            policy.bound("stream_bytes_max", 0)
        }),
    ]
}

#[test]
fn nothing_of_it_is_sent_before_its_end() {
    for (what, request, policy) in held(1 << 20) {
        for framed in FRAMINGS {
            let sink = Sink::start();
            let gateway = before(&sink, policy);
            let mut upload = Upload::begin(&gateway, &request, framed);
            let (first, last) = request.body.split_at(request.body.len() - 1);
            upload.piece(first);
            // Whatever would be sent too early is sent before this has been answered.
            assert_eq!(send(&gateway, &call("other", 10), framed).1.status, 200);
            assert_eq!(sink.requests().len(), 1, "{what}");
            upload.piece(last);
            upload.end();
            assert_eq!(upload.answer().status, 200, "{what}");
            assert!(sink.last().body() == request.body, "{what}");
            let records = gateway.wait_for_records(2);
            assert!(records.iter().all(|record| record.get("body").is_none()));
        }
    }
}

#[test]
fn it_is_too_large_over_the_smaller_bound() {
    for (what, request, policy) in held(5 << 20) {
        for framed in FRAMINGS {
            let sink = Sink::start();
            let gateway = before(&sink, policy);
            let (_, answer) = send(&gateway, &request, framed);
            Refusal::of(413, 413)
                .id("null")
                .names(&["bounds.body_bytes_max", "4194304"])
                .check(what, &answer);
            assert_eq!(sink.requests().len(), 0, "{what}");
        }
    }
}

#[test]
fn a_request_without_its_headers_is_judged_or_too_large() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    for (header, code) in [
        ("Mcp-Method", -32020),
        ("Mcp-Name", -32020),
        ("MCP-Protocol-Version", -32020),
    ] {
        for framed in FRAMINGS {
            let small = call("echo", 1 << 20).without(header);
            Refusal::of(400, code)
                .names(&[header])
                .check(header, &send(&gateway, &small, framed).1);
            let large = call("echo", 5 << 20).without(header);
            Refusal::of(413, 413)
                .id("null")
                .check(header, &send(&gateway, &large, framed).1);
            let twice = call("echo", 1 << 20);
            let value = twice
                .lines
                .iter()
                .find(|line| line.0 == header)
                .unwrap()
                .1
                .clone();
            let twice = twice.line(header, value);
            Refusal::of(400, code)
                .names(&[header])
                .check(header, &send(&gateway, &twice, framed).1);
        }
    }
    // What the headers say is refused anyway.
    for framed in FRAMINGS {
        let unknown = call("echo", 1 << 20).header("MCP-Protocol-Version", "2031-01-01");
        let unknown = unknown.edit("2026-07-28", "2031-01-01");
        Refusal::of(400, -32022).check("a version", &send(&gateway, &unknown, framed).1);
        let ping = call("echo", 1 << 20)
            .header("Mcp-Method", "ping")
            .edit("tools/call", "ping");
        Refusal::of(404, -32601).check("a method", &send(&gateway, &ping, framed).1);
    }
    assert_eq!(sink.requests().len(), 0);
}

#[test]
fn over_the_larger_bound_nothing_streams_to_its_end() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy.bound("stream_bytes_max", "5Mi"));
    let request = call("echo", 5 << 20);
    let refusal = Refusal::of(413, 413).names(&["bounds.stream_bytes_max", "5242880"]);
    // What is announced is refused at once, and not even asked for.
    let asks = request.clone().line("Expect", "100-continue");
    let mut upload = Upload::begin(&gateway, &asks, Framed::Length);
    let answer = upload.answer();
    refusal.clone().id("null").check("announced", &answer);
    assert_eq!(answer.interim, Vec::<u16>::new());
    assert_eq!(sink.requests().len(), 0);
    let (mut client, answer) = send(&gateway, &request, Framed::Chunked);
    refusal.check("chunked", &answer);
    sink.broke_off("too large");
    assert_eq!(client.exchange(&call("next", 10)).status, 200);
    let exact = 5 * (1 << 20) - call("echo", 0).body.len();
    for framed in FRAMINGS {
        let request = call("echo", exact);
        assert_eq!(
            send(&gateway, &request, framed).1.status,
            200,
            "exactly the bound"
        );
        assert!(sink.last().body() == request.body);
    }
}
