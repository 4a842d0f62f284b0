//! Paths, hosts and origins, as tables.

use std::sync::Arc;

use super::*;
use crate::policy::plan::{Bounds, Cors, Deadlines, Pass, Protocol, Streams, Upstream};

#[test]
fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
    for (text, host) in [
        ("localhost", "localhost"),
        ("a.example:8080", "a.example"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
    ] {
        assert_eq!(host_of(text), Some(host), "{text}");
    }
    for text in [
        "",
        ":80",
        "a:",
        "a:b",
        "a:65536",
        "a:+1",
        "a:1:2",
        "u@a",
        "a b",
        "a/b",
        "a,b",
        "[::1",
        "[::1]x",
        "[1.2.3.4]",
        "[]",
        "::1",
        "h\u{e9}",
        "a%41",
    ] {
        assert_eq!(host_of(text), None, "{text}");
    }
}

/// The host that a request of this version with this target and `Host` line names.
fn named(version: Version, uri: &str, host: Reading<'_>) -> Option<String> {
    let uri: Uri = uri.parse().unwrap();
    super::host(version, &uri, host).ok().map(str::to_owned)
}

#[test]
fn a_request_of_http_1_names_its_host_in_a_line() {
    for (uri, host, expected) in [
        ("/mcp", "a.example", Some("a.example")),
        ("/mcp", "a.example:80", Some("a.example")),
        ("/mcp", "u@a.example", None),
        ("/mcp", "", None),
        ("http://a.example/mcp", "A.example", Some("A.example")),
        ("http://b.example/mcp", "a.example", None),
        ("http://a.example:80/mcp", "a.example", None),
        ("http://u@a.example/mcp", "a.example", None),
        ("ftp://a.example/mcp", "a.example", None),
    ] {
        for version in [Version::HTTP_10, Version::HTTP_11] {
            let host = Reading::Once(host.as_bytes());
            let named = named(version, uri, host);
            assert_eq!(named.as_deref(), expected, "{uri} {host:?}");
        }
    }
    for host in [Reading::Absent, Reading::Repeated] {
        for uri in ["/mcp", "http://a.example/mcp"] {
            assert_eq!(named(Version::HTTP_11, uri, host), None);
        }
    }
}

#[test]
fn a_request_of_later_versions_names_its_host_in_its_target() {
    for (uri, host, expected) in [
        ("https://a.example/mcp", None, Some("a.example")),
        ("http://[::1]:80/mcp", None, Some("[::1]")),
        (
            "https://a.example:8443/",
            Some("A.example:8443"),
            Some("a.example"),
        ),
        ("https://a.example/mcp", Some("b.example"), None),
        ("https://a.example/mcp", Some("a.example:443"), None),
        ("https://a.example/mcp", Some(""), None),
        ("https://u@a.example/mcp", None, None),
        ("ftp://a.example/mcp", None, None),
        ("/mcp", Some("a.example"), None),
        ("/mcp", None, None),
    ] {
        let host = host.map_or(Reading::Absent, |host: &str| Reading::Once(host.as_bytes()));
        for version in [Version::HTTP_2, Version::HTTP_3] {
            let named = named(version, uri, host);
            assert_eq!(named.as_deref(), expected, "{uri} {host:?}");
        }
    }
    let repeated = named(Version::HTTP_2, "https://a.example/mcp", Reading::Repeated);
    assert_eq!(repeated, None);
}

fn pass(path: &str, endpoints: &[&str]) -> Route {
    Route {
        streams: Streams::default(),
        deadline: Deadlines::default(),
        cache: crate::policy::plan::Cache::default(),
        catalog: crate::policy::plan::Catalog::default(),
        pin: None,
        name: String::new(),
        path: path.to_owned(),
        pass: Some(Pass {
            endpoints: endpoints.iter().map(|path| (*path).to_owned()).collect(),
        }),
        hosts: Hosts::Any,
        origins: Origins::None,
        cors: Cors::default(),
        upstream: Arc::new(Upstream::at("up", "up", 80, "/mcp")),
        protocol: Protocol::default(),
        bounds: Bounds::default(),
    }
}

