//! The messages of an event stream, read as they pass. One that must not leave as it came is held
//! until it is complete, and leaves otherwise; everything else passes at once, byte for byte.

use bytes::{Bytes, BytesMut};

use crate::protocol::event::{self, Boundary, Event, Oversized, Splitter};

/// Reads the messages of an answer.
pub(in crate::gateway) trait Reader: Send {
    /// Whether messages leave otherwise than they came. Those of a reader that only looks are never
    /// held.
    fn edits(&self) -> bool;

    /// What becomes of this message, the data of one event.
    fn read(&mut self, message: &[u8]) -> Verdict;

    /// An event is longer than what is held. The rest passes unread, or the stream ends with this
    /// event.
    fn exceeded(&mut self) -> Option<Bytes>;

    /// The stream has ended; `cut` where it did so within an event that was held. Gives the event
    /// that it ends with then.
    fn ended(&mut self, cut: bool) -> Option<Bytes>;
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Verdict {
    /// It leaves as it came.
    Pass,
    /// This message leaves in its place.
    Replace(Bytes),
    /// The stream ends, with this event in its place.
    End(Bytes),
}

/// What leaves of a chunk, and whether the stream ends with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) bytes: Bytes,
    pub(super) ends: bool,
}

impl Leaving {
    /// All of a chunk that passes.
    pub(super) fn all(bytes: Bytes) -> Leaving {
        Leaving { bytes, ends: false }
    }
}

/// The messages of one stream.
pub(super) struct Messages {
    reader: Box<dyn Reader>,
    splitter: Splitter,
    boundary: Boundary,
    /// What has come of an event that is not complete, from the end of the last one on.
    held: BytesMut,
    /// Where in the stream that begins.
    begin: u64,
    /// Nothing is read any more.
    unread: bool,
}

impl Messages {
    /// Those of a stream that begins, whose events may have `event_bytes_max` bytes to be read.
    pub(super) fn new(reader: Box<dyn Reader>, event_bytes_max: usize) -> Messages {
        Messages {
            reader,
            splitter: Splitter::new(event_bytes_max),
            boundary: Boundary::default(),
            held: BytesMut::new(),
            begin: 0,
            unread: false,
        }
    }

    /// Whether some may leave otherwise than they came.
    pub(super) fn edits(&self) -> bool {
        self.reader.edits()
    }

    /// Reads a chunk, and gives what leaves of the stream.
    pub(super) fn pass(&mut self, chunk: Bytes) -> Leaving {
        if self.unread {
            return Leaving::all(chunk);
        }
        if self.reader.edits() {
            return self.edit(chunk);
        }
        let mut rest = &chunk[..];
        loop {
            match self.splitter.next(&mut rest) {
                Ok(Some(event)) if is_message(&event) => {
                    let _ = self.reader.read(event.data);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Oversized { .. }) => {
                    let _ = self.reader.exceeded();
                    self.unread = true;
                    break;
                }
            }
        }
        Leaving::all(chunk)
    }

    /// The stream ends here; gives the event that it ends with, if that is one of ours.
    pub(super) fn end(&mut self) -> Option<Bytes> {
        let cut = !self.held.is_empty();
        self.reader.ended(cut)
    }

    fn edit(&mut self, chunk: Bytes) -> Leaving {
        // What the upstream has put between two events passes on at once, so that a comment that
        // keeps the connection alive still does.
        let _ = self.boundary.pass(chunk.clone());
        self.held.extend_from_slice(&chunk);
        let mut out = BytesMut::new();
        let mut rest = &chunk[..];
        loop {
            let event = match self.splitter.next(&mut rest) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(Oversized { .. }) => {
                    self.unread = true;
                    return match self.reader.exceeded() {
                        None => {
                            out.unsplit(self.held.split());
                            leaving(out, false)
                        }
                        Some(last) => {
                            self.held.clear();
                            out.extend_from_slice(&last);
                            leaving(out, true)
                        }
                    };
                }
            };
            let verdict = match is_message(&event) {
                true => self.reader.read(event.data),
                false => Verdict::Pass,
            };
            let length = usize::try_from(event.end - self.begin).unwrap_or(usize::MAX);
            let came = self.held.split_to(length.min(self.held.len()));
            match verdict {
                Verdict::Pass => out.extend_from_slice(&came),
                Verdict::Replace(message) => replace(&mut out, &came, &event, self.begin, &message),
                Verdict::End(last) => {
                    self.held.clear();
                    self.unread = true;
                    out.extend_from_slice(&last);
                    return leaving(out, true);
                }
            }
            self.begin = event.end;
        }
        if self.boundary.is_between() {
            self.begin += self.held.len() as u64;
            out.unsplit(self.held.split());
        }
        leaving(out, false)
    }
}

fn leaving(out: BytesMut, ends: bool) -> Leaving {
    Leaving {
        bytes: out.freeze(),
        ends,
    }
}

