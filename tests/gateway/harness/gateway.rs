//! The real binary as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Client, Response};
use super::policy::Policy;
use super::request::Request;
use super::upstream::Upstream;
use super::wire::PATIENCE;

const BINARY: &str = env!("CARGO_BIN_EXE_weirgate");

/// A running gateway; the process is ended when this is dropped.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) status: SocketAddr,
    child: Child,
    lines: Arc<Lines>,
    _directory: TempDir,
}

/// What the process has written to its standard error.
#[derive(Debug, Default)]
struct Lines {
    seen: Mutex<Vec<String>>,
    changed: Condvar,
    /// Nobody reads any more, but the pipe stays open.
    is_deaf: AtomicBool,
}

impl Lines {
    fn read(&self, stderr: ChildStderr) {
        for line in BufReader::new(stderr).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            self.seen.lock().expect("no panic in a log").push(line);
            self.changed.notify_all();
            while self.is_deaf.load(Ordering::SeqCst) {
                thread::park();
            }
        }
    }

    fn wait<T>(&self, what: &str, find: impl Fn(&[String]) -> Option<T>) -> T {
        let start = Instant::now();
        let mut seen = self.seen.lock().expect("no panic in a log");
        loop {
            if let Some(found) = find(&seen) {
                return found;
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "never logged: {what}; {seen:#?}");
            seen = self
                .changed
                .wait_timeout(seen, left)
                .expect("no panic in a log")
                .0;
        }
    }
}

impl Gateway {
    /// Starts the gateway with this policy and waits until it says where it listens.
    pub(crate) fn start(policy: &Policy) -> Gateway {
        let directory = TempDir::new().expect("a temporary directory");
        let file = directory.path().join("policy.yaml");
        std::fs::write(&file, policy.text()).expect("a file in it");
        Gateway::run(
            &["--policy", file.to_str().expect("a path of text")],
            directory,
        )
    }

    /// Starts the gateway with this policy, in a shell that has run `limit` before.
    pub(crate) fn start_under(limit: &str, policy: &Policy) -> Gateway {
        let directory = TempDir::new().expect("a temporary directory");
        let file = policy_file(directory.path(), &policy.text());
        let script = format!("{limit} && exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, BINARY, "run", "--policy", &file]);
        shell.stdin(Stdio::null());
        Gateway::spawn(shell, directory)
    }

    /// Starts the gateway with these arguments to `run`.
    pub(crate) fn start_with(arguments: &[&str]) -> Gateway {
        Gateway::run(arguments, TempDir::new().expect("a temporary directory"))
    }

    /// A gateway with every default before this upstream.
    pub(crate) fn before(upstream: &Upstream) -> Gateway {
        Gateway::start(&Policy::new(upstream))
    }

    fn run(arguments: &[&str], directory: TempDir) -> Gateway {
        let mut command = command();
        command.arg("run").args(arguments);
        Gateway::spawn(command, directory)
    }

    fn spawn(mut command: Command, directory: TempDir) -> Gateway {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built binary");
        let lines = Arc::new(Lines::default());
        let reading = Arc::clone(&lines);
        let stderr = child.stderr.take().expect("a piped standard error");
        thread::spawn(move || reading.read(stderr));
        let (address, status) = lines.wait("the start line", |seen| {
            seen.iter().find_map(|line| addresses(line))
        });
        Gateway {
            address,
            status,
            child,
            lines,
            _directory: directory,
        }
    }

    /// A fresh connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, request: &Request) -> Response {
        self.connect().exchange(request)
    }

