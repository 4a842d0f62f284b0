//! Every sentence of how a message is placed, as a row.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocol::frame::{Bounds, Frame, Paths, scan};
use crate::protocol::head::Fields;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const LATER: &str = "2031-01-01";

/// What a message becomes: its era and version, or the reason of a refusal.
type Outcome = Result<(Era, Option<String>), &'static str>;

fn modern(version: &str) -> Outcome {
    Ok((Era::Modern, Some(version.to_owned())))
}

fn legacy(version: Option<&str>) -> Outcome {
    Ok((Era::Legacy, version.map(str::to_owned)))
}

fn frame(message: &Value) -> Frame {
    let body = Bytes::from(message.to_string());
    scan(body, &Bounds::default(), &Paths::default()).expect("a message")
}

fn meta(version: &Value) -> Value {
    json!({VERSION_KEY: version, CAPABILITIES_KEY: {}})
}

fn request(method: &str, meta: Option<Value>) -> Value {
    let params = meta.map_or(json!({}), |meta| json!({"_meta": meta}));
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn notification(meta: Option<Value>) -> Value {
    let mut message = request("notifications/x", meta);
    message.as_object_mut().expect("an object").remove("id");
    message
}

fn response() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {}})
}

fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let name = HeaderName::from_static("mcp-protocol-version");
        headers.append(name, HeaderValue::from_str(line).expect("a value"));
    }
    headers
}

/// What a route serves.
fn serving(versions: &[Version], missing: Missing) -> Protocol {
    Protocol {
        versions: Versions::of(versions),
        missing,
        ..Protocol::default()
    }
}

fn modern_only() -> Protocol {
    serving(&[Version::V2026_07_28], Missing::Reject)
}

fn legacy_only() -> Protocol {
    serving(&[Version::V2025_11_25], Missing::Reject)
}

fn headerless() -> Protocol {
    serving(&Version::ALL, Missing::Reject)
}

fn told(placed: Result<Placed, Refusal>) -> Outcome {
    match placed {
        Ok(placed) => Ok((placed.era(), placed.version().map(str::to_owned))),
        Err(refusal) => Err(refusal.telling().reason),
    }
}

/// Places a message with these version lines, in a session of this version.
fn placing(
    message: &Value,
    lines: &[&str],
    protocol: &Protocol,
    session: Option<Version>,
) -> Outcome {
    let (frame, headers) = (frame(message), headers(lines));
    let reading = Fields::read(&headers).protocol_version;
    told(place(&Message::of(&frame), reading, protocol, || session))
}

#[test]
fn a_version_in_meta_makes_a_request_modern_whatever_it_is() {
    let mixed = Protocol::default();
    let named = |version: &str| request("tools/list", Some(meta(&json!(version))));
    for version in [MODERN, LATER, LEGACY, "", "x"] {
        let placed = placing(&named(version), &[version], &mixed, None);
        assert_eq!(placed, modern(version), "{version}");
        let session = Some(Version::V2025_11_25);
        let placed = placing(&named(version), &[], &mixed, session);
        assert_eq!(placed, Err("header_missing"), "{version}");
    }
    for (lines, outcome) in [
        (&[LEGACY][..], Err("header_mismatch")),
        (&[MODERN, MODERN], Err("header_repeated")),
        (&["2026-07-28x"], Err("header_mismatch")),
        (&["\t2026-07-28 "], modern(MODERN)),
    ] {
        let placed = placing(&named(MODERN), lines, &mixed, None);
        assert_eq!(placed, outcome, "{lines:?}");
    }
    let mirror = serving(&[Version::V2026_07_28], Missing::Mirror);
    let placed = placing(&named(MODERN), &[], &mirror, None);
    assert_eq!(placed, modern(MODERN));
    let placed = placing(&named(MODERN), &[LEGACY], &mirror, None);
    assert_eq!(placed, Err("header_mismatch"), "missing is not different");
    let placed = placing(&named(MODERN), &[], &legacy_only(), None);
    assert_eq!(placed, Err("unsupported_version"), "before what is missing");
}

