//! JSON, as RFC 8259 defines it: bytes to tokens, whatever chunks the bytes come in.
//!
//! The lexer checks the whole grammar and all of the UTF-8, builds nothing and never recurses.
//! It knows no MCP: whoever reads the tokens ([`Reader`]) says which objects and arrays it
//! wants to see from within; of every other only the beginning and the end are reported, and
//! the bytes between are checked without coming back to the reader.

mod marks;
mod number;
mod pass;
mod string;
mod utf8;

use number::Stage;
use pass::{Pass, Stop};
use string::Half;
use utf8::Utf8;

/// How deep objects and arrays may nest at most, whatever a caller asks for: the kinds of the
/// open ones are kept in one word.
pub const DEPTH_MAX: u32 = 64;

/// Receives the tokens. Commas and colons are none: the lexer checks them and keeps them.
pub trait Reader {
    /// The name of a member; its value comes next.
    fn key(&mut self, token: Token<'_>);
    /// A value without parts.
    fn scalar(&mut self, kind: Scalar, token: Token<'_>);
    /// An object or an array begins at the offset `start`. The answer says whether its parts
    /// are to be reported.
    fn open(&mut self, kind: Container, start: usize) -> Inside;
    /// The object or array that was opened last ends, right before the offset `end`;
    /// `inside` is what was answered when it began.
    fn close(&mut self, inside: Inside, end: usize);
}

/// A complete token. Offsets count from the first byte of the first chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'c> {
    /// The offset of its first byte; for a key or a string that is the opening quote.
    pub start: usize,
    /// The offset behind its last byte.
    pub end: usize,
    /// What of it lies in the present chunk: all of it, unless it began in an earlier one.
    pub bytes: &'c [u8],
    /// Whether a key or a string has an escape sequence in it.
    pub escaped: bool,
}

/// A token of which only the beginning has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// How many bytes of it have been read, in all chunks so far.
    pub len: usize,
    /// Whether it is a key.
    pub is_key: bool,
}

/// The kinds of values without parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number with neither point nor exponent.
    Integer,
    /// Any other number.
    Decimal,
    /// A string.
    String,
}

/// The kinds of values with parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
}

/// What a reader wants to know of the parts of an object or array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// Each of them.
    Report,
    /// Nothing; they are only checked.
    Skip,
}

/// Why the bytes are no JSON, and at which offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The offset of the first byte that cannot be what it is; for [`ErrorKind::Truncated`]
    /// the length.
    pub at: usize,
}

/// The ways in which bytes fail to be JSON, and the one in which they are JSON but too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// A byte that the grammar does not allow here; the text says what it would have allowed.
    Unexpected(&'static str),
    /// A byte below 0x20 within a string.
    ControlCharacter,
    /// A backslash that is not followed by a known escape sequence.
    BadEscape,
    /// A number that ends too early, such as `1.` or `-`.
    BadNumber,
    /// Something other than blanks behind the root value.
    TrailingData,
    /// The very first byte is 0xEF, with which a byte order mark begins.
    ByteOrderMark,
    /// A sequence of bytes that is no UTF-8.
    InvalidUtf8,
    /// The bytes end before the root value does.
    Truncated,
    /// Objects and arrays nest deeper than allowed. This alone is no offence against JSON.
    TooDeep,
}

/// What the lexer remembers from one chunk to the next.
#[derive(Clone, Debug)]
pub struct Lexer {
    place: Place,
    expect: Expect,
    flight: Flight,
    /// The offset of the chunk that comes next.
    base: usize,
    utf8: Utf8,
    depth_max: u32,
}

/// Where in the tree we are.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// A bit for each open object (1) or array (0), the innermost the lowest.
    stack: u64,
    depth: u32,
    /// How many of the open ones lie within, and include, one whose parts are skipped.
    skipped: u32,
}

/// What the grammar expects where a chunk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    /// A member of an object, an element of an array, or the root.
    Item,
    /// The same, or the end of the object or array that has just begun.
    ItemOrEnd,
    Colon,
    Value,
    CommaOrEnd,
    /// Nothing but blanks, because the root is complete.
    Blank,
}

/// A token that the end of a chunk cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flight {
    None,
    Key {
        start: usize,
        half: Half,
    },
    String {
        start: usize,
        half: Half,
    },
    Number {
        start: usize,
        stage: Stage,
    },
    Literal {
        start: usize,
        kind: Scalar,
        rest: &'static [u8],
    },
}

impl Lexer {
    /// A lexer at the beginning of a body, which refuses more than `depth_max` objects and
    /// arrays within one another (at most [`DEPTH_MAX`]).
    #[inline]
    pub fn new(depth_max: u32) -> Lexer {
        Lexer {
            place: Place {
                stack: 0,
                depth: 0,
                skipped: 0,
            },
            expect: Expect::Item,
            flight: Flight::None,
            base: 0,
            utf8: Utf8::default(),
            depth_max: depth_max.min(DEPTH_MAX),
        }
    }

    /// Reads the next chunk. After an error the lexer is of no further use.
    #[inline]
    pub fn feed(&mut self, chunk: &[u8], reader: &mut impl Reader) -> Result<(), Error> {
        let Err(invalid) = self.utf8.check(chunk, self.base) else {
            return self.read(chunk, reader);
        };
        // What stands before the offence is read first, because it may be worse.
        let readable = (invalid + 1).saturating_sub(self.base);
        self.read(chunk.get(..readable).unwrap_or_default(), reader)?;
        Err(Error {
            kind: ErrorKind::InvalidUtf8,
            at: invalid,
        })
    }

    /// The end of the body. A number at the root is reported only now, because until now it
    /// could have gone on.
    pub fn finish(&mut self, reader: &mut impl Reader) -> Result<(), Error> {
        let unfinished = self.utf8.unfinished();
        if unfinished > 0 {
            return Err(Error {
                kind: ErrorKind::InvalidUtf8,
                at: self.base - unfinished,
            });
        }
        match self.flight {
            Flight::None if self.expect == Expect::Blank => Ok(()),
            Flight::Number { start, stage } if self.place.depth == 0 && stage.is_complete() => {
                let token = Token {
                    start,
                    end: self.base,
                    bytes: &[],
                    escaped: false,
                };
                reader.scalar(stage.kind(), token);
                Ok(())
            }
            _ => Err(Error {
                kind: ErrorKind::Truncated,
                at: self.base,
            }),
        }
    }

    /// The token that the end of the last chunk cut, if it is one that will be reported.
    pub fn cut_token(&self) -> Option<Cut> {
        let (start, is_key) = match self.flight {
            _ if self.place.skipped > 0 => return None,
            Flight::None => return None,
            Flight::Key { start, .. } => (start, true),
            Flight::String { start, .. }
            | Flight::Number { start, .. }
            | Flight::Literal { start, .. } => (start, false),
        };
        Some(Cut {
            len: self.base - start,
            is_key,
        })
    }

    #[inline]
    fn read(&mut self, chunk: &[u8], reader: &mut impl Reader) -> Result<(), Error> {
        let (place, stop) = Pass::new(self, chunk, reader).run(self.expect, self.flight);
        match stop {
            Stop::Cut(expect, flight) => {
                self.place = place;
                self.expect = expect;
                self.flight = flight;
                self.base += chunk.len();
                Ok(())
            }
            Stop::Bad(_, _) if self.base == 0 && chunk.first() == Some(&0xEF) => Err(Error {
                kind: ErrorKind::ByteOrderMark,
                at: 0,
            }),
            Stop::Bad(kind, at) => Err(Error {
                kind,
                at: self.base + at,
            }),
        }
    }
}
