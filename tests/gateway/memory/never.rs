//! What is never kept: whatever was not said exactly, to everybody, and to its end.

use serde_json::{Value, json};

use super::{
    Stage, cache_status, document, event, hinted, id_of, list, message, method_of, number_of,
    numbering, public, read,
};
use crate::harness::{Client, Fault, Play, Received, Reply, Request};

/// The answer leaves as it came, and the next request goes upstream again.
fn is_not_kept(
    what: &str,
    script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    request: &Request,
    why: &str,
) {
    let stage = Stage::new(script);
    for id in ["1", "2"] {
        let answer = stage.misses(what, &request.clone().id(id), why);
        let told = cache_status(&answer);
        let kind = answer.head.value("content-type").unwrap_or_default();
        match kind.starts_with("text/event-stream") {
            // What becomes of a stream is not known when it begins, unless it is asked for again.
            true => assert!(told.starts_with("weirgate; fwd=uri-miss"), "{what}: {told}"),
            false => assert_eq!(
                told,
                format!("weirgate; fwd=uri-miss; detail={why}"),
                "{what}"
            ),
        }
    }
}

/// In either form.
fn result_is_not_kept(what: &str, result: &str, why: &str) {
    let request = list("prompts/list");
    let result = result.to_owned();
    let other = result.clone();
    is_not_kept(
        what,
        move |request| document(request, &result),
        &request,
        why,
    );
    is_not_kept(what, move |request| event(request, &other), &request, why);
}

