//! Keys that two parsers could read differently.

use crate::harness::{CAPABILITIES_KEY, MODERN, Refusal, Request, Site, VERSION_KEY};

#[test]
fn a_repeated_key_is_refused_where_anything_is_decided() {
    let site = Site::new();
    for (what, from, to) in [
        (
            "a method",
            "\"method\":",
            "\"method\":\"tools/list\",\"method\":",
        ),
        (
            "the same method",
            "\"method\":",
            "\"method\":\"tools/call\",\"method\":",
        ),
        (
            "jsonrpc",
            "\"jsonrpc\":",
            "\"jsonrpc\":\"2.0\",\"jsonrpc\":",
        ),
        ("params", "\"params\":", "\"params\":{},\"params\":"),
        (
            "an unknown key",
            "\"params\":",
            "\"x\":1,\"x\":2,\"params\":",
        ),
        ("a name", "\"name\":", "\"name\":\"other\",\"name\":"),
        (
            "arguments",
            "\"name\":",
            "\"arguments\":{\"a\":1},\"name\":",
        ),
        ("_meta", "\"name\":", "\"_meta\":{},\"name\":"),
        (
            "an escaped name",
            "\"name\":",
            r#""n\u0061me":"other","name":"#,
        ),
        (
            "an escaped method",
            "\"method\":",
            r#""meth\u006fd":"x","method":"#,
        ),
        ("the empty key", "\"name\":", "\"\":1,\"\":2,\"name\":"),
    ] {
        let request = Request::call("echo").edit(from, to);
        site.refuses(what, &request, &Refusal::of(400, -32600));
    }
    for key in [VERSION_KEY, CAPABILITIES_KEY] {
        let to = format!("\"{key}\":\"{MODERN}\",\"{key}\":");
        let request = Request::call("echo").edit(&format!("\"{key}\":"), &to);
        site.refuses(key, &request, &Refusal::of(400, -32600));
    }
}

#[test]
fn a_repeated_id_is_refused() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32600).with_some_id();
    for second in ["1", "2", "\"a\""] {
        let request = Request::call("echo").id(&format!("{second},\"id\":1"));
        site.refuses(second, &request, &refusal);
    }
}

#[test]
fn a_case_variant_of_a_key_that_decides_is_refused() {
    let site = Site::new();
    for (from, to) in [
        ("\"params\":", "\"Method\":\"tools/list\",\"params\":"),
        ("\"params\":", "\"METHOD\":1,\"params\":"),
        ("\"params\":", "\"Id\":2,\"params\":"),
        ("\"params\":", "\"JSONRPC\":\"2.0\",\"params\":"),
        ("\"params\":", "\"Params\":{},\"params\":"),
        ("\"params\":", r#""P\u0061rams":{},"params":"#),
        ("\"name\":", "\"Name\":\"other\",\"name\":"),
        ("\"name\":", "\"_Meta\":{},\"name\":"),
        ("\"name\":", "\"_META\":null,\"name\":"),
    ] {
        let request = Request::call("echo").edit(from, to);
        site.refuses(to, &request, &Refusal::of(400, -32600));
    }
    let variant = "io.modelcontextprotocol/ProtocolVersion";
    let to = format!("\"{variant}\":\"x\",\"{CAPABILITIES_KEY}\":");
    let request = Request::call("echo").edit(&format!("\"{CAPABILITIES_KEY}\":"), &to);
    site.refuses(variant, &request, &Refusal::of(400, -32600));
    let alone = Request::call("echo").edit("\"method\":", "\"Method\":");
    site.refuses("a variant alone", &alone, &Refusal::of(400, -32600));
}

#[test]
fn the_same_holds_in_the_legacy_era() {
    let site = Site::new();
    for (from, to) in [
        ("\"method\":", "\"method\":\"tools/list\",\"method\":"),
        ("\"name\":", "\"name\":\"other\",\"name\":"),
        ("\"params\":", "\"Params\":{},\"params\":"),
    ] {
        let request = Request::legacy_call("echo").edit(from, to);
        site.refuses(to, &request, &Refusal::of(400, -32600));
    }
}

#[test]
fn arguments_are_the_tools_own_business() {
    let site = Site::new();
    let arguments =
        r#""arguments":{"a":1,"a":2,"Name":"x","name":"y","_meta":{},"deep":{"b":1,"b":2}}"#;
    let request = Request::call("echo").edit("\"arguments\":{}", arguments);
    site.forwards("repeated in arguments", &request);
}

#[test]
fn members_that_nobody_knows_pass() {
    let site = Site::new();
    let request = Request::call("echo")
        .edit("\"params\":", "\"extra\":{\"method\":\"x\"},\"params\":")
        .edit("\"name\":", "\"more\":[1],\"name\":");
    site.forwards("unknown members", &request);
}
