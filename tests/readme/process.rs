//! The built binary and curl as processes.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::blocks::root;

/// Long enough for anything that should happen at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that runs until this is dropped.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    /// Starts the binary from the top of the repository.
    pub(crate) fn weirgate(arguments: &[&str]) -> Running {
        let mut child = command(arguments).spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Running { child, out, err }
    }

    /// The next line of its standard output that `find` finds something in.
    pub(crate) fn out<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        first(&self.out, find)
    }

    /// The next line of its standard error that `find` finds something in.
    pub(crate) fn err<T>(&self, find: impl Fn(&str) -> Option<T>) -> T {
        first(&self.err, find)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where the process has gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn first<T>(lines: &Receiver<String>, find: impl Fn(&str) -> Option<T>) -> T {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => match find(&line) {
                Some(found) => return found,
                None => seen.push(line),
            },
            Err(error) => panic!("what was waited for did not come ({error}): {seen:#?}"),
        }
    }
}

/// Runs the binary to its end.
pub(crate) fn weirgate(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weirgate"));
    command
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a line that begins with `curl` as a shell would; gives the status and the body of the
/// answer.
pub(crate) fn curl(line: &str) -> (u16, String) {
    assert!(line.starts_with("curl "), "{line}");
    let found = Command::new("curl").arg("--version").output();
    assert!(
        !found.is_err_and(|error| error.kind() == ErrorKind::NotFound),
        "these tests need the program curl; tests/run installs the Debian package of that name"
    );
    let patience = PATIENCE.as_secs();
    let line = format!("{line} --noproxy '*' --max-time {patience} -w '\\n%{{http_code}}'");
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}
