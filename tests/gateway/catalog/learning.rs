//! Where definitions are known from: from lists that pass, from memory, and from those that the
//! gateway asks for itself, in the context of the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    PRIVATE, PUBLIC, QUERY, before, call, calls, error, good, is_list, list, listing, lists,
    mismatch, page, passes, refused, result, server,
};
use crate::harness::{Gateway, MODERN, Play, Policy, Reply, Request, Upstream, VERSION_KEY};

fn by(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

#[test]
fn a_list_that_has_passed_is_not_asked_for() {
    for members in [PUBLIC, PRIVATE, r#""x":1"#] {
        for token in [None, Some("a")] {
            let upstream = server(move |request| page(request, QUERY, members));
            let gateway = before(&upstream);
            let sent = |request: Request| match token {
                Some(token) => by(request, token),
                None => request,
            };
            assert_eq!(gateway.ask(&sent(list())).status, 200);
            for region in ["eu", "us"] {
                let arguments = format!(r#"{{"region":"{region}"}}"#);
                let request = sent(call(&arguments)).header("Mcp-Param-Region", region);
                passes(members, &gateway, &upstream, &request);
                refused(
                    members,
                    &gateway,
                    &upstream,
                    &sent(call(&arguments)),
                    &mismatch("Mcp-Param-Region"),
                );
                // The refusal had the list asked for again, once.
                assert!(lists(&upstream).len() <= 2, "{members}, {token:?}");
            }
        }
    }
}

#[test]
fn an_unknown_list_is_asked_for_in_the_context_of_the_caller() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    let request = by(good(), "a").header("X-Tenant", "one");
    passes("first", &gateway, &upstream, &request);
    let asked = lists(&upstream);
    assert_eq!(asked.len(), 1);
    let head = &asked[0].head;
    for (name, value) in [
        ("authorization", "Bearer a"),
        ("x-tenant", "one"),
        ("mcp-method", "tools/list"),
        ("mcp-protocol-version", MODERN),
        ("content-type", "application/json"),
    ] {
        assert_eq!(head.values(name), [value]);
    }
    for name in ["mcp-name", "mcp-param-region"] {
        assert!(!head.has(name), "{name}");
    }
    let meta = &asked[0].json()["params"]["_meta"];
    assert_eq!(meta[VERSION_KEY], MODERN);
    // It came before the call, and the call after it.
    let log = upstream.log().requests;
    let positions: Vec<bool> = log.iter().map(is_list).collect();
    assert!(
        positions.iter().position(|is| *is)
            < log
                .iter()
                .position(|r| !is_list(r) && r.json()["method"] == "tools/call")
    );
}

#[test]
fn a_public_list_serves_all_that_have_credentials_and_no_others() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    for token in ["a", "b", "c"] {
        passes(token, &gateway, &upstream, &by(good(), token));
    }
    assert_eq!(lists(&upstream).len(), 1);
    passes("bare", &gateway, &upstream, &good());
    let asked = lists(&upstream);
    assert_eq!(asked.len(), 2);
    assert!(!asked[1].head.has("authorization"));
}

#[test]
fn a_list_in_memory_is_not_asked_for() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    assert_eq!(gateway.ask(&list()).status, 200);
    // What was given to nobody in particular is for everybody.
    passes("with a credential", &gateway, &upstream, &by(good(), "a"));
    assert_eq!(lists(&upstream).len(), 1);
}

