//! Request ids: raw tokens that come back as they were sent.

use crate::harness::{Refusal, Request, Site, raw_member};

const TOKENS: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "18446744073709551616",
    "123456789012345678901234567890",
    "\"\"",
    "\"a b\"",
    "\"1\"",
    r#""\u0041\n\"\\\/""#,
    "\"é世\"",
    r#""\ud83c\udf89""#,
];

#[test]
fn an_id_comes_back_to_the_byte_in_a_refusal() {
    let site = Site::new();
    for token in TOKENS {
        let request = Request::call("echo").id(token).header("Mcp-Name", "other");
        site.refuses(token, &request, &Refusal::of(400, -32020).id(token));
        let request = Request::call("echo").id(token).edit("\"2.0\"", "\"1.0\"");
        site.refuses(token, &request, &Refusal::of(400, -32600).id(token));
    }
}

#[test]
fn an_id_reaches_the_upstream_and_comes_back_to_the_byte() {
    let site = Site::new();
    for token in TOKENS {
        let received = site.forwards(token, &Request::call("echo").id(token));
        assert_eq!(raw_member(&received.body, "id").as_deref(), Some(*token));
        let answer = site.gateway.ask(&Request::legacy_call("echo").id(token));
        site.records(1);
        assert_eq!(answer.raw_id().as_deref(), Some(*token));
    }
}

#[test]
fn an_id_behind_the_fault_is_echoed_too() {
    let site = Site::new();
    let body = r#"{"jsonrpc":"1.0","method":"tools/list","params":{},"id":"last"}"#;
    let refusal = Refusal::of(400, -32600).id("\"last\"");
    site.refuses(
        "the id comes last",
        &Request::call("echo").body(body),
        &refusal,
    );
}

#[test]
fn an_id_of_another_type_is_none() {
    let site = Site::new();
    let refusal = Refusal::of(400, -32600).id("null");
    for token in ["null", "1.5", "1e3", "true", "{}", "[]", "[1]", "{\"a\":1}"] {
        site.refuses(token, &Request::call("echo").id(token), &refusal);
        site.refuses(token, &Request::legacy_call("echo").id(token), &refusal);
    }
}

#[test]
fn equal_ids_at_the_same_time_do_not_meet() {
    let site = Site::new();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|number| {
                let site = &site.gateway;
                scope.spawn(move || {
                    let mut client = site.connect();
                    let tool = format!("tool-{number}");
                    (0..10).for_each(|_| {
                        let answer = client.exchange(&Request::call(&tool));
                        assert_eq!(answer.json()["result"]["content"][0]["text"], tool);
                        assert_eq!(answer.raw_id().as_deref(), Some("1"));
                    });
                    tool
                })
            })
            .collect();
        asking
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    for tool in answers {
        assert_eq!(site.upstream.runs(&tool), 10);
    }
}
