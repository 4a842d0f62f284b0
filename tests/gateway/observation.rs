//! One record per exchange whatever ends it, and nothing in the log that is none of its business.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::harness::{
    Client, Gateway, LEGACY, Play, Policy, Reply, Request, Response, Site, Upstream, contains,
};

fn one(site: &Site) -> Value {
    site.records(1).remove(0)
}

#[test]
fn every_kind_of_exchange_leaves_one_record() {
    let site = Site::new();
    site.gateway.ask(&Request::call("echo"));
    let record = one(&site);
    assert_eq!(
        (&record["verdict"], &record["end"]),
        (&json!("forwarded"), &json!("complete"))
    );
    assert_eq!(record["bytes_in"], Request::call("echo").body.len());
    assert!(record["total_ms"].is_number() && record["upstream_head_ms"].is_number());
    for (request, status, era) in [
        (
            Request::call("echo").header("Mcp-Name", "x"),
            400,
            Some("modern"),
        ),
        (Request::call("echo").body("{"), 400, None),
        (
            Request::call("echo").header("Content-Type", "x/y"),
            415,
            None,
        ),
        (
            Request::legacy_call("echo").header("Mcp-Name", "x"),
            400,
            Some("legacy"),
        ),
    ] {
        site.gateway.ask(&request);
        let record = one(&site);
        assert_eq!(record["status"], status, "{record}");
        assert!(
            record["verdict"].as_str().unwrap().starts_with("refused:"),
            "{record}"
        );
        assert_eq!(record["end"], "complete");
        assert_eq!(record["era"].as_str(), era, "{record}");
        assert!(record.get("upstream_status").is_none(), "{record}");
    }
    site.gateway.ask(&Request::new("GET", "/nowhere"));
    let record = one(&site);
    assert_eq!(
        (&record["status"], &record["path"]),
        (&json!(404), &json!("/nowhere"))
    );
    let mut client = site.gateway.connect();
    for number in 0..10 {
        client.exchange(&Request::call("echo").id(&number.to_string()));
    }
    assert_eq!(site.records(10).len(), 10);
}

#[test]
fn an_exchange_that_breaks_leaves_one_record_too() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("dies") => Reply::raw_then_close(""),
        Some("breaks") => Reply::Steps(vec![Play::sse_head(), Play::chunk(": x\n\n"), Play::Close]),
        Some("streams") => Reply::Steps(vec![Play::sse_head(), Play::chunk(": x\n\n")]),
        _ => Reply::usual(request),
    });
    let site = Site::before(upstream, |policy| policy);
    site.gateway.ask(&Request::call("dies"));
    let record = one(&site);
    assert_eq!(
        (&record["status"], &record["end"]),
        (&json!(502), &json!("complete"))
    );
    assert_eq!(record["name"], "dies");
    let mut client = site.gateway.connect();
    client.send(&Request::call("breaks"));
    assert!(client.try_read().is_err());
    let record = one(&site);
    assert_eq!(record["end"], "upstream_failed", "{record}");
    let mut client = site.gateway.connect();
    client.send(&Request::call("streams"));
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, b": x\n\n");
    drop(client);
    let record = one(&site);
    assert_eq!(record["end"], "client_gone", "{record}");
    assert_eq!(record["bytes_out"], 5);
    site.works("breaking", &mut site.gateway.connect());
    one(&site);
}

#[test]
fn an_answer_without_a_body_is_complete() {
    let site = Site::new();
    for path in ["/mcp", "/nowhere", "/.well-known/x"] {
        let mut client = site.gateway.connect();
        client.send(&Request::new("HEAD", path));
        // Nothing stands between this head and the next, though a length may be told.
        assert!((400..500).contains(&client.read_head().0.status()));
        let record = one(&site);
        assert_eq!(record["end"], "complete", "{record}");
        assert_eq!(record["bytes_out"], 0, "{record}");
        site.works(path, &mut client);
        one(&site);
    }
    site.gateway.ask(&Request::new("OPTIONS", "/mcp"));
    assert_eq!(one(&site)["end"], "complete");
}

