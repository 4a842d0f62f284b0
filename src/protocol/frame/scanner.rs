//! The lexer and the builder put together.

use std::borrow::Cow;

use bytes::Bytes;

use super::builder::{Builder, Keep};
use super::{Bounds, Field, Flaw, Frame, Outline, Paths, Text};
use crate::protocol::lexer::Lexer;

/// Reads a body that passes by in chunks, of which none is needed again.
///
/// It keeps copies of the values that [`Outline`] reads, each within its bound, and nothing
/// else of the body.
#[derive(Clone, Debug)]
pub struct Scanner {
    lexer: Lexer,
    builder: Builder,
    failed: Option<Flaw>,
}

/// Reads a whole body, which must be one JSON-RPC message.
///
/// `paths` names the arguments whose values are wanted; see [`Outline::argument`]. The frame
/// shares the body and copies nothing.
///
/// # Errors
/// The first offence against JSON, wherever it stands; if there is none, the first offence
/// against what a message may be.
pub fn scan(body: Bytes, bounds: &Bounds, paths: &Paths) -> Result<Frame, Flaw> {
    let mut lexer = Lexer::new(bounds.depth_max);
    let mut builder = Builder::new(bounds, paths, Keep::Nothing);
    let read = lexer
        .feed(&body, &mut builder)
        .and_then(|()| lexer.finish(&mut builder));
    match read {
        Ok(()) => builder.finish(body).map(Frame),
        Err(error) => Err(builder.stop(error, &body)),
    }
}

impl Scanner {
    /// A scanner at the beginning of a body. `paths` names the arguments that are wanted.
    pub fn new(bounds: &Bounds, paths: &Paths) -> Scanner {
        Scanner {
            lexer: Lexer::new(bounds.depth_max),
            builder: Builder::new(bounds, paths, Keep::Copies),
            failed: None,
        }
    }

