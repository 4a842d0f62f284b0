//! The head that goes upstream.

use http_body_util::BodyExt;
use proptest::prelude::*;

use super::*;
use crate::gateway::agree::agree_bodiless;
use crate::net::listener::Client;
use crate::policy::plan::{Listen, Protocol};
use crate::protocol::head::Fields;

fn upstream(path: &str, query: Option<&str>) -> Arc<Upstream> {
    Arc::new(Upstream {
        authority: "up.example:81".into(),
        query: query.map(str::to_owned),
        ..Upstream::at("up", "up.example", 81, path)
    })
}

/// A head with this target and these lines, and what it becomes.
fn forwarded(
    upstream: Arc<Upstream>,
    uri: &str,
    lines: &[(&str, &str)],
    era: Era,
) -> Result<Request<Outbound>, HttpFault> {
    let mut request = Request::get(uri).version(http::Version::HTTP_10);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).expect("a head").into_parts();
    let fields = Fields::read(&head.headers);
    let routing = agree_bodiless(&fields, &head.headers, &Protocol::default());
    let routing = routing.expect("no lines of its own");
    let destination = Destination::new(Pool::new(upstream, None)).expect("a target");
    let client = Client::new("192.0.2.9:5".parse().expect("an address"), false);
    let sender = Sender::of(client, &head.headers, &Listen::default());
    destination.request(
        head,
        Outbound::Whole(Bytes::from("body")),
        routing,
        era,
        Some(&sender),
    )
}

#[test]
fn targets_are_joined() {
    for (path, own, asked, joined) in [
        ("/mcp", None, "/x", "/mcp"),
        ("/mcp", None, "/x?a=1&a=2", "/mcp?a=1&a=2"),
        ("/", None, "/x?", "/?"),
        ("/deep/er/", None, "/x", "/deep/er/"),
        (
            "/b%20c",
            None,
            "/x?%2f=%20&q=a/../b//c?d",
            "/b%20c?%2f=%20&q=a/../b//c?d",
        ),
        ("/mcp", Some("key=1"), "/x", "/mcp?key=1"),
        ("/mcp", Some("key=1"), "/x?key=2", "/mcp?key=1&key=2"),
        ("/mcp", Some("key=1"), "/x?", "/mcp?key=1&"),
        ("/mcp", Some(""), "/x?a", "/mcp?a"),
        ("/mcp", None, "http://other.example:9/x?a=1", "/mcp?a=1"),
    ] {
        let request = forwarded(upstream(path, own), asked, &[], Era::Legacy);
        let request = request.expect("a target");
        assert_eq!(request.uri().to_string(), joined, "{asked} before {path}");
        assert_eq!(request.version(), http::Version::HTTP_11);
    }
}

#[test]
fn the_host_that_a_request_names_is_told_wherever_it_stands() {
    for (uri, lines, host) in [
        ("/x", &[("host", "a.example:8080")][..], "a.example:8080"),
        ("http://a.example/x", &[("host", "A.example")], "A.example"),
        ("https://a.example:8443/x?q", &[], "a.example:8443"),
    ] {
        let request = forwarded(upstream("/mcp", None), uri, lines, Era::Modern);
        let request = request.expect("a target");
        assert_eq!(request.headers()["x-forwarded-host"], host, "{uri}");
        assert_eq!(request.headers()["host"], "up.example:81", "{uri}");
    }
}

#[test]
fn a_target_that_grows_too_long_is_refused() {
    const TARGET_BYTES_MAX: usize = 65_534;
    for (path, own, length, fits) in [
        ("/p", None, TARGET_BYTES_MAX - "/p?".len(), true),
        ("/pp", None, TARGET_BYTES_MAX - "/p?".len(), false),
        ("/p", Some("k"), TARGET_BYTES_MAX - "/p?k&".len(), true),
        ("/p", Some("kk"), TARGET_BYTES_MAX - "/p?k&".len(), false),
    ] {
        let query = "q".repeat(length);
        let asked = format!("/?{query}");
        match forwarded(upstream(path, own), &asked, &[], Era::Legacy) {
            Ok(request) => {
                assert!(fits, "{path}");
                assert!(
                    request
                        .uri()
                        .query()
                        .is_some_and(|all| all.ends_with(&query))
                );
            }
            Err(fault) => assert!(!fits, "{path}: {fault:?}"),
        }
    }
}

