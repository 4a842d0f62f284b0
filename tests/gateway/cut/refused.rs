//! Bodies that are not what their headers say, or no message at all: the client is told what it
//! would have been told of a small body, and the upstream never has a complete request.

use super::sink::Sink;
use super::{FRAMINGS, META, before, call, send, with_arguments};
use crate::harness::{Refusal, Request};

/// A good body over the buffer, for a test to change its end.
fn good() -> Request {
    call("echo", 300 << 10)
}

/// Bodies that show only behind the buffer that something is wrong with them.
fn late_members() -> Vec<(&'static str, Request)> {
    vec![
        (
            "another name",
            good().edit("\"name\":\"echo\"", "\"name\":\"other\""),
        ),
        ("no name", good().edit(",\"name\":\"echo\"", "")),
        (
            "a name of another type",
            good().edit("\"name\":\"echo\"", "\"name\":[1]"),
        ),
        ("another method", good().edit("tools/call", "tools/list")),
        (
            "a method without a name",
            good().edit("\"tools/call\"", "7"),
        ),
        ("a legacy method", good().edit("tools/call", "ping")),
        ("no method", good().edit(",\"method\":\"tools/call\"", "")),
        ("another version", good().edit("2026-07-28", "2031-01-01")),
        ("a legacy version", good().edit("2026-07-28", "2025-11-25")),
        ("no version", good().edit(META, "\"_meta\":{}")),
        ("no _meta", good().edit(&format!("{META},"), "")),
        (
            "no capabilities",
            good().edit(",\"io.modelcontextprotocol/clientCapabilities\":{}", ""),
        ),
        (
            "capabilities of another type",
            good().edit("clientCapabilities\":{}", "clientCapabilities\":[]"),
        ),
    ]
}

/// The same of the message as a whole.
fn late_messages() -> Vec<(&'static str, Request)> {
    let large = "y".repeat(300 << 10);
    let ending =
        |end: &str| Request::call("echo").body(format!("{{\"params\":{{\"a\":\"{large}\",{end}"));
    let rest = "\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}";
    let arguments = |arguments: String| {
        with_arguments("echo", &format!("{{\"a\":\"{large}\",\"b\":{arguments}}}"))
    };
    vec![
        (
            "a response",
            ending("\"b\":1},\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"),
        ),
        (
            "a method and a result",
            good().edit(
                "\"method\":\"tools/call\"",
                "\"method\":\"tools/call\",\"result\":{}",
            ),
        ),
        (
            "a repeated key",
            good().edit(
                "\"name\":\"echo\"",
                "\"name\":\"echo\",\"n\\u0061me\":\"echo\"",
            ),
        ),
        (
            "a second method",
            good().edit(
                "\"method\":\"tools/call\"",
                "\"method\":\"tools/call\",\"method\":\"tools/call\"",
            ),
        ),
        (
            "two ids",
            good().edit(
                "\"method\":\"tools/call\"",
                "\"id\":2,\"method\":\"tools/call\"",
            ),
        ),
        (
            "a case variant",
            good().edit("\"name\":\"echo\"", "\"name\":\"echo\",\"NAME\":\"x\""),
        ),
        (
            "too deep",
            arguments(format!("{}{}", "[".repeat(70), "]".repeat(70))),
        ),
        (
            "an id too long",
            ending(&format!(
                "\"name\":\"echo\",{META}}},{}",
                rest.replace(":1,", &format!(":\"{}\",", "9".repeat(70_000)))
            )),
        ),
        (
            "a lone surrogate",
            good().edit("\"name\":\"echo\"", "\"name\":\"\\ud800\""),
        ),
    ]
}

/// The same of the bytes.
fn late_bytes() -> Vec<(&'static str, Request)> {
    let large = "y".repeat(300 << 10);
    let arguments = |arguments: String| {
        with_arguments("echo", &format!("{{\"a\":\"{large}\",\"b\":{arguments}}}"))
    };
    vec![
        ("no JSON", arguments("tru".into())),
        ("a control character", arguments("\"\n\"".into())),
        ("a bad number", arguments("1.".into())),
        (
            "a second document",
            good().edit("\"tools/call\"}", &format!("\"tools/call\"}}{}", "{}")),
        ),
        (
            "something behind blanks",
            good().edit("\"tools/call\"}", "\"tools/call\"} \n\t x"),
        ),
        (
            "the end of an array",
            good().edit("\"tools/call\"}", "\"tools/call\"]"),
        ),
        ("no end", good().edit("\"tools/call\"}", "\"tools/call\"")),
        (
            "no JSON-RPC",
            good().edit("\"tools/call\"}", "\"tools/call\",\"jsonrpc\":\"2.0\"}"),
        ),
    ]
}

