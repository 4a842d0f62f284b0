//! What is served from memory is what came, byte for byte, but for the id and the time to live.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Stage, cache_status, cacheable, document, event, hinted, id_of, list, message, public,
};
use crate::harness::upstream2::{Call, Reply2, Step, Upstream2};
use crate::harness::{
    Gateway, MODERN_ONLY, Policy, Received, Reply, Request, Response, raw_member,
};
use crate::http2::Client2;

/// What stands in the place of the id.
const ID: &str = "<id>";
/// What stands in the place of `ttlMs`.
const TTL: &str = "<ttl>";

/// The time to live in a message that is otherwise this one, with this id.
fn ttl_of(what: &str, came: &str, template: &str, id: &str) -> u64 {
    let expected = template.replacen(ID, id, 1);
    let (before, behind) = expected.split_once(TTL).expect("a place for it");
    let middle = came
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(behind))
        .unwrap_or_else(|| panic!("{what}: {came}\nis not\n{expected}"));
    assert!(
        middle.bytes().all(|byte| byte.is_ascii_digit()),
        "{what}: {middle}"
    );
    middle.parse().expect("a number")
}

/// The data of the one event that an answer consists of.
fn event_data(answer: &Response) -> String {
    let text = answer.text();
    let event = text
        .strip_suffix("\n\n")
        .unwrap_or_else(|| panic!("{text:?}"));
    // Whatever ends a line: a reader of events takes all three alike.
    let event = event.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = event.split('\n');
    assert_eq!(lines.next(), Some("event: message"), "{text:?}");
    let data: Vec<&str> = lines
        .map(|line| {
            line.strip_prefix("data: ")
                .unwrap_or_else(|| panic!("{line:?} in {text:?}"))
        })
        .collect();
    data.join("\n")
}

/// A message that is read in one way only, and looks like no serialiser's.
fn odd_messages() -> Vec<(&'static str, String)> {
    let hints = format!(r#""ttlMs":{TTL},"cacheScope":"public""#);
    let all = [
        (
            "plain",
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"resultType":"complete",{hints}}}}}"#
            ),
        ),
        (
            "numbers",
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"a":12345678901234567890,"b":1.0,"c":-0,"d":1e400,"e":0.1000,{hints},"f":9007199254740993}}}}"#
            ),
        ),
        (
            "strings",
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"a":"http:\/\/x\/","b":"\u00e9\ud83d\ude00","c":"é😀","d":"\t\"","\u0065":1,"ttlms_":"\"ttlMs\":60000",{hints}}}}}"#
            ),
        ),
        (
            "false, null and the empty",
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"isError":false,"nextCursor":null,"a":[],"b":{{}},"":"",{hints}}}}}"#
            ),
        ),
        (
            "an odd order",
            format!(
                r#"{{"result":{{"cacheScope":"public","z":{{"ttlMs":7,"id":3}},"ttlMs":{TTL},"resultType":"complete","a":{{"cacheScope":"private"}}}},"extra":[{{"id":"x"}}],"id":{ID},"jsonrpc":"2.0"}}"#
            ),
        ),
        (
            "pretty",
            format!(
                "{{\n  \"jsonrpc\" : \"2.0\",\n  \"id\" : {ID} ,\n\t\"result\" : {{\n    \"ttlMs\" : {TTL}\n,\n    \"cacheScope\": \"public\"\n  }}\n}}\n"
            ),
        ),
        (
            "pretty elsewhere",
            format!(
                "{{\r\n  \"jsonrpc\":\"2.0\",\r\n\"id\":{ID},\r\n\"result\":{{\"ttlMs\":{TTL},\r\n\"cacheScope\":\"public\"}}}}\r\n"
            ),
        ),
        (
            "pretty long ago",
            format!(
                "{{\r\"jsonrpc\":\"2.0\",\r\"id\":{ID},\r\"result\":{{\"ttlMs\":{TTL},\r\"cacheScope\":\"public\"}}}}"
            ),
        ),
        (
            "deep",
            format!(
                r#"{{"jsonrpc":"2.0","id":{ID},"result":{{"a":{}{},{hints}}}}}"#,
                "[".repeat(100),
                "]".repeat(100)
            ),
        ),
    ];
    all.into_iter().collect()
}

/// Answers with this message, under the id of the request.
fn of(template: String) -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    move |request| {
        let body = template.replacen(ID, &id_of(request), 1);
        Reply::json(200, body.replacen(TTL, "60000", 1))
    }
}

