//! Streams of events among others on one connection of HTTP/2: what ends one of them ends no other.

use h2::Reason;
use serde_json::json;

use crate::harness::{Gateway, Play, Policy, Reply, Request, Site, Upstream};
use crate::http2::Client2;

const COMMENT: &[u8] = b": keep-alive\n\n";

/// A server whose streams send one event and are then silent.
fn begins() -> Upstream {
    Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("good") => Reply::usual(request),
        _ => Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]),
    })
}

#[test]
fn comments_and_a_last_event_reach_their_stream() {
    let site = Site::before(begins(), |policy| {
        policy
            .set("/routes/0/streams/keep_alive", json!("20ms"))
            .set("/routes/0/deadline/tools", json!({"late": "500ms"}))
    });
    let mut client = Client2::connect(&site.gateway);
    let answer = client.exchange(&Request::call("late").id("\"an id\""));
    let text = String::from_utf8(answer.body).unwrap();
    let (comments, last) = text.rsplit_once("event: message\n").unwrap();
    assert!(comments.starts_with("data: 1\n\n"), "{text}");
    assert!(comments.contains(": keep-alive\n\n"), "{text}");
    assert!(
        last.contains("\"id\":\"an id\",\"error\":{\"code\":504"),
        "{text}"
    );
    assert_eq!(site.records(1)[0]["end"], "limit:deadline.tools");
    assert_eq!(client.exchange(&site.good).status, 200);
}

#[test]
fn a_stream_that_is_silent_for_too_long_is_reset_alone() {
    let site = Site::before(begins(), |policy| {
        policy.set("/routes/0/streams/idle_timeout", json!("300ms"))
    });
    let mut client = Client2::connect(&site.gateway);
    let mut stream = client.send(&Request::call("silent"));
    stream.head().unwrap();
    let (reason, came) = stream.read_to_reset();
    assert_eq!(
        (reason, came.as_slice()),
        (Reason::INTERNAL_ERROR, &b"data: 1\n\n"[..])
    );
    assert_eq!(site.records(1)[0]["end"], "limit:streams.idle_timeout");
    site.upstream
        .wait("the end of the request", |log| log.ended(0).is_some());
    assert_eq!(client.exchange(&site.good).status, 200);
}

#[test]
fn a_client_that_resets_a_stream_full_of_comments_ends_it() {
    let site = Site::before(begins(), |policy| {
        policy.set("/routes/0/streams/keep_alive", json!("10ms"))
    });
    let mut client = Client2::connect(&site.gateway);
    let mut stream = client.send(&Request::modern("subscriptions/listen", json!({})));
    stream.head().unwrap();
    while stream.next().unwrap().unwrap() != COMMENT {}
    stream.reset();
    site.upstream
        .wait("the end of the request", |log| log.ended(0).is_some());
    assert_eq!(site.records(1)[0]["end"], "client_gone");
    assert_eq!(client.exchange(&site.good).status, 200);
}

#[test]
fn a_subscription_ends_as_the_policy_says() {
    for (streams, is_clean) in [("end", true), ("break", false)] {
        let upstream = begins();
        let shutdown = json!({"notice": "1ms", "timeout": "5s", "streams": streams});
        let policy = Policy::new(&upstream).set("/shutdown", shutdown);
        let mut gateway = Gateway::start(&policy);
        let mut client = Client2::connect(&gateway);
        let mut stream = client.send(&Request::modern("subscriptions/listen", json!({})));
        stream.head().unwrap();
        assert_eq!(stream.next().unwrap().unwrap(), "data: 1\n\n");
        gateway.signal("TERM");
        if is_clean {
            let last = String::from_utf8(stream.next().unwrap().unwrap().to_vec()).unwrap();
            assert!(
                last.contains("io.modelcontextprotocol/subscriptionId\":1"),
                "{last}"
            );
            assert_eq!(stream.next(), Ok(None));
        } else {
            let (reason, came) = stream.read_to_reset();
            assert_eq!((reason, came.len()), (Reason::INTERNAL_ERROR, 0));
        }
        assert_eq!(gateway.ended(), Some(0), "{streams}");
        let record = &gateway.wait_for_records(1)[0];
        assert_eq!(record["end"], "shut_down", "{record}");
    }
}