#[test]
fn an_upstream_that_breaks_off_leaves_no_record_of_the_connection() {
    let upstream = Upstream::with(|_| {
        Reply::Steps(vec![
            Play::sse_head(),
            Play::chunk("data: 1\n\n"),
            Play::Close,
        ])
    });
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::call("echo"));
    client.try_read().expect_err("a break");
    client.wire.ending();
    assert_eq!(one(&site)["end"], "upstream_failed");
    // Were there one, it would come before the record of what is done next.
    site.gateway.ask(&Request::new("GET", "/nowhere"));
    one(&site);
    assert!(site.gateway.wait_for_connections(0).is_empty());
}

#[test]
fn no_secret_and_no_argument_is_ever_logged() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("dies") => Reply::raw_then_close(""),
        _ => Reply::with_lines(
            200,
            "Content-Type: application/json\r\nSet-Cookie: CANARY-answer-cookie\r\nMcp-Session-Id: CANARY-new-session\r\nX-A: CANARY-answer-header\r\n",
            r#"{"jsonrpc":"2.0","id":1,"result":{"text":"CANARY-result"}}"#,
        ),
    });
    let site = Site::before(upstream, |policy| policy);
    let mut requests = Vec::new();
    for tool in ["echo", "dies"] {
        for request in [Request::call(tool), Request::legacy_call(tool)] {
            let request = request
                .edit(
                    "\"arguments\":{}",
                    r#""arguments":{"CANARY-key":"CANARY-argument"}"#,
                )
                .id("\"CANARY-id\"")
                .line("Authorization", "Bearer CANARY-token")
                .line("Cookie", "a=CANARY-cookie")
                .line("X-Api-Key", "CANARY-key")
                .line("Mcp-Param-Region", "CANARY-param")
                .line("Mcp-Session-Id", "CANARY-session")
                .line("Last-Event-ID", "CANARY-event")
                .line("X-Forwarded-For", "CANARY-address")
                .target("/mcp?token=CANARY-query");
            requests.push(request.clone());
            requests.push(request.clone().header("Content-Type", "CANARY/type"));
            requests.push(request.clone().edit("\"2.0\"", "\"CANARY-version\""));
            requests.push(request.clone().body("CANARY-body"));
            requests.push(
                request
                    .clone()
                    .header("Origin", "https://CANARY-origin.example"),
            );
            requests.push(request.clone().target("/nowhere?token=CANARY-query"));
            requests.push(request.method("PUT"));
        }
    }
    requests.push(Request::get().header("Mcp-Session-Id", "CANARY-session"));
    requests.push(Request::delete("CANARY-session").target("/mcp?CANARY-query"));
    requests.push(Request::initialize("CANARY-version"));
    for request in &requests {
        site.gateway.ask(request);
    }
    site.records(requests.len());
    for line in site.gateway.lines() {
        // An origin that was refused is the platform's business; it is no secret.
        let line = line.replace("CANARY-origin", "");
        assert!(!line.to_lowercase().contains("canary"), "{line}");
    }
}

#[test]
fn hostile_words_cannot_forge_lines() {
    for format in ["json", "text"] {
        let site = Site::with(|policy| policy.set("/log/access", json!(format)));
        let forged = "x\r\n{\"kind\":\"exchange\",\"verdict\":\"forged\"}\n\u{1b}[31m\u{2028}\u{85} verdict=forged \"";
        let quiet = site.gateway.lines().len();
        let requests = [
            Request::modern("tools/call", json!({"name": forged})).without("Mcp-Name"),
            Request::legacy("tools/call", json!({"name": forged})),
            Request::legacy(forged, json!({})),
            Request::new("GET", "/%0a%22verdict%22:forged"),
            Request::call("echo").header("Mcp-Name", "\" verdict=forged"),
        ];
        for request in &requests {
            site.gateway.ask(request);
        }
        let last = Request::call("the-last-one");
        site.gateway.ask(&last);
        site.gateway.wait_for_line("the-last-one");
        let lines = &site.gateway.lines()[quiet..];
        assert_eq!(lines.len(), requests.len() + 1, "{format}: {lines:#?}");
        for line in lines {
            assert!(!line.contains('\u{1b}') && !line.contains('\r'), "{line:?}");
            if format == "json" {
                let record: Value = serde_json::from_str(line).unwrap();
                assert_eq!(record["kind"], "exchange");
                assert_ne!(record["verdict"], "forged");
            } else {
                let verdicts = unquoted(line).matches(" verdict=").count();
                assert_eq!(verdicts, 1, "{line:?}");
            }
        }
    }
}

