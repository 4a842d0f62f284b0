//! Certificates that a policy names: what is wrong with their files is told where they are named,
//! with everything else that is wrong.

use weirgate::policy::file::Addresses;
use weirgate::policy::plan::{Http, Plan};
use weirgate::policy::tls::Demand;

use crate::certificates::Authority;
use crate::{Files, short, with_route};

/// A directory with good files of each kind, and bad ones.
fn files() -> Files {
    let authority = Authority::new("clients");
    let own = authority.issue(&["mcp.example.com"]);
    let other = authority.issue(&["mcp.example.com"]);
    let old = authority.issue_until(&["mcp.example.com"], 2001);
    let files = Files::new(&[
        ("tls.crt", &own.cert),
        ("tls.key", &own.key),
        ("other.key", &other.key),
        ("two.key", &format!("{}{}", own.key, other.key)),
        ("old.crt", &old.cert),
        ("old.key", &old.key),
        ("ca.crt", &authority.pem()),
        ("empty", " \n"),
        ("text", "hello\n"),
        ("cut.crt", &own.cert[..own.cert.len() / 2]),
        (
            "locked.key",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ),
        (
            "locked-too.key",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ),
        (
            "odd.crt",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
    ]);
    let bundle = format!(
        "{}{}",
        authority.pem(),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    );
    files.write("bundle.crt", bundle.as_bytes());
    let chain = format!("{}{}{}", own.cert, authority.pem(), own.key);
    files.write("all.pem", chain.as_bytes());
    files.write("der", &[0x30, 0x82, 1, 2, 3, 4]);
    files
}

/// The errors of a policy with this for `listen.tls`, in short.
fn listen_errors(files: &Files, tls: &str) -> Vec<String> {
    files.write(
        "p.yaml",
        format!("listen:\n  tls: {tls}\n{}", with_route("")).as_bytes(),
    );
    let directory = format!("{}/", files.path("").display());
    let errors = files.load_paths(&[files.path("p.yaml")]).err();
    let findings = errors.iter().flat_map(|errors| errors.findings());
    findings
        .map(|finding| short(finding).replace(directory.trim_end_matches("//"), ""))
        .map(|told| told.replace("`/", "`"))
        .collect()
}

/// Files of `listen.tls`, and what is told of them.
const WRONG: &[(&str, &[&str])] = &[
    ("{}", &["2:8 `listen.tls` names no certificate"]),
    ("{ cert: tls.crt }", &["2:16 `cert` without `key`"]),
    ("{ key: tls.key }", &["2:15 `key` without `cert`"]),
    (
        "{ cert: nowhere.crt, key: tls.key }",
        &["2:16 the file `nowhere.crt` cannot be read: No such file or directory (os error 2)"],
    ),
    (
        "{ cert: empty, key: nowhere.key }",
        &[
            "2:16 the file `empty` is empty",
            "2:28 the file `nowhere.key` cannot be read: No such file or directory (os error 2)",
        ],
    ),
    (
        "{ cert: ., key: tls.key }",
        &["2:16 `.` is not a regular file"],
    ),
    (
        "{ cert: tls.crt, key: other.key }",
        &["2:30 the key in `other.key` does not belong to the certificate in `tls.crt`"],
    ),
    (
        "{ cert: tls.crt, key: two.key }",
        &["2:30 `two.key` has more than one key in it"],
    ),
    (
        "{ cert: tls.key, key: tls.crt }",
        &[
            "2:16 `tls.key` has a key in it and no certificate",
            "2:30 `tls.crt` has a certificate in it and no key",
        ],
    ),
    (
        "{ cert: text, key: text }",
        &[
            "2:16 there is no certificate in `text`",
            "2:27 there is no key in `text`",
        ],
    ),
    (
        "{ cert: der, key: der }",
        &[
            "2:16 `der` is binary (DER or PKCS #12), not PEM",
            "2:26 `der` is binary (DER or PKCS #12), not PEM",
        ],
    ),
    (
        "{ cert: cut.crt, key: tls.key }",
        &["2:16 the PEM in `cut.crt` is damaged"],
    ),
    (
        "{ cert: odd.crt, key: tls.key }",
        &["2:16 what `odd.crt` has in it cannot be read as a certificate"],
    ),
    (
        "{ cert: tls.crt, key: locked.key }",
        &["2:30 the key in `locked.key` is encrypted, and nobody is there to type its password"],
    ),
    (
        "{ cert: tls.crt, key: locked-too.key }",
        &[
            "2:30 the key in `locked-too.key` is encrypted, and nobody is there to type its password",
        ],
    ),
    (
        "{ cert: tls.crt, key: tls.key, client_ca: text }",
        &["2:50 there is no certificate in `text`"],
    ),
    (
        "{ cert: tls.crt, key: tls.key, client_certificate: optional }",
        &["2:59 `client_certificate` without `client_ca`: nobody would vouch for a certificate"],
    ),
    (
        "{ cert: tls.crt, key: tls.key, client_ca: ca.crt, client_certificate: maybe }",
        &["2:78 expected one of `required`, `optional`, found `maybe`"],
    ),
];

#[test]
fn what_is_wrong_with_a_file_is_told_where_it_is_named() {
    let files = files();
    for (tls, told) in WRONG {
        assert_eq!(&listen_errors(&files, tls), told, "{tls}");
    }
}

#[test]
fn good_files_make_a_listener() {
    let files = files();
    for (tls, clients) in [
        ("{ cert: tls.crt, key: tls.key }", None),
        ("{ cert: all.pem, key: all.pem }", None),
        (
            "{ cert: tls.crt, key: tls.key, client_ca: ca.crt }",
            Some(Demand::Required),
        ),
        (
            "{ cert: tls.crt, key: tls.key, client_ca: ca.crt, client_certificate: optional }",
            Some(Demand::Optional),
        ),
    ] {
        files.write(
            "p.yaml",
            format!("listen:\n  tls: {tls}\n{}", with_route("")).as_bytes(),
        );
        let policy = files.load_paths(&[files.path("p.yaml")]).unwrap();
        assert!(policy.warnings.is_empty(), "{:?}", policy.warnings);
        let listen = policy.plan.listen.tls.unwrap();
        assert_eq!(listen.clients.map(|clients| clients.demand), clients);
    }
}

#[test]
fn what_is_no_error_and_will_be_one_is_warned_of() {
    let files = files();
    for (tls, told) in [
        (
            "{ cert: old.crt, key: old.key }",
            "2:16 the certificates in ",
        ),
        (
            "{ cert: tls.crt, key: tls.key, client_ca: bundle.crt }",
            "2:50 1 of the certificates in ",
        ),
    ] {
        files.write(
            "p.yaml",
            format!("listen:\n  tls: {tls}\n{}", with_route("")).as_bytes(),
        );
        let policy = files.load_paths(&[files.path("p.yaml")]).unwrap();
        let warnings: Vec<_> = policy.warnings.iter().map(short).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(told), "{warnings:?}");
    }
}

