//! Any bytes, in any pieces: the lexer says what serde_json says, and always the same.
#![no_main]
// The checks are shared with the tests, which use all of them.
#![allow(dead_code)]

#[path = "../scanner/check.rs"]
mod check;
#[path = "../scanner/documents.rs"]
mod documents;
#[path = "../scanner/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::lexer(bytes, bytes.get(..16).unwrap_or_default());
});