#[test]
fn nobody_is_judged_by_the_list_of_another() {
    let upstream = server(|request| {
        let tool = match request.head.value("authorization").as_deref() {
            Some("Bearer a") => QUERY.to_owned(),
            _ => QUERY.replace("Region", "Zone"),
        };
        page(request, &tool, PRIVATE)
    });
    let gateway = before(&upstream);
    let zone = || call(r#"{"region":"eu"}"#).header("Mcp-Param-Zone", "eu");
    for round in 0..3 {
        let what = format!("round {round}");
        passes(&what, &gateway, &upstream, &by(good(), "a"));
        passes(&what, &gateway, &upstream, &by(zone(), "b"));
        passes(&what, &gateway, &upstream, &zone());
        assert_eq!(lists(&upstream).len(), 3, "{what}");
    }
    let tokens: Vec<_> = lists(&upstream)
        .iter()
        .map(|request| request.head.value("authorization").unwrap_or_default())
        .collect();
    assert_eq!(tokens, ["Bearer a", "Bearer b", ""]);
    let wrong = [by(zone(), "a"), by(good(), "b"), good()];
    for (request, header) in wrong.iter().zip(["Region", "Zone", "Zone"]) {
        let refusal = mismatch(&format!("Mcp-Param-{header}"));
        refused(header, &gateway, &upstream, request, &refusal);
    }
}

#[test]
fn all_pages_are_asked_for_until_the_tool_is_found() {
    let upstream = server(
        |request| match request.json()["params"]["cursor"].as_str() {
            None => page(
                request,
                r#"{"name":"a","inputSchema":{}}"#,
                r#""nextCursor":"\u0032""#,
            ),
            Some("2") => page(
                request,
                r#"{"name":"b","inputSchema":{}}"#,
                r#""nextCursor":"3\"""#,
            ),
            Some("3\"") => page(request, QUERY, r#""nextCursor":"4""#),
            Some(_) => page(request, r#"{"name":"d","inputSchema":{}}"#, PUBLIC),
        },
    );
    let gateway = before(&upstream);
    passes("third page", &gateway, &upstream, &good());
    let cursors: Vec<_> = lists(&upstream)
        .iter()
        .map(|request| request.json()["params"]["cursor"].clone())
        .collect();
    assert_eq!(json!(cursors), json!([null, "2", "3\""]));
    refused(
        "missing",
        &gateway,
        &upstream,
        &call(r#"{"region":"eu"}"#),
        &mismatch("Mcp-Param-Region"),
    );
    passes("again", &gateway, &upstream, &good());
}

#[test]
fn pages_that_are_void_by_now_are_asked_for_from_the_first() {
    for status in [200, 400] {
        let asked = AtomicUsize::new(0);
        let upstream = server(move |request| {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            match request.json()["params"]["cursor"].as_str() {
                None if number == 0 => {
                    page(request, "", &format!(r#"{PUBLIC},"nextCursor":"old""#))
                }
                None => page(request, "", &format!(r#"{PUBLIC},"nextCursor":"new""#)),
                Some("new") => page(request, QUERY, PUBLIC),
                Some(_) => error(request, status, -32602),
            }
        });
        let gateway = before(&upstream);
        passes("at last", &gateway, &upstream, &good());
        assert_eq!(lists(&upstream).len(), 4, "{status}");
    }
}

#[test]
fn calls_at_the_same_time_ask_once() {
    let cases: [(&str, &'static str, bool); 4] = [
        ("public", PUBLIC, true),
        ("public, without a memory", PUBLIC, false),
        ("private", PRIVATE, true),
        ("without hints", r#""x":1"#, true),
    ];
    for (what, members, remembers) in cases {
        let upstream = server(move |request| {
            let body = result(request, &format!(r#""tools":[{QUERY}],{members}"#));
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            let whole = [head.as_bytes(), body.as_bytes()].concat();
            Reply::Steps(vec![
                Play::Pause(Duration::from_millis(300)),
                Play::Send(whole),
            ])
        });
        let mut policy = Policy::new(&upstream).remembering();
        if !remembers {
            policy = policy.set("/defaults", json!({"cache": "off"}));
        }
        let gateway = Gateway::start(&policy);
        thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| assert_eq!(gateway.ask(&by(good(), "a")).status, 200));
            }
        });
        assert_eq!(lists(&upstream).len(), 1, "{what}");
        assert_eq!(upstream.runs("query"), 50, "{what}");
    }
}

#[test]
fn who_waits_goes_on_when_the_one_before_has_gone() {
    let (upstream, answers) = Upstream::staged();
    let policy = Policy::new(&upstream).remembering();
    let gateway = Gateway::start(&policy);
    let mut first = gateway.connect();
    first.send(&good());
    let held = answers.recv().unwrap();
    let mut second = gateway.connect();
    second.send(&good());
    drop(first);
    // The request of the one that went goes with it, and the other asks for itself.
    upstream.wait("the end of the first", |log| log.ended(0).is_some());
    let next = answers.recv().unwrap();
    drop(held);
    assert_eq!(lists(&upstream).len(), 2);
    let id = lists(&upstream)[1].json()["id"].clone();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","tools":[{QUERY}]}}}}"#
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    next.send(Play::Last([head.as_bytes(), body.as_bytes()].concat()))
        .unwrap();
    let answer = answers.recv().unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    answer
        .send(Play::Last([head.as_bytes(), body.as_bytes()].concat()))
        .unwrap();
    assert_eq!(second.read().status, 200);
    assert_eq!(calls(&upstream).len(), 1);
}

#[test]
fn a_list_that_has_changed_is_asked_for_again() {
    let upstream = Upstream::with(|request| match request.json()["method"].as_str() {
        Some("tools/list") => page(request, QUERY, PUBLIC),
        Some("subscriptions/listen") => {
            let message = |method: &str| {
                format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{}}}}\n\n"
                )
            };
            Reply::sse(
                &[
                    message("subscriptions/acknowledged"),
                    message("tools/list_changed"),
                ]
                .concat(),
            )
        }
        _ => Reply::usual(request),
    });
    let gateway = before(&upstream);
    passes("first", &gateway, &upstream, &good());
    passes("second", &gateway, &upstream, &good());
    assert_eq!(lists(&upstream).len(), 1);
    let listen = Request::modern(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    assert_eq!(gateway.ask(&listen).status, 200);
    passes("third", &gateway, &upstream, &good());
    assert_eq!(lists(&upstream).len(), 2);
}

/// A server whose tool has another argument in its header once it has `changed`.
fn changing(changed: &Arc<AtomicBool>) -> Upstream {
    let changed = Arc::clone(changed);
    server(move |request| {
        let tool = match changed.load(Ordering::SeqCst) {
            false => QUERY.to_owned(),
            true => QUERY.replace("\"region\"", "\"area\""),
        };
        page(request, &tool, PUBLIC)
    })
}

#[test]
fn a_tool_that_has_changed_is_judged_by_what_it_is() {
    let changed = Arc::new(AtomicBool::new(false));
    let upstream = changing(&changed);
    let gateway = before(&upstream);
    passes("as it was", &gateway, &upstream, &good());
    changed.store(true, Ordering::SeqCst);
    let request = call(r#"{"area":"eu"}"#).header("Mcp-Param-Region", "eu");
    passes("as it is", &gateway, &upstream, &request);
    assert_eq!(lists(&upstream).len(), 2);
    // So it is of whoever asks for the list now.
    assert!(gateway.ask(&list()).text().contains("area"));
    refused(
        "as it was",
        &gateway,
        &upstream,
        &good(),
        &mismatch("Mcp-Param-Region"),
    );
}

#[test]
fn mismatches_do_not_have_the_list_asked_for_at_will() {
    let upstream = listing(QUERY);
    let gateway = before(&upstream);
    passes("first", &gateway, &upstream, &good());
    let start = Instant::now();
    let wrong = call(r#"{"region":"eu"}"#).header("Mcp-Param-Region", "us");
    for token in ["a", "b", "c", "d"] {
        for _ in 0..20 {
            let request = by(wrong.clone(), token);
            refused(
                "wrong",
                &gateway,
                &upstream,
                &request,
                &mismatch("Mcp-Param-Region"),
            );
        }
    }
    // One for the first call, one for the credentials, and one for each second at most.
    let most = 3 + start.elapsed().as_secs();
    let count = lists(&upstream).len() as u64;
    assert!((2..=most).contains(&count), "{count} lists");
}

#[test]
fn a_server_that_knows_better_voids_what_is_known() {
    let refuses = Arc::new(AtomicBool::new(false));
    let is_refusing = Arc::clone(&refuses);
    let upstream = Upstream::with(move |request| match request.json()["method"].as_str() {
        Some("tools/list") => page(request, QUERY, PUBLIC),
        Some("tools/call") if is_refusing.swap(false, Ordering::SeqCst) => {
            error(request, 400, -32020)
        }
        _ => Reply::usual(request),
    });
    let gateway = before(&upstream);
    passes("first", &gateway, &upstream, &good());
    refuses.store(true, Ordering::SeqCst);
    let answer = gateway.ask(&good());
    // Its own answer, to the byte.
    let own = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}"#;
    assert_eq!((answer.status, answer.text().as_str()), (400, own));
    assert_eq!(lists(&upstream).len(), 1);
    passes("third", &gateway, &upstream, &good());
    assert_eq!(lists(&upstream).len(), 2);
}
