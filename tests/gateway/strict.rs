//! HTTP/1.1 to the letter: each form of a request that two readers could take differently, and what
//! becomes of it. What reaches the upstream is written anew, whatever came.

use crate::harness::{Fault, Received, Request, Site};

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is refused by the gateway, which names the reason.
    Named(u16, &'static str),
    /// It is refused by the HTTP library, which says nothing and closes.
    Bare,
    /// It goes on, written anew in one form only.
    Served,
}

use Fate::{Bare, Named, Served};

fn body() -> String {
    String::from_utf8(Request::call("echo").body).expect("text")
}

/// A call with this request line, these lines of a head and this for a body.
fn request(start: &str, lines: &str, body: &str) -> Vec<u8> {
    let head = Request::call("echo")
        .without("Host")
        .header("Content-Length", "0")
        .head_bytes();
    let head = String::from_utf8(head).expect("text");
    let head = head
        .replace("POST /mcp HTTP/1.1\r\n", start)
        .replace("Content-Length: 0\r\n", lines);
    format!("{head}{body}").into_bytes()
}

const START: &str = "POST /mcp HTTP/1.1\r\n";

fn with_length(lines: &str) -> Vec<u8> {
    let body = body();
    let lines = format!("{lines}Content-Length: {}\r\n", body.len());
    request(START, &lines, &body)
}

fn chunked(chunks: &str) -> Vec<u8> {
    request(
        START,
        "Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n",
        chunks,
    )
}

/// A good call stands behind each of them; it runs where the connection is still in step, and
/// otherwise nothing does.
fn meets(site: &Site, what: &str, bytes: &[u8], fate: Fate) {
    let before = site.upstream.request_count();
    let mut client = site.gateway.connect();
    client.send_bytes(bytes);
    let answer = client.read();
    match fate {
        Served => {
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            let received = site.upstream.last();
            assert_eq!(site.upstream.request_count(), before + 1, "{what}");
            is_written_anew(what, &received);
        }
        Named(status, reason) => {
            assert_eq!(answer.status, status, "{what}: {answer:?}");
            let named = &answer.json()["error"]["data"]["reason"];
            assert_eq!(named, reason, "{what}: {answer:?}");
        }
        Bare => {
            assert_eq!(
                (answer.status, answer.body.len()),
                (400, 0),
                "{what}: {answer:?}"
            );
            assert_eq!(client.wire.ending(), Fault::Closed(0), "{what}");
        }
    }
    if !matches!(fate, Served) {
        assert_eq!(site.upstream.request_count(), before, "{what}: forwarded");
    }
    site.works(what, &mut site.gateway.connect());
}

/// One length, no coding, one host, and the body that was sent.
fn is_written_anew(what: &str, received: &Received) {
    assert_eq!(received.body, body().as_bytes(), "{what}");
    let length = received.head.value("content-length");
    assert_eq!(length, Some(received.body.len().to_string()), "{what}");
    for name in [
        "transfer-encoding",
        "trailer",
        "upgrade",
        "connection",
        "te",
    ] {
        assert!(!received.head.has(name), "{what}: {:?}", received.head);
    }
    assert_eq!(received.head.values("host").len(), 1, "{what}");
}

fn each(cases: &[(&str, Vec<u8>, Fate)]) {
    let site = Site::new();
    for (what, bytes, fate) in cases {
        meets(&site, what, bytes, *fate);
    }
}

#[test]
fn a_request_names_its_host_once() {
    const UNCLEAR: Fate = Named(400, "host_unclear");
    let lines = |lines: &str| with_length(lines);
    each(&[
        ("once", lines("Host: 127.0.0.1\r\n"), Served),
        ("none", lines(""), UNCLEAR),
        (
            "twice the same",
            lines("Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n"),
            UNCLEAR,
        ),
        (
            "two",
            lines("Host: 127.0.0.1\r\nHost: evil.example\r\n"),
            UNCLEAR,
        ),
        ("a list", lines("Host: 127.0.0.1, 127.0.0.1\r\n"), UNCLEAR),
        ("nothing", lines("Host:\r\n"), UNCLEAR),
        ("a user", lines("Host: me@127.0.0.1\r\n"), UNCLEAR),
        ("a path", lines("Host: 127.0.0.1/mcp\r\n"), UNCLEAR),
    ]);
}

