//! Definitions with annotations that are not valid: they are on no modern list.

use std::collections::BTreeMap;

use serde_json::json;

use super::{PUBLIC, before, call_of, list, listing, lists, passes, result, server, told};
use crate::harness::{Reply, Request};

/// Tools that are good, in bytes that no writer of ours would write.
const FIRST: &str = r#"{ "name":"fi\u0072st","inputSchema":{"type":"object","maximum":1.0e+2},"x":12345678901234567890 }"#;
const LAST: &str = r#"{"inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},"name":"last","y":"\/"}"#;

/// Tools that are not, by what the log says of them.
fn invalid() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("number", r#"{"a":{"type":"number","x-mcp-header":"A"}}"#),
        ("empty", r#"{"a":{"type":"string","x-mcp-header":""}}"#),
        ("blank", r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#),
        ("notext", r#"{"a":{"type":"string","x-mcp-header":7}}"#),
        (
            "twice",
            r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
        ),
        (
            "items",
            r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#,
        ),
        (
            "either",
            r#"{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}"#,
        ),
    ])
}

fn tools() -> String {
    let invalid = invalid();
    let invalid = invalid.iter().map(|(name, properties)| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{properties}}}}}"#
        )
    });
    let mut tools: Vec<String> = invalid.collect();
    tools.insert(0, FIRST.to_owned());
    tools.push(LAST.to_owned());
    tools.join(" ,\n")
}

#[test]
fn they_are_taken_from_modern_lists_and_the_log_says_why() {
    let all = tools();
    let body = all.clone();
    let upstream = server(move |request| {
        Reply::json(
            200,
            result(request, &format!(r#""tools":[{body}],{PUBLIC}"#)),
        )
    });
    let gateway = before(&upstream);
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[{FIRST},{LAST}],"ttlMs":"#
    );
    for round in 0..3 {
        let answer = gateway.ask(&list());
        assert!(answer.text().starts_with(&expected), "{round}: {answer:?}");
    }
    assert_eq!(lists(&upstream).len(), 1, "the rest came from memory");
    // Fetched anew for others, the same: but the log has said it.
    let other = list()
        .header("Authorization", "Bearer a")
        .edit("clientCapabilities\":{}", "clientCapabilities\":{\"x\":{}}");
    assert!(gateway.ask(&other).text().starts_with(&expected));
    assert_eq!(lists(&upstream).len(), 2);
    gateway.wait_for_records(4);
    for name in invalid().keys() {
        let lines = told(&gateway, &format!("\"tool\":\"{name}\""), 1);
        assert!(
            lines[0].contains("not listed") && lines[0].contains("\"why\""),
            "{lines:?}"
        );
    }
    told(&gateway, "\"tool\":\"first\"", 0);
    told(&gateway, "\"tool\":\"last\"", 0);
    // A call is for the server to refuse.
    passes(
        "a call",
        &gateway,
        &upstream,
        &call_of("number", r#"{"a":1}"#),
    );
}

#[test]
fn so_it_is_of_lists_in_events() {
    let upstream = server(|request| {
        let message = result(
            request,
            &format!(r#""tools":[{}],{PUBLIC}"#, tools().replace('\n', "")),
        );
        Reply::sse(&format!(
            ": hello\n\nevent: message\nid: 7\ndata: {message}\n\n: bye\n\n"
        ))
    });
    let gateway = before(&upstream);
    let first = gateway.ask(&list()).text();
    let expected = format!(
        r#"data: {{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[{FIRST},{LAST}],{PUBLIC}}}}}"#
    );
    assert_eq!(
        first,
        format!(": hello\n\nevent: message\nid: 7\n{expected}\n\n: bye\n\n")
    );
    let second = gateway.ask(&list()).text();
    assert!(second.contains(FIRST) && second.contains(LAST), "{second}");
    for name in invalid().keys() {
        assert!(!second.contains(&format!("\"{name}\"")), "{second}");
    }
    assert_eq!(lists(&upstream).len(), 1);
}

#[test]
fn legacy_lists_stay_as_they_are() {
    let upstream =
        server(|request| Reply::json(200, result(request, &format!(r#""tools":[{}]"#, tools()))));
    let gateway = before(&upstream);
    let answer = gateway.ask(&Request::legacy("tools/list", json!({})));
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[{}]}}}}"#,
        tools()
    );
    assert_eq!(answer.text(), expected);
    gateway.wait_for_records(1);
    told(&gateway, "not listed", 0);
}

#[test]
fn of_two_tools_of_one_name_none_is_listed() {
    let upstream = listing(
        r#"{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}},{"name":"\u0061","inputSchema":{"x":1}}"#,
    );
    let gateway = before(&upstream);
    let names: Vec<_> = gateway.ask(&list()).json()["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["b"]);
}
