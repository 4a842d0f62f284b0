//! What of an answer leaves: in which order its items, with which versions, and nothing of a list that
//! must be read and cannot be.

use serde_json::{Value, json};

use super::{Stage, cache_status, document, event, id_of, list, message, public};
use crate::harness::{
    HEADERLESS, MIXED, MODERN_ONLY, Play, Policy, Received, Reply, Request, Response,
};

fn sorted(policy: Policy) -> Policy {
    policy.set("/routes/0/catalog", json!({"order": "name"}))
}

/// A method, the key of its list, its items as the server has them, and their order by name.
fn lists() -> Vec<(&'static str, &'static str, Vec<&'static str>, Vec<usize>)> {
    vec![
        (
            "tools/list",
            "tools",
            vec![
                r#"{"name":"b","inputSchema":{"type":"object"}, "n":1.0}"#,
                r#"{"inputSchema":{"type":"object"},"name":"a\/","deprecated":false}"#,
                r#"{"name":"\u0061","inputSchema":{"type":"object","n":12345678901234567890}}"#,
                r#"{"name":"B","inputSchema":{"type":"object"}}"#,
            ],
            vec![3, 2, 1, 0],
        ),
        (
            "prompts/list",
            "prompts",
            vec![r#"{"name":"ä"}"#, r#"{"name":"z"}"#, r#"{ "name" : "a" }"#],
            vec![2, 1, 0],
        ),
        (
            "resources/list",
            "resources",
            vec![
                r#"{"uri":"x:2","name":"a"}"#,
                r#"{"name":"b","uri":"x:10"}"#,
                r#"{"uri":"x:\u0031","name":"c"}"#,
            ],
            vec![2, 1, 0],
        ),
        (
            "resources/templates/list",
            "resourceTemplates",
            vec![
                r#"{"uriTemplate":"y:{b}","name":"a"}"#,
                r#"{"uriTemplate":"x:{a}","name":"b"}"#,
            ],
            vec![1, 0],
        ),
    ]
}

fn result_with(key: &str, array: &str) -> String {
    public(&format!(
        r#""before":[3, 1],"{key}":{array},"nextCursor":"a\/b","_meta":{{"{key}":[2,1]}}"#
    ))
}

fn data(answer: &Response) -> String {
    let text = answer.text();
    let line = text.lines().find_map(|line| line.strip_prefix("data:"));
    line.map_or(text.clone(), |line| line.trim_start().to_owned())
}

/// The message without its `ttlMs`, which depends on the time.
fn timeless(message: &str) -> String {
    let (before, behind) = message.split_once(r#""ttlMs":"#).expect("a time");
    let behind = behind.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}{behind}")
}

#[test]
fn lists_are_sorted_by_name_within_a_page() {
    for (method, key, items, order) in lists() {
        let came = format!("[ {} ]", items.join(" ,\n "));
        let by_name: Vec<&str> = order.iter().map(|at| items[*at]).collect();
        let by_name = format!("[{}]", by_name.join(","));
        for (streams, sorts) in [(false, true), (true, true), (false, false)] {
            let what = format!("{method}, as events: {streams}, sorted: {sorts}");
            let came = match streams {
                true => came.replace('\n', " "),
                false => came.clone(),
            };
            let result = result_with(key, &came);
            let script = move |request: &Received| match streams {
                true => event(request, &result),
                false => document(request, &result),
            };
            let stage = Stage::with(script, |policy| match sorts {
                true => sorted(policy),
                false => policy,
            });
            let array = if sorts { &by_name } else { &came };
            let whole = |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                    result_with(key, array)
                )
            };
            let first = stage.stores(&what, &list(method));
            assert_eq!(data(&first), whole("1"), "{what}");
            let second = stage.hits(&what, &list(method).id("\"b\""));
            assert_eq!(
                timeless(&data(&second)),
                timeless(&whole("\"b\"")),
                "{what}"
            );
            let third = stage.hits(
                &what,
                &list(method).id("3").header("Accept", "text/event-stream"),
            );
            let text = third.text();
            let lines: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .collect();
            assert_eq!(timeless(&lines.join("\n")), timeless(&whole("3")), "{what}");
        }
    }
}

#[test]
fn a_list_that_is_in_order_leaves_as_it_came() {
    let result = result_with(
        "prompts",
        "[ {\"name\":\"a\"} ,\t{\"name\":\"a\"},\n{\"name\":\"b\"} ]",
    );
    let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let stage = Stage::with(move |request| document(request, &result), sorted);
    assert_eq!(
        stage.stores("in order", &list("prompts/list")).text(),
        whole
    );
    assert_eq!(
        timeless(&stage.hits("in order", &list("prompts/list")).text()),
        timeless(&whole)
    );
}

