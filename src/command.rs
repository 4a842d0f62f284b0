//! What the binary can be asked to do.

pub mod check;
pub mod demo;
pub mod run;

/// Exit codes, as the README lists them.
pub mod exit {
    /// A policy or usage error.
    pub const USAGE: u8 = 64;
    /// What should not have happened: no socket, no thread.
    pub const SOFTWARE: u8 = 70;
}
