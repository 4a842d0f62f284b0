//! Deadlines of whole calls: before the head a refusal, in a stream of events a last event, and
//! otherwise an answer that breaks off.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Fault, LEGACY, Play, Policy, Refusal, Reply, Request, Site, Upstream};

const ID: &str = "9223372036854775807";

fn soon(policy: Policy) -> Policy {
    policy.set("/routes/0/deadline/call", json!("300ms"))
}

/// The upstream's last request ends, and it ran once.
fn is_cancelled(site: &Site, tool: &str, runs: usize) {
    let connection = site.upstream.last().connection;
    site.upstream.wait("the end of the request", |log| {
        log.ended(connection).is_some()
    });
    assert_eq!(site.upstream.runs(tool), runs);
}

#[test]
fn a_call_without_an_answer_is_refused_at_its_deadline() {
    let site = Site::before(Upstream::with(|_| Reply::silence()), soon);
    let names = ["deadline.call", "300ms"];
    for (runs, request, status) in [
        (1, Request::call("late"), 504),
        // Legacy clients lose their session over a status.
        (2, Request::legacy_call("late"), 200),
    ] {
        let answer = site.gateway.ask(&request.id(ID));
        Refusal::of(status, 504)
            .id(ID)
            .names(&names)
            .check("late", &answer);
        is_cancelled(&site, "late", runs);
        let record = &site.records(1)[0];
        assert_eq!(record["verdict"], "refused:upstream_timeout", "{record}");
        assert_eq!(record["detail"], "deadline.call", "{record}");
    }
    for request in [
        Request::initialize(LEGACY),
        Request::modern("tools/list", json!({})),
    ] {
        assert_eq!(site.gateway.ask(&request).code(), Some(504));
    }
}

#[test]
fn an_answer_that_is_held_back_has_the_same_deadline() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: held-3\r\n\
                 Content-Length: 99\r\n\r\n{";
    let upstream = || {
        Upstream::with(|request| match request.method.as_str() {
            "DELETE" => Reply::usual(request),
            _ => Reply::raw(*head),
        })
    };
    // Nobody gets the session that its head opens, so that it is ended.
    let ends_the_session = |site: &Site| {
        site.upstream.wait("a DELETE of the session", |log| {
            let mut deletes = log.requests.iter().filter(|r| r.method == "DELETE");
            deletes.any(|r| r.head.value("mcp-session-id").as_deref() == Some("held-3"))
        });
        assert_eq!(site.upstream.request_count(), 2);
    };
    let site = Site::before(upstream(), soon);
    let answer = site.gateway.ask(&Request::initialize(LEGACY));
    Refusal::of(200, 504)
        .names(&["deadline.call"])
        .check("held", &answer);
    ends_the_session(&site);

    let site = Site::before(upstream(), |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::initialize(LEGACY));
    site.upstream.wait_for_requests(1);
    // The answer's head is on its way by now, and mostly there.
    std::thread::sleep(Duration::from_millis(500));
    drop(client);
    ends_the_session(&site);
}

#[test]
fn a_stream_ends_with_an_error_of_its_request() {
    for request in [Request::call("late"), Request::legacy_call("late")] {
        let steps = vec![
            Play::sse_head(),
            Play::chunk(
                "event: message\ndata: {\"method\":\"notifications/progress\"}\n\n: ping\n",
            ),
        ];
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        let site = Site::before(upstream, soon);
        let mut client = site.gateway.connect();
        let answer = client.exchange(&request.id(ID));
        assert_eq!(
            (answer.status, answer.code()),
            (200, Some(504)),
            "{answer:?}"
        );
        let text = answer.text();
        let last = text.rsplit(": ping\n").next().unwrap_or_default();
        assert!(last.starts_with("event: message\ndata: {"), "{text}");
        assert!(last.contains(&format!("\"id\":{ID},")), "{text}");
        assert!(
            last.contains("deadline.call") && last.ends_with("}\n\n"),
            "{text}"
        );
        is_cancelled(&site, "late", 1);
        assert!(!client.is_closed(), "the end of the stream was a clean one");
        let record = &site.records(1)[0];
        assert_eq!(record["end"], "limit:deadline.call", "{record}");
        assert_eq!(record["bytes_out"], text.len(), "{record}");
    }
}

