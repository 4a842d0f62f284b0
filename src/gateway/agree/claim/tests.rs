//! What streams is judged as what is read first, wherever the pieces end; and nothing of it that
//! could be taken for the whole goes on before that.

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::*;
use crate::policy::plan::{Bounds, Cors, Deadlines, Hosts, Origins, Protocol, Streams, Upstream};
use crate::protocol::frame;
use crate::protocol::refusal::Telling;
use crate::protocol::version::Versions;

const MODERN: &str = "2026-07-28";

fn route() -> Arc<Route> {
    Arc::new(Route {
        name: "main".into(),
        path: Route::PATH.into(),
        hosts: Hosts::Any,
        origins: Origins::None,
        upstream: Arc::new(Upstream::at("up", "up", 80, "/mcp")),
        protocol: Protocol::default(),
        bounds: Bounds::default(),
        pass: None,
        cors: Cors::default(),
        streams: Streams::default(),
        deadline: Deadlines::default(),
        cache: crate::policy::plan::Cache::default(),
        catalog: crate::policy::plan::Catalog::default(),
        pin: None,
    })
}

fn bounded(shape: impl FnOnce(&mut Bounds)) -> Arc<Route> {
    let mut route = (*route()).clone();
    shape(&mut route.bounds);
    Arc::new(route)
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    headers
}

fn call_of(method: &str, name: Option<&str>) -> HeaderMap {
    let mut lines = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    lines.extend(name.map(|name| ("mcp-name", name)));
    headers(&lines)
}

fn claim(headers: &HeaderMap, route: &Route) -> Option<Claim> {
    Claim::of(&Fields::read(headers), headers, route)
}

/// What a body came to: the routing headers, or what its client is told under which id.
type Outcome = Result<Routing, Box<(Telling, Option<Bytes>)>>;

/// A body that is read first.
fn whole(body: &[u8], headers: &HeaderMap, route: &Route) -> Outcome {
    let body = Bytes::copy_from_slice(body);
    let scanned = frame::scan(body, &route.bounds.message, &Paths::default());
    let frame = scanned.map_err(|flaw| {
        let id = flaw.id().map(Bytes::copy_from_slice);
        Box::new((Refusal::from(MessageFault::Unreadable(flaw)).telling(), id))
    })?;
    let message = Message::of(&frame);
    let fields = Fields::read(headers);
    let judged = place::place(&message, fields.protocol_version, &route.protocol, || None)
        .and_then(|placed| {
            let routing = agree(&placed, &message, &fields, headers, route)?;
            placed.accept(&message, &route.protocol)?;
            Ok(routing)
        });
    judged.map_err(|refusal| Box::new((refusal.telling(), frame.shared_id())))
}

/// A body that passes in these pieces: what came of it, and what went on before the end.
fn streamed(pieces: &[&[u8]], claim: &Claim, route: &Arc<Route>) -> (Outcome, Vec<u8>) {
    let mut inspection = Inspection::new(claim.clone(), route.clone());
    let mut passed = Vec::new();
    let told = |refused: Refused| Box::new((refused.refusal.telling(), refused.id));
    let mut contradicted = false;
    for piece in pieces {
        match inspection.read(Bytes::copy_from_slice(piece)) {
            Ok(passes) => passed.extend_from_slice(&passes),
            Err(refused) => return (Err(told(refused)), passed),
        }
        contradicted |= inspection.contradicts();
        assert_eq!(contradicted, inspection.contradicts(), "for good");
    }
    let body = pieces.concat();
    assert!(body.starts_with(&passed));
    assert!(
        passed.len() < body.len()
            || frame::scan(body.into(), &route.bounds.message, &Paths::default()).is_err(),
        "a whole message went on"
    );
    let outcome = inspection.end().map_err(told).map(|(_, tail)| {
        assert!(!contradicted, "what contradicted agreed");
        assert!(tail.starts_with(b"}"));
        passed.extend_from_slice(&tail);
        claim.routing()
    });
    (outcome, passed)
}

/// Compares the two at every split into two pieces, in single bytes, and in `pieces` of this size.
fn compare(body: &[u8], headers: &HeaderMap, size: usize) -> bool {
    let route = route();
    let expected = whole(body, headers, &route);
    let claim = claim(headers, &route).expect("a claim");
    let mut splits: Vec<Vec<&[u8]>> = (0..=body.len())
        .map(|cut| vec![&body[..cut], &body[cut..]])
        .collect();
    splits.push(body.chunks(1).collect());
    splits.push(body.chunks(size).collect());
    for pieces in splits {
        let (outcome, passed) = streamed(&pieces, &claim, &route);
        let shown = || format!("{} in {:?}", String::from_utf8_lossy(body), pieces.len());
        assert_eq!(outcome, expected, "{}", shown());
        match outcome {
            Ok(_) => assert_eq!(passed, body, "{}", shown()),
            // A reader that knows the length never sees the last byte of what it sent on.
            Err(_) => assert!(body.starts_with(&passed), "{}", shown()),
        }
    }
    expected.is_ok()
}

