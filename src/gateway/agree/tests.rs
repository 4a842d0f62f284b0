//! Headers against body, as tables; and what holds whatever the headers say.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::gateway::place;
use crate::policy::plan::{
    Bounds, Cors, Deadlines, Hosts, LegacyRefusals, Origins, Streams, Upstream,
};
use crate::protocol::frame::{self, Frame, Paths};
use crate::protocol::version::{Version, Versions};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const LONG: usize = 3100;

fn route(missing: Missing, legacy: LegacyHeaders) -> Route {
    Route {
        name: "main".into(),
        path: Route::PATH.into(),
        pass: None,
        hosts: Hosts::Any,
        origins: Origins::None,
        cors: Cors::default(),
        upstream: Arc::new(Upstream::at("up", "up", 80, "/mcp")),
        protocol: Protocol {
            versions: Versions::of(&Version::ALL),
            missing,
            legacy,
            legacy_refusals: LegacyRefusals::InBand,
        },
        bounds: Bounds::default(),
        streams: Streams::default(),
        deadline: Deadlines::default(),
        cache: crate::policy::plan::Cache::default(),
        catalog: crate::policy::plan::Catalog::default(),
        pin: None,
    }
}

fn strict() -> Route {
    route(Missing::Reject, LegacyHeaders::Verify)
}

fn frame(message: &Value) -> Frame {
    let body = Bytes::from(message.to_string());
    frame::scan(body, &frame::Bounds::default(), &Paths::default()).expect("a message")
}

/// A modern message; a notification if it has no id.
fn modern(method: &str, id: Option<u32>, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    legacy(method, id, params)
}

fn legacy(method: &str, id: Option<u32>, params: Value) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message
}

fn call(name: &str) -> Value {
    modern("tools/call", Some(1), json!({"name": name}))
}

type Head<'a> = Vec<(&'a str, &'a [u8])>;

fn head_map(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    headers
}

/// What becomes of a message with these lines: the head that goes upstream, or the reason of a
/// refusal.
fn agreeing(
    message: &Value,
    lines: &[(&str, &[u8])],
    route: &Route,
) -> Result<HeaderMap, &'static str> {
    let (frame, mut headers) = (frame(message), head_map(lines));
    let message = Message::of(&frame);
    let fields = Fields::read(&headers);
    let version = fields.protocol_version;
    let routing = place::place(&message, version, &route.protocol, || None)
        .and_then(|placed| {
            let routing = agree(&placed, &message, &fields, &headers, route)?;
            placed.accept(&message, &route.protocol)?;
            Ok(routing)
        })
        .map_err(|refusal| refusal.telling().reason)?;
    routing.apply(&mut headers);
    Ok(headers)
}

/// The values of one header, as text that shows every byte.
fn values(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).iter();
    lines
        .map(|value| value.as_bytes().escape_ascii().to_string())
        .collect()
}

#[test]
fn a_modern_request_needs_its_lines_and_no_others() {
    let all: [(&str, &[u8]); 3] = [
        ("mcp-protocol-version", b"2026-07-28"),
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"echo"),
    ];
    assert!(agreeing(&call("echo"), &all, &strict()).is_ok());
    for (at, (name, _)) in all.iter().enumerate() {
        let mut lines = all.to_vec();
        lines.remove(at);
        let refused = agreeing(&call("echo"), &lines, &strict());
        assert_eq!(refused, Err("header_missing"), "{name}");
        lines.extend([all[at], all[at]]);
        let refused = agreeing(&call("echo"), &lines, &strict());
        assert_eq!(refused, Err("header_repeated"), "{name}");
        let mirror = route(Missing::Mirror, LegacyHeaders::Verify);
        let refused = agreeing(&call("echo"), &lines, &mirror);
        assert_eq!(refused, Err("header_repeated"), "{name}");
    }
    let mirror = route(Missing::Mirror, LegacyHeaders::Verify);
    let supplied = agreeing(&call("echo"), &[], &mirror).expect("a head");
    assert_eq!(supplied, head_map(&all));
    // A line that nothing in the body answers to is removed, and never refused.
    let list = modern("tools/list", Some(1), json!({}));
    for stray in [&[b"x".as_slice()][..], &[b"x", b"y"], &[b"=?base64?!?="]] {
        let mut lines = vec![all[0], ("mcp-method", b"tools/list".as_slice())];
        lines.extend(stray.iter().map(|value| ("mcp-name", *value)));
        let head = agreeing(&list, &lines, &strict()).expect("a head");
        assert_eq!(head, head_map(&lines[..2]));
    }
}

