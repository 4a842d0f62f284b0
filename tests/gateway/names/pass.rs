//! Routes that pass requests through unread: their bytes, their paths, and what they never reach.

use serde_json::{Value, json};

use crate::harness::{Received, Reply, Request, Response, Site, Upstream};

/// `/mcp` as ever, and beside it `/health`, everything below `/oauth/`, and one document.
pub(super) fn site(upstream: Upstream) -> Site {
    Site::before(upstream, |policy| {
        let pass = |name: &str, path: &str| {
            json!({"name": name, "pass": true, "path": path, "upstream": "up",
                   "origins": ["https://app.example.com"]})
        };
        let mcp = json!({"name": "main", "path": "/mcp", "upstream": "up"});
        policy.set(
            "/routes",
            json!([
                pass("below", "/oauth/*"),
                mcp,
                pass("health", "/health"),
                pass("deep", "/oauth/deep/*"),
                pass("document", "/.well-known/oauth-authorization-server"),
            ]),
        )
    })
}

pub(super) fn echoing() -> Upstream {
    Upstream::with(|request| match request.target.as_str() {
        "/mcp" => Reply::usual(request),
        _ => Reply::with_lines(
            418,
            "Content-Type: text/x-odd\r\nLocation: http://elsewhere.example/\r\nSet-Cookie: a=1\r\n",
            format!("{} {}", request.method, request.target),
        ),
    })
}

fn passed(site: &Site, request: &Request) -> (Response, Received) {
    let before = site.upstream.request_count();
    let answer = site.gateway.ask(request);
    assert_eq!(site.upstream.request_count(), before + 1, "{answer:?}");
    (answer, site.upstream.last())
}

