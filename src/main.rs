//! Arguments, signals, exit codes; no logic.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weirgate::command::pin::Wanted;
use weirgate::command::run::StartError;
use weirgate::command::{check, demo, exit, pin, run, schema, test, wants_colour};
use weirgate::policy::file::{self, Addresses};
use weirgate::policy::finding::Errors;
use weirgate::policy::plan::Plan;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A protocol-aware reverse proxy for the Model Context Protocol.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    Run {
        /// A policy file, or a directory of them; may be given more than once.
        #[arg(long, value_name = "PATH")]
        policy: Vec<PathBuf>,
        /// The one server to stand before, where there is no policy.
        #[arg(long, value_name = "URL", conflicts_with = "policy")]
        upstream: Option<String>,
        /// The address that clients connect to.
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
        /// The address of /healthz and /readyz.
        #[arg(long, value_name = "ADDR")]
        status: Option<SocketAddr>,
        /// The address where what the gateway remembers can be looked at and purged.
        #[arg(long, value_name = "ADDR")]
        admin: Option<SocketAddr>,
    },
    /// Try it: a small MCP server, the gateway before it, and three requests to send.
    Demo {
        /// The address of the gateway.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
    },
    /// Write the digests of an upstream's tools to a lock file, or show what has changed since.
    Pin {
        /// Policy files, or directories of them.
        #[arg(
            value_name = "PATH",
            required_unless_present = "upstream",
            conflicts_with = "upstream"
        )]
        paths: Vec<PathBuf>,
        /// The route of them whose upstream is meant.
        #[arg(long, value_name = "NAME", conflicts_with = "upstream")]
        route: Option<String>,
        /// The server, where there is no policy.
        #[arg(long, value_name = "URL")]
        upstream: Option<String>,
        /// The lock file; without it, the one that the route names, or else standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Compare only, and end with 1 where something differs.
        #[arg(long)]
        check: bool,
    },
    /// Check policy files, and say what they come to.
    Check {
        /// Policy files, or directories of them.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Write JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run the cases that stand beside policies, and show what differs.
    Test {
        /// Files with cases (`*.test.yaml`), policies that have one beside them, or directories.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Write JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of policy files, for editors.
    Schema,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { 0 };
            // Where even this cannot be written, the exit code still says it.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match arguments.command {
        Command::Check { paths, json } => check::check(&paths, json),
        Command::Test { paths, json } => test::test(&paths, json),
        Command::Schema => schema::print(),
        Command::Pin {
            paths,
            route,
            upstream,
            out,
            check,
        } => pin::pin(&Wanted {
            paths,
            route,
            upstream,
            out,
            check,
        }),
        Command::Demo { listen } => ended(demo::demo(listen)),
        Command::Run {
            policy,
            upstream,
            listen,
            status,
            admin,
        } => {
            let addresses = Addresses {
                listen,
                status,
                admin,
            };
            let loaded = match upstream {
                Some(url) => Plan::for_single_upstream(&url, addresses),
                None if policy.is_empty() => {
                    say("nothing to run: give --policy PATH or --upstream URL");
                    return ExitCode::from(exit::USAGE);
                }
                None => file::load(&policy, addresses),
            };
            match loaded {
                Ok(policy) => ended(run::run(&policy)),
                Err(errors) => refused(&errors),
            }
        }
    }
}

fn ended(result: Result<(), StartError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(exit::SOFTWARE)
        }
    }
}

fn refused(errors: &Errors) -> ExitCode {
    say(errors.render(wants_colour(&std::io::stderr())).trim_end());
    ExitCode::from(exit::USAGE)
}

fn say(text: &str) {
    // There is nowhere else to complain to.
    let _ = writeln!(std::io::stderr(), "{text}");
}
