//! One line of the log, as JSON or as text: pure, with the time as an argument.
//!
//! JSON is one object per line. Text is the time, the kind of line, then `key=value` pairs
//! separated by single blanks; a value that is not a plain word stands in double quotes. In both,
//! every character that would not show itself (controls, direction marks, odd blanks) is escaped,
//! because people read logs on terminals and peers choose names.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use super::log::Level;
use super::timestamp::timestamp;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// One JSON object per line.
    Json,
    /// `key=value` pairs.
    Text,
}

/// A name of a field in both encodings, put together at compile time: a line has some fifteen.
#[derive(Clone, Copy)]
pub(super) struct Key {
    json: &'static str,
    text: &'static str,
}

impl Key {
    pub(super) const fn new(json: &'static str, text: &'static str) -> Key {
        Key { json, text }
    }
}

/// The [`Key`] of a literal name.
macro_rules! key {
    ($name:literal) => {
        $crate::observe::line::Key::new(concat!(",\"", $name, "\":"), concat!(" ", $name, "="))
    };
}
pub(super) use key;

/// A line that is being written to the end of a buffer. Keys are ours and need no escaping;
/// values are escaped unless a method says otherwise.
pub(super) struct Line<'a> {
    out: &'a mut Vec<u8>,
    encoding: Encoding,
}

