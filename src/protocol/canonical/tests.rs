use super::*;

use proptest::prelude::*;
use serde_json::Value;

fn form(json: &str, numbers: Numbers) -> Result<String, Uncanonical> {
    canonical(json.as_bytes(), numbers).map(|form| String::from_utf8(form).unwrap())
}

fn same(json: &str, expected: &str) {
    assert_eq!(
        form(json, Numbers::Ecmascript).as_deref(),
        Ok(expected),
        "{json}"
    );
}

#[test]
fn blanks_go_and_members_are_ordered_on_every_level() {
    same(" { } ", "{}");
    same("\t[\r\n]", "[]");
    same(
        r#" { "b" : [ { "z" : 1 , "a" : [ ] } , null , true ] , "a" : { "\u0062":false,"":0} } "#,
        r#"{"a":{"":0,"b":false},"b":[{"a":[],"z":1},null,true]}"#,
    );
    for scalar in ["null", "true", "false", "7", r#""x""#] {
        same(&format!(" {scalar} "), scalar);
    }
}

/// By code point the last two would stand the other way round, by UTF-8 as well.
#[test]
fn keys_are_ordered_by_their_utf_16_units() {
    same(
        r#"{"\ufb33":7,"\ud83d\ude00":6,"\u20ac":5,"\u00f6":4,"\u0080":3,"aa":2,"a":1,"1":0,"\r":-1}"#,
        "{\"\\r\":-1,\"1\":0,\"a\":1,\"aa\":2,\"\u{80}\":3,\"ö\":4,\"€\":5,\"😀\":6,\"\u{fb33}\":7}",
    );
}

#[test]
fn only_what_must_be_escaped_is() {
    same(
        r#""\u0008\u0009\u000A\u000B\u000c\u000d\u0000\u001F\u0020\u0022\u005C\/\u007f\u2028\u20ac\ud834\udd1e""#,
        "\"\\b\\t\\n\\u000b\\f\\r\\u0000\\u001f \\\"\\\\/\u{7f}\u{2028}€𝄞\"",
    );
}

#[test]
fn numbers_are_written_as_wished() {
    let json = "[1.0,1E30,4.50,2e-3,0.000000000000000000000000001,-0,9007199254740993]";
    same(json, "[1,1e+30,4.5,0.002,1e-27,0,9007199254740993]");
    assert_eq!(form(json, Numbers::AsWritten).as_deref(), Ok(json));
}

#[test]
fn what_could_be_understood_in_two_ways_has_no_form() {
    let deep = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(form(&deep(64), Numbers::Ecmascript).is_ok());
    for (json, flaw) in [
        (deep(65).as_str(), Uncanonical::TooDeep),
        ("", Uncanonical::Json),
        ("{} 1", Uncanonical::Json),
        ("\u{feff}{}", Uncanonical::Json),
        (r#"[{"a":1,"b":2,"\u0061":3}]"#, Uncanonical::RepeatedKey),
        (r#"["\ud800"]"#, Uncanonical::LoneSurrogate),
        (r#"{"\udc00":1}"#, Uncanonical::LoneSurrogate),
    ] {
        assert_eq!(form(json, Numbers::Ecmascript), Err(flaw), "{json}");
    }
    assert_eq!(
        canonical(b"\"\xff\"", Numbers::AsWritten),
        Err(Uncanonical::Json)
    );
}

#[test]
fn a_digest_is_shown_in_hexadecimal() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Digest::of(b"").to_string(), empty);
    let digest = |json: &str| Digest::of_json(json.as_bytes(), Numbers::Ecmascript).unwrap();
    assert_eq!(digest(r#"{"b":1.0,"a":""}"#), digest(r#"{"a":"","b":1}"#));
    assert_ne!(digest("{}"), digest("[]"));
    assert_eq!(digest("{}"), Digest::of(b"{}"));
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 6, |inner| {
        let members = prop::collection::btree_map(any::<String>(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// The value with the members of all objects the other way round, and all letters escaped.
fn rewritten(value: &Value, out: &mut String) {
    let string = |text: &str, out: &mut String| {
        let units = text.encode_utf16();
        let units: String = units.map(|unit| format!("\\u{unit:04x}")).collect();
        out.push_str(&format!("\"{units}\""));
    };
    match value {
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push_str("[ ");
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { " ,\n" });
                rewritten(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (place, (key, member)) in members.iter().rev().enumerate() {
                out.push_str(if place == 0 { "\t" } else { ", " });
                string(key, out);
                out.push_str(" : ");
                rewritten(member, out);
            }
            out.push_str(" }");
        }
        other => out.push_str(&other.to_string()),
    }
}

proptest! {
    #[test]
    fn one_value_has_one_form_however_it_is_written(value in value()) {
        let mut other = String::new();
        rewritten(&value, &mut other);
        for numbers in [Numbers::Ecmascript, Numbers::AsWritten] {
            let written = form(&value.to_string(), numbers).unwrap();
            prop_assert_eq!(&form(&other, numbers).unwrap(), &written);
            prop_assert_eq!(&form(&written, numbers).unwrap(), &written);
        }
        // Read by the same reader, because `serde_json` does not round all doubles correctly.
        let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let written = form(&value.to_string(), Numbers::AsWritten).unwrap();
        prop_assert_eq!(read(&written), read(&value.to_string()));
    }

    #[test]
    fn a_number_in_its_form_is_the_same_double(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let written = form(&format!("{value:e}"), Numbers::Ecmascript).unwrap();
        prop_assert_eq!(written.parse::<f64>().unwrap(), value);
    }
}
