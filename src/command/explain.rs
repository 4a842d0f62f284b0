//! `weirgate explain`: what a policy makes of one request, stage by stage, before it is loaded.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::trial::{Came, Trial};
use super::{Form, exit, reported};
use crate::policy::case::Given;
use crate::policy::file::{self, Addresses, load_request};
use crate::policy::finding::{Errors, Finding, Flaw, Paint};

/// What is to be explained.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The policy: files, or directories of them.
    pub policy: Vec<PathBuf>,
    /// A file with the request, in place of the flags.
    pub request: Option<PathBuf>,
    /// The request that the flags make.
    pub given: Given,
    /// The arguments, as JSON.
    pub arguments: Option<String>,
    /// A file with the server's tools, as JSON: a list, or a result of `tools/list`.
    pub tools: Option<PathBuf>,
    /// Write JSON.
    pub json: bool,
}

/// Explains. The answer goes to standard output; what keeps it from being given goes to standard
/// error.
#[must_use]
pub fn explain(question: &Question) -> ExitCode {
    reported(question.json, |form, out, err| {
        report(question, form, out, err)
    })
}

/// [`explain`] onto any writers; gives the exit code.
///
/// # Errors
/// What the writers give.
pub fn report(
    question: &Question,
    form: Form,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let read = read(question);
    let (policy, given, tools) = match read {
        Ok(read) => read,
        Err(errors) => {
            err.write_all(errors.render(form.colour_err).as_bytes())?;
            return Ok(exit::USAGE);
        }
    };
    let came = Trial::start(&policy.plan, &tools).and_then(|trial| trial.ask(&given));
    match came {
        Ok(came) => {
            let steps = steps(&came);
            let text = match form.json {
                true => format!("{:#}\n", as_json(&came, &steps)),
                false => written(&given, &came, &steps, form.colour_out),
            };
            out.write_all(text.as_bytes())?;
            Ok(0)
        }
        Err(error) => {
            writeln!(err, "the request cannot be tried: {error}")?;
            Ok(exit::USAGE)
        }
    }
}

type Read = (file::Policy, Given, Vec<Value>);

fn read(question: &Question) -> Result<Read, Errors> {
    let policy = file::load(&question.policy, Addresses::default());
    let given = match &question.request {
        Some(path) => load_request(path),
        None => flags(question),
    };
    let tools = tools(question.tools.as_deref());
    match (policy, given, tools) {
        (Ok(policy), Ok(given), Ok(tools)) => Ok((policy, given, tools)),
        (Err(errors), given, tools) => {
            Err(errors.joined(given.err().into_iter().chain(tools.err())))
        }
        (Ok(_), Err(errors), tools) => Err(errors.joined(tools.err())),
        (Ok(_), Ok(_), Err(errors)) => Err(errors),
    }
}

/// The request that the flags make.
fn flags(question: &Question) -> Result<Given, Errors> {
    let mut given = question.given.clone();
    if let Some(text) = &question.arguments {
        match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(arguments) => given.arguments = Some(Value::Object(arguments)),
            Err(error) => {
                let cause = format!("the arguments are no JSON object: {error}");
                let hint = "write one such as `{\"city\": \"Basel\"}`";
                return Err(Finding::argument("--arguments", Flaw::new(cause, hint)).into());
            }
        }
    }
    Ok(given)
}

/// The tools in a file.
fn tools(path: Option<&std::path::Path>) -> Result<Vec<Value>, Errors> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let fault = |cause: String| {
        let hint = "name a JSON file with a list of tools, or with what `tools/list` answers";
        Errors::from(Finding::argument("--tools", Flaw::new(cause, hint)))
    };
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| fault(format!("{shown}: {error}")))?;
    let value: Value =
        serde_json::from_slice(&text).map_err(|error| fault(format!("{shown}: {error}")))?;
    let list = [&value["result"]["tools"], &value["tools"], &value];
    match list.into_iter().find_map(Value::as_array) {
        Some(tools) => Ok(tools.clone()),
        None => Err(fault(format!("{shown} has no list of tools"))),
    }
}

/// A stage of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Host, path and origin lead to a route.
    Route,
    /// The body is one message that all readers take alike.
    Body,
    /// The routing headers say what the body says.
    Headers,
    /// The era and the version are served.
    Version,
    /// The tool's definition, and the headers of the arguments.
    Arguments,
    /// The server.
    Upstream,
}