fn meta(version: &str) -> String {
    format!(
        r#""_meta":{{"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/protocolVersion":"{version}"}}"#
    )
}

/// Members of `params`, one list for each of its keys; the first of each is the good one.
fn params() -> impl Strategy<Value = String> {
    let members = vec![
        select(vec![r#""name":"a""#, r#""name":"a""#, r#""n\u0061me":"\u0061""#, r#""name":"é""#, r#""name":7"#, r#""Name":"a""#]).prop_map(str::to_owned).boxed(),
        select(vec![r#""arguments":{"a":[1,2,{"b":"}"}]}"#, r#""arguments":{}"#, r#""arguments":{"a":1,"a":2}"#]).prop_map(str::to_owned).boxed(),
        select(vec![
            meta(MODERN), meta(MODERN), meta(MODERN), meta("2025-11-25"), meta("2031-01-01"), r#""_meta":{}"#.to_owned(),
            format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":1}}"#),
        ]).boxed(),
        select(vec![r#""x":null"#, r#""uri":"a""#, r#""uri":[]"#, r#""cursor":"c""#]).prop_map(str::to_owned).boxed(),
    ];
    (members, subsequence(vec![0, 1, 2, 3], 2..=4).prop_shuffle()).prop_map(|(members, order)| {
        let chosen: Vec<_> = order.iter().map(|at| members[*at].clone()).collect();
        format!(r#""params":{{{}}}"#, chosen.join(","))
    })
}

/// A body: mostly nearly good, in any order, with anything behind it.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let words = |words: &[&'static str]| select(words.to_vec()).prop_map(str::to_owned).boxed();
    let members = vec![
        words(&[
            r#""jsonrpc":"2.0""#,
            r#""jsonrpc":"2.0""#,
            r#""jsonrpc":"2.0""#,
            r#""jsonrpc":"1.0""#,
        ]),
        words(&[
            r#""id":1"#,
            r#""id":1"#,
            r#""id":"é""#,
            r#""id":null"#,
            r#""id":1,"id":2"#,
        ]),
        words(&[
            r#""method":"tools/call""#,
            r#""method":"tools/call""#,
            r#""method":"tools\/call""#,
            r#""method":"tools/list""#,
            r#""method":"resources/read""#,
            r#""method":"ping""#,
            r#""method":[]"#,
        ]),
        params().boxed(),
        words(&[
            r#""result":{}"#,
            r#""error":1"#,
            r#""x":[[[]]]"#,
            r#""x":"\ud800""#,
            r#""x":tru"#,
        ]),
    ];
    let order = prop_oneof![
        6 => Just(vec![0, 1, 2, 3]).prop_shuffle(),
        1 => Just(vec![0, 2, 3]).prop_shuffle(),
        3 => subsequence(vec![0, 1, 2, 3, 4], 2..=5).prop_shuffle(),
    ];
    let behind = select(vec!["", "", "", " \n\t ", "\n", "}", "x", "{}", "\u{a0}"]);
    let shape = select(vec![0, 0, 0, 0, 0, 1, 2, 3]);
    (members, order, behind, shape).prop_map(|(members, order, behind, shape)| {
        let chosen: Vec<_> = order.iter().map(|at| members[*at].clone()).collect();
        let message = format!("{{{}}}", chosen.join(","));
        match shape {
            1 => format!("[{message}]{behind}").into_bytes(),
            // Cut wherever it is, in the middle of a character too.
            2 => [&message.as_bytes()[..message.len() / 2], behind.as_bytes()].concat(),
            3 => select_scalar(&message).into(),
            _ => format!(" {message}{behind}").into_bytes(),
        }
    })
}

fn select_scalar(message: &str) -> &'static str {
    ["12345", "\"text\"", "null", "  ", "-0.5e7 "][message.len() % 5]
}

proptest! {
    #[test]
    fn what_streams_is_judged_as_what_is_read_first(
        body in bodies(),
        method in select(vec!["tools/call", "tools/call", "tools/call", "tools/list", "resources/read"]),
        name in select(vec!["a", "a", "a", "=?base64?YQ==?=", "=?base64?w6k=?=", "b"]),
        size in 2_usize..40,
    ) {
        compare(&body, &call_of(method, Some(name)), size);
    }
}

#[test]
fn good_messages_pass_in_any_order() {
    let meta = meta(MODERN);
    let arguments = r#""arguments":{"a":"}{","b":[{}]}"#;
    for body in [
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a",{arguments},{meta}}}}}"#
        ),
        format!(
            r#"{{"params":{{{arguments},{meta},"name":"a"}},"method":"tools/call","id":"x","jsonrpc":"2.0"}}{}"#,
            "\n \t\r".repeat(9)
        ),
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"a",{meta}}}}}"#),
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#.to_owned(),
    ] {
        assert!(
            compare(body.as_bytes(), &call_of("tools/call", Some("a")), 7),
            "{body}"
        );
    }
}

