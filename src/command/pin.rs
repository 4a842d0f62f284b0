//! `weirgate pin`: writes the lock file that a route's `pin` names, from what the upstream lists now,
//! and shows what has changed since it was last written.

mod client;
mod tools;

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::{exit, run, wants_colour};
use crate::policy::file::{Addresses, load_to_pin};
use crate::policy::finding::{Errors, Flaw};
use crate::policy::pin::{Difference, Lock};
use crate::policy::plan::{Plan, Route, Upstream};

/// What is to be pinned, and where.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Policy files, or directories of them.
    pub paths: Vec<PathBuf>,
    /// The route of them; it need not be named where there is one only.
    pub route: Option<String>,
    /// The URL of a server, in place of a policy.
    pub upstream: Option<String>,
    /// The lock file; without it, the one that the route names, or else standard output.
    pub out: Option<PathBuf>,
    /// Compare only.
    pub check: bool,
}

/// Lists the tools of an upstream and writes them to a lock file, or with `check` compares them with
/// one. Differences go to standard output. Ends with 0, with 1 if `check` has found a difference.
#[must_use]
pub fn pin(wanted: &Wanted) -> ExitCode {
    let ended = report(wanted, &mut io::stdout().lock());
    let (code, why) = match ended {
        Ok(code) => return ExitCode::from(code),
        Err(refused) => refused,
    };
    // There is nowhere else to complain to.
    let _ = writeln!(io::stderr(), "{}", why.trim_end());
    ExitCode::from(code)
}

/// An exit code, and what is said with it.
type Refused = (u8, String);

fn report(wanted: &Wanted, out: &mut dyn Write) -> Result<u8, Refused> {
    let target = Target::find(wanted)?;
    let before = match &target.file {
        None => None,
        Some(file) => open(file, wanted.check).map_err(usage)?,
    };
    let found = run::runtime()
        .map_err(|error| Flaw::new(error.to_string(), "see the limits of this process"))
        .and_then(|runtime| runtime.block_on(tools::list(Arc::clone(&target.upstream))))
        .map_err(|flaw| (exit::SOFTWARE, told(&flaw)))?;
    let lock = Lock::new(&target.name, found);
    let Some(file) = &target.file else {
        write_out(out, &lock.write())?;
        return Ok(0);
    };
    let difference = before
        .as_ref()
        .map(|before| before.difference(lock.tools()));
    write_out(out, &summary(file, &lock, difference.as_ref()))?;
    if wanted.check {
        let is_same = difference.is_some_and(|difference| difference.is_empty());
        return Ok(if is_same { 0 } else { exit::DIFFERENT });
    }
    if before.as_ref() != Some(&lock) {
        replace(file, &lock.write()).map_err(|error| {
            let cause = format!("the file {} cannot be written: {error}", file.display());
            let hint = "name a file in a directory that you may write to";
            (exit::SOFTWARE, told(&Flaw::new(cause, hint)))
        })?;
    }
    Ok(0)
}

/// What is pinned.
struct Target {
    /// What the upstream is called in the file.
    name: String,
    upstream: Arc<Upstream>,
    file: Option<PathBuf>,
}

impl Target {
    fn find(wanted: &Wanted) -> Result<Target, Refused> {
        let (route, name) = match &wanted.upstream {
            Some(url) => {
                // Nothing listens here, so the server may have the gateway's usual port.
                let addresses = Addresses {
                    listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
                    ..Addresses::default()
                };
                let loaded = Plan::for_single_upstream(url, addresses);
                let plan = loaded.map_err(|errors| rendered(&errors))?.plan;
                let route = choose(&plan, None).map_err(usage)?;
                let name = route.upstream.url();
                (route, name)
            }
            None => {
                let loaded = load_to_pin(&wanted.paths);
                let plan = loaded.map_err(|errors| rendered(&errors))?.plan;
                let route = choose(&plan, wanted.route.as_deref()).map_err(usage)?;
                let name = route.upstream.name.clone();
                (route, name)
            }
        };
        let named = route.pin.as_ref().map(|pin| &pin.file);
        let file = wanted.out.as_ref().or(named).cloned();
        if wanted.check && file.is_none() {
            let cause = "there is no file to compare with";
            let hint = "name it by --out FILE, or in `pin` of the route";
            return Err(usage(Flaw::new(cause, hint)));
        }
        Ok(Target {
            name,
            upstream: Arc::clone(&route.upstream),
            file,
        })
    }
}

/// The route that is meant.
fn choose(plan: &Plan, name: Option<&str>) -> Result<Arc<Route>, Flaw> {
    let with_tools = || plan.routes.iter().filter(|route| route.pass.is_none());
    let listed = || {
        let names: Vec<_> = with_tools().map(|route| route.name.as_str()).collect();
        format!("--route takes one of {}", names.join(", "))
    };
    let Some(name) = name else {
        let mut routes = with_tools();
        return match (routes.next(), routes.next()) {
            (Some(only), None) => Ok(Arc::clone(only)),
            (None, _) => Err(Flaw::new(
                "the policy has no route with tools",
                "those with `pass: true` have none",
            )),
            (Some(_), Some(_)) => Err(Flaw::new("the policy has several routes", listed())),
        };
    };
    let mut found = with_tools().filter(|route| route.name == name);
    found.next().cloned().ok_or_else(|| {
        let cause = format!(
            "there is no route with tools called {}",
            name.escape_debug()
        );
        Flaw::new(cause, listed())
    })
}

/// The lock that is there already, if one is.
fn open(file: &Path, must_exist: bool) -> Result<Option<Lock>, Flaw> {
    match std::fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        // What is no lock file is not overwritten: somebody wrote the name of another.
        _ => Lock::open(file).map(Some),
    }
}

/// What was found, each difference in a line of its own.
fn summary(file: &Path, lock: &Lock, difference: Option<&Difference>) -> String {
    let counted = match lock.tools().len() {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    let compared = match difference {
        None => "pinned",
        Some(difference) if difference.is_empty() => "as pinned before",
        Some(_) => "not as pinned before",
    };
    let mut text = format!("{}: {counted}, {compared}\n", file.display());
    if let Some(Difference {
        changed,
        added,
        vanished,
    }) = difference
    {
        for (word, tools) in [
            ("changed", changed),
            ("added", added),
            ("vanished", vanished),
        ] {
            for tool in tools {
                text.push_str(&format!("  {word:8} {}\n", tool.escape_debug()));
            }
        }
    }
    text
}

/// Puts `text` into the file at once: whoever reads it meanwhile, or after a failure, finds all of the
/// old or all of the new.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // Where the name is a link, the file that it leads to is replaced.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let beside = file.with_file_name(name);
    let written = std::fs::File::create_new(&beside).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&beside, &file)
    });
    if written.is_err() {
        // It may not have come to be.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write_out(out: &mut dyn Write, text: &str) -> Result<(), Refused> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `pin | head` is no fault.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err((exit::SOFTWARE, format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

fn rendered(errors: &Errors) -> Refused {
    (exit::USAGE, errors.render(wants_colour(&io::stderr())))
}

fn usage(flaw: Flaw) -> Refused {
    (exit::USAGE, told(&flaw))
}

fn told(flaw: &Flaw) -> String {
    format!("{}\n  hint: {}", flaw.cause, flaw.hint)
}
