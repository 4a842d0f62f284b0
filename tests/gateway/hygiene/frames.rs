//! Many frames on one connection: each answer belongs to its request, and no byte of a refused
//! body is ever read as a request.

use crate::harness::{Request, Response, Site};

/// A frame, and what its answer must be: the status, and the error's code if it is refused.
struct Frame {
    request: Request,
    status: u16,
    code: Option<i64>,
    id: String,
}

/// A frame of one of ten kinds; every second one is good.
fn frame(number: usize) -> Frame {
    let id = number.to_string();
    let call = Request::call("echo").id(&id);
    // Were any byte of a refused body left over, this would run.
    let hidden = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    let (request, status, code) = match number % 10 {
        0 | 6 => (call.clone(), 200, None),
        2 => (call.clone().chunked(11), 200, None),
        4 => (Request::legacy_call("echo").id(&id), 200, None),
        8 => (Request::modern_notification("notifications/x"), 202, None),
        1 => (call.clone().header("Mcp-Name", "other"), 400, Some(-32020)),
        3 => (call.clone().body(hidden.repeat(3)), 400, Some(-32700)),
        5 => (
            call.clone().edit("\"2.0\"", "\"1.0\"").chunked(13),
            400,
            Some(-32600),
        ),
        7 => (
            call.clone()
                .header("Content-Type", "text/plain")
                .body(hidden.repeat(50)),
            415,
            None,
        ),
        _ => (
            call.clone().target("/other").body(hidden).chunked(5),
            404,
            None,
        ),
    };
    Frame {
        request,
        status,
        code,
        id,
    }
}

fn check(frame: &Frame, answer: &Response) {
    assert_eq!(answer.status, frame.status, "{}: {answer:?}", frame.id);
    if let Some(code) = frame.code {
        assert_eq!(answer.code(), Some(code), "{}: {answer:?}", frame.id);
    }
    // What was read of a body is answered under its id.
    if matches!(frame.status, 200) || matches!(frame.code, Some(-32020 | -32600)) {
        assert_eq!(answer.raw_id().as_deref(), Some(frame.id.as_str()));
    }
}

fn good_frames(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| frame.status < 300).count()
}

#[test]
fn a_hundred_frames_one_after_the_other_on_one_connection() {
    let site = Site::new();
    let frames: Vec<Frame> = (0..100).map(frame).collect();
    let mut client = site.gateway.connect();
    for frame in &frames {
        check(frame, &client.exchange(&frame.request));
    }
    assert_eq!(site.upstream.request_count(), good_frames(&frames));
    site.works("a hundred frames", &mut client);
}

#[test]
fn a_hundred_frames_sent_at_once_are_answered_in_their_order() {
    let site = Site::new();
    let frames: Vec<Frame> = (0..100).map(frame).collect();
    let mut client = site.gateway.connect();
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.request.bytes())
        .collect();
    std::thread::scope(|scope| {
        let writing = client.wire.stream.try_clone().unwrap();
        scope.spawn(move || std::io::Write::write_all(&mut &writing, &bytes).unwrap());
        for frame in &frames {
            check(frame, &client.read());
        }
    });
    assert_eq!(site.upstream.request_count(), good_frames(&frames));
    site.works("a hundred frames at once", &mut client);
}

#[test]
fn a_few_frames_in_every_split_into_two_segments() {
    let site = Site::new();
    let frames = [frame(0), frame(1), frame(3), frame(6)];
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|frame| frame.request.bytes())
        .collect();
    let mut client = site.gateway.connect();
    for at in (1..bytes.len()).step_by(97) {
        client.send_bytes(&bytes[..at]);
        std::thread::yield_now();
        client.send_bytes(&bytes[at..]);
        for frame in &frames {
            check(frame, &client.read());
        }
    }
}

#[test]
fn blank_lines_between_requests_are_no_requests() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    for _ in 0..3 {
        let bytes = [Request::call("echo").bytes(), b"\r\n".to_vec()].concat();
        client.send_bytes(&bytes);
        assert_eq!(client.read().status, 200);
    }
    site.works("stray line ends", &mut client);
    assert_eq!(site.upstream.runs("echo"), 3);
}