#[test]
fn a_length_is_one_number() {
    let body = body();
    let length = body.len();
    let lines = |lines: &str| request(START, &format!("Host: 127.0.0.1\r\n{lines}"), &body);
    let line = |value: &str| lines(&format!("Content-Length: {value}\r\n"));
    each(&[
        ("digits", line(&length.to_string()), Served),
        ("zeros before them", line(&format!("000{length}")), Served),
        (
            "two equal lines, which become one",
            lines(&format!("Content-Length: {length}\r\n").repeat(2)),
            Served,
        ),
        ("a list", line(&format!("{length}, {length}")), Bare),
        (
            "two lines",
            lines(&format!(
                "Content-Length: {length}\r\nContent-Length: 5\r\n"
            )),
            Bare,
        ),
        ("a sign", line(&format!("+{length}")), Bare),
        ("below zero", line("-1"), Bare),
        ("hexadecimal", line(&format!("0x{length:x}")), Bare),
        ("a fraction", line(&format!("{length}.0")), Bare),
        ("a blank within", line("1 99"), Bare),
        ("nothing", line(""), Bare),
        (
            "more than a number holds",
            line("18446744073709551616"),
            Bare,
        ),
    ]);
}

#[test]
fn a_coding_is_chunked_and_nothing_else() {
    let body = body();
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let line = |value: &str| {
        let lines = format!("Host: 127.0.0.1\r\nTransfer-Encoding: {value}\r\n");
        request(START, &lines, &chunks)
    };
    const CODING: Fate = Named(400, "transfer_coding");
    each(&[
        ("chunked", line("chunked"), Served),
        ("in capitals", line("CHUNKED"), Served),
        ("with blanks around", line("\t chunked \t"), Served),
        ("behind another", line("gzip, chunked"), CODING),
        ("twice", line("chunked, chunked"), CODING),
        (
            "in two lines",
            line("chunked\r\nTransfer-Encoding: chunked"),
            CODING,
        ),
        (
            "behind identity",
            line("identity\r\nTransfer-Encoding: chunked"),
            CODING,
        ),
        ("before another", line("chunked, gzip"), Bare),
        ("another", line("gzip"), Bare),
        ("identity", line("identity"), Bare),
        ("nothing", line(""), Bare),
        ("nearly", line("xchunked"), Bare),
        ("with a parameter", line("chunked;q=1"), Bare),
        ("a control character", line("\u{b}chunked"), Bare),
        (
            "in HTTP/1.0, which has none",
            request(
                "POST /mcp HTTP/1.0\r\n",
                "Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n",
                &chunks,
            ),
            Bare,
        ),
    ]);
}

#[test]
fn chunks_are_taken_out_of_their_frames() {
    let body = body();
    let length = body.len();
    let (first, rest) = body.split_at(20);
    let last = format!("{:X}\r\n{rest}", rest.len());
    let served = |chunks: String| chunked(&chunks);
    each(&[
        (
            "one",
            served(format!("{length:x}\r\n{body}\r\n0\r\n\r\n")),
            Served,
        ),
        (
            "two, in capitals, with zeros",
            served(format!("00014\r\n{first}\r\n{last}\r\n000\r\n\r\n")),
            Served,
        ),
        (
            "an extension, which goes no further",
            served(format!("{length:x};a=b\r\n{body}\r\n0;last\r\n\r\n")),
            Served,
        ),
        (
            "trailers, which go no further",
            served(format!("{length:x}\r\n{body}\r\n0\r\nX-A: b\r\n\r\n")),
            Served,
        ),
    ]);
}

