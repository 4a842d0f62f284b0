//! What the binary can be asked to do.

use std::io::IsTerminal;

pub mod check;
pub mod demo;
pub mod pin;
pub mod run;
pub mod schema;

/// Whether what is written to `stream` may have colour: on a terminal, unless `NO_COLOR` is set.
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Exit codes, as the README lists them.
pub mod exit {
    /// What was compared differs.
    pub const DIFFERENT: u8 = 1;
    /// A policy or usage error.
    pub const USAGE: u8 = 64;
    /// What should not have happened: no socket, no thread, nowhere to write to.
    pub const SOFTWARE: u8 = 70;
}
