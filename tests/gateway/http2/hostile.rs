//! Connections of HTTP/2 that were never meant to work, frame by frame.

use std::time::Duration;

use crate::harness::{Client, Fault, Request, Site};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// ENHANCE_YOUR_CALM (RFC 9113, 7).
const CALM: u32 = 0xb;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// `GET http://127.0.0.1/mcp` in literals that no table remembers (RFC 7541, 6.2.2).
fn head() -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "127.0.0.1"),
        (":path", "/mcp"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn opened(site: &Site) -> Client {
    let mut client = site.gateway.connect();
    client.send_bytes(PREFACE);
    client.send_bytes(&frame(SETTINGS, 0, 0, &[]));
    client
}

/// Reads frames until the one that ends the connection, and gives its code.
fn goaway(client: &mut Client) -> Option<u32> {
    loop {
        let head = client.wire.exactly(9).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = client.wire.exactly(length as usize).ok()?;
        if head[3] == GOAWAY {
            let code = payload[4..8].try_into().unwrap();
            return Some(u32::from_be_bytes(code));
        }
    }
}

fn is_over(client: &mut Client) -> bool {
    matches!(client.wire.ending(), Fault::Closed(_) | Fault::Reset)
}

#[test]
fn a_preface_that_never_ends_is_given_up() {
    let site = Site::with(|policy| policy.listen("handshake_timeout", "300ms"));
    for sent in [1, 10, PREFACE.len() - 1] {
        let mut client = site.gateway.connect();
        client.send_bytes(&PREFACE[..sent]);
        assert!(is_over(&mut client), "{sent} bytes");
    }
    let records = site.gateway.wait_for_connections(3);
    assert!(
        records
            .iter()
            .all(|record| record["end"] == "handshake_timeout"),
        "{records:?}"
    );
    // One that arrives in pieces is taken.
    let mut client = site.gateway.connect();
    client.dribble(PREFACE);
    client.send_bytes(&frame(SETTINGS, 0, 0, &[]));
    client.send_bytes(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head()));
    site.upstream.wait_for_requests(1);
    site.works("prefaces", &mut site.gateway.connect());
}

#[test]
fn a_head_that_never_ends_is_given_up() {
    let site = Site::with(|policy| policy.listen("header_read_timeout", "300ms"));
    let half = &head()[..20];
    for (what, frames) in [
        ("no request", Vec::new()),
        (
            "half a frame",
            frame(HEADERS, END_STREAM, 1, half)[..15].to_vec(),
        ),
        ("no CONTINUATION", frame(HEADERS, END_STREAM, 1, half)),
    ] {
        let mut client = opened(&site);
        client.send_bytes(&frames);
        assert!(is_over(&mut client), "{what}");
    }
    let records = site.gateway.wait_for_connections(3);
    assert!(
        records
            .iter()
            .all(|record| record["end"] == "header_read_timeout"),
        "{records:?}"
    );
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn requests_that_are_reset_at_once_end_the_connection() {
    let site = Site::new();
    let mut client = opened(&site);
    let mut flood = Vec::new();
    for number in 0..500 {
        let stream = 2 * number + 1;
        flood.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &head()));
        flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    // The gateway may have ended it before all of it was sent.
    let _ = client.wire.write(&flood);
    assert_eq!(goaway(&mut client), Some(CALM));
    assert!(is_over(&mut client));
    let ran = site.upstream.request_count();
    assert!(ran <= 100, "{ran} requests went on");
    site.gateway.wait_for_connections(1);
    site.works("a flood of resets", &mut site.gateway.connect());
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let site = Site::new();
    for (what, bytes) in [
        ("DATA on no stream", frame(0, 0, 0, b"x")),
        (
            "HEADERS of an even stream",
            frame(HEADERS, END_STREAM | END_HEADERS, 2, &head()),
        ),
        ("a frame longer than allowed", frame(0, 0, 1, &[0; 20_000])),
        (
            "a table that is none",
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff; 8]),
        ),
        ("HTTP/1.1", Request::call("echo").bytes()),
    ] {
        let mut client = opened(&site);
        let _ = client.wire.write(&bytes);
        assert!(goaway(&mut client).is_some_and(|code| code > 0), "{what}");
        assert!(is_over(&mut client), "{what}");
    }
    assert_eq!(site.upstream.request_count(), 0);
    site.works("nonsense", &mut site.gateway.connect());
}

#[test]
fn headers_that_belong_to_a_connection_are_refused() {
    let site = Site::new();
    let mut client = opened(&site);
    let mut block = head();
    block.push(0);
    for text in ["connection", "close"] {
        block.push(u8::try_from(text.len()).unwrap());
        block.extend_from_slice(text.as_bytes());
    }
    client.send_bytes(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block));
    let mut reset = None;
    while reset.is_none() {
        let head = client.wire.exactly(9).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        client.wire.exactly(length as usize).unwrap();
        reset = (head[3] == RST_STREAM).then_some(head[8]);
    }
    assert_eq!(reset, Some(1));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(site.upstream.request_count(), 0);
}
