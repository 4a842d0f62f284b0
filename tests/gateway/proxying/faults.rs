//! Upstreams that fail: an error with the request's id, in the form of the era, and never a clean
//! end that was none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use serde_json::json;

use crate::harness::{
    Fault, Gateway, LEGACY, Policy, Refusal, Reply, Request, Response, Site, Upstream,
};

/// The error of an exchange whose upstream failed, as each era hears of it.
fn check(what: &str, gateway: &Gateway, status: u16, runs: impl Fn() -> usize) {
    let modern = gateway.ask(&Request::call("echo").id("\"m\""));
    let refusal = Refusal::of(status, status.into()).id("\"m\"");
    refusal.check(what, &modern);
    let legacy = gateway.ask(&Request::legacy_call("echo").id("9223372036854775807"));
    // Legacy clients lose their session over a status.
    let refusal = Refusal::of(200, status.into()).id("9223372036854775807");
    refusal.check(what, &legacy);
    let initialize = gateway.ask(&Request::initialize(LEGACY));
    Refusal::of(200, status.into()).check(what, &initialize);
    let probe = gateway.ask(&Request::modern("server/discover", json!({})));
    check_probe(what, &probe, status);
    let notification = gateway.ask(&Request::modern_notification("notifications/x"));
    assert_eq!(notification.status, status, "{what}: {notification:?}");
    let get = gateway.ask(&Request::get());
    assert_eq!(get.status, status, "{what}: {get:?}");
    assert!(runs() <= 2, "{what}: a call was repeated");
    for record in gateway.wait_for_records(6) {
        let verdict = record["verdict"].as_str().unwrap_or_default();
        assert!(verdict.starts_with("refused:"), "{what}: {record}");
    }
}

/// Our own 5xx to a probe must not be taken for an answer of the protocol.
fn check_probe(what: &str, answer: &Response, status: u16) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    let kind = answer.head.value("content-type").unwrap();
    assert_eq!(kind, "application/problem+json", "{what}: {answer:?}");
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["status"], status, "{what}: {problem}");
    assert!(problem.get("jsonrpc").is_none(), "{what}: {problem}");
}

/// An address on which nobody listens: bound once and given back. No other test uses this host,
/// so none is given the port meanwhile.
fn closed_address(host: u8) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn an_upstream_that_is_not_there() {
    let url = format!("http://{}/mcp", closed_address(71));
    let gateway = Gateway::start(&Policy::to_url(&url));
    check("refused", &gateway, 502, || 0);
}

#[test]
fn an_upstream_whose_name_is_unknown() {
    let gateway = Gateway::start(&Policy::to_url("http://nobody.invalid/mcp"));
    check("no such host", &gateway, 502, || 0);
}

#[test]
fn an_upstream_that_goes_before_its_head() {
    let half = "HTTP/1.1 200 OK\r\nContent-Ty";
    for (what, reply) in [
        ("closed at once", Reply::raw_then_close("")),
        ("reset at once", Reply::raw_then_reset("")),
        ("closed in its head", Reply::raw_then_close(half)),
        ("reset in its head", Reply::raw_then_reset(half)),
    ] {
        let upstream = Upstream::with(move |_| reply.clone());
        let gateway = Gateway::before(&upstream);
        check(what, &gateway, 502, || upstream.runs("echo"));
    }
}

#[test]
fn an_upstream_that_speaks_something_else() {
    for garbage in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 999999 No\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "\0\0\0\x04\x01\0\0\0\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        let upstream = Upstream::with(move |_| Reply::raw_then_close(garbage));
        let gateway = Gateway::before(&upstream);
        check(garbage, &gateway, 502, || upstream.runs("echo"));
    }
}

#[test]
fn an_upstream_that_never_answers() {
    let upstream = Upstream::with(|_| Reply::silence());
    let policy = Policy::new(&upstream).upstream("response_header_timeout", "200ms");
    let gateway = Gateway::start(&policy);
    check("silent", &gateway, 504, || upstream.runs("echo"));
    upstream.wait("the end of every request that timed out", |log| {
        log.open() == 0
    });
}

