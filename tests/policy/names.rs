//! Routes that pass requests through, what browsers are told, and whom the gateway believes.

use weirgate::command::Form;
use weirgate::command::check::report;
use weirgate::policy::plan::{Forwarded, ForwardedBy};

use crate::merging::every_key;
use crate::{Files, assert_one, errors_of, with_route};

#[test]
fn every_such_key_reaches_the_plan() {
    let plan = every_key().load().unwrap().plan;
    let proxies = plan.listen.trusted_proxies.iter().map(ToString::to_string);
    assert_eq!(proxies.collect::<Vec<_>>(), ["10.0.0.0/8", "::1/128"]);
    assert_eq!(plan.listen.forwarded, ForwardedBy::Forwarded);
    let (read, all) = (&plan.routes[0], &plan.routes[1]);
    assert_eq!(
        format!("{:?}", read.cors),
        "Cors { headers: [\"X-Tenant\"], max_age: 300s, credentials: true }"
    );
    assert_eq!(read.upstream.forwarded, Forwarded::Both);
    assert_eq!(all.path, "/all/*");
    let endpoints = all.pass.as_ref().map(|pass| pass.endpoints.clone());
    assert_eq!(
        (endpoints, &read.pass),
        (Some(vec!["/mcp".to_owned()]), &None)
    );
}

fn passing(rest: &str) -> String {
    with_route(&format!(
        "  - {{ name: p, pass: true, upstream: u{rest} }}\n"
    ))
}

#[test]
fn the_summary_says_what_passes() {
    let files = Files::new(&[("p.yaml", &passing(", path: /health"))]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let paths = [files.path("p.yaml")];
    for json in [false, true] {
        let form = Form {
            json,
            ..Form::default()
        };
        assert_eq!(report(&paths, form, &mut out, &mut err).unwrap(), 0);
    }
    let out = String::from_utf8(out).unwrap();
    let row = out.lines().find(|line| line.starts_with("p ")).unwrap();
    assert!(
        row.contains("/health") && row.contains("passes through"),
        "{out}"
    );
    assert!(
        out.contains("\"pass\": true") || out.contains("\"pass\":true"),
        "{out}"
    );
}

#[test]
fn a_route_that_passes_says_where() {
    for path in [
        "/health",
        "/oauth/*",
        "/*",
        "/.well-known/*",
        "/.well-known/oauth-authorization-server",
    ] {
        let errors = errors_of(&passing(&format!(", path: \"{path}\"")));
        assert!(errors.is_empty(), "{path}: {errors:#?}");
    }
    assert_one(
        &passing(""),
        "5:5",
        "passes requests through and has no `path`",
    );
    for (path, cause) in [
        ("/a*", "is a pattern"),
        ("/*/b", "is a pattern"),
        ("/a/*/*", "is a pattern"),
        ("/a//*", "empty segment"),
        ("/a/../*", "dot segment"),
        ("/a%2Fb/*", "two ways"),
        ("/{team}/*", "is a pattern"),
        ("*", "is a pattern"),
        ("oauth/*", "does not begin with"),
    ] {
        assert_one(&passing(&format!(", path: \"{path}\"")), "5:47", cause);
    }
}

#[test]
fn only_routes_that_pass_have_many_paths_and_well_known_ones() {
    let mcp = |path: &str| with_route(&format!("    path: \"{path}\"\n"));
    assert_one(&mcp("/mcp/*"), "5:11", "compared whole");
    assert_one(&mcp("/.well-known/mcp"), "5:11", "no MCP endpoint");
    assert_one(
        &with_route("    pass: yes\n"),
        "5:11",
        "expected one of `true`, `false`",
    );
}

#[test]
fn what_passes_unread_is_not_said_to_be_read() {
    assert_one(
        &passing(", path: /health, protocol: { legacy_refusals: status }"),
        "5:66",
        "nothing is enforced by `protocol`",
    );
}

#[test]
fn no_route_passes_requests_to_an_endpoint() {
    for path in ["/mcp", "/MCP", "/mcp/tools", "/mcp.", "/mcp%20", "/mcp;x"] {
        let text = with_route(&format!(
            "    path: /x\n  - {{ name: p, pass: true, path: {path}, upstream: v }}\n"
        ));
        // Another name for the same server changes nothing.
        let text = text.replace(
            "upstreams: {",
            "upstreams: { v: { url: http://127.0.0.1:3000/other },",
        );
        assert_one(&text, "6:13", "the MCP endpoint of its upstream");
    }
    for host in ["localhost", "[::1]", "127.0.0.2", "a.localhost", "0.0.0.0"] {
        let text =
            with_route("    path: /x\n  - { name: p, pass: true, path: /mcp, upstream: v }\n");
        let text = text.replace(
            "upstreams: {",
            &format!("upstreams: {{ v: {{ url: \"http://{host}:3000/other\" }},"),
        );
        assert_one(&text, "6:13", "the MCP endpoint of its upstream");
    }
    let elsewhere =
        with_route("    path: /x\n  - { name: p, pass: true, path: /mcp, upstream: v }\n").replace(
            "upstreams: {",
            "upstreams: { v: { url: http://127.0.0.1:3001/ },",
        );
    assert!(errors_of(&elsewhere).is_empty());
}

#[test]
fn headers_of_pages_are_names() {
    let headers = |list: &str| with_route(&format!("    cors: {{ headers: [ {list} ] }}\n"));
    assert!(errors_of(&headers("X-Tenant, x-Other")).is_empty());
    for (name, cause) in [
        ("\"*\"", "is a pattern"),
        ("Mcp-Param-*", "is a pattern"),
        ("\"X Tenant\"", "not the name of a header"),
        ("\"X-Tenant:\"", "not the name of a header"),
        ("x_tenant", "has a `_`"),
    ] {
        assert_one(&headers(name), "5:24", cause);
    }
    assert_one(
        &with_route("    cors: { credentials: maybe }\n"),
        "5:26",
        "expected one of `true`, `false`",
    );
}

#[test]
fn proxies_are_ranges_of_addresses() {
    let listen = |proxies: &str| {
        format!(
            "listen: {{ trusted_proxies: {proxies} }}\n{}",
            with_route("")
        )
    };
    assert!(errors_of(&listen("[ 10.0.0.0/8, \"fd00::/8\", 127.0.0.1 ]")).is_empty());
    assert_one(&listen("[ 10.0.0.1/8 ]"), "1:30", "bits behind its length");
    assert_one(&listen("[ 0.0.0.0/0 ]"), "1:30", "every address");
    assert_one(&listen("10.0.0.0/8"), "1:28", "expected a list");
    assert_one(
        &format!("listen: {{ forwarded: both }}\n{}", with_route("")),
        "1:22",
        "expected one of `x-forwarded`, `forwarded`",
    );
}
