//! The mechanical rules of the house, read from the sources. Every rule is tried on a made-up
//! piece of code as well, so that one that cannot fail is noticed.

// This whole crate is a test; clippy's own exemption reaches only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use source::Source;

#[path = "tidy/arrow.rs"]
mod arrow;
#[path = "tidy/manifest.rs"]
mod manifest;
#[path = "tidy/rule.rs"]
mod rule;
#[path = "tidy/source.rs"]
mod source;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    source::read_all(root(), "src")
}

fn sources_and_tests() -> Vec<Source> {
    [sources(), source::read_all(root(), "tests")]
        .into_iter()
        .flatten()
        .collect()
}

/// Fails with all findings of a rule over these files.
fn holds(sources: &[Source], rule: fn(&Source) -> Vec<String>) {
    let findings: Vec<String> = sources.iter().flat_map(rule).collect();
    none(&findings);
}

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn imports_point_downwards() {
    none(&arrow::upward(&sources()));
}

#[test]
fn statuses_and_codes_stand_in_the_protocol_alone() {
    holds(&sources(), rule::wire_literals);
}

#[test]
fn nothing_panics_on_purpose_outside_of_tests_and_start_up() {
    holds(&sources(), rule::panics);
}

#[test]
fn functions_are_short() {
    holds(&sources_and_tests(), rule::long_functions);
}

#[test]
fn files_are_short() {
    holds(&sources_and_tests(), rule::long_file);
}

#[test]
fn a_module_has_the_name_of_its_file() {
    holds(&sources_and_tests(), rule::module_file);
}

#[test]
fn nothing_is_left_for_later() {
    // The rule itself has to say what it looks for.
    let others: Vec<Source> = sources_and_tests()
        .into_iter()
        .filter(|source| !source.path.starts_with("tests/tidy"))
        .collect();
    holds(&others, rule::left_for_later);
}

#[test]
fn types_are_named_for_what_they_are() {
    holds(&sources_and_tests(), rule::vague_types);
}

#[test]
fn nothing_is_named_get() {
    // What implements the traits of rmcp has to take their names.
    let ours: Vec<Source> = sources_and_tests()
        .into_iter()
        .filter(|source| !source.path.starts_with("tests/interop/rmcp"))
        .collect();
    holds(&ours, rule::getters);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    none(&manifest::without_reason(&manifest));
}

#[test]
fn the_top_level_holds_what_it_should() {
    let names: BTreeSet<String> = fs::read_dir(root())
        .expect("the root")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    none(&manifest::strangers(&names));
}

#[test]
fn there_is_something_to_read() {
    assert!(sources().iter().any(|source| source.path == "src/lib.rs"));
    let tests = sources_and_tests();
    assert!(tests.iter().any(|source| source.path == "tests/tidy.rs"));
    assert!(
        tests
            .iter()
            .any(|source| source.path == "tests/gateway/main.rs")
    );
}
