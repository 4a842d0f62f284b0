//! Bodies that are what their headers say: they pass while they come, byte by byte as they came.

use super::sink::Sink;
use super::{BEGUN, FRAMINGS, Framed, LONG, META, Upload, before, call, send, with_arguments};
use crate::harness::{Request, Site};

#[test]
fn bytes_reach_the_upstream_before_the_body_has_ended() {
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| policy);
        let request = call("echo", 1 << 20);
        let (first, rest) = request.body.split_at(512 << 10);
        let mut upload = Upload::begin(&gateway, &request, framed);
        upload.piece(first);
        sink.wait_for_bytes(BEGUN);
        upload.piece(rest);
        upload.end();
        assert_eq!(upload.answer().status, 200);
        let seen = sink.last();
        assert!(
            seen.is_complete() && seen.body() == request.body,
            "{framed:?}"
        );
        let head = seen.head().unwrap();
        assert_eq!(head.has("content-length"), framed == Framed::Length);
        assert_eq!(head.has("transfer-encoding"), framed == Framed::Chunked);
        assert_eq!(head.value("mcp-name").unwrap(), "echo");
        // Both connections serve the next exchange.
        assert_eq!(upload.client.exchange(&call("next", 10)).status, 200);
        assert_eq!(sink.last().connection, seen.connection);
        let record = &gateway.wait_for_records(2)[0];
        assert_eq!(record["verdict"], "forwarded", "{record}");
        assert_eq!(record["body"], "streamed", "{record}");
        assert_eq!(record["bytes_in"], request.body.len(), "{record}");
        assert_eq!(
            (&record["method"], &record["name"]),
            (&"tools/call".into(), &"echo".into())
        );
        assert!(gateway.records()[1].get("body").is_none());
    }
}

#[test]
fn the_closing_brace_and_what_follows_wait_for_the_end() {
    for blanks in ["", " ", "\n \t\r\n"] {
        for framed in FRAMINGS {
            if framed == Framed::Length && blanks.is_empty() {
                // The end is known with the last byte.
                continue;
            }
            let sink = Sink::start();
            let gateway = before(&sink, |policy| policy);
            let mut request = call("echo", 300 << 10);
            let message = request.body.len();
            request.body.extend_from_slice(blanks.as_bytes());
            // All but the very end: the last byte, or the last chunk.
            let known = request.body.len() - usize::from(framed == Framed::Length);
            let (first, rest) = request.body.split_at(known);
            let mut upload = Upload::begin(&gateway, &request, framed);
            upload.piece(first);
            sink.wait("all but the brace", |seen| seen.body().len() >= message - 1);
            let body = sink.last().body();
            assert_eq!(body, &request.body[..message - 1], "{framed:?} {blanks:?}");
            if !rest.is_empty() {
                upload.piece(rest);
            }
            upload.end();
            assert_eq!(upload.answer().status, 200);
            assert_eq!(sink.last().body(), request.body);
        }
    }
}

#[test]
fn a_hundred_mebibytes_pass_in_the_memory_of_a_small_call() {
    const SIZE: usize = 100 << 20;
    let row = "{\"id\":123456,\"name\":\"Seattle, WA\",\"tags\":[\"a\",\"é\",null,1.5e3]},";
    let rows = format!("{{\"rows\":[{}0]}}", row.repeat(SIZE / row.len()));
    let text = format!("{{\"text\":\"{}\"}}", "x".repeat(SIZE));
    for (shape, arguments) in [("rows", rows), ("a text", text)] {
        let request = with_arguments("big", &arguments);
        drop(arguments);
        for framed in FRAMINGS {
            let sink = Sink::start();
            let gateway = before(&sink, |policy| policy);
            // What any upload needs, such as buffers of both connections.
            assert_eq!(
                send(&gateway, &call("small", 1 << 20), framed).1.status,
                200
            );
            let before = gateway.memory_peak();
            let mut upload = Upload::begin(&gateway, &request, framed);
            for piece in request.body.chunks(1 << 20) {
                upload.piece(piece);
            }
            upload.end();
            assert_eq!(upload.answer().status, 200, "{shape}, {framed:?}");
            let grown = gateway.memory_peak() - before;
            println!("{shape}, {framed:?}: {} KiB more", grown >> 10);
            assert!(grown < 2 << 20, "{shape}, {framed:?}: {grown} bytes more");
            assert!(sink.last().body() == request.body, "{shape}, {framed:?}");
        }
    }
}

