//! Where a request goes: the upstream's path and both queries.

use crate::harness::{Policy, Refusal, Request, Site, Upstream};

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

#[test]
fn a_target_with_its_authority_goes_on_without_it() {
    let site = behind("/base?key=1");
    let own = site.gateway.address.to_string();
    for (authority, target) in [
        ("127.0.0.1", "http://127.0.0.1/mcp"),
        ("127.0.0.1:80", "http://127.0.0.1:80/mcp/"),
        ("localhost", "HTTP://LOCALHOST/mcp"),
        (own.as_str(), &format!("http://{own}/mcp")),
    ] {
        for query in ["", "x=2"] {
            let mark = if query.is_empty() { "" } else { "?" };
            let request = Request::call("echo")
                .header("Host", authority)
                .target(&format!("{target}{mark}{query}"));
            let received = site.forwards(target, &request);
            let joined = if query.is_empty() { "" } else { "&x=2" };
            assert_eq!(received.target, format!("/base?key=1{joined}"));
            let host = received.head.value("host");
            assert_eq!(host, Some(site.upstream.address.to_string()));
        }
    }
}

#[test]
fn a_query_is_never_left_out() {
    let upstream = Upstream::start();
    let url = format!("http://{}/deep/er", upstream.address);
    let site = Site::before(upstream, |policy| {
        policy
            .listen("header_bytes_max", "256Ki")
            .upstream("url", url)
    });
    // The longest target that the HTTP library reads or writes has 65534 bytes.
    let asking =
        |bytes: usize| Request::call("echo").target(&format!("/mcp?{}", "q".repeat(bytes)));
    let fits = 65534 - "/deep/er?".len();
    let received = site.forwards("as long as can be", &asking(fits));
    assert_eq!(received.target.len(), 65534);
    let refusal = Refusal::of_head(414).names(&["target_too_long"]);
    for bytes in [fits + 1, 65534 - "/mcp?".len()] {
        // The body was read by then, and so was its id.
        site.refuses("too long a query", &asking(bytes), &refusal.clone().id("1"));
    }
}