impl Stage {
    /// All of them, in the order in which the first failure wins.
    pub const ALL: [(Stage, &'static str); 6] = [
        (Stage::Route, "route"),
        (Stage::Body, "body"),
        (Stage::Headers, "headers"),
        (Stage::Version, "version"),
        (Stage::Arguments, "arguments"),
        (Stage::Upstream, "upstream"),
    ];

    /// The stage that refuses for this reason; `is_argument` where the header is of an argument.
    #[must_use]
    pub fn of(reason: &str, is_argument: bool) -> Option<Stage> {
        Some(match reason {
            "host_unclear" | "host" | "origin" | "not_found" | "well_known" | "path_unclear"
            | "method_not_allowed" | "head_too_large" | "target_too_long" | "overloaded" => {
                Stage::Route
            }
            "transfer_coding"
            | "length_beside_chunks"
            | "media_type"
            | "content_encoding"
            | "body_too_large"
            | "body_padding"
            | "body_timeout"
            | "body_broken"
            | "not_json"
            | "invalid_request"
            | "response_not_allowed"
            | "meta_key"
            | "method_text"
            | "name_parameter" => Stage::Body,
            "header_missing" | "header_repeated" | "header_malformed" | "header_mismatch"
            | "header_unexpected" | "header_unchecked"
                if is_argument =>
            {
                Stage::Arguments
            }
            "header_missing" | "header_repeated" | "header_malformed" | "header_mismatch"
            | "header_unexpected" | "header_unchecked" | "legacy_header" => Stage::Headers,
            "unsupported_version" | "handshake" | "method_not_found" => Stage::Version,
            "tool_unknown" | "tool_not_pinned" => Stage::Arguments,
            "negotiated_version"
            | "upstream_failed"
            | "upstream_refused"
            | "upstream_timeout"
            | "upstream_unreadable" => Stage::Upstream,
            _ => return None,
        })
    }
}

/// What became of a request at a stage.
struct Step {
    name: &'static str,
    verdict: &'static str,
    said: String,
}

/// The stages, each with its verdict: those before the one that refuses were passed, and those behind
/// it were not reached.
fn steps(came: &Came) -> Vec<Step> {
    let detail = came.word("detail").unwrap_or_default();
    let is_argument = detail.to_ascii_lowercase().starts_with("mcp-param-");
    let refused = came
        .reason()
        .map(|reason| (Stage::of(reason, is_argument), reason));
    Stage::ALL
        .into_iter()
        .map(|(stage, name)| {
            let (verdict, said) = match refused {
                Some((Some(at), _)) if stage > at => ("not reached", String::new()),
                Some((Some(at), reason)) if stage == at => ("refused", refusal(came, reason)),
                _ => ("passed", passed(stage, came)),
            };
            Step {
                name,
                verdict,
                said,
            }
        })
        .collect()
}

/// What a refusal says.
fn refusal(came: &Came, reason: &str) -> String {
    let error = &came.body["error"];
    let said = error["message"].as_str().unwrap_or_default();
    let hint = error["data"]["hint"].as_str();
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{reason}: {said}{hint}")
}

/// What is known of a stage that was passed.
fn passed(stage: Stage, came: &Came) -> String {
    let word = |field| came.word(field).unwrap_or_default().to_owned();
    match stage {
        Stage::Route => word("route"),
        Stage::Version => format!("{} {}", word("era"), word("version")),
        Stage::Arguments => match came.word("schema") {
            Some("none") => "the tool is not known, so its headers passed unjudged".to_owned(),
            _ => String::new(),
        },
        Stage::Upstream => match &came.arrived {
            Some(arrived) => {
                let line = |name: &str| {
                    let value = arrived.headers.get(name)?;
                    Some(format!("{name}: {}", value.to_str().unwrap_or("…")))
                };
                let lines = ["mcp-protocol-version", "mcp-method", "mcp-name"];
                let lines: Vec<_> = lines.into_iter().filter_map(line).collect();
                format!("receives {}", lines.join(", "))
            }
            None => "does not receive it".to_owned(),
        },
        Stage::Body | Stage::Headers => String::new(),
    }
}

fn written(given: &Given, came: &Came, steps: &[Step], colour: bool) -> String {
    let paint = Paint::new(colour);
    let name = given.name.as_deref().unwrap_or_default();
    let mut text = format!(
        "{}{} {name}{} from {}: {}, status {}\n\n",
        paint.bold,
        given.method,
        paint.plain,
        given.source,
        came.verdict(),
        came.status.as_u16(),
    );
    for Step {
        name,
        verdict,
        said,
    } in steps
    {
        let tint = match *verdict {
            "refused" => paint.red,
            "passed" => paint.green,
            _ => "",
        };
        let line = format!("{name:<12}{tint}{verdict:<13}{}{said}", paint.plain);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn as_json(came: &Came, steps: &[Step]) -> Value {
    let stages: Vec<_> = steps
        .iter()
        .map(|step| json!({ "stage": step.name, "verdict": step.verdict, "says": step.said }))
        .collect();
    json!({
        "verdict": came.verdict().to_string(),
        "status": came.status.as_u16(),
        "reason": came.reason(),
        "stages": stages,
        "answer": came.body,
        "record": came.record,
    })
}
