//! HTTP/2 as a client, as much of it as one fixed request needs: many requests at a time on each
//! connection, the header fields indexed after the first of them, as real clients do.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::plan::Plan;
use crate::seen::{Fault, Seen};
use crate::wire::{SILENCE_MAX, Wire};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED_OR_PRIORITY: u8 = 0x28;

const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// What a peer may rely on before it has said anything.
const TABLE_BYTES_DEFAULT: u32 = 4096;
const WINDOW_BYTES_DEFAULT: i64 = 65_535;

/// Given to the peer at once, and again when half of it is used up: answers never wait for it.
const WINDOW_BYTES: u32 = 1 << 30;

/// Requests in flight at most while requests begin at their own moments: only a stall fills it.
const PACED_STREAMS_MAX: usize = 64;

/// Runs one connection to its end; the first failure of the connection itself ends it early.
pub(crate) fn converse(
    plan: &Plan,
    number: u32,
    wire: &Wire,
    seen: &mut Seen,
) -> Result<(), Fault> {
    let shared = Shared::default();
    let mut opening = PREFACE.to_vec();
    let window = WINDOW_BYTES.to_be_bytes();
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window].concat();
    frame(&mut opening, SETTINGS, 0, 0, &setting);
    frame(&mut opening, WINDOW_UPDATE, 0, 0, &window);
    wire.send(&opening)
        .map_err(|error| Fault::Refused(format!("sending: {error}")))?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut receiver = Receiver::new(plan, wire, &shared);
            let done = receiver.run();
            // The sender may be waiting for an answer that will never come.
            shared.lock().has_ended = true;
            shared.changed.notify_all();
            (receiver.seen, done)
        });
        let sent = send(plan, number, wire, &shared);
        wire.end();
        let (received, done) = receiver.join().expect("the receiver does not panic");
        *seen = received;
        // What was received tells more than that it could no longer be sent.
        done.and(sent)
    })
}

/// What the two threads of a connection know of it.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By stream, the moment from which the answer is waited for.
    started: HashMap<u32, Instant>,
    /// What the peer allows; `None` until its settings have come.
    streams_max: Option<usize>,
    /// How far the peer has raised the window of the connection over its default.
    window_more: i64,
    window_used: i64,
    has_ended: bool,
    /// All requests are sent, and all answers have come.
    is_done: bool,
}

impl State {
    /// How many requests with a body of `bytes` may begin now.
    fn room(&self, streams: usize, bytes: usize) -> usize {
        let most = streams.min(self.streams_max.unwrap_or(0));
        let window = WINDOW_BYTES_DEFAULT + self.window_more - self.window_used;
        let by_window = window.max(0) as usize / bytes.max(1);
        most.saturating_sub(self.started.len()).min(by_window)
    }
}