#[test]
fn only_heads_that_say_all_of_it_make_a_claim() {
    let full = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?w6k=?="),
    ];
    let route = route();
    let found = claim(&headers(&full), &route).expect("a claim");
    assert_eq!(
        found.call(),
        Call {
            era: Era::Modern,
            version: Some(Version::V2026_07_28),
            is_request: true,
            method: "tools/call",
            name: Some("é"),
        }
    );
    for missing in 0..full.len() {
        let mut lines = full.to_vec();
        lines.remove(missing);
        assert!(
            claim(&headers(&lines), &route).is_none(),
            "without {missing}"
        );
        lines.extend([full[missing], full[missing]]);
        assert!(claim(&headers(&lines), &route).is_none(), "twice {missing}");
    }
    let long = "n".repeat(9000);
    for (name, value) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "2031-01-01"),
        ("mcp-protocol-version", ""),
        ("mcp-method", ""),
        ("mcp-method", "ping"),
        ("mcp-method", "initialize"),
        ("mcp-method", &long),
        ("mcp-name", "=?base64?x?="),
        ("mcp-name", &format!("=?base64?{}?=", "QUFB".repeat(3000))),
    ] {
        let mut lines = full.to_vec();
        lines.retain(|line| line.0 != name);
        lines.push((name, value));
        assert!(claim(&headers(&lines), &route).is_none(), "{name}: {value}");
    }
    // A method without a target needs no name, and its header is nobody's business.
    let listed = headers(&[full[0], ("mcp-method", "tools/list"), full[2], full[2]]);
    assert_eq!(claim(&listed, &route).expect("a claim").call().name, None);
}

#[test]
fn a_policy_may_want_bodies_to_be_read_first() {
    let good = call_of("tools/call", Some("a"));
    for stream_bytes_max in [0, 1, 4 << 20] {
        let route = bounded(|bounds| bounds.stream_bytes_max = stream_bytes_max);
        assert!(claim(&good, &route).is_none());
    }
    let mut mirror = (*route()).clone();
    mirror.protocol.missing = Missing::Mirror;
    assert!(claim(&good, &mirror).is_none());
    let mut legacy = (*route()).clone();
    legacy.protocol.versions = Versions::of(&[Version::V2025_11_25]);
    assert!(claim(&good, &legacy).is_none());
}

fn good() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
    .to_string()
}

#[test]
fn what_follows_the_message_is_held_within_a_bound() {
    let claimed = call_of("tools/call", Some("a"));
    for (blanks, held) in [
        (0, true),
        (1, true),
        (64, true),
        (65, false),
        (5_000_000, false),
    ] {
        let route = bounded(|bounds| bounds.buffer_bytes = 64);
        let claim = claim(&claimed, &route).expect("a claim");
        let body = good() + &" ".repeat(blanks);
        for size in [1 << 20, 50, 1] {
            let pieces: Vec<_> = body.as_bytes().chunks(size).collect();
            let (outcome, passed) = streamed(&pieces[..pieces.len().min(1000)], &claim, &route);
            match outcome {
                Ok(_) => assert!(held, "{blanks}"),
                Err(told) => {
                    let (telling, id) = *told;
                    assert!(!held, "{blanks}");
                    assert_eq!(
                        (telling.reason, id.as_deref()),
                        ("body_padding", Some(&b"1"[..]))
                    );
                    assert!(passed.len() < good().len(), "{blanks}");
                }
            }
        }
    }
}

