//! What a connection of HTTP/2 may hold and how long it may take.

use std::time::Duration;

use h2::Reason;

use super::Client2;
use crate::harness::{Play, Reply, Request, Site, Upstream};

#[test]
fn no_more_streams_than_allowed() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("slow") => Reply::silence(),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy.listen("http2_streams_max", 2));
    let mut client = Client2::connect(&site.gateway);
    assert_eq!(client.exchange(&site.good).status, 200);
    assert_eq!(client.streams_max(), 2);
    let _slow: Vec<_> = (0..2)
        .map(|_| client.send(&Request::call("slow")))
        .collect();
    site.upstream
        .wait("the slow calls", |log| log.runs("slow") == 2);
    // Others have a connection of their own.
    assert_eq!(
        Client2::connect(&site.gateway).exchange(&site.good).status,
        200
    );
}

#[test]
fn a_head_over_the_limits_is_told_which() {
    let site = Site::with(|policy| {
        policy
            .listen("header_count_max", 20)
            .listen("header_bytes_max", 8192)
    });
    let mut client = Client2::connect(&site.gateway);
    let many = (0..30).fold(Request::call("echo"), |call, n| {
        call.line(&format!("x-{n}"), "y")
    });
    let long = Request::call("echo").line("x-long", vec![b'y'; 9000]);
    for (request, limit) in [
        (many, "listen.header_count_max"),
        (long, "listen.header_bytes_max"),
    ] {
        let answer = client.exchange(&request);
        assert_eq!(answer.status, 431, "{answer:?}");
        assert_eq!(answer.json()["error"]["data"]["limit"], limit);
    }
    // Out of all proportion: the library's own answer.
    let mut huge = client.begin(&Request::call("echo").line("x-huge", vec![b'y'; 40_000]));
    assert_eq!(huge.head().unwrap().status, 431);
    assert_eq!(client.exchange(&site.good).status, 200);
    assert_eq!(site.upstream.request_count(), 1);
}

#[test]
fn an_idle_connection_is_told_to_go_and_a_busy_one_is_not() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("slow") => Reply::silence(),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| {
        policy.listen("header_read_timeout", "300ms")
    });
    let mut busy = Client2::connect(&site.gateway);
    let slow = busy.send(&Request::call("slow"));
    let mut idle = Client2::connect(&site.gateway);
    assert_eq!(idle.exchange(&site.good).status, 200);
    idle.ending().expect("a farewell, and then the end");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!busy.is_ended());
    assert_eq!(busy.exchange(&site.good).status, 200);
    drop(slow);
    busy.ending().expect("a farewell in the end");
    assert!(site.gateway.wait_for_connections(0).is_empty());
}

#[test]
fn whoever_takes_nothing_of_an_answer_is_cut_off() {
    let chunk = "x".repeat(64 << 10);
    let steps = std::iter::once(Play::sse_head())
        .chain((0..100).map(move |_| Play::chunk(&chunk)))
        .collect::<Vec<_>>();
    let upstream = Upstream::with(
        move |request| match request.json()["params"]["name"].as_str() {
            Some("flood") => Reply::Steps(steps.clone()),
            Some("quiet") => Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]),
            _ => Reply::usual(request),
        },
    );
    let site = Site::before(upstream, |policy| {
        policy.listen("write_idle_timeout", "300ms")
    });
    let mut settings = h2::client::Builder::new();
    settings.initial_connection_window_size(1 << 20);
    let mut client = Client2::with(&site.gateway, settings);
    let mut quiet = client.send(&Request::call("quiet"));
    quiet.head().unwrap();
    assert_eq!(quiet.next().unwrap().unwrap(), "data: 1\n\n");
    let mut flood = client.send(&Request::call("flood"));
    flood.head().unwrap();
    let flooding = site.upstream.last().connection;
    let took = site
        .upstream
        .wait("the end of the flood", |log| log.ended(flooding).is_some());
    println!("given up after {took:?}");
    // The one that is silent, and the connection, go on.
    assert!(quiet.is_silent());
    assert_eq!(client.exchange(&site.good).status, 200);
    let (reason, came) = flood.read_to_reset();
    assert_eq!(reason, Reason::CANCEL);
    assert!(came.len() < 100 * (64 << 10));
    assert_eq!(site.records(2)[0]["end"], "limit:listen.write_idle_timeout");
}
