//! What a server tells its clients of changes, in passing, drops what it concerns at once.

use std::time::Duration;

use serde_json::json;

use super::{Counter, Stage, document, id_of, list, method_of, number_of, public, read};
use crate::harness::wire::BodyReader;
use crate::harness::{Client, Play, Received, Reply, Request};

/// A stream of the server's that a client listens to.
pub(super) struct Heard {
    _client: Client,
    _body: BodyReader,
}

const LISTEN: &str = "subscriptions/listen";

/// A server that tells whoever listens what the request asks for in `say`, whatever else it does.
pub(super) fn tells(request: &Received) -> Option<Reply> {
    let said = match (request.method.as_str(), method_of(request).as_str()) {
        ("GET", _) => request.head.value("x-say"),
        (_, LISTEN) => request.json()["params"]["say"].as_str().map(str::to_owned),
        _ => None,
    }?;
    Some(Reply::Steps(vec![
        Play::sse_head(),
        Play::chunk(": begun\n\n"),
        Play::chunk(format!("data: {said}\n\n")),
        Play::Pause(Duration::from_millis(1)),
    ]))
}

fn notification(method: &str) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": {}}).to_string()
}

fn updated(uri: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
        .to_string()
}

/// A client of the stage hears this notification on its own subscription.
pub(super) fn hears(stage: &Stage, method: &str) -> Heard {
    hears_message(stage, &notification(method))
}

fn hears_message(stage: &Stage, message: &str) -> Heard {
    hears_in(
        stage,
        &Request::modern(LISTEN, json!({"notifications": {}, "say": message})),
        message,
    )
}

fn hears_in(stage: &Stage, request: &Request, message: &str) -> Heard {
    let mut client = stage.site.gateway.connect();
    client.send(request);
    let (head, mut body) = client.read_head();
    assert_eq!(head.status(), 200);
    client.read_until(&mut body, message.as_bytes());
    Heard {
        _client: client,
        _body: body,
    }
}

