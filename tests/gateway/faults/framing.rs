//! Answers over HTTP/1.1 that say more than they should: what stands behind an answer is never taken
//! for the next one.

use std::time::Duration;

use crate::harness::{Play, Reply, Request, Site, Upstream, contains};

const SMUGGLED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n\"smuggled\"";

/// An answer to the usual question, as text.
fn usual(tool: &str) -> String {
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"tool\":\"{tool}\"}}}}");
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// An upstream that plays this to tools whose names begin with `ill`.
fn upstream(excess: impl Fn(String) -> Vec<Play> + Send + Sync + 'static) -> Upstream {
    Upstream::with(move |request| {
        let json = request.json();
        let tool = json["params"]["name"].as_str().unwrap_or_default();
        match tool.starts_with("ill") {
            true => Reply::Steps(excess(usual(tool))),
            false => Reply::raw(usual(tool)),
        }
    })
}

/// What becomes of an answer with which something too much is sent.
type Excess = fn(String) -> String;

fn excesses() -> [(&'static str, Excess); 5] {
    [
        ("a second answer", |answer| answer + SMUGGLED),
        ("a line end and a second answer", |answer| {
            answer + "\r\n" + SMUGGLED
        }),
        ("more than it said", |answer| answer + "\"smuggled\"}"),
        ("an answer behind the last chunk", |_| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            format!("{head}2\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}")
        }),
        ("a body where there can be none", |_| {
            SMUGGLED.replacen("200 OK", "204 No Content", 1) + SMUGGLED
        }),
    ]
}

#[test]
fn what_stands_behind_an_answer_answers_nothing() {
    for (what, excess) in excesses() {
        let upstream = upstream(move |answer| vec![Play::Last(excess(answer).into())]);
        let site = Site::before(upstream, |policy| policy);
        let mut told = 0;
        for round in 0..40 {
            let mut client = site.gateway.connect();
            let ill = client.exchange(&Request::call(&format!("ill-{round}")));
            assert!(!contains(&ill.body, b"smuggled"), "{what}: {ill:?}");
            let connection = site.upstream.last().connection;
            // At once, and often enough to meet whatever the connection is doing then.
            let tool = format!("good-{round}");
            let good = client.exchange(&Request::call(&tool));
            assert!(!contains(&good.body, b"smuggled"), "{what}: {good:?}");
            assert!(site.upstream.runs(&tool) <= 1, "{what}: ran twice");
            match good.status {
                200 => assert_eq!(good.json()["result"]["tool"], tool.as_str(), "{what}"),
                status => assert_eq!(status, 502, "{what}: {good:?}"),
            }
            told += usize::from(good.status != 200);
            site.upstream
                .wait(what, |log| log.ended(connection).is_some());
        }
        println!("{what}: {told} of 40 calls behind it were told of it");
    }
}

#[test]
fn an_answer_that_nobody_asked_for_ends_its_connection() {
    for bytes in [
        SMUGGLED,
        "\r\n",
        "x",
        "HTTP/1.1 408 Request Timeout\r\n\r\n",
    ] {
        let upstream = upstream(move |answer| {
            let pause = Play::Pause(Duration::from_millis(20));
            vec![Play::Send(answer.into()), pause, Play::Last(bytes.into())]
        });
        let site = Site::before(upstream, |policy| policy);
        for round in 0..5 {
            let mut client = site.gateway.connect();
            let ill = client.exchange(&Request::call(&format!("ill-{round}")));
            assert_eq!(ill.status, 200, "{bytes:?}: {ill:?}");
            site.upstream.wait("the end of the connection", |log| {
                log.ended(round).is_some()
            });
        }
        let tool = "good";
        let good = site.gateway.ask(&Request::call(tool));
        assert_eq!(good.json()["result"]["tool"], tool, "{bytes:?}");
        assert_eq!(site.upstream.log().connections.len(), 6, "{bytes:?}");
    }
}
