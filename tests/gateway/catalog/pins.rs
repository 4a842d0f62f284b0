//! Tools that are held against a lock file: noticed, hidden or blocked once they are not as they were
//! pinned.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{PUBLIC, call_of, calls, list, lists, passes, refused, result, server, told};
use crate::harness::{
    Client, Gateway, Play, Policy, Received, Refusal, Reply, Request, Upstream, run_to_end,
};

const KEPT: &str = r#"{ "name":"kept","inputSchema":{"maximum":1.0} }"#;
const ODD: &str = r#"{"name":"odd","description":"Adds","inputSchema":{}}"#;
const ODD_CHANGED: &str = r#"{"name":"odd","description":"Adds, and mails","inputSchema":{}}"#;
const ADDED: &str = r#"{"name":"new","inputSchema":{}}"#;

/// How the server lists its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Events,
    /// One tool on each page.
    Pages,
}

/// A server whose tools a test changes, with a lock file of those that it began with.
struct Pinned {
    tools: Arc<Mutex<Vec<&'static str>>>,
    upstream: Upstream,
    directory: TempDir,
}

impl Pinned {
    fn new(form: Form) -> Pinned {
        let tools = Arc::new(Mutex::new(vec![KEPT, ODD]));
        let listed = Arc::clone(&tools);
        let upstream = server(move |request| answer(request, form, &listed.lock().unwrap()));
        let directory = TempDir::new().unwrap();
        let pinned = Pinned {
            tools,
            upstream,
            directory,
        };
        let output = run_to_end(&[
            "pin",
            "--upstream",
            &pinned.upstream.url(),
            "--out",
            &pinned.lock(),
        ]);
        assert!(output.status.success(), "{output:?}");
        pinned
    }

    fn lock(&self) -> String {
        let file = self.directory.path().join("up.lock.json");
        file.to_str().unwrap().to_owned()
    }

    /// A gateway with this rule, which keeps nothing, so that it sees every change.
    fn gateway(&self, on_change: &str) -> Gateway {
        Gateway::start(&self.policy(on_change))
    }

    fn policy(&self, on_change: &str) -> Policy {
        let pin = json!({"file": self.lock(), "on_change": on_change});
        let policy = Policy::new(&self.upstream).set("/routes/0/pin", pin);
        policy.set("/defaults", json!({"cache": "off"}))
    }

