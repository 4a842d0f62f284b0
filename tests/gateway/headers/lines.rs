//! Exactly one line per routing header, its name in any case, its value to the letter.

use serde_json::json;

use crate::harness::{MODERN, Refusal, Request, Site};

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

fn mismatch(names: &[&str]) -> Refusal {
    Refusal::of(400, -32020).names(names)
}

#[test]
fn a_missing_header_is_named_with_what_the_body_says() {
    let site = Site::new();
    let call = Request::call("echo");
    for (header, value) in [(VERSION, MODERN), (METHOD, "tools/call"), (NAME, "echo")] {
        let request = call.clone().without(header);
        site.refuses(header, &request, &mismatch(&[header, value]));
    }
    for (request, value) in [
        (Request::modern("prompts/get", json!({"name": "p1"})), "p1"),
        (
            Request::modern("resources/read", json!({"uri": "a://b"})),
            "a://b",
        ),
        (Request::modern("tasks/get", json!({"taskId": "t1"})), "t1"),
        (
            Request::modern("tasks/update", json!({"taskId": "t2"})),
            "t2",
        ),
        (
            Request::modern("tasks/cancel", json!({"taskId": "t3"})),
            "t3",
        ),
    ] {
        site.refuses(value, &request.without(NAME), &mismatch(&[NAME, value]));
    }
}

#[test]
fn two_lines_are_a_mismatch_even_if_they_agree() {
    let site = Site::new();
    for (header, value) in [(VERSION, MODERN), (METHOD, "tools/call"), (NAME, "echo")] {
        for second in [value, "other", ""] {
            let behind = Request::call("echo").line(header, second);
            site.refuses(header, &behind, &mismatch(&[header]));
            let mut before = Request::call("echo");
            before
                .lines
                .insert(0, (header.to_lowercase(), second.into()));
            site.refuses(header, &before, &mismatch(&[header]));
        }
        let listed = Request::call("echo").header(header, &format!("{value}, {value}"));
        site.refuses(header, &listed, &mismatch(&[header]));
    }
}

#[test]
fn a_value_that_differs_is_told_beside_the_bodys() {
    let site = Site::new();
    for (header, value, others) in [
        (
            METHOD,
            "tools/call",
            &["tools/list", "Tools/call", "tools/call/", "tools"][..],
        ),
        (
            NAME,
            "echo",
            &["Echo", "ECHO", "ech", "echo2", "\"echo\"", "e%63ho"],
        ),
        (VERSION, MODERN, &["2025-11-25", "2026-7-28", "V2026-07-28"]),
    ] {
        for other in others {
            let request = Request::call("echo").header(header, other);
            site.refuses(other, &request, &mismatch(&[header, value]));
            // What the client sent comes back too, escaped where JSON asks for it.
            let answer = site.gateway.ask(&request);
            site.records(1);
            let told = answer.json()["error"].to_string();
            let escaped = serde_json::to_string(other).unwrap();
            assert!(told.contains(escaped.trim_matches('"')), "{other}: {told}");
        }
    }
}

#[test]
fn the_case_of_a_headers_name_is_free() {
    let site = Site::new();
    for (version, method, name) in [
        ("mcp-protocol-version", "mcp-method", "mcp-name"),
        ("MCP-PROTOCOL-VERSION", "MCP-METHOD", "MCP-NAME"),
        ("mCp-pRoToCoL-vErSiOn", "McP-mEtHoD", "Mcp-name"),
    ] {
        let request = Request::call("echo")
            .header(version, MODERN)
            .header(method, "tools/call")
            .header(name, "echo");
        let received = site.forwards(version, &request);
        assert_eq!(received.head.value(METHOD).unwrap(), "tools/call");
        assert_eq!(received.head.value(NAME).unwrap(), "echo");
        assert_eq!(received.head.value(VERSION).unwrap(), MODERN);
    }
}

#[test]
fn a_value_is_never_split_at_its_commas() {
    let site = Site::new();
    let name = "Seattle, WA, and , more";
    let received = site.forwards(name, &Request::call(name));
    assert_eq!(received.head.value(NAME).unwrap(), name);
    let split = Request::call(name)
        .header(NAME, "Seattle")
        .line(NAME, "WA, and , more");
    site.refuses("split into lines", &split, &mismatch(&[NAME]));
    let first = Request::call("a").header(NAME, "a, b");
    site.refuses("the first of a list", &first, &mismatch(&[NAME, "a, b"]));
}

#[test]
fn blanks_around_a_value_are_no_part_of_it() {
    let site = Site::new();
    let request = Request::call("echo")
        .header(NAME, " \t echo\t ")
        .header(METHOD, "\ttools/call  ")
        .header(VERSION, &format!("   {MODERN}\t"));
    let received = site.forwards("blanks around", &request);
    let head = String::from_utf8_lossy(&received.head.bytes).into_owned();
    for line in ["Mcp-Name: echo\r\n", "Mcp-Method: tools/call\r\n"] {
        let found = head.to_lowercase().contains(&line.to_lowercase());
        assert!(found, "{line:?} in {head}");
    }
    let inner = site.forwards("blanks inside", &Request::call("a \t b"));
    assert_eq!(inner.head.value(NAME).unwrap(), "a \t b");
}

#[test]
fn blanks_at_the_ends_of_a_name_do_not_get_lost() {
    let site = Site::new();
    for name in [" echo", "echo ", "\techo", " "] {
        let request = Request::call(name).header(NAME, name);
        site.refuses(name, &request, &mismatch(&[NAME]));
    }
    let request = Request::call(" echo ").header(NAME, "=?base64?IGVjaG8g?=");
    let received = site.forwards("encoded", &request);
    assert_eq!(received.head.value(NAME).unwrap(), "=?base64?IGVjaG8g?=");
}

#[test]
fn other_blanks_are_not_trimmed() {
    let site = Site::new();
    // NEL and a no-break space: blanks to some libraries, but not to HTTP.
    for value in [b"\xc2\x85echo".as_slice(), b"echo\xc2\xa0", b"echo\xa0"] {
        let request = Request::call("echo").without(NAME).line(NAME, value);
        site.refuses("an odd blank", &request, &mismatch(&[NAME]));
    }
}

#[test]
fn a_header_without_a_counterpart_in_the_body_is_no_match() {
    let site = Site::new();
    for params in [
        json!({}),
        json!({"name": null}),
        json!({"name": 5}),
        json!({"name": ["echo"]}),
    ] {
        let request = Request::modern("tools/call", params.clone()).header(NAME, "echo");
        let refusal = Refusal::any_of(400, &[-32020, -32602, -32600]);
        site.refuses(&params.to_string(), &request, &refusal);
    }
}

#[test]
fn a_refused_header_cannot_write_into_the_answers_head() {
    let site = Site::new();
    let request = Request::call("echo").header(NAME, "x\"}\u{1f600}\\u0000<script>");
    let answer = site.refuses("odd bytes", &request, &mismatch(&[NAME, "echo"]));
    let names: Vec<_> = answer
        .head
        .lines
        .iter()
        .map(|line| line.name.to_lowercase())
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("script")),
        "{names:?}"
    );
}
