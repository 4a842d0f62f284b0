//! Every command of a document, run or looked after in the way that its kind asks for.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::blocks::{Document, root};
use crate::demo;
use crate::process::{Running, curl, weirgate};

/// The address that the documents name for the probes.
const STATUS: &str = "127.0.0.1:9902";

/// What the commands of one document work with.
struct Shell {
    /// Files that the document shows, by their names.
    files: TempDir,
    /// The gateway that was started last, and its address for probes.
    gateway: Option<(Running, String)>,
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
            ["weirgate", "check", ..] => {
                let output = weirgate(&words[1..]);
                assert_eq!(output.status.code(), Some(0), "{place}: {output:?}");
                assert!(output.stderr.is_empty(), "{place}: {output:?}");
            }
            ["weirgate", "run", ..] => self.start(&words[1..]),
            ["curl", .., url] if url.contains(STATUS) => {
                let Some((_, status)) = &self.gateway else {
                    panic!("{place}: no gateway runs yet");
                };
                let (code, body) = curl(&line.replace(STATUS, status));
                assert_eq!((code, body.as_str()), (200, "ready\n"), "{place}");
            }
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
        let status = gateway.err(status_address);
        self.gateway = Some((gateway, status));
    }
}

/// The address for probes in the line that tells where the gateway listens.
pub(crate) fn status_address(line: &str) -> Option<String> {
    let (_, behind) = line.split_once("status on http://")?;
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