impl Shared {
    /// A thread that panicked has told so already.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(&self, ready: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Fault> {
        let (state, waited) = self
            .changed
            .wait_timeout_while(self.lock(), SILENCE_MAX, |state| {
                !state.has_ended && !ready(state)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if state.has_ended || waited.timed_out() {
            let message = "the connection came to a halt".to_owned();
            return Err(Fault::Wrong(message));
        }
        Ok(state)
    }
}

/// Sends requests as the timetable says, and waits for the last answer.
fn send(plan: &Plan, number: u32, wire: &Wire, shared: &Shared) -> Result<(), Fault> {
    let request = Request::new(plan);
    let mut timetable = plan.timetable(number);
    let streams = if timetable.is_paced() {
        PACED_STREAMS_MAX
    } else {
        plan.streams
    };
    let mut stream = 1;
    let mut bytes = Vec::new();
    let mut start = timetable.next();
    while let Some(first) = start {
        bytes.clear();
        let mut state = shared.wait_until(|state| state.room(streams, plan.body.len()) > 0)?;
        let room = state.room(streams, plan.body.len());
        // All that may go now go in one write, unless each has its own moment.
        let batch = if timetable.is_paced() { 1 } else { room };
        start = Some(if timetable.is_paced() {
            first
        } else {
            Instant::now()
        });
        for _ in 0..batch {
            let Some(moment) = start else { break };
            request.write(&mut bytes, stream);
            state.started.insert(stream, moment);
            state.window_used += plan.body.len() as i64;
            stream += 2;
            if batch > 1 {
                start = timetable.next();
            }
        }
        drop(state);
        wire.send(&bytes)
            .map_err(|error| Fault::Refused(format!("sending: {error}")))?;
        if batch == 1 {
            start = timetable.next();
        }
    }
    shared.wait_until(|state| state.started.is_empty())?.is_done = true;
    Ok(())
}

/// The request's frames, but for the numbers of their streams.
struct Request<'a> {
    /// All fields spelled out, which fills the peer's table.
    first: Vec<u8>,
    /// All fields by their places in that table.
    later: Vec<u8>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(plan: &'a Plan) -> Self {
        let scheme = if plan.tls.is_some() { 0x87 } else { 0x86 };
        // `:method: POST` and the scheme stand in the static table.
        let (mut first, mut later) = (vec![0x83, scheme], vec![0x83, scheme]);
        let length = plan.body.len().to_string();
        // A name is a place in the static table or spelled out.
        let mut fields = vec![(4, "", "/mcp"), (1, "", plan.address.as_str())];
        fields.push((28, "", &length));
        for (name, value) in &plan.headers {
            // The connection is HTTP/1.1's.
            if name != "connection" {
                fields.push((0, name, value));
            }
        }
        for (at, (place, name, value)) in fields.iter().enumerate() {
            first.push(0x40 | place);
            if *place == 0 {
                string(&mut first, name);
            }
            string(&mut first, value);
            // Dynamic places are counted from the field that was added last.
            later.push(0x80 | (62 + fields.len() - 1 - at) as u8);
        }
        let body = &plan.body;
        Self { first, later, body }
    }

    fn write(&self, into: &mut Vec<u8>, stream: u32) {
        let fields = if stream == 1 {
            &self.first
        } else {
            &self.later
        };
        frame(into, HEADERS, END_HEADERS, stream, fields);
        frame(into, DATA, END_STREAM, stream, self.body);
    }
}

/// A string without Huffman coding.
fn string(into: &mut Vec<u8>, text: &str) {
    match text.len() {
        short @ ..127 => into.push(short as u8),
        long => {
            assert!(
                long < 127 + 128,
                "a header field that is too long for this client"
            );
            into.extend_from_slice(&[127, (long - 127) as u8]);
        }
    }
    into.extend_from_slice(text.as_bytes());
}

fn frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    into.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(payload);
}

/// Reads what the peer sends, and judges the answers.
struct Receiver<'a> {
    plan: &'a Plan,
    wire: &'a Wire,
    shared: &'a Shared,
    seen: Seen,
    /// By stream, what of its answer's body has come.
    bodies: HashMap<u32, Vec<u8>>,
    /// Of the window that was given to the peer.
    used_bytes: u32,
    frames: usize,
}

impl<'a> Receiver<'a> {
    fn new(plan: &'a Plan, wire: &'a Wire, shared: &'a Shared) -> Self {
        Self {
            plan,
            wire,
            shared,
            seen: Seen::default(),
            bodies: HashMap::new(),
            used_bytes: 0,
            frames: 0,
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 16 * 1024];
        loop {
            let count = match self.wire.receive(&mut piece) {
                Ok(count) if count > 0 => count,
                _ if self.shared.lock().is_done => return Ok(()),
                Ok(_) => return Err(self.fault("the connection ended early")),
                Err(error) => return Err(self.fault(&format!("reading: {error}"))),
            };
            bytes.extend_from_slice(&piece[..count]);
            if self.frames == 0 && bytes.starts_with(b"HTTP/1") {
                let shown = String::from_utf8_lossy(&bytes);
                return Err(Fault::Refused(format!("no HTTP/2, but {shown}")));
            }
            let mut at = 0;
            while let Some(head) = bytes.get(at..at + 9) {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let (kind, flags) = (head[3], head[4]);
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & !(1 << 31);
                let Some(payload) = bytes.get(at + 9..at + 9 + length) else {
                    break;
                };
                self.frames += 1;
                self.take(kind, flags, stream, payload)?;
                at += 9 + length;
            }
            bytes.drain(..at);
        }
    }

