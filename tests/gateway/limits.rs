//! Everything that a client can grow has a bound, and whoever meets it reads which key it is.

use std::time::Duration;

use crate::harness::{Fault, Refusal, Request, Site, eventually};

/// The answer to a head that is too large: ours, which names the limit, or for a head that is out
/// of all proportion the HTTP library's, which says nothing.
fn is_too_large(site: &Site, what: &str, request: &Request, limit: Option<&str>) {
    let mut client = site.gateway.connect();
    // The gateway may have closed before all of it was sent.
    let _ = client.wire.write(&request.bytes());
    let answer = client.read();
    match limit {
        Some(limit) => Refusal::of_head(431).names(&[limit]).check(what, &answer),
        None => assert_eq!(answer.status, 431, "{what}: {answer:?}"),
    }
}

#[test]
fn too_many_headers() {
    let site = Site::with(|policy| policy.listen("header_count_max", 20));
    let with = |count: usize| {
        let call = Request::call("echo");
        // One more line is the length.
        (call.lines.len() + 1..count).fold(call, |call, n| call.line(&format!("X-{n}"), "y"))
    };
    site.forwards("as many as allowed", &with(20));
    for (count, limit) in [
        (21, Some("header_count_max")),
        (90, Some("header_count_max")),
        (150, None),
        (1000, None),
    ] {
        let what = format!("{count} lines");
        let modern = with(count);
        is_too_large(&site, &what, &modern, limit);
        let legacy = modern.header("MCP-Protocol-Version", "2025-11-25");
        is_too_large(&site, &what, &legacy, limit);
    }
    assert_eq!(site.upstream.request_count(), 1);
    assert!(
        !site.gateway.wait_for_connections(2).is_empty(),
        "the library's answers"
    );
    site.works("many headers", &mut site.gateway.connect());
}

#[test]
fn too_large_a_head() {
    let site = Site::with(|policy| policy.listen("header_bytes_max", 8192));
    let with = |size: usize| Request::call("echo").line("X-Long", vec![b'y'; size]);
    site.forwards("large", &with(7000));
    let long_target = format!("/mcp?{}", "y".repeat(9000));
    let many = (0..40).fold(Request::call("echo"), |call, n| {
        call.line(&format!("X-{n}"), vec![b'y'; 300])
    });
    let limit = Some("header_bytes_max");
    for (what, request, limit) in [
        ("a line over the limit", with(8192), limit),
        ("many lines", many, limit),
        (
            "a target",
            Request::call("echo").target(&long_target),
            limit,
        ),
        ("a line of 50 KB", with(50_000), limit),
        ("a line of 500 KB", with(500_000), None),
    ] {
        is_too_large(&site, what, &request, limit);
    }
    assert_eq!(site.upstream.request_count(), 1);
    site.works("large heads", &mut site.gateway.connect());
}

#[test]
fn too_slow_a_head() {
    let site = Site::with(|policy| policy.listen("header_read_timeout", "300ms"));
    for sent in [
        "",
        "POST /mcp HT",
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Sl",
    ] {
        let mut client = site.gateway.connect();
        client.send_bytes(sent.as_bytes());
        let ending = client.wire.ending();
        assert!(
            matches!(ending, Fault::Closed(_) | Fault::Reset),
            "{sent:?}: {ending:?}"
        );
    }
    // Every connection that began with something has left a trace.
    let records = site.gateway.wait_for_connections(2);
    assert!(!records.is_empty(), "{records:?}");
    site.works("slow heads", &mut site.gateway.connect());
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    let site = Site::with(|policy| policy.listen("header_read_timeout", "300ms"));
    let mut client = site.gateway.connect();
    site.works("first", &mut client);
    assert!(matches!(client.wire.ending(), Fault::Closed(_)));
}

#[test]
fn a_connection_that_was_ended_is_not_read_for_ever() {
    let site = Site::new();
    let mut client = site.gateway.connect();
    client.send(&Request::call("good").line("Connection", "close"));
    assert_eq!(client.read().status, 200);
    assert_eq!(client.wire.ending(), Fault::Closed(0));
    // What is still sent is read for a while, so that it does not reset the connection.
    client.wire.write(b"x").expect("a connection that lingers");
    let took = eventually("the connection is let go", || {
        client.wire.write(b"x").is_err()
    });
    println!("a connection lingered for {took:?}");
}

