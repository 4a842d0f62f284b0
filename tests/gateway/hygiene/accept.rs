//! In which form answers of our own come.

use crate::harness::{Request, Response, Site};

fn refused(site: &Site, accept: Option<&str>) -> Response {
    let request = Request::call("echo")
        .header("Mcp-Name", "other")
        .without("Accept");
    let request = match accept {
        Some(accept) => request.header("Accept", accept),
        None => request,
    };
    let answer = site.gateway.ask(&request);
    assert_eq!(answer.status, 400, "{accept:?}: {answer:?}");
    assert_eq!(answer.code(), Some(-32020), "{accept:?}: {answer:?}");
    assert_eq!(answer.raw_id().as_deref(), Some("1"), "{accept:?}");
    answer
}

#[test]
fn json_is_preferred_where_it_is_acceptable() {
    let site = Site::new();
    for accept in [
        None,
        Some("application/json"),
        Some("application/json, text/event-stream"),
        Some("text/event-stream, application/json"),
        Some("APPLICATION/JSON"),
        Some("*/*"),
        Some("application/*"),
        Some("text/event-stream, application/json;q=0.1"),
        Some("text/event-stream;q=0.9, */*;q=0.1"),
    ] {
        let answer = refused(&site, accept);
        let kind = answer.head.value("content-type").unwrap();
        assert_eq!(kind, "application/json", "{accept:?}");
    }
}

#[test]
fn an_event_stream_is_the_other_form() {
    let site = Site::new();
    for accept in [
        "text/event-stream",
        "text/*",
        "text/event-stream, application/json;q=0",
        "application/json;q=0.0, */*",
    ] {
        let answer = refused(&site, Some(accept));
        let kind = answer.head.value("content-type").unwrap();
        assert!(kind.starts_with("text/event-stream"), "{accept}: {kind}");
        let text = answer.text();
        assert!(text.ends_with("\n\n"), "an event that ends: {text:?}");
        let data = text
            .lines()
            .filter(|line| line.starts_with("data:"))
            .count();
        assert_eq!(data, 1, "one line of data: {text:?}");
    }
}

#[test]
fn a_list_may_stand_in_several_lines() {
    let site = Site::new();
    for (lines, form) in [
        (
            &["text/event-stream", "application/json"][..],
            "application/json",
        ),
        (
            &["application/json;q=0", "text/*;q=0.5", "*/*"],
            "text/event-stream",
        ),
    ] {
        let request = Request::call("echo").without("Mcp-Name").without("Accept");
        let request = lines
            .iter()
            .fold(request, |request, line| request.line("Accept", *line));
        let answer = site.gateway.ask(&request);
        let kind = answer.head.value("content-type").unwrap();
        assert_eq!(kind, form, "{lines:?}");
    }
}

#[test]
fn the_upstream_judges_what_it_can_answer() {
    let site = Site::new();
    for accept in [
        "text/html",
        "application/json",
        "text/event-stream;q=0.3, x/y",
    ] {
        let request = Request::call("echo").header("Accept", accept);
        let received = site.forwards(accept, &request);
        assert_eq!(received.head.values("accept"), [accept]);
    }
    let none = site.forwards("none", &Request::call("echo").without("Accept"));
    assert!(none.head.values("accept").is_empty());
}
