//! The words of the protocol: pure functions on bytes, without I/O, clock or runtime.

pub mod frame;
pub mod lexer;
