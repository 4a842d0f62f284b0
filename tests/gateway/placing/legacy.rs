//! Messages with a legacy version header.

use serde_json::json;

use crate::harness::{
    CAPABILITIES_KEY, HEADERLESS, LEGACY, LEGACY_ONLY, MIXED, MODERN_ONLY, Refusal, Request, Site,
};

fn call_of(version: &str) -> Request {
    Request::legacy_call("echo").header("MCP-Protocol-Version", version)
}

#[test]
fn an_accepted_version_is_forwarded() {
    for (versions, accepted) in [
        (MIXED, &["2025-11-25", "2025-06-18"][..]),
        (LEGACY_ONLY, &["2025-11-25", "2025-06-18"]),
        (
            HEADERLESS,
            &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        ),
    ] {
        let site = Site::serving(versions);
        for version in accepted {
            let received = site.forwards(version, &call_of(version));
            let sent = received.head.value("mcp-protocol-version");
            assert_eq!(sent.as_deref(), Some(*version));
            let record = site.last_record();
            assert_eq!(record["era"], "legacy");
            assert_eq!(record["version"], *version);
        }
    }
}

#[test]
fn a_version_that_the_route_does_not_accept_is_refused_with_those_it_does() {
    for (versions, refused) in [
        (MIXED, &["2025-03-26", "2024-11-05"][..]),
        (MODERN_ONLY, &["2025-11-25", "2025-06-18", "2025-03-26"]),
    ] {
        let site = Site::serving(versions);
        for version in refused {
            let refusal = Refusal::of(400, -32022).supported(versions);
            let answer = site.refuses(version, &call_of(version), &refusal);
            assert_eq!(answer.json()["error"]["data"]["requested"], *version);
        }
    }
}

#[test]
fn a_legacy_only_route_refuses_other_versions_without_modern_words() {
    let site = Site::serving(LEGACY_ONLY);
    // −32022 would tell a client of both eras that this is a modern server.
    let refusal = Refusal::of(400, -32600).supported(LEGACY_ONLY);
    site.refuses("2025-03-26", &call_of("2025-03-26"), &refusal);
}

#[test]
fn a_version_that_nobody_knows_is_refused() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        for version in [
            "2099-01-01",
            "1900-01-01",
            "nonsense",
            "2025-11-25, 2025-06-18",
        ] {
            // Later than every version that we know, it would be modern and lack its `_meta`.
            let refusal = Refusal::any_of(400, &[-32022, -32602]);
            site.refuses(version, &call_of(version), &refusal);
        }
    }
}

#[test]
fn reserved_meta_keys_make_nothing_modern() {
    for versions in [MIXED, LEGACY_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let request = Request::legacy(
            "tools/call",
            json!({"name": "echo", "_meta": {
                "progressToken": 7, CAPABILITIES_KEY: {},
                "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
                "io.modelcontextprotocol/related-task": {"taskId": "t"}, "com.example/x": null
            }}),
        );
        site.forwards("reserved keys", &request);
        assert_eq!(site.upstream.runs("echo"), 1);
    }
}

#[test]
fn notifications_and_responses_of_an_accepted_version_are_forwarded() {
    for versions in [MIXED, LEGACY_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 0, "result": {"roots": []}}),
            json!({"jsonrpc": "2.0", "id": "a", "error": {"code": -1, "message": "no"}}),
        ] {
            site.forwards("a message", &Request::legacy_message(message));
        }
    }
}

#[test]
fn notifications_and_responses_of_another_version_are_refused() {
    let site = Site::serving(MODERN_ONLY);
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
    ] {
        let refusal = Refusal::any_of(400, &[-32022, -32600]).with_some_id();
        site.refuses("a message", &Request::legacy_message(message), &refusal);
    }
}

#[test]
fn gets_and_deletes_of_a_legacy_client_are_forwarded() {
    for versions in [MIXED, LEGACY_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        let get = site.gateway.ask(&Request::get());
        assert_eq!(get.status, 405, "the upstream's own answer");
        assert_eq!(get.head.value("allow").unwrap(), "POST");
        site.records(1);
        site.forwards("DELETE", &Request::delete("any"));
        let methods: Vec<_> = site
            .upstream
            .log()
            .requests
            .into_iter()
            .map(|r| r.method)
            .collect();
        assert_eq!(methods, ["GET", "DELETE"]);
    }
}

#[test]
fn gets_and_deletes_are_no_methods_of_a_modern_client() {
    for (versions, header) in [
        (MIXED, Some("2026-07-28")),
        (HEADERLESS, Some("2026-07-28")),
        (MODERN_ONLY, Some("2026-07-28")),
        (MODERN_ONLY, Some(LEGACY)),
        (MODERN_ONLY, None),
    ] {
        let site = Site::serving(versions);
        for method in ["GET", "DELETE"] {
            let mut request = Request::get()
                .method(method)
                .without("MCP-Protocol-Version");
            if let Some(header) = header {
                request = request.header("MCP-Protocol-Version", header);
            }
            let before = site.upstream.request_count();
            let mut client = site.gateway.connect();
            let answer = client.exchange(&request);
            assert_eq!(answer.status, 405, "{method} on {versions:?}: {answer:?}");
            let allow = answer.head.value("allow").unwrap();
            if versions == MODERN_ONLY {
                assert_eq!(allow, "POST, OPTIONS");
            } else {
                assert!(allow.contains("POST"), "{allow}");
            }
            assert_eq!(site.upstream.request_count(), before);
            site.works("a 405", &mut client);
        }
    }
}
