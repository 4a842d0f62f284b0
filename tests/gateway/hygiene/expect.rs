//! Bodies that come late, slowly, or only when asked for.

use crate::harness::{Client, Request, Site};

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    let site = Site::new();
    for chunked in [false, true] {
        let request = Request::call("echo").line("Expect", "100-continue");
        let request = match chunked {
            true => request.chunked(50),
            false => request,
        };
        let mut client = site.gateway.connect();
        client.send_bytes(&request.head_bytes());
        let interim = client.wire.head().unwrap();
        assert_eq!(interim.status(), 100, "{}", interim.start);
        client.send_bytes(&request.body_bytes());
        assert_eq!(client.read().status, 200);
        let received = site.upstream.last();
        assert_eq!(received.body, request.body);
        assert!(!received.head.has("expect"), "the body is here already");
        site.works("100", &mut client);
    }
}

#[test]
fn a_client_that_waits_for_100_is_refused_without_sending_its_body() {
    let site = Site::new();
    let call = Request::call("echo").line("Expect", "100-continue");
    for (request, status) in [
        (call.clone().header("Content-Type", "text/plain"), 415),
        (call.clone().header("Content-Encoding", "gzip"), 415),
        (call.clone().target("/other"), 404),
        (call.clone().header("Origin", "https://evil.example"), 403),
        (call.clone().header("Content-Length", "500000000"), 413),
    ] {
        let mut client = site.gateway.connect();
        client.send_bytes(&request.head_bytes());
        // The final answer comes at once; whether 100 went before it is of no interest.
        let answer = client.read();
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(site.upstream.runs("echo"), 0);
        // A gateway that does not end the connection means to read the body that is still due.
        if !answer
            .head
            .values("connection")
            .contains(&"close".to_owned())
            && status != 413
        {
            client.send_bytes(&request.body_bytes());
            site.works("a body that came late", &mut client);
        }
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let site = Site::new();
    for request in [
        Request::call("echo"),
        Request::call("echo").chunked(1),
        Request::legacy_call("echo").chunked(3),
    ] {
        let mut client = site.gateway.connect();
        client.dribble(&request.bytes());
        assert_eq!(client.read().status, 200);
        assert_eq!(site.upstream.last().body, request.body);
        site.works("dribbling", &mut client);
    }
    let mut client = site.gateway.connect();
    client.dribble(&Request::call("echo").header("Mcp-Name", "x").bytes());
    assert_eq!(client.read().code(), Some(-32020));
    site.works("dribbling what is refused", &mut client);
}

#[test]
fn a_chunked_body_goes_upstream_as_one_message() {
    let site = Site::new();
    for size in [1, 7, 100, 4096] {
        let request = Request::call("echo").chunked(size);
        let received = site.forwards(&format!("chunks of {size}"), &request);
        let framed = [
            received.head.has("content-length"),
            received.head.has("transfer-encoding"),
        ];
        assert_eq!(framed.iter().filter(|one| **one).count(), 1, "one framing");
    }
}

#[test]
fn trailers_add_nothing_to_the_head() {
    let site = Site::new();
    let request = Request::call("echo")
        .chunked(40)
        .line("Trailer", "Mcp-Name");
    let bytes = String::from_utf8(request.bytes()).unwrap();
    let bytes = bytes.replace(
        "\r\n0\r\n\r\n",
        "\r\n0\r\nMcp-Name: other\r\nX-T: 1\r\n\r\n",
    );
    let mut client: Client = site.gateway.connect();
    client.send_bytes(bytes.as_bytes());
    let answer = client.read();
    assert_eq!(answer.status, 200, "{answer:?}");
    let received = site.upstream.last();
    assert_eq!(received.head.value("mcp-name").unwrap(), "echo");
    assert!(!received.head.has("x-t"));
    site.works("trailers", &mut client);
}