/// A policy whose one upstream has these keys.
fn with_upstream(defaults: &str, upstream: &str) -> String {
    format!(
        "defaults: {{ upstream: {{ {defaults} }} }}\nupstreams:\n  u: {{ {upstream} }}\nroutes:\n  - {{ name: r, upstream: u }}\n"
    )
}

#[test]
fn an_upstream_keeps_what_the_defaults_say_and_it_does_not() {
    let files = files();
    let text = with_upstream(
        "tls: { ca: ca.crt, cert: tls.crt, key: tls.key }",
        "url: https://weather.example/mcp, http: \"1.1\", tls: { server_name: Other.example }",
    );
    files.write("p.yaml", text.as_bytes());
    let policy = files.load_paths(&[files.path("p.yaml")]).unwrap();
    let upstream = &policy.plan.routes[0].upstream;
    assert_eq!((upstream.port, upstream.http), (443, Http::V1));
    assert_eq!(upstream.authority, "weather.example");
    let tls = upstream.tls.as_ref().unwrap();
    assert_eq!(tls.server_name.to_str(), "other.example");
    assert!(tls.authorities.is_some() && tls.identity.is_some());
    // Nothing of it concerns an upstream that is not encrypted.
    let text = with_upstream("tls: { ca: ca.crt }", "url: http://weather.example/mcp");
    files.write("p.yaml", text.as_bytes());
    let policy = files.load_paths(&[files.path("p.yaml")]).unwrap();
    assert!(policy.plan.routes[0].upstream.tls.is_none());
}