#[test]
fn statuses_for_legacy_clients_where_the_policy_says_so() {
    let upstream = Upstream::with(|_| Reply::raw_then_close(""));
    let policy = Policy::new(&upstream).set("/routes/0/protocol/legacy_refusals", json!("status"));
    let gateway = Gateway::start(&policy);
    let answer = gateway.ask(&Request::legacy_call("echo"));
    Refusal::of(502, 502).check("status", &answer);
}

#[test]
fn an_answer_cut_short_is_not_ended() {
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let sse = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let chunk = "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
    for bytes in [
        format!("{json}Content-Length: 30\r\n\r\n{{\"jsonrpc\":"),
        format!("{json}Content-Length: 30\r\n\r\n"),
        format!("{json}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"a\":\r\n"),
        format!("{sse}Content-Length: 30\r\n\r\ndata: 1\n\n"),
        format!("{sse}{chunk}"),
        format!("{sse}{chunk}9\r\ndat"),
        format!("{sse}{chunk}0\r\n"),
        format!("{sse}{chunk}zz\r\n"),
    ] {
        for reset in [false, true] {
            let reply = match reset {
                false => Reply::raw_then_close(bytes.as_str()),
                true => Reply::raw_then_reset(bytes.as_str()),
            };
            let site = Site::before(Upstream::with(move |_| reply.clone()), |policy| policy);
            for request in [Request::call("echo"), Request::legacy_call("echo")] {
                let mut client = site.gateway.connect();
                client.send(&request);
                match client.try_read() {
                    // A reset may overtake the head; then this is an ordinary failure.
                    Ok(answer) => {
                        assert!(reset && answer.code() == Some(502), "{bytes}: {answer:?}")
                    }
                    Err(Fault::Closed(_) | Fault::Reset) => {}
                    Err(fault) => panic!("{bytes}: {fault:?}"),
                }
            }
            assert!(site.upstream.runs("echo") <= 2, "a call was repeated");
        }
    }
}

/// A server that answers as soon as it knows that there is a request, and closes with most of that
/// unread. Gives its address.
fn answers_and_closes() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(
                b"HTTP/1.1 401 No\r\nConnection: close\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\n{}",
            );
        }
    });
    address
}

#[test]
fn an_answer_that_comes_before_the_request_was_read_is_the_answer() {
    let gateway = Gateway::start(&Policy::to_url(&format!(
        "http://{}/mcp",
        answers_and_closes()
    )));
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(4_000_000));
    let upload = Request::call("large").edit("\"arguments\":{}", &large);
    for _ in 0..20 {
        let answer = gateway.ask(&upload);
        assert_eq!((answer.status, answer.text().as_str()), (401, "{}"));
        assert_eq!(answer.head.value("www-authenticate").unwrap(), "Bearer");
    }
}

#[test]
fn a_failed_upstream_that_recovers_is_used_again() {
    let address = closed_address(72);
    let gateway = Gateway::start(&Policy::to_url(&format!("http://{address}/mcp")));
    let mut client = gateway.connect();
    assert_eq!(client.exchange(&Request::call("echo")).status, 502);
    let upstream = Upstream::at(address);
    assert_eq!(client.exchange(&Request::call("echo")).status, 200);
    assert_eq!(upstream.runs("echo"), 1);
}

#[test]
fn our_errors_tell_nothing_about_the_upstream() {
    let upstream = Upstream::with(|_| Reply::raw_then_close(""));
    let gateway = Gateway::before(&upstream);
    let port = upstream.address.port().to_string();
    for request in [
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::modern("server/discover", json!({})),
    ] {
        let text = gateway.ask(&request).text();
        assert!(
            !text.contains(&port),
            "the address is for the log only: {text}"
        );
    }
}