#[test]
fn a_name_is_compared_once_it_is_decoded() {
    for (name, line, outcome) in [
        ("echo", &b"echo"[..], Ok("echo")),
        ("echo", b"  echo\t", Ok("  echo\\t")),
        ("echo", b"=?base64?ZWNobw==?=", Ok("echo")),
        ("echo", b"Echo", Err("header_mismatch")),
        ("echo", b"", Err("header_mismatch")),
        ("echo", b"=?base64?ZWNobw?=", Err("header_malformed")),
        ("echo", b"=?BASE64?ZWNobw==?=", Err("header_mismatch")),
        ("Seattle, WA", b"Seattle, WA", Ok("Seattle, WA")),
        (
            "caf\u{e9}",
            b"=?base64?Y2Fmw6k=?=",
            Ok("=?base64?Y2Fmw6k=?="),
        ),
        ("caf\u{e9}", b"caf\xc3\xa9", Err("header_malformed")),
        (
            "=?base64?YQ==?=",
            b"=?base64?YQ==?=",
            Err("header_mismatch"),
        ),
        (
            "=?base64?YQ==?=",
            b"=?base64?PT9iYXNlNjQ/WVE9PT89?=",
            Ok("=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ),
        ("", b"", Ok("")),
        ("", b"=?base64??=", Ok("")),
        (" a", b"a", Err("header_mismatch")),
        (" a", b"=?base64?IGE=?=", Ok("=?base64?IGE=?=")),
    ] {
        let lines: Head<'_> = vec![
            ("mcp-protocol-version", b"2026-07-28"),
            ("mcp-method", b"tools/call"),
            ("mcp-name", line),
        ];
        let head = agreeing(&call(name), &lines, &strict());
        let came = head.map(|head| values(&head, header::NAME));
        let outcome = outcome.map(|value| vec![value.to_owned()]);
        assert_eq!(came, outcome, "{name} in {}", line.escape_ascii());
    }
}

#[test]
fn the_body_must_have_what_its_headers_repeat() {
    for (message, reason) in [
        (modern("tools/call", Some(1), json!({})), "name_parameter"),
        (modern("tools/call", None, json!({})), "name_parameter"),
        (
            modern("prompts/get", Some(1), json!({"name": 1})),
            "name_parameter",
        ),
        (
            modern("resources/read", Some(1), json!({"name": "x"})),
            "name_parameter",
        ),
        (
            modern("tasks/get", Some(1), json!({"taskId": null})),
            "name_parameter",
        ),
        (modern("caf\u{e9}", Some(1), json!({})), "method_text"),
        (modern(" tools/list", Some(1), json!({})), "method_text"),
        (modern("=?base64?YQ==?=", Some(1), json!({})), "method_text"),
    ] {
        for missing in [Missing::Reject, Missing::Mirror] {
            let route = route(missing, LegacyHeaders::Verify);
            let lines: Head<'_> = vec![("mcp-protocol-version", b"2026-07-28")];
            let refused = agreeing(&message, &lines, &route);
            assert_eq!(refused, Err(reason), "{message}");
        }
    }
}

#[test]
fn a_modern_notification_gets_the_lines_that_it_lacks() {
    let bare = legacy("notifications/x", None, json!({}));
    let version: (&str, &[u8]) = ("mcp-protocol-version", b"2026-07-28");
    let method: (&str, &[u8]) = ("mcp-method", b"notifications/x");
    for message in [bare, modern("notifications/x", None, json!({}))] {
        let head = agreeing(&message, &[version], &strict()).expect("a head");
        assert_eq!(head, head_map(&[version, method]));
        let wrong = [version, ("mcp-method", b"notifications/y".as_slice())];
        let refused = agreeing(&message, &wrong, &strict());
        assert_eq!(refused, Err("header_mismatch"));
    }
    let named = modern("notifications/x", None, json!({}));
    let head = agreeing(&named, &[], &strict()).expect("a head");
    assert_eq!(head, head_map(&[version, method]), "the version too");
}

#[test]
fn a_legacy_route_verifies_drops_or_refuses_what_nobody_validated() {
    let version: (&str, &[u8]) = ("mcp-protocol-version", b"2025-11-25");
    let message = legacy("tools/call", Some(1), json!({"name": "echo"}));
    let rebuilt = head_map(&[
        version,
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"echo"),
    ]);
    let ok = Ok(rebuilt);
    for (lines, verify, refuse) in [
        (vec![], ok.clone(), ok.clone()),
        (
            vec![("mcp-method", &b"tools/call"[..])],
            ok.clone(),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-name", b"echo")],
            ok.clone(),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-name", b"=?base64?ZWNobw==?=")],
            ok.clone(),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-name", b"other")],
            Err("header_mismatch"),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-method", b"x")],
            Err("header_mismatch"),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-name", b"echo"), ("mcp-name", b"echo")],
            Err("header_repeated"),
            Err("legacy_header"),
        ),
        (
            vec![("mcp-name", b"=?base64?!?=")],
            Err("header_malformed"),
            Err("legacy_header"),
        ),
    ] {
        let mut lines: Head<'_> = lines;
        lines.push(version);
        for (rule, outcome) in [
            (LegacyHeaders::Verify, verify),
            (LegacyHeaders::Drop, ok.clone()),
            (LegacyHeaders::Refuse, refuse),
        ] {
            let head = agreeing(&message, &lines, &route(Missing::Reject, rule));
            assert_eq!(head, outcome, "{rule:?} {lines:?}");
        }
        // Two sessions are never passed on, whatever the rule.
        lines.extend([("mcp-session-id", &b"a"[..]), ("mcp-session-id", b"a")]);
        let drop = route(Missing::Reject, LegacyHeaders::Drop);
        assert_eq!(agreeing(&message, &lines, &drop), Err("header_repeated"));
    }
    let param = [version, ("mcp-param-region", &b"x"[..])];
    let refusing = route(Missing::Reject, LegacyHeaders::Refuse);
    assert_eq!(agreeing(&message, &param, &refusing), Err("legacy_header"));
}