#[test]
fn every_other_byte_is_the_upstreams() {
    for (what, template) in odd_messages() {
        for method in ["prompts/list", "tools/list", "resources/read"] {
            let stage = Stage::new(of(template.clone()));
            let request = match method {
                "resources/read" => super::read("file:///a"),
                method => list(method),
            };
            let first = stage.stores(what, &request);
            assert_eq!(ttl_of(what, &first.text(), &template, "1"), 60_000);
            let mut before = 60_000;
            for id in [
                "2",
                "9223372036854775807",
                "18446744073709551616",
                "-5",
                r#""""#,
                r#""a\"b\\c""#,
                r#""\u00e9\/x""#,
                r#""é""#,
            ] {
                sleep(Duration::from_millis(2));
                let answer = stage.hits(what, &request.clone().id(id));
                let ttl = ttl_of(what, &answer.text(), &template, id);
                assert!(
                    ttl < before && ttl > 30_000,
                    "{what}: {ttl} behind {before}"
                );
                before = ttl;
            }
            // A client that takes nothing else is given an event.
            let events = request
                .clone()
                .header("Accept", "text/event-stream")
                .id("7");
            let answer = stage.hits(what, &events);
            assert_eq!(
                answer.head.value("content-type").as_deref(),
                Some("text/event-stream")
            );
            let lines = template.replace("\r\n", "\n").replace('\r', "\n");
            let ttl = ttl_of(what, &event_data(&answer), &lines, "7");
            assert!(ttl < before, "{what}");
        }
    }
}

/// The answer to this method, which the gateway need not change.
fn result_of(method: &str) -> String {
    let members = match method {
        "server/discover" => r#""supportedVersions":["2026-07-28"],"capabilities":{}"#,
        "tools/list" => {
            r#""tools":[{"name":"b","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"}}]"#
        }
        "prompts/list" => r#""prompts":[{"name":"b"},{"name":"a"}]"#,
        "resources/list" => r#""resources":[{"uri":"x:b","name":"n"},{"uri":"x:a","name":"n"}]"#,
        "resources/templates/list" => r#""resourceTemplates":[{"uriTemplate":"x:{b}","name":"n"}]"#,
        _ => r#""contents":[{"uri":"file:///a","text":"\/"}]"#,
    };
    public(members)
}

#[test]
fn all_six_methods_are_served_in_either_form() {
    for (method, params) in cacheable() {
        for streams in [false, true] {
            let what = format!("{method}, as events: {streams}");
            let stage = Stage::with(
                move |request| {
                    let result = result_of(method);
                    match streams {
                        true => event(request, &result),
                        false => document(request, &result),
                    }
                },
                |policy| policy.versions(MODERN_ONLY),
            );
            let request = Request::modern(method, params.clone());
            let template = |ttl| {
                let result = result_of(method).replace("60000", ttl);
                format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{result}}}"#)
            };
            let first = stage.stores(&what, &request);
            let told = match streams {
                true => "weirgate; fwd=uri-miss",
                false => "weirgate; fwd=uri-miss; stored; ttl=60",
            };
            assert_eq!(cache_status(&first), told, "{what}");
            let whole = template("60000").replacen(ID, "1", 1);
            match streams {
                true => assert_eq!(first.text(), format!("data: {whole}\n\n"), "{what}"),
                false => assert_eq!(first.text(), whole, "{what}"),
            }
            let second = stage.hits(&what, &request.clone().id("\"two\""));
            let ttl = ttl_of(&what, &second.text(), &template(TTL), "\"two\"");
            assert!(ttl <= 60_000, "{what}");
            assert_eq!(
                second.head.value("content-type").as_deref(),
                Some("application/json")
            );
            let events = request.id("3").header("Accept", "text/event-stream");
            let third = stage.hits(&what, &events);
            ttl_of(&what, &event_data(&third), &template(TTL), "3");
        }
    }
}

#[test]
fn a_notification_before_the_response_passes_and_is_not_kept() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#;
    let stage = Stage::new(move |request| {
        let response = message(request, &result_of("prompts/list"));
        Reply::sse(&format!(
            ": hello\n\nid: 4\ndata: {note}\n\nid: 5\nevent: message\ndata: {response}\n\n: bye\n\n"
        ))
    });
    let first = stage.stores("a stream", &list("prompts/list"));
    assert!(first.text().contains(note) && first.text().ends_with(": bye\n\n"));
    let second = stage.hits("a stream", &list("prompts/list").id("2"));
    assert!(
        !second.text().contains("notifications/message"),
        "{second:?}"
    );
    let (first, second) = (first.text(), second.json());
    let kept = first
        .lines()
        .find(|line| line.contains("\"result\""))
        .expect("a response");
    let kept: Value =
        serde_json::from_str(kept.strip_prefix("data: ").expect("data")).expect("JSON");
    assert_eq!(kept["result"]["prompts"], second["result"]["prompts"]);
}

