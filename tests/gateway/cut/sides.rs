//! Clients that stall or go in the middle of a body that streams.

use super::sink::{Manner, Sink};
use super::{BEGUN, FRAMINGS, Framed, Upload, before, call};
use crate::harness::Refusal;

#[test]
fn a_client_that_goes_takes_the_upstreams_request_with_it() {
    for framed in FRAMINGS {
        for reset in [true, false] {
            for stalled in [true, false] {
                let sink = Sink::with(Manner {
                    pause_at: stalled.then_some(1),
                    ..Manner::default()
                });
                let gateway = before(&sink, |policy| policy);
                let request = call("echo", 64 << 20);
                let mut upload = Upload::begin(&gateway, &request, framed);
                if stalled {
                    // More than anybody takes.
                    upload
                        .client
                        .send_some(&framed_piece(&request.body, framed));
                    sink.wait_for_bytes(1);
                } else {
                    upload.piece(&request.body[..1 << 20]);
                    sink.wait_for_bytes(BEGUN);
                }
                let what = format!("{framed:?}, reset {reset}, stalled {stalled}");
                match reset {
                    true => upload.client.wire.reset(),
                    false if stalled => {
                        // An orderly end stands behind the bytes, and arrives once they are taken.
                        drop(upload);
                        sink.go_on();
                    }
                    false => drop(upload),
                }
                let record = &gateway.wait_for_records(1)[0];
                assert_eq!(record["end"], "client_gone", "{what}: {record}");
                assert_eq!(record["body"], "streamed", "{what}: {record}");
                let bytes = record["bytes_in"].as_u64().unwrap_or_default();
                assert!((64 << 10..64 << 20).contains(&bytes), "{what}: {record}");
                sink.go_on();
                sink.broke_off(&what);
            }
        }
    }
}

fn framed_piece(body: &[u8], framed: Framed) -> Vec<u8> {
    match framed {
        Framed::Length => body.to_vec(),
        Framed::Chunked => [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat(),
    }
}

#[test]
fn a_client_that_ends_its_side_too_early_leaves_no_complete_request() {
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| policy);
        let request = call("echo", 1 << 20);
        let mut upload = Upload::begin(&gateway, &request, framed);
        // All of the message is here, but not the end of the body.
        let known = request.body.len() - usize::from(framed == Framed::Length);
        upload.piece(&request.body[..known]);
        sink.wait_for_bytes(BEGUN);
        upload.client.wire.finish();
        sink.broke_off("half a body");
    }
}

#[test]
fn a_client_that_pauses_for_too_long_is_told() {
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| policy.bound("body_idle_timeout", "300ms"));
        let request = call("echo", 1 << 20);
        let mut upload = Upload::begin(&gateway, &request, framed);
        upload.piece(&request.body[..512 << 10]);
        sink.wait_for_bytes(BEGUN);
        let answer = upload.answer();
        Refusal::of(408, 408)
            .names(&["body_idle_timeout"])
            .check("a pause", &answer);
        assert_eq!(answer.head.value("connection").as_deref(), Some("close"));
        sink.broke_off("a pause");
        // Silence is what is bounded, not the time that a body takes.
        let mut upload = Upload::begin(&gateway, &request, framed);
        for piece in request.body.chunks(request.body.len() / 8) {
            std::thread::sleep(std::time::Duration::from_millis(100));
            upload.piece(piece);
        }
        upload.end();
        assert_eq!(upload.answer().status, 200);
    }
}

#[test]
fn a_deadline_is_told_to_an_id_that_came_late() {
    for framed in FRAMINGS {
        let sink = Sink::start();
        let gateway = before(&sink, |policy| {
            policy.set("/routes/0/deadline/call", serde_json::json!("2s"))
        });
        let body = String::from_utf8(call("echo", 100 << 10).body).expect("text");
        let (begin, end) = (
            body.replacen("\"id\":1,", "", 1),
            ",\"id\":9223372036854775807 }",
        );
        let body = format!("{}{end}", begin.trim_end_matches('}'));
        let request = call("echo", 0).body(body);
        let mut upload = Upload::begin(&gateway, &request, framed);
        // All but the last brace: the id is complete, and the body is not.
        upload.piece(&request.body[..request.body.len() - 1]);
        let answer = upload.answer();
        Refusal::of(504, 504)
            .id("9223372036854775807")
            .names(&["deadline.call"])
            .check("late", &answer);
        sink.broke_off("late");
    }
}