/// A server that numbers its answers, and tells of changes what it is asked to.
fn changing() -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    let counter = Counter::default();
    move |request| {
        tells(request).unwrap_or_else(|| {
            document(request, &public(&format!(r#""number":{}"#, counter.next())))
        })
    }
}

/// What is asked for, and whether it is to have gone.
fn all() -> Vec<(&'static str, Request)> {
    vec![
        ("server/discover", list("server/discover")),
        ("tools/list", list("tools/list")),
        ("prompts/list", list("prompts/list")),
        ("resources/list", list("resources/list")),
        ("resources/templates/list", list("resources/templates/list")),
        ("resources/read", read("file:///a")),
    ]
}

/// A fresh stage that has everything in memory, of which this message drops these and no others.
fn drops(what: &str, message: &str, gone: &[&str]) {
    let stage = Stage::new(changing());
    for (method, request) in all() {
        stage.stores(method, &request);
    }
    let _heard = hears_message(&stage, message);
    for (method, request) in all() {
        let what = format!("{what}: {method}");
        match gone.contains(&method) {
            true => stage.misses(&what, &request, "stored"),
            false => stage.hits(&what, &request),
        };
    }
}

#[test]
fn a_list_that_has_changed_is_dropped_and_no_other() {
    for (method, gone) in [
        ("notifications/tools/list_changed", &["tools/list"][..]),
        ("notifications/prompts/list_changed", &["prompts/list"]),
        (
            "notifications/resources/list_changed",
            &["resources/list", "resources/templates/list"],
        ),
        ("notifications/message", &[]),
        ("notifications/tools/list_changed_", &[]),
    ] {
        drops(method, &notification(method), gone);
    }
    // However it is written.
    drops(
        "escaped",
        r#"{"method":"notifications\/prompts\/list_\u0063hanged","jsonrpc":"2.0"}"#,
        &["prompts/list"],
    );
    drops("a resource", &updated("file:///a"), &["resources/read"]);
    drops("another resource", &updated("file:///b"), &[]);
}

#[test]
fn a_notification_that_may_be_any_drops_everything() {
    let every: Vec<&str> = all().iter().map(|(method, _)| *method).collect();
    for message in [
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","method":"notifications/tools/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":7}}"#,
    ] {
        drops(message, message, &every);
    }
}

#[test]
fn a_resource_takes_those_above_and_below_it_along() {
    let uris = [
        "x://h",
        "x://h/a",
        "x://h/a/b",
        "x://h/a/b/c",
        "x://h/ab",
        "x://h/a/c",
        "y://h/a",
    ];
    for (changed, gone) in [
        (
            "x://h/a",
            &["x://h", "x://h/a", "x://h/a/b", "x://h/a/b/c", "x://h/a/c"][..],
        ),
        (
            "x://h/a/b",
            &["x://h", "x://h/a", "x://h/a/b", "x://h/a/b/c"],
        ),
        (
            "x://H/%61/b/",
            &["x://h", "x://h/a", "x://h/a/b", "x://h/a/b/c"],
        ),
        (
            "x://h/a/b/c/d?q=1",
            &["x://h", "x://h/a", "x://h/a/b", "x://h/a/b/c"],
        ),
        ("x://other", &[]),
    ] {
        let stage = Stage::new(changing());
        for uri in uris {
            stage.stores(uri, &read(uri));
        }
        let _heard = hears_message(&stage, &updated(changed));
        for uri in uris {
            let what = format!("{uri} behind {changed}");
            match gone.contains(&uri) {
                true => stage.misses(&what, &read(uri), "stored"),
                false => stage.hits(&what, &read(uri)),
            };
        }
    }
}

#[test]
fn the_stream_of_an_older_server_is_heeded() {
    let legacy = json!({"legacy": {"ttl": "1m", "scope": "public"}});
    let stage = Stage::with(changing(), |policy| policy.set("/routes/0/cache", legacy));
    let of = |method: &str| Request::legacy(method, json!({}));
    stage.stores("tools", &of("tools/list"));
    stage.stores("prompts", &of("prompts/list"));
    stage.stores("modern tools", &list("tools/list"));
    let message = notification("notifications/tools/list_changed");
    let get = Request::get().header("X-Say", &message);
    let _heard = hears_in(&stage, &get, &message);
    stage.misses("tools", &of("tools/list"), "stored");
    stage.misses("modern tools", &list("tools/list"), "stored");
    stage.hits("prompts", &of("prompts/list"));
}

/// An older server may tell of it beside the answer to something else.
#[test]
fn a_notification_beside_an_older_servers_answer_is_heeded() {
    let legacy = json!({"legacy": {"ttl": "1m", "scope": "public"}});
    let counter = Counter::default();
    let stage = Stage::with(
        move |request| match method_of(request).as_str() {
            "tools/call" => Reply::sse(&format!(
                "data: {}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n\n",
                notification("notifications/tools/list_changed"),
                id_of(request)
            )),
            _ => document(request, &format!(r#"{{"number":{}}}"#, counter.next())),
        },
        |policy| policy.set("/routes/0/cache", legacy),
    );
    let tools = Request::legacy("tools/list", json!({}));
    stage.stores("tools", &tools);
    stage.hits("tools", &tools);
    stage.tell(&Request::legacy_call("change"));
    stage.misses("tools", &tools, "stored");
}

#[test]
fn a_fetch_that_a_change_overtakes_is_not_kept() {
    let (begin, begun) = std::sync::mpsc::channel();
    let begin = std::sync::Mutex::new(begin);
    let upstream = crate::harness::Upstream::with(move |request| {
        if super::is_own(request) {
            return document(request, super::OFFERS_NOTHING);
        }
        tells(request).unwrap_or_else(|| {
            let (plays, follow) = std::sync::mpsc::channel();
            // A test that has ended wants no further answer.
            let _ = begin.lock().unwrap().send((request.clone(), plays));
            Reply::follow(std::sync::Arc::new(std::sync::Mutex::new(follow)))
        })
    });
    let stage = Stage::before(upstream, |policy| policy);
    let mut listening = Vec::new();
    for (request, message, streams) in [
        (
            list("prompts/list"),
            notification("notifications/prompts/list_changed"),
            false,
        ),
        (
            list("prompts/list"),
            notification("notifications/prompts/list_changed"),
            true,
        ),
        (read("file:///a/b"), updated("file:///a"), false),
    ] {
        let answer = |(received, plays): &(Received, std::sync::mpsc::Sender<Play>),
                      number: u64| {
            let body = super::message(received, &public(&format!(r#""number":{number}"#)));
            match streams {
                true => [Play::sse_head(), Play::chunk(format!("data: {body}\n\n")), Play::end()]
                    .into_iter().for_each(|play| plays.send(play).unwrap()),
                false => plays.send(Play::Last(format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())).unwrap(),
            }
        };
        let mut first = stage.site.gateway.connect();
        first.send(&request);
        let slow = begun.recv().unwrap();
        let mut waiter = stage.site.gateway.connect();
        waiter.send(&request);
        let heard = hears_message(&stage, &message);
        answer(&slow, 1);
        assert_eq!(number_of(&first.read()), 1);
        // Who waits is not given it either, and asks anew.
        let anew = begun.recv().unwrap();
        answer(&anew, 2);
        assert_eq!(number_of(&waiter.read()), 2);
        let records = stage.site.records(2);
        let mut stored: Vec<&str> = records
            .iter()
            .filter_map(|record| record["stored"].as_str())
            .collect();
        stored.sort_unstable();
        assert_eq!(stored, ["stored", "voided"], "{records:?}");
        assert_eq!(number_of(&stage.hits("the new one", &request)), 2);
        listening.push(heard);
        listening.push(hears_message(&stage, &message));
    }
}

/// A server of two pages, with a cursor that holds for as long as the test says.
#[test]
fn a_cursor_that_does_not_hold_drops_all_pages() {
    for (status, code) in [(200, -32602), (400, -32602), (400, -32603), (200, -32603)] {
        let counter = Counter::default();
        let stage = Stage::new(
            move |request| match request.json()["params"]["cursor"].as_str() {
                Some("gone") => Reply::json(
                    status,
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no"}}}}"#,
                        id_of(request)
                    ),
                ),
                _ => document(request, &public(&format!(r#""number":{}"#, counter.next()))),
            },
        );
        let what = format!("{status} {code}");
        let page = |method: &str, cursor: &str| Request::modern(method, json!({"cursor": cursor}));
        let pages = [
            list("prompts/list"),
            page("prompts/list", "1"),
            page("prompts/list", "2"),
        ];
        for page in &pages {
            stage.stores(&what, page);
        }
        stage.stores(&what, &list("tools/list"));
        stage.stores(&what, &page("tools/list", "1"));
        let answer = stage.misses(&what, &page("prompts/list", "gone"), "error");
        assert_eq!(
            (answer.status, answer.code()),
            (status, Some(code)),
            "{what}"
        );
        for page in &pages {
            match code {
                -32602 => stage.misses(&what, page, "stored"),
                _ => stage.hits(&what, page),
            };
        }
        stage.hits(&what, &list("tools/list"));
        stage.hits(&what, &page("tools/list", "1"));
    }
}