#[test]
fn a_legacy_line_that_a_header_cannot_say_is_left_out() {
    let version: (&str, &[u8]) = ("mcp-protocol-version", b"2025-11-25");
    let long = "n".repeat(LEGACY_NAME_BYTES_MAX + 1);
    for (method, params, lines) in [
        (
            "tools/call",
            json!({"name": long}),
            vec![("mcp-method", &b"tools/call"[..])],
        ),
        (
            "tools/call",
            json!({"name": 7}),
            vec![("mcp-method", b"tools/call")],
        ),
        ("tools/call", json!({}), vec![("mcp-method", b"tools/call")]),
        (
            "tools/list",
            json!({"name": "x"}),
            vec![("mcp-method", b"tools/list")],
        ),
        ("caf\u{e9}", json!({}), vec![]),
    ] {
        let message = legacy(method, Some(1), params);
        let head = agreeing(&message, &[version], &strict()).expect("a head");
        let expected: Head<'_> = std::iter::once(version).chain(lines).collect();
        assert_eq!(head, head_map(&expected), "{message}");
    }
    // Not even where the client said the same.
    let message = legacy("caf\u{e9}", Some(1), json!({}));
    let lines = [version, ("mcp-method", "caf\u{e9}".as_bytes())];
    let head = agreeing(&message, &lines, &strict()).expect("a head");
    assert_eq!(head, head_map(&[version]));
}

#[test]
fn without_a_body_no_line_is_confirmed() {
    let lines: Head<'_> = vec![
        ("mcp-protocol-version", b"2025-11-25"),
        ("mcp-session-id", b"s"),
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"echo"),
    ];
    let mut headers = head_map(&lines);
    let fields = Fields::read(&headers);
    for (rule, passes) in [
        (LegacyHeaders::Verify, true),
        (LegacyHeaders::Drop, true),
        (LegacyHeaders::Refuse, false),
    ] {
        let protocol = route(Missing::Reject, rule).protocol;
        let agreed = agree_bodiless(&fields, &headers, &protocol);
        assert_eq!(agreed.is_ok(), passes, "{rule:?}");
    }
    let agreed = agree_bodiless(&fields, &headers, &strict().protocol).expect("a routing");
    assert!(!agreed.passes_params());
    agreed.apply(&mut headers);
    assert_eq!(headers, head_map(&lines[..2]));
    let twice = head_map(&[("mcp-session-id", b"a"), ("mcp-session-id", b"b")]);
    let refused = agree_bodiless(&Fields::read(&twice), &twice, &strict().protocol);
    assert!(matches!(refused, Err(HeaderFault::Repeated { .. })));
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z/ =?\u{e9}]{0,6}",
        1 => any::<String>(),
        1 => Just("=?base64?ZWNobw==?=".to_owned()),
        1 => (LONG..LONG + 2000).prop_map(|length| "n".repeat(length)),
    ]
}

