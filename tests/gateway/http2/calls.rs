//! What works over HTTP/1.1 works here.

use h2::Reason;
use serde_json::json;

use super::Client2;
use crate::harness::{Play, Reply, Request, Site, Upstream};

#[test]
fn calls_of_both_eras_are_forwarded_whole() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    for (tool, request) in [
        ("modern", Request::call("modern")),
        ("legacy", Request::legacy_call("legacy")),
    ] {
        let answer = client.exchange(&request);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], tool);
        assert!(!answer.headers.contains_key("connection"));
        let received = site.upstream.last();
        assert_eq!(received.body, request.body);
        assert!(received.head.start.ends_with(" HTTP/1.1"));
        assert_eq!(
            received.head.value("mcp-method").as_deref(),
            Some("tools/call")
        );
        assert_eq!(site.upstream.runs(tool), 1);
    }
    for record in site.records(2) {
        assert_eq!(
            (&record["verdict"], &record["end"]),
            (&json!("forwarded"), &json!("complete"))
        );
    }
    // One connection of the client was enough; its end is none that needs a record.
    client.close();
    site.works("HTTP/2", &mut site.gateway.connect());
    assert!(site.gateway.wait_for_connections(0).is_empty());
}

#[test]
fn refusals_are_told_and_the_connection_goes_on() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    for (what, request, status, reason) in [
        (
            "a header",
            Request::call("echo").header("Mcp-Name", "other"),
            400,
            "header_mismatch",
        ),
        (
            "a path",
            Request::call("echo").target("/other"),
            404,
            "not_found",
        ),
        (
            "a method",
            Request::call("echo").method("PUT"),
            405,
            "method_not_allowed",
        ),
        (
            "a media type",
            Request::call("echo").header("Content-Type", "text/plain"),
            415,
            "media_type",
        ),
        ("no JSON", Request::post("{"), 400, "not_json"),
    ] {
        let answer = client.exchange(&request);
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_eq!(answer.json()["error"]["data"]["reason"], reason, "{what}");
        assert_eq!(client.exchange(&site.good).status, 200, "behind {what}");
    }
    assert_eq!(site.upstream.runs("echo"), 0);
    let head = client.send(&Request::new("HEAD", "/mcp")).read();
    assert_eq!((head.status, head.body.len()), (405, 0));
}

#[test]
fn the_authority_is_the_host() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    for (host, line, status) in [
        ("127.0.0.1:80", None, 200),
        ("localhost", Some("localhost"), 200),
        ("evil.example", None, 403),
        ("evil.example", Some("127.0.0.1"), 400),
        ("127.0.0.1", Some("evil.example"), 400),
    ] {
        let mut request = Request::call("echo").header("Host", host);
        if let Some(line) = line {
            request = request.line(":host", line);
        }
        let answer = client.exchange(&request);
        assert_eq!(answer.status, status, "{host} {line:?}: {answer:?}");
    }
    assert_eq!(site.upstream.runs("echo"), 2);
}

#[test]
fn many_calls_are_in_flight_on_one_connection() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("slow") => Reply::silence(),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = Client2::connect(&site.gateway);
    let slow: Vec<_> = (0..20)
        .map(|_| client.send(&Request::call("slow")))
        .collect();
    site.upstream
        .wait("the slow calls", |log| log.runs("slow") == 20);
    for _ in 0..20 {
        assert_eq!(client.exchange(&site.good).status, 200);
    }
    drop(slow);
    let took = site
        .upstream
        .wait("the end of the slow calls", |log| log.open() <= 1);
    println!("gone after {took:?}");
}

/// A stream of the test's own making, of which two events are sent.
fn streaming(last: Play) -> Site {
    let upstream = Upstream::with(
        move |request| match request.json()["params"]["name"].as_str() {
            Some("good") => Reply::usual(request),
            _ => Reply::Steps(vec![
                Play::sse_head(),
                Play::chunk("data: 1\n\n"),
                Play::chunk("data: 2\n\n"),
                last.clone(),
            ]),
        },
    );
    Site::before(upstream, |policy| policy)
}

#[test]
fn the_head_of_a_stream_leaves_before_its_first_event() {
    let (sender, plays) = std::sync::mpsc::channel();
    let plays = std::sync::Arc::new(std::sync::Mutex::new(plays));
    let upstream = Upstream::with(move |_| Reply::follow(plays.clone()));
    let site = Site::before(upstream, |policy| policy);
    let mut client = Client2::connect(&site.gateway);
    let mut stream = client.send(&Request::call("stream"));
    sender.send(Play::sse_head()).unwrap();
    let head = stream.head().unwrap();
    assert_eq!(head.headers["x-accel-buffering"], "no");
    for number in 0..5 {
        assert!(stream.is_silent());
        let event = format!("data: {number}\n\n");
        sender.send(Play::chunk(&event)).unwrap();
        assert_eq!(stream.next().unwrap().unwrap(), event);
    }
    sender.send(Play::end()).unwrap();
    assert_eq!(stream.next(), Ok(None));
}

#[test]
fn an_upstream_that_breaks_off_resets_the_stream_behind_what_came_before() {
    for last in [Play::Close, Play::Reset] {
        let site = streaming(last.clone());
        let mut client = Client2::connect(&site.gateway);
        // Beside another one on the same connection.
        for _ in 0..10 {
            let mut stream = client.send(&Request::call("breaks"));
            stream.head().unwrap();
            let (reason, came) = stream.read_to_reset();
            assert_eq!(reason, Reason::INTERNAL_ERROR);
            if matches!(last, Play::Close) {
                assert_eq!(came, b"data: 1\n\ndata: 2\n\n");
            }
            assert_eq!(client.exchange(&site.good).status, 200);
        }
        for record in site.records(20).iter().step_by(2) {
            assert_eq!(record["end"], "upstream_failed", "{record}");
        }
    }
}

#[test]
fn a_slow_reader_holds_up_no_other_and_costs_little() {
    let chunk = "x".repeat(64 << 10);
    let steps = std::iter::once(Play::sse_head())
        .chain((0..2000).map(move |_| Play::chunk(&chunk)))
        .collect::<Vec<_>>();
    let upstream = Upstream::with(
        move |request| match request.json()["params"]["name"].as_str() {
            Some("good") => Reply::usual(request),
            _ => Reply::Steps(steps.clone()),
        },
    );
    let site = Site::before(upstream, |policy| policy);
    // The connection has room for more than its streams, so that each is stopped by its own.
    let mut settings = h2::client::Builder::new();
    settings.initial_connection_window_size(16 << 20);
    let mut client = Client2::with(&site.gateway, settings);
    let mut floods: Vec<_> = (0..8)
        .map(|_| client.send(&Request::call("flood")))
        .collect();
    for flood in &mut floods {
        flood.head().unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let memory = site.gateway.memory();
    assert!(memory < 64 << 20, "the gateway holds {memory} bytes");
    for _ in 0..10 {
        assert_eq!(client.exchange(&site.good).status, 200);
    }
    assert_eq!(site.upstream.log().open(), 9, "the floods wait");
    for flood in &mut floods {
        flood.reset();
    }
    let took = site
        .upstream
        .wait("the end of the floods", |log| log.open() <= 1);
    println!("gone after {took:?}, the gateway held {memory} bytes");
}
