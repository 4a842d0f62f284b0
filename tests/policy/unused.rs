//! Keys that would be accepted and enforce nothing: contradictions are errors, what merely has no
//! effect is a warning, and what is inherited is neither.

use crate::{Files, assert_one, errors_of, warnings_of, with_route};

/// Keys of a message, a session or an answer that is read, each with a good value.
const OF_MESSAGES: [&str; 15] = [
    "protocol: { legacy_refusals: in_band }",
    "protocol: { versions: [ \"2026-07-28\" ] }",
    "streams: { keep_alive: 15s }",
    "streams: { idle_timeout: 1m }",
    "deadline: { call: 1s }",
    "deadline: { tools: { a: 1s } }",
    "bounds: { buffer_bytes: 1Ki }",
    "bounds: { depth_max: 8 }",
    "bounds: { keys_max: 8 }",
    "bounds: { method_bytes_max: 64 }",
    "bounds: { name_bytes_max: 64 }",
    "bounds: { id_bytes_max: 64 }",
    "bounds: { sessions_max: 8 }",
    "bounds: { session_idle_timeout: 1m }",
    "catalog: { order: name }",
];

/// A policy with one route for MCP and one that passes requests.
fn passing(keys: &str) -> String {
    with_route(&format!(
        "  - name: p\n    pass: true\n    path: /health\n    upstream: u\n    {keys}\n"
    ))
}

#[test]
fn where_nothing_is_read_nothing_of_a_message_is_promised() {
    for keys in OF_MESSAGES {
        let errors = errors_of(&passing(keys));
        assert_eq!(errors.len(), 1, "{keys}: {errors:#?}");
        assert!(errors[0].contains("nothing is enforced by"), "{errors:#?}");
        // For the other routes of the policy it has its effect.
        let inherited = format!("defaults: {{ {keys} }}\n{}", passing(""));
        assert!(errors_of(&inherited).is_empty(), "{keys}");
        assert!(warnings_of(&inherited).is_empty(), "{keys}");
        assert!(errors_of(&with_route(&format!("    {keys}\n"))).is_empty());
    }
    for keys in [
        "bounds: { body_idle_timeout: 1s, drain_bytes_max: 0, drain_timeout: 1s }",
        "bounds: { stream_bytes_max: 8Mi }",
        "bounds: { body_bytes_max: 1Gi }",
        "bounds: { body_bytes_max: 1Mi, stream_bytes_max: 1Mi }",
        "hosts: any",
        "cors: { max_age: 5m }",
    ] {
        assert!(errors_of(&passing(keys)).is_empty(), "{keys}");
    }
}

#[test]
fn of_two_bounds_on_what_passes_the_larger_counts() {
    for (bounds, column) in [
        ("{ body_bytes_max: 1Mi }", 31),
        ("{ stream_bytes_max: 1Mi }", 33),
        ("{ stream_bytes_max: 0 }", 33),
        ("{ body_bytes_max: 1Mi, stream_bytes_max: 2Mi }", 31),
    ] {
        let text = passing(&format!("bounds: {bounds}"));
        assert_one(
            &text,
            &format!("9:{column}"),
            "the larger of the two counts",
        );
    }
    let inherited = format!(
        "defaults: {{ bounds: {{ body_bytes_max: 1Mi }} }}\n{}",
        passing("")
    );
    assert!(errors_of(&inherited).is_empty());
}

#[test]
fn what_does_not_hold_for_a_route_is_not_summed_up_for_it() {
    use weirgate::policy::file::settings_of_route;

    let defaults = "defaults: { bounds: { depth_max: 8, drain_timeout: 1s }, cache: off, deadline: { call: 1s } }";
    let text = format!("{defaults}\n{}", passing("origins: none"));
    let plan = Files::new(&[("p.yaml", &text)]).load().unwrap().plan;
    let [read, unread] = [0, 1].map(|route: usize| {
        let settings = settings_of_route(&plan.routes[route]);
        settings
            .into_iter()
            .map(|setting| setting.key)
            .collect::<Vec<_>>()
    });
    let all = [
        "bounds.drain_timeout",
        "bounds.depth_max",
        "deadline.call",
        "cache",
    ];
    assert_eq!(read, all);
    assert_eq!(unread, ["bounds.drain_timeout"]);
}

#[test]
fn pages_that_are_not_let_in_are_promised_nothing() {
    const CORS: &str = "    cors: { max_age: 5m }\n";
    let words = "nothing is allowed by `cors`";
    assert_one(
        &with_route(&format!("    origins: none\n{CORS}")),
        "6:11",
        words,
    );
    let defaults = "defaults: { origins: none }\n";
    assert_one(&format!("{defaults}{}", with_route(CORS)), "6:11", words);
    // Nobody wrote it, and so it is where strangers can connect.
    let listen = "listen: { address: 0.0.0.0:1 }\ndefaults: { hosts: any }\n";
    assert_one(&format!("{listen}{}", with_route(CORS)), "7:11", words);
    assert!(errors_of(&with_route(CORS)).is_empty());
    let open = with_route(&format!("    origins: [ https://a.example ]\n{CORS}"));
    assert!(errors_of(&format!("{listen}{open}")).is_empty());

    let inherited = "defaults: { cors: { max_age: 5m } }\n";
    let second = "  - { name: s, path: /s, upstream: u }\n";
    let some = with_route(&format!("    origins: none\n{second}"));
    assert!(warnings_of(&format!("{inherited}{some}")).is_empty());
    let none = warnings_of(&format!("{inherited}{}", with_route("    origins: none\n")));
    assert_eq!(none.len(), 1, "{none:#?}");
    assert!(
        none[0].starts_with("1:19 this has no effect, because `origins`"),
        "{none:#?}"
    );
}

