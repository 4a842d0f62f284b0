//! Server-sent events: an incremental splitter, as the WHATWG HTML standard reads them
//! ("Server-sent events", "Interpreting an event stream").
//!
//! Everything is bytes: no byte that matters to the format occurs within a character of UTF-8,
//! so a stream with invalid text splits into the same events as its repaired form would.

use std::fmt;

use memchr::{memchr, memchr2};

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
            self.fields.read(line);
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
    id: Vec<u8>,
    retry_ms: Option<u64>,
}

impl Fields {
    /// Reads a line that is not blank. Unknown fields are ignored; a comment is one with an
    /// empty name.
    fn read(&mut self, line: &[u8]) {
        let (name, value) = match memchr(b':', line) {
            None => (line, &b""[..]),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
        };
        match name {
            b"data" => self.read_data(value),
            b"event" => replace(&mut self.event, value),
            b"id" if memchr(0, value).is_none() => replace(&mut self.id, value),
            b"retry" => self.retry_ms = milliseconds(value).or(self.retry_ms),
            _ => {}
        }
    }

    fn read_data(&mut self, value: &[u8]) {
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
            end,
        }
    }

    /// Forgets what belongs to one event only.
    fn clear(&mut self) {
        self.event.clear();
        self.data.clear();
        self.has_data = false;
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event that owns its parts, so that a test can keep it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Kept {
        event: Option<Vec<u8>>,
        data: Vec<u8>,
        id: Vec<u8>,
        retry_ms: Option<u64>,
        end: u64,
    }

    fn data(data: &[u8], end: u64) -> Kept {
        Kept {
            data: data.to_vec(),
            end,
            ..Kept::default()
        }
    }

    /// All events of a stream that comes in these chunks, and whether it was refused.
    fn split<'a>(
        event_bytes_max: usize,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Kept>, bool) {
        let mut splitter = Splitter::new(event_bytes_max);
        let mut events = Vec::new();
        let mut refused = false;
        for mut chunk in chunks {
            loop {
                match splitter.next(&mut chunk) {
                    Ok(Some(event)) => {
                        assert!(!refused, "an event after the refusal");
                        events.push(Kept {
                            event: event.event.map(<[u8]>::to_vec),
                            data: event.data.to_vec(),
                            id: event.id.to_vec(),
                            retry_ms: event.retry_ms,
                            end: event.end,
                        });
                    }
                    Ok(None) => break,
                    Err(Oversized { .. }) => {
                        refused = true;
                        break;
                    }
                }
            }
        }
        (events, refused)
    }

    fn events(stream: &[u8]) -> Vec<Kept> {
        let (events, refused) = split(1 << 20, [stream]);
        assert!(!refused);
        events
    }

    #[test]
    fn every_line_end_ends_a_line() {
        for (end, event_end) in [("\n", 9), ("\r", 9), ("\r\n", 10)] {
            let stream = format!("data: 1{end}{end}data:2{end}{end}");
            let found = events(stream.as_bytes());
            let second = event_end + 6 + end.len() as u64 * 2;
            assert_eq!(found[0], data(b"1", event_end), "{end:?}");
            assert_eq!(found[1], data(b"2", second), "{end:?}");
            assert_eq!(found.len(), 2, "{end:?}");
        }
        assert_eq!(events(b"data: 1\n\rdata: 2\r\n\n").len(), 2, "mixed");
    }

    #[test]
    fn one_blank_after_the_colon_is_not_data() {
        assert_eq!(events(b"data:a\n\n")[0].data, b"a");
        assert_eq!(events(b"data: a\n\n")[0].data, b"a");
        assert_eq!(events(b"data:  a \n\n")[0].data, b" a ");
        assert_eq!(events(b"data:\ta\n\n")[0].data, b"\ta");
    }

    #[test]
    fn data_lines_are_joined() {
        assert_eq!(events(b"data: {\ndata\ndata: }\n\n"), [data(b"{\n\n}", 22)]);
        assert_eq!(events(b"data\n\n"), [data(b"", 6)]);
        assert_eq!(events(b"data\ndata\n\n"), [data(b"\n", 11)]);
    }

    #[test]
    fn only_data_makes_an_event() {
        let stream = b": hello\n\nevent: lost\nid: 7\nretry: 250\n\n: ping\ndata: x\n\n";
        let found = events(stream);
        assert_eq!(
            found,
            [Kept {
                id: b"7".to_vec(),
                retry_ms: Some(250),
                ..data(b"x", stream.len() as u64)
            }],
            "the type is forgotten at the blank line, id and time stay"
        );
    }

    #[test]
    fn types_belong_to_one_event() {
        let found = events(b"event: a\nevent: message\ndata: 1\n\ndata: 2\n\n");
        assert_eq!(found[0].event.as_deref(), Some(&b"message"[..]));
        assert_eq!(found[1].event, None);
    }

    #[test]
    fn unusable_ids_and_times_are_ignored() {
        let stream = b"id: 1\nid: \0\nretry: 10\nretry: 1s\nretry:\nretry: -1\ndata\n\n\
            id\nretry: 99999999999999999999999\ndata\n\n";
        let found = events(stream);
        assert_eq!((&found[0].id[..], found[0].retry_ms), (&b"1"[..], Some(10)));
        assert_eq!(
            (&found[1].id[..], found[1].retry_ms),
            (&b""[..], Some(u64::MAX))
        );
    }

    #[test]
    fn names_are_exact() {
        assert_eq!(events(b"Data: x\n data: x\ndata : x\ndatas: x\n\n"), []);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        assert_eq!(events(b"\xef\xbb\xbfdata: x\n\n"), [data(b"x", 12)]);
        assert_eq!(events(b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n"), []);
        assert_eq!(events(b"\n\xef\xbb\xbfdata: x\n\n"), []);
        assert_eq!(events(b"\xef\xbbdata: x\n\n"), []);
    }

    #[test]
    fn what_is_unfinished_is_not_an_event() {
        assert_eq!(events(b"data: x"), []);
        assert_eq!(events(b"data: x\n"), []);
        assert_eq!(events(b"data: x\r\n"), []);
    }

    #[test]
    fn data_need_not_be_text() {
        assert_eq!(events(b"data: \xff\xc3\0\n\n"), [data(b"\xff\xc3\0", 11)]);
    }

    #[test]
    fn an_event_is_out_as_soon_as_its_last_byte_is_in() {
        let mut splitter = Splitter::new(64);
        let mut chunk: &[u8] = b"data: x\r\n\r";
        let event = splitter.next(&mut chunk).unwrap().map(|event| event.end);
        assert_eq!(event, Some(10), "without waiting for an LF");
        let mut chunk: &[u8] = b"\ndata: y\n\nrest";
        let event = splitter.next(&mut chunk).unwrap().map(|event| event.end);
        assert_eq!(event, Some(20), "and an LF that follows is no line");
        assert_eq!(chunk, b"rest");
    }

    #[test]
    fn the_bound_is_per_event_and_final() {
        let fits = b": c\ndata: 12\n\n".repeat(3);
        assert_eq!(split(14, [&fits[..]]), {
            let found = [14, 28, 42].map(|end| data(b"12", end));
            (found.to_vec(), false)
        });
        let (found, refused) = split(14, [&fits[..], b"data: 1234567\n\n", b"\n", &fits]);
        assert_eq!((found.len(), refused), (3, true));
        let comments = b":\n\n".repeat(100);
        assert_eq!(split(3, [&comments[..]]), (Vec::new(), false));
        let endless = b":\n".repeat(100);
        assert_eq!(split(64, [&endless[..]]), (Vec::new(), true));
    }

    /// The standard's rules once more, over the whole stream at once and without regard to cost.
    fn reference(event_bytes_max: usize, stream: &[u8]) -> (Vec<Kept>, bool) {
        let (mut events, mut next) = (Vec::new(), Kept::default());
        let (mut data_buffer, mut line, mut event_bytes) = (Vec::new(), Vec::new(), 0);
        let mut first = true;
        for (at, byte) in stream.iter().copied().enumerate() {
            if byte == b'\n' && at > 0 && stream[at - 1] == b'\r' {
                continue;
            }
            event_bytes += 1;
            if event_bytes > event_bytes_max {
                return (events, true);
            }
            if byte != b'\n' && byte != b'\r' {
                line.push(byte);
                continue;
            }
            if first && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
            first = false;
            if line.is_empty() {
                event_bytes = 0;
                if data_buffer.pop().is_some() {
                    next.data = std::mem::take(&mut data_buffer);
                    next.end = at as u64 + 1;
                    events.push(next.clone());
                }
                next.event = None;
                continue;
            }
            let line = std::mem::take(&mut line);
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = parts.next().unwrap();
            let mut value = parts.next().unwrap_or_default().to_vec();
            if value.first() == Some(&b' ') {
                value.remove(0);
            }
            let digits = String::from_utf8_lossy(&value).into_owned();
            match std::str::from_utf8(name) {
                Ok("event") => next.event = Some(value).filter(|event| !event.is_empty()),
                Ok("data") => data_buffer.extend([value, b"\n".to_vec()].concat()),
                Ok("id") if !value.contains(&0) => next.id = value,
                Ok("retry") if !digits.contains('+') => {
                    next.retry_ms = digits.parse().ok().or(next.retry_ms);
                }
                _ => {}
            }
        }
        (events, false)
    }

    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => prop::sample::select(vec![&b"\n"[..], b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"]),
            4 => prop::sample::select(vec![
                &b"data:"[..], b"data: ", b"data", b"event: ", b"id:", b"retry: ", b":", b" ",
            ]),
            3 => prop::sample::select(vec![
                &b"x"[..], b"250", b"+1", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xef\xbb", b"{\"a\":1}",
            ]),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_split_gives_what_the_reference_gives(
            stream in streams(),
            event_bytes_max in prop_oneof![Just(1 << 20), 0_usize..24],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let expected = reference(event_bytes_max, &stream);
            for at in 0..=stream.len() {
                let (left, right) = stream.split_at(at);
                prop_assert_eq!(&split(event_bytes_max, [left, right]), &expected, "at {}", at);
            }
            prop_assert_eq!(&split(event_bytes_max, stream.chunks(1)), &expected);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(&split(event_bytes_max, chunks), &expected);
        }
    }
}
