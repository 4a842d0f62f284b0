//! Server-sent events: an incremental splitter, as the WHATWG HTML standard reads them
//! ("Server-sent events", "Interpreting an event stream").
//!
//! Everything is bytes: no byte that matters to the format occurs within a character of UTF-8,
//! so a stream with invalid text splits into the same events as its repaired form would.

mod boundary;

use std::fmt;

use memchr::{memchr, memchr2};

pub use boundary::Boundary;

/// A comment, which readers pass over, with a blank line behind it.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A message as an event, each of its lines with a name of its own. In JSON lines end between tokens
/// only, so that it says the same whichever of the three line ends it had.
#[must_use]
pub fn message(message: &[u8]) -> Vec<u8> {
    let mut event = b"event: message\n".to_vec();
    let mut rest = Some(message);
    while let Some(lines) = rest {
        let end = memchr2(b'\n', b'\r', lines);
        let (line, behind) = lines.split_at(end.unwrap_or(lines.len()));
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.extend_from_slice(b"\n");
        rest = end.map(|_| behind.strip_prefix(b"\r\n").unwrap_or(&behind[1..]));
    }
    event.extend_from_slice(b"\n");
    event
}

/// Splits a stream, given in chunks of any size, into events. It holds one event at a time.
#[derive(Debug)]
pub struct Splitter {
    event_bytes_max: usize,
    /// Bytes of the stream that were read.
    offset: u64,
    /// Bytes read since the last blank line: what the bound is about.
    event_bytes: usize,
    /// No line has ended yet.
    first_line: bool,
    /// The last byte was a CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    fields: Fields,
    /// The last event was given out, and its fields are to be cleared.
    given: bool,
}

/// One event with data. Its parts are as they came, not checked to be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its type, if it has one; otherwise it is a `message`.
    pub event: Option<&'a [u8]>,
    /// Its data, lines joined by LF.
    pub data: &'a [u8],
    /// The last event id of the stream, set by this event or one before; empty if none was.
    pub id: &'a [u8],
    /// The reconnection time in milliseconds that the stream last asked for.
    pub retry_ms: Option<u64>,
    /// The offset in the stream at which the data stands in one piece; none where several lines
    /// make it.
    pub data_at: Option<u64>,
    /// The offset in the stream just after the line end that completes the event. Where that is
    /// CR LF, it is between the two: the CR completes the event, and no reader sees a line in an
    /// LF that follows.
    pub end: u64,
}

/// An event has more bytes than it may. The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// The bound.
    pub event_bytes_max: usize,
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a server-sent event has more than {} bytes",
            self.event_bytes_max
        )
    }
}

impl std::error::Error for Oversized {}

impl Splitter {
    /// At the beginning of a stream. An event may have `event_bytes_max` bytes: those of all its
    /// lines, comments and line ends included (a CR LF counts as one).
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Splitter {
        Splitter {
            event_bytes_max,
            offset: 0,
            event_bytes: 0,
            first_line: true,
            after_cr: false,
            line: Vec::new(),
            fields: Fields::default(),
            given: false,
        }
    }

    /// Reads `chunk` up to the end of the next event and gives the event; `chunk` is then what
    /// comes after. Gives `None` once the chunk is used up: call again with the next one. What
    /// is unfinished at the end of the stream is not an event.
    ///
    /// # Errors
    /// [`Oversized`], after all events before; and again on every further call.
    pub fn next<'a>(&'a mut self, chunk: &mut &[u8]) -> Result<Option<Event<'a>>, Oversized> {
        if self.given {
            self.given = false;
            self.fields.clear();
        }
        while !self.given {
            let Some(first) = chunk.first() else {
                return Ok(None);
            };
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                self.offset += 1;
                *chunk = &chunk[1..];
                continue;
            }
            let line_end = memchr2(b'\n', b'\r', chunk);
            let (read, rest) = chunk.split_at(line_end.map_or(chunk.len(), |at| at + 1));
            self.count(read.len())?;
            *chunk = rest;
            match line_end {
                None => self.line.extend_from_slice(read),
                Some(at) => {
                    self.after_cr = read[at] == b'\r';
                    self.end_line(&read[..at]);
                }
            }
        }
        Ok(Some(self.fields.event(self.offset)))
    }

    fn count(&mut self, bytes: usize) -> Result<(), Oversized> {
        if bytes > self.event_bytes_max - self.event_bytes {
            // So that no further byte finds room either.
            self.event_bytes = self.event_bytes_max;
            return Err(Oversized {
                event_bytes_max: self.event_bytes_max,
            });
        }
        self.event_bytes += bytes;
        self.offset += bytes as u64;
        Ok(())
    }

    /// Reads the line that ends with `tail`; a blank one gives out the event, if it has data.
    fn end_line(&mut self, tail: &[u8]) {
        let mut held = std::mem::take(&mut self.line);
        let mut line = if held.is_empty() {
            tail
        } else {
            held.extend_from_slice(tail);
            &held
        };
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.event_bytes = 0;
            self.given = self.fields.has_data;
            if !self.given {
                self.fields.clear();
            }
        } else {
            self.fields.read(line, self.offset - 1);
        }
        held.clear();
        self.line = held;
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the lines of an event have said so far, and what stays from one event to the next.
#[derive(Debug, Default)]
struct Fields {
    event: Vec<u8>,
    data: Vec<u8>,
    /// There was a `data` line; an empty one makes an event too.
    has_data: bool,
    /// Where in the stream the data begins, as long as one line makes it.
    data_at: Option<u64>,
    id: Vec<u8>,
    retry_ms: Option<u64>,
}

impl Fields {
    /// Reads a line that is not blank and ends at this offset in the stream. Unknown fields are
    /// ignored; a comment is one with an empty name.
    fn read(&mut self, line: &[u8], line_end: u64) {
        let (name, value) = match memchr(b':', line) {
            None => (line, &b""[..]),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
        };
        match name {
            b"data" => self.read_data(value, line_end),
            b"event" => replace(&mut self.event, value),
            b"id" if memchr(0, value).is_none() => replace(&mut self.id, value),
            b"retry" => self.retry_ms = milliseconds(value).or(self.retry_ms),
            _ => {}
        }
    }

    fn read_data(&mut self, value: &[u8], line_end: u64) {
        self.data_at = (!self.has_data).then(|| line_end - value.len() as u64);
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn event(&self, end: u64) -> Event<'_> {
        Event {
            event: Some(self.event.as_slice()).filter(|event| !event.is_empty()),
            data: &self.data,
            id: &self.id,
            retry_ms: self.retry_ms,
            data_at: self.data_at,
            end,
        }
    }

    /// Forgets what belongs to one event only.
    fn clear(&mut self) {
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        self.data_at = None;
    }
}

fn replace(field: &mut Vec<u8>, value: &[u8]) {
    field.clear();
    field.extend_from_slice(value);
}

/// A number of ASCII digits alone, else nothing; one beyond 64 bits is as good as the largest.
fn milliseconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0, |number: u64, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests;
