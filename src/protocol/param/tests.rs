use super::*;
use bytes::Bytes;
use proptest::prelude::*;

use crate::protocol::frame::{self, Bounds, Frame, Scanner};

const MAX: usize = 8192;

fn region() -> Annotations {
    let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    Annotations::read(schema).unwrap()
}

/// A call with these members of `arguments`.
fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"q","arguments":{{{arguments}}}}}}}"#
    )
}

fn scanned(annotations: &Annotations, arguments: &str) -> Frame {
    let body = Bytes::from(call(arguments));
    frame::scan(body, &Bounds::default(), annotations.paths()).unwrap()
}

/// What becomes of a region beside one line, or none.
fn judge(raw: Option<&str>, line: Option<&[u8]>) -> Result<Verdict, HeaderFault> {
    let annotations = region();
    let arguments = raw.map(|raw| format!(r#""region":{raw}"#));
    let frame = scanned(&annotations, &arguments.unwrap_or_default());
    let reading = line.map_or(Reading::Absent, Reading::Once);
    let annotation = annotations.iter().next().unwrap();
    annotation.judge(frame.argument(0), reading, MAX)
}

#[track_caller]
fn agrees(raw: &str, line: &str) {
    let verdict = judge(Some(raw), Some(line.as_bytes()));
    assert!(matches!(verdict, Ok(Verdict::Agree)), "{raw}: {verdict:?}");
}

#[track_caller]
fn respelled(raw: &str, line: &str, written: &str) {
    match judge(Some(raw), Some(line.as_bytes())) {
        Ok(Verdict::Respelled(value)) => assert_eq!(value, written),
        verdict => panic!("{raw}: {verdict:?}"),
    }
}

#[track_caller]
fn supplied(raw: &str, written: &str) {
    match judge(Some(raw), None) {
        Ok(Verdict::Missing { value, fault }) => {
            assert_eq!(value, written);
            assert!(
                matches!(fault, HeaderFault::Missing { name, .. } if name == "Mcp-Param-Region")
            );
        }
        verdict => panic!("{raw}: {verdict:?}"),
    }
}

#[test]
fn strings_are_compared_as_they_are_once_decoded() {
    agrees(r#""us-west1""#, "us-west1");
    agrees(r#""us\u002dwest1""#, "us-west1");
    agrees(r#""Hello, 世界""#, "=?base64?SGVsbG8sIOS4lueVjA==?=");
    agrees(r#""42""#, "42");
    agrees(r#""=?base64?SGVsbG8=""#, "=?base64?SGVsbG8=");
    agrees(r#""""#, "=?base64??=");
    respelled(r#""Hello""#, "=?base64?SGVsbG8=?=", "Hello");
    respelled(r#""""#, "", "=?base64??=");
    for line in [
        "US-WEST1",
        "us-west",
        "",
        "us-west1,us-west1",
        "\"us-west1\"",
    ] {
        let verdict = judge(Some(r#""us-west1""#), Some(line.as_bytes()));
        assert!(
            matches!(verdict, Err(HeaderFault::Mismatch { .. })),
            "{line}"
        );
    }
    // A string is no number: 42 and 42.0 are two strings.
    let verdict = judge(Some(r#""42""#), Some(b"42.0"));
    assert!(matches!(verdict, Err(HeaderFault::Mismatch { .. })));
}

#[test]
fn booleans_are_words() {
    agrees("true", "true");
    agrees("false", "false");
    respelled("true", "=?base64?dHJ1ZQ==?=", "true");
    for line in ["True", "1", "false", ""] {
        let verdict = judge(Some("true"), Some(line.as_bytes()));
        assert!(
            matches!(verdict, Err(HeaderFault::Mismatch { .. })),
            "{line}"
        );
    }
}

#[test]
fn numbers_are_compared_exactly() {
    agrees("42", "42");
    agrees("42.0", "42.0");
    agrees("1e-07", "1e-07");
    respelled("42", "42.0", "42");
    respelled("42", "420e-1", "42");
    respelled("4.2e1", "42.0", "42");
    respelled("42", "=?base64?NDI=?=", "42");
    for (raw, line) in [
        ("42", "43"),
        ("42", "-42"),
        ("9007199254740993", "9007199254740992"),
        ("9007199254740993", "9007199254740993.5"),
        ("42", "1e9999999999"),
    ] {
        let verdict = judge(Some(raw), Some(line.as_bytes()));
        assert!(
            matches!(verdict, Err(HeaderFault::Mismatch { .. })),
            "{line}"
        );
    }
    for line in [
        "+42",
        "0x2a",
        "042",
        "",
        "4 2",
        "forty-two",
        "=?base64?IDQy?=",
        "42abc",
    ] {
        let verdict = judge(Some("42"), Some(line.as_bytes()));
        let malformed = matches!(
            verdict,
            Err(HeaderFault::Malformed {
                why: Malformed::Number,
                ..
            })
        );
        assert!(malformed, "{line}");
    }
}

#[test]
fn what_cannot_be_decoded_is_malformed() {
    for (line, wrong) in [
        (&b"=?base64?SGVsbG8?="[..], Malformed::Base64),
        (b"=?base64?SGVs!!!bG8=?=", Malformed::Base64),
        (b"=?base64?/w==?=", Malformed::Utf8),
        (b"h\xc3\xa9llo", Malformed::Byte),
    ] {
        match judge(Some(r#""Hello""#), Some(line)) {
            Err(HeaderFault::Malformed { why, .. }) => assert_eq!(why, wrong),
            verdict => panic!("{verdict:?}"),
        }
    }
}

#[test]
fn a_missing_header_can_be_supplied() {
    supplied(r#""us-west1""#, "us-west1");
    supplied(r#"" padded ""#, "=?base64?IHBhZGRlZCA=?=");
    supplied(r#""line1\nline2""#, "=?base64?bGluZTEKbGluZTI=?=");
    supplied(
        r#""=?base64?literal?=""#,
        "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
    );
    supplied(r#""""#, "=?base64??=");
    supplied("42", "42");
    supplied("4.2e1", "42");
    supplied("-0.5", "-0.5");
    supplied("9007199254740991", "9007199254740991");
    supplied("false", "false");
}

#[test]
fn an_integer_that_readers_round_is_absent_or_exact() {
    for raw in ["9007199254740993", "-9007199254740993", "1e300"] {
        let verdict = judge(Some(raw), None);
        assert!(matches!(verdict, Ok(Verdict::Agree)), "{raw}: {verdict:?}");
        agrees(raw, raw);
    }
}

#[test]
fn no_header_stands_beside_what_it_cannot_repeat() {
    for raw in [None, Some("null"), Some("[]"), Some(r#"{"a":1}"#)] {
        let verdict = judge(raw, None);
        assert!(matches!(verdict, Ok(Verdict::Agree)), "{raw:?}");
        for line in [&b"us-west1"[..], b"", b"null", b"\xff"] {
            let verdict = judge(raw, Some(line));
            assert!(
                matches!(verdict, Err(HeaderFault::Unexpected { .. })),
                "{raw:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let long = format!(r#""{}""#, "a".repeat(MAX));
    let huge = "1e9999999999";
    for (raw, wrong) in [
        (long.as_str(), Unchecked::TooLong { max: MAX }),
        (r#""\ud800""#, Unchecked::Surrogate),
        (huge, Unchecked::Exponent),
    ] {
        for line in [None, Some(&b"a"[..])] {
            match judge(Some(raw), line) {
                Err(HeaderFault::Unchecked { why, .. }) => assert_eq!(why, wrong),
                verdict => panic!("{verdict:?}"),
            }
        }
    }
}

#[test]
fn a_body_that_passes_by_is_judged_like_one_that_is_held() {
    let annotations = region();
    let bounds = Bounds {
        name_bytes_max: 16,
        ..Bounds::default()
    };
    for text in ["a".repeat(14), "a".repeat(15), "a".repeat(100)] {
        let body = call(&format!(r#""region":"{text}""#));
        let mut scanner = Scanner::new(&bounds, annotations.paths());
        scanner.push(body.as_bytes()).unwrap();
        let passed = scanner.finish().unwrap();
        let held = frame::scan(Bytes::from(body), &bounds, annotations.paths()).unwrap();
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(&text).unwrap();
        headers.insert("mcp-param-region", value);
        let judged = [&passed, &*held].map(|outline| {
            let lines = annotations.agree(outline, &headers, bounds.name_bytes_max, false);
            lines.map_err(|fault| format!("{fault:?}"))
        });
        assert_eq!(judged[0], judged[1]);
        assert_eq!(judged[0].is_ok(), text.len() <= 14, "{judged:?}");
    }
}

#[test]
fn all_headers_of_a_call_are_judged_and_written() {
    let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
        "where":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
        "dry":{"type":"boolean","x-mcp-header":"Dry"}}}"#;
    let annotations = Annotations::read(schema).unwrap();
    let frame = scanned(&annotations, r#""where":{"n":7},"region":"a","dry":null"#);
    let agree = |lines: &[(&'static str, &'static str)], supplies| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        annotations.agree(&frame, &headers, MAX, supplies)
    };
    let written = |lines: Vec<(HeaderName, HeaderValue)>| -> Vec<String> {
        let lines = lines.iter();
        lines
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    };
    let both = [("mcp-param-region", "a"), ("mcp-param-n", "7")];
    assert!(written(agree(&both, false).unwrap()).is_empty());
    let other = [
        ("mcp-param-region", "a"),
        ("mcp-param-n", "7.0"),
        ("mcp-param-other", "x"),
    ];
    assert_eq!(written(agree(&other, false).unwrap()), ["mcp-param-n: 7"]);
    assert_eq!(
        written(agree(&[], true).unwrap()),
        ["mcp-param-region: a", "mcp-param-n: 7"]
    );
    assert!(
        matches!(agree(&both[..1], false), Err(HeaderFault::Missing { name, .. }) if name == "Mcp-Param-N")
    );
    let twice = [both[0], both[0], both[1]];
    assert!(matches!(
        agree(&twice, true),
        Err(HeaderFault::Repeated { .. })
    ));
    let unexpected = [both[0], both[1], ("mcp-param-dry", "false")];
    assert!(matches!(
        agree(&unexpected, true),
        Err(HeaderFault::Unexpected { .. })
    ));
}

#[test]
fn an_annotation_knows_its_names() {
    let schema =
        r#"{"properties":{"w":{"properties":{"z":{"type":"string","x-mcp-header":"My-Zone"}}}}}"#;
    let annotations = Annotations::read(schema).unwrap();
    let zone = annotations.iter().next().unwrap();
    assert_eq!(zone.header(), "mcp-param-my-zone");
    assert_eq!(
        (zone.spelled(), zone.name()),
        ("Mcp-Param-My-Zone", "My-Zone")
    );
    assert_eq!(zone.path(), ["w".into(), "z".into()]);
    assert!(!annotations.is_empty() && Annotations::read("{}").unwrap().is_empty());
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        any::<bool>().prop_map(|word| word.to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
        any::<i32>().prop_map(|number| number.to_string()),
        proptest::num::f64::NORMAL.prop_map(|number| serde_json::to_string(&number).unwrap()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?",
    ]
}

proptest! {
    #[test]
    fn what_is_supplied_agrees(raw in scalar()) {
        match judge(Some(&raw), None).unwrap() {
            Verdict::Missing { value, .. } => {
                let verdict = judge(Some(&raw), Some(value.as_bytes()));
                prop_assert!(matches!(verdict, Ok(Verdict::Agree)), "{:?}", verdict);
                let other = judge(Some(r#""0.1 other""#), Some(value.as_bytes()));
                prop_assert!(other.is_err() || raw == r#""0.1 other""#);
            }
            verdict => {
                prop_assert!(matches!(verdict, Verdict::Agree));
                let number: f64 = raw.parse().unwrap();
                prop_assert!(number.abs() >= 9_007_199_254_740_992.0);
                let verdict = judge(Some(&raw), Some(raw.as_bytes()));
                prop_assert!(matches!(verdict, Ok(Verdict::Agree)), "{:?}", verdict);
            }
        }
    }
}
