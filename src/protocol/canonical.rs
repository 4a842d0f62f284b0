//! One form for all ways to write the same JSON (RFC 8785), and its digest.

mod number;

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

use super::lexer::{Container, DEPTH_MAX, ErrorKind, Inside, Lexer, Reader, Scalar, Token};

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As RFC 8785 says, so that `1.50` and `15e-1` are one: the shortest digits that a double is
    /// read back from. But a whole number that would become another one, or that is beyond
    /// doubles, stays as it is written: readers that keep all digits would tell the two apart.
    Ecmascript,
    /// As they came, so that what any reader could tell apart stays apart.
    AsWritten,
}

/// Why a JSON text has no canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncanonical {
    /// It is not one JSON value in UTF-8.
    Json,
    /// Objects and arrays nest deeper than [`DEPTH_MAX`].
    TooDeep,
    /// An object has a key twice.
    RepeatedKey,
    /// Half of a surrogate pair stands alone, which no text can hold.
    LoneSurrogate,
}

impl fmt::Display for Uncanonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uncanonical::Json => f.write_str("it is not one JSON value in UTF-8"),
            Uncanonical::TooDeep => write!(f, "it nests deeper than {DEPTH_MAX} levels"),
            Uncanonical::RepeatedKey => f.write_str("an object has a key twice"),
            Uncanonical::LoneSurrogate => {
                f.write_str("half of a surrogate pair stands alone in a string")
            }
        }
    }
}

impl std::error::Error for Uncanonical {}

/// Writes a JSON value in its canonical form: no blanks, the members of objects in the order of
/// their keys' UTF-16 units, escape sequences only where there must be some.
///
/// The form is about as long as what it is made from; each level of nesting copies it once.
///
/// # Errors
/// What is no JSON, or could be understood in two ways.
pub fn canonical(json: &[u8], numbers: Numbers) -> Result<Vec<u8>, Uncanonical> {
    let mut lexer = Lexer::new(DEPTH_MAX);
    let mut writer = Writer {
        json,
        numbers,
        written: Vec::with_capacity(json.len()),
        open: Vec::new(),
        flaw: None,
    };
    let read = lexer.feed(json, &mut writer);
    let read = read.and_then(|()| lexer.finish(&mut writer));
    match (read, writer.flaw) {
        (Ok(()), None) => Ok(writer.written),
        (Ok(()), Some(flaw)) => Err(flaw),
        (Err(error), _) if error.kind == ErrorKind::TooDeep => Err(Uncanonical::TooDeep),
        (Err(_), _) => Err(Uncanonical::Json),
    }
}

/// A SHA-256 digest. It is shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; digest::SHA256_OUTPUT_LEN]);

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }
}

impl Digest {
    /// Of these bytes as they are.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        let mut sum = [0; digest::SHA256_OUTPUT_LEN];
        sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Digest(sum)
    }

    /// Of the canonical form of a JSON value.
    ///
    /// # Errors
    /// As [`canonical`].
    pub fn of_json(json: &[u8], numbers: Numbers) -> Result<Digest, Uncanonical> {
        canonical(json, numbers).map(|form| Digest::of(&form))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; digest::SHA256_OUTPUT_LEN] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    /// Reads what [`Display`](fmt::Display) writes, and nothing that is merely like it.
    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NoDigest),
        };
        let mut sum = [0; digest::SHA256_OUTPUT_LEN];
        if text.len() != 2 * sum.len() {
            return Err(NoDigest);
        }
        for (byte, pair) in sum.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Digest(sum))
    }
}

/// A text is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDigest;

impl fmt::Display for NoDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is 64 lower-case hexadecimal digits")
    }
}

impl std::error::Error for NoDigest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes the tokens of a value as they come, and puts the members of an object in order when it
/// ends.
struct Writer<'j> {
    json: &'j [u8],
    numbers: Numbers,
    written: Vec<u8>,
    open: Vec<Open>,
    flaw: Option<Uncanonical>,
}

enum Open {
    /// The keys, and where in what is written each of the members begins.
    Object(Vec<(String, usize)>),
    Array {
        is_empty: bool,
    },
}

impl<'j> Writer<'j> {
    /// Elements of arrays are parted at once, members when they have their order.
    fn part(&mut self) {
        if let Some(Open::Array { is_empty }) = self.open.last_mut()
            && !std::mem::take(is_empty)
        {
            self.written.push(b',');
        }
    }

    fn raw(&self, token: Token<'_>) -> &'j [u8] {
        &self.json[token.start..token.end]
    }

    /// A string as text; what is none is replaced, and remembered as a flaw.
    fn text(&mut self, token: Token<'_>) -> String {
        serde_json::from_slice(self.raw(token)).unwrap_or_else(|_| {
            self.flaw.get_or_insert(Uncanonical::LoneSurrogate);
            String::new()
        })
    }

    fn string(&mut self, token: Token<'_>) {
        // Without escape sequences there is nothing in it that needs one.
        if !token.escaped {
            self.written.extend_from_slice(self.raw(token));
            return;
        }
        let text = self.text(token);
        self.quoted(&text);
    }

    /// Writes a text in quotes. What RFC 8785 escapes and how is what `serde_json` does.
    fn quoted(&mut self, text: &str) {
        // Writing to memory does not fail, nor does a text have a form that could not be written.
        let _ = serde_json::to_writer(&mut self.written, text);
    }

    fn close_object(&mut self, mut members: Vec<(String, usize)>) {
        let start = members.first().map_or(self.written.len(), |(_, at)| *at);
        let mut end = self.written.len();
        let unordered = self.written.split_off(start);
        // From its beginning to its end.
        let mut spans: Vec<(String, usize, usize)> = Vec::with_capacity(members.len());
        while let Some((key, at)) = members.pop() {
            spans.push((key, at - start, end - start));
            end = at;
        }
        spans.sort_unstable_by(|(a, ..), (b, ..)| a.encode_utf16().cmp(b.encode_utf16()));
        if spans.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            self.flaw.get_or_insert(Uncanonical::RepeatedKey);
        }
        for (place, (_, at, end)) in spans.iter().enumerate() {
            if place > 0 {
                self.written.push(b',');
            }
            self.written.extend_from_slice(&unordered[*at..*end]);
        }
        self.written.push(b'}');
    }
}

impl Reader for Writer<'_> {
    fn key(&mut self, token: Token<'_>) {
        let (at, key) = (self.written.len(), self.text(token));
        self.quoted(&key);
        self.written.push(b':');
        if let Some(Open::Object(members)) = self.open.last_mut() {
            members.push((key, at));
        }
    }

    fn scalar(&mut self, kind: Scalar, token: Token<'_>) {
        self.part();
        let raw = self.raw(token);
        match (kind, self.numbers) {
            (Scalar::String, _) => self.string(token),
            (Scalar::Integer | Scalar::Decimal, Numbers::Ecmascript) => {
                number::write(raw, &mut self.written);
            }
            _ => self.written.extend_from_slice(raw),
        }
    }

    fn open(&mut self, kind: Container, _start: usize) -> Inside {
        self.part();
        let (bracket, open) = match kind {
            Container::Object => (b'{', Open::Object(Vec::new())),
            Container::Array => (b'[', Open::Array { is_empty: true }),
        };
        self.written.push(bracket);
        self.open.push(open);
        Inside::Report
    }

    fn close(&mut self, _inside: Inside, _end: usize) {
        match self.open.pop() {
            Some(Open::Object(members)) => self.close_object(members),
            Some(Open::Array { .. }) => self.written.push(b']'),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