#[test]
fn what_meta_must_have_is_asked_of_requests_alone() {
    let mixed = Protocol::default();
    let without = |capabilities: Value| {
        let mut meta = meta(&json!(MODERN));
        match capabilities {
            Value::Null => drop(
                meta.as_object_mut()
                    .expect("an object")
                    .remove(CAPABILITIES_KEY),
            ),
            value => meta[CAPABILITIES_KEY] = value,
        }
        meta
    };
    for capabilities in [Value::Null, json!([]), json!("x"), json!(true)] {
        let asked = request("tools/list", Some(without(capabilities.clone())));
        // Neither header nor body is right; the body is judged first.
        for lines in [&[][..], &[MODERN], &[LEGACY]] {
            let placed = placing(&asked, lines, &mixed, None);
            assert_eq!(placed, Err("meta_key"), "{capabilities} {lines:?}");
        }
        let told = notification(Some(without(capabilities)));
        assert_eq!(placing(&told, &[MODERN], &mixed, None), modern(MODERN));
    }
    for version in [json!(20260728), json!(null), json!({}), json!([MODERN])] {
        for protocol in [&mixed, &modern_only(), &legacy_only(), &headerless()] {
            let asked = request("tools/list", Some(meta(&version)));
            let placed = placing(&asked, &[LEGACY], protocol, None);
            assert_eq!(placed, Err("meta_key"), "{version}");
        }
    }
}

#[test]
fn without_a_version_in_meta_the_header_tells_the_era() {
    let mixed = Protocol::default();
    let other_keys = json!({"progressToken": 1, "io.modelcontextprotocol/other": {}});
    for asked in [
        request("tools/list", None),
        request("tools/list", Some(other_keys)),
    ] {
        for (line, outcome) in [
            (MODERN, Err("meta_key")),
            (LATER, Err("meta_key")),
            (LEGACY, legacy(Some(LEGACY))),
            // Whether the route serves it is judged later.
            ("2024-11-05", legacy(Some("2024-11-05"))),
            ("2025-01-01", legacy(Some("2025-01-01"))),
            ("draft", legacy(Some("draft"))),
            ("", legacy(Some(""))),
        ] {
            assert_eq!(placing(&asked, &[line], &mixed, None), outcome, "{line}");
        }
        let repeated = placing(&asked, &[LEGACY, LEGACY], &mixed, None);
        assert_eq!(repeated, Err("header_repeated"));
        let placed = placing(&asked, &[MODERN], &legacy_only(), None);
        assert_eq!(placed, Err("unsupported_version"));
    }
    let notified = placing(&notification(None), &[MODERN], &mixed, None);
    assert_eq!(notified, modern(MODERN));
    let answered = placing(&response(), &[MODERN], &mixed, None);
    assert_eq!(answered, Err("response_not_allowed"));
    let answered = placing(&response(), &[LEGACY], &mixed, None);
    assert_eq!(answered, legacy(Some(LEGACY)));
    let mut named = response();
    named["params"] = json!({"_meta": meta(&json!(MODERN))});
    for (lines, outcome) in [
        (&[][..], "response_not_allowed"),
        (&[MODERN], "response_not_allowed"),
        (&[LEGACY], "header_mismatch"),
        (&[MODERN, MODERN], "header_repeated"),
    ] {
        let answered = placing(&named, lines, &mixed, None);
        assert_eq!(answered, Err(outcome), "{lines:?}");
    }
    let mut headers = HeaderMap::new();
    let bytes = HeaderValue::from_bytes(b"2025-11-25\xe9").expect("a value");
    headers.insert("mcp-protocol-version", bytes);
    let frame = frame(&request("tools/list", None));
    let reading = Fields::read(&headers).protocol_version;
    let placed = place(&Message::of(&frame), reading, &mixed, || None);
    assert_eq!(told(placed), Err("header_malformed"));
}

