//! Any bytes as a message, in any pieces: the verdict and the values are those of the oracle.
#![no_main]
// The checks are shared with the tests, which use all of them.
#![allow(dead_code)]

#[path = "../scanner/check.rs"]
mod check;
#[path = "../scanner/documents.rs"]
mod documents;
#[path = "../scanner/oracle.rs"]
mod oracle;

use weirgate::protocol::frame::Bounds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::frame(
        bytes,
        &Bounds::default(),
        bytes.get(..16).unwrap_or_default(),
    );
});
