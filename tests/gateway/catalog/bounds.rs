//! What is judged first, and what bounds the gateway's own question for a list.

use serde_json::json;

use super::{QUERY, before, call, calls, good, listing, lists, mismatch, passes, refused, server};
use crate::harness::{Gateway, Policy, Refusal, Reply, Request, Upstream};

#[test]
fn everything_else_is_judged_first() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    let wrong = || call(r#"{"region":"eu"}"#).header("Mcp-Param-Region", "us");
    let first: Vec<(&str, Request, Refusal)> = vec![
        (
            "no capabilities",
            wrong().edit("clientCapabilities\":{}", "clientCapabilities\":[]"),
            Refusal::of(400, -32602),
        ),
        (
            "no version",
            wrong().edit("protocolVersion", "protocolVersio"),
            Refusal::of(400, -32602),
        ),
        (
            "no name",
            wrong().edit("\"name\":\"query\"", "\"name\":7"),
            Refusal::of(400, -32602),
        ),
        (
            "another name",
            wrong().header("Mcp-Name", "other"),
            mismatch("Mcp-Name"),
        ),
        (
            "no method",
            wrong().without("Mcp-Method"),
            mismatch("Mcp-Method"),
        ),
        (
            "no JSON",
            wrong().edit("\"params\"", "params"),
            Refusal::of(400, -32700).with_some_id(),
        ),
    ];
    for (what, request, refusal) in first {
        refused(what, &gateway, &upstream, &request, &refusal);
        assert_eq!(
            lists(&upstream).len(),
            0,
            "{what}: nobody asked for the list"
        );
    }
    refused(
        "then the argument",
        &gateway,
        &upstream,
        &wrong(),
        &mismatch("Mcp-Param-Region"),
    );
}

#[test]
fn other_methods_need_no_list() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for request in [
        Request::modern("prompts/get", json!({"name": "query"})),
        Request::modern("resources/read", json!({"uri": "a:b"})),
        Request::modern_notification("notifications/cancelled"),
    ] {
        assert!(
            gateway
                .ask(&request.header("Mcp-Param-Region", "us"))
                .status
                < 300
        );
    }
    assert_eq!(lists(&upstream).len(), 0);
}

#[test]
fn a_route_without_a_catalog_asks_for_nothing() {
    let upstream = listing(QUERY);
    let gateway = Gateway::before(&upstream);
    let request = call(r#"{"region":"eu"}"#).header("Mcp-Param-Region", "us");
    passes("off", &gateway, &upstream, &request);
    assert_eq!(lists(&upstream).len(), 0);
}

fn with_deadline(upstream: &Upstream) -> Gateway {
    let policy = Policy::new(upstream).remembering();
    Gateway::start(&policy.set("/routes/0/deadline/call", json!("300ms")))
}

#[test]
fn the_list_is_part_of_what_a_call_may_take() {
    let upstream = server(|_| Reply::silence());
    let gateway = with_deadline(&upstream);
    let large = call(&format!(r#"{{"text":"{}"}}"#, "x".repeat(300 << 10)));
    for (number, request) in [good(), large].iter().enumerate() {
        let late = Refusal::of(504, 504).names(&["deadline.call"]);
        let late = if number == 0 {
            late
        } else {
            late.with_some_id()
        };
        refused("late", &gateway, &upstream, request, &late);
        // The question is given up with the call.
        upstream.wait("its end", |log| log.open() == 0);
        assert_eq!(lists(&upstream).len(), number + 1);
    }
}

#[test]
fn the_time_for_the_list_is_not_given_twice() {
    // Either takes less than the deadline, and both together more.
    let pause = crate::harness::Play::Pause(std::time::Duration::from_millis(200));
    let upstream = Upstream::with(move |request| {
        let reply = match super::is_list(request) {
            true => super::page(request, QUERY, super::PUBLIC),
            false => Reply::usual(request),
        };
        match reply {
            Reply::Steps(mut steps) => {
                steps.insert(0, pause.clone());
                Reply::Steps(steps)
            }
            follow => follow,
        }
    });
    let gateway = with_deadline(&upstream);
    let answer = gateway.ask(&good());
    Refusal::of(504, 504)
        .names(&["deadline.call"])
        .check("both", &answer);
    assert_eq!((lists(&upstream).len(), calls(&upstream).len()), (1, 1));
    // With the list known, the same call is in time.
    passes("known", &gateway, &upstream, &good());
}

#[test]
fn the_question_is_given_up_when_its_client_goes() {
    let whole = call(r#"{"text":"x"}"#).bytes();
    // Of a large one, as much as is looked at before the list is asked for.
    let large = call(&format!(r#"{{"text":"{}"}}"#, "x".repeat(300 << 10)));
    let mut begun = large.bytes();
    begun.truncate(70 << 10);
    for sent in [whole, begun] {
        let upstream = server(|_| Reply::silence());
        let gateway = before(&upstream);
        let mut client = gateway.connect();
        client.send_bytes(&sent);
        upstream.wait("the question", |log| {
            log.requests.iter().any(super::is_list)
        });
        drop(client);
        upstream.wait("its end", |log| log.open() == 0);
        let records = gateway.wait_for_records(1);
        assert_eq!(records[0]["end"], "client_gone", "{records:?}");
        assert_eq!(records[0]["method"], "tools/call", "{records:?}");
        assert_eq!(calls(&upstream).len(), 0);
    }
}
