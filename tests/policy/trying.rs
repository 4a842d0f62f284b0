//! Policies tried before they are loaded: cases beside them, and one request explained.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weirgate::command::explain::{self, Question, Stage};
use weirgate::command::{Form, test};

use crate::Files;

const POLICY: &str = "upstreams: { w: { url: http://w.internal:3000/mcp } }\n\
                      routes: [ { name: w, upstream: w } ]\n";

/// The answer of a command: its exit code, and what it wrote where.
type Answer = (u8, String, String);

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn tried(path: PathBuf, json: bool) -> Answer {
    let form = Form {
        json,
        ..Form::default()
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = test::report(&[path], form, &mut out, &mut err).unwrap();
    (code, text(out), text(err))
}

fn explained(question: &Question, json: bool) -> Answer {
    let form = Form {
        json,
        ..Form::default()
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = explain::report(question, form, &mut out, &mut err).unwrap();
    (code, text(out), text(err))
}

/// A policy with these cases beside it.
fn with_cases(cases: &str) -> Files {
    Files::new(&[("p.yaml", POLICY), ("p.test.yaml", cases)])
}

#[test]
fn what_differs_is_told_and_ends_with_1() {
    let files = with_cases(
        "cases:\n\
         - name: as it is\n  request: { tool: a }\n  expect: { verdict: allow, status: 200 }\n\
         - name: as it is not\n  request: { tool: a, headers: { Mcp-Name: b } }\n\
         \x20 expect: { verdict: allow, status: 200, code: -32602, headers: { Retry-After: \"1\" } }\n",
    );
    let (code, out, err) = tried(files.path("p.yaml"), false);
    assert_eq!((code, err.as_str()), (1, ""));
    let place = files.path("p.test.yaml").display().to_string();
    let expected = format!(
        "{place}\n  \
         ok    as it is\n  \
         FAIL  as it is not\n        \
         verdict              expected allow, found refuse\n        \
         status               expected 200, found 400\n        \
         code                 expected -32602, found -32020\n        \
         headers.Retry-After  expected 1, found absent\n        \
         at {place}:5:3\n\n\
         1 passed, 1 failed\n"
    );
    assert_eq!(out, expected);

    let (code, out, _) = tried(files.path("p.yaml"), true);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &told["passed"], &told["failed"]),
        (1, &1.into(), &1.into())
    );
    let differences = &told["files"][0]["cases"][1]["differences"];
    assert_eq!(differences[1]["key"], "status");
    assert_eq!(differences[1]["found"], "400");
}

