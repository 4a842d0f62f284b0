//! `weirgate run`: from a plan to a gateway at work, until it is told to end.

mod inspected;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::status::Readiness;
use crate::admin::{inspection, status};
use crate::gateway::Gateway;
use crate::net::descriptor::Descriptors;
use crate::net::listener::{self, Phase, Shared};
use crate::net::reload::{self, Renewal};
use crate::net::tls::Acceptor;
use crate::observe::{Level, Log};
use crate::policy::file::Policy;
use crate::policy::plan::{Listen, Plan, Shutdown};

/// How long the last lines of the log may take.
const FLUSH_TIME: Duration = Duration::from_secs(2);
/// How long it may take to tell clients that what they wait for is broken off.
const BREAK_OFF_TIME: Duration = Duration::from_secs(1);

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
    let mut signals = Signals::listen()?;
    let readiness = Readiness::starting();
    let started = start(plan, log, readiness.clone()).await?;
    readiness.ready();
    let line = started.describe(plan);
    log.event(Level::Info, &line, &[]);
    if plan.log.file.is_some() {
        // Whoever starts the process reads the addresses from standard error.
        let _ = writeln!(io::stderr(), "{line}");
    }
    let signal = signals.next().await;
    readiness.draining();
    log.event(Level::Info, "ending", &[("signal", &signal)]);
    tokio::select! {
        () = started.drain(plan.shutdown, signal) => {}
        again = signals.next() => log.event(Level::Warn, "ending at once", &[("signal", &again)]),
    }
    let left = started.tasks.len();
    if left > 0 {
        log.event(Level::Warn, "breaking off", &[("connections", &left)]);
    }
    log.shut_down();
    started.break_off().await;
    Ok(())
}

/// A gateway at work.
#[derive(Debug)]
pub struct Started {
    /// Where clients connect; the address that it really listens on.
    pub listen: SocketAddr,
    /// Where the probes are served.
    pub status: SocketAddr,
    /// Where what the gateway remembers is shown, if anywhere.
    pub admin: Option<SocketAddr>,
    phase: watch::Sender<Phase>,
    drain: CancellationToken,
    tasks: TaskTracker,
}

impl Started {
    /// The line that tells them, with the routes of `plan`.
    fn describe(&self, plan: &Plan) -> String {
        let scheme = match plan.listen.tls {
            Some(_) => "https",
            None => "http",
        };
        let mut line = format!("weirgate listening on {scheme}://{}", self.listen);
        for route in &plan.routes {
            // Writing into a string cannot fail.
            let _ = write!(line, ", {} -> {}", route.path, route.upstream.name);
        }
        let _ = write!(line, ", status on http://{}", self.status);
        if let Some(admin) = self.admin {
            let _ = write!(line, ", admin on http://{admin}");
        }
        line
    }

    /// Takes no new work, and finishes what there is within the time that `shutdown` grants. Whoever
    /// sends work here learns that it should not from the probes, and needs time for that; nobody
    /// does who stands at the keyboard.
    async fn drain(&self, shutdown: Shutdown, signal: &'static str) {
        if signal == TERMINATE {
            sleep(shutdown.notice).await;
        }
        self.phase.send_replace(Phase::Draining);
        self.drain.cancel();
        self.tasks.close();
        // What is left then is broken off.
        let _ = timeout(shutdown.timeout, self.tasks.wait()).await;
    }

    /// Breaks off what is still open, so that no client takes it for a good end.
    async fn break_off(&self) {
        self.phase.send_replace(Phase::Ending);
        self.tasks.close();
        // Only a client that takes nothing any more is not done by then.
        let _ = timeout(BREAK_OFF_TIME, self.tasks.wait()).await;
    }
}

