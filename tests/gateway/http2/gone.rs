//! Streams that a client gives up, and connections that end under them: the upstream's request ends
//! with them, and nothing else does.

use std::time::Duration;

use h2::Reason;
use serde_json::json;

use super::Client2;
use crate::harness::{Play, Reply, Request, Site, Upstream};

fn site(begun: bool) -> Site {
    let upstream =
        Upstream::with(
            move |request| match (request.json()["params"]["name"].as_str(), begun) {
                (Some("good"), _) => Reply::usual(request),
                (_, true) => Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]),
                (_, false) => Reply::silence(),
            },
        );
    Site::before(upstream, |policy| policy)
}

#[test]
fn a_reset_ends_its_exchange_and_no_other() {
    for begun in [false, true] {
        let site = site(begun);
        let mut client = Client2::connect(&site.gateway);
        let open = |client: &mut Client2, number: usize| {
            let mut stream = client.send(&Request::call("slow"));
            site.upstream
                .wait("the call", |log| log.runs("slow") == number);
            if begun {
                stream.head().unwrap();
                assert_eq!(stream.next().unwrap().unwrap(), "data: 1\n\n");
            }
            (stream, site.upstream.last().connection)
        };
        let (mut stays, kept) = open(&mut client, 1);
        let (mut goes, given_up) = open(&mut client, 2);
        goes.reset();
        let took = site
            .upstream
            .wait("the end of it", |log| log.ended(given_up).is_some());
        println!("begun: {begun}; gone after {took:?}");
        assert_eq!(site.records(1)[0]["end"], "client_gone");
        assert_eq!(site.upstream.log().ended(kept), None, "the other goes on");
        assert_eq!(client.exchange(&site.good).status, 200);
        site.records(1);
        stays.reset();
        site.upstream
            .wait("the end of the other", |log| log.ended(kept).is_some());
        site.records(1);
    }
}

#[test]
fn the_end_of_the_connection_ends_all_its_exchanges() {
    for begun in [false, true] {
        let site = site(begun);
        let mut client = Client2::connect(&site.gateway);
        let mut streams: Vec<_> = (0..5)
            .map(|_| client.send(&Request::call("slow")))
            .collect();
        site.upstream.wait("the calls", |log| log.runs("slow") == 5);
        if begun {
            for stream in &mut streams {
                stream.head().unwrap();
            }
        }
        client.close();
        let took = site.upstream.wait("the end of all", |log| log.open() == 0);
        println!("begun: {begun}; gone after {took:?}");
        for record in site.records(5) {
            assert_eq!(record["end"], "client_gone", "{record}");
        }
        site.works("clients that left", &mut site.gateway.connect());
    }
}

#[test]
fn a_body_that_is_given_up_goes_nowhere() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    let request = Request::call("echo");
    let half = request.body.len() / 2;
    for announced in [true, false] {
        for whole in [false, true] {
            let mut request = request.clone();
            if announced {
                let length = request.body.len().to_string();
                request = request.header("Content-Length", &length);
            }
            let mut stream = client.begin(&request);
            // Whole means all but the word that it is the end.
            let sent = if whole { request.body.len() } else { half };
            stream.upload(&request.body[..sent], false);
            std::thread::sleep(Duration::from_millis(50));
            stream.reset();
            let record = &site.records(1)[0];
            let told = record["verdict"].as_str().unwrap_or_default();
            assert!(
                record["end"] == "client_gone" || told.starts_with("refused:"),
                "{record}"
            );
        }
    }
    assert_eq!(client.exchange(&site.good).status, 200);
    assert_eq!(site.upstream.runs("echo"), 0, "nothing was whole");
}

#[test]
fn a_body_that_is_given_up_is_never_whole_whatever_the_reason() {
    let site = Site::with(|policy| {
        let pass = json!({"name": "pass", "pass": true, "path": "/pass/*", "upstream": "up"});
        let main = json!({"name": "main", "path": "/mcp", "upstream": "up"});
        policy.set("/routes", json!([main, pass]))
    });
    let mut client = Client2::connect(&site.gateway);
    let pad = format!(r#""arguments":{{"pad":"{}"}}"#, "x".repeat(100 << 10));
    let long = Request::call("echo").edit(r#""arguments":{}"#, &pad);
    let passed = Request::new("POST", "/pass/on").body("amount=1000&to=al");
    for reason in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
        for request in [Request::call("echo"), long.clone(), passed.clone()] {
            for _ in 0..8 {
                let mut stream = client.begin(&request);
                stream.upload(&request.body, false);
                // The upstream has what came of it, and waits for the rest.
                std::thread::sleep(Duration::from_millis(20));
                stream.reset_by(reason);
            }
        }
    }
    site.records(3 * 3 * 8);
    assert!(site.upstream.request_count() > 0, "some had begun");
    let whole = site
        .upstream
        .log()
        .requests
        .iter()
        .any(|seen| seen.complete);
    assert!(!whole);
    assert_eq!(client.exchange(&site.good).status, 200);
}
