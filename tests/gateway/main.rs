//! The gateway from outside: real sockets, the real binary, an upstream that keeps every byte.
//!
//! A test asserts the cause and not only a status: what the upstream received, how often it ran,
//! what the error names, what the log says, and that the next good call works.

// This whole crate is a test; clippy's own exemption reaches only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// How long something took is printed and never asserted.
#![allow(clippy::print_stdout)]

mod admin;
mod catalog;
mod cut;
mod ending;
mod exchanges;
mod faults;
mod harness;
mod headers;
mod hosts;
mod http2;
mod hygiene;
mod limits;
mod memory;
mod names;
mod observation;
mod overload;
mod pin;
mod placing;
mod proxying;
mod running;
mod streams;
mod strict;
mod taking;
mod tls;