    fn fault(&self, message: &str) -> Fault {
        Fault::after(self.seen.latencies_ns.len(), message.to_owned())
    }

    fn take(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        match kind {
            HEADERS | DATA if flags & PADDED_OR_PRIORITY != 0 => {
                return Err(self.fault("padding, which this client does not read"));
            }
            HEADERS if flags & END_HEADERS == 0 => {
                return Err(self.fault("a head of several frames, which this client does not read"));
            }
            HEADERS => self.head(stream, payload),
            DATA => {
                let body = self.bodies.entry(stream).or_default();
                body.extend_from_slice(payload);
                self.give_window(payload.len() as u32)?;
            }
            SETTINGS if flags & ACK == 0 => self.settings(payload)?,
            PING if flags & ACK == 0 => self.reply(PING, ACK, payload)?,
            WINDOW_UPDATE if stream == 0 => {
                let more = payload.try_into().map_or(0, u32::from_be_bytes);
                self.shared.lock().window_more += i64::from(more);
                self.shared.changed.notify_all();
            }
            RST_STREAM | GOAWAY | CONTINUATION => {
                let code = payload
                    .last_chunk()
                    .map_or(0, |code| u32::from_be_bytes(*code));
                return Err(self.fault(&format!("frame {kind} on stream {stream}, code {code}")));
            }
            _ => {}
        }
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            self.answered(stream);
        }
        Ok(())
    }

    fn head(&mut self, stream: u32, fields: &[u8]) {
        // Changes of the table's size come first; the status 200 has a place in the static table.
        let status = fields.iter().find(|byte| **byte & 0xE0 != 0x20);
        if status != Some(&0x88) && !self.bodies.contains_key(&stream) {
            let message = format!("a status that is not 200, field bytes {fields:02x?}");
            self.seen.fault(Fault::Refused(message));
        }
        self.bodies.entry(stream).or_default();
    }

    fn answered(&mut self, stream: u32) {
        let body = self.bodies.remove(&stream).unwrap_or_default();
        let start = {
            let mut state = self.shared.lock();
            state.started.remove(&stream)
        };
        self.shared.changed.notify_all();
        match start {
            Some(start) if self.plan.expected.is(&body) => self.seen.latency(start.elapsed()),
            _ => {
                let body = String::from_utf8_lossy(&body);
                let message = format!("stream {stream} was answered with {body}");
                self.seen.fault(Fault::Wrong(message));
            }
        }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let mut streams_max = usize::MAX;
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match name {
                HEADER_TABLE_SIZE if value < TABLE_BYTES_DEFAULT => {
                    return Err(self.fault("a small header table, which this client cannot use"));
                }
                MAX_CONCURRENT_STREAMS => streams_max = value as usize,
                _ => {}
            }
        }
        self.shared.lock().streams_max = Some(streams_max);
        self.shared.changed.notify_all();
        self.reply(SETTINGS, ACK, &[])
    }

    fn give_window(&mut self, bytes: u32) -> Result<(), Fault> {
        self.used_bytes += bytes;
        if self.used_bytes < WINDOW_BYTES / 2 {
            return Ok(());
        }
        let used = std::mem::take(&mut self.used_bytes);
        self.reply(WINDOW_UPDATE, 0, &used.to_be_bytes())
    }

    fn reply(&self, kind: u8, flags: u8, payload: &[u8]) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind, flags, 0, payload);
        self.wire
            .send(&bytes)
            .map_err(|error| self.fault(&format!("sending: {error}")))
    }
}