#[test]
fn a_handshake_is_legacy_unless_it_says_otherwise() {
    for protocol in [&Protocol::default(), &modern_only(), &legacy_only()] {
        let handshake = request(method::INITIALIZE, None);
        let session = Some(Version::V2025_06_18);
        // It opens a session and belongs to none.
        let placed = placing(&handshake, &[], protocol, session);
        assert_eq!(placed, legacy(None));
        let placed = placing(&handshake, &[LEGACY], protocol, None);
        assert_eq!(placed, legacy(Some(LEGACY)));
        let placed = placing(&handshake, &[MODERN], protocol, None);
        assert_eq!(placed, Err("header_mismatch"));
    }
    let modern_envelope = request(method::INITIALIZE, Some(meta(&json!(MODERN))));
    let placed = placing(&modern_envelope, &[MODERN], &modern_only(), None);
    assert_eq!(placed, modern(MODERN));
}

#[test]
fn where_nothing_names_a_version_its_session_or_the_route_does() {
    let session = Some(Version::V2025_06_18);
    for message in [request("tools/list", None), notification(None), response()] {
        for (protocol, session, outcome) in [
            (&Protocol::default(), None, Err("header_missing")),
            (&modern_only(), None, Err("header_missing")),
            (&headerless(), None, legacy(None)),
            (&Protocol::default(), session, legacy(Some("2025-06-18"))),
            (&headerless(), session, legacy(Some("2025-06-18"))),
        ] {
            assert_eq!(placing(&message, &[], protocol, session), outcome);
        }
    }
}

#[test]
fn a_request_without_a_body_is_placed_by_its_header_or_session() {
    let session = Some(Version::V2025_11_25);
    for (lines, protocol, session, outcome) in [
        (
            &[LEGACY][..],
            Protocol::default(),
            None,
            legacy(Some(LEGACY)),
        ),
        (&[], Protocol::default(), session, legacy(Some(LEGACY))),
        (&[], headerless(), None, legacy(None)),
        (&[], Protocol::default(), None, Err("method_not_allowed")),
        (
            &[MODERN],
            Protocol::default(),
            session,
            Err("method_not_allowed"),
        ),
        (&[LATER], headerless(), session, Err("method_not_allowed")),
        (&[LEGACY], modern_only(), session, Err("method_not_allowed")),
        (&[], modern_only(), session, Err("method_not_allowed")),
        (
            &["2025-06-18"],
            legacy_only(),
            None,
            Err("unsupported_version"),
        ),
        (
            &["draft"],
            Protocol::default(),
            session,
            Err("unsupported_version"),
        ),
        (
            &[LEGACY, LEGACY],
            Protocol::default(),
            session,
            Err("header_repeated"),
        ),
    ] {
        let headers = headers(lines);
        let reading = Fields::read(&headers).protocol_version;
        let placed = place_bodiless(reading, &protocol, || session).map(|accepted| accepted.0);
        assert_eq!(told(placed), outcome, "{lines:?}, {protocol:?}");
    }
    assert_eq!(allow(&modern_only()), "POST, OPTIONS");
    assert_eq!(allow(&Protocol::default()), "POST, GET, DELETE, OPTIONS");
}

/// Whether a placed message is accepted: the code of the refusal, and the versions it lists.
fn accepting(message: &Value, lines: &[&str], protocol: &Protocol) -> Result<(), (i32, String)> {
    let (frame, headers) = (frame(message), headers(lines));
    let message = Message::of(&frame);
    let reading = Fields::read(&headers).protocol_version;
    let placed = place(&message, reading, protocol, || None).expect("a place");
    let accepted = placed.accept(&message, protocol).map(drop);
    accepted.map_err(|refusal| {
        let telling = refusal.telling();
        let data = serde_json::to_value(&telling.data).expect("data");
        (telling.code, data["supported"].to_string())
    })
}

