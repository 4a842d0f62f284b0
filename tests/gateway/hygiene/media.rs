//! `Content-Type` and `Content-Encoding` of requests.

use crate::harness::{Refusal, Request, Site};

#[test]
fn a_media_type_is_read_as_one() {
    let site = Site::new();
    for kind in [
        "application/json",
        "APPLICATION/JSON",
        "Application/Json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "application/json ; charset=\"utf-8\"",
        "application/json; profile=\"a;b, c\"",
    ] {
        let request = Request::call("echo").header("Content-Type", kind);
        let received = site.forwards(kind, &request);
        let sent = received.head.value("content-type").unwrap();
        assert!(
            sent.to_lowercase().starts_with("application/json"),
            "{sent}"
        );
    }
}

#[test]
fn other_media_types_are_refused() {
    let site = Site::new();
    for kind in [
        "",
        "text/plain",
        "text/json",
        "application/json-seq",
        "application/jsonx",
        "application/vnd.api+json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "text/plain; application/json",
        "text/plain, application/json",
        "application/json, text/plain",
        "json",
        "*/*",
        "application/*",
    ] {
        for request in [Request::call("echo"), Request::legacy_call("echo")] {
            let request = request.header("Content-Type", kind);
            site.refuses(kind, &request, &Refusal::of_head(415));
        }
    }
}

#[test]
fn no_media_type_or_two_are_refused() {
    let site = Site::new();
    let call = Request::call("echo");
    let none = call.clone().without("Content-Type");
    site.refuses("none", &none, &Refusal::of_head(415));
    for second in ["application/json", "text/plain"] {
        let twice = call.clone().line("Content-Type", second);
        site.refuses(second, &twice, &Refusal::of_head(415));
    }
}

#[test]
fn another_charset_is_refused() {
    let site = Site::new();
    // JSON is UTF-8. A reader that believed the parameter would read other characters.
    for kind in [
        "application/json; charset=utf-16",
        "application/json; charset=utf-7",
    ] {
        let request = Request::call("echo").header("Content-Type", kind);
        site.refuses(kind, &request, &Refusal::of_head(415));
    }
}

#[test]
fn an_encoded_body_is_refused() {
    let site = Site::new();
    // RFC 9110 reserves `identity` for Accept-Encoding: in Content-Encoding it means nothing that
    // all servers agree on, so it is refused like the others.
    for coding in ["gzip", "br", "deflate", "identity", "gzip, identity", "x"] {
        for request in [Request::call("echo"), Request::legacy_call("echo")] {
            let request = request.header("Content-Encoding", coding);
            site.refuses(coding, &request, &Refusal::of_head(415));
        }
    }
}