/// Bodies that show it within the buffer.
fn early() -> Vec<(&'static str, Request)> {
    let large = "y".repeat(300 << 10);
    let begun = |begin: &str| {
        Request::call("echo").body(format!(
            "{{{begin},\"params\":{{\"name\":\"echo\",{META},\"arguments\":{{\"a\":\"{large}\"}}}},\"jsonrpc\":\"2.0\"}}"
        ))
    };
    vec![
        (
            "another method",
            begun("\"id\":1,\"method\":\"tools/list\""),
        ),
        (
            "a repeated key",
            begun("\"id\":1,\"method\":\"tools/call\",\"method\":\"tools/call\""),
        ),
        (
            "an id of null",
            begun("\"id\":null,\"method\":\"tools/call\""),
        ),
        (
            "no JSON",
            begun("\"id\":1,\"method\":\"tools/call\",\"x\":01"),
        ),
        (
            "an array",
            Request::call("echo").body(format!("[{}]", String::from_utf8_lossy(&good().body))),
        ),
        (
            "a byte order mark",
            Request::call("echo").body([b"\xef\xbb\xbf", good().body.as_slice()].concat()),
        ),
        (
            "worse behind it",
            begun("\"id\":1,\"method\":\"tools/list\"").edit("\"2.0\"}", "\"2.0\"}}"),
        ),
    ]
}

#[test]
fn a_flaw_at_the_end_leaves_no_complete_request() {
    let sink = Sink::start();
    let (streaming, reading) = (
        before(&sink, |policy| policy),
        before(&sink, |policy| policy.bound("stream_bytes_max", 0)),
    );
    let late = late_members()
        .into_iter()
        .chain(late_messages())
        .chain(late_bytes());
    for (number, (what, request)) in late.enumerate() {
        for (round, framed) in FRAMINGS.into_iter().enumerate() {
            let before = sink.requests().len();
            let (_, whole) = send(&reading, &request, framed);
            assert_eq!(sink.requests().len(), before, "{what}");
            let (mut client, answer) = send(&streaming, &request, framed);
            assert!(answer.status >= 400, "{what}, {framed:?}: {answer:?}");
            assert_eq!(answer.status, whole.status, "{what}, {framed:?}");
            assert_eq!(answer.text(), whole.text(), "{what}, {framed:?}");
            sink.wait_for_requests(before + 1);
            let seen = sink.broke_off(what);
            let body = seen.body();
            assert!(request.body.starts_with(&body), "{what}, {framed:?}");
            // What has no end may come as a whole in chunks, but never their end.
            let is_whole = body.len() == request.body.len();
            assert!(!is_whole || what == "no end", "{what}, {framed:?}");
            let records = streaming.wait_for_records(2 * (2 * number + round) + 1);
            let record = records.last().unwrap();
            let verdict = record["verdict"].as_str().unwrap_or_default();
            assert!(verdict.starts_with("refused:"), "{what}: {record}");
            assert_eq!(
                (&record["body"], &record["status"]),
                (&"streamed".into(), &answer.status.into())
            );
            // The connection of the client serves on.
            assert_eq!(client.exchange(&call("next", 10)).status, 200, "{what}");
            streaming.wait_for_records(2 * (2 * number + round) + 2);
        }
    }
}

#[test]
fn a_flaw_in_the_beginning_keeps_all_of_it_from_the_upstream() {
    let sink = Sink::start();
    let (streaming, reading) = (
        before(&sink, |policy| policy),
        before(&sink, |policy| policy.bound("stream_bytes_max", 0)),
    );
    for (what, request) in early() {
        for framed in FRAMINGS {
            let (_, whole) = send(&reading, &request, framed);
            let (mut client, answer) = send(&streaming, &request, framed);
            assert_eq!(
                (answer.status, answer.text()),
                (whole.status, whole.text()),
                "{what}"
            );
            assert_eq!(answer.status, 400, "{what}");
            let before = sink.requests().len();
            assert_eq!(client.exchange(&call("next", 10)).status, 200, "{what}");
            let requests = sink.requests();
            assert_eq!(requests.len(), before + 1, "{what}");
            assert!(
                requests
                    .iter()
                    .all(|seen| seen.head().unwrap().value("mcp-name").as_deref() == Some("next")),
                "{what}"
            );
        }
    }
}

#[test]
fn padding_without_end_is_refused() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    for blanks in [65 << 10, 5 << 20] {
        for framed in FRAMINGS {
            let mut request = good();
            request.body.extend(std::iter::repeat_n(b' ', blanks));
            let (mut client, answer) = send(&gateway, &request, framed);
            Refusal::of(413, 413)
                .names(&["bounds.buffer_bytes"])
                .check("padding", &answer);
            let seen = sink.broke_off("padding");
            assert!(seen.body().len() < good().body.len());
            assert_eq!(client.exchange(&call("next", 10)).status, 200);
        }
    }
}

#[test]
fn a_body_that_breaks_off_leaves_no_complete_request() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let request = good();
    // A chunk that cannot be read.
    let mut upload = super::Upload::begin(&gateway, &request, super::Framed::Chunked);
    upload.piece(&request.body[..request.body.len() - 20]);
    sink.wait_for_bytes(super::BEGUN);
    upload.client.send_bytes(b"x\r\n");
    let answer = upload.answer();
    Refusal::of(400, 400)
        .with_some_id()
        .check("a bad chunk", &answer);
    assert_eq!(answer.head.value("connection").as_deref(), Some("close"));
    sink.broke_off("a bad chunk");
}
