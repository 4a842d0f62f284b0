//! The checks themselves, for the property tests and for the fuzz targets.

use bytes::Bytes;
use weirgate::protocol::frame::{
    Argument, Bounds, Field, Flaw, Json, Outline, Paths, Scanner, Text, scan,
};
use weirgate::protocol::lexer::{
    Container, Error, ErrorKind, Inside, Lexer, Reader, Scalar, Token,
};

use crate::documents::PATHS;
use crate::oracle::{self, Facts, Judgement};

/// Scans a document whole, against the oracle, and then in pieces, against the whole. Gives
/// the verdict: `message`, `not JSON` or the kind of the flaw.
pub(crate) fn frame(document: &[u8], bounds: &Bounds, cuts: &[u8]) -> &'static str {
    let shown = String::from_utf8_lossy(document);
    let paths = Paths::new(PATHS.iter().map(|path| path.iter()));
    let whole = scan(Bytes::copy_from_slice(document), bounds, &paths);
    let whole = whole.map(|frame| {
        assert_eq!(frame.body(), document);
        facts(&frame)
    });
    compare(
        &whole,
        oracle::judge(document, bounds, &PATHS),
        bounds,
        document,
    );

    let mut pieces: Vec<Vec<&[u8]>> =
        vec![document.chunks(1).collect(), random_pieces(document, cuts)];
    for cut in 0..=document.len() {
        let (one, other) = document.split_at(cut);
        pieces.push(vec![one, other]);
    }
    for pieces in pieces {
        let streamed = stream(&pieces, bounds, &paths);
        match (&whole, &streamed) {
            (Err(one), Err(other)) => assert_eq!(one, other, "{shown:?} in {pieces:?}"),
            (Ok(one), Ok(other)) => {
                assert_eq!(&kept(one, bounds), other, "{shown:?} in {pieces:?}")
            }
            (one, other) => panic!("{one:?} whole, {other:?} in pieces: {shown:?} in {pieces:?}"),
        }
    }
    match whole {
        Ok(_) => "message",
        Err(flaw) if flaw.is_parse_error() => "not JSON",
        Err(flaw) => flaw.kind().as_str(),
    }
}

fn compare(ours: &Result<Facts, Flaw>, oracle: Judgement, bounds: &Bounds, document: &[u8]) {
    let shown = String::from_utf8_lossy(document);
    match (ours, oracle) {
        (Ok(ours), Judgement::Message(facts)) => assert_eq!(ours, &*facts, "{shown:?}"),
        (Err(flaw), Judgement::NotJson) if flaw.is_parse_error() => {
            assert_eq!(flaw.id(), None);
            assert!(flaw.at() <= document.len());
        }
        // Depth ends a scan before it knows whether the rest is JSON, or has an id.
        (Err(_), Judgement::NotJson) if oracle::depth(&shown) > bounds.depth_max as usize => {}
        (Err(flaw), Judgement::Flawed(flaws, id)) => {
            assert!(
                flaws.contains(flaw.kind().as_str()),
                "{flaw:?}, not {flaws:?} in {shown:?}"
            );
            let echoed = flaw.id().map(|id| String::from_utf8(id.to_vec()).unwrap());
            if !flaws.contains("too-deep") {
                assert_eq!(echoed, id, "{flaw:?} in {shown:?}");
            }
            assert!(flaw.to_string().len() < 600, "{flaw}");
        }
        (Ok(facts), Judgement::NotJson) => panic!("taken for JSON: {shown:?}, {facts:?}"),
        (Ok(_), Judgement::Flawed(flaws, _)) => panic!("{flaws:?} overlooked in {shown:?}"),
        (Err(flaw), Judgement::Message(_)) => panic!("{flaw:?} in a good {shown:?}"),
        (Err(flaw), Judgement::NotJson) => panic!("{flaw:?}, but no JSON: {shown:?}"),
    }
}

fn stream(pieces: &[&[u8]], bounds: &Bounds, paths: &Paths) -> Result<Facts, Flaw> {
    let mut scanner = Scanner::new(bounds, paths);
    for piece in pieces {
        if let Err(flaw) = scanner.push(piece) {
            assert_eq!(scanner.push(b" "), Err(flaw.clone()), "a scanner recovered");
            assert_eq!(
                scanner.finish().err(),
                Some(flaw.clone()),
                "a scanner recovered"
            );
            return Err(flaw);
        }
    }
    let root_end = scanner.root_end();
    let outline = scanner.finish()?;
    assert_eq!(Some(outline.root_end()), root_end);
    Ok(facts(&outline))
}

fn facts(outline: &Outline) -> Facts {
    let owned = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap();
    let text = |field| match outline.text(field) {
        Text::Absent => None,
        Text::WrongType => Some(None),
        Text::Is(text) => Some(Some(text.into_owned())),
    };
    let argument = |Argument { json, raw }| (json, raw.map(owned).unwrap_or_default());
    Facts {
        kind: outline.kind(),
        id: outline.id().map(owned),
        method: outline.method().map(|method| method.into_owned()),
        texts: [
            Field::Name,
            Field::Uri,
            Field::TaskId,
            Field::Cursor,
            Field::ProtocolVersion,
            Field::MetaProtocolVersion,
        ]
        .map(text),
        meta: outline.meta(),
        client_capabilities: outline.client_capabilities(),
        has_input_responses: outline.has_input_responses(),
        has_request_state: outline.has_request_state(),
        progress_token: outline.progress_token().map(owned),
        arguments: (0..PATHS.len())
            .map(|path| outline.argument(path).map(argument))
            .collect(),
        root_end: outline.root_end(),
    }
}