#[tokio::test]
async fn the_request_is_of_our_own_leg_and_has_the_bodys_bytes() {
    let lines = [
        ("host", "client.example"),
        ("host", "second.example"),
        ("connection", "x-nominated, mcp-session-id, host"),
        ("x-nominated", "1"),
        ("expect", "100-continue"),
        ("content-length", "999"),
        ("transfer-encoding", "chunked"),
        ("accept-encoding", "gzip"),
        ("accept-encoding", "br"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-anything", "1"),
        ("forwarded", "for=1.2.3.4"),
        ("x-real-ip", "1.2.3.4"),
        ("x_forwarded_for", "1.2.3.4"),
        ("x-forwarded", "1.2.3.4"),
        ("forwarded-for", "1.2.3.4"),
        ("client-ip", "1.2.3.4"),
        ("proxy-client-ip", "1.2.3.4"),
        ("wl-proxy-client-ip", "1.2.3.4"),
        ("x-remote-ip", "1.2.3.4"),
        ("x-remote-addr", "1.2.3.4"),
        ("x-proxyuser-ip", "1.2.3.4"),
        ("x-azure-clientip", "1.2.3.4"),
        ("x-envoy-external-address", "1.2.3.4"),
        ("x-host", "evil.example"),
        ("x-url-scheme", "https"),
        ("front-end-https", "on"),
        ("x-http-method-override", "DELETE"),
        ("mcp-param-region", "x"),
        ("mcp-session-id", "s"),
        ("last-event-id", "7"),
        ("x-kept", "a, b"),
        ("x-kept", "c"),
    ];
    for (era, of_session) in [(Era::Legacy, true), (Era::Modern, false)] {
        let request = forwarded(upstream("/mcp", None), "/x", &lines, era);
        let (head, body) = request.expect("a target").into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        assert_eq!(body, "body");
        let mut left: Vec<_> = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        left.sort_unstable();
        let mut expected = vec![
            ("accept-encoding", "identity"),
            ("host", "up.example:81"),
            ("x-kept", "a, b"),
            ("x-kept", "c"),
            ("x-forwarded-for", "192.0.2.9"),
            ("x-forwarded-host", "client.example"),
            ("x-forwarded-proto", "http"),
            ("x-real-ip", "192.0.2.9"),
        ];
        if of_session {
            expected.extend([("last-event-id", "7"), ("mcp-session-id", "s")]);
        }
        expected.sort_unstable();
        assert_eq!(left, expected, "{era:?}");
    }
}

#[test]
fn a_request_that_passes_keeps_its_path_and_what_is_its_own() {
    let request = Request::get("http://public.example/oauth/token?a=/../b")
        .version(Version::HTTP_2)
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("authorization", "Bearer t")
        .header("accept-encoding", "br")
        .header("mcp-name", "echo")
        .header("mcp-session-id", "s")
        .header("x-rewrite-url", "/admin")
        .header("x-real-ip", "1.2.3.4");
    let (head, ()) = request.body(()).expect("a head").into_parts();
    let client = Client::new("[2001:db8::1]:5".parse().expect("an address"), true);
    let sender = Sender::of(client, &head.headers, &Listen::default());
    let destination = Destination::new(Pool::new(upstream("/mcp", None), None)).expect("a target");
    let body = Outbound::Whole(Bytes::new());
    let request = destination.pass(head, body, &sender).expect("a target");
    assert_eq!(request.uri(), "/oauth/token?a=/../b");
    let mut left: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
        .collect();
    left.sort_unstable();
    let expected = [
        ("accept-encoding", "br"),
        ("authorization", "Bearer t"),
        ("cookie", "a=1; b=2"),
        ("host", "up.example:81"),
        ("x-forwarded-for", "2001:db8::1"),
        ("x-forwarded-host", "public.example"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "2001:db8::1"),
    ];
    assert_eq!(left, expected);
}

#[test]
fn folded_names_do_not_pass() {
    for name in [
        "mcp_method",
        "mcp-param_region",
        "mcp_session-id",
        "x_forwarded_for",
        "last_event_id",
        "x_real-ip",
        "forwarded",
        "x-original-url",
    ] {
        assert!(is_strange(name, true), "{name}");
    }
    for name in ["x-trace", "authorization", "mcp-param-region"] {
        assert!(!is_strange(name, true), "{name}");
    }
    assert!(is_strange("mcp-param-region", false));
}

proptest! {
    /// No name that a server could take for one of ours, or for the word of a proxy, goes on,
    /// whatever is nominated beside it.
    #[test]
    fn nothing_goes_on_that_could_be_taken_for_ours(
        names in prop::collection::btree_set(
            "(mcp[-_](method|name|param[-_]x|session[-_]id|protocol[-_]version)|x[-_]forwarded[-_][a-z]{1,4}|x[-_]real[-_]ip|last[-_]event[-_]id|[a-z]{1,6})", 0..8),
        nominated in prop::collection::vec("[a-zA-Z-]{1,12}", 0..3),
    ) {
        let nominated = nominated.join(", ");
        let mut lines: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        lines.push(("connection", &nominated));
        let request = forwarded(upstream("/mcp", None), "/x", &lines, Era::Modern);
        let headers = request.expect("a target").headers().clone();
        for (name, value) in &headers {
            let name = name.as_str();
            let folded = name.replace('_', "-");
            let is_ours = name == folded && value != "v";
            prop_assert!(is_ours || !folded.starts_with("x-forwarded-"), "{name}");
            prop_assert!(is_ours || folded != "x-real-ip", "{name}");
            prop_assert!(!folded.starts_with("mcp-") || name == "mcp-protocol-version");
            prop_assert!(!["last-event-id", "connection"].contains(&folded.as_str()));
        }
        prop_assert_eq!(headers.get_all("host").iter().count(), 1);
    }
}
