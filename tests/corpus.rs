//! The corpus: one body per file. What is in `accept` must be read as the file beside it says;
//! what is in `reject` must be refused with the code and the kind of flaw that its name begins
//! with, and with the id of the file beside it, or none. Each is also the seed of the fuzzers.

// What a test calls may panic.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use weirgate::protocol::frame::{
    Bounds, Field, Flaw, FlawKind, Json, Outline, Paths, Scanner, Text, scan,
};

/// The argument paths of every scan, and how the files name them.
const PATHS: [(&str, &[&str]); 3] = [
    ("arguments", &[]),
    ("arguments.region", &["region"]),
    ("arguments.where.zone", &["where", "zone"]),
];

#[test]
fn what_is_accepted_is_read_as_the_file_beside_it_says() {
    let bodies = bodies("accept");
    assert!(bodies.len() >= 40, "only {} bodies", bodies.len());
    for path in bodies {
        let body = fs::read(&path).unwrap();
        let frame = whole(&body).unwrap_or_else(|flaw| panic!("{}: {flaw}", path.display()));
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        assert_eq!(described(&frame, true), expected, "{}", path.display());
        let outline = in_pieces(&body).unwrap();
        assert_eq!(
            described(&outline, false),
            described(&frame, false),
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_is_rejected_is_told_with_its_code_its_kind_and_its_id() {
    let mut met = BTreeSet::new();
    for path in bodies("reject") {
        let body = fs::read(&path).unwrap();
        let Err(flaw) = whole(&body) else {
            panic!("{} was accepted", path.display());
        };
        let code = if flaw.is_parse_error() { 32700 } else { 32600 };
        let told = format!("{code}-{}.", flaw.kind().as_str());
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(
            name.starts_with(&told),
            "{name} was refused as {told}: {flaw}"
        );
        let id = fs::read(path.with_extension("id")).ok();
        assert_eq!(flaw.id(), id.as_deref(), "{name}");
        assert_eq!(in_pieces(&body).unwrap_err(), flaw, "{name}");
        met.insert(flaw.kind().as_str());
    }
    for kind in FlawKind::ALL {
        assert!(met.contains(kind.as_str()), "no body has the flaw {kind:?}");
    }
}

fn bodies(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut bodies: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    bodies.sort();
    bodies
}

fn paths() -> Paths {
    Paths::new(PATHS.iter().map(|(_, path)| path.iter()))
}

fn whole(body: &[u8]) -> Result<weirgate::protocol::frame::Frame, Flaw> {
    scan(Bytes::copy_from_slice(body), &Bounds::default(), &paths())
}

fn in_pieces(body: &[u8]) -> Result<Outline, Flaw> {
    let mut scanner = Scanner::new(&Bounds::default(), &paths());
    for piece in body.chunks(7) {
        scanner.push(piece)?;
    }
    scanner.finish()
}

/// All that an outline says, a line for each thing. Arrays and objects only where the body is
/// held.
fn described(outline: &Outline, held: bool) -> String {
    let mut lines = format!("{:?}, ends at {}\n", outline.kind(), outline.root_end());
    let shown = |raw: &[u8]| shortened(&String::from_utf8_lossy(raw));
    if let Some(id) = outline.id() {
        writeln!(lines, "id {}", shown(id)).unwrap();
    }
    if let Some(method) = outline.method() {
        writeln!(lines, "method {}", shortened(&format!("{method:?}"))).unwrap();
    }
    for field in [
        Field::Name,
        Field::Uri,
        Field::TaskId,
        Field::Cursor,
        Field::ProtocolVersion,
        Field::MetaProtocolVersion,
    ] {
        match outline.text(field) {
            Text::Absent => {}
            Text::WrongType => writeln!(lines, "{field:?} is no text").unwrap(),
            Text::Is(text) => {
                writeln!(lines, "{field:?} {}", shortened(&format!("{text:?}"))).unwrap()
            }
        }
    }
    writeln!(
        lines,
        "_meta {:?}, client capabilities {:?}",
        outline.meta(),
        outline.client_capabilities()
    )
    .unwrap();
    if outline.has_input_responses() || outline.has_request_state() {
        let (responses, state) = (outline.has_input_responses(), outline.has_request_state());
        writeln!(lines, "input responses {responses}, request state {state}").unwrap();
    }
    if let Some(token) = outline.progress_token() {
        writeln!(lines, "progress token {}", shown(token)).unwrap();
    }
    for (index, (name, _)) in PATHS.iter().enumerate() {
        let Some(argument) = outline.argument(index) else {
            continue;
        };
        let is_kept = held || !matches!(argument.json, Json::Array | Json::Object);
        let raw = argument
            .raw
            .filter(|_| is_kept)
            .map(shown)
            .unwrap_or_default();
        writeln!(lines, "{name} {:?} {raw}", argument.json).unwrap();
    }
    lines
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}
