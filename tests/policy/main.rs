//! Policy files from the outside: what they come to, what is refused and how it is told, and that
//! the documentation and the examples say the same as the parser.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may end where what it needs is absent"
)]

mod contradictions;
mod documents;
mod errors;
mod memory;
mod merging;
mod mutations;
mod names;
mod schema;
mod secrets;
mod streams;
mod tls;
mod together;
mod trying;
mod unused;

#[path = "../gateway/harness/certificates.rs"]
mod certificates;

use std::ffi::OsString;
use std::path::PathBuf;

use weirgate::policy::file::{Addresses, Policy, load_with};
use weirgate::policy::finding::{Errors, Finding, Origin};

/// A directory with these files; it lives as long as the value.
pub(crate) struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new(files: &[(&str, &str)]) -> Files {
        let files_in = Files {
            directory: tempfile::tempdir().unwrap(),
        };
        for (name, text) in files {
            files_in.write(name, text.as_bytes());
        }
        files_in
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Loads the whole directory; the only variable there is names a server.
    pub(crate) fn load(&self) -> Result<Policy, Errors> {
        self.load_paths(&[self.directory.path().to_owned()])
    }

    pub(crate) fn load_paths(&self, paths: &[PathBuf]) -> Result<Policy, Errors> {
        load_with(paths, Addresses::default(), &variable)
    }

    /// What is told of the errors, with the names of files alone.
    pub(crate) fn told(&self) -> String {
        let text = self.load().unwrap_err().render(false);
        text.replace(&format!("{}/", self.directory.path().display()), "")
    }
}

fn variable(name: &str) -> Option<OsString> {
    match name {
        "WEATHER_URL" => Some("http://127.0.0.1:3000/mcp".into()),
        "EMPTY" => Some("".into()),
        "SECRET_URL" => Some("http://user:hunter2@127.0.0.1/mcp".into()),
        _ => None,
    }
}

/// The finding in short: `line:column cause`.
pub(crate) fn short(finding: &Finding) -> String {
    match &finding.origin {
        Origin::File(place) => format!("{}:{} {}", place.line, place.column, finding.cause),
        Origin::Argument(name) => format!("{name} {}", finding.cause),
    }
}

/// The errors of one file in short.
pub(crate) fn errors_of(text: &str) -> Vec<String> {
    let files = Files::new(&[("p.yaml", text)]);
    let errors = files.load().err();
    errors
        .iter()
        .flat_map(|errors| errors.findings())
        .map(short)
        .collect()
}

/// The warnings of one good file in short.
pub(crate) fn warnings_of(text: &str) -> Vec<String> {
    let policy = Files::new(&[("p.yaml", text)]).load().unwrap();
    policy.warnings.iter().map(short).collect()
}

/// A good policy with this text for its one route, and with this text behind it.
pub(crate) fn with_route(route: &str) -> String {
    format!(
        "upstreams: {{ u: {{ url: http://127.0.0.1:3000/mcp }} }}\nroutes:\n  - name: r\n    upstream: u\n{route}"
    )
}

/// The first error of a file begins with `line:column` and contains the words, and there is no second one.
#[track_caller]
pub(crate) fn assert_one(text: &str, place: &str, words: &str) {
    let errors = errors_of(text);
    assert_eq!(errors.len(), 1, "{text}\n{errors:#?}");
    assert!(
        errors[0].starts_with(&format!("{place} ")) && errors[0].contains(words),
        "{text}\n{errors:#?}"
    );
}
