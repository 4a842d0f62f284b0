//! The splitter against the standard's rules, written down once more.

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
    let mut stream = Vec::new();
    for mut chunk in chunks {
        stream.extend_from_slice(chunk);
        loop {
            match splitter.next(&mut chunk) {
                Ok(Some(event)) => {
                    assert!(!refused, "an event after the refusal");
                    stands_where_it_says(&event, &stream);
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

/// The data of one line is in the stream where the event says; that of several, joined, is not.
fn stands_where_it_says(event: &Event<'_>, stream: &[u8]) {
    let Some(at) = event.data_at else {
        assert!(event.data.contains(&b'\n'), "{event:?}");
        return;
    };
    let at = usize::try_from(at).unwrap();
    assert!(stream[at..].starts_with(event.data), "{event:?}");
    assert!(!event.data.contains(&b'\n'), "{event:?}");
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

#[test]
fn a_message_is_one_event_whatever_ends_its_lines() {
    for text in ["{\r\"a\":1\r}", "{\n\"a\":1\n}", "{\r\n\"a\":1\r\n}"] {
        let stream = message(text.as_bytes());
        let (events, _) = split(1 << 20, [&stream[..]]);
        assert_eq!(events[0].data, b"{\n\"a\":1\n}", "{text:?}");
        assert_eq!(events.len(), 1, "{text:?}");
    }
    assert_eq!(
        message(b"a\r\r\n\n"),
        b"event: message\ndata: a\ndata: \ndata: \ndata: \n\n"
    );
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
