//! An upstream's answers pass untouched, status and body, because clients tell the era of a server
//! by them.

use serde_json::json;

use crate::harness::{Framing, Reply, Request, Site, Upstream};

fn site(reply: Reply) -> Site {
    Site::before(Upstream::with(move |_| reply.clone()), |policy| policy)
}

#[test]
fn a_json_answer_keeps_its_bytes() {
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":1.0,"b":false,"c":123456789012345678901,"d":"\/\u00e9","a":2}}"#,
        "  {\"result\" : {} ,\r\n\t\"id\":1}\n\n",
        "{}",
        "not json at all",
        "",
    ] {
        let site = site(Reply::json(200, body));
        for request in [Request::call("echo"), Request::legacy_call("echo")] {
            let answer = site.gateway.ask(&request);
            assert_eq!((answer.status, answer.text().as_str()), (200, body));
            assert_eq!(answer.framing, Framing::Length(body.len()));
        }
    }
}

#[test]
fn bytes_that_are_no_text_pass_too() {
    let bytes: Vec<u8> = (0..=255).collect();
    let head =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 256\r\n\r\n";
    let site = site(Reply::raw([head.as_slice(), &bytes].concat()));
    assert_eq!(site.gateway.ask(&Request::call("echo")).body, bytes);
}

#[test]
fn every_status_passes_with_its_headers_and_body() {
    for (status, lines) in [
        (200, "Content-Type: text/html; charset=latin1\r\n"),
        (201, "Location: /x\r\n"),
        (302, "Location: http://elsewhere.example/mcp\r\n"),
        (307, "Location: /elsewhere\r\n"),
        (400, "Content-Type: application/json\r\n"),
        (
            401,
            "WWW-Authenticate: Bearer resource_metadata=\"https://a.example/b\", scope=\"x\"\r\n",
        ),
        (
            403,
            "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n",
        ),
        (404, "Content-Type: text/plain\r\n"),
        (405, "Allow: POST\r\n"),
        (418, "X-Tea: yes\r\n"),
        (429, "Retry-After: 7\r\n"),
        (500, "Content-Type: application/json\r\n"),
        (503, "Retry-After: 120\r\n"),
    ] {
        let site = site(Reply::with_lines(status, lines, "its own body"));
        let mut requests = vec![Request::call("echo"), Request::legacy_call("echo")];
        // The versions in the result of a probe are read, so that one has to be readable.
        if status >= 300 {
            requests.push(Request::modern("server/discover", json!({})));
        }
        for request in &requests {
            let answer = site.gateway.ask(request);
            let answered = (answer.status, answer.text());
            assert_eq!(answered, (status, "its own body".to_owned()));
            let (name, value) = lines.trim_end().split_once(": ").unwrap();
            assert_eq!(answer.head.value(name).as_deref(), Some(value), "{status}");
        }
        let count = site.upstream.request_count();
        assert_eq!(count, requests.len(), "{status}: no redirect followed");
        for record in site.records(requests.len()) {
            assert_eq!(record["upstream_status"], status);
            assert_eq!(record["status"], status);
            assert_eq!(record["verdict"], "forwarded");
        }
    }
}

#[test]
fn an_accepted_notification_has_no_body() {
    let site = Site::new();
    for request in [
        Request::modern_notification("notifications/x"),
        Request::legacy_message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
    ] {
        let answer = site.gateway.ask(&request);
        assert_eq!((answer.status, answer.body.len()), (202, 0));
    }
}

#[test]
fn answers_without_a_body_are_complete() {
    for head in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    ] {
        let site = site(Reply::raw(head));
        let mut client = site.gateway.connect();
        for _ in 0..3 {
            let answer = client.exchange(&Request::call("echo"));
            assert_eq!(answer.status, head[9..12].parse::<u16>().unwrap());
        }
        assert_eq!(site.upstream.request_count(), 3);
    }
}

#[test]
fn interim_answers_of_the_upstream_are_not_the_answer() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let site = site(Reply::raw(format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )));
    let mut client = site.gateway.connect();
    for _ in 0..2 {
        let answer = client.exchange(&Request::call("echo"));
        assert_eq!((answer.status, answer.text().as_str()), (200, body));
    }
}

#[test]
fn a_chunked_answer_is_put_together_from_its_chunks() {
    let site = site(Reply::raw(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         5;ext=1\r\n{\"a\":\r\n3\r\n1}\n\r\n0\r\nX-Trailer: 1\r\n\r\n",
    ));
    let mut client = site.gateway.connect();
    for _ in 0..2 {
        let answer = client.exchange(&Request::call("echo"));
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "{\"a\":1}\n")
        );
    }
}

#[test]
fn a_length_beside_chunks_does_not_reach_the_client() {
    let site = site(Reply::raw(
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
         7\r\n{\"a\":1}\r\n0\r\n\r\n",
    ));
    let answer = site.gateway.ask(&Request::call("echo"));
    let whole = (answer.status, answer.text()) == (200, "{\"a\":1}".to_owned());
    assert!(whole || answer.status == 502, "{answer:?}");
}

#[test]
fn an_answer_that_is_still_coded_is_an_error() {
    for coding in ["gzip, chunked", "gzip", "chunked, chunked"] {
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let site = site(Reply::raw_then_close(head + "3\r\n{}\n\r\n0\r\n\r\n"));
        let answer = site.gateway.ask(&Request::call("echo"));
        assert_eq!(answer.status, 502, "{coding}: {answer:?}");
        assert_eq!(site.upstream.runs("echo"), 1, "{coding}");
    }
}

#[test]
fn a_length_that_is_told_twice_leaves_once() {
    for lines in [
        "Content-Length: 7, 7",
        "Content-Length: 7\r\nContent-Length: 7",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{{\"a\":1}}");
        let site = site(Reply::raw(answer));
        let answer = site.gateway.ask(&Request::call("echo"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "{\"a\":1}"));
        assert_eq!(answer.head.values("content-length"), ["7"], "{lines}");
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_ends_for_the_client() {
    let site = site(Reply::raw_then_close(
        "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"all\":true}",
    ));
    let mut client = site.gateway.connect();
    let answer = client.exchange(&Request::call("echo"));
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "{\"all\":true}")
    );
}

#[test]
fn a_large_answer_passes_whole() {
    let body = "0123456789abcdef".repeat(1 << 19);
    let site = site(Reply::json(200, &body));
    let answer = site.gateway.ask(&Request::call("echo"));
    assert!(answer.text() == body, "{} bytes", answer.body.len());
    let record = &site.records(1)[0];
    assert_eq!(record["bytes_out"], body.len());
}
