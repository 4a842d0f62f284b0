//! The scanner against serde_json: documents right, nearly right and wrong, in one piece, cut
//! in two at every byte, and in many pieces. The verdict must be serde_json's, except where
//! [`STRICTER`] says otherwise, and so must every value.

// What a test calls may panic, and the list of where we are stricter is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "scanner/check.rs"]
mod check;
#[path = "scanner/documents.rs"]
mod documents;
#[path = "scanner/oracle.rs"]
mod oracle;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use weirgate::protocol::frame::{Bounds, FlawKind};

use documents::{Tape, document};

/// Where we are stricter than serde_json, which takes all of these for JSON.
const STRICTER: [(FlawKind, &str); 15] = [
    (
        FlawKind::RootArray,
        "an array at the root: a batch, refused in every version",
    ),
    (
        FlawKind::RootScalar,
        "anything else than an object at the root",
    ),
    (FlawKind::TooDeep, "more levels than `depth_max`"),
    (
        FlawKind::RepeatedKey,
        "a repeated key in the message, params, _meta, or where a path leads",
    ),
    (
        FlawKind::CaseVariant,
        "a known key of the message, params or _meta in another case",
    ),
    (
        FlawKind::TooManyKeys,
        "more keys than `keys_max` where keys are remembered",
    ),
    (
        FlawKind::TooLong,
        "an id, method, name or remembered key over its bound",
    ),
    (
        FlawKind::LoneSurrogate,
        "half a surrogate pair in a text that decides, or in a remembered key",
    ),
    (FlawKind::Version, "`jsonrpc` absent or not \"2.0\""),
    (
        FlawKind::IdType,
        "an id that is neither string nor integer, or none in a response",
    ),
    (
        FlawKind::MethodMissing,
        "neither method nor result nor error",
    ),
    (FlawKind::MethodType, "a method that is no string"),
    (
        FlawKind::ParamsType,
        "params that are neither object nor null",
    ),
    (
        FlawKind::MethodAndResult,
        "a method beside a result or error",
    ),
    (FlawKind::ResultAndError, "a result beside an error"),
];

/// Bounds that documents of a few hundred bytes can exceed.
const TIGHT: Bounds = Bounds {
    depth_max: 7,
    keys_max: 6,
    method_bytes_max: 24,
    name_bytes_max: 48,
    id_bytes_max: 16,
};

#[test]
fn every_document_is_judged_as_serde_json_judges_it_however_it_is_cut() {
    let seen = RefCell::new(BTreeMap::<&str, usize>::new());
    run(2000, |tape| {
        let bounds = if tape.first().is_some_and(|byte| byte % 2 == 1) {
            TIGHT
        } else {
            Bounds::default()
        };
        let mut tape = Tape(tape.get(1..).unwrap_or_default());
        let document = document(&mut tape);
        let verdict = check::frame(&document, &bounds, tape.0);
        *seen.borrow_mut().entry(verdict).or_default() += 1;
    });
    let seen = seen.into_inner();
    println!("verdicts: {seen:?}\nstricter than serde_json:");
    for (kind, what) in STRICTER {
        let count = seen.get(kind.as_str()).copied().unwrap_or_default();
        println!("  {:18} {count:5}  {what}", kind.as_str());
        assert!(count > 0, "no document was refused as {kind:?}");
    }
    let listed = |kind: &FlawKind| STRICTER.iter().any(|(stricter, _)| stricter == kind);
    assert_eq!(
        FlawKind::ALL.iter().filter(|kind| listed(kind)).count(),
        FlawKind::ALL.len() - 8
    );
    assert!(seen["message"] > 400 && seen["not JSON"] > 200, "{seen:?}");
}

#[test]
fn the_tokens_are_those_of_the_text_however_it_is_cut() {
    run(1000, |tape| {
        let mut tape = Tape(tape);
        let document = document(&mut tape);
        check::lexer(&document, tape.0);
    });
}

#[test]
fn hardly_any_bytes_are_json() {
    let mut runner = runner(1500);
    let bytes = vec(any::<u8>(), 0..80);
    runner
        .run(&bytes, |bytes| {
            check::frame(&bytes, &Bounds::default(), &[]);
            check::lexer(&bytes, &[]);
            Ok(())
        })
        .unwrap();
}

/// Runs the check on tapes of random bytes, the same ones every time.
fn run(cases: u32, check: impl Fn(&[u8])) {
    runner(cases)
        .run(&vec(any::<u8>(), 0..400), |tape| {
            check(&tape);
            Ok(())
        })
        .unwrap();
}

fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}
