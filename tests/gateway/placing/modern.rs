//! Messages with a modern sign: a version in `_meta`, or a modern version header.

use serde_json::json;

use crate::harness::{
    CAPABILITIES_KEY, HEADERLESS, LEGACY, LEGACY_ONLY, MIXED, MODERN, MODERN_ONLY, Refusal,
    Request, Site, VERSION_KEY,
};

/// A call whose body and header both name this version.
fn call_of(version: &str) -> Request {
    Request::call("echo")
        .edit(MODERN, version)
        .header("MCP-Protocol-Version", version)
}

#[test]
fn a_modern_call_is_forwarded_wherever_modern_is_served() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let received = site.forwards("a modern call", &Request::call("echo"));
        assert_eq!(received.head.value("mcp-protocol-version").unwrap(), MODERN);
        assert_eq!(site.upstream.runs("echo"), 1);
    }
}

#[test]
fn the_record_says_era_version_method_and_name() {
    let site = Site::new();
    site.gateway.ask(&Request::call("echo"));
    let record = &site.records(1)[0];
    assert_eq!(record["era"], "modern");
    assert_eq!(record["version"], MODERN);
    assert_eq!(record["method"], "tools/call");
    assert_eq!(record["name"], "echo");
    assert_eq!(record["route"], "main");
    assert_eq!(record["status"], 200);
    assert_eq!(record["upstream_status"], 200);
}

#[test]
fn a_body_that_names_a_version_is_modern_whatever_it_names() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        // A legacy version cannot be had this way, so it is not among what is offered.
        let legacy = Refusal::of(400, -32022).supported(MODERN_ONLY);
        let unknown = Refusal::of(400, -32022).supported(versions);
        for (version, refusal) in [
            (LEGACY, &legacy),
            ("2025-03-26", &legacy),
            ("2099-01-01", &unknown),
            ("1900-01-01", &unknown),
            ("nonsense", &unknown),
        ] {
            let answer = site.refuses(version, &call_of(version), refusal);
            assert_eq!(answer.json()["error"]["data"]["requested"], version);
        }
    }
}

#[test]
fn a_legacy_only_route_does_not_pass_for_a_modern_server() {
    let site = Site::serving(LEGACY_ONLY);
    let refusal = Refusal::of(400, -32600).supported(LEGACY_ONLY);
    let requests = [
        ("a call", Request::call("echo")),
        ("a probe", Request::modern("server/discover", json!({}))),
        ("a version not out yet", call_of("2099-01-01")),
        (
            "without capabilities",
            Request::call("echo").edit(CAPABILITIES_KEY, "x/y"),
        ),
        (
            "with headers that differ",
            Request::call("echo").header("Mcp-Name", "other"),
        ),
        (
            "without headers",
            Request::call("echo")
                .without("Mcp-Method")
                .without("MCP-Protocol-Version"),
        ),
        ("a method of old", Request::modern("ping", json!({}))),
    ];
    for (what, request) in requests {
        site.refuses(what, &request, &refusal);
    }
}

#[test]
fn a_modern_header_demands_the_version_in_the_body() {
    let refusal = Refusal::of(400, -32602).names(&[VERSION_KEY]);
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        for params in [
            r#""params":{"name":"echo"}"#,
            r#""params":{"name":"echo","_meta":{}}"#,
            r#""params":{"name":"echo","_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#,
            r#""params":{"name":"echo","_meta":{"progressToken":1}}"#,
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",{params}}}"#);
            let request = Request::call("echo").body(body);
            site.refuses(params, &request, &refusal);
        }
        let request = Request::modern("tools/list", json!({}))
            .body(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        site.refuses("without params", &request, &refusal);
    }
}

#[test]
fn required_meta_keys_have_their_types() {
    let site = Site::new();
    let version = format!("\"{VERSION_KEY}\":\"{MODERN}\"");
    let capabilities = format!("\"{CAPABILITIES_KEY}\":{{}}");
    for value in ["20260728", "null", "{}", "[]", "true"] {
        let request = Request::call("echo").edit(&version, &format!("\"{VERSION_KEY}\":{value}"));
        let refusal = Refusal::of(400, -32602).names(&[VERSION_KEY]);
        site.refuses(&format!("a version of {value}"), &request, &refusal);
    }
    for value in ["null", "[]", "\"x\"", "0", "false"] {
        let request =
            Request::call("echo").edit(&capabilities, &format!("\"{CAPABILITIES_KEY}\":{value}"));
        let refusal = Refusal::of(400, -32602).names(&[CAPABILITIES_KEY]);
        site.refuses(&format!("capabilities of {value}"), &request, &refusal);
    }
    let request = Request::call("echo").edit(CAPABILITIES_KEY, "x/y");
    let refusal = Refusal::of(400, -32602).names(&[CAPABILITIES_KEY]);
    site.refuses("no capabilities", &request, &refusal);
}

