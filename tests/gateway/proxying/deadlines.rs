//! How long an upstream's connections are waited for, kept and given up, seen from its side.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Fault, Gateway, Play, Policy, Reply, Request, Site, Upstream};

#[test]
fn an_answer_that_is_late_is_a_timeout_and_ends_its_connection() {
    let (upstream, answers) = Upstream::staged();
    let site = Site::before(upstream, |policy| {
        policy.upstream("response_header_timeout", "300ms")
    });
    let mut client = site.gateway.connect();
    for (request, status) in [
        (Request::call("late"), 504),
        // Legacy clients lose their session over a status.
        (Request::legacy_call("late"), 200),
    ] {
        let answer = client.exchange(&request);
        assert_eq!((answer.status, answer.code()), (status, Some(504)));
        assert!(
            answer.text().contains("response_header_timeout"),
            "{answer:?}"
        );
        let connection = site.upstream.last().connection;
        site.upstream.wait("the end of the connection", |log| {
            matches!(log.ended(connection), Some(Fault::Closed(_) | Fault::Reset))
        });
        // An answer that comes then answers nobody.
        let plays = answers.recv().unwrap();
        let _ = plays.send(Play::Send(b"HTTP/1.1 200 OK\r\n".to_vec()));
        let _ = plays.send(Play::Last(b"Content-Length: 2\r\n\r\n{}".to_vec()));
    }
    let log = site.upstream.log();
    assert_eq!(log.runs("late"), 2, "never repeated");
    let connections: Vec<usize> = log.requests.iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 1], "nor is a connection used again");
}

#[test]
fn a_head_cut_in_two_by_the_deadline_is_a_timeout() {
    let upstream = Upstream::with(|_| Reply::raw("HTTP/1.1 200 OK\r\nContent-Le"));
    let site = Site::before(upstream, |policy| {
        policy.upstream("response_header_timeout", "300ms")
    });
    let answer = site.gateway.ask(&Request::call("half"));
    assert_eq!((answer.status, answer.code()), (504, Some(504)));
    site.upstream
        .wait("the end of the connection", |log| log.ended(0).is_some());
}

#[test]
fn an_answer_at_its_deadline_is_whole_or_a_timeout() {
    // Bodies in two pieces, whose heads come about when the gateway looks at the deadline.
    let upstream = Upstream::with(|request| {
        let pause = request.json()["params"]["arguments"]["ms"].as_u64();
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
        Reply::Steps(vec![
            Play::Pause(Duration::from_millis(pause.unwrap_or(0))),
            Play::Send([&head[..], b"{\"a\""].concat()),
            Play::Pause(Duration::from_millis(5)),
            Play::Send(b":true".to_vec()),
        ])
    });
    let site = Site::before(upstream, |policy| {
        policy.upstream("response_header_timeout", "100ms")
    });
    let gateway = &site.gateway;
    std::thread::scope(|scope| {
        for number in 0..48 {
            scope.spawn(move || {
                let arguments = json!({"ms": 90 + number});
                let answer = gateway.ask(&Request::modern(
                    "tools/call",
                    json!({"name": "near", "arguments": arguments}),
                ));
                match answer.status {
                    200 => assert_eq!(answer.text(), "{\"a\":true"),
                    status => assert_eq!((status, answer.code()), (504, Some(504))),
                }
            });
        }
    });
}

#[test]
fn an_idle_connection_is_ended_by_us_and_not_used_again() {
    let site = Site::with(|policy| policy.upstream("idle_timeout", "300ms"));
    let mut client = site.gateway.connect();
    for number in 0..3 {
        site.works("before", &mut client);
        let took = site.upstream.wait("the end of the idle connection", |log| {
            log.ended(number) == Some(&Fault::Closed(0))
        });
        println!("an idle connection was ended after {took:?}");
        assert_eq!(site.upstream.last().connection, number);
    }
    assert!(!client.is_closed(), "the client's own is another matter");
}

#[test]
fn a_connection_in_use_is_not_idle() {
    let (upstream, answers) = Upstream::staged();
    let site = Site::before(upstream, |policy| policy.upstream("idle_timeout", "100ms"));
    let mut client = site.gateway.connect();
    client.send(&Request::call("long"));
    let plays = answers.recv().unwrap();
    plays.send(Play::Pause(Duration::from_millis(400))).unwrap();
    plays.send(Play::sse_head()).unwrap();
    let (_, mut body) = client.read_head();
    plays.send(Play::Pause(Duration::from_millis(400))).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    client.read_until(&mut body, b"data: 1\n\n");
    plays.send(Play::end()).unwrap();
    assert_eq!(body.next(&mut client.wire), Ok(None));
    site.upstream
        .wait("the end once it is idle", |log| log.ended(0).is_some());
}

#[test]
fn routes_to_one_upstream_share_its_connections() {
    let upstream = Upstream::start();
    let other = Upstream::start();
    let policy = Policy::new(&upstream)
        .set("/upstreams/other", json!({"url": other.url()}))
        .set(
            "/routes",
            json!([
                {"name": "one", "path": "/one", "upstream": "up"},
                {"name": "two", "path": "/two", "upstream": "up"},
                {"name": "three", "path": "/three", "upstream": "other"},
            ]),
        );
    let gateway = Gateway::start(&policy);
    for target in ["/one", "/two", "/three", "/two", "/one", "/three"] {
        let answer = gateway.ask(&Request::call("echo").target(target));
        assert_eq!(answer.status, 200, "{target}");
    }
    assert_eq!((upstream.runs("echo"), other.runs("echo")), (4, 2));
    assert_eq!(upstream.log().connections.len(), 1);
    assert_eq!(other.log().connections.len(), 1);
    let reused: Vec<_> = gateway
        .wait_for_records(6)
        .iter()
        .map(|record| record["upstream_reused"] == true)
        .collect();
    assert_eq!(reused, [false, true, false, true, true, true]);
}

#[test]
fn an_answer_that_nobody_asked_for_answers_nobody() {
    let answer = |number: usize| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"n":{number}}}}}"#);
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let twice = answer(1) + &answer(2);
    let site = Site::before(
        Upstream::with(move |_| Reply::raw(twice.as_str())),
        |policy| policy,
    );
    let mut client = site.gateway.connect();
    for _ in 0..10 {
        let answer = client.exchange(&Request::call("echo"));
        assert_eq!(answer.json()["result"]["n"], 1, "{answer:?}");
    }
    assert_eq!(site.upstream.runs("echo"), 10);
}