#[test]
fn a_body_is_bounded_to_the_byte() {
    let claimed = call_of("tools/call", Some("a"));
    let body = good();
    for (max, fits) in [(body.len(), true), (body.len() - 1, false)] {
        let route = bounded(|bounds| {
            (bounds.stream_bytes_max, bounds.body_bytes_max) = (max, 1);
        });
        let claim = claim(&claimed, &route).expect("a claim");
        for size in [1, 10, 1000] {
            let pieces: Vec<_> = body.as_bytes().chunks(size).collect();
            let (outcome, _) = streamed(&pieces, &claim, &route);
            match outcome {
                Ok(_) => assert!(fits),
                Err(told) => {
                    let (telling, _) = *told;
                    assert!(!fits);
                    assert_eq!(telling.subject(), Some("bounds.stream_bytes_max"));
                }
            }
        }
    }
}

#[test]
fn a_contradiction_goes_no_further_than_the_piece_that_shows_it() {
    let route = route();
    let claim = claim(&call_of("tools/call", Some("b")), &route).expect("a claim");
    let body = good();
    let (before, behind) = body.split_at(body.find("\"name\"").expect("a name"));
    let (outcome, passed) = streamed(&[before.as_bytes(), behind.as_bytes()], &claim, &route);
    assert_eq!(passed, before.as_bytes());
    let (telling, id) = *outcome.expect_err("another name");
    assert_eq!(
        (telling.reason, id.as_deref()),
        ("header_mismatch", Some(&b"1"[..]))
    );
}

/// Reads a body that begins like this and goes on without an end: what is told of it, and how much
/// had been read then.
fn endless(begin: &str, size: usize, route: &Arc<Route>) -> (Telling, Option<Bytes>, usize) {
    let claim = claim(&call_of("tools/call", Some("a")), route).expect("a claim");
    let mut inspection = Inspection::new(claim, route.clone());
    let begin = Bytes::copy_from_slice(begin.as_bytes());
    inspection.read(begin.clone()).expect("nothing worse");
    assert!(inspection.contradicts(), "{begin:?}");
    let mut read = begin.len();
    loop {
        match inspection.read(vec![b'x'; size].into()) {
            Ok(passes) => assert!(passes.is_empty(), "it went on"),
            Err(refused) => {
                assert!(refused.closes, "the rest is not read");
                return (refused.refusal.telling(), refused.id, read - begin.len());
            }
        }
        read += size;
    }
}

#[test]
fn what_is_certain_to_be_refused_is_read_on_within_a_bound() {
    let other_version = meta("2031-01-01");
    let no_text = meta(MODERN).replace(&format!("\"{MODERN}\""), "7");
    for (begin, reason, id, said) in [
        (
            r#"{"id":1,"method":"tools/list","x":""#,
            "header_mismatch",
            Some("1"),
            Some(["Mcp-Method", "tools/call", "tools/list"]),
        ),
        (
            r#"{"params":{"name":"b","x":""#,
            "header_mismatch",
            None,
            Some(["Mcp-Name", "\"a\"", "\"b\""]),
        ),
        (
            &format!(r#"{{"params":{{"name":"b",{other_version},"x":""#),
            "header_mismatch",
            None,
            Some(["MCP-Protocol-Version", MODERN, "2031-01-01"]),
        ),
        (
            &format!(r#"{{"params":{{{no_text},"x":""#),
            "meta_key",
            None,
            None,
        ),
        (
            r#"{"id":"i","params":{"name":7,"x":""#,
            "name_parameter",
            Some("\"i\""),
            None,
        ),
        (
            r#"{"id":1,"id":1,"method":"tools/list","x":""#,
            "invalid_request",
            None,
            None,
        ),
    ] {
        for (max, size, expected) in [(1000, 300, 900), (1000, 500, 1000), (0, 1, 0)] {
            let route = bounded(|bounds| bounds.drain_bytes_max = max);
            let (telling, told, read) = endless(begin, size, &route);
            assert_eq!(read, expected, "{begin}");
            assert_eq!(telling.reason, reason, "{begin}: {telling:?}");
            assert_eq!(told.as_deref(), id.map(str::as_bytes), "{begin}");
            for text in said.iter().flatten() {
                assert!(telling.message.contains(text), "{text}: {telling:?}");
            }
        }
    }
}

#[test]
fn within_the_bound_the_worst_is_told() {
    let claimed = call_of("tools/call", Some("b"));
    let body = good() + "x";
    for (max, reason) in [(body.len(), "not_json"), (0, "header_mismatch")] {
        let route = bounded(|bounds| bounds.drain_bytes_max = max);
        let claim = claim(&claimed, &route).expect("a claim");
        let pieces: Vec<_> = body.as_bytes().chunks(1).collect();
        let (telling, _) = *streamed(&pieces, &claim, &route).0.expect_err("no message");
        assert_eq!(telling.reason, reason, "{telling:?}");
    }
}