#[test]
fn nothing_climbs_out_of_a_prefix() {
    let oauth = pass("/oauth/*", &["/mcp", "/oauth/mcp"]);
    for path in [
        "/oauth/token",
        "/oauth/",
        "/oauth/a/b%20c/",
        "/oauth/mcpx",
        "/oauth/..x",
    ] {
        assert!(matches!(admits_path(&oauth, path), Ok(true)), "{path}");
    }
    for path in [
        "/oauth",
        "/OAuth/x",
        "/oauthx",
        "/x",
        "/",
        "//oauth/x",
        "/%6fauth/x",
        "*",
    ] {
        assert!(matches!(admits_path(&oauth, path), Ok(false)), "{path}");
    }
    for path in [
        "/oauth/../mcp",
        "/oauth/..",
        "/oauth/./token",
        "/oauth/..;/mcp",
        "/oauth/%2e%2e/mcp",
        "/oauth/%2E%2E/mcp",
        "/oauth/a%2fb",
        "/oauth/a%2Fb",
        "/oauth/a%5Cb",
        "/oauth/a\\b",
        "/oauth//token",
        "/oauth/%252e%252e/mcp",
        "/oauth/%74oken",
        "/oauth/a%00",
        "/oauth/a%",
        "/oauth/%zz",
    ] {
        assert!(
            matches!(
                admits_path(&oauth, path),
                Err(HttpFault::PathUnclear { .. })
            ),
            "{path}"
        );
    }
}

/// The upstream of the route that a request of this path finds.
fn found(routes: &[Route], path: &str) -> Result<String, HttpFault> {
    let request = http::Request::get(path).header("host", "a.example");
    let (head, ()) = request.body(()).unwrap().into_parts();
    let fields = Fields::read(&head.headers);
    find(routes, |route| route, &head, &fields).map(|route| route.path.clone())
}

#[test]
fn what_a_route_keeps_from_an_endpoint_no_wider_one_takes() {
    let mut routes = [
        pass("/*", &[]),
        pass("/api/*", &["/api/mcp"]),
        pass("/api/v1/*", &[]),
    ];
    sort(&mut routes, |route| route);
    for (path, route) in [
        ("/x", "/*"),
        ("/api/x", "/api/*"),
        ("/api/v1/mcp", "/api/v1/*"),
    ] {
        assert_eq!(found(&routes, path).ok().as_deref(), Some(route), "{path}");
    }
    for path in [
        "/api/mcp",
        "/api/mcp/",
        "/api/MCP/x",
        "/api/mcp;x",
        "/api/mcp.",
        "/api/mcp%20",
        "/API/mcp",
    ] {
        let expected = path.starts_with("/API").then_some("/*");
        assert_eq!(found(&routes, path).ok().as_deref(), expected, "{path}");
    }
    // A route of other hosts is none of this request.
    routes[1].hosts = Hosts::Named(vec!["b.example".to_owned()]);
    assert_eq!(found(&routes, "/api/mcp").ok().as_deref(), Some("/*"));
}

#[test]
fn a_segment_of_parameters_alone_leads_nowhere() {
    let routes = [pass("/oauth/*", &["/mcp"]), pass("/*", &["/mcp"])];
    for path in [
        "/;/mcp",
        "/;x/mcp",
        "/;a/;b/mcp",
        "/;/MCP",
        "/;",
        "/x/;y",
        "/x/;/",
        "/%20/mcp",
        "/.../mcp",
        "/.%20;x/mcp",
        "/oauth/;/mcp",
        "/oauth/;",
        "/oauth/x/%20",
    ] {
        let found = found(&routes, path);
        assert!(
            matches!(found, Err(HttpFault::PathUnclear { .. })),
            "{path}"
        );
    }
    for path in ["/x;y/z", "/x/", "/x;y/"] {
        assert_eq!(found(&routes, path).ok().as_deref(), Some("/*"), "{path}");
    }
}

