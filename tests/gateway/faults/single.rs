//! Faults of an upstream over HTTP/1.1, one exchange each: what the client got of the answer, byte for
//! byte, how often the tool ran, what the record says, and that nothing is left open.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use socket2::SockRef;

use super::{broken_off, record_of};
use crate::harness::{
    Framing, Gateway, Play, Policy, Received, Reply, Request, Site, Upstream, contains,
};

const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

/// An upstream that answers the tool `ill` in this way, and others as usual.
fn ill(steps: Vec<Play>) -> Site {
    let upstream = Upstream::with(
        move |request: &Received| match request.json()["params"]["name"].as_str() {
            Some("ill") => Reply::Steps(steps.clone()),
            _ => Reply::usual(request),
        },
    );
    Site::before(upstream, |policy| policy)
}

/// Behind the ill call, a good one works on a connection of its own, and one connection is left.
fn is_over(what: &str, site: &Site, end: &str) {
    let record = record_of(&site.gateway, "ill");
    assert_eq!(record["end"], end, "{what}: {record}");
    assert_eq!(site.upstream.runs("ill"), 1, "{what}: never repeated");
    site.works(what, &mut site.gateway.connect());
    assert_eq!(site.upstream.last().connection, 1, "{what}");
    site.upstream.wait(what, |log| log.open() == 1);
}

/// Long enough for what was sent before to be passed on, so that a reset does not overtake it.
fn pause() -> Play {
    Play::Pause(Duration::from_millis(50))
}

#[test]
fn an_answer_that_breaks_off_never_ends_well() {
    let text = |text: String| Play::Send(text.into());
    for (what, head, body) in [
        (
            "a length, nothing of it",
            format!("{JSON}Content-Length: 30\r\n\r\n"),
            "",
        ),
        (
            "a length, half of it",
            format!("{JSON}Content-Length: 30\r\n\r\n"),
            "{\"jsonrpc\":",
        ),
        (
            "a length, all but one",
            format!("{JSON}Content-Length: 3\r\n\r\n"),
            "{}",
        ),
        (
            "a length, half an event",
            format!("{SSE}Content-Length: 30\r\n\r\n"),
            "data: 1\n\nda",
        ),
    ] {
        for end in [Play::Close, Play::Reset] {
            let what = format!("{what}, {end:?}");
            let site = ill(vec![text(head.clone() + body), pause(), end]);
            let mut client = site.gateway.connect();
            client.send(&Request::call("ill"));
            let seen = broken_off(&what, &mut client);
            assert_eq!(String::from_utf8_lossy(&seen), body, "{what}");
            is_over(&what, &site, "upstream_failed");
        }
    }
}

