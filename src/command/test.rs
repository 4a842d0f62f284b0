//! `weirgate test PATH...`: runs the cases that stand beside policies, and says what differs.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::trial::{Came, Trial};
use super::{Form, exit, reported};
use crate::policy::case::{Case, Expect, Suite};
use crate::policy::file::{self, Addresses, Policy, is_suite, load_suite, suite_of};
use crate::policy::finding::{Errors, Finding, Flaw, Paint};

/// Most characters of a value that a difference shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Runs the cases that `paths` name. What came of them goes to standard output, as one JSON object
/// with `json`; what keeps them from being run goes to standard error.
#[must_use]
pub fn test(paths: &[PathBuf], json: bool) -> ExitCode {
    reported(json, |form, out, err| report(paths, form, out, err))
}

/// [`test`] onto any writers; gives the exit code.
///
/// # Errors
/// What the writers give.
pub fn report(
    paths: &[PathBuf],
    form: Form,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let suites = match suites(paths) {
        Ok(suites) => suites,
        Err(errors) => {
            err.write_all(errors.render(form.colour_err).as_bytes())?;
            return Ok(exit::USAGE);
        }
    };
    let mut done = Vec::with_capacity(suites.len());
    for (suite, policy) in &suites {
        match run(suite, policy) {
            Ok(results) => {
                if !form.json {
                    out.write_all(written(suite, &results, form.colour_out).as_bytes())?;
                }
                done.push((suite, results));
            }
            Err(error) => {
                writeln!(err, "{}: the cases cannot be run: {error}", suite.name)?;
                return Ok(exit::SOFTWARE);
            }
        }
    }
    let all = || done.iter().flat_map(|(_, results)| results);
    let failed = all()
        .filter(|result| !result.differences.is_empty())
        .count();
    let passed = all().count() - failed;
    if form.json {
        writeln!(out, "{:#}", as_json(&done, passed, failed))?;
    } else {
        writeln!(out, "{passed} passed, {failed} failed")?;
    }
    Ok(if failed == 0 { 0 } else { exit::DIFFERENT })
}

/// What came of one case.
struct CaseResult<'s> {
    case: &'s str,
    place: String,
    differences: Vec<Difference>,
}

/// What was expected and is not so.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    key: String,
    expected: String,
    found: String,
}

/// The files with cases that `paths` mean, each with its policy.
fn suites(paths: &[PathBuf]) -> Result<Vec<(Suite, Policy)>, Errors> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut suites = Vec::new();
    for path in paths {
        let files = files(path).unwrap_or_else(|finding| {
            findings.push(finding);
            Vec::new()
        });
        for file in files {
            let read = load_suite(&file).and_then(|suite| {
                let policy = file::load(&suite.policy, Addresses::default())?;
                Ok((suite, policy))
            });
            match read {
                Ok(read) => suites.push(read),
                Err(errors) => findings.extend_from_slice(errors.findings()),
            }
        }
    }
    Errors::none_in(findings)?;
    Ok(suites)
}

/// The files with cases that one path means: itself, those of a directory, or the one beside a policy.
fn files(path: &Path) -> Result<Vec<PathBuf>, Finding> {
    let name = path.display().to_string();
    let missing = |cause: String| {
        let hint = "write cases into a file beside the policy, such as `weather.test.yaml` for \
                    `weather.yaml`";
        Finding::argument(name.clone(), Flaw::new(cause, hint))
    };
    if path.is_dir() {
        let entries = std::fs::read_dir(path)
            .map_err(|error| missing(format!("the directory cannot be read: {error}")))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<_> = paths.filter(|path| is_suite(path)).collect();
        files.sort();
        return match files.is_empty() {
            true => Err(missing("the directory has no file with cases".to_owned())),
            false => Ok(files),
        };
    }
    if is_suite(path) {
        return Ok(vec![path.to_owned()]);
    }
    let beside = suite_of(path);
    match beside.is_file() {
        true => Ok(vec![beside]),
        false => Err(missing(format!("there is no file {}", beside.display()))),
    }
}