#[test]
fn any_order_and_any_shape_passes() {
    let large = "y".repeat(300 << 10);
    let envelope = |members: &str| format!("{{{members}}}").into_bytes();
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    for (what, body) in [
        (
            "the name behind",
            envelope(&format!(
                "\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{{META},\"arguments\":{{\"a\":\"{large}\"}},\"name\":\"echo\"}}"
            )),
        ),
        (
            "_meta behind",
            envelope(&format!(
                "\"method\":\"tools/call\",\"id\":1,\"jsonrpc\":\"2.0\",\"params\":{{\"name\":\"echo\",\"arguments\":{{\"a\":\"{large}\"}},{META}}}"
            )),
        ),
        (
            "everything behind",
            envelope(&format!(
                "\"params\":{{\"x\":\"{large}\",{META},\"n\\u0061me\":\"echo\"}},\"method\":\"tools\\/call\",\"id\":1,\"jsonrpc\":\"2.0\""
            )),
        ),
        (
            "depth",
            with_arguments("echo", &format!("[{}0]", format!("{deep},").repeat(2000))).body,
        ),
        (
            "escapes",
            with_arguments(
                "echo",
                &format!("[{}0]", "\"\\ud83d\\ude00 }\\\"{ é 😀\",".repeat(8000)),
            )
            .body,
        ),
        (
            "blanks before",
            [vec![b' '; 300 << 10], call("echo", 10).body].concat(),
        ),
        (
            "blanks within",
            with_arguments("echo", &format!("{{{}}}", "\n".repeat(300 << 10))).body,
        ),
        (
            "blanks behind",
            [call("echo", 300 << 10).body, vec![b'\n'; 64 << 10]].concat(),
        ),
    ] {
        let request = Request::call("echo").body(body);
        for framed in FRAMINGS {
            let sink = Sink::start();
            let gateway = before(&sink, |policy| policy);
            let (_, answer) = send(&gateway, &request, framed);
            assert_eq!(answer.status, 200, "{what}, {framed:?}: {answer:?}");
            assert!(sink.last().body() == request.body, "{what}, {framed:?}");
            assert_eq!(gateway.wait_for_records(1)[0]["body"], "streamed", "{what}");
        }
    }
}

#[test]
fn chunks_of_any_size_pass() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy.bound("buffer_bytes", 1));
    for size in [1, 3, 100, 70_000] {
        let request = call("echo", 4 * size.max(500)).chunked(size);
        let mut client = gateway.connect();
        client.wire.set_patience(LONG);
        assert_eq!(client.exchange(&request).status, 200, "{size}");
        assert_eq!(sink.last().body(), request.body, "{size}");
        // The brace in a chunk of its own.
        let (first, brace) = request.body.split_at(request.body.len() - 1);
        let mut upload = Upload::on(client, &request, Framed::Chunked);
        upload.piece(first);
        upload.piece(brace);
        upload.end();
        assert_eq!(upload.answer().status, 200, "{size}");
        assert_eq!(sink.last().body(), request.body, "{size}");
    }
    assert!(
        gateway
            .wait_for_records(8)
            .iter()
            .all(|record| record["body"] == "streamed")
    );
}

#[test]
fn any_modern_message_may_stream() {
    let site = Site::with(|policy| policy.bound("buffer_bytes", 16));
    let notification = Request::modern_notification("notifications/x");
    let listed = Request::modern("tools/list", serde_json::json!({"x": "y".repeat(1000)}));
    let read = Request::modern("resources/read", serde_json::json!({"uri": "file:///é"}))
        .header("Mcp-Name", "=?base64?ZmlsZTovLy/DqQ==?=");
    for request in [
        notification,
        listed.clone(),
        listed.line("Mcp-Name", "x"),
        read,
    ] {
        for request in [request.clone(), request.chunked(20)] {
            site.forwards("a message", &request.line("Mcp-Param-A", "b"));
            let received = site.upstream.last();
            assert_eq!(received.head.value("mcp-param-a").as_deref(), Some("b"));
            // What has come in one piece is no larger for being read first.
            let streams = received.head.has("transfer-encoding");
            assert_eq!(site.last_record()["body"] == "streamed", streams);
        }
    }
}

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    for framed in FRAMINGS {
        let request = call("echo", 300 << 10).line("Expect", "100-continue");
        let mut upload = Upload::begin(&gateway, &request, framed);
        assert_eq!(upload.client.wire.head().unwrap().status(), 100);
        upload.piece(&request.body);
        upload.end();
        assert_eq!(upload.answer().status, 200);
        assert_eq!(sink.last().body(), request.body);
        assert!(!sink.last().head().unwrap().has("expect"));
    }
}

#[test]
fn trailers_stay_on_their_leg() {
    let sink = Sink::start();
    let gateway = before(&sink, |policy| policy);
    let request = call("echo", 300 << 10).line("Trailer", "Mcp-Name");
    let mut upload = Upload::begin(&gateway, &request, Framed::Chunked);
    upload.piece(&request.body);
    upload
        .client
        .send_bytes(b"0\r\nMcp-Name: other\r\nX-T: 1\r\n\r\n");
    assert_eq!(upload.answer().status, 200);
    let seen = sink.last();
    assert!(seen.is_complete());
    assert_eq!(seen.body(), request.body);
    assert!(!String::from_utf8_lossy(&seen.raw).contains("X-T"));
}
