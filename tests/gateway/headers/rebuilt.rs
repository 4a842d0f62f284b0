//! What leaves the gateway: routing headers rebuilt from the body, one line each.

use serde_json::json;

use crate::harness::{LEGACY, MODERN, Received, Refusal, Reply, Request, Site, Upstream};

/// The routing headers that the upstream received, in lower case.
fn routing(received: &Received) -> Vec<(String, String)> {
    let mut lines: Vec<_> = received
        .head
        .lines
        .iter()
        .map(|line| {
            let value = String::from_utf8_lossy(&line.value).into_owned();
            (line.name.to_lowercase(), value)
        })
        .filter(|(name, _)| name.starts_with("mcp"))
        .collect();
    lines.sort();
    lines
}

fn expected(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn each_modern_method_has_its_headers_and_no_others() {
    let site = Site::new();
    for (method, params, name) in [
        ("tools/call", json!({"name": "a"}), Some("a")),
        ("prompts/get", json!({"name": "b"}), Some("b")),
        ("resources/read", json!({"uri": "c://c"}), Some("c://c")),
        ("tasks/get", json!({"taskId": "d"}), Some("d")),
        ("tasks/update", json!({"taskId": "e"}), Some("e")),
        ("tasks/cancel", json!({"taskId": "f"}), Some("f")),
        ("tools/list", json!({"name": "g"}), None),
        ("server/discover", json!({}), None),
        ("completion/complete", json!({"ref": {"name": "h"}}), None),
        ("acme/tool", json!({"name": "i", "uri": "i://i"}), None),
    ] {
        let received = site.forwards(method, &Request::modern(method, params));
        let mut lines = vec![("mcp-method", method)];
        lines.extend(name.map(|name| ("mcp-name", name)));
        lines.push(("mcp-protocol-version", MODERN));
        assert_eq!(routing(&received), expected(&lines), "{method}");
    }
}

#[test]
fn a_name_on_a_method_without_one_is_removed() {
    let site = Site::new();
    let list = Request::modern("tools/list", json!({}));
    let notification = Request::modern_notification("notifications/x");
    for request in [
        list.clone().header("Mcp-Name", "echo"),
        list.clone().header("MCP-NAME", "=?base64?!!?="),
        list.line("Mcp-Name", "a")
            .line("mcp-name", b"\xff".as_slice()),
        notification.header("Mcp-Name", "echo"),
    ] {
        let received = site.forwards("a name too many", &request);
        assert!(!received.head.has("mcp-name"), "{:?}", received.head);
        assert!(received.head.has("mcp-method"));
    }
}

#[test]
fn mirror_supplies_what_is_missing() {
    let site = Site::with(|policy| policy.routing_headers("missing", "mirror"));
    let headers = ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"];
    let whole = expected(&[
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
        ("mcp-protocol-version", MODERN),
    ]);
    for missing in [&headers[..1], &headers[1..2], &headers[2..], &headers] {
        let request = missing
            .iter()
            .fold(Request::call("echo"), |request, name| request.without(name));
        let received = site.forwards(&format!("{missing:?}"), &request);
        assert_eq!(routing(&received), whole, "{missing:?}");
    }
    let bare = Request::call("ünï").without("Mcp-Name");
    let received = site.forwards("a name to encode", &bare);
    assert_eq!(
        received.head.value("mcp-name").unwrap(),
        "=?base64?w7xuw68=?="
    );
}

#[test]
fn mirror_forgives_nothing_that_is_there() {
    let site = Site::with(|policy| policy.routing_headers("missing", "mirror"));
    let call = Request::call("echo");
    for (header, request) in [
        ("Mcp-Name", call.clone().header("Mcp-Name", "other")),
        ("Mcp-Name", call.clone().header("Mcp-Name", "")),
        ("Mcp-Name", call.clone().line("Mcp-Name", "echo")),
        ("Mcp-Method", call.clone().header("Mcp-Method", "x")),
        (
            "MCP-Protocol-Version",
            call.clone().header("MCP-Protocol-Version", LEGACY),
        ),
    ] {
        let refusal = Refusal::of(400, -32020).names(&[header]);
        site.refuses(header, &request, &refusal);
    }
    // Nothing in such a request says that it is modern.
    let unplaced = Request::legacy_call("echo").without("MCP-Protocol-Version");
    site.refuses("no version at all", &unplaced, &Refusal::of(400, -32020));
}

#[test]
fn param_headers_pass_on_a_modern_request() {
    let site = Site::new();
    let request = Request::call("echo")
        .line("Mcp-Param-Region", "us-west1")
        .line("mcp-param-city", "Seattle, WA")
        .line("Mcp-Param-Text", "=?base64?w7xuw68=?=");
    let received = site.forwards("params", &request);
    for (name, value) in [
        ("mcp-param-region", "us-west1"),
        ("mcp-param-city", "Seattle, WA"),
        ("mcp-param-text", "=?base64?w7xuw68=?="),
    ] {
        assert_eq!(received.head.value(name).unwrap(), value);
    }
}

#[test]
fn param_headers_are_stripped_from_a_legacy_request() {
    for rule in ["verify", "drop"] {
        let site = Site::with(|policy| policy.routing_headers("legacy", rule));
        let request = Request::legacy_call("echo")
            .line("Mcp-Param-Region", "us-west1")
            .line("MCP-PARAM-X", "y");
        let received = site.forwards("params", &request);
        let names: Vec<_> = routing(&received)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert!(
            !names.iter().any(|name| name.starts_with("mcp-param")),
            "{names:?}"
        );
    }
}

/// An upstream that answers everything with session headers.
fn sessions() -> Upstream {
    Upstream::with(|_| {
        Reply::with_lines(
            200,
            "Content-Type: application/json\r\nMcp-Session-Id: theirs\r\nLast-Event-ID: 4\r\n",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        )
    })
}

#[test]
fn sessions_are_dropped_on_modern_exchanges_both_ways() {
    let site = Site::before(sessions(), |policy| policy);
    let request = Request::call("echo")
        .header("Mcp-Session-Id", "ours")
        .header("Last-Event-ID", "3");
    let received = site.forwards("a session", &request);
    assert!(!received.head.has("mcp-session-id") && !received.head.has("last-event-id"));
    let answer = site.gateway.ask(&request);
    assert!(!answer.head.has("mcp-session-id") && !answer.head.has("last-event-id"));
}

#[test]
fn sessions_pass_on_legacy_exchanges_both_ways() {
    let site = Site::before(sessions(), |policy| policy);
    for request in [
        Request::legacy_call("echo"),
        Request::get(),
        Request::delete("ours"),
    ] {
        let request = request
            .header("Mcp-Session-Id", "ours")
            .header("Last-Event-ID", "3");
        let answer = site.gateway.ask(&request);
        assert_eq!(answer.head.value("mcp-session-id").unwrap(), "theirs");
        let head = site.upstream.last().head;
        assert_eq!(head.value("mcp-session-id").unwrap(), "ours");
        assert_eq!(head.value("last-event-id").unwrap(), "3");
    }
}

#[test]
fn no_variant_of_a_reserved_name_reaches_an_upstream_that_folds_names() {
    let site = Site::new();
    let reserved = [
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-param-region",
        "content-length",
        "transfer-encoding",
    ];
    for request in [Request::call("echo"), Request::legacy_call("echo")] {
        for name in [
            "Content_Length",
            "Transfer_Encoding",
            "Mcp_Method",
            "mcp_name",
            "MCP_Protocol_Version",
            "Mcp_Protocol-Version",
            "MCP_SESSION_ID",
            "Mcp-Param_Region",
            "Mcp_Param_Region",
        ] {
            let before = site.upstream.request_count();
            let answer = site.gateway.ask(&request.clone().line(name, "forged"));
            if answer.status == 400 {
                assert_eq!(site.upstream.request_count(), before, "{name}");
                continue;
            }
            assert_eq!(answer.status, 200, "{name}");
            for line in site.upstream.last().head.lines {
                let folded = line.name.to_lowercase().replace('_', "-");
                let forged = line.value == b"forged" && reserved.contains(&folded.as_str());
                assert!(!forged, "{} went upstream", line.name);
            }
        }
    }
}