#[test]
fn chunks_are_framed_one_way() {
    let body = body();
    let length = body.len();
    let sized = |size: String| chunked(&format!("{size}{body}\r\n0\r\n\r\n"));
    let behind_data = chunked(&format!("{length:x}\r\n{body}\n0\r\n\r\n"));
    let endless = "a".repeat(20_000);
    let cases = [
        (
            "a line feed alone behind the size",
            sized(format!("{length:x}\n")),
        ),
        ("a line feed alone behind the data", behind_data),
        (
            "a line feed in an extension",
            sized(format!("{length:x};a\nb\r\n")),
        ),
        (
            "an endless extension",
            sized(format!("{length:x};{endless}\r\n")),
        ),
        ("no size", sized("\r\n".into())),
        ("a sign", sized(format!("+{length:x}\r\n"))),
        ("a prefix", sized(format!("0x{length:x}\r\n"))),
        ("below zero", sized("-1\r\n".into())),
        (
            "more than a number holds",
            sized(format!("1{length:016x}\r\n")),
        ),
        ("less than follows", sized(format!("{:x}\r\n", length - 3))),
    ];
    each(&cases.map(|(what, bytes)| (what, bytes, Named(400, "body_broken"))));
}

#[test]
fn a_head_is_written_one_way() {
    let host = "Host: 127.0.0.1\r\n";
    let line = |line: &str| with_length(&format!("{host}{line}"));
    let start = |start: &str| {
        let body = body();
        let lines = format!("{host}Content-Length: {}\r\n", body.len());
        request(start, &lines, &body)
    };
    each(&[
        ("as it should be", line("X-A: b\r\n"), Served),
        ("a blank behind the value", line("X-A: b \r\n"), Served),
        // The library reads it as a line end; nothing of it goes further.
        ("a line feed alone", line("X-A: b\n"), Served),
        ("a folded line", line("X-A: b\r\n c\r\n"), Bare),
        ("a blank before the colon", line("X-A : b\r\n"), Bare),
        ("no colon", line("X-A b\r\n"), Bare),
        ("no name", line(": b\r\n"), Bare),
        ("a carriage return alone", line("X-A: b\rX-B: c\r\n"), Bare),
        ("a zero byte", line("X-A: b\0\r\n"), Bare),
        (
            "an absolute target",
            start("POST http://127.0.0.1/mcp HTTP/1.1\r\n"),
            Served,
        ),
        ("two blanks", start("POST  /mcp HTTP/1.1\r\n"), Bare),
        ("a tab", start("POST\t/mcp HTTP/1.1\r\n"), Bare),
        ("no version", start("POST /mcp\r\n"), Bare),
        (
            "a version in small letters",
            start("POST /mcp http/1.1\r\n"),
            Bare,
        ),
        (
            "a version that is none",
            start("POST /mcp HTTP/1.2\r\n"),
            Bare,
        ),
        ("a later version", start("POST /mcp HTTP/2.0\r\n"), Bare),
        (
            "a blank in the target",
            start("POST /mcp x HTTP/1.1\r\n"),
            Bare,
        ),
    ]);
}

#[test]
fn no_connection_becomes_another_protocol() {
    let site = Site::new();
    let host = "Host: 127.0.0.1\r\n";
    for (what, lines) in [
        (
            "a web socket",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        ),
        (
            "HTTP/2",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        ),
    ] {
        // It is a request like any other, and the next one is read after it.
        let bytes = with_length(&format!("{host}{lines}"));
        meets(&site, what, &bytes, Served);
        let mut client = site.gateway.connect();
        client.send_bytes(&bytes);
        let answer = client.read();
        assert!(
            answer.interim.is_empty() && !answer.head.has("upgrade"),
            "{answer:?}"
        );
        site.works(what, &mut client);
    }
    for target in ["127.0.0.1:80", "evil.example:443"] {
        let before = site.upstream.request_count();
        let mut client = site.gateway.connect();
        client
            .send_bytes(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes());
        let answer = client.read();
        assert!((400..500).contains(&answer.status), "{answer:?}");
        // What follows is no tunnel.
        let _ = client.wire.write(&Request::call("tunnelled").bytes());
        if let Ok(answer) = client.try_read() {
            assert!(!answer.text().contains("evil"), "{answer:?}");
        }
        let ran = site.upstream.log().requests[before..]
            .iter()
            .all(|r| r.method == "POST");
        assert!(ran, "{target}");
    }
}
