//! Every refusal as every kind of client is told it, against a file that a person can read, and
//! the README's table against the same.

// This whole crate is a test; clippy's own exemption reaches only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod samples;
mod table;

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Response};
use samples::Sample;
use weirgate::protocol::refusal::{Addressee, answer};
use weirgate::protocol::version::Era;

/// Whom a refusal is told to.
const ADDRESSEES: [&str; 5] = [
    "modern",
    "legacy",
    "legacy by status",
    "discovery",
    "event stream only",
];

impl Sample {
    /// The answer to each of [`ADDRESSEES`].
    fn answers(&self) -> [Response<Bytes>; 5] {
        ADDRESSEES.map(|name| answer(&self.refusal.telling(), &self.addressee(name)))
    }

    fn addressee(&self, name: &str) -> Addressee {
        let is_legacy = matches!(name, "legacy" | "legacy by status");
        let accept = match name {
            "event stream only" => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        Addressee {
            accept: Some(HeaderValue::from_static(accept)),
            id: self.id(),
            era: Some(if is_legacy { Era::Legacy } else { Era::Modern }),
            in_band: name != "legacy by status",
            probe: name == "discovery",
            problem: false,
            closes: false,
        }
    }
}

/// The golden file. Who gets the same answer stands in one line.
fn told() -> String {
    let mut text = String::from(
        "Every refusal, as it is told to each kind of client. Written by the test `refusals`:\n\
         UPDATE_GOLDEN=1 cargo test --test refusals\n",
    );
    for sample in samples::all() {
        let reason = sample.refusal.telling().reason;
        write!(text, "\n## {reason}, {}\n", sample.variant).unwrap();
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, answer) in ADDRESSEES.into_iter().zip(sample.answers()) {
            let shown = shown(&answer);
            match groups.iter_mut().find(|(same, _)| *same == shown) {
                Some((_, names)) => names.push(name),
                None => groups.push((shown, vec![name])),
            }
        }
        for (shown, names) in groups {
            write!(text, "\n# {}\n{shown}", names.join(", ")).unwrap();
        }
    }
    text
}

/// Status, headers and body.
fn shown(answer: &Response<Bytes>) -> String {
    let mut text = format!("{}\n", answer.status().as_u16());
    for (name, value) in answer.headers() {
        writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    let body = std::str::from_utf8(answer.body()).unwrap();
    writeln!(text, "{}", body.trim_end()).unwrap();
    text
}

#[test]
fn every_refusal_is_told_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refusals/golden.txt");
    let told = told();
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, &told).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let differing = told
        .lines()
        .zip(golden.lines())
        .enumerate()
        .find(|(_, (now, before))| now != before);
    if let Some((at, (now, before))) = differing {
        panic!(
            "golden.txt:{}:\n before: {before}\n now:    {now}\n\
             UPDATE_GOLDEN=1 cargo test --test refusals writes it anew",
            at + 1
        );
    }
    assert_eq!(told, golden, "the files differ in length");
}

#[test]
fn an_event_holds_its_answer_whole() {
    for sample in samples::all() {
        let answers = sample.answers();
        let event = std::str::from_utf8(answers[4].body()).unwrap().to_owned();
        let json = std::str::from_utf8(answers[0].body()).unwrap();
        assert_eq!(event, format!("event: message\ndata: {json}\n\n"));
    }
}

#[test]
fn an_answer_before_the_end_of_its_request_ends_the_connection() {
    for sample in samples::all() {
        let to = Addressee {
            closes: true,
            ..sample.addressee("modern")
        };
        let [mut usual, ..] = sample.answers();
        let mut ending = answer(&sample.refusal.telling(), &to);
        usual.headers_mut().remove(CONNECTION);
        let close = ending.headers_mut().remove(CONNECTION);
        assert_eq!(close, Some(HeaderValue::from_static("close")));
        assert_eq!(shown(&ending), shown(&usual));
    }
}