#[test]
fn an_endpoint_is_not_reached_unread() {
    let admits_path = |route: &Route, path: &str| {
        let admitted = super::admits_path(route, path)?;
        let reaches = route.pass.as_ref().unwrap().reaches_endpoint(path);
        Ok::<_, HttpFault>(admitted && !reaches)
    };
    let all = pass("/*", &["/mcp", "/v1/mcp/"]);
    for path in [
        "/",
        "/health",
        "/mcpx",
        "/v1",
        "/x/mcp",
        "/.well-knownx",
        "/.mcp",
    ] {
        assert!(matches!(admits_path(&all, path), Ok(true)), "{path}");
    }
    for path in [
        "/mcp",
        "/mcp/",
        "/mcp/x",
        "/MCP",
        "/mcp;x=1",
        "/Mcp;x/y",
        "/v1/mcp",
        "/v1;a/MCP/",
        "/mcp.",
        "/mcp..;x/y",
        "/mcp%20",
        "/v1%20/mcp.%20",
        "/.well-known/x",
        "/.well-known",
    ] {
        assert!(matches!(admits_path(&all, path), Ok(false)), "{path}");
    }
    let root = pass("/*", &["/"]);
    assert!(matches!(admits_path(&root, "/"), Ok(false)));
    assert!(admits_path(&root, "/;x").is_err());
    assert!(matches!(admits_path(&root, "/health"), Ok(true)));
    let documents = pass("/.well-known/*", &[]);
    assert!(matches!(
        admits_path(&documents, "/.well-known/x"),
        Ok(true)
    ));
}

#[test]
fn one_path_comes_before_many_and_longer_before_shorter() {
    let mut routes: Vec<_> = ["/*", "/a/b/*", "/mcp", "/a/*", "/a/b/c"]
        .map(|path| pass(path, &[]))
        .into();
    sort(&mut routes, |route| route);
    let paths: Vec<_> = routes.iter().map(|route| route.path.as_str()).collect();
    assert_eq!(paths, ["/mcp", "/a/b/c", "/a/b/*", "/a/*", "/*"]);
}

#[test]
fn a_named_origin_is_compared_as_browsers_write_it() {
    let names = [
        "https://app.example",
        "http://[2001:db8::1]:8080",
        "https://xn--bcher-kva.example",
    ];
    let origins = Origins::Named(names.map(str::to_owned).into());
    let admits = |origin: &str| check_origin(&origins, Reading::Once(origin.as_bytes())).is_ok();
    for origin in names.iter().chain(&["HTTPS://App.Example"]) {
        assert!(admits(origin), "{origin}");
    }
    for origin in [
        "null",
        "",
        "file://",
        "file:///",
        "http://app.example",
        "https://app.example:443",
        "https://app.example:8443",
        "https://app.example.",
        "https://app.example/",
        "https://user@app.example",
        "https://app.example@evil.example",
        "https://app.example.evil.example",
        "https://sub.app.example",
        "http://[2001:db8:0::1]:8080",
        "http://[2001:db8::1]",
        "https://b\u{fc}cher.example",
        "https://app.example, https://app.example",
        " https://app.example",
        "*",
    ] {
        assert!(!admits(origin), "{origin}");
    }
    assert!(check_origin(&origins, Reading::Absent).is_ok());
    assert!(check_origin(&origins, Reading::Repeated).is_err());
    assert!(check_origin(&Origins::None, Reading::Once(b"https://app.example")).is_err());
}

#[test]
fn an_origin_is_scheme_host_and_port() {
    for origin in [
        "http://localhost",
        "https://127.0.0.1:8443",
        "http://[::1]:3000",
        "http://localhost:80",
        "https://localhost:443",
        "http://LOCALHOST:3000",
        "http://127.8.9.1",
    ] {
        assert!(is_loopback_origin(origin), "{origin}");
    }
    for origin in [
        "null",
        "localhost",
        "http://localhost/",
        "http://localhost@evil.example",
        "http://user@localhost",
        "http://localhost.evil.example",
        "ftp://localhost",
        "http://evil.example#localhost",
        "http://localhost:0x",
        "http://localhost:99999",
        "http://localhost:",
        "http://localhost.",
        "HTTP://localhost",
        "file://",
        "file://localhost",
        "http://127.1",
        "http://2130706433",
        "http://0.0.0.0",
        "http://[::]",
        "http://[::ffff:127.0.0.1]",
        "http://[::1%25lo]",
        "http://xn--localhost.example",
        "http://localhost:3000#x",
        "",
    ] {
        assert!(!is_loopback_origin(origin), "{origin}");
    }
}

#[test]
fn a_slash_at_the_end_is_the_same_path() {
    assert!(is_path("/mcp", "/mcp") && is_path("/mcp", "/mcp/") && is_path("/", "/"));
    for path in ["/mcp//", "/mcpx", "/MCP", "/", "/%6dcp", "mcp"] {
        assert!(!is_path("/mcp", path), "{path}");
    }
}
