//! Bodies that are no JSON, and JSON that is no message.

use serde_json::json;

use crate::harness::{LEGACY, Refusal, Request, Site};

/// A modern call as text, to be damaged.
fn good() -> String {
    String::from_utf8(Request::call("echo").body).unwrap()
}

#[test]
fn what_is_no_json_is_a_parse_error() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32700).id("null");
    let good = good();
    let whole = good.len();
    for body in [
        String::new(),
        " \r\n\t".to_owned(),
        "nope".to_owned(),
        "{".to_owned(),
        good[..whole - 1].to_owned(),
        good[..whole / 2].to_owned(),
        format!("{good}{good}"),
        format!("{good} x"),
        format!("{good}]"),
        format!("{good}\0"),
        format!("\u{feff}{good}"),
        good.replace("\"id\":1,", "\"id\":1,,"),
        good.replace("\"id\":1,", "\"id\":01,"),
        good.replace("\"id\":1,", "\"id\":+1,"),
        good.replace("\"id\":1,", "\"id\":NaN,"),
        good.replace("\"id\":1,", "'id':1,"),
        good.replace("\"id\":1,", "id:1,"),
        good.replace("\"id\":1,", "\"id\":1, // one\n"),
        good.replace("\"echo\"", "\"ec\nho\""),
        good.replace("\"echo\"", r#""ec\xho""#),
        good.replace("\"echo\"", r#""ec\u00zzho""#),
        good.replace("\"echo\"}", "\"echo\",}"),
    ] {
        site.refuses(&body, &Request::call("echo").body(body.as_str()), &refusal);
    }
}

#[test]
fn what_is_no_utf_8_is_a_parse_error() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32700).id("null");
    let with = |bytes: &[u8]| {
        let good = good();
        let (before, behind) = good.split_once("echo").unwrap();
        [before.as_bytes(), bytes, behind.as_bytes()].concat()
    };
    for (what, body) in [
        ("Latin-1", with(b"caf\xe9")),
        ("an overlong slash", with(b"\xc0\xaf")),
        ("a surrogate", with(b"\xed\xa0\x80")),
        ("beyond Unicode", with(b"\xf4\x90\x80\x80")),
        ("a lone continuation", with(b"\x80")),
        (
            "UTF-16",
            "\u{feff}{}"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
        ),
        (
            "outside of every string",
            [good().as_bytes(), b"\xc2\xa0"].concat(),
        ),
    ] {
        site.refuses(what, &Request::call("echo").body(body), &refusal);
    }
}

#[test]
fn blanks_around_a_document_are_part_of_its_bytes() {
    let site = Site::new();
    let body = format!("\r\n\t {}\n\n  ", good());
    site.forwards("blanks", &Request::call("echo").body(body));
}

#[test]
fn numbers_escapes_and_odd_spacing_pass_as_they_came() {
    let site = Site::new();
    let body = good().replace(
        "\"arguments\":{}",
        r#""arguments" : {"big":123456789012345678901234567890,"f":1.0,"e":-0.0E+01, "s":"\u00e9\/\ud83c\udf89","no":false,"z":[ ],"a":null}"#,
    );
    site.forwards("odd but right", &Request::call("echo").body(body));
}

#[test]
fn json_that_is_no_object_is_no_request() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32600).id("null");
    for body in ["\"text\"", "5", "-1.5e3", "true", "false", "null"] {
        site.refuses(body, &Request::call("echo").body(body), &refusal);
    }
}

#[test]
fn a_batch_is_refused_in_every_era_and_says_why() {
    let site = Site::with(|policy| policy.versions(&["2026-07-28", LEGACY, "2025-03-26"]));
    let refusal = Refusal::of(400, -32600)
        .id("null")
        .names(&["batch", "2025-06-18"]);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for body in [
        "[]".to_owned(),
        json!([call]).to_string(),
        json!([call, call]).to_string(),
    ] {
        site.refuses(&body, &Request::call("echo").body(body.as_str()), &refusal);
        let legacy = Request::legacy_call("echo").body(body.as_str());
        site.refuses(&body, &legacy, &refusal);
        let silent = legacy.clone().without("MCP-Protocol-Version");
        site.refuses(&body, &silent, &refusal);
        let early = legacy.header("MCP-Protocol-Version", "2025-03-26");
        site.refuses(&body, &early, &refusal);
    }
}

#[test]
fn an_object_without_a_method_of_text_is_no_request() {
    let site = Site::new();
    let method = "\"method\":\"tools/call\",";
    for other in [
        "",
        "\"method\":null,",
        "\"method\":5,",
        "\"method\":[\"tools/call\"],",
    ] {
        let request = Request::call("echo").edit(method, other);
        site.refuses(other, &request, &Refusal::of(400, -32600));
    }
    let nothing = Request::call("echo").body("{}");
    site.refuses("{}", &nothing, &Refusal::of(400, -32600).id("null"));
}

#[test]
fn json_rpc_has_one_version() {
    let site = Site::new();
    for other in [
        "\"1.0\"",
        "\"2\"",
        "2.0",
        "2",
        "null",
        "\"2.0 \"",
        "[\"2.0\"]",
    ] {
        let request = Request::call("echo").edit("\"2.0\"", other);
        site.refuses(other, &request, &Refusal::of(400, -32600));
        let legacy = Request::legacy_call("echo").edit("\"2.0\"", other);
        site.refuses(other, &legacy, &Refusal::of(400, -32600));
    }
    let absent = Request::call("echo").edit("\"jsonrpc\":\"2.0\",", "");
    site.refuses("absent", &absent, &Refusal::of(400, -32600));
}