#[test]
fn a_chunked_answer_that_breaks_off_never_ends_well() {
    let head = format!("{SSE}Transfer-Encoding: chunked\r\n\r\n");
    for (what, body, passed) in [
        ("no chunk", "", ""),
        ("a whole event", "9\r\ndata: 1\n\n\r\n", "data: 1\n\n"),
        (
            "half an event",
            "d\r\ndata: 1\n\ndata\r\n",
            "data: 1\n\ndata",
        ),
        ("half a chunk", "12\r\ndata: 1\n\n", "data: 1\n\n"),
        (
            "half a chunk's size",
            "9\r\ndata: 1\n\n\r\n1",
            "data: 1\n\n",
        ),
        (
            "a size that is none",
            "9\r\ndata: 1\n\n\r\nzz\r\n",
            "data: 1\n\n",
        ),
        (
            "a size beyond all bounds",
            "9\r\ndata: 1\n\n\r\nfffffffffffffffffffff\r\n",
            "data: 1\n\n",
        ),
        ("half an end", "9\r\ndata: 1\n\n\r\n0\r\n", "data: 1\n\n"),
    ] {
        for end in [Play::Close, Play::Reset] {
            let what = format!("{what}, {end:?}");
            let bytes = format!("{head}{body}");
            let site = ill(vec![Play::Send(bytes.into()), pause(), end]);
            let mut client = site.gateway.connect();
            client.send(&Request::call("ill"));
            let seen = broken_off(&what, &mut client);
            assert_eq!(String::from_utf8_lossy(&seen), passed, "{what}");
            is_over(&what, &site, "upstream_failed");
        }
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_ends_by_its_close_alone() {
    let bytes = format!("{SSE}\r\ndata: 1\n\n");
    let site = ill(vec![Play::Send(bytes.clone().into()), pause(), Play::Close]);
    let answer = site.gateway.ask(&Request::call("ill"));
    // To this client the end is one that cannot be mistaken.
    assert_eq!(
        (answer.text().as_str(), answer.framing),
        ("data: 1\n\n", Framing::Chunked)
    );
    is_over("closed", &site, "complete");

    let site = ill(vec![Play::Send(bytes.into()), pause(), Play::Reset]);
    let mut client = site.gateway.connect();
    client.send(&Request::call("ill"));
    assert_eq!(broken_off("reset", &mut client), b"data: 1\n\n");
    is_over("reset", &site, "upstream_failed");
}

#[test]
fn an_upstream_that_goes_before_its_head_ran_the_tool_once() {
    for bytes in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nContent-Ty",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ] {
        for end in [Play::Close, Play::Reset] {
            let what = format!("{bytes:?}, {end:?}");
            let site = ill(vec![Play::Send(bytes.into()), pause(), end]);
            let answer = site.gateway.ask(&Request::call("ill"));
            assert_eq!(
                (answer.status, answer.code()),
                (502, Some(502)),
                "{what}: {answer:?}"
            );
            let record = record_of(&site.gateway, "ill");
            assert_eq!(record["verdict"], "refused:upstream_failed", "{what}");
            assert!(
                record["detail"].as_str().is_some_and(|why| !why.is_empty()),
                "{what}"
            );
            is_over(&what, &site, "complete");
        }
    }
}

#[test]
fn an_answer_that_trickles_is_whole() {
    let body = "data: 1\n\n: a word\n\ndata: \u{fc}\n\n";
    let chunks: Vec<_> = body.bytes().map(|byte| Play::chunk([byte])).collect();
    let head = format!("{SSE}X-Kept: a, b\r\nTransfer-Encoding: chunked\r\n\r\n");
    let head = head
        .into_bytes()
        .into_iter()
        .map(|byte| Play::Send(vec![byte]));
    let slowly = |steps: Vec<Play>| {
        let pause = || Play::Pause(Duration::from_micros(500));
        steps.into_iter().flat_map(move |step| [step, pause()])
    };
    let steps = slowly(head.chain(chunks).collect()).chain([Play::end()]);
    let site = ill(steps.collect());
    let mut client = site.gateway.connect();
    let answer = client.exchange(&Request::call("ill"));
    assert_eq!((answer.text().as_str(), answer.status), (body, 200));
    assert_eq!(answer.head.value("x-kept").unwrap(), "a, b");
    assert_eq!(record_of(&site.gateway, "ill")["end"], "complete");
    site.works("a trickle", &mut client);
    assert_eq!(site.upstream.log().connections.len(), 1, "kept");
}

#[test]
fn interim_answers_without_end_are_no_answer() {
    let interim = Play::Send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec());
    let steps = (0..10_000).flat_map(|_| [interim.clone(), Play::Pause(Duration::from_millis(1))]);
    let steps: Vec<_> = steps.collect();
    let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
    let site = Site::before(upstream, |policy| {
        policy.upstream("response_header_timeout", "300ms")
    });
    let answer = site.gateway.ask(&Request::call("ill"));
    assert_eq!(answer.status, 504, "{answer:?}");
    assert!(contains(&answer.body, b"response_header_timeout"));
    site.upstream
        .wait("the end of the connection", |log| log.open() == 0);
}

#[test]
fn a_head_without_end_is_no_answer() {
    for (what, line) in [
        ("one long field", "x".repeat(1000)),
        ("many fields", "x: y\r\n".repeat(100)),
    ] {
        let steps = std::iter::once(Play::Send(format!("{JSON}X-Long: ").into()))
            .chain((0..2000).map(|_| Play::Send(line.clone().into())))
            .collect::<Vec<_>>();
        let site = ill(steps);
        let answer = site.gateway.ask(&Request::call("ill"));
        assert_eq!(answer.status, 502, "{what}: {answer:?}");
        assert_eq!(site.upstream.runs("ill"), 1, "{what}");
        site.upstream.wait(what, |log| log.open() == 0);
        let memory = site.gateway.memory();
        assert!(
            memory < 64 << 20,
            "{what}: the gateway holds {memory} bytes"
        );
    }
}

