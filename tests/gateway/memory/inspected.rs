//! What the admin listener shows of the memory, and takes from it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Stage, list, numbering, read};
use crate::admin::admin_address;
use crate::harness::{Client, Request};

fn ask(stage: &Stage, method: &str, query: &str) -> Value {
    let admin = admin_address(&stage.site.gateway).expect("an address");
    let answer = Client::connect(admin).exchange(&Request::new(method, &format!("/cache{query}")));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.text().contains("secret"), "{answer:?}");
    answer.json()
}

/// The entries that are shown, by what they answer.
fn shown(stage: &Stage, query: &str) -> BTreeSet<String> {
    let shown = ask(stage, "GET", query);
    assert_eq!(shown["truncated"], false);
    let entries = shown["entries"].as_array().expect("entries");
    let name = |entry: &Value| {
        let part = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let parts = ["route", "method", "uri", "cursor", "audience"].map(part);
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    let names: BTreeSet<String> = entries.iter().map(name).collect();
    assert_eq!(names.len(), entries.len(), "{shown}");
    names
}

fn filled() -> Stage {
    let stage = Stage::with(numbering(), |policy| {
        policy.set(
            "/routes",
            json!([
                {"name": "main", "path": "/mcp", "upstream": "up"},
                {"name": "other", "path": "/other", "upstream": "up"},
            ]),
        )
    });
    for request in [
        // Before the same without a credential, which would be given to this as well.
        list("tools/list")
            .header("Authorization", "Bearer secret")
            .header("X-Key", "secret"),
        list("tools/list"),
        Request::modern("tools/list", json!({"cursor": "page/2"})),
        list("tools/list").target("/other?key=secret"),
        read("file:///a b"),
        read("file:///c"),
    ] {
        stage.stores("filled", &request);
    }
    stage
}

const EVERYTHING: [&str; 6] = [
    "main resources/read file:///a b anybody",
    "main resources/read file:///c anybody",
    "main tools/list anybody",
    "main tools/list credentialed",
    "main tools/list page/2 anybody",
    "other tools/list credentialed",
];

fn of(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_is_kept_is_shown_without_a_secret() {
    let stage = filled();
    assert_eq!(shown(&stage, ""), of(&EVERYTHING));
    stage.hits("again", &list("tools/list"));
    stage.hits("again", &list("tools/list"));
    let entries = ask(&stage, "GET", "");
    for entry in entries["entries"].as_array().unwrap() {
        let keys: BTreeSet<&str> = entry
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let known = BTreeSet::from([
            "route",
            "upstream",
            "method",
            "version",
            "audience",
            "age_seconds",
            "ttl_left_seconds",
            "bytes",
            "hits",
            "uri",
            "cursor",
        ]);
        assert!(
            keys.is_subset(&known),
            "a digest or a credential would be another key: {entry}"
        );
        assert_eq!(
            (&entry["upstream"], &entry["version"]),
            (&json!("up"), &json!("2026-07-28"))
        );
        let ttl = entry["ttl_left_seconds"].as_u64().unwrap();
        assert!(
            (40..60).contains(&ttl) && entry["age_seconds"].as_u64().unwrap() < 20,
            "{entry}"
        );
        // The least that such an answer takes, and what is counted beside it.
        let bytes = entry["bytes"].as_u64().unwrap();
        assert!((1_000..4_000).contains(&bytes), "{entry}");
        let is_asked = entry["audience"] == "anybody"
            && entry["method"] == "tools/list"
            && entry.get("cursor").is_none();
        assert_eq!(entry["hits"], if is_asked { 2 } else { 0 }, "{entry}");
    }
}

#[test]
fn filters_mean_the_same_to_look_at_and_to_purge() {
    for (query, meant) in [
        ("", vec![0, 1, 2, 3, 4, 5]),
        ("?route=main", vec![0, 1, 2, 3, 4]),
        ("?route=other", vec![5]),
        ("?method=tools/list", vec![2, 3, 4, 5]),
        ("?method=tools/list&route=main", vec![2, 3, 4]),
        ("?uri=file%3A%2F%2F%2Fa%20b", vec![0]),
        ("?uri=file:///c&route=main&method=resources/read", vec![1]),
        ("?uri=file:///c&route=other", vec![]),
        ("?uri=file:///nowhere", vec![]),
        ("?route=nowhere", vec![]),
    ] {
        let stage = filled();
        let names = |keep: bool| {
            let all = EVERYTHING.iter().enumerate();
            let kept = all.filter(|(at, _)| meant.contains(at) == keep);
            of(&kept.map(|(_, name)| *name).collect::<Vec<_>>())
        };
        assert_eq!(shown(&stage, query), names(true), "{query}");
        assert_eq!(
            ask(&stage, "DELETE", query),
            json!({"purged": meant.len()}),
            "{query}"
        );
        assert_eq!(shown(&stage, ""), names(false), "{query}");
        assert_eq!(shown(&stage, query), BTreeSet::new(), "{query}");
    }
}

#[test]
fn what_was_purged_is_fetched_again() {
    let stage = filled();
    ask(&stage, "DELETE", "?method=tools/list&route=main");
    stage.stores("purged", &list("tools/list"));
    stage.hits("kept", &read("file:///c"));
    stage.hits("fetched again", &list("tools/list"));
}