#[test]
fn older_servers_lists_are_sorted_too() {
    let body =
        |request: &Received, items: &str| message(request, &format!(r#"{{"tools":[{items}]}}"#));
    let stage = Stage::with(
        move |request| {
            Reply::sse(&format!(
                "event: message\ndata: {}\n\n",
                body(request, r#"{"name":"b"},{"name":"a"}"#)
            ))
        },
        sorted,
    );
    let told = stage.tell(&Request::legacy("tools/list", json!({})));
    assert_eq!(
        told.answer.text(),
        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}\n\n"
    );
}

/// The last message, which must be an error of ours.
fn is_error(what: &str, answer: &Response, id: &str) {
    let json = answer.json();
    assert_eq!(json["error"]["code"], 502, "{what}: {answer:?}");
    assert_eq!(
        json["id"],
        serde_json::from_str::<Value>(id).unwrap(),
        "{what}: {answer:?}"
    );
    assert!(!answer.text().contains("secret"), "{what}: {answer:?}");
}

/// Lists that two readers could read differently, each with something in it that must not leave.
fn unreadable() -> Vec<String> {
    [
        r#"{"prompts":[{"name":"secret","name":"b"}]}"#,
        r#"{"prompts":[{"name":"secret"}],"prompts":[]}"#,
        r#"{"prompts":[{"name":"secret"}],"Prompts":[]}"#,
        r#"{"prompts":[{"name":"secret","Name":"b"}]}"#,
        r#"{"prompts":[{"name":"secret"}]"#,
        r#"["secret"]"#,
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn a_list_that_cannot_be_read_does_not_leave() {
    for result in unreadable() {
        for method in ["prompts/list", "tools/list"] {
            let key = method.split('/').next().unwrap();
            let result = result.replace("prompts", key).replace("Prompts", "Tools");
            let what = format!("{method}: {result}");
            for streams in [false, true] {
                let result = result.clone();
                let script = move |request: &Received| match streams {
                    true => Reply::sse(&format!(
                        ": hello\n\ndata: {}\n\ndata: secret\n\n",
                        message(request, &result)
                    )),
                    false => document(request, &result),
                };
                // Lists of tools are always read, and others where something is to become of them.
                let stage = Stage::with(script, |policy| match method {
                    "tools/list" => policy,
                    _ => sorted(policy),
                });
                for id in ["1", "\"t\\u0077o\""] {
                    let answer = stage.misses(&what, &list(method).id(id), "unreadable");
                    assert_eq!(answer.status, if streams { 200 } else { 502 }, "{what}");
                    is_error(&what, &answer, id);
                }
                if streams {
                    let records = stage.site.gateway.records();
                    assert_eq!(records[0]["end"], "upstream_failed", "{records:?}");
                }
            }
        }
    }
}

#[test]
fn a_list_that_is_too_long_does_not_leave() {
    let items: Vec<String> = (0..2_000)
        .map(|number| format!(r#"{{"name":"secret-{number}"}}"#))
        .collect();
    let result = public(&format!(r#""prompts":[{}]"#, items.join(",")));
    for streams in [false, true] {
        let result = result.clone();
        let script = move |request: &Received| match streams {
            true => event(request, &result),
            false => document(request, &result),
        };
        let stage = Stage::with(script, |policy| {
            policy.set(
                "/routes/0/catalog",
                json!({"order": "name", "list_bytes_max": "16Ki"}),
            )
        });
        let answer = stage.misses("long", &list("prompts/list").id("7"), "too_large");
        is_error("long", &answer, "7");
        assert!(
            answer.text().contains("list_bytes_max"),
            "it says which limit: {answer:?}"
        );
    }
}

#[test]
fn a_list_that_breaks_off_or_is_coded_does_not_leave() {
    let half = |request: &Received| {
        let whole = message(request, &public(r#""prompts":[{"name":"secret"}]"#));
        whole[..whole.len() - 20].to_owned()
    };
    type Script = Box<dyn Fn(&Received) -> Reply + Send + Sync>;
    let scripts: [(&str, Script); 4] = [
        (
            "truncated",
            Box::new(move |request| Reply::sse(&format!("data: {}", half(request)))),
        ),
        (
            "unreadable",
            Box::new(move |request| {
                Reply::with_lines(
                    200,
                    "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
                    half(request),
                )
            }),
        ),
        (
            "unreadable",
            Box::new(move |request| {
                Reply::with_lines(
                    200,
                    "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n",
                    format!("data: {}\n\n", half(request)),
                )
            }),
        ),
        (
            "truncated",
            Box::new(move |request| {
                Reply::Steps(vec![
            Play::Send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
            Play::chunk(half(request)),
            Play::Close,
        ])
            }),
        ),
    ];
    for (why, script) in scripts {
        let stage = Stage::with(script, sorted);
        let answer = stage.misses(why, &list("prompts/list").id("7"), why);
        is_error(why, &answer, "7");
    }
}

#[test]
fn what_is_no_list_passes() {
    for body in [
        r#"{"resultType":"complete","ttlMs":60000,"cacheScope":"public"}"#,
        r#"{"resultType":"complete","prompts":{"name":"b"},"ttlMs":60000,"cacheScope":"public"}"#,
        r#"{"resultType":"complete","prompts":null,"ttlMs":60000,"cacheScope":"public"}"#,
    ] {
        let stage = Stage::with(move |request| document(request, body), sorted);
        let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{body}}}"#);
        assert_eq!(stage.stores(body, &list("prompts/list")).text(), whole);
    }
    let stage = Stage::with(
        |request| {
            Reply::json(
                200,
                format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#,
                    id_of(request)
                ),
            )
        },
        sorted,
    );
    assert_eq!(
        stage
            .misses("an error", &list("prompts/list"), "error")
            .code(),
        Some(-32601)
    );
}

/// What a client reads of the versions.
fn versions(answer: &Response) -> Value {
    let message: Value = serde_json::from_str(&data(answer)).expect("a message");
    message["result"]["supportedVersions"].clone()
}

#[test]
fn the_versions_are_the_routes_whether_from_memory_or_not() {
    for served in [MODERN_ONLY, MIXED, HEADERLESS] {
        for streams in [false, true] {
            let result = public(
                r#""a":1.0,"supportedVersions":["2099-01-01", "2026-07-28"],"instructions":"\/""#,
            );
            let listed = serde_json::to_string(served).unwrap();
            let leaves = result.replace(r#"["2099-01-01", "2026-07-28"]"#, &listed);
            let stage = Stage::with(
                move |request| match streams {
                    true => event(request, &result),
                    false => document(request, &result),
                },
                |policy| policy.versions(served),
            );
            let request = list("server/discover");
            let whole = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{leaves}}}"#);
            assert_eq!(data(&stage.stores("miss", &request)), whole("1"));
            let hit = stage.hits("hit", &request.clone().id("\"p\""));
            assert_eq!(timeless(&data(&hit)), timeless(&whole("\"p\"")));
            let events = request.id("3").header("Accept", "text/event-stream");
            let hit = stage.hits("hit", &events);
            assert_eq!(versions(&hit), json!(served));
            assert_eq!(timeless(&data(&hit)), timeless(&whole("3")));
        }
    }
}

#[test]
fn two_routes_to_one_server_each_have_their_versions() {
    let stage = Stage::with(
        |request| document(request, &public(r#""supportedVersions":["2026-07-28"]"#)),
        |policy| {
            policy.set("/routes", json!([
                {"name": "main", "path": "/mcp", "upstream": "up", "protocol": {"versions": MODERN_ONLY}},
                {"name": "other", "path": "/other", "upstream": "up", "protocol": {"versions": MIXED}},
            ]))
        },
    );
    for (path, served) in [("/mcp", MODERN_ONLY), ("/other", MIXED)] {
        let request = list("server/discover").target(path);
        assert_eq!(versions(&stage.stores(path, &request)), json!(served));
        assert_eq!(versions(&stage.hits(path, &request)), json!(served));
    }
}

#[test]
fn a_probe_is_answered_from_memory_while_the_server_fails() {
    let counter = super::Counter::default();
    let stage = Stage::with(
        move |request| match counter.next() {
            0 => document(
                request,
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":1,"cacheScope":"public"}"#,
            ),
            _ => Reply::json(503, "down"),
        },
        |policy| {
            policy
                .versions(MIXED)
                .set("/routes/0/cache", json!({"stale_if_error": "1m"}))
        },
    );
    let request = list("server/discover");
    stage.stores("there", &request);
    std::thread::sleep(std::time::Duration::from_millis(20));
    for id in ["2", "3"] {
        let told = stage.tell(&request.clone().id(id));
        told.is("down", "stale", None);
        assert_eq!(told.answer.status, 200);
        assert_eq!(versions(&told.answer), json!(MIXED));
        assert!(
            cache_status(&told.answer).starts_with("weirgate; fwd=stale; fwd-status=503; ttl=")
        );
    }
}
