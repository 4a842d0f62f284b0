//! Where a request goes: the upstream's path and both queries.

use crate::harness::{Policy, Request, Site, Upstream};

/// A site whose upstream has this path and query in its URL.
fn behind(path: &str) -> Site {
    let upstream = Upstream::start();
    let url = format!("http://{}{path}", upstream.address);
    Site::before(upstream, |policy: Policy| policy.upstream("url", url))
}

#[test]
fn path_and_queries_are_joined() {
    for (path, asked, got) in [
        ("/mcp", "/mcp", "/mcp"),
        ("/mcp", "/mcp?a=1&a=2", "/mcp?a=1&a=2"),
        ("/mcp", "/mcp/?a=%20b", "/mcp?a=%20b"),
        ("", "/mcp", "/"),
        ("/", "/mcp?x", "/?x"),
        ("/deep/er/", "/mcp", "/deep/er/"),
        ("/base?key=1", "/mcp", "/base?key=1"),
        ("/base?key=1", "/mcp?x=2&x=3", "/base?key=1&x=2&x=3"),
        ("/base?key=1", "/mcp?key=2", "/base?key=1&key=2"),
        ("/b%20c", "/mcp", "/b%20c"),
        (
            "/mcp",
            "/mcp?q=a/../b//c&r={}|^`",
            "/mcp?q=a/../b//c&r={}|^`",
        ),
    ] {
        let site = behind(path);
        let requests = [
            Request::call("echo"),
            Request::legacy_call("echo"),
            Request::delete("s"),
        ];
        for request in requests {
            let received = site.forwards(asked, &request.target(asked));
            assert_eq!(received.target, got, "{asked} before {path}");
        }
    }
}

#[test]
fn an_empty_query_adds_nothing_but_its_mark() {
    let site = behind("/base?key=1");
    let received = site.forwards("an empty query", &Request::call("echo").target("/mcp?"));
    assert!(
        ["/base?key=1", "/base?key=1&"].contains(&received.target.as_str()),
        "{}",
        received.target
    );
}
