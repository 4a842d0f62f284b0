//! Imports point downwards: `command, main → admin, gateway → net, identity, observe → policy →
//! protocol`.

use std::collections::BTreeSet;

use crate::source::Source;

/// The layers from the ground up.
const LAYERS: [&[&str]; 5] = [
    &["protocol"],
    &["policy"],
    &["net", "identity", "observe"],
    &["gateway", "admin"],
    &["command", "main"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&module))
}

/// Every import that points upwards, and every pair of neighbours that import each other.
pub(crate) fn upward(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut sideways = BTreeSet::new();
    for source in sources {
        let module = source.module();
        let Some(own) = module.first() else { continue };
        let Some(from) = layer(own) else {
            findings.push(format!("{}: the module has no layer", source.path));
            continue;
        };
        for (line, target) in targets(source) {
            let Some(to) = layer(&target) else { continue };
            if to > from {
                findings.push(format!("{}:{line}: {own} imports {target}", source.path));
            } else if to == from && target != *own {
                sideways.insert((own.to_string(), target));
            }
        }
    }
    for (own, target) in &sideways {
        if own < target && sideways.contains(&(target.clone(), own.clone())) {
            findings.push(format!("{own} and {target} import each other"));
        }
    }
    findings
}

/// The top modules that a file names, each with its line.
fn targets(source: &Source) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (at, _) in source.code.match_indices("crate::") {
        let is_word = source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let dollar = source.code[..at].ends_with('$');
        if !is_word || dollar {
            let line = line_of(source, at);
            let behind = &source.code[at + "crate::".len()..];
            targets.extend(names(behind).into_iter().map(|name| (line, name)));
        }
    }
    for (at, supers, behind) in climbs(&source.code) {
        let line = line_of(source, at);
        // The tests at a file's foot are a module of their own.
        let depth = source.module().len() + usize::from(source.is_test(line));
        if supers >= depth {
            targets.extend(names(behind).into_iter().map(|name| (line, name)));
        }
    }
    targets
}

/// Every chain of `super::`, with its place, its length and what stands behind it.
fn climbs(code: &str) -> Vec<(usize, usize, &str)> {
    let mut climbs = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].find("super::") {
        let start = at + found;
        let mut behind = &code[start..];
        let mut supers = 0;
        while let Some(rest) = behind.strip_prefix("super::") {
            behind = rest;
            supers += 1;
        }
        climbs.push((start, supers, behind));
        at = code.len() - behind.len();
    }
    climbs
}

/// The first names of a path or of a group of paths.
fn names(behind: &str) -> Vec<String> {
    let Some(group) = behind.strip_prefix('{') else {
        return vec![word(behind)];
    };
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut part = String::new();
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(word(std::mem::take(&mut part).trim())),
            _ => part.push(character),
        }
    }
    names.push(word(part.trim()));
    names.retain(|name| !name.is_empty());
    names
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

fn line_of(source: &Source, at: usize) -> usize {
    source.code[..at].matches('\n').count() + 1
}

#[test]
fn an_upward_arrow_is_found_in_every_form() {
    for (path, text) in [
        ("src/protocol/frame.rs", "use crate::policy::plan::Plan;"),
        (
            "src/policy.rs",
            "use crate::{\n    protocol::x,\n    gateway::{a, b},\n};",
        ),
        ("src/net/tls.rs", "fn f() { crate::gateway::run() }"),
        ("src/observe/log.rs", "use super::super::admin::X;"),
        ("src/policy/plan.rs", "use super::super::{protocol, net};"),
        ("src/protocol.rs", "use super::policy;"),
        ("src/gateway/a.rs", "pub(in crate::command) fn f() {}"),
        ("src/somewhere.rs", ""),
    ] {
        let findings = upward(&[Source::new(path, text)]);
        assert_eq!(findings.len(), 1, "{path}: {findings:?}");
    }
    let pair = [
        Source::new("src/net.rs", "use crate::observe::Log;"),
        Source::new("src/observe/log.rs", "use crate::net::X;"),
    ];
    assert_eq!(upward(&pair), ["net and observe import each other"]);
}

#[test]
fn a_downward_arrow_is_none() {
    for (path, text) in [
        (
            "src/gateway/place.rs",
            "use crate::{net::A, policy::B, protocol::C, gateway::D};",
        ),
        ("src/gateway/a/b.rs", "use super::super::pipeline;"),
        (
            "src/policy/plan.rs",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n    use super::super::key;\n}",
        ),
        (
            "src/protocol/frame.rs",
            "// use crate::policy::plan;\nlet a = \"crate::policy\";",
        ),
        ("src/net.rs", "use crate::observe::Log;"),
        ("src/lib.rs", "pub mod gateway;"),
        ("src/main.rs", "use weirgate::command;"),
    ] {
        let findings = upward(&[Source::new(path, text)]);
        assert!(findings.is_empty(), "{path}: {findings:?}");
    }
}