    fn become_(&self, tools: &[&'static str]) {
        *self.tools.lock().unwrap() = tools.to_vec();
    }
}

fn answer(request: &Received, form: Form, tools: &[&str]) -> Reply {
    let legacy = request.head.value("mcp-protocol-version").as_deref() != Some("2026-07-28");
    let hints = if legacy { r#""x":1"# } else { PUBLIC };
    match form {
        Form::Json => Reply::json(
            200,
            result(
                request,
                &format!(r#""tools":[{}],{hints}"#, tools.join(",")),
            ),
        ),
        Form::Events => {
            let message = result(
                request,
                &format!(r#""tools":[{}],{hints}"#, tools.join(",")),
            );
            Reply::sse(&format!("data: {message}\n\n"))
        }
        Form::Pages => {
            let cursor = request.json()["params"]["cursor"]
                .as_str()
                .map(str::to_owned);
            let at: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let next = match at + 1 < tools.len() {
                true => format!(r#","nextCursor":"{}""#, at + 1),
                false => String::new(),
            };
            let tool = tools.get(at).copied().unwrap_or_default();
            Reply::json(
                200,
                result(request, &format!(r#""tools":[{tool}],{hints}{next}"#)),
            )
        }
    }
}

/// What the admin listener says of the route.
fn shown(gateway: &Gateway) -> Value {
    let lines = gateway.lines();
    let behind = lines
        .iter()
        .find_map(|line| line.split_once("admin on http://"));
    let address: String = behind
        .unwrap()
        .1
        .chars()
        .take_while(|c| !"\", ".contains(*c))
        .collect();
    let address: SocketAddr = address.parse().unwrap();
    let answer = Client::connect(address).exchange(&Request::new("GET", "/pins"));
    let json: Value = serde_json::from_slice(&answer.body).unwrap();
    json["routes"]["main"].clone()
}

fn difference(changed: &[&str], added: &[&str], vanished: &[&str]) -> Value {
    json!({"changed": changed, "added": added, "vanished": vanished})
}

#[track_caller]
fn assert_shown(what: &str, gateway: &Gateway, expected: &Value) {
    let shown = shown(gateway);
    assert_eq!(shown["listed"], true, "{what}: {shown}");
    for key in ["changed", "added", "vanished"] {
        assert_eq!(shown[key], expected[key], "{what}: {key} of {shown}");
    }
}

/// Asks for all pages, and gives the names.
fn names(gateway: &Gateway, request: &Request) -> Vec<String> {
    let mut names = Vec::new();
    let mut request = request.clone();
    loop {
        let answer = gateway.ask(&request).json();
        let tools = answer["result"]["tools"].as_array().expect("tools").clone();
        names.extend(
            tools
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = answer["result"]["nextCursor"].as_str() else {
            return names;
        };
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        body["params"]["cursor"] = json!(next);
        request = request.body(body.to_string());
    }
}

fn legacy_list() -> Request {
    Request::legacy("tools/list", json!({}))
}

#[test]
fn what_changes_is_told_of_and_shown() {
    for form in [Form::Json, Form::Events, Form::Pages] {
        let what = format!("{form:?}");
        let pinned = Pinned::new(form);
        let gateway = pinned.gateway("warn");
        assert_eq!(shown(&gateway)["listed"], false);
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
        assert_shown(&what, &gateway, &difference(&[], &[], &[]));

        pinned.become_(&[KEPT, ODD_CHANGED, ADDED]);
        for _ in 0..3 {
            assert_eq!(names(&gateway, &list()), ["kept", "odd", "new"], "{what}");
        }
        assert_shown(&what, &gateway, &difference(&["odd"], &["new"], &[]));
        told(&gateway, "not as it was pinned", 1);
        told(&gateway, "was not pinned", 1);
        let line = told(&gateway, "not as it was pinned", 1).remove(0);
        assert!(
            line.contains("\"tool\":\"odd\"")
                && line.contains("\"found\"")
                && line.contains("\"pinned\""),
            "{line}"
        );

        pinned.become_(&[KEPT]);
        assert_eq!(names(&gateway, &list()), ["kept"], "{what}");
        assert_shown(&what, &gateway, &difference(&[], &[], &["odd"]));
        told(&gateway, "has vanished", 1);

        pinned.become_(&[KEPT, ODD]);
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
        assert_shown(&what, &gateway, &difference(&[], &[], &[]));
        // It is news again.
        pinned.become_(&[KEPT, ODD_CHANGED]);
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
        told(&gateway, "not as it was pinned", 2);
        passes(&what, &gateway, &pinned.upstream, &call_of("odd", "{}"));
    }
}

#[test]
fn a_tool_that_is_not_as_pinned_is_hidden() {
    for form in [Form::Json, Form::Events, Form::Pages] {
        let what = format!("{form:?}");
        let pinned = Pinned::new(form);
        let gateway = pinned.gateway("hide");
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
        pinned.become_(&[ADDED, KEPT, ODD_CHANGED]);
        assert_eq!(names(&gateway, &list()), ["kept"], "{what}");
        assert_eq!(names(&gateway, &legacy_list()), ["kept"], "{what}");
        assert_shown(&what, &gateway, &difference(&["odd"], &["new"], &[]));
        // Hidden is not blocked.
        passes(&what, &gateway, &pinned.upstream, &call_of("odd", "{}"));
        pinned.become_(&[KEPT, ODD]);
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
    }
}

#[test]
fn it_is_hidden_from_answers_out_of_memory_too() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[KEPT, ODD_CHANGED]);
    let policy = pinned.policy("hide").remembering();
    let gateway = Gateway::start(&policy);
    let asked = lists(&pinned.upstream).len();
    for round in 0..3 {
        let answer = gateway.ask(&list());
        assert!(
            answer.text().contains(&format!("\"tools\":[{KEPT}]")),
            "{round}: {answer:?}"
        );
    }
    assert_eq!(lists(&pinned.upstream).len(), asked + 1);
}

#[test]
fn a_tool_without_a_name_is_hidden_with_them() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[
        KEPT,
        r#"{"name":7,"inputSchema":{}}"#,
        r#"{"title":"x"}"#,
        "3",
    ]);
    let gateway = pinned.gateway("hide");
    for request in [list(), legacy_list()] {
        let answer = gateway.ask(&request);
        assert!(
            answer.text().contains(&format!("\"tools\":[{KEPT}]")),
            "{answer:?}"
        );
    }
}

fn not_pinned() -> Refusal {
    Refusal::of(403, 403).names(&["tool_not_pinned", "pin.on_change"])
}

#[test]
fn a_tool_that_is_not_as_pinned_is_blocked() {
    for form in [Form::Json, Form::Events, Form::Pages] {
        let what = format!("{form:?}");
        let pinned = Pinned::new(form);
        let upstream = &pinned.upstream;
        let gateway = pinned.gateway("block");
        for tool in ["kept", "odd"] {
            passes(&what, &gateway, upstream, &call_of(tool, "{}"));
        }
        pinned.become_(&[KEPT, ODD_CHANGED, ADDED]);
        assert_eq!(names(&gateway, &list()), ["kept"], "{what}");
        for (tool, how) in [
            ("odd", "changed"),
            ("new", "was not pinned"),
            ("gone", "does not list"),
        ] {
            let refusal = not_pinned().names(&[tool, how]);
            refused(&what, &gateway, upstream, &call_of(tool, "{}"), &refusal);
        }
        passes(&what, &gateway, upstream, &call_of("kept", "{}"));
        pinned.become_(&[KEPT, ODD]);
        assert_eq!(names(&gateway, &list()), ["kept", "odd"], "{what}");
        passes(&what, &gateway, upstream, &call_of("odd", "{}"));
    }
}

#[test]
fn a_large_call_is_blocked_by_its_headers() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[KEPT, ODD_CHANGED]);
    let gateway = pinned.gateway("block");
    let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(300 << 10));
    let request = call_of("odd", &text);
    refused(
        "odd",
        &gateway,
        &pinned.upstream,
        &request,
        &not_pinned().with_some_id(),
    );
    let records = gateway.wait_for_records(1);
    assert_eq!(
        (&records[0]["method"], &records[0]["status"]),
        (&json!("tools/call"), &json!(403)),
        "{records:?}"
    );
    // What is told of the id stands before the text.
    let arguments = format!("\"arguments\":{text}");
    let early = Request::call("odd").body(format!(
        r#"{{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{{"name":"odd",{arguments}}}}}"#
    ));
    refused("early", &gateway, &pinned.upstream, &early, &not_pinned());
    passes("kept", &gateway, &pinned.upstream, &call_of("kept", &text));
}

#[test]
fn nothing_is_called_whose_list_cannot_be_had() {
    for (status, modern, legacy) in [(404, 403, 404), (401, 401, 401), (500, 502, 200)] {
        let pinned = Pinned::new(Form::Json);
        let upstream = server(move |_| {
            Reply::with_lines(status, "WWW-Authenticate: Bearer scope=\"x\"\r\n", "")
        });
        let pin = json!({"file": pinned.lock(), "on_change": "block"});
        let policy = Policy::new(&upstream).set("/routes/0/pin", pin);
        let gateway = Gateway::start(&policy);
        let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(300 << 10));
        let in_session = Request::legacy_call("kept").header("Mcp-Session-Id", "gone");
        for (request, told) in [
            (call_of("kept", "{}"), modern),
            (call_of("kept", &text), modern),
            (in_session, legacy),
        ] {
            let answer = gateway.ask(&request);
            assert_eq!(answer.status, told, "{status}: {answer:?}");
            assert!(answer.code().is_some(), "{status}: {answer:?}");
            // Whoever must sign in learns how, and whose session has gone learns that.
            let challenge = answer.head.value("www-authenticate");
            let expected = (status == told).then_some("Bearer scope=\"x\"");
            assert_eq!(challenge.as_deref(), expected, "{status}: {answer:?}");
        }
        assert_eq!(upstream.runs("kept"), 0, "{status}");
        assert_eq!(calls(&upstream).len(), 0, "{status}");
    }
}

