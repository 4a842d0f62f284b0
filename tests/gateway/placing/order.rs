//! The order of judgement: of two things wrong with one request, the first of the order is told.

use serde_json::json;

use crate::harness::{
    CAPABILITIES_KEY, LEGACY, MIXED, MODERN, Refusal, Request, Site, VERSION_KEY,
};

#[test]
fn what_is_no_json_is_told_before_what_is_no_request() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32700).id("null");
    for body in [
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/list""#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list",}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}}"#,
        r#""text" and more"#,
    ] {
        site.refuses(body, &Request::call("echo").body(body), &refusal);
    }
}

#[test]
fn what_is_no_request_is_told_before_a_missing_meta_key() {
    let site = Site::new();
    let incomplete = Request::call("echo").edit(CAPABILITIES_KEY, "x/y");
    let cases = [
        incomplete.clone().edit("\"2.0\"", "\"1.0\""),
        incomplete.clone().edit("\"params\"", "\"Id\":1,\"params\""),
        incomplete.edit("\"name\"", "\"name\":\"a\",\"name\""),
    ];
    for request in cases {
        site.refuses("both", &request, &Refusal::of(400, -32600));
    }
    let request = Request::call("echo")
        .edit(VERSION_KEY, "x/y")
        .edit("\"2.0\"", "2");
    site.refuses("no version", &request, &Refusal::of(400, -32600));
}

#[test]
fn a_missing_meta_key_is_told_before_a_header_that_differs() {
    let site = Site::new();
    let incomplete = Request::call("echo").edit(CAPABILITIES_KEY, "x/y");
    let refusal = Refusal::of(400, -32602).names(&[CAPABILITIES_KEY]);
    for (what, request) in [
        ("a name", incomplete.clone().header("Mcp-Name", "other")),
        ("a method", incomplete.clone().header("Mcp-Method", "other")),
        ("no method", incomplete.clone().without("Mcp-Method")),
        (
            "a version",
            incomplete.clone().header("MCP-Protocol-Version", LEGACY),
        ),
        ("no version", incomplete.without("MCP-Protocol-Version")),
    ] {
        site.refuses(what, &request, &refusal);
    }
    let request = Request::call("echo")
        .edit(VERSION_KEY, "x/y")
        .header("Mcp-Name", "other");
    let refusal = Refusal::of(400, -32602).names(&[VERSION_KEY]);
    site.refuses("no version in the body", &request, &refusal);
}

#[test]
fn a_header_that_differs_is_told_before_a_version_that_is_not_served() {
    let site = Site::new();
    for version in ["2099-01-01", LEGACY] {
        let call = Request::call("echo").edit(MODERN, version);
        let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version", version, MODERN]);
        site.refuses("the version header", &call, &refusal);
        let call = call.header("MCP-Protocol-Version", version);
        for (what, request) in [
            ("Mcp-Name", call.clone().header("Mcp-Name", "other")),
            ("Mcp-Method", call.clone().header("Mcp-Method", "other")),
            ("Mcp-Method", call.clone().without("Mcp-Method")),
            ("Mcp-Name", call.line("Mcp-Name", "echo")),
        ] {
            let refusal = Refusal::of(400, -32020).names(&[what]);
            site.refuses(what, &request, &refusal);
        }
    }
}

#[test]
fn a_version_that_is_not_served_is_told_before_a_method_that_is_gone() {
    let site = Site::new();
    let request = Request::modern("ping", json!({}))
        .edit(MODERN, "2099-01-01")
        .header("MCP-Protocol-Version", "2099-01-01");
    let refusal = Refusal::of(400, -32022).supported(MIXED);
    site.refuses("both", &request, &refusal);
}

#[test]
fn a_header_that_differs_is_told_before_a_method_that_is_gone() {
    let site = Site::new();
    let ping = Request::modern("ping", json!({}));
    let refusal = Refusal::of(400, -32020).names(&["Mcp-Method"]);
    for request in [
        ping.clone().header("Mcp-Method", "tools/list"),
        ping.without("Mcp-Method"),
    ] {
        site.refuses("both", &request, &refusal);
    }
}

#[test]
fn the_head_is_judged_before_the_body() {
    let site = Site::new();
    for body in ["", "{", "[]", r#"{"jsonrpc":"2.0","id":1}"#] {
        let request = Request::call("echo").body(body);
        let text = request.clone().header("Content-Type", "text/plain");
        site.refuses("a media type", &text, &Refusal::of_head(415));
        let origin = request.header("Origin", "https://evil.example");
        site.refuses("an origin", &origin, &Refusal::of_head(403));
        let both = origin.header("Content-Type", "text/plain");
        site.refuses("both", &both, &Refusal::of_head(403));
    }
}