/// Writes `message` in place of the one that `came` has, and all other fields of its event as they
/// are; but for the data that several lines make, or a message of several lines, for which the event
/// is written anew.
fn replace(out: &mut BytesMut, came: &[u8], event: &Event<'_>, begin: u64, message: &[u8]) {
    let at = event
        .data_at
        .and_then(|at| usize::try_from(at.checked_sub(begin)?).ok())
        .filter(|_| !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
    match at.and_then(|at| came.get(..at).zip(came.get(at + event.data.len()..))) {
        Some((before, behind)) => {
            out.extend_from_slice(before);
            out.extend_from_slice(message);
            out.extend_from_slice(behind);
        }
        None => {
            if !event.id.is_empty() {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(event.id);
                out.extend_from_slice(b"\n");
            }
            out.extend_from_slice(&event::message(message));
        }
    }
}

/// Whether clients read a message in an event: they pass over other types, and over the event
/// that only has an id, with which servers begin a stream that can be resumed.
pub(in crate::gateway) fn is_message(event: &Event<'_>) -> bool {
    !event.data.is_empty() && event.event.is_none_or(|kind| kind == b"message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces messages that begin so, and looks at the others.
    struct Script {
        edits: bool,
        seen: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    }

    impl Reader for Script {
        fn edits(&self) -> bool {
            self.edits
        }

        fn read(&mut self, message: &[u8]) -> Verdict {
            let text = String::from_utf8(message.to_vec()).unwrap();
            let verdict = match text.as_str() {
                "list" => Verdict::Replace(Bytes::from_static(b"shorter")),
                "lines" => Verdict::Replace(Bytes::from_static(b"{\n}")),
                "bad" => Verdict::End(Bytes::from_static(b"data: error\n\n")),
                _ => Verdict::Pass,
            };
            self.seen.lock().unwrap().push(text);
            verdict
        }

        fn exceeded(&mut self) -> Option<Bytes> {
            self.edits
                .then(|| Bytes::from_static(b"data: too long\n\n"))
        }

        fn ended(&mut self, cut: bool) -> Option<Bytes> {
            cut.then(|| Bytes::from_static(b"data: cut\n\n"))
        }
    }

    /// What leaves of a stream that comes in chunks of this size, chunk by chunk, and what was read.
    fn run(stream: &str, size: usize, edits: bool) -> (Vec<String>, Vec<String>) {
        let seen = std::sync::Arc::default();
        let script = Script {
            edits,
            seen: std::sync::Arc::clone(&seen),
        };
        let mut messages = Messages::new(Box::new(script), 64);
        let mut out = Vec::new();
        for chunk in stream.as_bytes().chunks(size) {
            let leaving = messages.pass(Bytes::copy_from_slice(chunk));
            out.push(String::from_utf8(leaving.bytes.to_vec()).unwrap());
            if leaving.ends {
                let seen = seen.lock().unwrap().clone();
                return (out, seen);
            }
        }
        out.extend(
            messages
                .end()
                .map(|last| String::from_utf8(last.to_vec()).unwrap()),
        );
        let seen = seen.lock().unwrap().clone();
        (out, seen)
    }

    #[test]
    fn a_message_is_replaced_and_all_other_bytes_stay() {
        let stream = ": hello\n\nid: 7\nevent: message\ndata: note\nretry: 5\n\nid: 8\ndata:list\n: c\n\n: bye\n\n";
        let replaced = stream.replace("list", "shorter");
        for size in 1..=stream.len() {
            let (out, seen) = run(stream, size, true);
            assert_eq!(out.concat(), replaced, "in chunks of {size}");
            assert_eq!(seen, ["note", "list"]);
            let (out, seen) = run(stream, size, false);
            assert_eq!(out.concat(), stream, "one that only looks changes nothing");
            assert_eq!(seen, ["note", "list"]);
        }
    }

    #[test]
    fn what_does_not_fit_in_one_line_is_written_anew() {
        for stream in ["id: 3\ndata: lines\n\n", "id: 3\r\ndata: lines\r\n\r\n"] {
            let (out, _) = run(stream, stream.len(), true);
            let rest = stream.strip_prefix("id: 3\r\n").map_or("", |_| "\n");
            assert_eq!(
                out.concat(),
                format!("id: 3\nevent: message\ndata: {{\ndata: }}\n\n{rest}")
            );
        }
    }

    #[test]
    fn comments_and_whole_events_do_not_wait() {
        let (out, _) = run(": alive\n", 4, true);
        assert_eq!(out, ["", ": alive\n"]);
        let (out, _) = run("data: note\n\ndata: no", 12, true);
        assert_eq!(out, ["data: note\n\n", "", "data: cut\n\n"]);
    }

    #[test]
    fn a_stream_ends_at_what_cannot_be_read_and_must_be() {
        let (out, _) = run("data: a\n\ndata: bad\n\ndata: b\n\n", 64, true);
        assert_eq!(out.concat(), "data: a\n\ndata: error\n\n");
        let long = format!("data: a\n\ndata: {}\n\n", "x".repeat(64));
        let (out, _) = run(&long, 16, true);
        assert_eq!(out.concat(), "data: a\n\ndata: too long\n\n");
        let (out, seen) = run(&long, 16, false);
        assert_eq!(out.concat(), long, "one that only looks lets it pass");
        assert_eq!(seen, ["a"]);
    }
}
