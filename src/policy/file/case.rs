//! Files with cases, and files with one request: what a policy is tried with.

mod request;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::policy::case::{Case, Expect, Given, Suite, Verdict};
use crate::policy::finding::{Errors, Flaw, Origin};

use super::key::{self, Key, Shown};
use super::node::{self, Data, Node, Word};
use super::reader::Reader;
use super::shape::Shape;
use super::source;
use request::REQUEST;

/// What the name of a file with cases ends in. It stands beside the policy and is no part of it.
pub(super) const ENDING: &str = ".test.yaml";

/// What the keys of a file with cases say.
#[derive(Default)]
struct DraftSuite {
    policy: Vec<PathBuf>,
    tools: Vec<Value>,
    cases: Vec<Case>,
}

const SUITE: &[Key<DraftSuite>] = &[
    Key {
        name: "policy",
        read: read_policy,
        show: |_| Shown::value("the file of the same name without `.test`"),
    },
    Key {
        name: "tools",
        read: |s, n, r| {
            let wanted = "a list of tools as `tools/list` gives them";
            s.tools
                .extend(r.list(n, wanted).into_iter().flatten().filter_map(json));
        },
        show: |_| Shown::value("none"),
    },
    Key {
        name: "cases",
        read: read_cases,
        show: |_| Shown::List(Box::new(key::show(CASE, &DraftCase::default()))),
    },
];

/// What the keys of a case say.
#[derive(Default)]
struct DraftCase {
    name: String,
    given: Given,
    expect: Expect,
}

const CASE: &[Key<DraftCase>] = &[
    Key {
        name: "name",
        read: |c, n, r| r.string(n, "what the case shows", &mut c.name),
        show: |_| Shown::value("required"),
    },
    Key {
        name: "request",
        read: |c, n, r| request::read(n, &mut c.given, r),
        show: |c| key::show(REQUEST, &c.given),
    },
    Key {
        name: "expect",
        read: read_expect,
        show: |c| key::show(EXPECT, &c.expect),
    },
];

const EXPECT: &[Key<Expect>] = &[
    Key {
        name: "verdict",
        read: |e, n, r| {
            let words = Verdict::WORDS.map(|(word, verdict)| (word, Some(verdict)));
            r.choice(n, &words, &mut e.verdict);
        },
        show: |_| Shown::value("any"),
    },
    Key {
        name: "reason",
        read: |e, n, r| read_text(&mut e.reason, n, "the name of a refusal", r),
        show: |_| Shown::value("any"),
    },
    Key {
        name: "status",
        read: |e, n, r| {
            let mut status = 0;
            r.count(n, 100..=599, &mut status);
            e.status = (status != 0).then_some(status);
        },
        show: |_| Shown::value("any"),
    },
    Key {
        name: "code",
        read: |e, n, r| {
            let parse = |text: &str| match text.parse() {
                Ok(code) => Ok(Some(code)),
                Err(_) => Err(Flaw::of(text, "is not a code", "write one such as -32602")),
            };
            r.parsed(n, "a JSON-RPC code such as -32602", parse, &mut e.code);
        },
        show: |_| Shown::value("any"),
    },
    Key {
        name: "headers",
        read: |e, n, r| read_headers(&mut e.headers, n, r),
        show: |_| Shown::value("any"),
    },
];

/// Every key that a file with cases may have, as a path, with its default.
#[must_use]
pub fn case_keys() -> Vec<(String, String)> {
    let mut rows = Vec::new();
    key::show(SUITE, &DraftSuite::default()).flatten("", &mut rows);
    rows
}

/// Whether a file holds cases.
#[must_use]
pub fn is_suite(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.ends_with(ENDING))
}

/// Where the cases of the policy file `path` stand.
#[must_use]
pub fn suite_of(path: &Path) -> PathBuf {
    let mut name = path.with_extension("").into_os_string();
    name.push(ENDING);
    PathBuf::from(name)
}

/// Reads the cases in `path`.
///
/// # Errors
/// All flaws of the file at once.
pub fn load_suite(path: &Path) -> Result<Suite, Errors> {
    let mut draft = DraftSuite::default();
    let name = read_file(path, |tree, reader| {
        let seen = key::read(tree, "a file with cases", SUITE, &mut draft, reader);
        if seen.lacks("cases") {
            let flaw = Flaw::new(
                "the file has no `cases`",
                "write `cases:` with one at least",
            );
            reader.refuse(&tree.place, flaw);
        }
    })?;
    if draft.policy.is_empty() {
        let text = path.to_string_lossy();
        let stem = text.strip_suffix(ENDING).unwrap_or(&text);
        draft.policy.push(PathBuf::from(format!("{stem}.yaml")));
    }
    Ok(Suite {
        name,
        policy: draft.policy,
        tools: draft.tools,
        cases: draft.cases,
    })
}

