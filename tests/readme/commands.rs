//! Every command of a document, run or looked after in the way that its kind asks for.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::blocks::{Document, root};
use crate::demo;
use crate::process::{Running, curl, weirgate};

/// The addresses that the documents name for the probes and for what is remembered.
const STATUS: &str = "127.0.0.1:9902";
const ADMIN: &str = "127.0.0.1:9901";
/// The server that they name.
const UPSTREAM: &str = "http://127.0.0.1:3000/mcp";

/// What the commands of one document work with.
struct Shell {
    /// Files that the document shows, by their names.
    files: TempDir,
    /// The gateway that was started last.
    gateway: Option<Started>,
}

/// A gateway, and where it listens beside its own address.
struct Started {
    _gateway: Running,
    status: String,
    admin: String,
}

/// Runs the commands of a document in their order; gives how many there were.
pub(crate) fn run_all(document: &Document) -> usize {
    let mut shell = Shell {
        files: TempDir::new().unwrap(),
        gateway: None,
    };
    for block in document.blocks_of("yaml") {
        if !block.name.is_empty() {
            std::fs::write(shell.files.path().join(&block.name), &block.text).unwrap();
        }
    }
    let mut count = 0;
    for block in document.blocks_of("sh") {
        for (line, command) in (block.line + 1..).zip(block.text.lines()) {
            shell.run(command, &format!("{}:{line}", document.path));
            count += 1;
        }
    }
    count
}

impl Shell {
    fn run(&mut self, line: &str, place: &str) {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| self.resolve(word))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["cargo", "run", "--release", "--", "demo"] => demo::three_calls(),
            ["tests/run" | "tests/bench/compare"] => assert_executable(line, place),
            ["weirgate", "check" | "test" | "explain", ..] => {
                let output = weirgate(&words[1..]);
                assert_eq!(output.status.code(), Some(0), "{place}: {output:?}");
                assert!(output.stderr.is_empty(), "{place}: {output:?}");
            }
            ["weirgate", "schema", ">", _] => {
                let output = weirgate(&["schema"]);
                assert_eq!(output.status.code(), Some(0), "{place}: {output:?}");
                let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert!(schema["properties"]["routes"].is_object(), "{place}");
            }
            ["weirgate", "run", ..] => self.start(&words[1..]),
            ["curl", .., url] if url.contains(STATUS) => {
                let (code, body) = curl(&line.replace(STATUS, &self.started(place).status));
                assert_eq!((code, body.as_str()), (200, "ready\n"), "{place}");
            }
            ["curl", ..] if line.contains(ADMIN) => {
                let (code, body) = curl(&line.replace(ADMIN, &self.started(place).admin));
                assert_eq!(code, 200, "{place}: {body}");
                // Nothing has been asked of this gateway.
                let body: Value = serde_json::from_str(&body).unwrap();
                assert!(
                    body["entries"] == json!([]) || body["purged"] == json!(0),
                    "{place}: {body}"
                );
            }
            ["weirgate", "pin", "--upstream", UPSTREAM, "--out", file] => self.pin(file, place),
            // No engine for images and no cluster is at hand: what the commands name is looked
            // after by the tests of the deployment.
            [
                "docker",
                "build",
                "-t",
                image,
                "-f",
                "deploy/Containerfile",
                ".",
            ] => {
                assert_deployed(image, place);
            }
            ["docker", "push", image] => assert_deployed(image, place),
            ["kubectl", "apply", "-f", "deploy/sidecar.yaml"] => {}
            _ => panic!("{place}: no test knows how to run `{line}`"),
        }
    }

    /// Pins the tools of the demonstration's server, in place of the one that is named.
    fn pin(&self, file: &str, place: &str) {
        let demo = Running::weirgate(&["demo", "--listen", "127.0.0.1:0"]);
        let server = demo.out(demo::server);
        let file = self.files.path().join(file);
        let file = file.to_str().unwrap();
        let output = weirgate(&["pin", "--upstream", &server, "--out", file]);
        assert_eq!(output.status.code(), Some(0), "{place}: {output:?}");
        let lock: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert!(lock["tools"]["echo"].is_string(), "{place}: {lock}");
    }

    fn started(&self, place: &str) -> &Started {
        let started = self.gateway.as_ref();
        started.unwrap_or_else(|| panic!("{place}: no gateway runs yet"))
    }

    /// A word, or the path of the file that it names among those of the document.
    fn resolve(&self, word: &str) -> String {
        let path = self.files.path().join(word);
        match path.is_file() {
            true => path.to_str().unwrap().to_owned(),
            false => word.to_owned(),
        }
    }

    /// Starts the gateway on ports that the system chooses.
    fn start(&mut self, arguments: &[&str]) {
        let any = "127.0.0.1:0";
        let mut arguments = arguments.to_vec();
        arguments.extend(["--listen", any, "--status", any, "--admin", any]);
        let gateway = Running::weirgate(&arguments);
        let (status, admin) = gateway.err(addresses);
        self.gateway = Some(Started {
            _gateway: gateway,
            status,
            admin,
        });
    }
}

/// The address for probes in the line that tells where the gateway listens.
pub(crate) fn status_address(line: &str) -> Option<String> {
    behind(line, "status on http://")
}

fn addresses(line: &str) -> Option<(String, String)> {
    status_address(line).zip(behind(line, "admin on http://"))
}

fn behind(line: &str, words: &str) -> Option<String> {
    let (_, behind) = line.split_once(words)?;
    // The line goes on, or the log quotes it.
    behind.split(['"', ',']).next().map(str::to_owned)
}

fn assert_executable(path: &str, place: &str) {
    let metadata = Path::metadata(&root().join(path)).unwrap();
    let is_executable = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    assert!(is_executable, "{place}: {path} cannot be run");
}

fn assert_deployed(image: &str, place: &str) {
    let sidecar = Document::read("deploy/sidecar.yaml").text;
    let line = format!("image: {image}\n");
    assert!(
        sidecar.contains(&line),
        "{place}: {image} is deployed nowhere"
    );
}
