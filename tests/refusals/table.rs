//! The README's table of refusals against the refusals themselves.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use crate::samples;

const README: &str = include_str!("../../README.md");

/// What only one era can be told; the other has a dash in its column.
const MODERN_ONLY: [&str; 8] = [
    "body_padding",
    "header_unchecked",
    "header_unexpected",
    "response_not_allowed",
    "meta_key",
    "method_text",
    "name_parameter",
    "method_not_found",
];
const LEGACY_ONLY: [&str; 3] = ["legacy_header", "handshake", "negotiated_version"];

/// HTTP statuses with JSON-RPC codes.
type Answers = BTreeSet<(u16, i64)>;

/// For each reason, how a modern and how a legacy client is told.
fn told() -> BTreeMap<String, (Answers, Answers)> {
    let mut told: BTreeMap<String, (Answers, Answers)> = BTreeMap::new();
    for sample in samples::all() {
        let [modern, legacy, legacy_by_status, ..] = &sample.answers();
        let (modern, legacy) = (code(modern), code(legacy));
        // The README says so in a sentence.
        assert_eq!(modern, code(legacy_by_status));
        let reason = sample.refusal.telling().reason;
        let (by_modern, by_legacy) = told.entry(reason.to_owned()).or_default();
        if !LEGACY_ONLY.contains(&reason) {
            by_modern.insert(modern);
        }
        if !MODERN_ONLY.contains(&reason) {
            by_legacy.insert(legacy);
        }
    }
    told
}

fn code(answer: &Response<Bytes>) -> (u16, i64) {
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    let code = body["error"]["code"].as_i64().unwrap();
    (answer.status().as_u16(), code)
}

/// The same from the README.
fn documented() -> BTreeMap<String, (Answers, Answers)> {
    let rows = README
        .lines()
        .skip_while(|line| !line.starts_with("## Refusals"))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| `"));
    let mut documented = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{row}");
        assert!(cells.iter().skip(1).take(5).all(|cell| !cell.is_empty()));
        let reason = cells[1].replace('`', "");
        let answers = (answers(cells[3]), answers(cells[4]));
        let before = documented.insert(reason, answers);
        assert!(before.is_none(), "{row} stands twice");
    }
    documented
}

/// `400 / -32020`, several of them with a semicolon between, each with words behind it if need be.
fn answers(cell: &str) -> Answers {
    if cell == "–" {
        return Answers::new();
    }
    cell.split(';')
        .map(|answer| {
            let mut words = answer.split_whitespace();
            let status = words.next().unwrap().parse().unwrap();
            assert_eq!(words.next(), Some("/"), "{cell}");
            (status, words.next().unwrap().parse().unwrap())
        })
        .collect()
}

#[test]
fn the_table_of_refusals_is_the_gateways() {
    let (told, documented) = (told(), documented());
    for (reason, answers) in &told {
        let row = documented.get(reason);
        assert!(row.is_some(), "the README does not list {reason}");
        assert_eq!(row, Some(answers), "{reason}");
    }
    let unknown: Vec<_> = documented
        .keys()
        .filter(|reason| !told.contains_key(*reason))
        .collect();
    assert!(unknown.is_empty(), "no such refusal: {unknown:?}");
}
