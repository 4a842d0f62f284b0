//! What is refused, where, and in which words.

use weirgate::policy::file::{Addresses, load};

use crate::{Files, assert_one, errors_of, with_route};

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
             w: { url: ftp://h/ } # ü\tx\r\n",
        ),
    ]);
    let expected = "\
a.yaml:2:11: `adress` is not a key of `listen`
  2 | listen: { adress …
    |           ^^^^^^
  hint: did you mean `address`? Known here: `address`, `header_count_max`, `header_bytes_max`, `header_read_timeout`, `handshake_timeout`, `write_idle_timeout`, `http2_streams_max`, `connections_max`, `connections_per_source_max`, `requests_max`, `trusted_proxies`, `forwarded`, `tls`
a.yaml:4:19: the URL contains a blank, a control character or a character outside ASCII
  4 |   weather: { url: 'http://é:1/' }
    |                   ^^^^^^^^^^^^^
  hint: percent-encode it in a path or query; write an international host name in its `xn--` form
a.yaml:5:13: the URL has a scheme other than `http` and `https`
  5 |   w: { url: ftp://h/ } # ü\tx
    |             ^^^^^^^^
  hint: write `http://host:port/path`
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
        told.lines()
            .filter(|line| !line.starts_with("  hint:"))
            .all(|line| line.chars().count() < 200),
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
    assert_one(&format!("# x\n%YAML 1.1\n---\n{good}"), "2:1", "directives");
    assert_one(
        &format!("log: {{ file: \"a\\0b\" }}\n{good}"),
        "1:14",
        "control character",
    );
    assert_one(
        &format!("log: {{ file: \"a\n b\\nc\" }}\n{good}"),
        "1:14",
        "line break",
    );
    assert_one("", "1:1", "holds no policy");
    assert_one("# nothing\n", "1:1", "holds no policy");
    assert_one("- a\n", "1:1", "must be a mapping");
}

#[test]
fn yaml_that_is_broken_or_too_large_is_told_with_its_place() {
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
    for address in [
        "listen: { address: [::1]:8081 }\n",
        "listen:\n  address: [::1]:8081\n",
    ] {
        let told = Files::new(&[("p.yaml", address)]).told();
        assert!(
            told.contains("quote a value that begins with a bracket"),
            "{told}"
        );
    }
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

/// One wrong value per line: the key and value in a route, the place, and words of the cause.
const WRONG_TYPES: &str = "
    bounds: 3 | 5:13 | `bounds` must be a mapping, found text
    bounds: | 5:5 | `bounds` has no value
    bounds: ~ | 5:5 | `bounds` has no value
    bounds: [] | 5:13 | must be a mapping, found a list
    path: [ /a ] | 5:11 | expected a path such as `/mcp`, found a list
    path: { a: b } | 5:11 | found a mapping
    hosts: a.example | 5:12 | expected a list of hosts, or `any`, or `loopback`, found text
    hosts: [ [ a ] ] | 5:14 | expected text, found a list
    hosts: [ a.example, ~ ] | 5:25 | expected text, found nothing
    bounds: { depth_max: { a: 1 } } | 5:26 | expected a number such as `100`, found a mapping
    bounds: { depth_max: 4.5 } | 5:26 | not a whole number
    bounds: { body_bytes_max: 4MB } | 5:31 | `4MB` is not a size
    bounds: { body_bytes_max: 0 } | 5:31 | too small
    bounds: { body_bytes_max: -1 } | 5:31 | negative
    bounds: { drain_timeout: 10 } | 5:30 | no unit
    bounds: { drain_timeout: 0s } | 5:30 | too small
    bounds: { drain_timeout: 1000000h } | 5:30 | too large
    protocol: { routing_headers: { missing: mirrored } } | 5:45 | one of `reject`, `mirror`
    protocol: { legacy_refusals: true } | 5:34 | one of `in_band`, `status`
";

#[test]
fn wrong_types_say_what_was_found_and_what_is_expected() {
    let mut tried = 0;
    for line in WRONG_TYPES.lines().filter(|line| !line.is_empty()) {
        let [route, place, words] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert_one(&with_route(&format!("{route}\n")), place, words);
        tried += 1;
    }
    assert!(tried > 15);
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
        near.starts_with("did you mean `bounds`? Known here: `name`, `pass`, `path`"),
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
        "mandatory",
        "authorise",
        "Limit",
    ] {
        let hint = hint(&with_route(&format!("    {key}: {{ a: 1 }}\n")));
        assert!(hint.contains("nothing would be enforced"), "{key}: {hint}");
    }
}

#[test]
fn a_pipe_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("policy.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [pipe.as_path(), directory.path()] {
        let errors = load(&[path.to_owned()], Addresses::default()).unwrap_err();
        assert!(
            errors.render(false).contains("not a regular file"),
            "{path:?}"
        );
    }
}