#[test]
fn headers_of_pages_are_those_that_pages_may_set_and_each_once() {
    let headers = |list: &str| with_route(&format!("    cors: {{ headers: [ {list} ] }}\n"));
    assert_one(&headers("X-A, X-B, x-a"), "5:34", "is listed twice");
    for name in [
        "Cookie",
        "host",
        "Origin",
        "Sec-Fetch-Mode",
        "proxy-authorization",
        "TE",
        "Via",
        "Set-Cookie",
        "Content-Length",
        "Connection",
        "access-control-request-method",
    ] {
        assert_one(&headers(name), "5:24", "browsers let no page set");
    }
    for name in [
        "Authorization",
        "content-type",
        "MCP-Session-Id",
        "mcp-name",
        "Mcp-Param-Region",
        "traceparent",
    ] {
        let warnings = warnings_of(&headers(&format!("X-A, {name}")));
        assert_eq!(warnings.len(), 1, "{name}: {warnings:#?}");
        assert!(
            warnings[0].starts_with("5:29 this has no effect"),
            "{warnings:#?}"
        );
    }
    for name in [
        "X-Secret",
        "User-Agent",
        "Accept-Language",
        "Range",
        "Mcp-Parameter",
    ] {
        assert!(warnings_of(&headers(name)).is_empty(), "{name}");
    }
}

#[test]
fn a_tool_has_a_name() {
    assert_one(
        &with_route("    deadline: { tools: { \"\": 1s } }\n"),
        "5:26",
        "names no tool",
    );
}

#[test]
fn bounds_that_the_rest_of_the_route_leaves_no_room_for_are_told() {
    const MODERN: &str = "    protocol: { versions: [ \"2026-07-28\" ] }\n";
    const LEGACY: &str = "    protocol: { versions: [ \"2025-11-25\" ] }\n";
    const MIRROR: &str = "    protocol: { routing_headers: { missing: mirror } }\n";
    for (protocol, bounds, words) in [
        (MODERN, "sessions_max: 5", Some("no legacy version")),
        (
            MODERN,
            "session_idle_timeout: 5m",
            Some("no legacy version"),
        ),
        (LEGACY, "sessions_max: 5", None),
        (LEGACY, "stream_bytes_max: 8Mi", Some("no modern version")),
        (MIRROR, "stream_bytes_max: 8Mi", Some("`missing: mirror`")),
        ("", "stream_bytes_max: 1Mi", Some("no body streams here")),
        ("", "stream_bytes_max: 0", None),
        ("", "stream_bytes_max: 8Mi", None),
    ] {
        let route = format!("{protocol}    bounds: {{ {bounds} }}\n");
        assert_told(&with_route(&route), words);
        let inherited = format!(
            "defaults: {{ bounds: {{ {bounds} }} }}\n{}",
            with_route(protocol)
        );
        assert_told(&inherited, None);
    }
}

#[test]
fn what_the_version_of_http_has_no_use_for_is_told() {
    for (keys, words) in [
        ("http: \"1.1\", http2_streams_max: 5", Some("HTTP/1.1 only")),
        ("http2_ping_interval: 5s", Some("HTTP/1.1 only")),
        ("http: \"2\", idle_connections_max: 5", Some("HTTP/2 only")),
        ("http: \"2\", http2_streams_max: 5", None),
        ("idle_connections_max: 5", None),
    ] {
        let text = with_route("").replace("/mcp }", &format!("/mcp, {keys} }}"));
        assert_told(&text, words);
        let inherited = format!("defaults: {{ upstream: {{ {keys} }} }}\n{}", with_route(""));
        assert_told(&inherited, None);
    }
    let tls = with_route("").replace(
        "http://127.0.0.1:3000/mcp }",
        "https://h/mcp, http2_streams_max: 5 }",
    );
    assert_told(&tls, None);
}

#[test]
fn what_the_rest_of_the_listener_leaves_no_room_for_is_told() {
    let listen = |keys: &str| format!("listen: {{ {keys} }}\n{}", with_route(""));
    assert_one(
        &listen("connections_max: 10, connections_per_source_max: 11"),
        "1:60",
        "could never be reached",
    );
    assert!(errors_of(&listen("connections_max: 10")).is_empty());
    assert_told(
        &listen("forwarded: forwarded"),
        Some("no proxy is believed"),
    );
    assert_told(
        &listen("forwarded: forwarded, trusted_proxies: [ 10.0.0.0/8 ]"),
        None,
    );
}

/// The policy has one warning with these words, or none.
#[track_caller]
fn assert_told(text: &str, words: Option<&str>) {
    let warnings = warnings_of(text);
    assert_eq!(
        warnings.len(),
        usize::from(words.is_some()),
        "{text}\n{warnings:#?}"
    );
    if let Some(words) = words {
        assert!(warnings[0].contains(words), "{text}\n{warnings:#?}");
    }
}
