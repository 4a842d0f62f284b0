//! What is believed of whom, and what the upstream is told, as tables.

use super::*;

const PROXIES: &[&str] = &["10.0.0.0/8", "fd00::/8"];

fn sender(peer: &str, tls: bool, by: ForwardedBy, lines: &[(&str, &str)]) -> Sender {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    let listen = Listen {
        trusted_proxies: PROXIES
            .iter()
            .map(|range| Network::parse(range).unwrap())
            .collect(),
        forwarded: by,
        ..Listen::default()
    };
    Sender::of(Client::new(peer.parse().unwrap(), tls), &headers, &listen)
}

/// What an upstream hears, as `name: value` lines in their order of names.
fn told(sender: &Sender, how: Forwarded) -> Vec<String> {
    let mut headers = HeaderMap::new();
    sender.tell(&mut headers, how, HeaderValue::from_static("own.example"));
    let mut told: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    told.sort();
    told
}

fn x_forwarded(chain: &str, host: &str, proto: &str, client: &str) -> Vec<String> {
    vec![
        format!("x-forwarded-for: {chain}"),
        format!("x-forwarded-host: {host}"),
        format!("x-forwarded-proto: {proto}"),
        format!("x-real-ip: {client}"),
    ]
}

#[test]
fn a_stranger_says_nothing_of_itself() {
    let lines = [
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
        ("forwarded", "for=1.1.1.1;proto=https"),
    ];
    for by in [ForwardedBy::XForwarded, ForwardedBy::Forwarded] {
        let stranger = sender("192.0.2.1:5", false, by, &lines);
        assert_eq!(stranger.named(), None);
        let expected = x_forwarded("192.0.2.1", "own.example", "http", "192.0.2.1");
        assert_eq!(told(&stranger, Forwarded::XForwarded), expected);
        assert!(told(&stranger, Forwarded::Off).is_empty());
        let expected = ["forwarded: for=192.0.2.1;proto=http;host=\"own.example\""];
        assert_eq!(told(&stranger, Forwarded::Forwarded), expected);
    }
    let over_tls = sender("[2001:db8::1]:5", true, ForwardedBy::Forwarded, &lines);
    let mut expected = x_forwarded("2001:db8::1", "own.example", "https", "2001:db8::1");
    expected.insert(
        0,
        "forwarded: for=\"[2001:db8::1]\";proto=https;host=\"own.example\"".to_owned(),
    );
    assert_eq!(told(&over_tls, Forwarded::Both), expected);
}

#[test]
fn the_nearest_address_that_is_no_proxy_is_the_client() {
    for (lines, client, chain) in [
        (&["192.0.2.1"][..], "192.0.2.1", "192.0.2.1, 10.0.0.1"),
        // What a client wrote itself stands before what its proxy wrote, and goes no further.
        (&["1.1.1.1, 192.0.2.1"], "192.0.2.1", "192.0.2.1, 10.0.0.1"),
        (
            &["10.0.0.9, 9.9.9.9", "10.0.0.8, 192.0.2.1, 10.0.0.2"],
            "192.0.2.1",
            "192.0.2.1, 10.0.0.2, 10.0.0.1",
        ),
        (
            &["192.0.2.1,10.9.9.9"],
            "192.0.2.1",
            "192.0.2.1, 10.9.9.9, 10.0.0.1",
        ),
        (
            &["192.0.2.1", "fd00::7"],
            "192.0.2.1",
            "192.0.2.1, fd00::7, 10.0.0.1",
        ),
        (
            &["10.0.0.3, 10.0.0.2"],
            "10.0.0.3",
            "10.0.0.3, 10.0.0.2, 10.0.0.1",
        ),
        (&["192.0.2.1:4711"], "192.0.2.1", "192.0.2.1, 10.0.0.1"),
        (
            &["[2001:db8::1]:4711"],
            "2001:db8::1",
            "2001:db8::1, 10.0.0.1",
        ),
        (&["[2001:db8::1]"], "2001:db8::1", "2001:db8::1, 10.0.0.1"),
        (&["::ffff:192.0.2.1"], "192.0.2.1", "192.0.2.1, 10.0.0.1"),
    ] {
        let lines: Vec<_> = lines
            .iter()
            .map(|line| ("x-forwarded-for", *line))
            .collect();
        let sender = sender("10.0.0.1:5", false, ForwardedBy::XForwarded, &lines);
        assert_eq!(sender.named(), Some(client.parse().unwrap()), "{lines:?}");
        let expected = x_forwarded(chain, "own.example", "http", client);
        assert_eq!(told(&sender, Forwarded::XForwarded), expected);
    }
}