    /// Reads the next chunk; where one ends and the next begins makes no difference.
    ///
    /// # Errors
    /// An offence against JSON, as soon as it is met. Offences against what a message may be
    /// wait for [`finish`](Scanner::finish), because one against JSON may still follow and
    /// goes first; only too great a depth ends the scan at once.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Flaw> {
        if let Some(flaw) = &self.failed {
            return Err(flaw.clone());
        }
        if let Err(error) = self.lexer.feed(chunk, &mut self.builder) {
            let flaw = self.builder.stop(error, &[]);
            self.failed = Some(flaw.clone());
            return Err(flaw);
        }
        if let Some(cut) = self.lexer.cut_token() {
            self.builder.carry(cut, chunk);
        }
        Ok(())
    }

    /// The offset behind the root's closing brace, once it is known.
    pub fn root_end(&self) -> Option<usize> {
        self.builder.root_end()
    }

    /// Whether [`finish`](Scanner::finish) will fail, however the body goes on.
    pub fn is_flawed(&self) -> bool {
        self.failed.is_some() || self.builder.is_flawed()
    }

    /// What [`finish`](Scanner::finish) will tell if the body goes on without an offence against
    /// JSON; with the id that has come so far.
    pub fn flaw(&self) -> Option<Flaw> {
        self.failed.clone().or_else(|| self.builder.first_flaw())
    }

    /// The id, as it is written, if the body has had one so far and no more than one.
    pub fn id(&self) -> Option<Bytes> {
        self.builder.sole_id(&[])
    }

    /// The method, if it has come already, without escape sequences.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        self.builder.met().method()
    }

    /// One of the strings that a message is judged by, as far as it has come: it may be absent
    /// only yet.
    pub fn text(&self, field: Field) -> Text<'_> {
        self.builder.met().text(field)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// The first offence against JSON, or else the first one against what a message may be.
    pub fn finish(mut self) -> Result<Outline, Flaw> {
        if let Some(flaw) = self.failed {
            return Err(flaw);
        }
        match self.lexer.finish(&mut self.builder) {
            Ok(()) => self.builder.finish(Bytes::new()),
            Err(error) => Err(self.builder.stop(error, &[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::frame::{FlawKind, Json};

    fn whole(body: &str) -> Flaw {
        let body = Bytes::copy_from_slice(body.as_bytes());
        scan(body, &Bounds::default(), &Paths::default()).unwrap_err()
    }

    fn told(body: &str) -> (&'static str, usize, Option<String>) {
        let flaw = whole(body);
        let id = flaw.id().map(|id| String::from_utf8_lossy(id).into_owned());
        (flaw.kind().as_str(), flaw.at(), id)
    }

    #[test]
    fn an_offence_against_json_wins_wherever_it_stands() {
        assert_eq!(
            told(r#"{"id":1,"id":2,"method":3} x"#),
            ("trailing-data", 27, None)
        );
        assert_eq!(told(r#"[{"id":1}, 1.]"#), ("bad-number", 13, None));
    }

    #[test]
    fn the_first_other_flaw_wins_and_the_id_is_found_behind_it() {
        assert_eq!(
            told(r#"{"jsonrpc":"1.0","method":3,"params":[],"id":"x"}"#),
            ("version", 11, Some("\"x\"".into()))
        );
        assert_eq!(
            told(r#"{"method":"m","method":"m","id":-7}"#),
            ("repeated-key", 14, Some("-7".into()))
        );
        assert_eq!(told(r#"{"id":5}"#), ("version", 8, Some("5".into())));
    }

    #[test]
    fn an_id_is_echoed_only_if_it_is_the_only_one() {
        assert_eq!(told(r#"{"id":5,"id":6}"#).2, None);
        assert_eq!(told(r#"{"id":5,"\u0069d":5}"#).2, None);
        assert_eq!(
            told(r#"{"id":5,"id":null}"#),
            ("repeated-key", 8, Some("5".into()))
        );
        assert_eq!(
            told(r#"{"id":1.0,"id":5}"#),
            ("id-type", 6, Some("5".into()))
        );
        assert_eq!(told(r#"{"ID":5}"#), ("case-variant", 1, None));
        let long = "9".repeat(513);
        assert_eq!(told(&format!(r#"{{"id":{long}}}"#)), ("too-long", 6, None));
    }

    #[test]
    fn depth_ends_the_scan_with_the_id_that_is_known() {
        let deep = "[".repeat(64);
        assert_eq!(
            told(&format!(r#"{{"id":8,"x":{deep}"#)),
            ("too-deep", 75, Some("8".into()))
        );
        assert_eq!(
            told(&format!(r#"{{"x":{deep},"id":8"#)),
            ("too-deep", 68, None)
        );
    }

    #[test]
    fn a_stream_leaves_copies_of_what_decides() {
        let paths = Paths::new([["region"], ["list"]]);
        let mut scanner = Scanner::new(&Bounds::default(), &paths);
        let body = r#"{"jsonrpc":"2.0","id":"r\u0031","method":"tools/call","params":{"name":"big",
            "arguments":{"region":"eu","list":[1],"blob":"aaaa"}}}"#;
        for byte in body.as_bytes() {
            assert_eq!(scanner.root_end(), None);
            scanner.push(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!(scanner.root_end(), Some(body.len()));
        scanner.push(b"\n").unwrap();
        let outline = scanner.finish().unwrap();
        assert_eq!(outline.id(), Some(&br#""r\u0031""#[..]));
        assert_eq!(outline.text(Field::Name), Text::Is("big".into()));
        assert_eq!(outline.argument(0).unwrap().raw, Some(&b"\"eu\""[..]));
        let list = outline.argument(1).unwrap();
        assert_eq!((list.json, list.raw), (Json::Array, None));
    }

    #[test]
    fn what_has_come_is_known_before_the_end() {
        let mut scanner = Scanner::new(&Bounds::default(), &Paths::default());
        scanner.push(br#" {"id":"a","method":"tools/ca"#).unwrap();
        assert_eq!(
            (scanner.id().as_deref(), scanner.method()),
            (Some(&br#""a""#[..]), None)
        );
        scanner
            .push(br#"ll","params":{"name":"x","uri":7,"#)
            .unwrap();
        assert_eq!(scanner.method().as_deref(), Some("tools/call"));
        assert_eq!(scanner.text(Field::Name), Text::Is("x".into()));
        assert_eq!(scanner.text(Field::Uri), Text::WrongType);
        assert_eq!(scanner.text(Field::TaskId), Text::Absent);
        assert!(!scanner.is_flawed());
        assert_eq!(scanner.flaw(), None);
        scanner.push(br#""name":"y"},"#).unwrap();
        assert!(scanner.is_flawed(), "a repeated key");
        let flaw = scanner.flaw().unwrap();
        assert_eq!(
            (flaw.kind(), flaw.id()),
            (FlawKind::RepeatedKey, Some(&br#""a""#[..]))
        );
        scanner.push(br#""id":2,"#).unwrap();
        assert_eq!(scanner.id(), None, "two ids");
        scanner.push(b"]").unwrap_err();
        assert!(scanner.is_flawed());
        assert_eq!(scanner.flaw().unwrap().kind(), FlawKind::Syntax);
    }

    #[test]
    fn what_a_stream_keeps_is_bounded_whatever_is_repeated() {
        let paths = Paths::new([["a"]]);
        let mut scanner = Scanner::new(&Bounds::default(), &paths);
        let text = "x".repeat(8000);
        scanner.push(br#"{"id":1,"params":{"#).unwrap();
        for _ in 0..300 {
            scanner
                .push(format!(r#""name":"{text}","arguments":{{"a":"{text}"}},"#).as_bytes())
                .unwrap();
        }
        // A key and a value that never end.
        scanner.push(br#""uri":""#).unwrap();
        for _ in 0..300 {
            scanner.push(text.as_bytes()).unwrap();
        }
        assert!(
            scanner.builder.held() < 100_000,
            "{} bytes are held",
            scanner.builder.held()
        );
        scanner.push(br#"","x":1}}"#).unwrap();
        let flaw = scanner.finish().unwrap_err();
        assert_eq!(
            (flaw.kind(), flaw.id()),
            (FlawKind::RepeatedKey, Some(&b"1"[..]))
        );
    }
}
