//! Where in a stream that passes by something can be put between two events.

use bytes::{Buf, Bytes};
use memchr::memchr2;

use super::BYTE_ORDER_MARK;

/// Follows the bytes of a stream, in chunks of any size, and knows whether they stand between two
/// events. It holds nothing of them.
#[derive(Debug)]
pub struct Boundary {
    /// Something has passed.
    begun: bool,
    /// No byte of the current line has come.
    at_line_start: bool,
    /// There was a line since the last blank one that is not a comment.
    in_event: bool,
    /// There was such a line at all.
    had_event: bool,
    /// The last byte was a CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// Something was put in before the first byte, so that a byte-order mark would no longer be
    /// one; this many bytes of it were kept back.
    mark: Option<usize>,
}

impl Default for Boundary {
    fn default() -> Self {
        Boundary {
            begun: false,
            at_line_start: true,
            in_event: false,
            had_event: false,
            after_cr: false,
            mark: None,
        }
    }
}

impl Boundary {
    /// Whether the stream stands between two events, so that a comment or an event of its own can
    /// follow what has passed and no reader sees other events than without it.
    ///
    /// After a CR this may be between the two halves of a line end. Whoever puts something in then
    /// ends it with a blank line, and the LF that follows is another blank line, which means
    /// nothing.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.at_line_start && !self.in_event
    }

    /// Whether a part of an event has passed, which readers drop if the stream ends here.
    #[must_use]
    pub fn is_in_event(&self) -> bool {
        self.in_event
    }

    /// Whether any part of any event has passed.
    #[must_use]
    pub fn had_event(&self) -> bool {
        self.had_event
    }

    /// Says that whole lines and a blank one were put in here.
    pub fn insert(&mut self) {
        if !self.begun && self.mark.is_none() {
            self.mark = Some(0);
        }
    }

    /// Follows a chunk, and gives what passes of it: everything, but for a byte-order mark that
    /// does not stand at the beginning any more.
    #[must_use]
    pub fn pass(&mut self, chunk: Bytes) -> Bytes {
        let chunk = match self.mark {
            Some(kept_back) => self.without_mark(kept_back, chunk),
            None => chunk,
        };
        self.follow(&chunk);
        chunk
    }

    fn without_mark(&mut self, kept_back: usize, mut chunk: Bytes) -> Bytes {
        let due = &BYTE_ORDER_MARK[kept_back..];
        let common = due.len().min(chunk.len());
        if chunk[..common] != due[..common] {
            self.mark = None;
            if kept_back == 0 {
                return chunk;
            }
            // It was none, and what was kept back belongs before this.
            return [&BYTE_ORDER_MARK[..kept_back], &chunk].concat().into();
        }
        chunk.advance(common);
        let kept_back = kept_back + common;
        self.mark = (kept_back < BYTE_ORDER_MARK.len()).then_some(kept_back);
        chunk
    }

    fn follow(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            self.begun = true;
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let line_end = memchr2(b'\n', b'\r', rest);
            if self.at_line_start && line_end != Some(0) && *first != b':' {
                self.in_event = true;
                self.had_event = true;
            }
            let Some(at) = line_end else {
                self.at_line_start = false;
                return;
            };
            if self.at_line_start && at == 0 {
                self.in_event = false;
            }
            self.at_line_start = true;
            self.after_cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::event::{KEEP_ALIVE, Splitter, message};

    fn after(chunks: &[&'static str]) -> Boundary {
        let mut boundary = Boundary::default();
        for chunk in chunks {
            let passed = boundary.pass(Bytes::from_static(chunk.as_bytes()));
            assert_eq!(passed, chunk.as_bytes());
        }
        boundary
    }

    #[test]
    fn between_events_is_where_no_field_waits_for_its_blank_line() {
        for (chunks, between, in_event) in [
            (&[""][..], true, false),
            (&["data: 1\n\n"], true, false),
            (&["data: 1\n"], false, true),
            (&["data: 1"], false, true),
            (&["data: 1\n", "\n"], true, false),
            (&["data: 1\r\n\r\n"], true, false),
            (&["data: 1\r\n"], false, true),
            (&["data: 1\r", "\n"], false, true),
            (&["data: 1\r", "\n", "\r"], true, false),
            (&["data: 1\r\r"], true, false),
            (&["data: 1\r", "\r", "\n"], true, false),
            (&["data: 1\n\r"], true, false),
            (&["data: 1\n\ndata"], false, true),
            (&["id: 7\n"], false, true),
            (&["no field\n"], false, true),
            (&[": ping"], false, false),
            (&[": ping\n"], true, false),
            (&[":\r\n"], true, false),
            (&["data: 1\n: ping\n"], false, true),
            (&["\n\n\n"], true, false),
        ] {
            let boundary = after(chunks);
            let found = (boundary.is_between(), boundary.is_in_event());
            assert_eq!(found, (between, in_event), "{chunks:?}");
            let fields = chunks.concat().replace(": ping", "").replace(':', "");
            assert_eq!(
                boundary.had_event(),
                !fields.trim().is_empty(),
                "{chunks:?}"
            );
        }
    }

    #[test]
    fn a_mark_that_would_stand_in_the_middle_is_left_out() {
        for (chunks, passed) in [
            (&["\u{feff}data: 1\n\n"][..], "data: 1\n\n"),
            (&["", "data: 1\n\n"], "data: 1\n\n"),
            (&["data: \u{feff}1\n\n"], "data: \u{feff}1\n\n"),
        ] {
            let mut boundary = Boundary::default();
            boundary.insert();
            let all: Vec<u8> = chunks
                .iter()
                .flat_map(|chunk| boundary.pass(Bytes::from_static(chunk.as_bytes())))
                .collect();
            assert_eq!(String::from_utf8(all).unwrap(), passed);
        }
        // What only begins like one passes, as soon as that is known.
        let mut boundary = Boundary::default();
        boundary.insert();
        let chunks: [&'static [u8]; 3] = [b"\xef", b"\xbb", b"\xbedata"];
        let passed = chunks.map(|chunk| boundary.pass(Bytes::from_static(chunk)));
        assert_eq!(passed[..2], [Bytes::new(), Bytes::new()]);
        assert_eq!(passed[2], &b"\xef\xbb\xbedata"[..]);
    }

    type Read = (Option<Vec<u8>>, Vec<u8>, Vec<u8>, Option<u64>);

    fn events(stream: &[u8]) -> Vec<Read> {
        let mut splitter = Splitter::new(1 << 20);
        let (mut unread, mut events) = (stream, Vec::new());
        while let Some(event) = splitter.next(&mut unread).unwrap() {
            events.push((
                event.event.map(<[u8]>::to_vec),
                event.data.to_vec(),
                event.id.to_vec(),
                event.retry_ms,
            ));
        }
        events
    }

    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "data: 1",
            "data:",
            "data",
            "id: a",
            "id",
            "event: x",
            "retry: 5",
            ":",
            ": ping",
            "x",
            "\n",
            "\n",
            "\r",
            "\r",
            "\r\n",
            "\r\n",
            "\u{feff}",
            "\u{e9}",
            ":\n",
            "data: 2\n\n",
        ]);
        let mark = prop::sample::select(vec![&b""[..], b"\xef\xbb\xbf", b"\xef", b"\xef\xbb"]);
        (mark, prop::collection::vec(piece, 0..24))
            .prop_map(|(mark, pieces)| [mark, pieces.concat().as_bytes()].concat())
    }

    proptest! {
        /// Whatever the chunks are and whenever comments are put in, readers see the same events.
        #[test]
        fn comments_between_events_change_none(
            stream in streams(),
            cuts in prop::collection::vec((1_usize..9, any::<bool>()), 0..40),
        ) {
            let mut boundary = Boundary::default();
            let (mut rest, mut sent) = (Bytes::from(stream.clone()), Vec::new());
            for (length, comments) in cuts.into_iter().chain([(usize::MAX, true)]) {
                if comments && boundary.is_between() {
                    boundary.insert();
                    sent.extend_from_slice(KEEP_ALIVE);
                }
                sent.extend(boundary.pass(rest.split_to(length.min(rest.len()))));
            }
            prop_assert_eq!(events(&sent), events(&stream));
        }

        /// A last event that is put in between events is the last that readers see, and whole.
        #[test]
        fn a_last_event_is_one_of_its_own(stream in streams()) {
            for length in 0..=stream.len() {
                let begun = &stream[..length];
                let mut boundary = Boundary::default();
                let _ = boundary.pass(Bytes::copy_from_slice(begun));
                if !boundary.is_between() {
                    continue;
                }
                let with_last = events(&[begun, &message(b"{\"id\":1}")].concat());
                let (last, before) = with_last.split_last().unwrap();
                let before_alone = events(begun);
                prop_assert_eq!(before, &before_alone[..]);
                prop_assert_eq!(&last.1, b"{\"id\":1}");
            }
        }
    }
}