#[test]
fn an_upstream_is_known_by_its_host_unless_it_says_otherwise() {
    for (url, name) in [
        ("https://Weather.example/mcp", "weather.example"),
        ("https://my_service:8443/mcp", "my_service"),
        ("https://127.0.0.1/mcp", "127.0.0.1"),
        ("https://[::1]:1/mcp", "::1"),
    ] {
        let files = Files::new(&[("p.yaml", &with_upstream("", &format!("url: \"{url}\"")))]);
        let policy = files.load().unwrap();
        let tls = policy.plan.routes[0].upstream.tls.clone().unwrap();
        assert_eq!(tls.server_name.to_str(), name);
        assert!(tls.authorities.is_none() && tls.identity.is_none());
    }
}

#[test]
fn the_command_line_may_name_an_upstream_over_tls() {
    let policy = Plan::for_single_upstream("https://h/mcp", Addresses::default()).unwrap();
    assert!(policy.plan.routes[0].upstream.tls.is_some());
}

/// Keys of an upstream, and what is told of them.
const WRONG_UPSTREAMS: &[(&str, &str)] = &[
    (
        "url: http://h/, tls: { ca: ca.crt }",
        "3:29 the upstream `u` has `tls`, but its URL is `http://`",
    ),
    (
        "url: https://h/, tls: { cert: tls.crt }",
        "3:38 `cert` without `key`",
    ),
    (
        "url: https://h/, tls: { server_name: \"a..b\" }",
        "3:45 `a..b` is not the name of a server",
    ),
    (
        "url: https://h/, tls: { roots: ca.crt }",
        "3:32 `roots` is not a key of `tls`",
    ),
    (
        "url: https://h/, tls: yes",
        "3:30 `tls` must be a mapping, found text",
    ),
];

#[test]
fn an_upstream_that_cannot_be_meant_is_refused() {
    let files = files();
    for (keys, told) in WRONG_UPSTREAMS {
        files.write("p.yaml", with_upstream("", keys).as_bytes());
        let errors = files.load_paths(&[files.path("p.yaml")]).unwrap_err();
        let found: Vec<_> = errors.findings().iter().map(short).collect();
        assert_eq!(found, [*told], "{keys}");
    }
}

#[test]
fn a_file_of_the_defaults_is_told_of_once() {
    let files = files();
    let text = "defaults: { upstream: { tls: { ca: text } } }\nupstreams:\n  \
                a: { url: https://a/ }\n  b: { url: https://b/ }\nroutes:\n  \
                - { name: a, upstream: a }\n  - { name: b, path: /b, upstream: b }\n";
    files.write("p.yaml", text.as_bytes());
    let errors = files.load_paths(&[files.path("p.yaml")]).unwrap_err();
    assert_eq!(errors.findings().len(), 1, "{errors}");
}

#[test]
fn a_key_is_never_repeated_in_what_is_told() {
    let files = files();
    let secret = std::fs::read_to_string(files.path("other.key")).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    for (tls, _) in WRONG {
        let told = listen_errors(&files, tls).join("\n");
        assert!(!told.contains(secret), "{told}");
    }
}
