//! Bodies that pass unread: they stream, within bounds, and nothing of a cut one looks complete.

use std::time::{Duration, Instant};

use serde_json::json;

use super::pass::{echoing, site};
use crate::harness::{Play, Reply, Request, Site, Upstream};

fn chunked() -> Vec<u8> {
    let head = Request::new("POST", "/oauth/upload")
        .line("Transfer-Encoding", "chunked")
        .header("Content-Length", "0")
        .head_bytes();
    let head = String::from_utf8(head).unwrap();
    head.replace("Content-Length: 0\r\n", "").into_bytes()
}

fn routes(bounds: serde_json::Value) -> serde_json::Value {
    json!([
        {"name": "up", "pass": true, "path": "/oauth/*", "upstream": "up", "bounds": bounds},
        {"name": "main", "path": "/mcp", "upstream": "up"},
    ])
}

fn bounded(bounds: serde_json::Value) -> Site {
    Site::before(echoing(), |policy| policy.set("/routes", routes(bounds)))
}

#[test]
fn bytes_reach_the_server_before_the_body_has_ended_and_answers_come_as_they_do() {
    let (upstream, plays) = Upstream::controlled();
    let site = site(upstream);
    let mut client = site.gateway.connect();
    client.send_bytes(&chunked());
    client.send_bytes(b"5\r\nfirst\r\n");
    site.upstream.wait("the first chunk", |log| {
        log.requests
            .first()
            .is_some_and(|request| request.body == b"first" && !request.complete)
    });
    client.send_bytes(b"6\r\nsecond\r\n0\r\n\r\n");
    site.upstream.wait_for_requests(1);
    assert_eq!(site.upstream.last().body, b"firstsecond");
    plays.send(Play::sse_head()).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    let (head, mut reader) = client.read_head();
    assert_eq!(head.status(), 200);
    client.read_until(&mut reader, b"data: 1\n\n");
    plays.send(Play::chunk("data: 2\n\n")).unwrap();
    plays.send(Play::end()).unwrap();
    client.read_until(&mut reader, b"data: 2\n\n");
    let record = &site.records(1)[0];
    assert_eq!(
        (&record["bytes_in"], &record["end"]),
        (&json!(11), &json!("complete"))
    );
}

#[test]
fn a_body_that_is_too_long_leaves_no_complete_request() {
    let site = bounded(json!({"body_bytes_max": "64Ki", "stream_bytes_max": "64Ki"}));
    let announced = Request::new("POST", "/oauth/upload").body(vec![b'x'; 65_537]);
    let answer = site.gateway.ask(&announced);
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(
        answer.head.value("content-type").unwrap(),
        "application/problem+json"
    );
    assert_eq!(site.upstream.request_count(), 0);
    let chunked = Request::new("POST", "/oauth/upload")
        .body(vec![b'x'; 200_000])
        .chunked(1000);
    let answer = site.gateway.ask(&chunked);
    assert_eq!(answer.status, 413, "{answer:?}");
    site.upstream
        .wait("the request was cut off", |log| log.ended(0).is_some());
    let received = site.upstream.last();
    assert!(
        !received.complete && received.body.len() <= 65_536,
        "{}",
        received.body.len()
    );
    let fits = Request::new("POST", "/oauth/upload").body(vec![b'x'; 65_536]);
    assert_eq!(site.gateway.ask(&fits).status, 418);
    let verdicts: Vec<_> = site
        .records(3)
        .iter()
        .map(|r| r["verdict"].clone())
        .collect();
    assert_eq!(
        verdicts,
        [
            "refused:body_too_large",
            "refused:body_too_large",
            "forwarded"
        ]
    );
}

