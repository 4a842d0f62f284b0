//! Words that clients choose: bounded, and without what may be a secret.

use std::ops::Range;

use super::line::{Key, Line, cut, key};

/// Most bytes of a method (of HTTP or of a message) that the log shows.
pub const METHOD_BYTES_MAX: usize = 64;
/// Most bytes of a tool's or prompt's name, a URI or a task id that the log shows.
pub const NAME_BYTES_MAX: usize = 256;
/// Most bytes of a path without a route that the log shows.
pub const PATH_BYTES_MAX: usize = 256;

/// Strings of the client's choice, cut to their bounds and kept in one allocation.
#[derive(Default)]
pub(super) struct Words {
    text: String,
    path: Option<Word>,
    method: Option<Word>,
    name: Option<Word>,
}

/// A part of [`Words::text`].
struct Word {
    kept: Range<usize>,
    /// How long the word was before it was cut.
    bytes: usize,
}

impl Words {
    /// Enough for the path of an endpoint, and afterwards for a method and a tool's name.
    const BYTES_USUAL: usize = 64;

    /// The path of a request.
    pub(super) fn with_path(path: &str) -> Words {
        let mut words = Words {
            text: String::with_capacity(Words::BYTES_USUAL),
            ..Words::default()
        };
        words.path = Some(words.keep(path, PATH_BYTES_MAX));
        words
    }

    /// The method of a message and what it names, in place of any before.
    pub(super) fn call(&mut self, method: &str, name: Option<&str>) {
        self.text
            .truncate(self.path.as_ref().map_or(0, |path| path.kept.end));
        self.method = Some(self.keep(method, METHOD_BYTES_MAX));
        self.name = name.map(|name| self.keep(name, NAME_BYTES_MAX));
    }

    /// The words go; the room stays.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        (self.path, self.method, self.name) = (None, None, None);
    }

    /// Writes the path. Where a word is not shown as a whole, its length stands beside it: a mark
    /// that no word can forge.
    pub(super) fn write_path(&self, line: &mut Line<'_>) {
        self.write(line, self.path.as_ref(), key!("path"), key!("path_bytes"));
    }

    /// Writes method and name, likewise.
    pub(super) fn write_call(&self, line: &mut Line<'_>) {
        let (method, name) = (self.method.as_ref(), self.name.as_ref());
        self.write(line, method, key!("method"), key!("method_bytes"));
        self.write(line, name, key!("name"), key!("name_bytes"));
    }

    /// Keeps what may be shown of a word.
    fn keep(&mut self, word: &str, bytes_max: usize) -> Word {
        let (scheme, rest) = showable(word);
        let start = self.text.len();
        let shown = cut(scheme, bytes_max);
        self.text.push_str(shown);
        if shown.len() == scheme.len() {
            self.text.push_str(cut(rest, bytes_max - shown.len()));
        }
        Word {
            kept: start..self.text.len(),
            bytes: word.len(),
        }
    }

    fn write(&self, line: &mut Line<'_>, word: Option<&Word>, key: Key, bytes_key: Key) {
        if let Some(word) = word {
            line.string(key, &self.text[word.kept.clone()]);
            if word.bytes > word.kept.len() {
                line.number(bytes_key, word.bytes as u64);
            }
        }
    }
}

/// The two parts of a word that may be shown, one after the other. URIs are known to carry
/// credentials before the host and in the query: neither is shown, and no word, URI or not, is
/// shown from a question mark on.
fn showable(word: &str) -> (&str, &str) {
    // Almost every word passes here; they are too short for a vectorised search to pay.
    if !word.bytes().any(|byte| matches!(byte, b'?' | b'@')) {
        return (word, "");
    }
    let word = &word[..word.find('?').unwrap_or(word.len())];
    let Some(scheme_end) = word.find("://").map(|at| at + "://".len()) else {
        return (word, "");
    };
    let (scheme, rest) = word.split_at(scheme_end);
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    (scheme, &rest[host..])
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::observe::line::Encoding;
    use crate::observe::line::tests::text;

    /// The fields that `words` write, as text: the value of `key`, and the length beside it.
    fn written(words: &Words, key: &str) -> Option<(String, Option<usize>)> {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, Encoding::Text, UNIX_EPOCH, "exchange");
        line.words(key!("always"), &["there"]);
        words.write_path(&mut line);
        words.write_call(&mut line);
        line.end();
        let fields = text(&String::from_utf8(out).unwrap());
        let bytes = fields.get(&format!("{key}_bytes"));
        Some((
            fields.get(key)?.clone(),
            bytes.map(|bytes| bytes.parse().unwrap()),
        ))
    }

    fn whole(word: &str) -> Option<(String, Option<usize>)> {
        Some((word.to_owned(), None))
    }

    #[test]
    fn words_are_kept_side_by_side() {
        let mut words = Words::with_path("/unknown");
        words.call("tools/call", Some("first"));
        words.call("ping", None);
        assert_eq!(written(&words, "path"), whole("/unknown"));
        assert_eq!(written(&words, "method"), whole("ping"));
        assert_eq!(written(&words, "name"), None);
        assert_eq!(words.text, "/unknownping", "what was replaced is gone");
        words.clear();
        words.call("tools/call", Some(""));
        assert_eq!(written(&words, "path"), None);
        assert_eq!(written(&words, "method"), whole("tools/call"));
        assert_eq!(written(&words, "name"), whole(""));
    }

    #[test]
    fn what_is_cut_says_how_long_it_was() {
        let mut words = Words::with_path(&"/".repeat(300));
        words.call(&"m".repeat(65), Some(&format!("x{}", "é".repeat(4096))));
        assert_eq!(written(&words, "path"), Some(("/".repeat(256), Some(300))));
        assert_eq!(written(&words, "method"), Some(("m".repeat(64), Some(65))));
        // Not 256: the byte at that place is the middle of a character.
        let name = format!("x{}", "é".repeat(127));
        assert_eq!(written(&words, "name"), Some((name, Some(8193))));
        let name = "n".repeat(256);
        words.call("m", Some(&name));
        assert_eq!(written(&words, "name"), whole(&name));
        // Where the scheme is cut, nothing follows it, even if it would fit.
        let long = "s".repeat(255);
        words.call("m", Some(&format!("{long}é://user@h")));
        assert_eq!(written(&words, "name"), Some((long, Some(266))));
    }

    #[test]
    fn credentials_in_uris_are_not_shown() {
        for (uri, shown) in [
            (
                "https://user:secret@example.com/a@b?token=secret",
                "https://example.com/a@b",
            ),
            ("jdbc:postgres://user:se@cret@db", "jdbc:postgres://db"),
            ("user@example.com", "user@example.com"),
            ("file:///etc/hosts", "file:///etc/hosts"),
            ("/mcp?token=secret", "/mcp"),
            ("search?q=secret", "search"),
            ("a?b://secret@c", "a"),
            ("é://é@é", "é://é"),
            ("://", "://"),
        ] {
            let mut words = Words::default();
            words.call("resources/read", Some(uri));
            let bytes = (uri != shown).then_some(uri.len());
            assert_eq!(written(&words, "name"), Some((shown.to_owned(), bytes)));
        }
    }
}
