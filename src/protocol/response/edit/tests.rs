//! Generated results, edited: against pieces that were known before they were put together.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::super::{Message, Response};
use super::*;

/// A raw value of any kind, written in odd ways.
fn raw() -> impl Strategy<Value = String> {
    let plain = vec![
        "null",
        "true",
        "false",
        "1.0",
        "-0",
        "0.10",
        "1E+2",
        "9007199254740993",
        r#""""#,
        r#""a\/b""#,
        r#""\ud83d\ude00""#,
        r#""\\\"]},{[""#,
        r#""é😀""#,
        "{}",
        "[]",
        "{ }",
        "[\n]",
    ];
    // These `serde_json` reads only as they are, and not as values.
    let odd = vec!["1e400", r#""\ud800""#];
    let scalar = prop_oneof![
        60 => select(plain).prop_map(str::to_owned),
        1 => select(odd).prop_map(str::to_owned),
        20 => "[1-9][0-9]{19}",
        20 => any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    scalar.prop_recursive(8, 64, 5, |inner| {
        let inner = (blanks(), inner, blanks())
            .prop_map(|(before, raw, after)| before + &raw + &after)
            .boxed();
        // Deep down a key may well stand twice: nobody looks there.
        let member = (
            select(vec![r#""x""#, r#""\u0078""#, r#""id""#, r#""tools""#]),
            inner.clone(),
        )
            .prop_map(|(key, raw)| format!("{key}:{raw}"));
        prop_oneof![
            prop::collection::vec(inner, 1..5).prop_map(|parts| format!("[{}]", parts.join(","))),
            prop::collection::vec(member, 1..5)
                .prop_map(|parts| format!("{{{}}}", parts.join(","))),
        ]
    })
}

fn blanks() -> impl Strategy<Value = String> {
    select(vec!["", "", " ", "\n\t", "\r\n  "]).prop_map(str::to_owned)
}

/// A key, some of its letters escaped.
fn key(name: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::bool::weighted(0.1), name.len()).prop_map(|escaped| {
        let letters = name.chars().zip(escaped);
        let letters: String = letters
            .map(|(letter, escaped)| match escaped {
                true => format!("\\u{:04x}", u32::from(letter)),
                false => letter.to_string(),
            })
            .collect();
        format!("\"{letters}\"")
    })
}

fn read(json: &str) -> Response {
    match Message::read(Bytes::copy_from_slice(json.as_bytes())) {
        Message::Response(response) => response,
        other => panic!("{json}: {other:?}"),
    }
}

/// What stands in a response, and what takes its place.
#[derive(Clone, Debug)]
struct Piece {
    before: String,
    after: String,
}

fn kept(text: String) -> Vec<Piece> {
    vec![Piece {
        after: text.clone(),
        before: text,
    }]
}

/// An object of these members in any order, with blanks wherever they may stand.
fn object(members: Vec<BoxedStrategy<(String, Vec<Piece>)>>) -> impl Strategy<Value = Vec<Piece>> {
    let member = |member| (blanks(), blanks(), blanks(), blanks(), member);
    let members: Vec<_> = members.into_iter().map(member).collect();
    (members.prop_shuffle(), blanks()).prop_map(|(members, end)| {
        let mut pieces = kept("{".to_owned());
        for (place, (a, b, c, d, (key, value))) in members.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            pieces.extend(kept(format!("{comma}{a}{key}{b}:{c}")));
            pieces.extend(value);
            pieces.extend(kept(d));
        }
        pieces.extend(kept(end + "}"));
        pieces
    })
}

fn member(
    name: &'static str,
    before: impl Strategy<Value = String> + 'static,
    after: &'static str,
) -> BoxedStrategy<(String, Vec<Piece>)> {
    let value = before.prop_map(|before| {
        let after = after.to_owned();
        vec![Piece { before, after }]
    });
    (key(name), value).boxed()
}

fn same(name: &'static str) -> BoxedStrategy<(String, Vec<Piece>)> {
    (key(name), raw().prop_map(kept)).boxed()
}

/// Items, and which of them stay.
fn list(name: &'static str) -> BoxedStrategy<(String, Vec<Piece>, Vec<usize>)> {
    let named = (key("name"), raw(), key("inputSchema"), raw(), blanks());
    let named = named.prop_map(|(name, a, schema, b, blank)| {
        format!("{{{blank}{schema}:{b} ,{name}{blank}:{a}}}")
    });
    // What is no object at its top level has no key that could stand twice.
    let other = raw().prop_filter("an object", |raw| !raw.starts_with('{'));
    let item = (blanks(), prop_oneof![named, other], blanks());
    let items = prop::collection::vec(item, 1..6).prop_flat_map(|items| {
        let indexes: Vec<usize> = (0..items.len()).collect();
        let chosen = prop::sample::subsequence(indexes, 0..=items.len()).prop_shuffle();
        (Just(items), chosen)
    });
    let list = (key(name), items).prop_map(|(key, (items, chosen))| {
        let whole: Vec<_> = items
            .iter()
            .map(|(a, raw, b)| format!("{a}{raw}{b}"))
            .collect();
        let before = format!("[{}]", whole.join(","));
        let stay: Vec<_> = chosen.iter().map(|index| &*items[*index].1).collect();
        let is_all = chosen.iter().copied().eq(0..items.len());
        let after = if is_all {
            before.clone()
        } else {
            format!("[{}]", stay.join(","))
        };
        (key, vec![Piece { before, after }], chosen)
    });
    list.boxed()
}

/// A response in pieces, and which of its tools and resources stay.
fn generated() -> impl Strategy<Value = (Vec<Piece>, Vec<usize>, Vec<usize>)> {
    (list("tools"), list("resources")).prop_flat_map(|(tools, resources)| {
        let result = object(vec![
            member("ttlMs", raw(), "29"),
            member(
                "cacheScope",
                raw().prop_filter("private", |raw| raw != "\"private\""),
                "\"private\"",
            ),
            member("supportedVersions", raw(), r#"["2026-07-28"]"#),
            Just((tools.0, tools.1)).boxed(),
            Just((resources.0, resources.1)).boxed(),
            same("nextCursor"),
            same("resultType"),
            same("unknown"),
        ]);
        let response = object(vec![
            member("id", raw(), "\"\\u0061\""),
            (key("result"), result).boxed(),
            same("jsonrpc"),
            same("unknown"),
        ]);
        let whole = (blanks(), response, blanks())
            .prop_map(|(before, response, behind)| [kept(before), response, kept(behind)].concat());
        (whole, Just(tools.2), Just(resources.2))
    })
}

/// What changes, as a tree of values. Both trees are read by the same reader.
fn expected(before: &[u8], tools: &[usize], resources: &[usize]) -> Value {
    let mut value: Value = serde_json::from_slice(before).unwrap();
    value["id"] = "a".into();
    let result = &mut value["result"];
    result["ttlMs"] = 29.into();
    result["cacheScope"] = "private".into();
    result["supportedVersions"] = serde_json::json!(["2026-07-28"]);
    for (key, chosen) in [("tools", tools), ("resources", resources)] {
        let items = result[key].take();
        result[key] = chosen.iter().map(|index| items[*index].clone()).collect();
    }
    value
}

proptest! {
    #[test]
    fn no_byte_changes_but_those_of_the_values_that_do((pieces, tools, resources) in generated()) {
        let before: String = pieces.iter().map(|piece| &*piece.before).collect();
        let after: String = pieces.iter().map(|piece| &*piece.after).collect();
        let response = read(&before);
        let edited = response.edited(&Edit {
            id: Some(br#""\u0061""#),
            ttl_ms: Some(29),
            private: true,
            items: &[(List::Resources, &resources), (List::Tools, &tools)],
            supported_versions: Some(br#"["2026-07-28"]"#),
        }).whole();
        prop_assert_eq!(std::str::from_utf8(&edited).unwrap(), &*after);
        let edit = Edit { id: response.id(), ..Edit::default() };
        prop_assert_eq!(response.edited(&edit).whole().as_ptr(), response.bytes().as_ptr());
        if serde_json::from_str::<Value>(&before).is_ok() {
            let value: Value = serde_json::from_slice(&edited).unwrap();
            prop_assert_eq!(value, expected(before.as_bytes(), &tools, &resources));
        }
    }
}