#[test]
fn too_slow_a_body() {
    let site = Site::with(|policy| policy.bound("body_idle_timeout", "300ms"));
    for request in [
        Request::call("echo"),
        Request::call("echo").chunked(30),
        Request::legacy_call("echo"),
    ] {
        let bytes = request.bytes();
        let mut client = site.gateway.connect();
        client.send_bytes(&bytes[..bytes.len() - 10]);
        let answer = client.read();
        Refusal::of_head(408)
            .names(&["body_idle_timeout"])
            .check("slow", &answer);
        // What still comes of the body would be read as a request.
        assert!(
            answer
                .head
                .values("connection")
                .contains(&"close".to_owned())
        );
    }
    assert_eq!(site.upstream.request_count(), 0);
    // Silence is what is bounded, not the time that a body takes.
    let request = Request::call("echo");
    let mut client = site.gateway.connect();
    client.send_bytes(&request.head_bytes());
    for part in request.body.chunks(request.body.len().div_ceil(8)) {
        std::thread::sleep(Duration::from_millis(100));
        client.send_bytes(part);
    }
    assert_eq!(client.read().status, 200);
}

#[test]
fn too_deep_a_body() {
    let site = Site::with(|policy| policy.bound("depth_max", 10));
    // The envelope, its params and the arguments are three levels.
    let nested = |depth: usize| {
        let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        Request::call("echo").edit(
            "\"arguments\":{}",
            &format!("\"arguments\":{{\"a\":{value}}}"),
        )
    };
    site.forwards("as deep as allowed", &nested(7));
    let refusal = Refusal::of(400, -32600)
        .with_some_id()
        .names(&["depth_max", "10"]);
    for depth in [8, 64, 100_000] {
        site.refuses("deep", &nested(depth), &refusal);
    }
}

#[test]
fn the_depth_that_is_allowed_by_default() {
    let site = Site::new();
    let nested = |depth: usize| {
        let value = format!("{}0{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        Request::call("echo").edit("\"arguments\":{}", &format!("\"arguments\":{value}"))
    };
    site.forwards("64 levels", &nested(62));
    let refusal = Refusal::of(400, -32600)
        .with_some_id()
        .names(&["depth_max", "64"]);
    site.refuses("65 levels", &nested(63), &refusal);
}

#[test]
fn too_many_keys() {
    let site = Site::with(|policy| policy.bound("keys_max", 20));
    let keys = |count: usize| {
        let keys: Vec<_> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
        keys.join(",")
    };
    let params =
        |count: usize| Request::call("echo").edit("\"name\"", &format!("{},\"name\"", keys(count)));
    site.forwards("as many as allowed", &params(17));
    let refusal = Refusal::of(400, -32600)
        .with_some_id()
        .names(&["keys_max", "20"]);
    site.refuses("params", &params(18), &refusal);
    let envelope = Request::call("echo").edit("\"method\"", &format!("{},\"method\"", keys(18)));
    site.refuses("the envelope", &envelope, &refusal);
    let meta = Request::call("echo").edit("\"_meta\":{", &format!("\"_meta\":{{{},", keys(19)));
    site.refuses("_meta", &meta, &refusal);
    // Nobody remembers the keys of arguments.
    let arguments = format!("\"arguments\":{{{}}}", keys(5000));
    site.forwards(
        "arguments",
        &Request::call("echo").edit("\"arguments\":{}", &arguments),
    );
}

#[test]
fn too_long_a_name_or_id() {
    let site = Site::with(|policy| policy.bound("name_bytes_max", 40).bound("id_bytes_max", 30));
    site.forwards("as long as allowed", &Request::call(&"n".repeat(40)));
    let refusal = Refusal::of(400, -32600).names(&["name_bytes_max", "40"]);
    for request in [
        Request::call(&"n".repeat(41)),
        Request::legacy_call(&"n".repeat(41)),
        Request::modern(
            "resources/read",
            serde_json::json!({"uri": "u".repeat(10_000)}),
        )
        .header("Mcp-Name", "u"),
    ] {
        site.refuses("a name", &request, &refusal);
    }
    site.forwards(
        "as long as allowed",
        &Request::call("e").id(&"9".repeat(30)),
    );
    let refusal = Refusal::of(400, -32600)
        .id("null")
        .names(&["id_bytes_max", "30"]);
    for token in [
        "9".repeat(31),
        format!("\"{}\"", "i".repeat(31)),
        "9".repeat(60_000),
    ] {
        site.refuses("an id", &Request::call("e").id(&token), &refusal);
    }
}

#[test]
fn a_flood_of_half_open_connections_leaves_room_for_others() {
    let site = Site::new();
    let slow: Vec<_> = (0..300)
        .map(|_| {
            let mut client = site.gateway.connect();
            client.send_bytes(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n");
            client
        })
        .collect();
    site.works("slow neighbours", &mut site.gateway.connect());
    drop(slow);
    let took = eventually("the gateway serves on", || {
        site.gateway.ask(&Request::call("echo")).status == 200
    });
    println!("served again after {took:?}");
}