#[test]
fn hints_that_are_not_exactly_valid_are_none() {
    let scope = r#""cacheScope":"public""#;
    for ttl in [
        "-1",
        "-0",
        "1.0",
        "6e4",
        "60000.5",
        "\"60000\"",
        "null",
        "true",
        "[60000]",
        "{}",
        "1E3",
    ] {
        let hints = format!(r#""ttlMs":{ttl},{scope}"#);
        result_is_not_kept(&hints, &hinted(r#""prompts":[]"#, &hints), "hints");
    }
    for scope in [
        "\"Public\"",
        "\"PUBLIC\"",
        "\"public \"",
        "\"shared\"",
        "\"\"",
        "null",
        "true",
        "[\"public\"]",
    ] {
        let hints = format!(r#""ttlMs":60000,"cacheScope":{scope}"#);
        result_is_not_kept(&hints, &hinted(r#""prompts":[]"#, &hints), "hints");
    }
    for hints in ["", r#""ttlMs":60000"#, scope] {
        result_is_not_kept(hints, &hinted(r#""prompts":[]"#, hints), "hints");
    }
    // Elsewhere they are none either.
    let hints = r#""_meta":{"ttlMs":60000,"cacheScope":"public"}"#;
    result_is_not_kept(hints, &hinted(r#""prompts":[]"#, hints), "hints");
}

#[test]
fn what_is_private_or_stale_at_once_is_for_its_caller() {
    for (hints, why) in [
        (r#""ttlMs":60000,"cacheScope":"private""#, "private"),
        (r#""ttlMs":60000,"cacheScope":"\u0070rivate""#, "private"),
        (r#""ttlMs":0,"cacheScope":"public""#, "ttl_zero"),
        (r#""ttlMs":00,"cacheScope":"public""#, "unreadable"),
    ] {
        result_is_not_kept(hints, &hinted(r#""prompts":[]"#, hints), why);
    }
}

#[test]
fn what_two_readers_could_read_differently_passes_and_is_not_kept() {
    let hints = r#""ttlMs":60000,"cacheScope":"public""#;
    for result in [
        format!(r#"{{"ttlMs":60000,{hints}}}"#),
        format!(r#"{{"cacheScope":"private",{hints}}}"#),
        r#"{"cacheScope":"private","cache\u0053cope":"public","ttlMs":60000}"#.to_owned(),
        format!(r#"{{"CacheScope":"private",{hints}}}"#),
        format!(r#"{{"prompts":[{{"name":"a","name":"b"}}],{hints}}}"#),
        "[]".to_owned(),
        "null".to_owned(),
        "7".to_owned(),
    ] {
        result_is_not_kept(&result, &result, "unreadable");
    }
    for body in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"id":1,"result":{{{hints}}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{{hints}}},"error":{{"code":1,"message":""}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","result":{{{hints}}}}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":1,"result":{{{hints}}}}}]"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{{hints}}}}}x"#),
        format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{{hints}}}}}"),
        "not JSON".to_owned(),
        String::new(),
    ] {
        let stage = Stage::new({
            let body = body.clone();
            move |_| Reply::json(200, &body)
        });
        for _ in 0..2 {
            let answer = stage.misses(&body, &list("prompts/list"), "unreadable");
            assert_eq!(answer.text(), body, "it passes as it came");
        }
    }
}

#[test]
fn errors_and_questions_are_not_kept() {
    let error = |request: &Received, code: i64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no","ttlMs":60000,"cacheScope":"public"}}}}"#,
            id_of(request)
        )
    };
    for code in [-32601, -32602, -32603, -32002, 7] {
        let answer = move |request: &Received| Reply::json(200, error(request, code));
        is_not_kept("an error", answer, &list("prompts/list"), "error");
        let answer =
            move |request: &Received| Reply::sse(&format!("data: {}\n\n", error(request, code)));
        is_not_kept("an error", answer, &list("prompts/list"), "error");
    }
    let hints = r#""ttlMs":60000,"cacheScope":"public""#;
    for kind in ["input_required", "task", "complete ", "COMPLETE"] {
        let result = format!(r#"{{"resultType":"{kind}","inputRequests":{{}},{hints}}}"#);
        is_not_kept(
            kind,
            move |request| document(request, &result),
            &read("file:///a"),
            "input_required",
        );
    }
    // What older servers leave out says the same.
    let stage = Stage::new(move |request| document(request, &format!("{{{hints}}}")));
    stage.stores("no resultType", &read("file:///a"));
    stage.hits("no resultType", &read("file:///a"));
}

#[test]
fn a_request_with_answers_to_a_question_goes_past_the_memory() {
    let stage = Stage::new(numbering());
    let plain = read("file:///a");
    stage.stores("plain", &plain);
    for member in [
        json!({"uri": "file:///a", "inputResponses": {}}),
        json!({"uri": "file:///a", "requestState": "s"}),
        json!({"uri": "file:///a", "requestState": ""}),
        json!({"uri": "file:///a", "inputResponses": null}),
    ] {
        let request = Request::modern("resources/read", member.clone());
        let first = stage.bypasses(&member.to_string(), &request, "input");
        let second = stage.bypasses(&member.to_string(), &request, "input");
        assert_ne!(number_of(&first), number_of(&second), "{member}");
    }
    assert_eq!(number_of(&stage.hits("plain", &plain)), 0);
}

#[test]
fn an_answer_to_something_else_passes_and_is_not_kept() {
    for id in ["7", "\"1\"", "1.0", "null", "01"] {
        let script = move |_: &Received| {
            let result = public(r#""prompts":[]"#);
            Reply::json(
                200,
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            )
        };
        let stage = Stage::new(script);
        for _ in 0..2 {
            let answer = stage.misses(id, &list("prompts/list"), "unreadable");
            assert!(
                answer.text().contains(&format!(r#""id":{id},"#)),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn only_a_success_that_is_not_coded_is_kept() {
    let good = public(r#""prompts":[]"#);
    for status in [201, 203, 206, 299] {
        let good = good.clone();
        let stage = Stage::new(move |request| Reply::json(status, message(request, &good)));
        let answer = stage.stores("a success", &list("prompts/list"));
        assert_eq!(answer.status, status);
    }
    for status in [300, 302, 400, 401, 403, 404, 429, 500, 502, 503, 504] {
        let good = good.clone();
        let script = move |request: &Received| Reply::json(status, message(request, &good));
        let stage = Stage::new(script);
        for _ in 0..2 {
            let answer = stage.misses(&status.to_string(), &list("prompts/list"), "error");
            assert_eq!(answer.status, status);
            assert_eq!(
                cache_status(&answer),
                "weirgate; fwd=uri-miss; detail=error",
                "{status}"
            );
        }
    }
    for coding in ["gzip", "br", "x-anything"] {
        let good = good.clone();
        let lines = format!("Content-Type: application/json\r\nContent-Encoding: {coding}\r\n");
        let script =
            move |request: &Received| Reply::with_lines(200, &lines, message(request, &good));
        is_not_kept(coding, script, &list("prompts/list"), "unreadable");
    }
    let good = good.clone();
    let lines = "Content-Type: application/json\r\nContent-Encoding: identity\r\n";
    let stage = Stage::new(move |request| Reply::with_lines(200, lines, message(request, &good)));
    stage.stores("identity", &list("prompts/list"));
}

/// A result that a message of about this many bytes holds.
fn long(bytes: usize) -> String {
    public(&format!(
        r#""prompts":[{{"name":"{}"}}]"#,
        "x".repeat(bytes)
    ))
}

#[test]
fn what_is_longer_than_an_entry_streams_whole() {
    for streams in [false, true] {
        let stage = Stage::with(
            move |request| {
                let result = long(200_000);
                match streams {
                    true => event(request, &result),
                    false => document(request, &result),
                }
            },
            |policy| policy.set("/cache/entry_bytes_max", json!("64Ki")),
        );
        for _ in 0..2 {
            let answer = stage.misses("long", &list("prompts/list"), "too_large");
            let text = answer.text();
            let body = match streams {
                true => text
                    .strip_prefix("data: ")
                    .and_then(|text| text.strip_suffix("\n\n"))
                    .expect("one event"),
                false => &text,
            };
            let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, long(200_000));
            assert!(body == whole, "{} bytes of {}", body.len(), whole.len());
        }
    }
    // What is just short enough is kept.
    let stage = Stage::with(
        |request| document(request, &long(60_000)),
        |policy| policy.set("/cache/entry_bytes_max", json!("64Ki")),
    );
    stage.stores("short", &list("prompts/list"));
    stage.hits("short", &list("prompts/list"));
}

#[test]
fn a_long_answer_does_not_wait_for_its_end() {
    let (upstream, answers) = crate::harness::Upstream::staged();
    let stage = Stage::before(upstream, |policy| {
        policy.set("/cache/entry_bytes_max", json!("64Ki"))
    });
    let mut client = stage.site.gateway.connect();
    client.send(&list("prompts/list"));
    let plays = answers.recv().unwrap();
    plays.send(Play::Send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec())).unwrap();
    let (first, second) = ("y".repeat(100_000), "z".repeat(100));
    plays.send(Play::chunk(&first)).unwrap();
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, &first.as_bytes()[..100_000]);
    plays.send(Play::chunk(&second)).unwrap();
    client.read_until(&mut body, second.as_bytes());
    plays.send(Play::end()).unwrap();
    assert_eq!(body.next(&mut client.wire), Ok(None));
    assert_eq!(stage.site.records(1)[0]["stored"], "too_large");
}

/// What came of an answer until its end, and how it ended.
fn to_the_end(client: &mut Client) -> (u16, Vec<u8>, Option<Fault>) {
    let (head, mut reader) = client.read_head();
    let mut body = Vec::new();
    loop {
        match reader.next(&mut client.wire) {
            Ok(Some(part)) => body.extend(part),
            Ok(None) => return (head.status(), body, None),
            Err(fault) => return (head.status(), body, Some(fault)),
        }
    }
}

#[test]
fn what_breaks_off_is_not_kept() {
    let half = |request: &Received| {
        let whole = message(request, &public(r#""prompts":[]"#));
        whole[..whole.len() - 10].to_owned()
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    type Cut = fn(&str, &str) -> Reply;
    let cuts: [(&str, Cut); 3] = [
        ("a length", |head, half| {
            Reply::raw_then_close(format!("{head}Content-Length: 1000\r\n\r\n{half}"))
        }),
        ("chunks", |head, half| {
            Reply::Steps(vec![
                Play::Send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").into()),
                Play::chunk(half),
                Play::Close,
            ])
        }),
        ("a reset", |head, half| {
            Reply::raw_then_reset(format!("{head}Content-Length: 1000\r\n\r\n{half}"))
        }),
    ];
    for (what, cut) in cuts {
        let stage = Stage::new(move |request| cut(head, &half(request)));
        for _ in 0..2 {
            let answer = stage.misses(what, &list("prompts/list"), "truncated");
            assert_eq!((answer.status, answer.code()), (502, Some(502)), "{what}");
            assert_eq!(answer.raw_id().as_deref(), Some("1"), "{what}");
        }
    }
    // A document that is closed where it could end is no JSON.
    let stage = Stage::new(move |request| {
        Reply::raw_then_close(format!("{head}Connection: close\r\n\r\n{}", half(request)))
    });
    stage.misses("closed", &list("prompts/list"), "unreadable");
    // Of a stream the beginning has left already.
    let stage = Stage::new(move |request| {
        Reply::Steps(vec![
            Play::sse_head(),
            Play::chunk(format!("data: {}", half(request))),
            Play::Close,
        ])
    });
    for _ in 0..2 {
        let before = stage.fetched();
        let mut client = stage.site.gateway.connect();
        client.send(&list("prompts/list"));
        let (status, _, fault) = to_the_end(&mut client);
        assert_eq!(status, 200);
        assert!(fault.is_some(), "it breaks off for the client too");
        assert_eq!(stage.fetched(), before + 1);
        assert_eq!(stage.site.records(1)[0]["stored"], "truncated");
    }
    // And so it is where it ends properly in the middle of its event.
    let stage = Stage::new(move |request| Reply::sse(&format!("data: {}", half(request))));
    for _ in 0..2 {
        stage.misses("half an event", &list("prompts/list"), "truncated");
    }
}

#[test]
fn a_stream_without_a_response_is_not_kept() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    for stream in [
        format!("data: {note}\n\n"),
        ": nothing\n\n".to_owned(),
        String::new(),
    ] {
        let stage = Stage::new(move |_| Reply::sse(&stream));
        for _ in 0..2 {
            stage.misses("no response", &list("prompts/list"), "truncated");
        }
    }
}

#[test]
fn other_methods_know_no_memory() {
    let stage = Stage::new(numbering());
    let others: [(&str, Value); 5] = [
        ("tools/call", json!({"name": "a", "arguments": {}})),
        ("prompts/get", json!({"name": "a"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a"}}),
        ),
        ("tasks/get", json!({"taskId": "a"})),
        ("vendor/list", json!({})),
    ];
    for (method, params) in others {
        for _ in 0..2 {
            let before = count(&stage, method);
            let told = stage.tell(&Request::modern(method, params.clone()));
            assert_eq!(count(&stage, method), before + 1, "{method}");
            assert!(
                told.record.get("cache").is_none(),
                "{method}: {}",
                told.record
            );
            assert_eq!(told.cache_status(), "", "{method}");
        }
    }
}

/// How often this method has come.
fn count(stage: &Stage, method: &str) -> usize {
    let log = stage.site.upstream.log();
    log.requests
        .iter()
        .filter(|request| method_of(request) == method)
        .count()
}

#[test]
fn where_nothing_is_kept_nothing_is_said() {
    let upstream = crate::harness::Upstream::with(numbering());
    let stage = Stage::before(upstream, |policy| {
        policy.set("/routes/0/cache", json!("off"))
    });
    let upstream = crate::harness::Upstream::with(numbering());
    let empty = Stage::before(upstream, |policy| policy.set("/cache/bytes_max", json!(0)));
    for stage in [stage, empty] {
        for number in 0..2 {
            let told = stage.tell(&list("prompts/list"));
            assert_eq!(number_of(&told.answer), number);
            assert_eq!(told.cache_status(), "");
            assert!(told.record.get("cache").is_none(), "{}", told.record);
        }
        assert_eq!(stage.site.upstream.request_count(), 2);
    }
}