#[test]
fn one_bad_entry_and_nothing_is_believed() {
    let long = vec!["192.0.2.1"; HOPS_MAX + 1].join(",");
    for chain in [
        "192.0.2.1, unknown",
        "192.0.2.1,",
        "",
        "_hidden",
        "192.0.2.1 192.0.2.2",
        "192.0.2.256",
        "192.0.2.1:99999",
        "[192.0.2.1]",
        "fe80::1%eth0",
        "localhost",
        long.as_str(),
    ] {
        let lines = [("x-forwarded-for", chain), ("x-forwarded-proto", "https")];
        let sender = sender("10.0.0.1:5", false, ForwardedBy::XForwarded, &lines);
        assert_eq!(sender.named(), None, "{chain}");
        let expected = x_forwarded("10.0.0.1", "own.example", "http", "10.0.0.1");
        assert_eq!(told(&sender, Forwarded::XForwarded), expected, "{chain}");
    }
}

#[test]
fn scheme_and_host_are_believed_where_they_are_clear() {
    for (name, value, tls, host) in [
        ("x-forwarded-proto", "https", "https", "own.example"),
        ("x-forwarded-proto", "https, http", "http", "own.example"),
        ("x-forwarded-proto", "HTTPS", "http", "own.example"),
        ("x-forwarded-proto", "gopher", "http", "own.example"),
        (
            "x-forwarded-host",
            "pub.example:8443",
            "http",
            "pub.example:8443",
        ),
        (
            "x-forwarded-host",
            "a.example, b.example",
            "http",
            "own.example",
        ),
        ("x-forwarded-host", "a.example\"", "http", "own.example"),
    ] {
        let sender = sender(
            "10.0.0.1:5",
            false,
            ForwardedBy::XForwarded,
            &[(name, value)],
        );
        assert_eq!(sender.named(), None, "the proxy speaks for itself");
        let expected = x_forwarded("10.0.0.1", host, tls, "10.0.0.1");
        assert_eq!(told(&sender, Forwarded::XForwarded), expected, "{value}");
    }
    let twice = [
        ("x-forwarded-host", "a.example"),
        ("x-forwarded-host", "a.example"),
    ];
    let sender = sender("10.0.0.1:5", false, ForwardedBy::XForwarded, &twice);
    assert_eq!(
        told(&sender, Forwarded::XForwarded)[1],
        "x-forwarded-host: own.example"
    );
}

#[test]
fn elements_are_read_with_their_pairs() {
    let clear = "for=192.0.2.1;proto=https;host=pub.example, For=\"[fd00::7]:80\";by=_x";
    let sender_of = |line| {
        sender(
            "10.0.0.1:5",
            false,
            ForwardedBy::Forwarded,
            &[("forwarded", line)],
        )
    };
    let sender = sender_of(clear);
    assert_eq!(sender.named(), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(
        told(&sender, Forwarded::Forwarded),
        [
            "forwarded: for=192.0.2.1;proto=https;host=\"pub.example\", for=\"[fd00::7]\", for=10.0.0.1"
        ]
    );
    let expected = x_forwarded(
        "192.0.2.1, fd00::7, 10.0.0.1",
        "pub.example",
        "https",
        "192.0.2.1",
    );
    assert_eq!(told(&sender, Forwarded::XForwarded), expected);
    for line in [
        "for=unknown",
        "proto=https",
        "for=192.0.2.1;for=192.0.2.2",
        "for=192.0.2.1;proto=http;Proto=https",
        "for=192.0.2.1; proto=https",
        "for=\"192.0.2.1",
        "for=192.0.2.1,",
        "for=192.0.2.1;",
        "for=192.0.2.1;x=\"a,b\"",
        "for=[2001:db8::1]",
        "for= 192.0.2.1",
        "",
    ] {
        assert_eq!(sender_of(line).named(), None, "{line}");
        let told = told(&sender_of(line), Forwarded::Forwarded);
        assert_eq!(
            told,
            ["forwarded: for=10.0.0.1;proto=http;host=\"own.example\""],
            "{line}"
        );
    }
}

#[test]
fn elements_before_that_of_the_client_go_no_further() {
    let line = "for=9.9.9.9;proto=https;host=evil.example, for=192.0.2.1;proto=http, for=10.0.0.9";
    let sender = sender(
        "10.0.0.1:5",
        true,
        ForwardedBy::Forwarded,
        &[("forwarded", line)],
    );
    assert_eq!(
        told(&sender, Forwarded::Forwarded),
        ["forwarded: for=192.0.2.1;proto=http;host=\"own.example\", for=10.0.0.9, for=10.0.0.1"]
    );
    let expected = x_forwarded(
        "192.0.2.1, 10.0.0.9, 10.0.0.1",
        "own.example",
        "http",
        "192.0.2.1",
    );
    assert_eq!(told(&sender, Forwarded::XForwarded), expected);
}

#[test]
fn only_the_fields_that_the_policy_names_are_read() {
    let both = [
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.2"),
    ];
    for (by, client) in [
        (ForwardedBy::XForwarded, "192.0.2.1"),
        (ForwardedBy::Forwarded, "192.0.2.2"),
    ] {
        let sender = sender("10.0.0.1:5", false, by, &both);
        assert_eq!(sender.named(), Some(client.parse().unwrap()));
    }
}
