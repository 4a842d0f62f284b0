//! One line of the log, as JSON or as text: pure, with the time as an argument.
//!
//! JSON is one object per line. Text is the time, the kind of line, then `key=value` pairs
//! separated by single blanks; a value that is not a plain word stands in double quotes. In both,
//! every character that would not show itself (controls, direction marks, odd blanks) is escaped,
//! because people read logs on terminals and peers choose names.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    #[doc(hidden)]
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

/// RFC 3339 in UTC with milliseconds. A clock before 1970 reads as 1970, one past the year 9999
/// as its last second: both are broken clocks, and the width stays.
fn timestamp(time: SystemTime) -> [u8; 24] {
    const YEAR_9999_ENDS: u64 = 253_402_300_799;
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs().min(YEAR_9999_ENDS);
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = (seconds % 86_400) as u32;
    let millis = since.subsec_millis();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    two(&mut text, 0, year / 100);
    two(&mut text, 2, year % 100);
    two(&mut text, 5, month);
    two(&mut text, 8, day);
    two(&mut text, 11, of_day / 3600);
    two(&mut text, 14, of_day / 60 % 60);
    two(&mut text, 17, of_day % 60);
    two(&mut text, 20, millis / 10);
    text[22] = digit(millis % 10);
    text
}

/// Year, month and day of the Gregorian calendar, `days` days after 1970-01-01. The year is
/// taken to begin in March, so that the leap day is its last and months follow one formula.
const fn civil(days: u64) -> (u32, u32, u32) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let from_year_0 = days + 719_468;
    let (cycle, day) = (
        from_year_0 / DAYS_IN_400_YEARS,
        from_year_0 % DAYS_IN_400_YEARS,
    );
    let year_of_cycle = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = cycle * 400 + year_of_cycle + (month <= 2) as u64;
    (year as u32, month as u32, day_of_month as u32)
}

fn two(text: &mut [u8; 24], at: usize, value: u32) {
    text[at] = digit(value / 10);
    text[at + 1] = digit(value % 10);
}

const fn digit(value: u32) -> u8 {
    b'0' + value as u8
}
