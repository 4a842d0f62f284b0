//! The admin listener without sockets.

use std::sync::Mutex;

use http_body_util::BodyExt as _;

use super::*;

const LOCAL: &str = "10.0.0.7:9901";

/// A memory of as many entries as asked for, which notes what is purged.
#[derive(Default)]
struct Memory {
    entries: Vec<Entry>,
    pins: Vec<Pinned>,
    purged: Mutex<Vec<Filter>>,
}

impl Inspected for Memory {
    fn entries(&self, filter: &Filter, max: usize) -> Entries {
        let admitted = |entry: &&Entry| {
            let uri = entry.uri.as_deref();
            filter.admits(&entry.route, entry.method, uri)
        };
        let mut found: Vec<_> = self.entries.iter().filter(admitted).cloned().collect();
        let truncated = found.len() > max;
        found.truncate(max);
        Entries { found, truncated }
    }

    fn purge(&self, filter: &Filter) -> usize {
        self.purged.lock().unwrap().push(filter.clone());
        2
    }

    fn pins(&self) -> Vec<Pinned> {
        self.pins.clone()
    }
}

fn entry(method: &'static str, uri: Option<&str>) -> Entry {
    Entry {
        route: "main".to_owned(),
        upstream: "up".to_owned(),
        method,
        version: "2026-07-28",
        uri: uri.map(str::to_owned),
        cursor: None,
        audience: "anybody",
        age: Duration::from_millis(2500),
        ttl_left: Duration::from_secs(57),
        bytes: 400,
        hits: 3,
    }
}

fn ask(memory: &Memory, method: &str, target: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    let response = answer(&request, LOCAL.parse().unwrap(), memory);
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["content-type"], "application/json");
    let status = response.status().as_u16();
    if status == 405 {
        assert!(response.headers().contains_key("allow"));
    }
    let body = response.into_body().collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let body = runtime.block_on(body).unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

const HERE: (&str, &str) = ("host", "localhost:9901");

#[test]
fn entries_are_shown_and_chosen() {
    let memory = Memory {
        entries: vec![
            entry("tools/list", None),
            entry("resources/read", Some("file:///a b")),
        ],
        ..Memory::default()
    };
    let (status, all) = ask(&memory, "GET", "/cache", &[HERE]);
    assert_eq!((status, &all["truncated"]), (200, &json!(false)));
    let first = json!({
        "route": "main", "upstream": "up", "method": "tools/list", "version": "2026-07-28",
        "audience": "anybody", "age_seconds": 2, "ttl_left_seconds": 57, "bytes": 400, "hits": 3,
    });
    assert_eq!(all["entries"][0], first);
    assert_eq!(all["entries"][1]["uri"], "file:///a b");
    let (_, some) = ask(&memory, "GET", "/cache?uri=file:///a%20b", &[HERE]);
    assert_eq!(some["entries"].as_array().unwrap().len(), 1);
    let (_, none) = ask(&memory, "GET", "/cache?route=other", &[HERE]);
    assert_eq!(none, json!({ "entries": [], "truncated": false }));
}

#[test]
fn what_is_shown_has_an_end() {
    let many = |count, uri: String| Memory {
        entries: vec![entry("resources/read", Some(&uri)); count],
        ..Memory::default()
    };
    for (memory, shown, truncated) in [
        (many(1000, "u".to_owned()), 1000, false),
        (many(1001, "u".to_owned()), 1000, true),
        (many(10, "u".repeat(1 << 20)), 2, true),
    ] {
        let (_, answer) = ask(&memory, "GET", "/cache", &[HERE]);
        assert_eq!(answer["entries"].as_array().unwrap().len(), shown);
        assert_eq!(answer["truncated"], truncated);
    }
    let tools: Vec<String> = (0..700).map(|number| format!("t{number}")).collect();
    let difference = Difference {
        changed: tools.clone(),
        added: tools,
        vanished: vec!["gone".to_owned()],
    };
    let memory = Memory {
        pins: vec![Pinned {
            route: "main".to_owned(),
            file: "up.lock.json".to_owned(),
            on_change: OnChange::Hide,
            difference: Some(difference),
        }],
        ..Memory::default()
    };
    let (_, answer) = ask(&memory, "GET", "/pins", &[HERE]);
    let count = |kind: &str| answer["routes"]["main"][kind].as_array().unwrap().len();
    assert_eq!(
        (count("changed"), count("added"), count("vanished")),
        (700, 300, 0)
    );
    assert_eq!(answer["truncated"], true);
}

