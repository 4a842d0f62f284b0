//! What `Cargo.toml` and the top level must look like.

use std::collections::BTreeSet;

/// The entries of the top level; dot-files come beside them, and what builds leave behind.
const TOP_LEVEL: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "LICENSE",
    "src",
    "policies",
    "tests",
    "deploy",
    "target",
];

/// Entries of the top level that the design does not have.
pub(crate) fn strangers(names: &BTreeSet<String>) -> Vec<String> {
    names
        .iter()
        .filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str()))
        .map(|name| format!("{name} has no place at the top level"))
        .collect()
}

/// Dependencies without a comment on the line above.
pub(crate) fn without_reason(manifest: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_dependencies = false;
    let mut before = "";
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            in_dependencies = table.ends_with("dependencies");
            if table.contains("dependencies.") && !before.starts_with('#') {
                findings.push(format!("[{table}] has no reason"));
            }
        } else if in_dependencies && line.contains('=') && !line.starts_with('#') {
            // A continued list of features belongs to the name above.
            let name = line.split(['=', ' ']).next().unwrap_or_default();
            if !before.starts_with('#') {
                findings.push(format!("{name} has no reason"));
            }
        }
        before = line;
    }
    findings
}

#[test]
fn a_dependency_without_reason_is_found() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# Why.\na = \"1\"\nb = { version = \"1\" }\n\n[dev-dependencies]\nc = \"1\"\n[target.x.dependencies]\nd = \"1\"\n[dependencies.e]\nversion = \"1\"\n[profile.release]\nlto = true\n";
    let findings = without_reason(manifest);
    assert_eq!(
        findings,
        ["b", "c", "d", "[dependencies.e]"].map(|name| format!("{name} has no reason"))
    );
}

#[test]
fn a_stranger_at_the_top_level_is_found() {
    let names = ["src", ".ci", "benches", "Cargo.toml", "docs"].map(str::to_owned);
    let findings = strangers(&names.into_iter().collect());
    assert_eq!(findings.len(), 2, "{findings:?}");
}
