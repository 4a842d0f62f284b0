//! What the documentation says, tried on the built binary: every command, every policy, every
//! answer that it shows. A command that nobody here knows is a failure.

// This whole crate is a test; clippy's own exemption reaches only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocks;
mod commands;
mod demo;
mod process;
mod sidecar;
mod yaml;

use std::net::TcpListener;

use tempfile::TempDir;
use weirgate::policy::plan::Protocol;
use weirgate::protocol::version::Version;

use blocks::Document;
use process::{Running, weirgate};

#[test]
fn every_command_of_the_readme_works() {
    assert!(commands::run_all(&Document::read("README.md")) >= 7);
}

#[test]
fn every_command_about_policies_works() {
    assert!(commands::run_all(&Document::read("policies/README.md")) >= 3);
}

#[test]
fn every_command_about_deploying_is_known() {
    assert!(commands::run_all(&Document::read("deploy/README.md")) >= 3);
}

#[test]
#[should_panic(expected = "made-up.md:4: no test knows how to run `rm -rf /`")]
fn a_command_that_nobody_knows_is_a_failure() {
    commands::run_all(&Document {
        path: "made-up.md",
        text: "Text\n\n```sh\nrm -rf /\n```\n".to_owned(),
    });
}

/// The policies of policies/README.md are tried by the tests of policies.
#[test]
fn every_policy_is_good() {
    let directory = TempDir::new().unwrap();
    let mut policies = 0;
    for path in ["README.md", "deploy/README.md"] {
        for block in Document::read(path).blocks_of("yaml") {
            let file = directory.path().join("policy.yaml");
            std::fs::write(&file, block.text).unwrap();
            let output = weirgate(&["check", file.to_str().unwrap()]);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{path}: {output:?}");
            assert!(
                said.contains("no warnings"),
                "{path}:{}: {said}",
                block.line
            );
            policies += 1;
        }
    }
    assert!(policies >= 1);
}

#[test]
fn the_table_of_versions_is_the_gateways() {
    let readme = Document::read("README.md");
    let mut rows = readme.rows("## Versions");
    // The newest comes first there.
    rows.reverse();
    let mut documented = Vec::new();
    for row in rows {
        let by_default = match row[1] {
            "by default" => true,
            "where a route lists them" => false,
            words => panic!("{words}"),
        };
        let versions = row[0].split(", ").map(|text| Version::parse(text).unwrap());
        documented.extend(versions.map(|version| (version, by_default)));
    }
    documented.sort();
    let defaults = Protocol::default().versions;
    let known = Version::ALL.map(|version| (version, defaults.contains(version)));
    assert_eq!(documented, known);
}

#[test]
fn the_exit_codes_are_the_binarys() {
    let readme = Document::read("README.md");
    let rows = readme.rows("## Exit codes");
    let documented: Vec<i32> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let upstream = ["run", "--upstream", "http://127.0.0.1:3000/mcp"];
    let demo = Running::weirgate(&["demo", "--listen", "127.0.0.1:0"]);
    let server = demo.out(demo::server);
    let directory = TempDir::new().unwrap();
    let lock = directory.path().join("empty.lock.json");
    std::fs::write(&lock, r#"{"format": 1, "upstream": "", "tools": {}}"#).unwrap();
    let lock = lock.to_str().unwrap();
    let commands: [Vec<&str>; 4] = [
        vec!["check", "policies/sidecar.yaml"],
        vec!["pin", "--check", "--upstream", &server, "--out", lock],
        vec!["run"],
        [&upstream[..], &["--listen", &address]].concat(),
    ];
    let found = commands.map(|arguments| weirgate(&arguments).status.code().unwrap());
    assert_eq!(documented, found);
}
