//! The documentation and the examples against the parser.

use std::path::{Path, PathBuf};

use weirgate::command::check::report;
use weirgate::command::{Form, test};
use weirgate::policy::file::{case_keys, keys};

use crate::Files;
use crate::certificates::Authority;

const README: &str = include_str!("../../policies/README.md");

/// The blocks that begin with three backticks and `info`, each with the rest of that line.
fn blocks(info: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in README.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind.to_owned(), String::new())),
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks.retain_mut(|(kind, _)| match kind.strip_prefix(info) {
        Some(rest) => {
            *kind = rest.trim().to_owned();
            true
        }
        None => false,
    });
    blocks
}

fn check(path: &Path) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = report(&[path.to_owned()], Form::default(), &mut out, &mut err).unwrap();
    (
        code,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

/// The keys and defaults of the table below a heading.
fn table(heading: &str) -> Vec<(String, String)> {
    let section = README
        .lines()
        .skip_while(|line| !line.starts_with(heading))
        .skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{line}");
            assert!(!cells[3].is_empty(), "{line}");
            (cells[1].replace('`', ""), cells[2].replace('`', ""))
        })
        .collect()
}

fn bare(keys: Vec<(String, String)>) -> Vec<(String, String)> {
    let keys = keys.into_iter();
    keys.map(|(key, default)| (key, default.replace('`', "")))
        .collect()
}

#[test]
fn the_tables_of_keys_are_the_parsers() {
    let known = bare(keys());
    assert!(known.len() > 30);
    assert_eq!(table("## Keys"), known);
    let known = bare(case_keys());
    assert!(known.len() > 15);
    assert_eq!(table("## Trying a policy"), known);
}

#[test]
fn every_block_is_what_it_says() {
    let policies = blocks("yaml");
    let mut told = blocks("text").into_iter();
    let (mut good, mut wrong) = (0, 0);
    for (name, text) in policies {
        if name.is_empty() {
            let policy = Files::new(&[("p.yaml", &text)]).load().unwrap();
            assert!(policy.warnings.is_empty(), "{text}");
            good += 1;
        } else {
            assert_eq!(Files::new(&[(&name, &text)]).told(), told.next().unwrap().1);
            wrong += 1;
        }
    }
    assert!(good >= 2 && wrong >= 1 && told.next().is_none());
}

#[test]
fn every_command_works() {
    let mut run = 0;
    for (_, text) in blocks("sh") {
        for line in text.lines() {
            // The others need a gateway at work, and are run where there is one.
            let Some(words) = line.strip_prefix("weirgate check ") else {
                continue;
            };
            let words = words.split_whitespace();
            let (flags, paths): (Vec<_>, Vec<_>) = words.partition(|word| word.starts_with('-'));
            let form = Form {
                json: flags == ["--json"],
                ..Form::default()
            };
            assert!(form.json || flags.is_empty(), "{line}");
            let paths: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
            let (mut out, mut err) = (Vec::new(), Vec::new());
            assert_eq!(
                report(&paths, form, &mut out, &mut err).unwrap(),
                0,
                "{line}"
            );
            assert!(err.is_empty() && !out.is_empty());
            if form.json {
                let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
                assert_eq!(value["good"], true);
            }
            run += 1;
        }
    }
    assert!(run >= 3);
}

/// The files that the example with certificates names: nobody's key is a part of this project.
fn certificates() -> Files {
    let authority = Authority::new("example");
    let own = authority.issue(&["weather.example.com"]);
    Files::new(&[
        ("tls/tls.crt", &own.cert),
        ("tls/tls.key", &own.key),
        ("tls/ca.crt", &authority.pem()),
    ])
}

#[test]
fn every_example_is_good_and_listed() {
    let mut examples = 0;
    let certificates = certificates();
    for entry in std::fs::read_dir("policies").unwrap() {
        let mut path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "README.md" || name.ends_with(".test.yaml") {
            continue;
        }
        if name == "tls.yaml" {
            for file in [&*name, "tls.test.yaml"] {
                std::fs::copy(format!("policies/{file}"), certificates.path(file)).unwrap();
            }
            path = certificates.path(&name);
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let tried = test::report(&[path.clone()], Form::default(), &mut out, &mut err).unwrap();
        let told = String::from_utf8_lossy(&out);
        assert_eq!((tried, err.len()), (0, 0), "{name}: {told}");
        assert!(told.contains("  ok    "), "{name}: {told}");
        let (code, out, err) = check(&path);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("no warnings"), "{out}");
        assert!(
            README.contains(&format!("]({name})")),
            "{name} is not listed"
        );
        examples += 1;
    }
    assert!(examples >= 6);
}

#[test]
fn a_good_policy_is_summed_up() {
    let (code, out, err) = check(Path::new("policies/team"));
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = "\
policies/team: good, 2 routes, no warnings

listen 0.0.0.0:8080   status 0.0.0.0:9902   admin 127.0.0.1:9901   access log json to standard error

ROUTE    PATH      HOSTS            ORIGINS  VERSIONS                            UPSTREAM
search   /search   mcp.example.com  none     2026-07-28, 2025-11-25, 2025-06-18  search http://search.internal:8000/mcp
weather  /weather  mcp.example.com  none     2026-07-28, 2025-11-25, 2025-06-18  weather http://weather.internal:3000/mcp

Not at their defaults:
  gateway           listen.address           0.0.0.0:8080  (default 127.0.0.1:8080)
  gateway           status.address           0.0.0.0:9902  (default 127.0.0.1:9902)
  gateway           log.access               json          (default text)
  route search      bounds.body_bytes_max    8Mi           (default 4Mi)
  route weather     bounds.body_bytes_max    1Mi           (default 4Mi)
  upstream search   response_header_timeout  2m            (default 5m)
  upstream weather  response_header_timeout  2m            (default 5m)
";
    assert_eq!(out, expected);
}

#[test]
fn a_bad_policy_ends_with_64_and_says_why_on_standard_error() {
    let files = Files::new(&[("p.yaml", "routes: 1\n")]);
    let (code, out, err) = check(&files.path("p.yaml"));
    assert_eq!((code, out.as_str()), (64, ""));
    assert!(
        err.contains("p.yaml:1:9: expected a list of routes"),
        "{err}"
    );

    let form = Form {
        json: true,
        ..Form::default()
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = report(&[files.path("p.yaml")], form, &mut out, &mut err).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((code, err.len(), &value["good"]), (64, 0, &false.into()));
    assert_eq!(
        (&value["errors"][0]["line"], &value["errors"][0]["column"]),
        (&1.into(), &9.into())
    );
    assert!(value["errors"][0]["hint"].is_string());

    let (code, _, err) = check(&files.path("absent"));
    assert_eq!(code, 64);
    assert!(err.contains("absent: the file cannot be read"), "{err}");
}

#[test]
fn colour_is_for_terminals_only() {
    let files = Files::new(&[("p.yaml", "routes: 1\n")]);
    for colour_err in [false, true] {
        let form = Form {
            colour_err,
            ..Form::default()
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        report(&[files.path("p.yaml")], form, &mut out, &mut err).unwrap();
        assert_eq!(err.contains(&0x1b), colour_err);
    }
}
