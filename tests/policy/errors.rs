//! What is refused, where, and in which words.

use crate::{Files, errors_of, warnings_of, with_route};

/// The first error begins with `line:column` and contains the words, and there is no second one.
#[track_caller]
fn assert_one(text: &str, place: &str, words: &str) {
    let errors = errors_of(text);
    assert_eq!(errors.len(), 1, "{text}\n{errors:#?}");
    assert!(
        errors[0].starts_with(&format!("{place} ")) && errors[0].contains(words),
        "{text}\n{errors:#?}"
    );
}

#[test]
fn all_errors_of_all_files_are_told_at_once_in_order() {
    let files = Files::new(&[
        (
            "b.yaml",
            "routes:\n  - { name: r, upstream: wether, path: mcp }\n",
        ),
        (
            "a.yaml",
            "# Käse\r\nlisten: { adress: 127.0.0.1:8080 }\r\nupstreams:\r\n  weather: { url: 'http://é:1/' }\r\n  \
             w: { url: https://h/ } # ü\tx\r\n",
        ),
    ]);
    let expected = "\
a.yaml:2:11: `adress` is not a key of `listen`
  2 | listen: { adress …
    |           ^^^^^^
  hint: did you mean `address`? Known here: `address`, `header_count_max`, `header_bytes_max`, `header_read_timeout`
a.yaml:4:19: the URL contains a blank, a control character or a character outside ASCII
  4 |   weather: { url: 'http://é:1/' }
    |                   ^^^^^^^^^^^^^
  hint: percent-encode it in a path or query; write an international host name in its `xn--` form
a.yaml:5:13: this version speaks plain HTTP to its upstreams, not `https://`
  5 |   w: { url: https://h/ } # ü\tx
    |             ^^^^^^^^^^
  hint: run the gateway beside the server and write `http://127.0.0.1:port/path`, or let a TLS tunnel on this machine carry the requests to the server
b.yaml:2:26: there is no upstream `wether`
  2 |   - { name: r, upstream: wether, path: mcp }
    |                          ^^^^^^
  hint: did you mean `weather`? Known are `w`, `weather`
b.yaml:2:40: `mcp`: the path does not begin with `/`
  2 |   - { name: r, upstream: wether, path: mcp }
    |                                        ^^^
  hint: write it as `/mcp`
5 errors: no policy was loaded
";
    assert_eq!(files.told(), expected);
}

#[test]
fn places_are_right_behind_wide_characters_tabs_and_long_lines() {
    let wide = "upstreams: { u: { url: http://h/, \"日本語\": 1, x: 2 } }\nroutes: [ { name: r, upstream: u } ]\n";
    let errors = errors_of(wide);
    assert!(
        errors[0].starts_with("1:35 `日本語`") && errors[1].starts_with("1:45 `x`"),
        "{errors:#?}"
    );

    let tab =
        "routes: [ { name: r,\tupstream: u,\tx: 1 } ]\nupstreams: { u: { url: http://h/ } }\n";
    let told = Files::new(&[("p.yaml", tab)]).told();
    assert!(told.contains("p.yaml:1:35: `x`"), "{told}");
    assert!(
        told.contains("    |                     \t            \t^\n"),
        "{told}"
    );

    let long = format!(
        "upstreams: {{ u: {{ url: http://h/{}, x: 1 }} }}\n",
        "a".repeat(500)
    );
    let told = Files::new(&[("p.yaml", &long)]).told();
    assert!(
        told.lines().all(|line| line.chars().count() < 200),
        "{told}"
    );
    assert!(told.contains("p.yaml:1:535: `x`"), "{told}");
}

#[test]
fn yaml_that_can_be_read_in_two_ways_is_refused() {
    let good = with_route("");
    assert_one(
        &format!("{good}routes: []\n"),
        "5:1",
        "`routes` is already defined at",
    );
    assert_one(
        &with_route("    name: x\n"),
        "5:5",
        "`name` is already defined at",
    );
    assert_one(&with_route("    <<: { path: /x }\n"), "5:5", "merge keys");
    assert_one(&with_route("    path: &p /x\n"), "5:11", "anchors");
    assert_one(&with_route("    path: *p\n"), "5:11", "anchors");
    assert_one(&with_route("    path: !!str /x\n"), "5:11", "tags");
    assert_one(
        &with_route("    bounds: !x { depth_max: 9 }\n"),
        "5:13",
        "tags",
    );
    assert_one(
        &with_route("    ? [ a ]\n    : b\n"),
        "5:7",
        "a key must be plain text",
    );
    assert_one(&with_route("    : b\n"), "5:5", "a value without a key");
    assert_one(&format!("{good}---\n{good}"), "5:1", "second document");
    assert_one(&format!("{good}...\n{good}"), "6:1", "second document");
    assert!(errors_of(&format!("---\n{good}...\n")).is_empty());
    assert_one("", "1:1", "holds no policy");
    assert_one("# nothing\n", "1:1", "holds no policy");
    assert_one("- a\n", "1:1", "must be a mapping");
    assert_one(
        &format!("{}{}", "[".repeat(40), "]".repeat(40)),
        "1:33",
        "deeper than 32",
    );
    assert_one(&"[".repeat(300), "1:256", "deeper than 32");
    assert_one(
        &format!("routes: [ {} ]\n", "x, ".repeat(10_001)),
        "1:30011",
        "more than 10000 elements",
    );
    assert_one("routes:\n\t- name: r\n", "2:2", "not YAML");
    assert_one("routes: { a: 1\nb: 2\n", "2:2", "not YAML");
    // A thousand million laughs, were aliases read.
    let laughs = "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n";
    let errors = errors_of(laughs);
    assert_eq!(
        errors
            .iter()
            .filter(|error| error.contains("anchors"))
            .count(),
        8,
        "{errors:#?}"
    );
}

#[test]
fn text_that_other_readers_take_for_something_else_is_quoted() {
    for name in [
        "no",
        "On",
        "y",
        "null",
        "~",
        "1",
        "1.5",
        "0x1F",
        "1e3",
        "1_000",
        "1:30",
        "2026-07-28",
        ".inf",
    ] {
        let text = with_route("").replace("name: r", &format!("name: {name}"));
        let errors = errors_of(&text);
        assert_eq!(errors.len(), 1, "{name}: {errors:#?}");
        assert!(
            errors[0].contains("without quotes") || errors[0].contains("no value"),
            "{errors:#?}"
        );
    }
    for name in ["\"no\"", "'1e3'", "no-deletes", "v1.5.2", "a1", "e3", "1st"] {
        let text = with_route("").replace("name: r", &format!("name: {name}"));
        assert!(errors_of(&text).is_empty(), "{name}");
    }
    let versions = |list: &str| with_route(&format!("    protocol: {{ versions: {list} }}\n"));
    assert_one(
        &versions("[ 2026-07-28 ]"),
        "5:29",
        "is a date to some YAML readers",
    );
    assert_one(
        &versions("2026-07-28"),
        "5:27",
        "expected a list, found the version",
    );
    assert_one(
        &versions("[ \"2026-07-29\" ]"),
        "5:29",
        "not a protocol version",
    );
    assert_one(
        &versions("[ \"2026-07-28\", \"2026-07-28\" ]"),
        "5:43",
        "listed twice",
    );
    assert_one(&versions("[]"), "5:27", "the list is empty");
}

#[test]
fn wrong_types_say_what_was_found_and_what_is_expected() {
    for (route, place, words) in [
        (
            "    bounds: 3\n",
            "5:13",
            "`bounds` must be a mapping, found text",
        ),
        ("    bounds:\n", "5:5", "`bounds` has no value"),
        ("    bounds: ~\n", "5:5", "`bounds` has no value"),
        (
            "    bounds: []\n",
            "5:13",
            "must be a mapping, found a list",
        ),
        (
            "    path: [ /a ]\n",
            "5:11",
            "expected a path such as `/mcp`, found a list",
        ),
        ("    path: { a: b }\n", "5:11", "found a mapping"),
        (
            "    hosts: a.example\n",
            "5:12",
            "expected a list of hosts, or `any`, or `loopback`, found text",
        ),
        (
            "    hosts: [ [ a ] ]\n",
            "5:14",
            "expected text, found a list",
        ),
        (
            "    hosts: [ a.example, ~ ]\n",
            "5:25",
            "expected text, found nothing",
        ),
        (
            "    bounds: { depth_max: { a: 1 } }\n",
            "5:26",
            "expected a number such as `100`, found a mapping",
        ),
        (
            "    bounds: { depth_max: 4.5 }\n",
            "5:26",
            "not a whole number",
        ),
        (
            "    bounds: { body_bytes_max: 4MB }\n",
            "5:31",
            "`4MB` is not a size",
        ),
        ("    bounds: { body_bytes_max: 0 }\n", "5:31", "too small"),
        ("    bounds: { body_bytes_max: -1 }\n", "5:31", "negative"),
        ("    bounds: { drain_timeout: 10 }\n", "5:30", "no unit"),
        ("    bounds: { drain_timeout: 0s }\n", "5:30", "too small"),
        (
            "    bounds: { drain_timeout: 1000000h }\n",
            "5:30",
            "too large",
        ),
        (
            "    protocol: { routing_headers: { missing: mirrored } }\n",
            "5:45",
            "one of `reject`, `mirror`",
        ),
        (
            "    protocol: { legacy_refusals: true }\n",
            "5:34",
            "one of `in_band`, `status`",
        ),
    ] {
        assert_one(&with_route(route), place, words);
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_known_ones() {
    let hint = |text: &str| {
        let files = Files::new(&[("p.yaml", text)]);
        let errors = files.load().unwrap_err();
        assert_eq!(errors.findings().len(), 1, "{errors}");
        errors.findings()[0].hint.clone()
    };
    let near = hint(&with_route("    bound: { depth_max: 9 }\n"));
    assert!(
        near.starts_with("did you mean `bounds`? Known here: `name`, `path`"),
        "{near}"
    );
    let case = hint(&with_route("    bounds: { bodyBytesMax: 1Mi }\n"));
    assert!(case.starts_with("did you mean `body_bytes_max`?"), "{case}");
    let misplaced = hint(&with_route("    versions: [ \"2026-07-28\" ]\n"));
    assert!(
        misplaced.starts_with("it is a key of `routes[].protocol`."),
        "{misplaced}"
    );
    let glued = hint(&with_route("    bounds: { depth_max:9 }\n"));
    assert!(
        glued.contains("put a space behind the colon of `depth_max:`"),
        "{glued}"
    );
    // Nobody may believe that what this version does not know is enforced.
    for key in [
        "authenticate",
        "authorize",
        "limits",
        "cache",
        "admin",
        "tls",
        "mandatory",
        "authorise",
        "Limit",
    ] {
        let hint = hint(&with_route(&format!("    {key}: {{ a: 1 }}\n")));
        assert!(hint.contains("nothing would be enforced"), "{key}: {hint}");
    }
}

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
            errors[0].starts_with("6:13 the routes `s` and `r` ("),
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
        &with_route("    bounds: { body_bytes_max: 32Ki }\n"),
        "5:31",
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
fn values_from_elsewhere_are_read_and_never_repeated() {
    let url = |value: &str| with_route("").replace("http://127.0.0.1:3000/mcp", value);
    assert!(errors_of(&url("{ env: WEATHER_URL }")).is_empty());
    assert_one(
        &url("{ env: NOPE }"),
        "1:31",
        "the variable `NOPE` is not set",
    );
    assert_one(&url("{ env: EMPTY }"), "1:31", "is empty");
    assert_one(
        &url("{ env: $WEATHER_URL }"),
        "1:31",
        "not the name of a variable",
    );
    assert_one(&url("{ env: SECRET_URL }"), "1:24", "user part");
    assert_one(
        &url("{ env: A, file: b }"),
        "1:24",
        "`{file: PATH}` or `{env: NAME}`",
    );
    assert_one(
        &url("{ envy: A }"),
        "1:26",
        "`{file: PATH}` or `{env: NAME}`",
    );
    assert_one(&url("{}"), "1:24", "`{file: PATH}` or `{env: NAME}`");
    assert_one(&url("{ file: absent }"), "1:32", "cannot be read");
    assert_one(&url("{ file: . }"), "1:32", "not a regular file");

    let files = Files::new(&[
        ("p.yaml", &url("{ file: secrets/url }")),
        ("secrets/url", "http://user:hunter2@h/mcp\r\n"),
    ]);
    assert!(files.told().contains("user part") && !files.told().contains("hunter2"));
    files.write("secrets/url", b"http://weather.internal:3000/mcp\n");
    assert_eq!(
        files.load().unwrap().plan.routes[0].upstream.authority,
        "weather.internal:3000"
    );
    for (bytes, words) in [
        (&b"\n"[..], "is empty"),
        (b"\xff", "not UTF-8"),
        (&[b'a'; 70_000], "larger than"),
    ] {
        files.write("secrets/url", bytes);
        assert!(files.told().contains(words), "{}", files.told());
    }
}

#[test]
fn no_credential_is_ever_printed() {
    for value in [
        "http://user:hunter2@h/mcp",
        "http://hunter2@h/mcp",
        "\"http://user:hunter2@h/mcp\"",
        "'http://user:hunter2 x@h/mcp'",
        "user:hunter2@h",
        "[ http://user:hunter2@h ]",
        "http://h/mcp?key=hunter2#x",
        "https://user:hunter2@h/ }}}",
        "http://user:hunter2@h/, token: x",
        "ftp://h/?hunter2",
        "*http://user:hunter2@h",
        "http://h/, api_token: hunter2",
        "http://h/a/.., password: hunter2",
        "http://h/, bearer: hunter2",
        "http://h/, x: { y: hunter2 }",
    ] {
        let text = with_route("").replace("http://127.0.0.1:3000/mcp", value);
        let told = Files::new(&[("p.yaml", &text)]).told();
        assert!(!told.contains("hunter2"), "{told}");
        assert!(told.contains("p.yaml:1:"), "{told}");
    }
    let told = Files::new(&[("p.yaml", "upstreams:\n  token: hunter2\n  x: hunter2\n")]).told();
    assert!(
        told.contains("2:10: the upstream `token` must be a mapping, found text"),
        "{told}"
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
            "5:64",
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