/// What remains of the facts when the body was not held.
fn kept(facts: &Facts, bounds: &Bounds) -> Facts {
    let mut facts = facts.clone();
    for (json, raw) in facts.arguments.iter_mut().flatten() {
        if matches!(json, Json::Object | Json::Array) || raw.len() > bounds.name_bytes_max + 2 {
            raw.clear();
        }
    }
    facts
}

/// Reads the tokens of a document, whole and in pieces, of all that is in it and of a part.
pub(crate) fn lexer(document: &[u8], cuts: &[u8]) {
    let shown = String::from_utf8_lossy(document);
    let whole = tokens(&[document], 0);
    let too_deep = matches!(
        whole.1,
        Err(Error {
            kind: ErrorKind::TooDeep,
            ..
        })
    );
    assert_eq!(
        whole.1.is_ok() || too_deep,
        oracle::is_json(document) || too_deep,
        "{shown:?}"
    );
    if whole.1.is_ok() {
        assert_eq!(
            rewritten(&whole.0, document),
            compact(document),
            "{shown:?}"
        );
    }
    for step in 1..4 {
        let partial = tokens(&[document], step);
        assert_eq!(partial.1, whole.1, "{shown:?}");
        assert_eq!(partial.0, without_skipped(&whole.0, step), "{shown:?}");
        for cut in 0..=document.len() {
            let (one, other) = document.split_at(cut);
            assert_eq!(
                tokens(&[one, other], step),
                partial,
                "{shown:?} cut at {cut}"
            );
        }
    }
    assert_eq!(
        tokens(&random_pieces(document, cuts), 0),
        whole,
        "{shown:?}"
    );
    assert_eq!(
        tokens(&document.chunks(1).collect::<Vec<_>>(), 0),
        whole,
        "{shown:?}"
    );
}

/// A token: what it is, and where it begins and ends. Openings have no end, and the reverse.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    what: String,
    start: usize,
    end: usize,
    escaped: bool,
}

/// Writes down the tokens, and skips the objects and arrays that begin at a multiple of `step`.
struct Notes {
    seen: Vec<Seen>,
    step: usize,
}

impl Notes {
    fn note(&mut self, what: String, start: usize, end: usize, escaped: bool) {
        self.seen.push(Seen {
            what,
            start,
            end,
            escaped,
        });
    }
}

fn is_skipped(start: usize, step: usize) -> bool {
    step > 0 && start.is_multiple_of(step)
}

impl Reader for Notes {
    fn key(&mut self, token: Token<'_>) {
        assert!(token.bytes.ends_with(b"\"") && token.bytes.len() <= token.end - token.start);
        self.note("key".into(), token.start, token.end, token.escaped);
    }

    fn scalar(&mut self, kind: Scalar, token: Token<'_>) {
        assert!(token.bytes.len() <= token.end - token.start);
        self.note(format!("{kind:?}"), token.start, token.end, token.escaped);
    }

    fn open(&mut self, kind: Container, start: usize) -> Inside {
        self.note(format!("{kind:?}"), start, 0, false);
        if is_skipped(start, self.step) {
            Inside::Skip
        } else {
            Inside::Report
        }
    }

    fn close(&mut self, inside: Inside, end: usize) {
        self.note(format!("end {inside:?}"), 0, end, false);
    }
}

fn tokens(pieces: &[&[u8]], step: usize) -> (Vec<Seen>, Result<(), Error>) {
    let mut lexer = Lexer::new(64);
    let mut notes = Notes {
        seen: Vec::new(),
        step,
    };
    for piece in pieces {
        if let Err(error) = lexer.feed(piece, &mut notes) {
            return (notes.seen, Err(error));
        }
    }
    let end = lexer.finish(&mut notes);
    (notes.seen, end)
}

/// What a reader sees who skips: nothing between the beginning and the end of what it skips.
fn without_skipped(all: &[Seen], step: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut skipping = 0;
    for token in all {
        let opens = token.what == "Object" || token.what == "Array";
        let closes = token.what.starts_with("end");
        if closes && skipping == 1 {
            seen.push(Seen {
                what: "end Skip".into(),
                ..token.clone()
            });
        } else if skipping == 0 {
            seen.push(token.clone());
        }
        if opens && (skipping > 0 || is_skipped(token.start, step)) {
            skipping += 1;
        }
        if closes && skipping > 0 {
            skipping -= 1;
        }
    }
    seen
}

/// The text that the tokens make, without commas and colons.
fn rewritten(tokens: &[Seen], document: &[u8]) -> String {
    let mut text = Vec::new();
    for token in tokens {
        match token.what.as_str() {
            "Object" | "Array" => text.push(document[token.start]),
            "end Report" => text.push(document[token.end - 1]),
            _ => text.extend(&document[token.start..token.end]),
        }
    }
    String::from_utf8(text).unwrap()
}

/// The document without blanks, commas and colons outside of strings.
fn compact(document: &[u8]) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = document.iter().copied().filter(|&byte| {
        let inside = in_string;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
        inside || in_string || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')
    });
    String::from_utf8(kept.collect()).unwrap()
}

fn random_pieces<'a>(document: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = document;
    for cut in cuts.iter().chain(&[7, 0, 3, 64, 2]) {
        let (piece, other) = rest.split_at((*cut as usize % 67).min(rest.len()));
        pieces.push(piece);
        rest = other;
    }
    pieces.push(rest);
    pieces
}
