//! The same over HTTP/2, where a request names its host in its target and may divide its cookies.

use serde_json::json;

use super::pass::{echoing, site};
use crate::harness::{Request, Site};
use crate::http2::Client2;

#[test]
fn the_upstream_is_told_of_host_and_cookies_as_in_http_1() {
    let site = Site::new();
    let mut client = Client2::connect(&site.gateway);
    let request = Request::call("echo")
        .header("Host", "localhost:8080")
        .line("Cookie", "a=1")
        .line("Cookie", "b=2")
        .line("X-Forwarded-Host", "stranger.example");
    assert_eq!(client.exchange(&request).status, 200);
    let head = site.upstream.last().head;
    assert_eq!(head.values("x-forwarded-host"), ["localhost:8080"]);
    assert_eq!(head.values("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(head.values("x-forwarded-proto"), ["http"]);
    assert_eq!(head.values("host"), [site.upstream.address.to_string()]);
    assert_eq!(head.values("cookie"), ["a=1; b=2"]);
}

#[test]
fn pages_are_answered() {
    let page = "https://app.example.com";
    let site = Site::with(|policy| policy.set("/routes/0/origins", json!([page])));
    let mut client = Client2::connect(&site.gateway);
    let asking = Request::new("OPTIONS", "/mcp")
        .header("Origin", page)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "mcp-param-region");
    let answer = client.exchange(&asking);
    assert_eq!(answer.status, 204, "{answer:?}");
    let allowed = answer.headers["access-control-allow-headers"]
        .to_str()
        .unwrap();
    assert!(allowed.contains("mcp-param-region"), "{allowed}");
    let refused = Request::call("echo")
        .header("Mcp-Name", "x")
        .header("Origin", page);
    let answer = client.exchange(&refused);
    assert_eq!((answer.status, site.upstream.request_count()), (400, 0));
    assert_eq!(answer.headers["access-control-allow-origin"], page);
}

#[test]
fn requests_pass_and_those_that_are_given_up_are_given_up() {
    let site = site(echoing());
    let mut client = Client2::connect(&site.gateway);
    let request = Request::new("POST", "/oauth/token?a=b").body("grant");
    let answer = client.exchange(&request);
    assert_eq!(
        (answer.status, &answer.body[..]),
        (418, &b"POST /oauth/token?a=b"[..])
    );
    assert_eq!(site.upstream.last().body, b"grant");
    assert_eq!(client.exchange(&Request::new("GET", "/health")).status, 418);
    let trace = client.exchange(&Request::new("TRACE", "/health"));
    assert_eq!(trace.status, 405, "{trace:?}");
    let open = site.upstream.log().open();

    let mut upload = client.begin(&Request::new("POST", "/oauth/upload"));
    upload.upload(b"first", false);
    site.upstream.wait("the first of it", |log| {
        log.requests
            .last()
            .is_some_and(|request| request.body == b"first")
    });
    upload.reset();
    site.upstream
        .wait("the request was cut off", |log| log.open() < open.max(1));
    assert!(!site.upstream.last().complete);
    assert_eq!(client.exchange(&Request::new("GET", "/health")).status, 418);
}
