//! `weirgate check PATH...`: reads a policy as the gateway would, and prints what it comes to.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::{Form, exit, reported};
use crate::policy::file::{
    Addresses, Policy, Setting, load, settings_of_gateway, settings_of_route, settings_of_upstream,
};
use crate::policy::finding::{Finding, Origin, Paint, render_warnings};
use crate::policy::plan::{Hosts, LogFormat, Origins, Plan, Route, Upstream};

/// Most hosts or origins of a route that the summary lists.
const LISTED_MAX: usize = 3;

/// Checks the policy that `paths` name. A good one is summed up on standard output, with warnings;
/// a bad one is answered with all its errors on standard error. With `json`, either goes to
/// standard output as one JSON object.
#[must_use]
pub fn check(paths: &[PathBuf], json: bool) -> ExitCode {
    reported(json, |form, out, err| report(paths, form, out, err))
}

/// [`check`] onto any writers; gives the exit code.
///
/// # Errors
/// What the writers give.
pub fn report(
    paths: &[PathBuf],
    form: Form,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    match load(paths, Addresses::default()) {
        Ok(policy) => {
            let text = if form.json {
                format!("{:#}\n", policy_as_json(&policy))
            } else {
                summary(&policy, paths, form.colour_out)
            };
            out.write_all(text.as_bytes())?;
            Ok(0)
        }
        Err(errors) => {
            if form.json {
                let errors = findings_as_json(errors.findings());
                writeln!(out, "{:#}", json!({ "good": false, "errors": errors }))?;
            } else {
                err.write_all(errors.render(form.colour_err).as_bytes())?;
            }
            Ok(exit::USAGE)
        }
    }
}

/// The summary of a good policy.
fn summary(policy: &Policy, paths: &[PathBuf], colour: bool) -> String {
    let plan = &policy.plan;
    let Paint { bold, plain, .. } = Paint::new(colour);
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut text = format!(
        "{bold}{}: good{plain}, {}, {}\n\nlisten {}   status {}   admin {}   access log {}\n\n",
        names.join(" ").replace(char::is_control, "\u{fffd}"),
        counted(plan.routes.len(), "route"),
        counted(policy.warnings.len(), "warning"),
        plan.listen.address,
        plan.status,
        plan.admin
            .map_or_else(|| "off".to_owned(), |address| address.to_string()),
        log(plan),
    );
    let head = ["ROUTE", "PATH", "HOSTS", "ORIGINS", "VERSIONS", "UPSTREAM"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(plan.routes.iter().map(|route| row(route)));
    text.push_str(&aligned(&rows));
    let settings = settings(plan);
    if !settings.is_empty() {
        text.push_str("\nNot at their defaults:\n");
        text.push_str(&aligned(&settings));
    }
    if !policy.warnings.is_empty() {
        text.push('\n');
        text.push_str(&render_warnings(&policy.warnings, colour));
    }
    text
}

fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn log(plan: &Plan) -> String {
    let format = match plan.log.access {
        LogFormat::Off => return "off".to_owned(),
        LogFormat::Json => "json",
        LogFormat::Text => "text",
    };
    match &plan.log.file {
        Some(path) => format!("{format} to {}", path.display()),
        None => format!("{format} to standard error"),
    }
}

fn row(route: &Route) -> [String; 6] {
    let versions: Vec<_> = route
        .protocol
        .versions
        .iter()
        .map(|v| v.to_string())
        .collect();
    [
        route.name.clone(),
        route.path.clone(),
        match &route.hosts {
            Hosts::Any => "any".to_owned(),
            Hosts::Loopback => "loopback".to_owned(),
            Hosts::Named(names) => listed(names),
        },
        match &route.origins {
            Origins::None => "none".to_owned(),
            Origins::Loopback => "loopback".to_owned(),
            Origins::Named(names) => listed(names),
        },
        match route.pass {
            None => versions.join(", "),
            Some(_) => "passes through".to_owned(),
        },
        format!("{} {}", route.upstream.name, route.upstream.url()),
    ]
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(LISTED_MAX)].join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Every setting that is not at its default, with its owner; an upstream of several routes once.
fn settings(plan: &Plan) -> Vec<[String; 4]> {
    let mut lines = Vec::new();
    let mut add = |owner: String, settings: Vec<Setting>| {
        lines.extend(settings.into_iter().map(|setting| {
            let default = format!("(default {})", setting.default);
            [format!("  {owner}"), setting.key, setting.value, default]
        }));
    };
    add("gateway".to_owned(), settings_of_gateway(plan));
    for route in &plan.routes {
        add(format!("route {}", route.name), settings_of_route(route));
    }
    for upstream in upstreams(plan) {
        add(
            format!("upstream {}", upstream.name),
            settings_of_upstream(upstream),
        );
    }
    lines
}

/// The upstreams that routes lead to, by name and each once.
fn upstreams(plan: &Plan) -> Vec<&Upstream> {
    let mut upstreams: Vec<&Upstream> = plan.routes.iter().map(|route| &*route.upstream).collect();
    upstreams.sort_by(|a, b| a.name.cmp(&b.name));
    upstreams.dedup_by(|a, b| a.name == b.name);
    upstreams
}

/// The rows below each other, each column as wide as its widest cell.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn policy_as_json(policy: &Policy) -> Value {
    let plan = &policy.plan;
    let routes: Vec<_> = plan
        .routes
        .iter()
        .map(|route| route_as_json(route))
        .collect();
    let upstreams: Vec<_> = upstreams(plan)
        .into_iter()
        .map(|upstream| {
            json!({
                "name": upstream.name,
                "url": upstream.url(),
                "not_default": settings_as_json(settings_of_upstream(upstream)),
            })
        })
        .collect();
    json!({
        "good": true,
        "listen": plan.listen.address.to_string(),
        "status": plan.status.to_string(),
        "admin": plan.admin.map(|address| address.to_string()),
        "not_default": settings_as_json(settings_of_gateway(plan)),
        "routes": routes,
        "upstreams": upstreams,
        "warnings": findings_as_json(&policy.warnings),
    })
}

fn route_as_json(route: &Route) -> Value {
    let versions: Vec<_> = route.protocol.versions.iter().map(|v| v.as_str()).collect();
    json!({
        "name": route.name,
        "path": route.path,
        "hosts": match &route.hosts {
            Hosts::Any => json!("any"),
            Hosts::Loopback => json!("loopback"),
            Hosts::Named(names) => json!(names),
        },
        "origins": match &route.origins {
            Origins::None => json!("none"),
            Origins::Loopback => json!("loopback"),
            Origins::Named(names) => json!(names),
        },
        "pass": route.pass.is_some(),
        "versions": if route.pass.is_none() { versions } else { Vec::new() },
        "upstream": route.upstream.name,
        "not_default": settings_as_json(settings_of_route(route)),
    })
}

fn settings_as_json(settings: Vec<Setting>) -> Value {
    let values = settings
        .into_iter()
        .map(|setting| (setting.key, Value::String(setting.value)));
    values.collect::<Map<_, _>>().into()
}

fn findings_as_json(findings: &[Finding]) -> Value {
    let mut list = Vec::new();
    for finding in findings {
        let mut object = match &finding.origin {
            Origin::File(place) => json!({
                "file": place.source.name,
                "line": place.line,
                "column": place.column,
            }),
            Origin::Argument(name) => json!({ "argument": name }),
        };
        object["cause"] = json!(finding.cause);
        object["hint"] = json!(finding.hint);
        list.push(object);
    }
    Value::Array(list)
}
