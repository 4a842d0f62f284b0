//! What is asked for: everything that could change an answer makes another question, and nothing
//! else does.

use serde_json::json;

use super::{Stage, list, number_of, numbering, read};
use crate::harness::{CAPABILITIES_KEY, Request, VERSION_KEY};

fn modern(params: &str) -> Request {
    list("tools/list").body(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#
    ))
}

/// Parameters with these members of `_meta` beside what must be there.
fn with_meta(members: &str) -> Request {
    modern(&format!(
        r#"{{"_meta":{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}}{members}}}}}"#
    ))
}

fn with_capabilities(capabilities: &str) -> Request {
    modern(&format!(
        r#"{{"_meta":{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{capabilities}}}}}"#
    ))
}

fn with_params(members: &str) -> Request {
    modern(&format!(
        r#"{{{members}"_meta":{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}}}}}}"#
    ))
}

#[test]
fn whatever_could_change_the_answer_is_part_of_the_question() {
    let stage = Stage::new(numbering());
    let questions = [
        with_meta(""),
        with_params(r#""cursor":"","#),
        with_params(r#""cursor":"a","#),
        with_params(r#""cursor":"b","#),
        with_params(r#""cursor":null,"#),
        with_params(r#""filter":"a","#),
        with_params(r#""filter":"b","#),
        with_params(r#""filter":["a"],"#),
        with_params(r#""Cursor_":"a","#),
        with_params(r#""n":1,"#),
        with_params(r#""n":1.0,"#),
        with_params(r#""n":9007199254740992,"#),
        with_params(r#""n":9007199254740993,"#),
        with_meta(r#","vendor/key":1"#),
        with_meta(r#","vendor/key":2"#),
        with_meta(r#","vendor/progressToken":1"#),
        with_meta(r#","io.modelcontextprotocol/unknown":1"#),
        with_capabilities(r#"{"sampling":{}}"#),
        with_capabilities(r#"{"roots":{"listChanged":true}}"#),
        with_capabilities(r#"{"roots":{"listChanged":false}}"#),
        with_meta("").header("Host", "localhost"),
        with_meta("").target("/mcp?a=1"),
        with_meta("").target("/mcp?a=2"),
        list("prompts/list"),
        list("resources/list"),
        read("file:///a"),
        read("file:///a/"),
        read("file:///b"),
    ];
    for (number, question) in questions.iter().enumerate() {
        let what = String::from_utf8_lossy(&question.body).into_owned();
        let answer = stage.stores(&what, question);
        assert_eq!(number_of(&answer), number as u64, "{what}");
    }
    for (number, question) in questions.iter().enumerate() {
        let what = String::from_utf8_lossy(&question.body).into_owned();
        let answer = stage.hits(&what, &question.clone().id("2"));
        assert_eq!(number_of(&answer), number as u64, "{what}");
    }
}

#[test]
fn what_no_answer_depends_on_is_no_part_of_it() {
    let stage = Stage::new(numbering());
    stage.stores("first", &with_meta(""));
    for members in [
        r#","progressToken":1"#,
        r#","progressToken":"p""#,
        r#","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"}"#,
        r#","io.modelcontextprotocol/clientInfo":{"name":"b","version":"2"}"#,
        r#","io.modelcontextprotocol/logLevel":"debug""#,
        r#","traceparent":"00-1-2-01","tracestate":"a=b","baggage":"c=d""#,
    ] {
        stage.hits(members, &with_meta(members));
    }
    let version = format!(r#""{VERSION_KEY}":"2026-07-28""#);
    for capabilities in [
        // The same, otherwise written.
        r#"{ }"#, "{\n}",
    ] {
        stage.hits(capabilities, &with_capabilities(capabilities));
    }
    stage.hits(
        "another order",
        &modern(&format!(
            r#"{{"_meta":{{"{CAPABILITIES_KEY}":{{}},{version}}}}}"#
        )),
    );
    let escaped = CAPABILITIES_KEY.replace("client", "\\u0063lient");
    stage.hits(
        "escaped",
        &modern(&format!(r#"{{"_meta":{{"{escaped}":{{}},{version}}}}}"#)),
    );
    stage.stores(
        "capabilities",
        &with_capabilities(r#"{"roots":{"listChanged":true},"sampling":{}}"#),
    );
    stage.hits(
        "capabilities",
        &with_capabilities("{ \"sampling\" : { } ,\n \"r\\u006fots\":{\"listChanged\":true} }"),
    );
    stage.stores("a cursor", &with_params(r#""cursor":"a/b","#));
    stage.hits("a cursor", &with_params(r#""cursor":"a\/b","#));
    stage.hits("a cursor", &with_params(r#""\u0063ursor":"\u0061/b","#));
}

#[test]
fn what_a_client_says_of_itself_on_the_way_is_no_part_of_it() {
    let stage = Stage::new(numbering());
    stage.stores("first", &with_meta(""));
    for (name, value) in [
        ("User-Agent", "another"),
        ("Accept", "application/json"),
        ("Accept-Encoding", "gzip"),
        ("Accept-Language", "de"),
        ("Traceparent", "00-1-2-01"),
        ("X-Request-Id", "7"),
        ("Cache-Control", "no-cache"),
        ("Host", "127.0.0.1"),
    ] {
        stage.hits(name, &with_meta("").header(name, value));
    }
    stage.hits("a slash", &with_meta("").target("/mcp/"));
    stage.hits("an empty query", &with_meta("").target("/mcp?"));
    // The name of a host knows no case.
    stage.stores("a host", &with_meta("").header("Host", "localhost"));
    stage.hits("a host", &with_meta("").header("Host", "LOCALHOST"));
}

#[test]
fn routes_and_versions_keep_apart() {
    let stage = Stage::with(numbering(), |policy| {
        let legacy = json!({"legacy": {"ttl": "1m", "scope": "public"}});
        policy.set(
            "/routes",
            json!([
                {"name": "main", "path": "/mcp", "upstream": "up", "cache": legacy},
                {"name": "other", "path": "/other", "upstream": "up"},
            ]),
        )
    });
    stage.stores("a route", &list("tools/list"));
    stage.stores("another route", &list("tools/list").target("/other"));
    let legacy =
        |version| Request::legacy("tools/list", json!({})).header("MCP-Protocol-Version", version);
    stage.stores("an older version", &legacy("2025-11-25"));
    stage.stores("a still older one", &legacy("2025-06-18"));
    stage.hits("a still older one", &legacy("2025-06-18"));
    stage.hits("a route", &list("tools/list"));
    stage.hits("another route", &list("tools/list").target("/other"));
}
