//! Values that stand in files and variables, and credentials in any place: none is ever printed.

use crate::{Files, assert_one, errors_of, with_route};

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
    let text = with_route("").replace("http://127.0.0.1:3000/mcp", "http://u:hunter2@h/");
    let told = Files::new(&[("p.yaml", &text)]).told();
    let expected = "\
p.yaml:1:24: the URL has a user part (`user:password@`), which would end up in logs
  1 | upstreams: { u: { url: http:// …
    |                        ^^^^^^^
  hint: remove it; credentials for upstreams do not belong into a URL
1 error: no policy was loaded
";
    assert_eq!(told, expected);
}

#[test]
fn only_what_may_be_a_credential_is_hidden() {
    let excerpt = |line: &str| {
        let told = Files::new(&[("p.yaml", &with_route(&format!("{line}\n")))]).told();
        let found = told.lines().find_map(|told| told.strip_prefix("  5 | "));
        found.unwrap_or_else(|| panic!("{told}")).trim().to_owned()
    };
    for line in [
        "cors: { credentials: true, max_age: 5 }",
        "cors: { max_age: 5, credentials: false }",
        "\"cors\": { \"max_age\": 5, \"credentials\": true }",
        "path: secret-token/x",
        "hosts: [ tokens.example, a:1 ]",
        "bounds: { depth_max: 1 } # no secret",
    ] {
        assert_eq!(excerpt(&format!("    {line}")), line);
    }
    for (line, shown) in [
        (
            "cors: { max_age: 5, credentials: hunter2 }",
            "cors: { max_age: 5, credentials:  …",
        ),
        (
            "cors: { max_age: 5, token: hunter2 }",
            "cors: { max_age: 5, token:  …",
        ),
        (
            "bounds: { depth_max: 1, \"api-key\":hunter2 }",
            "bounds: { depth_max: 1, \"api-key\": …",
        ),
        (
            "bounds: { depth_max: 1 } # password hunter2",
            "bounds: { depth_max: 1 } # password  …",
        ),
        (
            "bounds: { depth_max: 1 } # http://u:hunter2@h",
            "bounds: { depth_max: 1 } # http:// …",
        ),
        (
            "bounds: { depth_max: 1 } # http://h/?hunter2",
            "bounds: { depth_max: 1 } # http://h/ …",
        ),
        (
            "bounds: { depth_max: 1 } # u:hunter2@h",
            "(not shown, it may hold a credential)",
        ),
        (
            "bounds: { token: [ hunter2 ], depth_max: 1 }",
            "bounds: { token …",
        ),
        (
            "path: user:hunter2@h",
            "(not shown, it may hold a credential)",
        ),
    ] {
        assert_eq!(excerpt(&format!("    {line}")), shown);
    }
}
