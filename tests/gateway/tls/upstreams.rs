//! Upstreams that are spoken to over TLS.

use serde_json::json;

use super::Papers;
use crate::harness::certificates::Authority;
use crate::harness::tunnel::{Front, Manner};
use crate::harness::upstream2::{Reply2, Upstream2};
use crate::harness::{Gateway, Play, Policy, Reply, Request, Upstream};

/// A policy for the server of `url`, which the authority of `papers` vouches for.
fn policy(papers: &Papers, url: &str) -> Policy {
    Policy::to_url(url).set("/upstreams/up/tls/ca", json!(papers.path("ca.crt")))
}

#[test]
fn an_upstream_is_known_by_its_own_authority_and_name() {
    let papers = Papers::new();
    let upstream = Upstream::start();
    let identity = papers.authority.issue(&["localhost", "127.0.0.1"]);
    for (host, asked) in [("localhost", Some("localhost")), ("127.0.0.1", None)] {
        let front = Front::before(upstream.address, &Manner::of(&identity));
        let gateway = Gateway::start(&policy(&papers, &front.url(host)));
        for _ in 0..2 {
            assert_eq!(gateway.ask(&Request::call("t")).status, 200);
        }
        let seen = front.seen();
        assert_eq!(seen.len(), 1, "one connection is kept: {seen:?}");
        let seen = seen[0].as_ref().expect("a handshake");
        assert_eq!(seen.name.as_deref(), asked);
        assert_eq!(seen.agreed.protocol.as_deref(), Some("http/1.1"));
        assert!(seen.agreed.shown.is_none());
        let authority = format!("{host}:{}", front.address.port());
        assert_eq!(upstream.last().head.value("host"), Some(authority));
    }
}

#[test]
fn an_upstream_may_have_another_name_than_its_host() {
    let papers = Papers::new();
    let upstream = Upstream::start();
    let identity = papers.authority.issue(&["weather.internal"]);
    let front = Front::before(upstream.address, &Manner::of(&identity));
    let policy = policy(&papers, &front.url("127.0.0.1"))
        .set("/upstreams/up/tls/server_name", json!("weather.internal"));
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.ask(&Request::call("t")).status, 200);
    let seen = front.seen().remove(0).expect("a handshake");
    assert_eq!(seen.name.as_deref(), Some("weather.internal"));
}

#[test]
fn an_upstream_that_is_not_trusted_gets_nothing() {
    let papers = Papers::new();
    let stranger = Authority::new("stranger");
    let upstream = Upstream::start();
    for identity in [
        stranger.issue(&["127.0.0.1"]),
        papers.authority.issue(&["elsewhere.example"]),
        papers.authority.issue_until(&["127.0.0.1"], 2001),
    ] {
        let front = Front::before(upstream.address, &Manner::of(&identity));
        let gateway = Gateway::start(&policy(&papers, &front.url("127.0.0.1")));
        let answer = gateway.ask(&Request::call("t"));
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(answer.text().contains("certificate that is not trusted"));
        let record = &gateway.wait_for_records(1)[0];
        let detail = record["detail"].as_str().unwrap();
        assert!(detail.contains("certificate"), "{record}");
        assert_eq!(record["verdict"], "refused:upstream_failed");
    }
    // Without an authority of its own, the ones that browsers trust count.
    let identity = papers.authority.issue(&["127.0.0.1"]);
    let front = Front::before(upstream.address, &Manner::of(&identity));
    let gateway = Gateway::start(&Policy::to_url(&front.url("127.0.0.1")));
    assert_eq!(gateway.ask(&Request::call("t")).status, 502);
    assert_eq!(upstream.request_count(), 0);
    assert_eq!(upstream.log().connections.len(), 0);
}

#[test]
fn an_upstream_that_asks_is_shown_a_certificate() {
    let papers = Papers::new();
    let upstream = Upstream::start();
    let identity = papers.authority.issue(&["127.0.0.1"]);
    let demanding = Manner {
        demands: Some(&papers.authority),
        ..Manner::of(&identity)
    };
    let front = Front::before(upstream.address, &demanding);
    let anonymous = policy(&papers, &front.url("127.0.0.1"));
    let gateway = Gateway::start(&anonymous);
    assert_eq!(gateway.ask(&Request::call("t")).status, 502);
    let record = &gateway.wait_for_records(1)[0];
    let detail = record["detail"].as_str().unwrap();
    assert!(detail.contains("CertificateRequired"), "{record}");
    assert_eq!(upstream.request_count(), 0);
    let shows = anonymous
        .set("/upstreams/up/tls/cert", json!(papers.path("tls.crt")))
        .set("/upstreams/up/tls/key", json!(papers.path("tls.key")));
    let gateway = Gateway::start(&shows);
    assert_eq!(gateway.ask(&Request::call("t")).status, 200);
    let seen = front
        .seen()
        .pop()
        .expect("a handshake")
        .expect("a good one");
    assert!(seen.agreed.shown.is_some());
}