#[test]
fn clients_and_servers_of_http2_share_it() {
    let upstream = Upstream2::with(|call: &Call| {
        let id = raw_member(&call.body, "id").unwrap_or_default();
        let result = match id.as_str() {
            "\"weirgate\"" => super::OFFERS_NOTHING.to_owned(),
            _ => result_of("resources/list"),
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        Reply2::Steps(vec![Step::json(), Step::Last(body.into_bytes())])
    });
    let policy = Policy::to_url(&upstream.url())
        .upstream("http", "2")
        .remembering();
    let gateway = Gateway::start(&policy);
    let mut client = Client2::connect(&gateway);
    let request = list("resources/list");
    let first = client.exchange(&request);
    assert_eq!(
        first.headers["cache-status"],
        "weirgate; fwd=uri-miss; stored; ttl=60"
    );
    let second = client.exchange(&request.clone().id("\"\\u0032\""));
    assert!(
        second.headers["cache-status"]
            .to_str()
            .unwrap()
            .starts_with("weirgate; hit; ttl=")
    );
    let template = format!(
        r#"{{"jsonrpc":"2.0","id":{ID},"result":{}}}"#,
        result_of("resources/list").replace("60000", TTL)
    );
    ttl_of(
        "HTTP/2",
        &String::from_utf8(second.body).unwrap(),
        &template,
        "\"\\u0032\"",
    );
    // And so do those of HTTP/1.1.
    let third = gateway.ask(&request.id("3"));
    ttl_of("HTTP/1.1", &third.text(), &template, "3");
    let lists = |log: &crate::harness::upstream2::Log2| {
        let calls = log.calls.iter();
        calls
            .filter(|call| String::from_utf8_lossy(&call.body).contains("resources/list"))
            .count()
    };
    assert_eq!(lists(&upstream.log()), 1);
}

#[test]
fn the_ttl_is_what_the_policy_allows_at_most() {
    for (ttl, max, left) in [
        ("60000", "30s", 30_000),
        ("99999999999999999999999", "1h", 3_600_000),
        ("18446744073709551615", "2s", 2_000),
    ] {
        let stage = Stage::with(
            move |request| {
                let hints = format!(r#""ttlMs":{ttl},"cacheScope":"public""#);
                document(request, &hinted(r#""prompts":[]"#, &hints))
            },
            |policy| policy.set("/routes/0/cache/max_ttl", json!(max)),
        );
        let first = stage.stores(ttl, &list("prompts/list"));
        assert!(
            first.text().contains(ttl),
            "what came leaves as it came: {first:?}"
        );
        let status = format!("weirgate; fwd=uri-miss; stored; ttl={}", left / 1000);
        assert_eq!(cache_status(&first), status);
        let second = stage.hits(ttl, &list("prompts/list"));
        let told = second.json()["result"]["ttlMs"].as_u64().expect("a time");
        assert!(told <= left && told + 1_500 > left, "{told} of {left}");
    }
}

/// Every recorded exchange that may be kept.
#[test]
fn recorded_answers_are_served_as_they_were() {
    let entries: Vec<Value> = serde_json::from_str(include_str!("../exchanges.json")).unwrap();
    let mut played = 0;
    for entry in &entries {
        let body = entry["request"]["body"].as_str().unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let method = asked["method"].as_str().unwrap_or_default();
        let chunks: Vec<&str> = entry["response"]["body_chunks"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let came = chunks.concat();
        let is_kept = cacheable().iter().any(|(name, _)| *name == method)
            && entry["expect"]["era"] == "modern"
            && came.contains(r#""cacheScope":"public""#);
        if is_kept {
            play(entry, body, &came);
            played += 1;
        }
    }
    assert!(played >= 7, "{played}");
}

fn lines_of(side: &Value) -> Vec<(String, String)> {
    serde_json::from_value(side["headers"].clone()).expect("lines")
}

fn play(entry: &Value, body: &str, came: &str) {
    let name = entry["name"].as_str().unwrap();
    let lines: String = lines_of(&entry["response"])
        .iter()
        .filter(|(name, _)| {
            ![
                "transfer-encoding",
                "connection",
                "keep-alive",
                "content-length",
            ]
            .contains(&name.to_lowercase().as_str())
        })
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let reply = Reply::with_lines(200, &lines, came);
    let stage = Stage::with(
        move |_| reply.clone(),
        |policy| policy.versions(MODERN_ONLY),
    );
    let mut request = Request::new("POST", "/mcp");
    request.lines.clear();
    for (line, value) in lines_of(&entry["request"]) {
        let value = match line.to_lowercase().as_str() {
            "host" => "127.0.0.1".to_owned(),
            "content-length" => continue,
            _ => value,
        };
        request = request.line(&line, value);
    }
    let id = raw_member(body.as_bytes(), "id").unwrap();
    let first = stage.stores(name, &request.clone().body(body));
    assert_eq!(first.text(), came, "{name}");
    // The id, in whatever place, becomes another.
    let renamed = |text: &str| {
        let member = format!("\"id\":{id}");
        assert_eq!(text.matches(&member).count(), 1, "{name}: {text}");
        text.replacen(&member, &format!("\"id\":{ID}"), 1)
    };
    let other = "\"another\\u0020id\"";
    let again = renamed(body).replacen(ID, other, 1);
    let second = stage.hits(name, &request.body(again));
    let message = came
        .lines()
        .find_map(|line| line.strip_prefix("data:"))
        .unwrap_or(came)
        .trim_start();
    let ttl = r#""ttlMs":"#;
    let at = message.find(ttl).expect("a time") + ttl.len();
    let digits = message[at..].bytes().take_while(u8::is_ascii_digit).count();
    let template = format!("{}{TTL}{}", &message[..at], &message[at + digits..]);
    let left = ttl_of(name, &second.text(), &renamed(&template), other);
    assert!(left <= message[at..at + digits].parse().unwrap(), "{name}");
}