#[test]
fn a_notification_runs_no_blocked_tool_either() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[KEPT, ODD_CHANGED]);
    let gateway = pinned.gateway("block");
    let notification = call_of("odd", "{}").edit("\"id\":1,", "");
    let answer = gateway.ask(&notification);
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(calls(&pinned.upstream).len(), 0);
}

#[test]
fn a_changed_tool_is_blocked_when_a_mismatch_shows_it() {
    const BEFORE: &str =
        r#"{"name":"odd","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#;
    const AFTER: &str =
        r#"{"name":"odd","inputSchema":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}"#;
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[BEFORE]);
    let output = run_to_end(&[
        "pin",
        "--upstream",
        &pinned.upstream.url(),
        "--out",
        &pinned.lock(),
    ]);
    assert!(output.status.success());
    let gateway = pinned.gateway("block");
    let before = call_of("odd", r#"{"a":"x"}"#).header("Mcp-Param-A", "x");
    passes("pinned", &gateway, &pinned.upstream, &before);
    pinned.become_(&[AFTER]);
    let after = call_of("odd", r#"{"b":"x"}"#).header("Mcp-Param-A", "x");
    refused("changed", &gateway, &pinned.upstream, &after, &not_pinned());
}

#[test]
fn of_two_tools_of_one_name_none_is_called() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[ODD_CHANGED, ODD]);
    let gateway = pinned.gateway("block");
    let refusal = not_pinned().names(&["two of its name"]);
    refused(
        "two",
        &gateway,
        &pinned.upstream,
        &call_of("odd", "{}"),
        &refusal,
    );
}