fn methods() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "tools/call", "prompts/get", "resources/read", "tasks/get", "tools/list",
            "notifications/x", "initialize", "=?base64?YQ==?=", " x",
        ]).prop_map(str::to_owned),
        1 => "[a-z/\u{e9}]{1,8}",
    ]
}

/// Lines of one header: none or some, each of them right, right in another form, or wrong.
fn lines_of(name: &'static str) -> impl Strategy<Value = Vec<(&'static str, usize)>> {
    let line = (Just(name), 0..7_usize);
    prop_oneof![
        5 => prop::collection::vec(line.clone(), 0..2),
        1 => prop::collection::vec(line, 2..4),
    ]
}

/// The value of a line that is meant to repeat `text`, in one of the ways above.
fn written(text: &str, way: usize) -> Vec<u8> {
    let encoded = header::encode(text).as_bytes().to_vec();
    match way {
        0..=2 => encoded,
        3 => text.as_bytes().to_vec(),
        4 => [b" ", encoded.as_slice(), b"\t "].concat(),
        5 => header::encode(&format!("{text}x")).as_bytes().to_vec(),
        _ => b"=?base64?!!?=".to_vec(),
    }
}

proptest! {
    /// Whatever the headers say: what passes has one line for each header at most, with the value
    /// that the body has, in a form that every reader reads alike.
    #[test]
    fn what_passes_says_what_the_body_says(
        method in methods(),
        name in names(),
        id in prop::option::of(Just(1)),
        is_modern in any::<bool>(),
        versions in lines_of("mcp-protocol-version"),
        method_lines in lines_of("mcp-method"),
        name_lines in lines_of("mcp-name"),
        missing in prop::sample::select(vec![Missing::Reject, Missing::Mirror]),
        rule in prop::sample::select(vec![
            LegacyHeaders::Verify, LegacyHeaders::Drop, LegacyHeaders::Refuse,
        ]),
    ) {
        let params = json!({"name": name, "uri": name, "taskId": name});
        let (message, version) = match is_modern {
            true => (modern(&method, id, params), MODERN),
            false => (legacy(&method, id, params), LEGACY),
        };
        let lines: Vec<(&str, Vec<u8>)> = versions.iter().map(|(n, way)| (*n, written(version, *way)))
            .chain(method_lines.iter().map(|(n, way)| (*n, written(&method, *way))))
            .chain(name_lines.iter().map(|(n, way)| (*n, written(&name, *way))))
            .filter(|(_, value)| HeaderValue::from_bytes(value).is_ok())
            .collect();
        let borrowed: Vec<_> = lines.iter().map(|(n, value)| (*n, value.as_slice())).collect();
        let Ok(head) = agreeing(&message, &borrowed, &route(missing, rule)) else {
            return Ok(());
        };
        let frame = frame(&message);
        let message = Message::of(&frame);
        let said = |name: HeaderName| -> Result<Vec<String>, TestCaseError> {
            let lines = head.get_all(name).iter();
            lines.map(|value| {
                let decoded = header::decode(value.as_bytes().trim_ascii(), usize::MAX / 4);
                decoded.map(|text| text.into_owned()).map_err(|why| TestCaseError::fail(why.to_string()))
            }).collect()
        };
        let expects_method = is_modern || header::stands_plain(&method);
        let method = Some(method).filter(|_| expects_method);
        prop_assert_eq!(said(header::METHOD)?, Vec::from_iter(method));
        let fits = |name: &&str| is_modern || header::encoded_len(name) <= LEGACY_NAME_BYTES_MAX;
        let name = message.name().filter(fits).map(str::to_owned);
        prop_assert_eq!(said(header::NAME)?, Vec::from_iter(name));
        let versions = said(header::PROTOCOL_VERSION)?;
        prop_assert!(versions == [version] || (versions.is_empty() && !is_modern));
    }
}