/// A line of text without what stands in quotes.
fn unquoted(line: &str) -> String {
    let mut bare = String::new();
    let mut quoted = false;
    let mut escaped = false;
    for character in line.chars() {
        match (quoted, escaped, character) {
            (true, false, '\\') => escaped = true,
            (_, false, '"') => quoted = !quoted,
            (true, _, _) => escaped = false,
            (false, _, _) => bare.push(character),
        }
    }
    bare
}

#[test]
fn a_connection_that_dies_before_an_exchange_leaves_a_record() {
    let gateway = Gateway::before(&Upstream::start());
    for (number, bytes) in ["POST /mcp HT", "\0\0garbage\r\n\r\n"]
        .into_iter()
        .enumerate()
    {
        let mut client = gateway.connect();
        client.send_bytes(bytes.as_bytes());
        client.wire.finish();
        client.wire.ending();
        let records = gateway.wait_for_connections(number + 1);
        assert_eq!(records.len(), number + 1, "{records:?}");
        let record = &records[number];
        assert_eq!(record["bytes_in"], bytes.len(), "{record}");
        assert!(
            record["peer"].as_str().unwrap().starts_with("127.0.0.1:"),
            "{record}"
        );
        assert!(record["end"].is_string(), "{record}");
    }
    assert!(gateway.records().is_empty(), "no exchange took place");
}

#[test]
fn a_connection_that_served_leaves_no_second_record() {
    let site = Site::new();
    for _ in 0..20 {
        let mut client = site.gateway.connect();
        client.exchange(&Request::call("echo"));
        drop(client);
        let mut client = site.gateway.connect();
        client.exchange(&Request::call("echo"));
        client.wire.reset();
        site.records(2);
    }
    // A connection that dies early is recorded after this one has ended, whenever that was.
    let mut client = site.gateway.connect();
    client.send_bytes(b"POST");
    drop(client);
    assert_eq!(site.gateway.wait_for_connections(1).len(), 1);
}

#[test]
fn a_legacy_exchange_is_recorded_with_its_version() {
    let site = Site::new();
    site.gateway.ask(&Request::legacy_call("echo"));
    let record = one(&site);
    assert_eq!(record["version"], LEGACY);
    assert_eq!(
        (&record["method"], &record["name"]),
        (&json!("tools/call"), &json!("echo"))
    );
    site.gateway.ask(&Request::get());
    let record = one(&site);
    assert_eq!(
        (&record["http_method"], &record["era"]),
        (&json!("GET"), &json!("legacy"))
    );
}

#[test]
fn the_log_can_go_to_a_file_or_nowhere() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("access.log");
    let site = Site::with(|policy| policy.set("/log/file", json!(file)));
    site.gateway.ask(&Request::call("echo"));
    let took = crate::harness::eventually("a line in the file", || {
        std::fs::read(&file).is_ok_and(|log| contains(&log, b"\"name\":\"echo\""))
    });
    println!("written after {took:?}");
    let silent = Site::with(|policy| policy.set("/log/access", json!("off")));
    let quiet = silent.gateway.lines().len();
    for _ in 0..5 {
        assert_eq!(silent.gateway.ask(&Request::call("echo")).status, 200);
    }
    assert_eq!(silent.gateway.lines().len(), quiet);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let site = Site::with(|policy| policy.set("/log/backlog_bytes_max", json!("64Ki")));
    site.gateway.stop_reading();
    // Some 400 bytes each: many times what the pipe and the backlog hold together.
    let mut client = site.gateway.connect();
    for _ in 0..1500 {
        assert_eq!(client.exchange(&Request::call("echo")).status, 200);
    }
    assert_eq!(site.upstream.runs("echo"), 1500);
}

fn probe(address: SocketAddr, path: &str) -> Response {
    Client::connect(address).exchange(&Request::new("GET", path))
}

#[test]
fn probes_are_answered_on_the_status_listener_alone() {
    let site = Site::new();
    for path in ["/healthz", "/readyz"] {
        assert_eq!(probe(site.gateway.status, path).status, 200, "{path}");
        assert_eq!(probe(site.gateway.address, path).status, 404, "{path}");
    }
    assert_eq!(probe(site.gateway.status, "/mcp").status, 404);
    assert_eq!(site.upstream.request_count(), 0);
    // An upstream that is away is no reason to restart or to take away this replica.
    let alone = Gateway::start(&Policy::to_url("http://127.0.0.75:1/mcp"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(probe(alone.status, path).status, 200, "{path}");
    }
}
