//! Names that no plain header value can carry.

use serde_json::json;

use crate::harness::{Refusal, Request, Site};

const NAME: &str = "Mcp-Name";

/// A call of this tool with this header value.
fn call(tool: &str, value: &str) -> Request {
    Request::call(tool).header(NAME, value)
}

#[test]
fn an_encoded_name_is_the_name() {
    let site = Site::new();
    for (tool, value) in [
        ("世界", "=?base64?5LiW55WM?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("🎉", "=?base64?8J+OiQ==?="),
    ] {
        let received = site.forwards(tool, &call(tool, value));
        assert_eq!(received.head.value(NAME).unwrap(), value);
        assert_eq!(site.upstream.runs(tool), 1);
    }
}

#[test]
fn a_name_is_encoded_upstream_only_where_it_must_be() {
    let site = Site::new();
    for (tool, value) in [
        ("echo", "=?base64?ZWNobw==?="),
        ("a b", "=?base64?YSBi?="),
        ("=?base64?echo", "=?base64?PT9iYXNlNjQ/ZWNobw==?="),
    ] {
        let received = site.forwards(tool, &call(tool, value));
        assert_eq!(received.head.value(NAME).unwrap(), tool);
    }
}

#[test]
fn escapes_in_the_body_are_read_before_comparing() {
    let site = Site::new();
    let request = Request::call("echo").edit("\"name\":\"echo\"", r#""name":"\u0065\u0063ho""#);
    let received = site.forwards("an escaped name", &request);
    assert_eq!(received.head.value(NAME).unwrap(), "echo");
    let request = Request::call("x").edit("\"name\":\"x\"", r#""name":"\ud83c\udf89""#);
    let request = request.header(NAME, "=?base64?8J+OiQ==?=");
    let received = site.forwards("a pair of surrogates", &request);
    assert_eq!(received.head.value(NAME).unwrap(), "=?base64?8J+OiQ==?=");
    let request = Request::modern("tools/list", json!({})).edit("tools/list", r"tools\/list");
    let received = site.forwards("an escaped method", &request);
    assert_eq!(received.head.value("mcp-method").unwrap(), "tools/list");
}

#[test]
fn what_cannot_be_decoded_is_refused() {
    let site = Site::new();
    for value in [
        "=?base64?!!!!?=",
        "=?base64?ZWNobw?=",
        "=?base64?ZWNobw=?=",
        "=?base64?ZWNobw===?=",
        "=?base64?=ZWNobw=?=",
        "=?base64?ZWNo bw==?=",
        // The last two bits belong to no byte: some decoders ignore them, some do not.
        "=?base64?ZWNobx==?=",
        "=?base64?/////w==?=",
        "=?base64?wIA=?=",
        "=?base64?7aCA?=",
        "=?base64?-_-_?=",
    ] {
        let refusal = Refusal::of(400, -32020).names(&[NAME]);
        site.refuses(value, &call("echo", value), &refusal);
    }
}

#[test]
fn only_the_exact_markers_make_a_value_encoded() {
    let site = Site::new();
    for value in [
        "=?BASE64?ZWNobw==?=",
        "=?Base64?ZWNobw==?=",
        "=?utf-8?B?ZWNobw==?=",
        "=?base64?ZWNobw==",
        "?base64?ZWNobw==?=",
        "x=?base64?ZWNobw==?=",
        "\"=?base64?ZWNobw==?=\"",
    ] {
        let refusal = Refusal::of(400, -32020).names(&[NAME, "echo"]);
        site.refuses(value, &call("echo", value), &refusal);
        // A tool that is really called so is called so in the header.
        let received = site.forwards(value, &call(value, value));
        assert_eq!(received.head.value(NAME).unwrap(), value);
    }
}

#[test]
fn a_name_that_looks_encoded_must_be_encoded() {
    let site = Site::new();
    for tool in ["=?base64?literal?=", "=?base64?ZWNobw==?=", "=?base64??="] {
        let refusal = Refusal::of(400, -32020).names(&[NAME]);
        site.refuses(tool, &call(tool, tool), &refusal);
    }
}

#[test]
fn the_empty_name_has_two_forms() {
    let site = Site::new();
    for value in ["", "=?base64??="] {
        let received = site.forwards(value, &call("", value));
        let sent = received.head.value(NAME).unwrap();
        assert!(["", "=?base64??="].contains(&sent.as_str()), "{sent}");
    }
    let refusal = Refusal::of(400, -32020).names(&[NAME]);
    site.refuses("no line", &Request::call("").without(NAME), &refusal);
    site.refuses("another name", &call("", "echo"), &refusal);
    site.refuses("an empty line", &call("echo", ""), &refusal);
}

#[test]
fn raw_bytes_beyond_ascii_are_no_header_value() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32020).names(&[NAME]);
    for (tool, value) in [
        ("café", "café".as_bytes()),
        ("café", b"caf\xe9"),
        ("世界", "世界".as_bytes()),
    ] {
        let request = Request::call(tool).without(NAME).line(NAME, value);
        site.refuses(tool, &request, &refusal);
    }
}

#[test]
fn uris_and_task_ids_are_compared_like_names() {
    let site = Site::new();
    let uri = "file:///täst?a=1,2&b=%20";
    let encoded = "=?base64?ZmlsZTovLy90w6RzdD9hPTEsMiZiPSUyMA==?=";
    let read = Request::modern("resources/read", json!({"uri": uri})).header(NAME, encoded);
    let received = site.forwards(uri, &read);
    assert_eq!(received.head.value(NAME).unwrap(), encoded);
    let escaped = read.header(NAME, "file:///t%C3%A4st?a=1,2&b=%20");
    site.refuses(
        "a URI in another spelling",
        &escaped,
        &Refusal::of(400, -32020),
    );
    let task = Request::modern("tasks/cancel", json!({"taskId": "t:1"}));
    let received = site.forwards("a task", &task);
    assert_eq!(received.head.value(NAME).unwrap(), "t:1");
}

#[test]
fn a_long_encoded_value_is_refused_and_not_compared() {
    let site = Site::new();
    let value = format!("=?base64?{}?=", "QUFB".repeat(5_000));
    let refusal = Refusal::of(400, -32020).names(&[NAME]);
    let answer = site.refuses("20 KB", &call("echo", &value), &refusal);
    assert!(
        answer.body.len() < 4_000,
        "the answer repeats {} bytes",
        answer.body.len()
    );
}