#[test]
fn a_meta_that_is_no_object_lacks_its_keys() {
    let site = Site::new();
    for params in [
        r#"{"_meta":null}"#,
        r#"{"_meta":"2026-07-28"}"#,
        r#"{"_meta":[]}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
        let request = Request::modern("tools/list", json!({})).body(body);
        let refusal = Refusal::of(400, -32602).names(&[VERSION_KEY]);
        site.refuses(params, &request, &refusal);
    }
}

#[test]
fn the_version_header_says_what_the_body_says() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let header = "MCP-Protocol-Version";
        let call = Request::call("echo");
        let cases = [
            ("legacy", call.clone().header(header, LEGACY), LEGACY),
            (
                "unknown",
                call.clone().header(header, "2099-01-01"),
                "2099-01-01",
            ),
            ("absent", call.clone().without(header), MODERN),
            ("empty", call.clone().header(header, ""), MODERN),
        ];
        for (what, request, value) in cases {
            let refusal = Refusal::of(400, -32020).names(&["MCP-Protocol-Version", MODERN, value]);
            site.refuses(what, &request, &refusal);
        }
    }
}

#[test]
fn a_modern_notification_goes_by_its_header() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let notification = Request::modern_notification("notifications/cancelled");
        for (what, request) in [
            ("with Mcp-Method", notification.clone()),
            ("without Mcp-Method", notification.without("Mcp-Method")),
        ] {
            let received = site.forwards(what, &request);
            let head = received.head;
            assert_eq!(head.value("mcp-method").unwrap(), "notifications/cancelled");
            assert_eq!(head.value("mcp-protocol-version").unwrap(), MODERN);
        }
    }
}

#[test]
fn a_modern_notification_whose_parts_differ_is_refused() {
    let site = Site::new();
    let meta = json!({"jsonrpc": "2.0", "method": "notifications/x",
                      "params": {"_meta": {VERSION_KEY: MODERN}}});
    let refusal = Refusal::of(400, -32020).id("null");
    site.refuses(
        "a legacy header beside a modern body",
        &Request::modern_message(meta.clone()).header("MCP-Protocol-Version", LEGACY),
        &refusal
            .clone()
            .names(&["MCP-Protocol-Version", MODERN, LEGACY]),
    );
    site.refuses(
        "another method in the header",
        &Request::modern_message(meta).header("Mcp-Method", "notifications/y"),
        &refusal.names(&["Mcp-Method", "notifications/x", "notifications/y"]),
    );
}

#[test]
fn a_modern_notification_is_no_business_of_a_legacy_only_route() {
    let site = Site::serving(LEGACY_ONLY);
    let refusal = Refusal::of(400, -32600).id("null").supported(LEGACY_ONLY);
    site.refuses(
        "a modern notification",
        &Request::modern_notification("notifications/x"),
        &refusal,
    );
}

#[test]
fn a_modern_client_sends_no_responses() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}),
        ] {
            let request = Request::legacy_message(message).header("MCP-Protocol-Version", MODERN);
            let refusal = Refusal::of(400, -32600).with_some_id();
            site.refuses("a response", &request, &refusal);
        }
    }
}

#[test]
fn a_response_that_names_a_modern_version_is_refused_too() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": {},
                             "params": {"_meta": {VERSION_KEY: MODERN}}});
        let request = Request::legacy_message(message);
        let refusal = Refusal::of(400, -32600).with_some_id();
        for (what, request) in [
            (
                "without a header",
                request.clone().without("MCP-Protocol-Version"),
            ),
            (
                "with its header",
                request.header("MCP-Protocol-Version", MODERN),
            ),
        ] {
            site.refuses(what, &request, &refusal);
        }
    }
}