/// Starts the gateway and the listeners beside it on the current runtime.
///
/// # Errors
/// An address that cannot be bound.
pub async fn start(plan: &Plan, log: &Log, readiness: Readiness) -> Result<Started, StartError> {
    let (listener, listen) = bind(plan.listen.address, "listen").await?;
    let (probes, status) = bind(plan.status, "status").await?;
    let admin = match plan.admin {
        Some(address) => Some(bind(address, "admin").await?),
        None => None,
    };
    let drain = CancellationToken::new();
    let gateway = Gateway::start(plan, log.clone(), drain.clone());
    let (gateway, mut renewals) = gateway.map_err(|cause| StartError {
        attempted: "cannot prepare the routes".into(),
        cause: io::Error::other(cause),
        hint: "check the urls of the upstreams, and whether this system has randomness to give",
    })?;
    let acceptor = acceptor(plan, &mut renewals)?;
    reload::start(renewals, log.clone());
    let descriptors = descriptors(&plan.listen, log);
    let probing = status::serve(probes, readiness, descriptors.clone(), log.clone());
    tokio::spawn(probing);
    let admin = admin.map(|(listener, address)| {
        let inspected = Arc::new(gateway.clone());
        let descriptors = descriptors.clone();
        tokio::spawn(inspection::serve(
            listener,
            inspected,
            descriptors,
            log.clone(),
        ));
        address
    });
    let (phase, phases) = watch::channel(Phase::Serving);
    let tasks = TaskTracker::new();
    let shared = Shared {
        phases,
        tasks: tasks.clone(),
        descriptors,
    };
    let serving = listener::serve(listener, plan.listen.clone(), acceptor, gateway, shared);
    tasks.spawn(serving);
    Ok(Started {
        listen,
        status,
        admin,
        phase,
        drain,
        tasks,
    })
}

/// What clients speak TLS with, if the policy says so; how it follows its files joins `renewals`.
fn acceptor(plan: &Plan, renewals: &mut Vec<Renewal>) -> Result<Option<Acceptor>, StartError> {
    let Some(tls) = &plan.listen.tls else {
        return Ok(None);
    };
    let (acceptor, renewal) = Acceptor::new(tls).map_err(|cause| StartError {
        attempted: "cannot set up TLS for clients".into(),
        cause: io::Error::other(cause),
        hint: "see the certificates in listen.tls, and whether this system has randomness to give",
    })?;
    renewals.push(renewal);
    Ok(Some(acceptor))
}

/// Raises the limit of open files, and warns where it is too low for what the policy allows.
fn descriptors(listen: &Listen, log: &Log) -> Descriptors {
    let descriptors = Descriptors::raise().unwrap_or_else(|error| {
        let message = "the limit of open files cannot be raised";
        log.event(Level::Warn, message, &[("error", &error)]);
        Descriptors::default()
    });
    let needed = Descriptors::needed(listen);
    if let Some(limit) = descriptors.max().filter(|limit| *limit < needed) {
        let hint = "raise the hard limit (ulimit -Hn), or lower listen.connections_max: each \
                    connection of a client may need one to an upstream";
        log.event(
            Level::Warn,
            "the limit of open files is low",
            &[("limit", &limit), ("needed", &needed), ("hint", &hint)],
        );
    }
    descriptors
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
            "status" => "name a free address in status.address or --status; port 0 takes any",
            _ => {
                "name a free address in admin.address or --admin; port 0 takes any, and \
                 `admin: { address: off }` needs none"
            }
        },
    })
}

/// The signals by which a process is told to end.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// What an orchestrator sends, which also sends the work.
const TERMINATE: &str = "SIGTERM";
const INTERRUPT: &str = "SIGINT";

impl Signals {
    /// Listens for them from now on; until then they end the process at once.
    ///
    /// # Errors
    /// They cannot be listened for.
    pub fn listen() -> Result<Signals, StartError> {
        let listening = signal(SignalKind::terminate()).and_then(|terminate| {
            Ok(Signals {
                terminate,
                interrupt: signal(SignalKind::interrupt())?,
            })
        });
        listening.map_err(|cause| StartError {
            attempted: "cannot listen for signals".into(),
            cause,
            hint: "see the limits of this process",
        })
    }

    /// Waits for the next of them, and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => TERMINATE,
            _ = self.interrupt.recv() => INTERRUPT,
        }
    }
}
