//! The demonstration: what it prints, what its three lines get, and what they leave in the log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::blocks::Document;
use crate::process::{Running, curl};

/// Starts the demonstration, sends what it says, and holds the answers and the log against what
/// the README shows.
pub(crate) fn three_calls() {
    let readme = Document::read("README.md");
    let demo = Running::weirgate(&["demo", "--listen", "127.0.0.1:0"]);
    let calls = ["call", "mismatch", "legacy"].map(|shown| {
        let line = demo.out(|line| line.starts_with("curl ").then(|| line.to_owned()));
        let (status, body) = curl(&line);
        assert_shown(&readme.named(shown), &body);
        let body: Value = serde_json::from_str(&body).unwrap();
        (status, body)
    });
    let [(200, call), (400, mismatch), (200, legacy)] = &calls else {
        panic!("{calls:#?}");
    };
    assert_eq!(call["result"]["content"][0]["text"], "hello");
    let error = &mismatch["error"];
    assert_eq!(error["code"], -32020);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"forecast\"") && message.contains("\"echo\""));
    assert_eq!(
        legacy["result"]["content"][0]["text"],
        "from an older client"
    );
    let record = demo.err(|line| line.contains("verdict=refused").then(|| line.to_owned()));
    assert_record(&readme, &record);
}

/// The server's URL in the line that tells where it listens.
pub(crate) fn server(line: &str) -> Option<String> {
    let (_, behind) = line.split_once("An MCP server runs on ")?;
    behind.split(',').next().map(str::to_owned)
}

/// An answer is what is shown of it; an ellipsis stands for what is left out.
fn assert_shown(shown: &str, answer: &str) {
    let mut rest = answer;
    for part in shown.trim_end().split('…') {
        let at = rest.find(part);
        assert!(at.is_some(), "{part} is not in {answer}");
        rest = &rest[at.unwrap_or_default() + part.len()..];
    }
    assert!(rest.is_empty() && answer.starts_with(&shown[..1]), "{rest}");
}

/// The record is the one that the README shows, but for times and the client's port.
fn assert_record(readme: &Document, record: &str) {
    let shown = readme.blocks_of("text").remove(0).text;
    let (mut shown, mut record) = (fields(&shown), fields(record));
    assert_eq!(
        shown.keys().collect::<Vec<_>>(),
        record.keys().collect::<Vec<_>>()
    );
    for fields in [&mut shown, &mut record] {
        fields.retain(|key, _| key != "peer" && !key.ends_with("_ms"));
    }
    assert_eq!(shown, record);
    assert!(!record.values().any(|value| value.contains("hello")));
}

/// The fields of a record in text; none of these has a blank in it.
fn fields(record: &str) -> BTreeMap<String, String> {
    record
        .split_whitespace()
        .filter_map(|field| field.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
