//! Streams of events, read to their ends; every event is counted and must come in its order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::calls::on_each_connection;
use crate::http1::{self, Answer};
use crate::plan::Plan;
use crate::seen::{Fault, Seen};
use crate::wire::Wire;

/// What an event says of itself, in the bytes that `serve` writes and `events` reads.
pub(crate) const NUMBER_KEY: &str = "\"progress\":";
pub(crate) const SENT_KEY: &str = "\"sentNs\":";
pub(crate) const TOTAL_KEY: &str = "\"total\":";

/// Runs the plan and prints what was seen; a latency is the time from an event's writing by the
/// server to its reading here.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    println!("{}", on_each_connection(plan, converse));
    Ok(())
}

/// Nanoseconds of the clock that all processes of this machine share.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn converse(plan: &Plan, _number: u32, wire: &Wire, seen: &mut Seen) -> Result<(), Fault> {
    wire.send(&[http1::head(plan, plan.body.len()), plan.body.clone()].concat())
        .map_err(|error| Fault::Refused(format!("sending: {error}")))?;
    let mut answer = Answer::default();
    let mut chunked = answer.read_stream_head(wire)?;
    let mut stream = Stream::default();
    stream.read(&mut chunked, answer.body(), seen)?;
    let mut piece = vec![0; 64 * 1024];
    while !chunked.has_ended() {
        let count = wire
            .receive(&mut piece)
            .map_err(|error| Fault::Wrong(format!("reading the stream: {error}")))?;
        if count == 0 {
            return Err(Fault::Wrong("the stream ended without its end".into()));
        }
        stream.read(&mut chunked, &piece[..count], seen)?;
    }
    match stream.total {
        Some(total) if total == stream.events && stream.unread.is_empty() => Ok(()),
        total => {
            let message = format!("{} events came, {total:?} were sent", stream.events);
            Err(Fault::Wrong(message))
        }
    }
}

#[derive(Default)]
struct Stream {
    /// An event that has not come whole yet.
    unread: Vec<u8>,
    events: u64,
    total: Option<u64>,
}

impl Stream {
    fn read(
        &mut self,
        chunked: &mut crate::chunked::Chunked,
        bytes: &[u8],
        seen: &mut Seen,
    ) -> Result<(), Fault> {
        chunked
            .read(bytes, |data| self.unread.extend_from_slice(data))
            .map_err(Fault::Wrong)?;
        let now = now_ns();
        let mut at = 0;
        while let Some(length) = self.unread[at..].windows(2).position(|two| two == b"\n\n") {
            let event = &self.unread[at..at + length];
            at += length + 2;
            if let Some(total) = number(event, TOTAL_KEY) {
                self.total = Some(total);
                continue;
            }
            let sent = number(event, SENT_KEY);
            match (number(event, NUMBER_KEY), sent) {
                (Some(number), Some(sent)) if number == self.events => {
                    self.events += 1;
                    seen.latency(Duration::from_nanos(now.saturating_sub(sent)));
                }
                _ => {
                    let event = String::from_utf8_lossy(event);
                    let message = format!("event {} came as {event}", self.events);
                    return Err(Fault::Wrong(message));
                }
            }
        }
        self.unread.drain(..at);
        Ok(())
    }
}

/// The number behind `key`.
pub(crate) fn number(text: &[u8], key: &str) -> Option<u64> {
    let at = text
        .windows(key.len())
        .position(|bytes| bytes == key.as_bytes())?;
    let digits = &text[at + key.len()..];
    let end = digits
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    str::from_utf8(&digits[..end]).ok()?.parse().ok()
}