/// Reads the one request in `path`: a case without an expectation.
///
/// # Errors
/// All flaws of the file at once.
pub fn load_request(path: &Path) -> Result<Given, Errors> {
    let mut case = DraftCase::default();
    read_file(path, |tree, reader| {
        let seen = key::read(tree, "a file with a request", CASE, &mut case, reader);
        if seen.lacks("request") {
            let flaw = Flaw::new(
                "the file has no `request`",
                "write `request: { tool: get_forecast }`",
            );
            reader.refuse(&tree.place, flaw);
        }
        if let Some(place) = seen.place("expect") {
            let flaw = Flaw::new(
                "`expect` has no effect here: nothing is expected of one request",
                "remove it, or put the case into a file that ends in `.test.yaml`",
            );
            reader.refuse(place, flaw);
        }
    })?;
    Ok(case.given)
}

/// Reads one file; gives its name.
fn read_file(path: &Path, read: impl FnOnce(&Node, &mut Reader<'_>)) -> Result<String, Errors> {
    let sources = source::read(&[path.to_owned()]);
    let mut reader = Reader {
        findings: sources.findings,
        ..Reader::new(&|_| None)
    };
    let mut name = String::new();
    if let Some(source) = sources.files.first() {
        source.name.clone_into(&mut name);
        if let Some(tree) = node::parse(source, &mut reader.findings) {
            read(&tree, &mut reader);
        }
    }
    Errors::none_in(reader.findings)?;
    Ok(name)
}

fn read_cases(suite: &mut DraftSuite, node: &Node, reader: &mut Reader<'_>) {
    for element in reader.list(node, "a list of cases").into_iter().flatten() {
        let mut draft = DraftCase::default();
        let seen = key::read(element, "a case", CASE, &mut draft, reader);
        for key in ["name", "request", "expect"] {
            if seen.lacks(key) {
                let flaw = Flaw::new(
                    format!("the case has no `{key}`"),
                    "write `- { name: …, request: { tool: … }, expect: { verdict: allow } }`",
                );
                reader.refuse(&element.place, flaw);
            }
        }
        suite.cases.push(Case {
            name: draft.name,
            origin: Origin::from(&element.place),
            given: draft.given,
            expect: draft.expect,
        });
    }
}

/// Reads what is expected of a request. A case that expects nothing could not fail.
fn read_expect(case: &mut DraftCase, node: &Node, reader: &mut Reader<'_>) {
    let before = reader.findings.len();
    key::read(node, "`expect`", EXPECT, &mut case.expect, reader);
    let is_nothing = case.expect == Expect::default() && !matches!(node.data, Data::Refused);
    if is_nothing && reader.findings.len() == before {
        let flaw = Flaw::new(
            "`expect` names nothing, so the case could not fail",
            "write `expect: { verdict: allow }`, or another of its keys",
        );
        reader.refuse(&node.place, flaw);
    }
}

/// The paths of the policy, each relative to the file that names it.
fn read_policy(suite: &mut DraftSuite, node: &Node, reader: &mut Reader<'_>) {
    let directory = node.place.source.path.parent().unwrap_or(Path::new(""));
    if let Data::Scalar(scalar) = &node.data {
        return suite.policy.push(directory.join(&scalar.text));
    }
    let join = |text: &str| Ok(directory.join(text));
    let paths = reader.texts(node, "a path, or a list of them", join);
    suite.policy.extend(paths.into_iter().flatten());
}

fn read_text(into: &mut Option<String>, node: &Node, wanted: &str, reader: &mut Reader<'_>) {
    if let Some(text) = reader.text(node, wanted) {
        *into = Some(text.to_owned());
    }
}

/// Reads header fields; one that says `absent` must not be there.
fn read_headers(into: &mut Vec<(String, Option<String>)>, node: &Node, reader: &mut Reader<'_>) {
    if reader.is_asked(node, || {
        Shape::Named(vec![Shape::Text("a value".to_owned())])
    }) {
        return;
    }
    let Data::Mapping(entries) = &node.data else {
        let cause = format!("expected a mapping, found {}", node.describe());
        return reader.refuse(&node.place, Flaw::new(cause, "write `{ Name: value }`"));
    };
    for (Word { text: name, .. }, value) in entries {
        if let Data::Scalar(scalar) = &value.data {
            let value = (!scalar.plain || scalar.text != "absent").then(|| scalar.text.clone());
            into.push((name.clone(), value));
        } else {
            let cause = format!("expected the value of a header, found {}", value.describe());
            let hint = "write text, or `absent` for a header that is left out";
            reader.refuse(&value.place, Flaw::new(cause, hint));
        }
    }
}

/// A node as JSON, by the core schema of YAML 1.2. None where it was refused.
fn json(node: &Node) -> Option<Value> {
    match &node.data {
        Data::Scalar(scalar) if !scalar.plain => Some(Value::String(scalar.text.clone())),
        Data::Scalar(scalar) if scalar.is_empty() => Some(Value::Null),
        Data::Scalar(scalar) => match serde_json::from_str(&scalar.text) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => Some(value),
            Ok(_) | Err(_) => Some(Value::String(scalar.text.clone())),
        },
        Data::List(list) => list.iter().map(json).collect(),
        Data::Mapping(entries) => {
            let entries = entries
                .iter()
                .map(|(word, value)| Some((word.text.clone(), json(value)?)));
            entries.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        Data::Refused | Data::Asked => None,
    }
}