#[test]
fn legacy_calls_are_blocked_in_band_by_the_list_of_their_session() {
    let pinned = Pinned::new(Form::Json);
    pinned.become_(&[KEPT, ODD_CHANGED]);
    let upstream = &pinned.upstream;
    let gateway = pinned.gateway("block");
    let asked = lists(upstream).len();
    let in_session = |tool: &str, session: &str| {
        Request::legacy_call(tool)
            .header("Mcp-Session-Id", session)
            .header("Mcp-Param-A", "never judged")
    };
    for session in ["one", "two"] {
        for _ in 0..2 {
            let answer = gateway.ask(&in_session("odd", session));
            Refusal::of(200, 403)
                .names(&["tool_not_pinned", "odd"])
                .check(session, &answer);
            passes(session, &gateway, upstream, &in_session("kept", session));
        }
    }
    assert_eq!(upstream.runs("odd"), 0);
    // Each session has a list of its own, asked for once, in it, and as its version asks.
    let lists = lists(upstream);
    let sessions: Vec<_> = lists[asked..]
        .iter()
        .map(|list| list.head.values("mcp-session-id"))
        .collect();
    assert_eq!(sessions, [["one"], ["two"]]);
    for list in &lists[asked..] {
        assert_eq!(list.head.values("mcp-protocol-version"), ["2025-11-25"]);
    }
    let ids: Vec<_> = lists[asked..]
        .iter()
        .map(|list| list.json()["id"].clone())
        .collect();
    assert_ne!(
        ids[0], ids[1],
        "requests of a session are told apart by their ids"
    );
}

#[test]
fn calls_of_one_session_at_once_ask_once() {
    let pinned = Pinned::new(Form::Json);
    let slow = Arc::clone(&pinned.tools);
    let upstream =
        server(
            move |request| match answer(request, Form::Json, &slow.lock().unwrap()) {
                Reply::Steps(mut steps) => {
                    steps.insert(0, Play::Pause(std::time::Duration::from_millis(200)));
                    Reply::Steps(steps)
                }
                follow => follow,
            },
        );
    let pin = json!({"file": pinned.lock(), "on_change": "block"});
    let gateway = Gateway::start(&Policy::new(&upstream).set("/routes/0/pin", pin));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let request = Request::legacy_call("kept").header("Mcp-Session-Id", "one");
            let gateway = &gateway;
            scope.spawn(move || assert_eq!(gateway.ask(&request).status, 200));
        }
    });
    assert_eq!((lists(&upstream).len(), upstream.runs("kept")), (1, 20));
}
