//! Methods of the other era.

use serde_json::json;

use crate::harness::{HEADERLESS, MIXED, MODERN, MODERN_ONLY, Refusal, Request, Site};

const GONE: &[&str] = &[
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

#[test]
fn methods_that_the_modern_lifecycle_lost_are_unknown_there() {
    for versions in [MIXED, MODERN_ONLY, HEADERLESS] {
        let site = Site::serving(versions);
        for method in GONE {
            let request = Request::modern(method, json!({"uri": "a://b", "level": "info"}));
            let refusal = Refusal::of(404, -32601).names(&[MODERN]);
            site.refuses(method, &request, &refusal);
        }
    }
}

#[test]
fn they_live_on_in_the_legacy_era() {
    let site = Site::new();
    for method in GONE {
        site.forwards(method, &Request::legacy(method, json!({"uri": "a://b"})));
    }
}

#[test]
fn methods_that_we_do_not_know_are_for_the_upstream_to_judge() {
    let site = Site::new();
    for method in ["acme/custom", "tools/List", "x", "server/discover"] {
        let received = site.forwards(method, &Request::modern(method, json!({"a": 1})));
        assert_eq!(received.head.value("mcp-method").unwrap(), method);
        site.forwards(method, &Request::legacy(method, json!({"a": 1})));
    }
}

#[test]
fn a_listen_stream_is_an_ordinary_modern_request() {
    let site = Site::new();
    let listen = Request::modern("subscriptions/listen", json!({"toolsListChanged": true}));
    let received = site.forwards("listen", &listen);
    assert_eq!(
        received.head.value("mcp-method").unwrap(),
        "subscriptions/listen"
    );
    assert!(!received.head.has("mcp-name"));
}
