//! What parts of a policy say about each other: names, overlaps, bounds, and what is probably not
//! meant.

use crate::{Files, assert_one, errors_of, warnings_of, with_route};

#[test]
fn names_are_unique_and_known() {
    let upstreams = "upstreams:\n  u: { url: http://a/ }\n  v: { url: http://b/ }\n";
    let files = Files::new(&[
        (
            "a.yaml",
            &format!("{upstreams}routes:\n  - {{ name: r, upstream: u }}\n"),
        ),
        (
            "b.yaml",
            "upstreams: { u: { url: http://c/ } }\nroutes:\n  - { name: r, upstream: v, path: /b }\n",
        ),
    ]);
    let told = files.told();
    assert!(
        told.contains("b.yaml:1:14: the upstream `u` is already defined at a.yaml:2:3"),
        "{told}"
    );
    assert!(
        told.contains("b.yaml:3:13: the route `r` is already defined at a.yaml:5:13"),
        "{told}"
    );

    assert_one(
        "routes: [ { name: r, upstream: \"\" } ]\n",
        "1:32",
        "there is no upstream ``",
    );
    assert_one(
        "routes: [ { name: r, upstream: u } ]\n",
        "1:32",
        "there is no upstream `u`",
    );
    assert_one(
        &with_route("  - { upstream: u, path: /b }\n"),
        "5:5",
        "a route has no `name`",
    );
    assert_one(
        &with_route("  - { name: s, path: /b }\n"),
        "5:5",
        "the route `s` has no `upstream`",
    );
    assert_one(
        &with_route("").replace(
            "{ url: http://127.0.0.1:3000/mcp }",
            "{ connect_timeout: 1s }",
        ),
        "1:14",
        "no `url`",
    );
    assert_one(
        &with_route("").replace("{ url: http://127.0.0.1:3000/mcp }", "http://h/"),
        "1:17",
        "found a URL",
    );
    assert_one(
        "upstreams: { u: { url: http://h/ } }\n",
        "policy",
        "the policy has no route",
    );
}

#[test]
fn two_routes_that_a_request_could_mean_are_named_both() {
    let two = |first: &str, second: &str| {
        errors_of(&with_route(&format!(
            "    hosts: {first}\n  - {{ name: s, path: /mcp/, upstream: u, hosts: {second} }}\n"
        )))
    };
    for (first, second) in [
        ("any", "any"),
        ("any", "loopback"),
        ("any", "[ a.example ]"),
        ("[ a.example ]", "any"),
        ("[ a.example, b.example ]", "[ c.example, B.example ]"),
        ("loopback", "loopback"),
        ("loopback", "[ localhost ]"),
        ("[ 127.0.0.1 ]", "loopback"),
        ("[ \"[::1]\" ]", "[ \"0:0::1\" ]"),
    ] {
        let errors = two(first, second);
        assert_eq!(errors.len(), 1, "{first} {second}: {errors:#?}");
        assert!(
            errors[0].starts_with("6:13 the route `s` and the route `r` ("),
            "{errors:#?}"
        );
        assert!(errors[0].contains("p.yaml:3:11"), "{errors:#?}");
    }
    assert!(two("[ a.example ]", "[ b.example ]").is_empty());
    assert!(two("[ a.example ]", "loopback").is_empty());
}

#[test]
fn bounds_and_addresses_that_contradict_each_other_are_refused() {
    assert_one(
        &with_route("    bounds: { buffer_bytes: 64Ki, body_bytes_max: 32Ki }\n"),
        "5:29",
        "`buffer_bytes` is 64Ki and could never be reached, because `body_bytes_max` is 32Ki",
    );
    assert_one(
        &with_route("    bounds: { buffer_bytes: 8Mi }\n"),
        "5:29",
        "could never be reached",
    );
    assert_one(
        &format!(
            "defaults: {{ bounds: {{ buffer_bytes: 8Mi }} }}\n{}",
            with_route("")
        ),
        "1:37",
        "could never be reached",
    );
    assert_one(
        &with_route("    bounds: { name_bytes_max: 64Ki }\n"),
        "5:31",
        "`listen.header_bytes_max` is 32Ki",
    );
    let addresses = "listen: { address: 0.0.0.0:9902 }\ndefaults: { hosts: any }\n";
    assert_one(
        &format!("{addresses}{}", with_route("")),
        "1:20",
        "are the same address",
    );
    for (listen, url) in [
        ("127.0.0.1:3000", "http://127.0.0.1:3000/mcp"),
        ("0.0.0.0:3000", "http://localhost:3000/mcp"),
        ("127.0.0.1:80", "http://localhost/mcp"),
    ] {
        let text = with_route("    hosts: any\n").replace("http://127.0.0.1:3000/mcp", url);
        assert_one(
            &format!("listen: {{ address: {listen} }}\n{text}"),
            "2:14",
            "is the gateway itself",
        );
    }
    let twice = Files::new(&[
        (
            "a.yaml",
            &format!("log: {{ access: json }}\n{}", with_route("")),
        ),
        ("b.yaml", "status: { address: 127.0.0.1:1 }\n"),
    ]);
    assert!(
        twice
            .told()
            .contains("b.yaml:1:9: `status` stands in a second gateway file, the first is a.yaml")
    );
}

#[test]
fn warnings_stand_where_something_is_easily_overlooked() {
    let versions = |list: &str, rest: &str| {
        with_route(&format!("    protocol: {{ versions: {list}{rest} }}\n"))
    };
    assert!(warnings_of(&with_route("")).is_empty());
    for (text, place, words) in [
        (versions("[ \"2025-03-26\" ]", ""), "5:29", "batches"),
        (versions("[ \"2024-11-05\" ]", ""), "5:29", "HTTP+SSE"),
        (
            versions(
                "[ \"2025-11-25\" ]",
                ", routing_headers: { missing: mirror }",
            ),
            "5:73",
            "no modern version",
        ),
        (
            versions("[ \"2026-07-28\" ]", ", routing_headers: { legacy: drop }"),
            "5:72",
            "no legacy version",
        ),
        (
            versions("[ \"2025-11-25\" ]", ", legacy_refusals: status"),
            "5:62",
            "lose their session",
        ),
        (
            with_route("  - { name: s, path: /s, upstream: u }\n").replace("/mcp }", " }"),
            "1:24",
            "no path",
        ),
        (
            with_route("").replace("/mcp }", "/mcp, idle_timeout: 1m }"),
            "1:65",
            "close an idle connection",
        ),
        (
            with_route("").replace("} }", "}, v: { url: http://h/ } }"),
            "1:53",
            "no route leads to",
        ),
        (
            format!("listen: {{ address: 0.0.0.0:1 }}\n{}", with_route("")),
            "4:11",
            "any `Host`",
        ),
    ] {
        let warnings = warnings_of(&text);
        assert_eq!(warnings.len(), 1, "{text}\n{warnings:#?}");
        assert!(
            warnings[0].starts_with(&format!("{place} ")) && warnings[0].contains(words),
            "{text}\n{warnings:#?}"
        );
    }
    // Written out, it is meant.
    let open = with_route("    hosts: any\n");
    assert!(warnings_of(&format!("listen: {{ address: 0.0.0.0:1 }}\n{open}")).is_empty());
}
