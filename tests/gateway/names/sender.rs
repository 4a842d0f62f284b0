//! Where a request came from: what the upstream is told and what the log says.

use serde_json::{Value, json};

use crate::harness::{Policy, Request, Site};

const FORGED: [(&str, &str); 6] = [
    ("X-Forwarded-For", "1.1.1.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "stranger.example"),
    ("X-Real-IP", "1.1.1.1"),
    ("Forwarded", "for=1.1.1.1;proto=https;host=stranger.example"),
    ("X_Forwarded_For", "1.1.1.1"),
];

fn with(lines: &[(&str, &str)]) -> Request {
    let call = Request::call("echo").header("Host", "localhost:8080");
    lines
        .iter()
        .fold(call, |request, (name, value)| request.line(name, *value))
}

/// What the upstream received of each forwarding header.
fn told(site: &Site, request: &Request) -> Value {
    let head = site.forwards("a call", request).head;
    let of = |name: &str| json!(head.values(name));
    json!({
        "for": of("x-forwarded-for"), "proto": of("x-forwarded-proto"),
        "host": of("x-forwarded-host"), "real": of("x-real-ip"), "forwarded": of("forwarded"),
    })
}

fn forwarded(how: &str) -> impl FnOnce(Policy) -> Policy {
    move |policy| policy.upstream("forwarded", how)
}

#[test]
fn a_stranger_is_told_of_as_it_is_seen() {
    let x = |forwarded: Value| {
        json!({
            "for": ["127.0.0.1"], "proto": ["http"], "host": ["localhost:8080"],
            "real": ["127.0.0.1"], "forwarded": forwarded,
        })
    };
    let element = json!(["for=127.0.0.1;proto=http;host=\"localhost:8080\""]);
    let mut only_forwarded = json!({"for": [], "proto": [], "host": [], "real": []});
    only_forwarded["forwarded"] = element.clone();
    let nothing = json!({"for": [], "proto": [], "host": [], "real": [], "forwarded": []});
    for (how, expected) in [
        ("x-forwarded", x(json!([]))),
        ("forwarded", only_forwarded),
        ("both", x(element)),
        ("off", nothing),
    ] {
        let site = Site::with(forwarded(how));
        for request in [with(&[]), with(&FORGED)] {
            assert_eq!(told(&site, &request), expected, "{how}");
            let record = site.last_record();
            assert!(record.get("client").is_none(), "{record}");
        }
    }
}

#[test]
fn a_trusted_proxy_is_believed() {
    let site = Site::with(|policy| policy.listen("trusted_proxies", json!(["127.0.0.0/8"])));
    let lines = [
        ("X-Forwarded-For", "192.0.2.9, 127.0.0.5"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "tools.example.com"),
        ("X-Real-IP", "1.1.1.1"),
        ("Forwarded", "for=1.1.1.1"),
    ];
    let expected = json!({
        "for": ["192.0.2.9, 127.0.0.5, 127.0.0.1"], "proto": ["https"],
        "host": ["tools.example.com"], "real": ["192.0.2.9"], "forwarded": [],
    });
    assert_eq!(told(&site, &with(&lines)), expected);
    let record = site.last_record();
    assert_eq!(record["client"], "192.0.2.9", "{record}");
    let peer = record["peer"].as_str().unwrap();
    assert!(peer.starts_with("127.0.0.1:"), "{record}");

    // A refusal is told of by its client too.
    let refused = with(&lines).header("Mcp-Name", "other");
    assert_eq!(site.gateway.ask(&refused).status, 400);
    assert_eq!(site.records(1)[0]["client"], "192.0.2.9");
}

#[test]
fn what_is_unclear_is_not_believed_even_of_a_proxy() {
    let site = Site::with(|policy| policy.listen("trusted_proxies", json!(["127.0.0.1"])));
    let expected = json!({
        "for": ["127.0.0.1"], "proto": ["http"], "host": ["localhost:8080"],
        "real": ["127.0.0.1"], "forwarded": [],
    });
    let long = vec!["192.0.2.9"; 33].join(", ");
    for chain in [
        "192.0.2.9, unknown",
        "stranger.example",
        "192.0.2.9,,192.0.2.8",
        long.as_str(),
    ] {
        let lines = [("X-Forwarded-For", chain), ("X-Forwarded-Proto", "https")];
        assert_eq!(told(&site, &with(&lines)), expected, "{chain}");
        assert!(site.last_record().get("client").is_none(), "{chain}");
    }
}

#[test]
fn a_proxy_that_writes_forwarded_is_read_there() {
    let site = Site::with(|policy| {
        policy
            .listen("trusted_proxies", json!(["127.0.0.1"]))
            .listen("forwarded", "forwarded")
            .upstream("forwarded", "both")
    });
    let lines = [
        (
            "Forwarded",
            "for=\"[2001:db8::9]:4711\";proto=https;host=tools.example.com",
        ),
        ("X-Forwarded-For", "1.1.1.1"),
    ];
    let expected = json!({
        "for": ["2001:db8::9, 127.0.0.1"], "proto": ["https"], "host": ["tools.example.com"],
        "real": ["2001:db8::9"],
        "forwarded": ["for=\"[2001:db8::9]\";proto=https;host=\"tools.example.com\", for=127.0.0.1"],
    });
    assert_eq!(told(&site, &with(&lines)), expected);
    assert_eq!(site.last_record()["client"], "2001:db8::9");
}