/// This call with more in it than sockets hold.
fn large(call: Request) -> Request {
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(4_000_000));
    call.edit("\"arguments\":{}", &large)
}

#[test]
fn a_server_that_reads_on_behind_its_early_answer_gets_the_whole_request() {
    for status in [200, 413] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Of a legacy call, all is there before any of it is sent.
        let upload = large(Request::legacy_call("ill"));
        let body = upload.body.clone();
        let reading = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = Vec::new();
            let mut room = vec![0; 1 << 16];
            while !read.ends_with(&body) {
                let count = stream.read(&mut room).unwrap();
                if count == 0 {
                    return false;
                }
                if read.is_empty() {
                    let lines = "Content-Length: 2\r\n\r\n{}";
                    let answer = format!("HTTP/1.1 {status} Early\r\n{lines}");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                read.extend_from_slice(&room[..count]);
            }
            true
        });
        let gateway = Gateway::start(&Policy::to_url(&format!("http://{address}/mcp")));
        let answer = gateway.ask(&upload);
        assert_eq!((answer.status, answer.text().as_str()), (status, "{}"));
        assert!(reading.join().unwrap(), "the body was cut short");
    }
}

#[test]
fn a_server_that_never_reads_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
    let policy = Policy::to_url(&format!("http://{}/mcp", listener.local_addr().unwrap()));
    let gateway = Gateway::start(&policy.upstream("response_header_timeout", "300ms"));
    let answer = gateway.ask(&large(Request::call("ill")));
    assert_eq!(
        (answer.status, answer.code()),
        (504, Some(504)),
        "{answer:?}"
    );
    assert!(
        contains(&answer.body, b"response_header_timeout"),
        "{answer:?}"
    );
    // What was taken is not the whole request, and nothing more comes.
    let (mut stream, _) = listener.accept().unwrap();
    let mut read = Vec::new();
    let _ = stream.read_to_end(&mut read);
    assert!(read.len() < 4_000_000, "{} bytes", read.len());
    assert_eq!(
        record_of(&gateway, "ill")["verdict"],
        "refused:upstream_timeout"
    );
}

#[test]
fn a_redirect_passes_untouched_and_is_never_followed() {
    let elsewhere = Upstream::start();
    for status in [301, 302, 303, 307, 308] {
        for location in [
            elsewhere.url(),
            "/other".to_owned(),
            "//elsewhere.invalid/../x?y=%zz#f".to_owned(),
        ] {
            let lines = format!("Location: {location}\r\n");
            let reply = Reply::with_lines(status, &lines, "moved");
            let site = Site::before(Upstream::with(move |_| reply.clone()), |policy| policy);
            for request in [Request::call("ill"), Request::legacy_call("ill")] {
                let answer = site.gateway.ask(&request);
                assert_eq!((answer.status, answer.text().as_str()), (status, "moved"));
                assert_eq!(answer.head.value("location"), Some(location.clone()));
            }
            assert_eq!(site.upstream.request_count(), 2, "{status}, {location}");
        }
    }
    assert_eq!(elsewhere.log().connections.len(), 0);
}

#[test]
fn a_name_that_cannot_be_resolved_is_told() {
    let gateway = Gateway::start(&Policy::to_url("http://nobody.invalid/mcp"));
    let answer = gateway.ask(&Request::call("ill"));
    assert_eq!((answer.status, answer.code()), (502, Some(502)));
    assert!(
        contains(&answer.body, b"could not be resolved"),
        "{answer:?}"
    );
    assert!(
        !contains(&answer.body, b"nobody.invalid"),
        "for the log only"
    );
    let record = record_of(&gateway, "ill");
    assert!(
        record["detail"].as_str().is_some_and(|why| !why.is_empty()),
        "{record}"
    );
}
