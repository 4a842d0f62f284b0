//! The grammar: one pass over one chunk.
//!
//! The loop goes from item to item (a member of an object, an element of an array, the root).
//! Where a chunk ends within an item, the step that could not be done says what it expects,
//! and the next pass begins with that step.

use super::marks;
use super::number::{self, Stage};
use super::string::{self, Half, Run};
use super::{Container, ErrorKind, Expect, Flight, Inside, Lexer, Place, Reader, Scalar, Token};

/// Why a pass ended. Positions are indexes into the chunk.
pub(super) enum Stop {
    /// The chunk is used up.
    Cut(Expect, Flight),
    /// The byte at the index is wrong.
    Bad(ErrorKind, usize),
}

/// What follows a value.
#[derive(PartialEq, Eq)]
enum Next {
    /// Its first item, because it is an object or an array that is not empty.
    Item,
    /// A comma, or the end of what it stands in.
    CommaOrEnd,
}

/// The pass: what the loop needs at hand.
pub(super) struct Pass<'a, R> {
    chunk: &'a [u8],
    at: usize,
    place: Place,
    depth_max: u32,
    base: usize,
    reader: &'a mut R,
}

impl<'a, R: Reader> Pass<'a, R> {
    #[inline(always)]
    pub(super) fn new(lexer: &Lexer, chunk: &'a [u8], reader: &'a mut R) -> Pass<'a, R> {
        let Lexer {
            place,
            depth_max,
            base,
            ..
        } = *lexer;
        Pass {
            chunk,
            at: 0,
            place,
            depth_max,
            base,
            reader,
        }
    }

    /// Reads the chunk to its end, or to the first offence.
    #[inline(always)]
    pub(super) fn run(mut self, expect: Expect, flight: Flight) -> (Place, Stop) {
        if expect != Expect::Item || flight != Flight::None {
            match self.resume(expect, flight) {
                Ok(resumed) => self = resumed,
                Err(end) => return end,
            }
        }
        let Err(stop) = self.items();
        (self.place, stop)
    }

    #[inline(always)]
    fn items(&mut self) -> Result<std::convert::Infallible, Stop> {
        if self.place.depth == 0 && self.value()? == Next::CommaOrEnd {
            self.blank()?;
        }
        loop {
            if self.in_object() {
                self.key()?;
                self.colon()?;
            }
            if self.value()? == Next::CommaOrEnd {
                self.comma_or_end()?;
            }
        }
    }

    /// Does what is left of the item that the end of the last chunk cut. (It takes and gives the
    /// pass, because what a function outside of the loop points to cannot live in registers.)
    #[cold]
    fn resume(mut self, expect: Expect, flight: Flight) -> Result<Self, (Place, Stop)> {
        match self.rest_of_item(expect, flight) {
            Ok(()) => Ok(self),
            Err(stop) => Err((self.place, stop)),
        }
    }

    fn rest_of_item(&mut self, expect: Expect, flight: Flight) -> Result<(), Stop> {
        let expect = match flight {
            Flight::None => expect,
            flight => self.land(flight)?,
        };
        let next = match expect {
            Expect::Item => Next::Item,
            Expect::ItemOrEnd => self.item_or_end()?,
            Expect::Colon => {
                self.colon()?;
                self.value()?
            }
            Expect::Value => self.value()?,
            Expect::CommaOrEnd | Expect::Blank => Next::CommaOrEnd,
        };
        match next {
            Next::Item => Ok(()),
            Next::CommaOrEnd if self.place.depth == 0 => self.blank(),
            Next::CommaOrEnd => self.comma_or_end(),
        }
    }

    /// Completes the token that the end of the last chunk cut.
    fn land(&mut self, flight: Flight) -> Result<Expect, Stop> {
        let (start, kind, escaped) = match flight {
            Flight::None => return Ok(Expect::Item),
            Flight::Key { start, half } => {
                let run = string::resume(self.chunk, half);
                let escaped = self.string_run(run, |half| Flight::Key { start, half })?;
                self.report_key(start, escaped);
                return Ok(Expect::Colon);
            }
            Flight::String { start, half } => {
                let run = string::resume(self.chunk, half);
                let escaped = self.string_run(run, |half| Flight::String { start, half })?;
                (start, Scalar::String, escaped)
            }
            Flight::Number { start, stage } => (start, self.number(start, stage)?, false),
            Flight::Literal { start, kind, rest } => {
                (start, self.literal(start, kind, rest)?, false)
            }
        };
        self.report_scalar(kind, start, escaped);
        Ok(Expect::CommaOrEnd)
    }

    #[inline(always)]
    fn key(&mut self) -> Result<(), Stop> {
        if self.peek(Expect::Item)? != b'"' {
            return self.bad(ErrorKind::Unexpected("a key in quotes"));
        }
        let start = self.base + self.at;
        let escaped = self.string(|half| Flight::Key { start, half })?;
        self.report_key(start, escaped);
        Ok(())
    }

    #[inline(always)]
    fn colon(&mut self) -> Result<(), Stop> {
        if self.peek(Expect::Colon)? != b':' {
            return self.bad(ErrorKind::Unexpected("a colon"));
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    fn value(&mut self) -> Result<Next, Stop> {
        let byte = self.peek(Expect::Value)?;
        let start = self.base + self.at;
        let mut escaped = false;
        let kind = match byte {
            b'"' => {
                escaped = self.string(|half| Flight::String { start, half })?;
                Scalar::String
            }
            b'{' | b'[' => {
                self.open(byte)?;
                return self.item_or_end();
            }
            b't' => self.literal(start, Scalar::Boolean, b"true")?,
            b'f' => self.literal(start, Scalar::Boolean, b"false")?,
            b'n' => self.literal(start, Scalar::Null, b"null")?,
            _ => {
                let Some(stage) = Stage::begun_by(byte) else {
                    return self.bad(ErrorKind::Unexpected("a value"));
                };
                self.at += 1;
                self.number(start, stage)?
            }
        };
        self.report_scalar(kind, start, escaped);
        Ok(Next::CommaOrEnd)
    }

    #[inline(always)]
    fn open(&mut self, byte: u8) -> Result<(), Stop> {
        if self.place.depth >= self.depth_max {
            return self.bad(ErrorKind::TooDeep);
        }
        let is_object = byte == b'{';
        self.place.stack = self.place.stack << 1 | u64::from(is_object);
        self.place.depth += 1;
        if self.place.skipped > 0 {
            self.place.skipped += 1;
        } else {
            let kind = if is_object {
                Container::Object
            } else {
                Container::Array
            };
            if self.reader.open(kind, self.base + self.at) == Inside::Skip {
                self.place.skipped = 1;
            }
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    fn item_or_end(&mut self) -> Result<Next, Stop> {
        let byte = self.peek(Expect::ItemOrEnd)?;
        if byte == self.closing_byte() {
            self.close();
            return Ok(Next::CommaOrEnd);
        }
        Ok(Next::Item)
    }

    /// Reads what follows a value, until a comma promises the next item.
    #[inline(always)]
    fn comma_or_end(&mut self) -> Result<(), Stop> {
        loop {
            let byte = self.peek(Expect::CommaOrEnd)?;
            if byte == b',' {
                self.at += 1;
                return Ok(());
            }
            if byte != self.closing_byte() {
                let allowed = if self.in_object() {
                    "a comma or }"
                } else {
                    "a comma or ]"
                };
                return self.bad(ErrorKind::Unexpected(allowed));
            }
            self.close();
            if self.place.depth == 0 {
                return self.blank();
            }
        }
    }

    /// Nothing but blanks may follow the root.
    #[inline(always)]
    fn blank(&mut self) -> Result<(), Stop> {
        self.peek(Expect::Blank)?;
        self.bad(ErrorKind::TrailingData)
    }

    #[inline(always)]
    fn close(&mut self) {
        self.at += 1;
        self.place.depth -= 1;
        self.place.stack >>= 1;
        match self.place.skipped {
            0 => self.reader.close(Inside::Report, self.base + self.at),
            1 => {
                self.place.skipped = 0;
                self.reader.close(Inside::Skip, self.base + self.at);
            }
            _ => self.place.skipped -= 1,
        }
    }

    /// Reads the string that begins here, and says whether it has escape sequences.
    #[inline(always)]
    fn string(&mut self, flight: impl FnOnce(Half) -> Flight) -> Result<bool, Stop> {
        let end = marks::near(self.chunk, self.at + 1);
        if self.chunk.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(false);
        }
        let run = string::run(self.chunk, end);
        self.string_run(run, flight)
    }

    #[inline(always)]
    fn string_run(&mut self, run: Run, flight: impl FnOnce(Half) -> Flight) -> Result<bool, Stop> {
        match run {
            Run::Closed { end, escaped } => {
                self.at = end;
                Ok(escaped)
            }
            Run::Cut(half) => Err(Stop::Cut(Expect::Item, flight(half))),
            Run::Bad { at, kind } => Err(Stop::Bad(kind, at)),
        }
    }

    #[inline(always)]
    fn number(&mut self, start: usize, stage: Stage) -> Result<Scalar, Stop> {
        let (end, stage) = number::run(self.chunk, self.at, stage);
        if end == self.chunk.len() {
            return Err(Stop::Cut(Expect::Item, Flight::Number { start, stage }));
        }
        if !stage.is_complete() {
            return Err(Stop::Bad(ErrorKind::BadNumber, end));
        }
        self.at = end;
        Ok(stage.kind())
    }

    #[inline(always)]
    fn literal(&mut self, start: usize, kind: Scalar, word: &'static [u8]) -> Result<Scalar, Stop> {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(kind);
        }
        let same = rest
            .iter()
            .zip(word)
            .take_while(|(one, other)| one == other)
            .count();
        if same == rest.len() {
            let rest = &word[same..];
            return Err(Stop::Cut(
                Expect::Item,
                Flight::Literal { start, kind, rest },
            ));
        }
        Err(Stop::Bad(
            ErrorKind::Unexpected("true, false or null"),
            self.at + same,
        ))
    }

    /// The next byte that is no blank; where there is none, the next chunk begins with the
    /// step that is named.
    #[inline(always)]
    fn peek(&mut self, expect: Expect) -> Result<u8, Stop> {
        loop {
            match self.chunk.get(self.at) {
                Some(&byte) if byte > b' ' => return Ok(byte),
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return Ok(byte),
                None => return Err(Stop::Cut(expect, Flight::None)),
            }
        }
    }

    #[inline(always)]
    fn bad<T>(&self, kind: ErrorKind) -> Result<T, Stop> {
        Err(Stop::Bad(kind, self.at))
    }

    #[inline(always)]
    fn report_key(&mut self, start: usize, escaped: bool) {
        if self.place.skipped == 0 {
            let token = self.token(start, escaped);
            self.reader.key(token);
        }
    }

    #[inline(always)]
    fn report_scalar(&mut self, kind: Scalar, start: usize, escaped: bool) {
        if self.place.skipped == 0 {
            let token = self.token(start, escaped);
            self.reader.scalar(kind, token);
        }
    }

    /// The token that began at the offset `start`, in this chunk or before, and ends here.
    #[inline(always)]
    fn token(&self, start: usize, escaped: bool) -> Token<'a> {
        let from = start.saturating_sub(self.base);
        let bytes = self.chunk.get(from..self.at).unwrap_or_default();
        Token {
            start,
            end: self.base + self.at,
            bytes,
            escaped,
        }
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.place.stack & 1 == 1
    }

    #[inline(always)]
    fn closing_byte(&self) -> u8 {
        if self.in_object() { b'}' } else { b']' }
    }
}
