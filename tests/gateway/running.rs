//! `weirgate run` itself: what it says when it starts, and when it cannot.

use std::net::TcpListener;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Gateway, Play, Policy, Reply, Request, Upstream, policy_file, run_to_end};

fn refused(text: &str) -> (Option<i32>, String) {
    let directory = TempDir::new().unwrap();
    let file = policy_file(directory.path(), text);
    let output = run_to_end(&["run", "--policy", &file]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.stdout.is_empty(),
        "nothing belongs on standard output"
    );
    (output.status.code(), stderr)
}

#[test]
fn a_bad_policy_is_told_completely_and_ends_with_64() {
    let (code, stderr) = refused(
        r#"
listen: { address: 127.0.0.1:0, header_count_maximum: 5 }
status: { address: 127.0.0.1:0 }
upstreams:
  up: { url: "http://127.0.0.1:1/mcp" }
routes:
  - { name: main, path: /mcp, upstream: down }
  - name: main
    path: /other
    upstream: up
    bounds: { body_bytes_max: many }
"#,
    );
    assert_eq!(code, Some(64), "{stderr}");
    for part in [
        "header_count_maximum",
        "header_count_max",
        "down",
        "main",
        "body_bytes_max",
        "policy.yaml:2:",
    ] {
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
}

#[test]
fn what_is_no_yaml_is_told_with_its_place() {
    for text in ["listen: [", "\t- x", "a: b: c", ""] {
        let (code, stderr) = refused(text);
        assert_eq!(code, Some(64), "{text:?}: {stderr}");
        assert!(stderr.contains("policy.yaml:"), "{text:?}: {stderr}");
    }
}

#[test]
fn a_policy_that_is_not_there_is_told() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("nothing.yaml");
    let output = run_to_end(&["run", "--policy", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing.yaml"));
}

#[test]
fn flags_that_nobody_knows_end_with_64() {
    for arguments in [
        &["run", "--polcy", "x"][..],
        &["rn"],
        &["run", "--listen", "nowhere"],
    ] {
        let output = run_to_end(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {stderr}");
        assert!(!stderr.is_empty());
    }
    let help = run_to_end(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("run"));
}

#[test]
fn a_signal_ends_it_and_calls_that_are_open_are_recorded_as_cut_off() {
    for signal in ["TERM", "INT"] {
        let upstream =
            Upstream::with(|_| Reply::Steps(vec![Play::sse_head(), Play::chunk(": x\n\n")]));
        let policy =
            Policy::new(&upstream).set("/shutdown", json!({"notice": "1ms", "timeout": "200ms"}));
        let mut gateway = Gateway::start(&policy);
        let mut client = gateway.connect();
        client.send(&Request::call("endless"));
        let (_, mut body) = client.read_head();
        client.read_until(&mut body, b": x\n\n");
        assert!(gateway.records().is_empty(), "the call is open");
        assert_eq!(gateway.end_by(signal), Some(0));
        let record = gateway.wait_for_records(1).remove(0);
        assert_eq!(record["name"], "endless");
        assert_eq!(record["end"], "shut_down", "{record}");
        assert_eq!(gateway.records().len(), 1);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for key in ["/listen/address", "/status/address", "/admin/address"] {
        let policy = Policy::to_url("http://127.0.0.1:1/mcp").set(key, json!(address));
        let (code, stderr) = refused(&policy.text());
        assert_eq!(code, Some(70), "{stderr}");
        assert!(stderr.contains(&address), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_single_upstream_needs_no_policy() {
    let upstream = Upstream::start();
    let url = upstream.url();
    let arguments = [
        "--upstream",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--status",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let gateway = Gateway::start_with(&arguments);
    for request in [Request::call("echo"), Request::legacy_call("echo")] {
        assert_eq!(gateway.ask(&request).status, 200);
    }
    assert_eq!(upstream.runs("echo"), 2);
    let refused = gateway.ask(&Request::call("echo").header("Mcp-Name", "x"));
    assert_eq!(refused.code(), Some(-32020));
    let stranger = gateway.ask(&Request::call("echo").header("Host", "evil.example"));
    assert_eq!(stranger.status, 403);
}

#[test]
fn every_problem_of_a_url_is_an_error_of_usage() {
    for url in [
        "",
        "127.0.0.1:3000",
        "ftp://127.0.0.1/mcp",
        "http://",
        "http://u:p@127.0.0.1/",
    ] {
        let output = run_to_end(&["run", "--upstream", url, "--listen", "127.0.0.1:0"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{url:?}: {stderr}");
        assert!(stderr.starts_with("--upstream: "), "{url:?}: {stderr}");
    }
}

#[test]
fn several_routes_lead_to_several_upstreams() {
    let (left, right) = (Upstream::start(), Upstream::start());
    let policy = Policy::new(&left)
        .set("/upstreams/other/url", json!(right.url()))
        .set(
            "/routes",
            json!([{"name": "left", "path": "/left", "upstream": "up"},
                   {"name": "right", "path": "/right", "upstream": "other",
                    "protocol": {"versions": ["2025-11-25"]}}]),
        );
    let gateway = Gateway::start(&policy);
    let mut client = gateway.connect();
    assert_eq!(
        client.exchange(&Request::call("a").target("/left")).status,
        200
    );
    assert_eq!(
        client.exchange(&Request::call("a").target("/right")).status,
        400
    );
    assert_eq!(
        client
            .exchange(&Request::legacy_call("b").target("/right"))
            .status,
        200
    );
    assert_eq!((left.runs("a"), right.runs("a")), (1, 0));
    assert_eq!((left.runs("b"), right.runs("b")), (0, 1));
    let routes: Vec<_> = gateway
        .wait_for_records(3)
        .iter()
        .map(|record| record["route"].clone())
        .collect();
    assert_eq!(routes, ["left", "right", "right"]);
}

#[test]
fn a_directory_of_policy_files_is_one_policy() {
    let upstream = Upstream::start();
    let directory = TempDir::new().unwrap();
    let write =
        |name: &str, text: String| std::fs::write(directory.path().join(name), text).unwrap();
    write(
        "gateway.yaml",
        "listen: {address: 127.0.0.1:0}\nstatus: {address: 127.0.0.1:0}\nadmin: {address: 127.0.0.1:0}\nlog: {access: json}\n"
            .into(),
    );
    write(
        "routes.yaml",
        format!(
            "upstreams:\n  up: {{url: \"{}\"}}\nroutes:\n  - {{name: main, path: /mcp, upstream: up}}\n",
            upstream.url()
        ),
    );
    write(".hidden.yaml", "nonsense: [".into());
    let gateway = Gateway::start_with(&["--policy", directory.path().to_str().unwrap()]);
    assert_eq!(gateway.ask(&Request::call("echo")).status, 200);
    assert_eq!(upstream.runs("echo"), 1);
}
