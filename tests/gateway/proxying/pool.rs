//! Connections to the upstream are kept and used again, and a call is repeated only where it was
//! provably not sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;

use crate::harness::{Gateway, Play, Policy, Received, Reply, Request, Site, Upstream};

#[test]
fn many_requests_take_one_upstream_connection() {
    let site = Site::new();
    for number in 0..30 {
        let request = match number % 3 {
            0 => Request::legacy_call("echo"),
            1 => Request::call("echo").chunked(9),
            _ => Request::call("echo"),
        };
        // A fresh client connection each time: the pool belongs to nobody.
        assert_eq!(site.gateway.ask(&request).status, 200);
    }
    assert_eq!(site.upstream.log().connections.len(), 1);
    let records = site.records(30);
    assert_eq!(records[0]["upstream_reused"], false);
    assert!(
        records[1..]
            .iter()
            .all(|record| record["upstream_reused"] == true)
    );
}

#[test]
fn a_connection_is_used_again_after_a_stream_and_after_an_empty_answer() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("stream") => Reply::sse("data: 1\n\n"),
        Some("chunks") => Reply::raw(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ),
        Some("empty") => Reply::with_lines(200, "", ""),
        Some("no-content") => Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    for tool in ["stream", "empty", "no-content", "chunks", "good"] {
        assert!(client.exchange(&Request::call(tool)).status < 300, "{tool}");
        // That an answer has ended is noticed a moment after its last byte was passed on.
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(site.upstream.log().connections.len(), 1);
}

/// An upstream that closes each connection this long after its answer.
fn hasty(pause: Duration) -> Upstream {
    Upstream::with(move |request| match Reply::usual(request) {
        Reply::Steps(mut steps) => {
            steps.extend([Play::Pause(pause), Play::Close]);
            Reply::Steps(steps)
        }
        reply => reply,
    })
}

#[test]
fn a_connection_that_the_upstream_closed_is_not_used_again() {
    let site = Site::before(hasty(Duration::ZERO), |policy| policy);
    for number in 0..10 {
        assert_eq!(site.gateway.ask(&Request::call("once")).status, 200);
        assert_eq!(site.upstream.runs("once"), number + 1, "once each");
        site.upstream.wait("the end of the connection", |log| {
            log.ended(number).is_some()
        });
    }
}

#[test]
fn a_connection_that_is_closing_never_runs_a_tool_twice() {
    // The pauses lie around the time of a request, so that some of these meet the closing itself.
    let site = Site::before(hasty(Duration::from_micros(300)), |policy| policy);
    let mut client = site.gateway.connect();
    let mut answered = 0;
    for number in 0..100 {
        let tool = format!("tool-{number}");
        let answer = client.exchange(&Request::call(&tool));
        let runs = site.upstream.runs(&tool);
        assert!(runs <= 1, "{tool} ran {runs} times");
        match answer.status {
            200 => assert_eq!(runs, 1),
            status => assert_eq!(status, 502, "{answer:?}"),
        }
        answered += usize::from(answer.status == 200);
    }
    println!("{answered} of 100 calls met no closing connection");
}

#[test]
fn a_call_whose_bytes_went_out_is_not_repeated() {
    let count = AtomicUsize::new(0);
    let upstream = Upstream::with(move |request: &Received| {
        // The second request on the connection is read, and then the connection is gone.
        match count.fetch_add(1, Ordering::SeqCst) {
            1 => Reply::Steps(vec![Play::Close]),
            3 => Reply::Steps(vec![Play::Reset]),
            _ => Reply::usual(request),
        }
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    for ill in ["closed", "reset"] {
        assert_eq!(client.exchange(&Request::call("first")).status, 200);
        let answer = client.exchange(&Request::call(ill));
        assert_eq!(
            (answer.status, answer.code()),
            (502, Some(502)),
            "{answer:?}"
        );
        assert_eq!(site.upstream.runs(ill), 1, "{ill}");
    }
    site.works("two losses", &mut client);
}

/// A server that answers the first request once it has its head and never reads the body; the
/// requests on later connections it reads and answers.
fn answers_early() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // So that most of a large body stays with whoever sends it.
    SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            if !kept.is_empty() {
                reader.read_exact(&mut vec![0; length]).unwrap();
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                .unwrap();
            kept.push(stream);
        }
        std::thread::park();
    });
    address
}

#[test]
fn a_connection_that_is_still_sending_holds_no_other_request_up() {
    let url = format!("http://{}/mcp", answers_early());
    // A body that streams would have to be judged before such an answer passes.
    let policy = Policy::to_url(&url)
        .upstream("idle_timeout", "1h")
        .bound("stream_bytes_max", 0);
    let gateway = Gateway::start(&policy);
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(4_000_000));
    let upload = Request::call("large").edit("\"arguments\":{}", &large);
    assert_eq!(gateway.ask(&upload).status, 200);
    // The connection of the upload would have to be waited for until it is given up as idle.
    assert_eq!(gateway.ask(&Request::call("small")).status, 200);
    let records = gateway.wait_for_records(2);
    assert_eq!(records[1]["upstream_reused"], false, "{records:?}");
}

#[test]
fn no_more_idle_connections_are_kept_than_allowed() {
    let upstream = Upstream::with(|request| {
        let Reply::Steps(mut steps) = Reply::usual(request) else {
            return Reply::usual(request);
        };
        steps.insert(0, Play::Pause(Duration::from_millis(300)));
        Reply::Steps(steps)
    });
    let site = Site::before(upstream, |policy| {
        policy.upstream("idle_connections_max", 2)
    });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(site.gateway.ask(&Request::call("echo")).status, 200));
        }
    });
    site.upstream
        .wait("six of eight connections to end", |log| log.open() <= 2);
}