/// Runs the cases of one file, in their order.
fn run<'s>(
    suite: &'s Suite,
    policy: &Policy,
) -> Result<Vec<CaseResult<'s>>, Box<dyn std::error::Error + Send + Sync>> {
    let trial = Trial::start(&policy.plan, &suite.tools)?;
    let mut results = Vec::with_capacity(suite.cases.len());
    for case in &suite.cases {
        results.push(CaseResult {
            case: &case.name,
            place: case.origin.to_string(),
            differences: judged(&trial, case),
        });
    }
    Ok(results)
}

fn judged(trial: &Trial, case: &Case) -> Vec<Difference> {
    match trial.ask(&case.given) {
        Ok(came) => differences(&case.expect, &came),
        Err(error) => vec![Difference {
            key: "request".to_owned(),
            expected: "one that can be sent".to_owned(),
            found: error.to_string(),
        }],
    }
}

/// What of `expect` did not come.
fn differences(expect: &Expect, came: &Came) -> Vec<Difference> {
    let text = |text: Option<&str>| text.unwrap_or("none").to_owned();
    let code = came.body["error"]["code"].as_i64();
    let pairs = [
        (
            "verdict",
            expect.verdict.map(|verdict| verdict.to_string()),
            came.verdict().to_string(),
        ),
        ("reason", expect.reason.clone(), text(came.reason())),
        (
            "status",
            expect.status.map(|status| status.to_string()),
            came.status.as_u16().to_string(),
        ),
        (
            "code",
            expect.code.map(|code| code.to_string()),
            code.map_or_else(|| "none".to_owned(), |code| code.to_string()),
        ),
    ];
    let mut differences: Vec<_> = pairs
        .into_iter()
        .filter_map(|(key, expected, found)| {
            let expected = expected.filter(|expected| *expected != found)?;
            let key = key.to_owned();
            Some(Difference {
                key,
                expected,
                found,
            })
        })
        .collect();
    for (name, expected) in &expect.headers {
        let found = came.headers.get(name);
        let found = found.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        if *expected != found {
            let absent = || "absent".to_owned();
            differences.push(Difference {
                key: format!("headers.{name}"),
                expected: expected.clone().unwrap_or_else(absent),
                found: found.unwrap_or_else(absent),
            });
        }
    }
    differences
}

fn written(suite: &Suite, results: &[CaseResult<'_>], colour: bool) -> String {
    let paint = Paint::new(colour);
    let mut text = format!("{}{}{}\n", paint.bold, suite.name, paint.plain);
    for result in results {
        let (mark, tint) = match result.differences.is_empty() {
            true => ("ok  ", paint.green),
            false => ("FAIL", paint.red),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {tint}{mark}{}  {}", paint.plain, result.case);
        let widest = result
            .differences
            .iter()
            .map(|difference| difference.key.len())
            .max();
        let width = widest.unwrap_or_default();
        for Difference {
            key,
            expected,
            found,
        } in &result.differences
        {
            let (expected, found) = (shortened(expected), shortened(found));
            let _ = writeln!(
                text,
                "        {key:width$}  expected {expected}, found {found}"
            );
        }
        if !result.differences.is_empty() {
            let _ = writeln!(text, "        at {}", result.place);
        }
    }
    text.push('\n');
    text
}

fn shortened(text: &str) -> String {
    let printable = text.replace(char::is_control, "\u{fffd}");
    match printable.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &printable[..end]),
        None => printable,
    }
}

fn as_json(done: &[(&Suite, Vec<CaseResult<'_>>)], passed: usize, failed: usize) -> Value {
    let case = |result: &CaseResult<'_>| {
        let differences: Vec<_> = result
            .differences
            .iter()
            .map(|difference| {
                json!({
                    "key": difference.key,
                    "expected": difference.expected,
                    "found": difference.found,
                })
            })
            .collect();
        json!({
            "case": result.case,
            "at": result.place,
            "passed": result.differences.is_empty(),
            "differences": differences,
        })
    };
    let files: Vec<_> = done
        .iter()
        .map(|(suite, results)| {
            json!({ "file": suite.name, "cases": results.iter().map(case).collect::<Vec<_>>() })
        })
        .collect();
    json!({ "passed": passed, "failed": failed, "files": files })
}