impl<'a> Line<'a> {
    /// Begins a line with its time (UTC, milliseconds) and its kind.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        encoding: Encoding,
        time: SystemTime,
        kind: &'static str,
    ) -> Line<'a> {
        out.reserve(LINE_BYTES_USUAL);
        let time = timestamp(time);
        match encoding {
            Encoding::Json => {
                out.extend_from_slice(b"{\"time\":\"");
                out.extend_from_slice(&time);
                out.extend_from_slice(b"\",\"kind\":\"");
                out.extend_from_slice(kind.as_bytes());
                out.push(b'"');
            }
            Encoding::Text => {
                out.extend_from_slice(&time);
                out.push(b' ');
                out.extend_from_slice(kind.as_bytes());
            }
        }
        Line { out, encoding }
    }

    /// Begins the line of an event of the gateway itself.
    pub(super) fn event(
        out: &'a mut Vec<u8>,
        encoding: Encoding,
        time: SystemTime,
        level: Level,
        message: &str,
    ) -> Line<'a> {
        let mut line = Line::begin(out, encoding, time, "event");
        line.words(key!("level"), &[level.as_str()]);
        line.string(key!("message"), message);
        line
    }

    /// Ends the line.
    pub(super) fn end(self) {
        if self.encoding == Encoding::Json {
            self.out.push(b'}');
        }
        self.out.push(b'\n');
    }

    /// A string of any origin.
    pub(super) fn string(&mut self, key: Key, value: &str) {
        self.key(key);
        self.quoted(value);
    }

    /// A string under a key that is known only at run time, but is ours all the same.
    pub(super) fn named(&mut self, name: &'static str, value: &str) {
        match self.encoding {
            Encoding::Json => {
                self.out.extend_from_slice(b",\"");
                self.out.extend_from_slice(name.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
            Encoding::Text => {
                self.out.push(b' ');
                self.out.extend_from_slice(name.as_bytes());
                self.out.push(b'=');
            }
        }
        self.quoted(value);
    }

    /// Words of ours, written one after the other as a single value. They must consist of
    /// letters, digits, `-`, `_`, `.` and `:`, which neither encoding escapes.
    pub(super) fn words(&mut self, key: Key, words: &[&'static str]) {
        self.key(key);
        let quote = self.encoding == Encoding::Json;
        if quote {
            self.out.push(b'"');
        }
        for word in words {
            self.out.extend_from_slice(word.as_bytes());
        }
        if quote {
            self.out.push(b'"');
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: Key, value: u64) {
        self.key(key);
        self.digits(value);
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, key: Key, value: bool) {
        self.key(key);
        self.out
            .extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// A span of time in milliseconds with three decimals.
    pub(super) fn millis(&mut self, key: Key, span: Duration) {
        self.key(key);
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.digits(micros / 1000);
        let rest = (micros % 1000) as u32;
        self.out.extend_from_slice(&[
            b'.',
            digit(rest / 100),
            digit(rest / 10 % 10),
            digit(rest % 10),
        ]);
    }

    /// A peer's address and port.
    pub(super) fn address(&mut self, key: Key, address: &SocketAddr) {
        self.key(key);
        let quote = self.encoding == Encoding::Json;
        if quote {
            self.out.push(b'"');
        }
        match address {
            SocketAddr::V4(v4) => {
                for (i, octet) in v4.ip().octets().into_iter().enumerate() {
                    if i > 0 {
                        self.out.push(b'.');
                    }
                    self.digits(octet.into());
                }
                self.out.push(b':');
                self.digits(v4.port().into());
            }
            // Writing to a vector cannot fail.
            SocketAddr::V6(v6) => drop(write!(self.out, "{v6}")),
        }
        if quote {
            self.out.push(b'"');
        }
    }

    fn key(&mut self, key: Key) {
        let key = match self.encoding {
            Encoding::Json => key.json,
            Encoding::Text => key.text,
        };
        self.out.extend_from_slice(key.as_bytes());
    }

    fn digits(&mut self, value: u64) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn quoted(&mut self, value: &str) {
        match self.encoding {
            Encoding::Json => json_string(self.out, value),
            Encoding::Text if is_plain_word(value) => self.out.extend_from_slice(value.as_bytes()),
            // Rust's own notation escapes all that does not show itself, quotes and
            // backslashes included. Writing to a vector cannot fail.
            Encoding::Text => drop(write!(self.out, "{value:?}")),
        }
    }
}

/// The beginning of `text`, at most `bytes_max` long, that ends between two characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// More than almost every record needs, so that its buffer grows at most once.
const LINE_BYTES_USUAL: usize = 768;

/// Whether `value` can stand in a text line without quotes.
fn is_plain_word(value: &str) -> bool {
    !value.is_empty()
        && value
            .bytes()
            .all(|b| matches!(b, 0x21..=0x7e) && !matches!(b, b'"' | b'\\' | b'='))
}

/// Whether `byte` stands for itself within a JSON string; bytes of non-ASCII characters are
/// looked at as characters.
const fn is_plain_json(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\'
}

fn json_string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    let mut rest = value;
    loop {
        let plain = rest.bytes().take_while(|b| is_plain_json(*b)).count();
        out.extend_from_slice(&rest.as_bytes()[..plain]);
        rest = &rest[plain..];
        let Some(c) = rest.chars().next() else { break };
        json_char(out, c);
        rest = &rest[c.len_utf8()..];
    }
    out.push(b'"');
}

fn json_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        // The standard library knows which characters show themselves; those it would write
        // as one character do.
        c if !c.is_ascii() && c.escape_debug().len() == 1 => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a vector cannot fail.
                drop(write!(out, "\\u{unit:04x}"));
            }
        }
    }
}

