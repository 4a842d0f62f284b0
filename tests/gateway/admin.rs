//! The admin listener of the real process: where it is, who is let in, and what it never does.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use crate::harness::{Client, Gateway, Policy, Request, Response, Upstream};

/// The address in the start line.
pub(crate) fn admin_address(gateway: &Gateway) -> Option<SocketAddr> {
    gateway.lines().iter().find_map(|line| {
        let (_, behind) = line.split_once("admin on http://")?;
        let end = behind.find(['"', ',', ' ']).unwrap_or(behind.len());
        behind[..end].parse().ok()
    })
}

fn ask(address: SocketAddr, request: &Request) -> Response {
    Client::connect(address).exchange(request)
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn it_says_where_it_listens_and_shows_what_there_is() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(&upstream);
    let admin = admin_address(&gateway).expect("an address in the start line");
    assert!(admin.ip().is_loopback() && admin.port() != 0);
    let entries = ask(admin, &Request::new("GET", "/cache"));
    assert_eq!(entries.status, 200);
    assert_eq!(
        json_of(&entries),
        json!({ "entries": [], "truncated": false })
    );
    let purged = ask(admin, &Request::new("DELETE", "/cache?route=main"));
    assert_eq!(json_of(&purged), json!({ "purged": 0 }));
    let pins = ask(admin, &Request::new("GET", "/pins"));
    assert_eq!(json_of(&pins), json!({ "routes": {}, "truncated": false }));
    for response in [&entries, &purged, &pins] {
        assert_eq!(
            response.head.value("cache-control").as_deref(),
            Some("no-store")
        );
    }
    let mut client = Client::connect(admin);
    client.send(&Request::new("HEAD", "/cache"));
    assert_eq!(client.read_head().0.status(), 200);
}

#[test]
fn the_listeners_share_no_paths() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(&upstream);
    let admin = admin_address(&gateway).unwrap();
    for path in ["/cache", "/pins"] {
        for address in [gateway.address, gateway.status] {
            let answer = ask(address, &Request::new("GET", path));
            assert_eq!(answer.status, 404, "{path} on {address}");
        }
    }
    for request in [
        Request::new("GET", "/healthz"),
        Request::new("GET", "/readyz"),
        Request::call("echo"),
    ] {
        assert_eq!(ask(admin, &request).status, 404, "{request:?}");
    }
    assert_eq!(upstream.runs("echo"), 0);
}

#[test]
fn no_page_and_no_other_name_is_let_in() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(&upstream);
    let admin = admin_address(&gateway).unwrap();
    for (name, value) in [
        ("Origin", "http://127.0.0.1:8080"),
        ("Origin", "null"),
        ("Host", "evil.example"),
        ("Host", "localhost.evil.example"),
        ("Host", "192.0.2.1:9901"),
    ] {
        for (method, path) in [("GET", "/cache"), ("DELETE", "/cache"), ("GET", "/pins")] {
            let request = Request::new(method, path).header(name, value);
            let answer = ask(admin, &request);
            assert_eq!(answer.status, 403, "{method} {path} {name}: {value}");
            assert!(json_of(&answer)["error"].is_string());
        }
    }
    let preflight = Request::new("OPTIONS", "/cache")
        .header("Origin", "http://localhost")
        .header("Access-Control-Request-Method", "DELETE");
    let answer = ask(admin, &preflight);
    assert_eq!(answer.status, 403);
    assert_eq!(answer.head.value("access-control-allow-origin"), None);
    let posted = ask(admin, &Request::new("POST", "/cache"));
    assert_eq!(posted.status, 405);
    assert_eq!(
        posted.head.value("allow").as_deref(),
        Some("GET, HEAD, DELETE")
    );
}

#[test]
fn it_may_be_elsewhere_or_nowhere() {
    let upstream = Upstream::start();
    let elsewhere = Policy::new(&upstream).set("/admin/address", json!("127.0.0.2:0"));
    let gateway = Gateway::start(&elsewhere);
    let admin = admin_address(&gateway).unwrap();
    assert_eq!(admin.ip(), "127.0.0.2".parse::<IpAddr>().unwrap());
    assert_eq!(ask(admin, &Request::new("GET", "/cache")).status, 200);

    let nowhere = Policy::new(&upstream).set("/admin/address", json!("off"));
    let gateway = Gateway::start(&nowhere);
    assert_eq!(admin_address(&gateway), None);
    assert_eq!(gateway.ask(&Request::call("echo")).status, 200);
}

#[test]
fn whoever_reaches_it_on_an_address_may_name_that_address() {
    let upstream = Upstream::start();
    let policy = Policy::new(&upstream).set("/admin/address", json!("0.0.0.0:0"));
    let gateway = Gateway::start(&policy);
    let port = admin_address(&gateway).unwrap().port();
    let warned = gateway.lines().iter().any(|line| line.contains("look at"));
    assert!(warned, "the log says that others may reach it");
    let address = SocketAddr::from(([127, 0, 0, 3], port));
    for (host, status) in [("127.0.0.3", 200), ("0.0.0.0", 403), ("10.1.2.3", 403)] {
        let answer = ask(address, &Request::new("GET", "/cache").header("Host", host));
        assert_eq!(answer.status, status, "{host}");
    }
}

#[test]
fn a_query_that_is_not_understood_purges_nothing() {
    let upstream = Upstream::start();
    let gateway = Gateway::before(&upstream);
    let admin = admin_address(&gateway).unwrap();
    for query in ["rout=main", "route=", "uri=a&uri=b", "main"] {
        let target = format!("/cache?{query}");
        let answer = ask(admin, &Request::new("DELETE", &target));
        assert_eq!(answer.status, 400, "{query}");
        assert!(json_of(&answer).get("purged").is_none());
    }
}

#[test]
fn pinned_routes_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("up.lock.json");
    std::fs::write(&lock, r#"{"format": 1, "upstream": "up", "tools": {}}"#).unwrap();
    let upstream = Upstream::start();
    let pin = json!({ "file": lock.to_str().unwrap(), "on_change": "block" });
    let gateway = Gateway::start(&Policy::new(&upstream).set("/routes/0/pin", pin));
    let admin = admin_address(&gateway).unwrap();
    let pins = json_of(&ask(admin, &Request::new("GET", "/pins")));
    assert_eq!(pins["routes"]["main"]["on_change"], "block");
    assert_eq!(pins["routes"]["main"]["file"], lock.to_str().unwrap());
}