    /// All that was written to standard error until now.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.seen.lock().expect("no panic in a log").clone()
    }

    /// Reads no further line of standard error, which fills up then.
    pub(crate) fn stop_reading(&self) {
        self.lines.is_deaf.store(true, Ordering::SeqCst);
    }

    /// The records of exchanges among it.
    pub(crate) fn records(&self) -> Vec<Value> {
        records(&self.lines(), "exchange")
    }

    /// Waits for a number of records of exchanges and gives them back.
    pub(crate) fn wait_for_records(&self, count: usize) -> Vec<Value> {
        self.wait_for("exchange", count)
    }

    /// Waits for a number of records of connections that died before an exchange.
    pub(crate) fn wait_for_connections(&self, count: usize) -> Vec<Value> {
        self.wait_for("connection", count)
    }

    /// Waits until a line contains this text.
    pub(crate) fn wait_for_line(&self, text: &str) {
        self.lines.wait(&format!("a line with {text:?}"), |seen| {
            seen.iter().any(|line| line.contains(text)).then_some(())
        });
    }

    fn wait_for(&self, kind: &str, count: usize) -> Vec<Value> {
        self.lines
            .wait(&format!("{count} records of {kind}"), |seen| {
                Some(records(seen, kind)).filter(|records| records.len() >= count)
            })
    }

    /// Sends a signal, such as `TERM`, and waits for the process to end by it; gives the exit code.
    pub(crate) fn end_by(&mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.ended()
    }

    /// Sends a signal, and leaves the process to it.
    pub(crate) fn signal(&self, signal: &str) {
        // A shell has `kill` built in; the program is not everywhere.
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -s {signal} {}", self.child.id())])
            .status()
            .expect("a shell");
        assert!(sent.success());
    }

    /// Waits for the process to end by itself; gives the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        ending(&mut self.child).expect("an end").code()
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// How much time of a processor the process has used.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("a running process");
        // Behind the name, which is in parentheses, the 12th and 13th are in hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Lets the process open no file beyond those that it has open.
    pub(crate) fn limit_files_to_open(&self) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        self.limit_files(open.expect("a running process").count());
    }

    /// Sets how many files the process may have open.
    pub(crate) fn limit_files(&self, count: usize) {
        let limited = Command::new("prlimit")
            .arg(format!("--nofile={count}:"))
            .args(["--pid", &self.child.id().to_string()])
            .status()
            .expect("prlimit of util-linux");
        assert!(limited.success());
    }

    /// Bytes of memory that the process holds now.
    pub(crate) fn memory(&self) -> usize {
        self.memory_of("VmRSS:")
    }

    /// The most that it ever held.
    pub(crate) fn memory_peak(&self) -> usize {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, key: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("a running process");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        1024 * kibibytes
            .and_then(|number| number.trim().parse::<usize>().ok())
            .expect("a resident size")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only where the process has gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the gateway wrote:\n{}", self.lines().join("\n"));
        }
    }
}

/// Runs the binary to its end, which must come by itself, and gives back what it wrote.
pub(crate) fn run_to_end(arguments: &[&str]) -> Output {
    let mut child = command()
        .args(arguments)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built binary");
    if ending(&mut child).is_none() {
        let _ = child.kill();
        panic!("{arguments:?} did not end: {:?}", child.wait_with_output());
    }
    child.wait_with_output().expect("a child of ours")
}

/// How the process ended; none if it does not.
fn ending(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        let status = child.try_wait().expect("a child of ours");
        if status.is_some() || start.elapsed() > PATIENCE {
            return status;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Writes a policy file into a directory and gives back its path.
pub(crate) fn policy_file(directory: &Path, text: &str) -> String {
    let file = directory.join("policy.yaml");
    std::fs::write(&file, text).expect("a writable directory");
    file.to_str().expect("a path of text").to_owned()
}

fn command() -> Command {
    let mut command = Command::new(BINARY);
    command.stdin(Stdio::null());
    command
}

/// The two addresses in a start line, whatever else it says.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let behind = &line[line.find("listening on")?..];
    let address = url_address(behind)?;
    let status = url_address(&behind[behind.find("status on")?..])?;
    Some((address, status))
}

fn url_address(text: &str) -> Option<SocketAddr> {
    let behind = &text[text.find("://")? + "://".len()..];
    let end = behind
        .find(|c: char| !(c.is_ascii_hexdigit() || "[].:".contains(c)))
        .unwrap_or(behind.len());
    behind[..end].parse().ok()
}

fn records(lines: &[String], kind: &str) -> Vec<Value> {
    lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|value| value["kind"] == kind)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_line_is_found_in_text_and_in_json() {
        let text =
            "weirgate listening on http://127.0.0.1:4567 (/mcp), status on http://127.0.0.1:1";
        let json = format!("{{\"level\":\"info\",\"message\":\"{text}\"}}");
        for line in [text, json.as_str()] {
            let (address, status) = addresses(line).expect("two addresses");
            assert_eq!((address.port(), status.port()), (4567, 1));
        }
        assert!(addresses("weirgate listens").is_none());
    }
}