#[test]
fn a_route_that_was_not_listed_has_no_difference() {
    let memory = Memory {
        pins: vec![Pinned {
            route: "main".to_owned(),
            file: "up.lock.json".to_owned(),
            on_change: OnChange::Warn,
            difference: None,
        }],
        ..Memory::default()
    };
    let (status, answer) = ask(&memory, "GET", "/pins", &[HERE]);
    let route = json!({ "file": "up.lock.json", "on_change": "warn", "listed": false });
    let expected = json!({ "routes": { "main": route }, "truncated": false });
    assert_eq!((status, answer), (200, expected));
}

#[test]
fn a_purge_is_what_was_asked_for() {
    let memory = Memory::default();
    let (status, answer) = ask(&memory, "DELETE", "/cache?method=tools/list", &[HERE]);
    assert_eq!((status, answer), (200, json!({ "purged": 2 })));
    let (status, _) = ask(&memory, "DELETE", "/cache", &[HERE]);
    assert_eq!(status, 200);
    for target in [
        "/cache?methods=tools/list",
        "/cache?route=",
        "/cache?uri=a&uri=b",
    ] {
        assert_eq!(ask(&memory, "DELETE", target, &[HERE]).0, 400, "{target}");
    }
    let tools = Filter::read("method=tools/list").unwrap();
    assert_eq!(*memory.purged.lock().unwrap(), [tools, Filter::default()]);
}

#[test]
fn other_paths_and_methods_are_not_there() {
    let memory = Memory::default();
    for method in ["POST", "PUT", "PATCH", "OPTIONS", "TRACE", "get"] {
        assert_eq!(ask(&memory, method, "/cache", &[HERE]).0, 405, "{method}");
    }
    assert_eq!(ask(&memory, "DELETE", "/pins", &[HERE]).0, 405);
    for path in ["/", "/cache/", "/CACHE", "/mcp", "/healthz"] {
        assert_eq!(ask(&memory, "GET", path, &[HERE]).0, 404, "{path}");
    }
    assert_eq!(ask(&memory, "GET", "/pins?route=x", &[HERE]).0, 400);
    assert!(memory.purged.lock().unwrap().is_empty());
}

#[test]
fn no_page_is_let_in() {
    let memory = Memory::default();
    for host in [
        "localhost",
        "LOCALHOST:9901",
        "127.0.0.1:9901",
        "127.3.2.1",
        "[::1]:1",
        "10.0.0.7:9901",
        "10.0.0.7",
    ] {
        let (status, _) = ask(&memory, "DELETE", "/cache", &[("host", host)]);
        assert_eq!(status, 200, "{host}");
    }
    let let_in = memory.purged.lock().unwrap().len();
    for headers in [
        &[][..],
        &[("host", "")],
        &[("host", "evil.example")],
        &[("host", "localhost.evil.example:9901")],
        &[("host", "127.0.0.1.evil.example")],
        &[("host", "10.0.0.8:9901")],
        &[("host", "user@localhost")],
        &[("host", "localhost, evil.example")],
        &[HERE, ("host", "evil.example")],
        &[HERE, HERE],
        &[HERE, ("origin", "http://localhost:9901")],
        &[HERE, ("origin", "null")],
        &[HERE, ("origin", "")],
    ] {
        let (status, answer) = ask(&memory, "DELETE", "/cache", headers);
        assert_eq!(status, 403, "{headers:?}");
        assert!(answer["error"].is_string());
    }
    let elsewhere = "http://evil.example/cache";
    assert_eq!(ask(&memory, "DELETE", elsewhere, &[HERE]).0, 403);
    assert_eq!(memory.purged.lock().unwrap().len(), let_in);
}
