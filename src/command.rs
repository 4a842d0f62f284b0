//! What the binary can be asked to do.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

pub mod check;
pub mod demo;
pub mod explain;
pub mod pin;
pub mod run;
pub mod schema;
pub mod test;
mod trial;

/// Whether what is written to `stream` may have colour: on a terminal, unless `NO_COLOR` is set.
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// As JSON instead of text.
    pub json: bool,
    /// With colour on standard output.
    pub colour_out: bool,
    /// With colour on standard error.
    pub colour_err: bool,
}

/// Has `report` write to standard output and standard error; it gives the exit code.
fn reported(
    json: bool,
    report: impl FnOnce(Form, &mut dyn Write, &mut dyn Write) -> io::Result<u8>,
) -> ExitCode {
    let (out, err) = (io::stdout(), io::stderr());
    let form = Form {
        json,
        colour_out: wants_colour(&out),
        colour_err: wants_colour(&err),
    };
    let code = match report(form, &mut out.lock(), &mut err.lock()) {
        Ok(code) => code,
        // `check | head` is no fault.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => 0,
        Err(_) => exit::SOFTWARE,
    };
    ExitCode::from(code)
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