/// A digit below ten.
pub(super) const fn digit(value: u32) -> u8 {
    b'0' + value as u8
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The fields of a line of text, read by its documented form alone.
    pub(in crate::observe) fn text(line: &str) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        let mut rest = line.strip_suffix('\n').unwrap();
        for name in ["time", "kind"] {
            let (value, after) = rest.split_once(' ').unwrap();
            assert!(fields.insert(name.to_owned(), value.to_owned()).is_none());
            rest = after;
        }
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').unwrap();
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => unquoted(quoted),
                None => {
                    let end = after.find(' ').unwrap_or(after.len());
                    (after[..end].to_owned(), &after[end..])
                }
            };
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{line}"
            );
            assert!(fields.insert(name.to_owned(), value).is_none(), "{line}");
            rest = after.strip_prefix(' ').unwrap_or(after);
        }
        fields
    }

    /// What stands up to the closing quote, and what follows that.
    fn unquoted(quoted: &str) -> (String, &str) {
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        loop {
            match chars.next().expect("a closing quote").1 {
                '"' => return (value, chars.as_str()),
                '\\' => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    'r' => value.push('\r'),
                    't' => value.push('\t'),
                    '0' => value.push('\0'),
                    'u' => {
                        let code: String = chars
                            .by_ref()
                            .map(|c| c.1)
                            .take_while(|c| *c != '}')
                            .collect();
                        let code = u32::from_str_radix(&code[1..], 16).unwrap();
                        value.push(char::from_u32(code).unwrap());
                    }
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
    }

    /// The fields of a line of JSON.
    pub(in crate::observe) fn json(line: &str) -> BTreeMap<String, Value> {
        serde_json::from_str(line).unwrap()
    }

    /// A line with one value of a peer's choice, between two of ours.
    fn line(encoding: Encoding, value: &str) -> String {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, encoding, UNIX_EPOCH, "exchange");
        line.string(key!("route"), "weather");
        line.string(key!("name"), value);
        line.number(key!("status"), 200);
        line.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_forges_neither_line_nor_field() {
        for hostile in [
            "x status=500",
            "x\" status=\"500",
            "x\n1970-01-01T00:00:00.000Z exchange route=weather",
            "x\r\nstatus=500",
            "x\\",
            "x=y",
            "",
            "\u{1b}[2K\u{1b}[1Gforged",
            "\u{9b}2Kforged",
            "\u{7f}\u{8}\0",
            "abc\u{202e}cba",
            "a\u{2028}b\u{2029}c\u{85}d\u{feff}e\u{a0}f",
            "\u{e0001}\u{10ffff}",
            "x\",\"status\":500,\"y\":\"",
        ] {
            for encoding in [Encoding::Json, Encoding::Text] {
                let line = line(encoding, hostile);
                let shown = line.strip_suffix('\n').unwrap();
                assert!(
                    shown.chars().all(|c| matches!(c, ' '..='~')),
                    "{shown:?} has a character that does not show itself"
                );
            }
            let fields = text(&line(Encoding::Text, hostile));
            assert_eq!(fields["name"], hostile);
            assert_eq!(fields["status"], "200");
            assert_eq!(fields.len(), 5);
            let fields = json(&line(Encoding::Json, hostile));
            assert_eq!(fields["name"], hostile);
            assert_eq!(fields["status"], 200);
            assert_eq!(fields.len(), 5);
        }
    }

    #[test]
    fn readable_values_stay_readable() {
        let name = "météo 天気 'x' 🌦";
        for encoding in [Encoding::Json, Encoding::Text] {
            assert!(line(encoding, name).contains(name));
        }
        assert!(line(Encoding::Text, "get_weather/v1.2:é").contains("name=\"get_weather/v1.2:é\""));
        assert!(line(Encoding::Text, "get_weather/v1.2:").contains("name=get_weather/v1.2: "));
    }

    #[test]
    fn numbers_and_addresses() {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, Encoding::Text, UNIX_EPOCH, "exchange");
        for micros in [0, 1, 10, 999, 1000, 1_234_567] {
            line.millis(key!("ms"), Duration::from_micros(micros));
        }
        for address in ["0.0.0.0:0", "255.1.20.3:65535", "[::1]:80", "[fe80::1%2]:1"] {
            line.address(key!("peer"), &address.parse().unwrap());
        }
        line.end();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1970-01-01T00:00:00.000Z exchange ms=0.000 ms=0.001 ms=0.010 ms=0.999 ms=1.000 \
             ms=1234.567 peer=0.0.0.0:0 peer=255.1.20.3:65535 peer=[::1]:80 peer=[fe80::1%2]:1\n"
        );
    }

    proptest! {
        #[test]
        fn any_value_reads_back(value in any::<String>()) {
            let in_json = json(&line(Encoding::Json, &value));
            prop_assert_eq!(in_json["name"].as_str(), Some(&*value));
            prop_assert_eq!(&text(&line(Encoding::Text, &value))["name"], &value);
        }
    }
}