#[test]
fn an_upstream_that_does_not_speak_tls_is_told_of() {
    let papers = Papers::new();
    let upstream = Upstream::start();
    let url = format!("https://{}/mcp", upstream.address);
    let policy = policy(&papers, &url).upstream("connect_timeout", "1s");
    // This one says nothing before it has read a request.
    let silent = Gateway::start(&policy);
    let answer = silent.ask(&Request::call("t"));
    assert_eq!(answer.status, 504, "{answer:?}");
    let talker = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/mcp", talker.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((stream, _)) = talker.accept() {
            use std::io::Write as _;
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    });
    let gateway = Gateway::start(&self::policy(&papers, &url));
    let answer = gateway.ask(&Request::call("t"));
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.text().contains("does not speak TLS"), "{answer:?}");
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn the_handshake_says_which_http_an_upstream_speaks() {
    let papers = Papers::new();
    let identity = papers.authority.issue(&["127.0.0.1"]);
    for (http, spoken, offered) in [
        ("auto", &["h2", "http/1.1"][..], Some("h2")),
        ("2", &["h2", "http/1.1"], Some("h2")),
        ("1.1", &["h2", "http/1.1"], Some("http/1.1")),
        ("auto", &["http/1.1"], Some("http/1.1")),
        ("auto", &[], None),
    ] {
        let (plain, multiplexed) = (Upstream::start(), Upstream2::with(Reply2::usual));
        let address = match offered {
            Some("h2") => multiplexed.address,
            Some(_) | None => plain.address,
        };
        let manner = Manner {
            protocols: spoken,
            ..Manner::of(&identity)
        };
        let front = Front::before(address, &manner);
        let policy = policy(&papers, &front.url("127.0.0.1")).upstream("http", http);
        let gateway = Gateway::start(&policy);
        for _ in 0..2 {
            let answer = gateway.ask(&Request::call("t"));
            assert_eq!(answer.status, 200, "{http} {spoken:?}: {answer:?}");
        }
        let seen = front.seen();
        assert_eq!(seen.len(), 1, "{http} {spoken:?}: {seen:?}");
        let seen = seen[0].as_ref().expect("a handshake");
        assert_eq!(seen.agreed.protocol.as_deref(), offered);
    }
}

#[test]
fn an_answer_that_was_cut_off_has_no_good_end() {
    let papers = Papers::new();
    let identity = papers.authority.issue(&["127.0.0.1"]);
    // Its end is the end of the connection, so that only the word of a good end makes it one.
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"jsonrpc\":\"2.0\",";
    for truncates in [false, true] {
        let upstream =
            Upstream::with(move |_| Reply::Steps(vec![Play::Send(answer.into()), Play::Close]));
        let manner = Manner {
            truncates,
            ..Manner::of(&identity)
        };
        let front = Front::before(upstream.address, &manner);
        let gateway = Gateway::start(&policy(&papers, &front.url("127.0.0.1")));
        let mut client = gateway.connect();
        client.send(&Request::call("t"));
        let read = client.try_read();
        assert_eq!(read.is_err(), truncates, "{read:?}");
        let record = &gateway.wait_for_records(1)[0];
        let end = match truncates {
            true => "upstream_failed",
            false => "complete",
        };
        assert_eq!(record["end"], end, "{record}");
    }
}

#[test]
fn certificates_that_are_named_wrongly_keep_the_gateway_from_starting() {
    let papers = Papers::new();
    papers.write("tls.key", "hello\n");
    let policy = Policy::to_url("http://127.0.0.1:1/mcp").listen("tls", papers.listen(&[]));
    let file = crate::harness::policy_file(papers.path("").as_path(), &policy.text());
    let output = crate::harness::run_to_end(&["run", "--policy", &file]);
    assert_eq!(output.status.code(), Some(64));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("there is no key in"), "{told}");
}
