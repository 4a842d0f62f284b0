//! Which side is blamed for a silence while a body passes unread: the one that was waited for.

use serde_json::json;

use crate::harness::{Client, Reply, Request, Response, Site, Upstream};

const HEAD: &[u8] = b"POST /oauth/upload HTTP/1.1\r\nHost: localhost\r\n\
                      Transfer-Encoding: chunked\r\n\r\n";
const FIRST: &[u8] = b"5\r\nfirst\r\n";

/// A route that passes, with so much patience for its client and so much for its upstream.
fn site(upstream: Upstream, client: &str, server: &str) -> Site {
    Site::before(upstream, |policy| {
        let bounds = json!({"body_idle_timeout": client});
        policy.upstream("response_header_timeout", server).set(
            "/routes",
            json!([{"name": "up", "pass": true, "path": "/oauth/*", "upstream": "up",
                    "bounds": bounds}]),
        )
    })
}

/// A client that has sent the beginning of a body, which the upstream has.
fn begun(site: &Site) -> Client {
    let mut client = site.gateway.connect();
    client.send_bytes(HEAD);
    client.send_bytes(FIRST);
    site.upstream.wait("the first chunk", |log| {
        let last = log.requests.last();
        last.is_some_and(|request| request.body == b"first" && !request.complete)
    });
    client
}

fn blamed(site: &Site, answer: &Response, status: u16, reason: &str, limit: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["reason"], reason, "{problem}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(limit), "{problem}");
    let record = &site.records(1)[0];
    assert_eq!(record["verdict"], format!("refused:{reason}"), "{record}");
    assert_eq!(record["status"], status, "{record}");
    assert_eq!(record["detail"], limit, "{record}");
}

#[test]
fn a_client_may_pause_for_longer_than_a_server() {
    let site = site(Upstream::with(|_| Reply::json(201, "{}")), "60s", "1500ms");
    let mut client = begun(&site);
    // More than any pause of a server that is waited for.
    std::thread::sleep(std::time::Duration::from_millis(3200));
    assert_eq!(site.upstream.log().open(), 1, "nobody has given up");
    client.send_bytes(b"6\r\nsecond\r\n0\r\n\r\n");
    let answer = client.read();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(site.upstream.last().body, b"firstsecond");
    assert!(site.upstream.last().complete);
    let record = &site.records(1)[0];
    assert_eq!(record["verdict"], "forwarded", "{record}");
    assert_eq!(record["upstream_status"], 201, "{record}");
}

#[test]
fn a_client_that_pauses_for_too_long_is_blamed() {
    for server in ["600ms", "60s"] {
        let site = site(Upstream::with(|_| Reply::silence()), "1500ms", server);
        let mut client = begun(&site);
        let answer = client.read();
        blamed(
            &site,
            &answer,
            408,
            "body_timeout",
            "bounds.body_idle_timeout",
        );
        let cut_off = |site: &Site| site.upstream.wait("a cut", |log| log.open() == 0);
        cut_off(&site);
        assert!(!site.upstream.last().complete);
    }
}

#[test]
fn a_server_that_is_silent_behind_the_body_is_blamed() {
    for client in ["250ms", "60s"] {
        let site = site(Upstream::with(|_| Reply::silence()), client, "1s");
        let request = Request::new("POST", "/oauth/upload").body("all of it");
        for request in [request.clone(), request.chunked(3)] {
            let answer = site.gateway.ask(&request);
            blamed(
                &site,
                &answer,
                504,
                "upstream_timeout",
                "response_header_timeout",
            );
            assert!(site.upstream.last().complete);
            site.upstream.wait("given up", |log| log.open() == 0);
        }
    }
}