#[test]
fn requests_and_answers_pass_as_they_are() {
    let site = site(echoing());
    for (method, target, body) in [
        ("GET", "/health", ""),
        ("GET", "/health/?deep=1&x=%2F..//", ""),
        ("DELETE", "/oauth/clients/7", ""),
        (
            "POST",
            "/oauth/token?a=b",
            "grant_type=authorization_code&code=%00\u{fffd}",
        ),
        ("PUT", "/oauth/deep/er", "{\"jsonrpc\":\"2.0\",\"method\":"),
        ("PATCH", "/oauth/a%20b", "x"),
        ("OPTIONS", "/oauth/x", ""),
        ("BREW", "/oauth/pot", "y"),
        ("GET", "/.well-known/oauth-authorization-server", ""),
    ] {
        let request = Request::new(method, target)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .line("Authorization", "Basic abc")
            .line("Cookie", "s=1")
            .line("Accept-Encoding", "br")
            .body(body);
        let (answer, received) = passed(&site, &request);
        assert_eq!(
            (received.method.as_str(), received.target.as_str()),
            (method, target)
        );
        assert_eq!(received.body, body.as_bytes(), "{target}");
        assert!(received.complete);
        let head = &received.head;
        assert_eq!(head.values("host"), [site.upstream.address.to_string()]);
        assert_eq!(head.values("authorization"), ["Basic abc"]);
        assert_eq!(head.values("cookie"), ["s=1"]);
        assert_eq!(head.values("accept-encoding"), ["br"]);
        assert_eq!(head.values("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(answer.status, 418);
        assert_eq!(answer.text(), format!("{method} {target}"));
        assert_eq!(answer.head.values("content-type"), ["text/x-odd"]);
        assert_eq!(
            answer.head.values("location"),
            ["http://elsewhere.example/"]
        );
        assert_eq!(answer.head.values("set-cookie"), ["a=1"]);
        let record = &site.records(1)[0];
        assert_eq!(
            (&record["era"], &record["verdict"]),
            (&json!("none"), &json!("forwarded"))
        );
        assert_eq!(record["bytes_in"], body.len(), "{record}");
    }
    let mut client = site.gateway.connect();
    client.send(&Request::new("HEAD", "/health"));
    let (head, _) = client.read_head();
    assert_eq!(head.status(), 418);
    assert_eq!(site.upstream.last().method, "HEAD");
}

#[test]
fn more_of_a_path_comes_before_less() {
    let site = site(echoing());
    for (target, route) in [
        ("/health", "health"),
        ("/oauth/x", "below"),
        ("/oauth/deep", "below"),
        ("/oauth/deep/x", "deep"),
        ("/.well-known/oauth-authorization-server", "document"),
    ] {
        passed(&site, &Request::new("GET", target));
        let record = &site.records(1)[0];
        assert_eq!(record["route"], route, "{target}");
        let path = record.get("path").and_then(Value::as_str);
        let expected = target.starts_with("/oauth/").then_some(target);
        assert_eq!(path, expected, "only where the route has many paths");
    }
}

#[test]
fn nothing_passes_that_could_be_another_path() {
    let site = site(echoing());
    for (target, status) in [
        ("/oauth/../mcp", 400),
        ("/oauth/..;/mcp", 400),
        ("/oauth/%2e%2e/mcp", 400),
        ("/oauth/%2E./mcp", 400),
        ("/oauth/a%2fb", 400),
        ("/oauth/a%2Fb", 400),
        ("/oauth/%5Cmcp", 400),
        ("/oauth//mcp", 400),
        ("/oauth/;/mcp", 400),
        ("/oauth/;x/;y/mcp", 400),
        ("/oauth/%20/mcp", 400),
        ("/oauth/%252e%252e/mcp", 400),
        ("/oauth/./x", 400),
        ("/oauth/%6Dcp", 400),
        ("//oauth/x", 404),
        ("/OAUTH/x", 404),
        ("/oauth", 404),
        ("/oauthx", 404),
        ("/healthz", 404),
        ("/health/x", 404),
        ("/health;x", 404),
        ("/%68ealth", 404),
        ("/.well-known/oauth-protected-resource", 404),
        ("/.well-known/oauth-authorization-server/mcp", 404),
    ] {
        let answer = site.gateway.ask(&Request::new("GET", target));
        assert_eq!(answer.status, status, "{target}: {answer:?}");
    }
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn no_endpoint_is_reached_unread() {
    let upstream = echoing();
    let site = Site::before(upstream, |policy| {
        policy.set(
            "/routes",
            json!([
                {"name": "all", "pass": true, "path": "/*", "upstream": "up"},
                {"name": "main", "path": "/tools", "upstream": "up"},
            ]),
        )
    });
    // The upstream has its endpoint at /mcp; the gateway has it at /tools.
    for target in ["/;/mcp", "/;x/mcp", "/;a/;b/mcp", "/;/MCP", "/.../mcp"] {
        let answer = site.gateway.ask(&Request::call("echo").target(target));
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        assert!(answer.text().contains("empty segment") || answer.text().contains("dot segment"));
    }
    for target in [
        "/mcp",
        "/mcp/",
        "/MCP",
        "/mcp.",
        "/mcp%20",
        "/mcp;a",
        "/mcp/x",
        "/.well-known/x",
    ] {
        let answer = site.gateway.ask(&Request::call("echo").target(target));
        assert_eq!(answer.status, 404, "{target}: {answer:?}");
    }
    assert_eq!(site.upstream.request_count(), 0);
    let (_, received) = passed(&site, &Request::call("echo").target("/tools"));
    assert_eq!(received.target, "/mcp");
    let (_, received) = passed(&site, &Request::new("GET", "/version"));
    assert_eq!(received.target, "/version");
}

#[test]
fn no_header_says_what_nobody_has_read() {
    let site = site(echoing());
    let request = Request::call("echo")
        .target("/oauth/x")
        .line("Mcp-Param-Region", "eu")
        .line("Mcp-Session-Id", "s")
        .line("Mcp_Name", "echo")
        .line("Connection", "X-Nominated, upgrade")
        .line("X-Nominated", "1")
        .line("Upgrade", "websocket")
        .line("TE", "trailers")
        .line("X-Original-URL", "/admin")
        .line("X-Forwarded-For", "1.1.1.1");
    let (_, received) = passed(&site, &request);
    let text = String::from_utf8_lossy(&received.head.bytes).to_lowercase();
    for name in [
        "mcp-",
        "mcp_",
        "x-nominated",
        "upgrade",
        "\nte:",
        "x-original",
        "1.1.1.1",
    ] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    assert_eq!(received.body, request.body);
}

#[test]
fn host_origin_and_method_are_judged_all_the_same() {
    let site = site(echoing());
    let health = || Request::new("GET", "/health");
    for (request, status, reason) in [
        (health().header("Host", "evil.example"), 403, "host"),
        (health().without("Host"), 400, "host_unclear"),
        (
            health().header("Origin", "https://evil.example"),
            403,
            "origin",
        ),
        (health().method("TRACE"), 405, "method_not_allowed"),
    ] {
        let answer = site.gateway.ask(&request);
        assert_eq!(answer.status, status, "{answer:?}");
        let record = &site.records(1)[0];
        assert_eq!(record["verdict"], format!("refused:{reason}"), "{record}");
        // Where the route is known, nobody expects JSON-RPC.
        if [403, 405].contains(&status) && reason != "host" {
            let kind = answer.head.value("content-type").unwrap();
            assert_eq!(kind, "application/problem+json", "{answer:?}");
            let problem = answer.json();
            assert_eq!(
                (&problem["status"], &problem["reason"]),
                (&json!(status), &json!(reason))
            );
            assert!(problem["detail"].is_string(), "{problem}");
        }
    }
    assert_eq!(site.upstream.request_count(), 0);
}

#[test]
fn a_page_may_read_what_passes() {
    let site = site(echoing());
    let page = "https://app.example.com";
    let asking = Request::new("OPTIONS", "/oauth/token")
        .header("Origin", page)
        .header("Access-Control-Request-Method", "POST");
    let answer = site.gateway.ask(&asking);
    assert_eq!((answer.status, site.upstream.request_count()), (204, 0));
    assert_eq!(answer.head.values("access-control-allow-origin"), [page]);
    let (answer, _) = passed(
        &site,
        &Request::new("GET", "/health").header("Origin", page),
    );
    assert_eq!(answer.head.values("access-control-allow-origin"), [page]);
    // A cache must not give one page's answer to another, nor that of nobody.
    let (answer, _) = passed(&site, &Request::new("GET", "/health"));
    assert!(!answer.head.has("access-control-allow-origin"));
    assert_eq!(answer.head.values("vary"), ["Origin"]);
}
