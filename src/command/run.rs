//! `weirgate run`: from a plan to a gateway at work, until it is told to end.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::admin::{self, Readiness};
use crate::gateway::pipeline::Gateway;
use crate::net::listener;
use crate::observe::{Level, Log};
use crate::policy::file::Policy;
use crate::policy::plan::Plan;

/// How long the last lines of the log may take.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Why the gateway could not start.
#[derive(Debug)]
pub struct StartError {
    /// What was attempted.
    pub attempted: String,
    /// Why it failed.
    pub cause: io::Error,
    /// What to change.
    pub hint: &'static str,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {}\n  hint: {}",
            self.attempted, self.cause, self.hint
        )
    }
}

/// A runtime for this machine: one thread where one processor is to be had, because then handing
/// work between threads only costs.
///
/// # Errors
/// No thread or no event queue can be had.
pub fn runtime() -> io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors == 1 {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread()
            .worker_threads(processors)
            .enable_all()
            .build()
    }
}

/// Runs the gateway that `policy` describes until the process is told to end, then leaves nothing
/// unwritten.
///
/// # Errors
/// What kept it from starting.
pub fn run(policy: &Policy) -> Result<(), StartError> {
    let plan = &policy.plan;
    let log = start_log(plan)?;
    log.take_panics();
    for warning in &policy.warnings {
        log.event(
            Level::Warn,
            "policy",
            &[
                ("place", &warning.origin),
                ("cause", &warning.cause),
                ("hint", &warning.hint),
            ],
        );
    }
    let runtime = runtime().map_err(|cause| StartError {
        attempted: "cannot start the runtime".into(),
        cause,
        hint: "see the limits on threads and open files of this process",
    })?;
    let ended = runtime.block_on(serve(plan, &log));
    log.shut_down();
    // Exchanges that are still open are dropped here, and close their records.
    runtime.shutdown_timeout(FLUSH_TIME);
    log.flush(FLUSH_TIME);
    ended
}

fn start_log(plan: &Plan) -> Result<Log, StartError> {
    Log::start(&plan.log).map_err(|cause| StartError {
        attempted: match &plan.log.file {
            Some(path) => format!("cannot write the access log to {}", path.display()),
            None => "cannot start the log".into(),
        },
        cause,
        hint: "name a file that this process may append to in log.file, or leave the key out",
    })
}

async fn serve(plan: &Plan, log: &Log) -> Result<(), StartError> {
    let readiness = Readiness::starting();
    let started = start(plan, log, readiness.clone()).await?;
    readiness.ready();
    let line = started.describe(plan);
    log.event(Level::Info, &line, &[]);
    if plan.log.file.is_some() {
        // Whoever starts the process reads the addresses from standard error.
        let _ = writeln!(io::stderr(), "{line}");
    }
    let signal = terminated().await.map_err(|cause| StartError {
        attempted: "cannot listen for signals".into(),
        cause,
        hint: "see the limits of this process",
    })?;
    readiness.draining();
    log.event(Level::Info, "ending", &[("signal", &signal)]);
    Ok(())
}

/// A gateway at work: the addresses that it really listens on.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where the probes are served.
    pub status: SocketAddr,
}

impl Started {
    /// The line that tells them, with the routes of `plan`.
    fn describe(&self, plan: &Plan) -> String {
        let mut line = format!("weirgate listening on http://{}", self.listen);
        for route in &plan.routes {
            // Writing into a string cannot fail.
            let _ = write!(line, ", {} -> {}", route.path, route.upstream.name);
        }
        let _ = write!(line, ", status on http://{}", self.status);
        line
    }
}

/// Starts the gateway and the status listener on the current runtime.
///
/// # Errors
/// An address that cannot be bound.
pub async fn start(plan: &Plan, log: &Log, readiness: Readiness) -> Result<Started, StartError> {
    let (listener, listen) = bind(plan.listen.address, "listen").await?;
    let (probes, status) = bind(plan.status, "status").await?;
    let gateway = Gateway::start(plan, log.clone()).map_err(|cause| StartError {
        attempted: "cannot prepare the routes".into(),
        cause: io::Error::other(cause),
        hint: "check the urls of the upstreams, and whether this system has randomness to give",
    })?;
    tokio::spawn(admin::serve(probes, readiness, log.clone()));
    tokio::spawn(listener::serve(listener, plan.listen.clone(), gateway));
    Ok(Started { listen, status })
}

async fn bind(
    address: SocketAddr,
    key: &'static str,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = match TcpListener::bind(address).await {
        Ok(listener) => listener.local_addr().map(|bound| (listener, bound)),
        Err(cause) => Err(cause),
    };
    bound.map_err(|cause| StartError {
        attempted: format!("cannot bind the {key} address {address}"),
        cause,
        hint: match key {
            "listen" => "name a free address in listen.address or --listen; port 0 takes any",
            _ => "name a free address in status.address or --status; port 0 takes any",
        },
    })
}

/// Waits for the signals by which a process is told to end, and names the one that came.
///
/// # Errors
/// Signals cannot be listened for.
pub async fn terminated() -> io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