#[test]
fn a_client_that_stalls_or_garbles_leaves_no_complete_request() {
    // Only the one that is to be over is short.
    for (idle, rest, status, reason) in [
        ("2s", &b""[..], 408, "body_timeout"),
        ("60s", b"nonsense\r\n", 400, "body_broken"),
    ] {
        let site = bounded(json!({"body_idle_timeout": idle}));
        let mut client = site.gateway.connect();
        client.send_bytes(&chunked());
        client.send_bytes(b"5\r\nfirst\r\n");
        site.upstream.wait("the first chunk", |log| {
            let first = log.requests.first();
            first.is_some_and(|request| request.body == b"first")
        });
        client.send_bytes(rest);
        let answer = client.read();
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.json()["reason"], reason);
        assert!(client.is_closed(), "the next byte could be anything");
        site.upstream
            .wait("the request was cut off", |log| log.open() == 0);
        assert_eq!(site.upstream.request_count(), 1);
        assert!(!site.upstream.last().complete);
    }
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let site = site(echoing());
    let mut client = site.gateway.connect();
    client.send_bytes(&chunked());
    client.send_bytes(b"5\r\nfirst\r\n");
    site.upstream.wait("the first chunk", |log| {
        log.requests
            .first()
            .is_some_and(|request| request.body == b"first")
    });
    drop(client);
    site.upstream
        .wait("the request was cut off", |log| log.open() == 0);
    assert!(!site.upstream.last().complete);
    let record = &site.records(1)[0];
    assert_eq!(record["end"], "client_gone", "{record}");
}

#[test]
fn an_answer_before_the_end_of_the_upload_is_read() {
    let upstream = Upstream::with(Reply::usual);
    let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = refusing.local_addr().unwrap();
    // A server that says no to the head and reads nothing more.
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        while let Ok((mut stream, _)) = refusing.accept() {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream
                .write_all(b"HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let site = Site::before(upstream, |policy| {
        policy.upstream("url", format!("http://{address}/mcp")).set(
            "/routes",
            json!([{"name": "up", "pass": true, "path": "/oauth/*", "upstream": "up"}]),
        )
    });
    let large = Request::new("POST", "/oauth/upload").body(vec![b'x'; 3 << 20]);
    for _ in 0..3 {
        let answer = site.gateway.ask(&large);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (403, "no"),
            "{answer:?}"
        );
    }
}

#[test]
fn a_client_is_asked_for_its_body_by_the_server_that_wants_it() {
    let site = site(echoing());
    let request = Request::new("POST", "/oauth/upload")
        .line("Expect", "100-continue")
        .body("the body");
    let mut client = site.gateway.connect();
    client.send_bytes(&request.head_bytes());
    let head = client.wire.head().unwrap();
    assert_eq!(head.status(), 100);
    client.send_bytes(&request.body_bytes());
    let answer = client.read();
    assert_eq!(answer.status, 418, "{answer:?}");
    assert_eq!(site.upstream.last().body, b"the body");
    assert!(!site.upstream.last().head.has("expect"));
}

#[test]
fn time_for_an_answer_is_counted_from_the_last_of_the_body() {
    let timeout = Duration::from_secs(2);
    let site = Site::before(echoing(), |policy| {
        policy
            .upstream("response_header_timeout", "2s")
            .set("/routes", routes(json!({})))
    });
    let mut client = site.gateway.connect();
    client.send_bytes(&chunked());
    let begun = Instant::now();
    let mut chunks = 0;
    while begun.elapsed() < timeout * 2 {
        client.send_bytes(b"5\r\nchunk\r\n");
        chunks += 1;
        std::thread::sleep(timeout / 20);
    }
    client.send_bytes(b"0\r\n\r\n");
    let answer = client.read();
    assert_eq!(answer.status, 418, "{answer:?}");
    let received = site.upstream.last();
    assert!(received.complete && received.body.len() == chunks * 5);
}

#[test]
fn a_server_that_never_answers_is_told_of_and_given_up() {
    let site = Site::before(Upstream::with(|_| Reply::silence()), |policy| {
        policy
            .upstream("response_header_timeout", "50ms")
            .set("/routes", routes(json!({})))
    });
    for body in ["", "the body"] {
        let answer = site
            .gateway
            .ask(&Request::new("POST", "/oauth/upload").body(body));
        assert_eq!(answer.status, 504, "{answer:?}");
        assert_eq!(answer.json()["reason"], "upstream_timeout");
        site.upstream
            .wait("the request was given up", |log| log.open() == 0);
    }
}

#[test]
fn a_body_passes_up_to_its_bound() {
    let site = bounded(json!({"body_bytes_max": "64Ki", "stream_bytes_max": "64Ki"}));
    let upload = |bytes| Request::new("POST", "/oauth/upload").body(vec![b'x'; bytes]);
    assert_eq!(site.gateway.ask(&upload(65_536)).status, 418);
    let answer = site.gateway.ask(&upload(65_537));
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(site.upstream.request_count(), 1);
}
