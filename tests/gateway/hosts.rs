//! `Host` and `Origin`: a page that a browser shows must not reach a server on this machine.

use serde_json::json;

use crate::harness::{Refusal, Request, Site};

/// The same request in every form that a route forwards.
fn forms() -> Vec<Request> {
    vec![
        Request::call("echo"),
        Request::legacy_call("echo"),
        Request::initialize("2025-11-25"),
    ]
}

#[test]
fn a_host_of_this_machine_is_served() {
    let site = Site::new();
    let port = site.gateway.address.port();
    for host in [
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "LocalHost".to_owned(),
        format!("[::1]:{port}"),
        "[::1]".to_owned(),
        "127.0.0.1:1".to_owned(),
    ] {
        site.forwards(&host, &Request::call("echo").header("Host", &host));
    }
}

#[test]
fn another_host_is_refused_on_a_loopback_listener() {
    let site = Site::new();
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example#localhost",
        "localhost@evil.example",
        "127.0.0.1:80@evil.example",
        "notlocalhost",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
    ] {
        for request in forms() {
            let mut client = site.gateway.connect();
            let answer = client.exchange(&request.header("Host", host));
            // What is no authority at all is a bad request.
            assert!([400, 403].contains(&answer.status), "{host}: {answer:?}");
            if !host.contains(['@', '#']) {
                Refusal::of_head(403).check(host, &answer);
            }
        }
    }
    assert_eq!(site.upstream.request_count(), 0);
    for request in [Request::get(), Request::delete("s")] {
        let answer = site.gateway.ask(&request.header("Host", "evil.example"));
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    assert_eq!(site.upstream.request_count(), 0);
    site.works("hosts", &mut site.gateway.connect());
}

#[test]
fn one_host_line_is_what_a_request_has() {
    let site = Site::new();
    let call = Request::call("echo");
    for request in [
        call.clone().without("Host"),
        call.clone().line("Host", "127.0.0.1"),
        call.clone().line("host", "evil.example"),
        call.clone().header("Host", "127.0.0.1, evil.example"),
        call.clone().header("Host", ""),
        call.clone().header("Host", "127.0.0.1:"),
        call.clone().header("Host", "127.0.0.1:abc"),
        call.clone().header("Host", "127.0.0.1:99999"),
        call.clone().target("ftp://127.0.0.1/mcp"),
        call.clone().header("Host", "127.0.0.1 evil"),
        call.header("Host", "http://127.0.0.1"),
    ] {
        let answer = site.gateway.ask(&request);
        assert_eq!(answer.status, 400, "{:?}: {answer:?}", request.lines);
    }
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn named_hosts_are_the_only_ones() {
    let site = Site::with(|policy| policy.set("/routes/0/hosts", json!(["tools.example.com"])));
    let call = Request::call("echo");
    for host in ["tools.example.com", "TOOLS.Example.COM:8443"] {
        site.forwards(host, &call.clone().header("Host", host));
    }
    for host in [
        "127.0.0.1",
        "other.example.com",
        "tools.example.com.evil.example",
    ] {
        let mut client = site.gateway.connect();
        let answer = client.exchange(&call.clone().header("Host", host));
        Refusal::of_head(403).check(host, &answer);
    }
    assert_eq!(site.upstream.request_count(), 2);
}

#[test]
fn an_origin_on_this_machine_is_served() {
    let site = Site::new();
    for origin in [
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "https://localhost:1",
        "http://[::1]:5173",
    ] {
        for request in forms() {
            site.forwards(origin, &request.header("Origin", origin));
        }
    }
}

#[test]
fn another_origin_is_refused() {
    let site = Site::new();
    for origin in [
        "https://evil.example",
        "http://evil.example:3000",
        "null",
        "",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://127.0.0.1.evil.example",
        "http://localhost:3000/path",
        "http://localhost, https://evil.example",
        "localhost",
        "file://localhost",
        "chrome-extension://localhost",
    ] {
        for request in forms() {
            let request = request.header("Origin", origin);
            let refused = site.gateway.ask(&request);
            Refusal::of_head(403).check(origin, &refused);
        }
        for request in [Request::get(), Request::delete("s")] {
            let refused = site.gateway.ask(&request.header("Origin", origin));
            assert_eq!(refused.status, 403, "{origin}: {refused:?}");
        }
    }
    let two = Request::call("echo")
        .line("Origin", "http://localhost")
        .line("Origin", "https://evil.example");
    Refusal::of_head(403).check("two lines", &site.gateway.ask(&two));
    assert_eq!(site.upstream.request_count(), 0);
    site.works("origins", &mut site.gateway.connect());
}

#[test]
fn named_origins_are_compared_exactly() {
    let site =
        Site::with(|policy| policy.set("/routes/0/origins", json!(["https://app.example.com"])));
    let call = Request::call("echo");
    for origin in ["https://app.example.com", "https://app.example.com:443"] {
        let answer = site.gateway.ask(&call.clone().header("Origin", origin));
        // Browsers leave the default port out; whether it may be written is of no interest here.
        assert!(
            origin.ends_with("443") || answer.status == 200,
            "{answer:?}"
        );
    }
    for origin in [
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://x.app.example.com",
        "https://app.example.com.evil.example",
        "http://localhost",
    ] {
        let answer = site.gateway.ask(&call.clone().header("Origin", origin));
        Refusal::of_head(403).check(origin, &answer);
    }
}