#[test]
fn cases_are_no_part_of_the_policy_beside_them() {
    let files =
        with_cases("cases: [ { name: a, request: { tool: a }, expect: { verdict: allow } } ]\n");
    assert!(files.load().is_ok());
    let directory = files.path("p.yaml").parent().unwrap().to_owned();
    let (code, out, err) = tried(directory, false);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

#[test]
fn wrong_cases_are_told_with_their_places_and_nothing_is_run() {
    let files = with_cases(
        "cases:\n- name: a\n  request: { tool: a, prompt: b }\n  expect: { verdict: alow }\n\
         - request: { tool: a }\n  expect: { verdcit: allow }\n",
    );
    let (code, out, err) = tried(files.path("p.yaml"), false);
    assert_eq!((code, out.as_str()), (64, ""));
    for said in [
        "p.test.yaml:3:31: the request already names `a`",
        "did you mean `allow`?",
        "the case has no `name`",
        "did you mean `verdict`?",
    ] {
        assert!(err.contains(said), "{said}: {err}");
    }

    let files = Files::new(&[("p.yaml", POLICY)]);
    let (code, _, err) = tried(files.path("p.yaml"), false);
    assert_eq!(code, 64);
    assert!(err.contains("p.test.yaml"), "{err}");
}

/// What would be passed over is told: it was written because somebody relies on it.
#[test]
fn what_would_have_no_effect_in_a_case_is_refused() {
    for (case, said) in [
        (
            "request: { method: tools/list, tool: a }, expect: { verdict: allow }",
            "`method` has no effect beside a tool",
        ),
        (
            "request: { tool: a, body: { jsonrpc: x } }, expect: { verdict: allow }",
            "expected the text of a body, found a mapping",
        ),
        (
            "request: { tool: a }, expect: {}",
            "the case could not fail",
        ),
        (
            "request: { tool: a }, caller: { subject: ann }, expect: { verdict: allow }",
            "`caller` is not a key of a case",
        ),
    ] {
        let files = with_cases(&format!("cases: [ {{ name: a, {case} }} ]\n"));
        let (code, out, err) = tried(files.path("p.yaml"), false);
        assert_eq!((code, out.as_str()), (64, ""), "{case}");
        assert!(err.contains(said), "{case}: {err}");
    }
}

#[test]
fn a_request_that_cannot_be_made_fails_its_case() {
    let files = with_cases(
        "cases: [ { name: a, request: { route: nowhere, tool: a }, expect: { verdict: allow } } ]\n",
    );
    let (code, out, _) = tried(files.path("p.yaml"), false);
    assert_eq!(code, 1);
    assert!(out.contains("the policy has no route `nowhere`"), "{out}");
}

#[test]
fn the_headers_of_arguments_follow_from_the_tools() {
    let files = with_cases(
        "tools:\n- name: query\n  inputSchema:\n    type: object\n    properties:\n      \
         region: { type: string, x-mcp-header: Region }\n\
         cases:\n\
         - name: they are sent\n  request: { tool: query, arguments: { region: eu } }\n  \
           expect: { verdict: allow }\n\
         - name: they are needed\n  \
           request: { tool: query, arguments: { region: eu }, headers: { Mcp-Param-Region: absent } }\n  \
           expect: { verdict: refuse, reason: header_missing }\n\
         - name: and held against the body\n  \
           request: { tool: query, arguments: { region: eu }, headers: { Mcp-Param-Region: us } }\n  \
           expect: { verdict: refuse, reason: header_mismatch }\n",
    );
    let (code, out, err) = tried(files.path("p.yaml"), false);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

fn question(files: &Files) -> Question {
    Question {
        policy: vec![files.path("p.yaml")],
        ..Question::default()
    }
}

#[test]
fn a_request_is_explained_stage_by_stage() {
    let files = Files::new(&[
        ("p.yaml", POLICY),
        ("q.yaml", "request: { tool: a, headers: { Mcp-Name: b } }\n"),
    ]);
    let mut question = question(&files);
    question.given.name = Some("get_forecast".to_owned());
    let (code, out, err) = explained(&question, false);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = "\
tools/call get_forecast from 127.0.0.1: allow, status 200

route       passed       w
body        passed
headers     passed
version     passed       modern 2026-07-28
arguments   passed       the tool is not known, so its headers passed unjudged
upstream    passed       receives mcp-protocol-version: 2026-07-28, mcp-method: tools/call, mcp-name: get_forecast
";
    assert_eq!(out, expected);

    question.request = Some(files.path("q.yaml"));
    let (code, out, _) = explained(&question, true);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["verdict"]), (0, &"refuse".into()));
    let verdicts: Vec<_> = told["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts[..3], ["passed", "passed", "refused"]);
    assert!(
        verdicts[3..]
            .iter()
            .all(|verdict| *verdict == "not reached")
    );
}

#[test]
fn what_keeps_a_request_from_being_explained_is_told_at_once() {
    let files = Files::new(&[("p.yaml", "routes: 1\n"), ("t.json", "{}")]);
    let question = Question {
        arguments: Some("[1]".to_owned()),
        tools: Some(files.path("t.json")),
        ..question(&files)
    };
    let (code, out, err) = explained(&question, false);
    assert_eq!((code, out.as_str()), (64, ""));
    for said in ["p.yaml:1:9", "--arguments", "--tools"] {
        assert!(err.contains(said), "{said}: {err}");
    }
}

/// A refusal that no stage owned would be explained as if it had passed them all.
#[test]
fn every_refusal_belongs_to_a_stage() {
    let readme = std::fs::read_to_string(Path::new("README.md")).unwrap();
    let table = readme
        .lines()
        .skip_while(|line| !line.starts_with("| reason |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let reasons: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert!(reasons.len() > 30, "{reasons:?}");
    for reason in reasons {
        assert!(Stage::of(reason, false).is_some(), "{reason}");
    }
}
