//! Clients and a server for `compare`: loads a proxy with one fixed request, reads every answer
//! whole and compares it with the expected one.
//!
//! It exists because the common generators only keep connections busy (a closed loop), where
//! latency says how many connections there are and little about the proxy. With `--rate` requests
//! come at random (Poisson) moments instead, and an answer that comes after the next request was
//! due makes that request late: its wait is counted, not hidden.

// A tool prints, and may panic where it is at fault itself.
#![allow(clippy::print_stdout, clippy::expect_used)]

mod calls;
mod chunked;
mod events;
mod hold;
mod http1;
mod http2;
mod plan;
mod seen;
mod serve;
mod upload;
mod wire;

use std::process::ExitCode;

const USAGE: &str = "usage:
  load calls  TARGET [--http2 yes] [--numbered yes] --connections N (--seconds S [--rate PER_SECOND] | --requests N)
  load upload TARGET --fill BYTES --connections N (--seconds S | --requests N)
  load events TARGET --connections N
  load hold   TARGET --connections N
  load serve
TARGET: --address HOST:PORT --headers FILE --body FILE --expect FILE [--tls CERTIFICATE]
where any number is right for an @ in what is expected

calls   sends the request over and over; over HTTP/2, --streams N at a time on each connection;
        with --numbered over HTTP/1.1, with the number of the request for every @ of the body
upload  the same, with every @ of the body replaced by BYTES of text
events  sends it once on each connection and reads the stream of events to its end
hold    sends it once on each connection, says so once each stream has had its first event, and
        holds the streams until its standard input ends
serve   is the server for upload, events and hold; says first where it listens";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = match command.as_str() {
        "serve" => serve::serve(),
        "calls" => plan::Plan::read(arguments).and_then(|plan| calls::run(&plan)),
        "upload" => plan::Plan::read(arguments).and_then(|plan| upload::run(&plan)),
        "events" => plan::Plan::read(arguments).and_then(|plan| events::run(&plan)),
        "hold" => plan::Plan::read(arguments).and_then(|plan| hold::run(&plan)),
        _ => Err(format!("unknown command {command:?}\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("load: {message}");
            ExitCode::from(64)
        }
    }
}
