//! Arguments, signals, exit codes; no logic.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weirgate::command::explain::Question;
use weirgate::command::pin::Wanted;
use weirgate::command::run::StartError;
use weirgate::command::{check, demo, exit, explain, pin, run, schema, test, wants_colour};
use weirgate::policy::case::Given;
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
    /// Say what a policy makes of one request, stage by stage.
    Explain(Explain),
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

/// The request may come from a file or from flags.
#[derive(clap::Args)]
struct Explain {
    /// A policy file, or a directory of them; may be given more than once.
    #[arg(long, value_name = "PATH", required = true)]
    policy: Vec<PathBuf>,
    /// A YAML or JSON file with the request and who calls.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "prompt", "uri", "method"])]
    request: Option<PathBuf>,
    /// The tool that is called.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prompt", "uri"])]
    tool: Option<String>,
    /// The prompt that is asked for.
    #[arg(long, value_name = "NAME", conflicts_with = "uri")]
    prompt: Option<String>,
    /// The resource that is read.
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// Another method.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tool", "prompt", "uri"])]
    method: Option<String>,
    /// The arguments, as a JSON object.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The route, where the policy has more than one.
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The protocol version that the client speaks.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The address that it comes from.
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,
    /// A JSON file with the server's tools, for their argument headers.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    fn question(self) -> Question {
        let named = [
            (self.tool, "tools/call"),
            (self.prompt, "prompts/get"),
            (self.uri, "resources/read"),
        ];
        let mut given = Given::default();
        for (name, method) in named {
            if name.is_some() {
                (given.name, given.method) = (name, method.to_owned());
            }
        }
        if let Some(method) = self.method {
            given.method = method;
        }
        if let Some(source) = self.source {
            given.source = source;
        }
        (given.route, given.version) = (self.route, self.version);
        Question {
            policy: self.policy,
            request: self.request,
            given,
            arguments: self.arguments,
            tools: self.tools,
            json: self.json,
        }
    }
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
        Command::Explain(explain) => explain::explain(&explain.question()),
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