#[test]
fn the_version_is_judged_before_the_method() {
    let modern_list = format!("[\"{MODERN}\"]");
    let legacy_list = format!("[\"{LEGACY}\"]");
    let both = format!("[\"{MODERN}\",\"{LEGACY}\",\"2025-06-18\"]");
    let mixed = Protocol::default();
    let named = |method: &str, version: &str| request(method, Some(meta(&json!(version))));
    let bare = |method: &str| request(method, None);
    for (message, line, protocol, outcome) in [
        (named("tools/list", MODERN), MODERN, &mixed, Ok(())),
        (named("x/unknown", MODERN), MODERN, &mixed, Ok(())),
        (
            named("ping", MODERN),
            MODERN,
            &mixed,
            Err((-32601, both.clone())),
        ),
        (
            named("ping", LATER),
            LATER,
            &mixed,
            Err((-32022, both.clone())),
        ),
        // A legacy version is none that could be named there.
        (
            named("ping", LEGACY),
            LEGACY,
            &mixed,
            Err((-32022, modern_list.clone())),
        ),
        (
            named("ping", LEGACY),
            LEGACY,
            &modern_only(),
            Err((-32022, modern_list.clone())),
        ),
        (bare("ping"), LEGACY, &mixed, Ok(())),
        (
            bare("ping"),
            "2024-11-05",
            &mixed,
            Err((-32022, both.clone())),
        ),
        (
            bare("ping"),
            "2025-06-18",
            &legacy_only(),
            Err((-32600, legacy_list)),
        ),
        (
            bare("ping"),
            LEGACY,
            &modern_only(),
            Err((-32022, modern_list.clone())),
        ),
        (bare(method::INITIALIZE), LEGACY, &mixed, Ok(())),
        (
            bare(method::INITIALIZE),
            LEGACY,
            &modern_only(),
            Err((-32022, modern_list)),
        ),
        (notification(None), MODERN, &mixed, Ok(())),
    ] {
        let accepted = accepting(&message, &[line], protocol);
        assert_eq!(accepted, outcome, "{message} {line}");
    }
}

#[test]
fn a_later_date_signals_a_modern_request_and_nothing_else_does() {
    for (text, modern) in [
        (MODERN, true),
        ("2026-07-29", true),
        ("9999-99-99", true),
        ("2026-07-27", false),
        ("2025-11-25", false),
        ("1999-01-01", false),
        ("2026-07-28 ", false),
        ("2026-07-281", false),
        ("2027/01/01", false),
        ("20270101xx", false),
        ("draft-2027", false),
        ("", false),
    ] {
        assert_eq!(Named::of(text).signals_modern(), modern, "{text:?}");
    }
}

proptest! {
    /// Whatever stands beside it, a modern signal never makes a legacy message: nobody slips past
    /// the modern rules by contradicting himself.
    #[test]
    fn a_modern_signal_is_never_overlooked(
        kind in 0..3,
        method in prop::sample::select(vec!["tools/call", "initialize", "ping", "server/discover"]),
        named in prop::option::of(prop::sample::select(vec![MODERN, LATER, LEGACY, "", "x"])),
        lines in prop::collection::vec(
            prop::sample::select(vec![MODERN, LATER, LEGACY, "2024-11-05", "", "x"]), 0..3),
        versions in prop::sample::subsequence(Version::ALL.to_vec(), 1..=5),
        mirror in any::<bool>(),
        session in prop::option::of(prop::sample::select(Version::ALL[..4].to_vec())),
    ) {
        let meta = named.map(|version| meta(&json!(version)));
        let message = match kind {
            0 => request(method, meta),
            1 => notification(meta),
            _ => response(),
        };
        let missing = if mirror { Missing::Mirror } else { Missing::Reject };
        let protocol = serving(&versions, missing);
        let in_body = named.is_some() && kind < 2;
        let in_header = lines.iter().any(|line| Named::of(line).signals_modern());
        match placing(&message, &lines, &protocol, session) {
            Ok((Era::Legacy, _)) => prop_assert!(!in_body && !in_header),
            Ok((Era::Modern, version)) => {
                prop_assert!(in_body || in_header);
                // What is in force is what the body says, and no header says otherwise.
                let version = version.expect("a version");
                prop_assert_eq!(named.filter(|_| in_body).unwrap_or(version.as_str()), &version);
                prop_assert!(lines.len() < 2);
                prop_assert!(lines.iter().all(|line| *line == version));
            }
            Err(_) => {}
        }
    }
}