#[test]
fn a_stream_that_never_pauses_ends_too() {
    let upstream = Upstream::with(|_| {
        let mut steps = vec![Play::sse_head()];
        steps.extend(
            std::iter::repeat_n(
                [
                    Play::chunk("data: 1\n\n"),
                    Play::Pause(Duration::from_millis(5)),
                ],
                2000,
            )
            .flatten(),
        );
        Reply::Steps(steps)
    });
    let site = Site::before(upstream, soon);
    let answer = site.gateway.ask(&Request::call("busy"));
    assert_eq!(answer.code(), Some(504));
    is_cancelled(&site, "busy", 1);
}

#[test]
fn what_stands_in_the_middle_breaks_off() {
    let head = |lines: &str| Play::Send(format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n").into_bytes());
    let events = "Content-Type: text/event-stream\r\n";
    for (what, steps) in [
        (
            "half an event",
            vec![Play::sse_head(), Play::chunk("data: {\n")],
        ),
        (
            "half a document",
            vec![
                head("Content-Type: application/json\r\nContent-Length: 9"),
                Play::Send(b"{\"a\"".to_vec()),
            ],
        ),
        (
            "counted events",
            vec![
                head(&format!("{events}Content-Length: 500")),
                Play::Send(b"data: 1\n\n".to_vec()),
            ],
        ),
        (
            "coded events",
            vec![
                head(&format!(
                    "{events}Content-Encoding: gzip\r\nTransfer-Encoding: chunked"
                )),
                Play::chunk("gzip\n\n"),
            ],
        ),
    ] {
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        let site = Site::before(upstream, soon);
        let answer = site.gateway.connect().try_exchange(&Request::call("late"));
        let fault = answer.expect_err(what);
        assert!(
            matches!(fault, Fault::Closed(_) | Fault::Reset),
            "{what}: {fault:?}"
        );
        is_cancelled(&site, "late", 1);
        assert_eq!(site.records(1)[0]["end"], "limit:deadline.call", "{what}");
    }
}

#[test]
fn a_tool_may_have_a_deadline_of_its_own() {
    let slowly = |request: &crate::harness::Received| {
        let body = format!("{}", request.json()["id"]);
        Reply::Steps(vec![
            Play::Pause(Duration::from_millis(900)),
            Play::Last(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .into_bytes(),
            ),
        ])
    };
    let site = Site::before(Upstream::with(slowly), |policy| {
        let tools = json!({"shared": "1h", "quick": "200ms"});
        soon(policy).set("/defaults/deadline/tools", tools).set(
            "/routes/0/deadline/tools",
            json!({"report": "1m", "export": "off"}),
        )
    });
    let gateway = &site.gateway;
    std::thread::scope(|scope| {
        for (tool, limit) in [
            ("other", Some("deadline.call")),
            ("quick", Some("deadline.tools")),
            ("report", None),
            ("export", None),
            ("shared", None),
        ] {
            for request in [Request::call(tool), Request::legacy_call(tool)] {
                scope.spawn(move || {
                    let answer = gateway.ask(&request);
                    match limit {
                        None => assert_eq!((answer.status, answer.text()), (200, "1".to_owned())),
                        Some(limit) => {
                            assert_eq!(answer.code(), Some(504), "{tool}: {answer:?}");
                            assert!(answer.text().contains(limit), "{tool}: {answer:?}");
                        }
                    }
                });
            }
        }
    });
    // A prompt of the same name is no tool.
    let prompt = gateway.ask(&Request::modern("prompts/get", json!({"name": "report"})));
    assert_eq!(prompt.code(), Some(504));
}

#[test]
fn what_is_no_call_has_no_deadline() {
    let slowly = |request: &crate::harness::Received| {
        let steps = match request.json()["method"] == "notifications/x" {
            true => vec![
                Play::Pause(Duration::from_millis(700)),
                Play::Last(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec()),
            ],
            false => vec![
                Play::sse_head(),
                Play::Pause(Duration::from_millis(700)),
                Play::chunk("data: 1\n\n"),
                Play::end(),
            ],
        };
        Reply::Steps(steps)
    };
    let site = Site::before(Upstream::with(slowly), soon);
    for (request, status, text) in [
        (
            Request::modern("subscriptions/listen", json!({})),
            200,
            "data: 1\n\n",
        ),
        (Request::get(), 200, "data: 1\n\n"),
        (Request::modern_notification("notifications/x"), 202, ""),
    ] {
        let answer = site.gateway.ask(&request);
        assert_eq!((answer.status, answer.text().as_str()), (status, text));
        assert_eq!(site.records(1)[0]["end"], "complete");
    }
}
