//! A fake upstream that speaks HTTP/2, frame by frame and without a library, so that it can say
//! anything at any time. It reads no header block: a request is known by its body.

use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::script::raw_member;
use super::wire::{Fault, PATIENCE, Wire};

// Kinds of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const MAX_CONCURRENT_STREAMS: u8 = 3;

/// Codes of errors (RFC 9113, section 7).
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;

/// One step of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The head: a status and further lines.
    Head(u16, Vec<(&'static str, String)>),
    /// A piece of the body.
    Data(Vec<u8>),
    /// The last piece of the body.
    Last(Vec<u8>),
    /// The stream ends with this code.
    Reset(u32),
    /// No stream above this one was looked at, and the connection ends with this code.
    GoAway(u32, u32),
    /// So many streams at once, from now on.
    StreamsMax(u32),
    /// Exactly these bytes.
    Raw(Vec<u8>),
    /// Nothing for a while.
    Pause(Duration),
    /// The connection is closed.
    Close,
}

impl Step {
    /// The head of a JSON document.
    pub(crate) fn json() -> Step {
        Step::Head(200, vec![("content-type", "application/json".into())])
    }

    /// The head of a stream of events.
    pub(crate) fn sse() -> Step {
        Step::Head(200, vec![("content-type", "text/event-stream".into())])
    }
}

/// The answer to one request.
pub(crate) enum Reply2 {
    Steps(Vec<Step>),
    /// What the test sends, for as long as it can.
    Follow(Receiver<Step>),
}

impl Reply2 {
    /// A result under the request's own id.
    pub(crate) fn usual(call: &Call) -> Reply2 {
        let id = raw_member(&call.body, "id").unwrap_or_default();
        let tool = call.tool();
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"complete\",\"content\":[{{\"type\":\"text\",\"text\":\"{tool}\"}}]}}}}"
        );
        Reply2::Steps(vec![Step::json(), Step::Last(body.into_bytes())])
    }

    /// No answer at all.
    pub(crate) fn silence() -> Reply2 {
        Reply2::Steps(Vec::new())
    }
}

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Call {
    /// Which connection it came on, counted from 0.
    pub(crate) connection: usize,
    pub(crate) stream: u32,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its proper end.
    pub(crate) complete: bool,
    /// The code with which the gateway reset the stream, if it did.
    pub(crate) reset: Option<u32>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stream, complete, reset) = (self.stream, self.complete, self.reset);
        let body = String::from_utf8_lossy(&self.body);
        let shown: String = body.chars().take(1000).collect();
        write!(
            f,
            "{stream} on {} (complete: {complete}, reset: {reset:?}): {shown}",
            self.connection
        )
    }
}

impl Call {
    /// The tool that is called.
    pub(crate) fn tool(&self) -> String {
        let json: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let name = json["params"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log2 {
    /// How each connection ended, once it did.
    pub(crate) connections: Vec<Option<Fault>>,
    pub(crate) calls: Vec<Call>,
    pub(crate) pings: usize,
    /// How often settings of ours were confirmed.
    pub(crate) confirmed: usize,
}

impl Log2 {
    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        let ended = |ended: &&Option<Fault>| ended.is_none();
        self.connections.iter().filter(ended).count()
    }

    /// The complete calls of a tool.
    pub(crate) fn calls_of(&self, tool: &str) -> Vec<&Call> {
        let calls = self.calls.iter();
        calls
            .filter(|call| call.complete && call.tool() == tool)
            .collect()
    }
}

/// How the server behaves beside its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// Most streams at once, said as the first thing.
    pub(crate) streams_max: Option<u32>,
    pub(crate) answers_pings: bool,
    /// Whether it makes room for more of a request's body.
    pub(crate) reads: bool,
    /// Whether it answers a request that has only begun.
    pub(crate) early: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Manners {
            streams_max: None,
            answers_pings: true,
            reads: true,
            early: false,
        }
    }
}

type Script = dyn Fn(&Call) -> Reply2 + Send + Sync;

#[derive(Default)]
struct Shared {
    log: Mutex<Log2>,
    changed: Condvar,
}

impl Shared {
    fn note<T>(&self, change: impl FnOnce(&mut Log2) -> T) -> T {
        let result = change(&mut self.log.lock().expect("no panic in a log"));
        self.changed.notify_all();
        result
    }
}

/// A server that listens until the test ends.
pub(crate) struct Upstream2 {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream2 {
    /// A server that answers every complete request by this script.
    pub(crate) fn with(script: impl Fn(&Call) -> Reply2 + Send + Sync + 'static) -> Upstream2 {
        Upstream2::mannered(Manners::default(), script)
    }

    /// The same with other manners.
    pub(crate) fn mannered(
        manners: Manners,
        script: impl Fn(&Call) -> Reply2 + Send + Sync + 'static,
    ) -> Upstream2 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let script: Arc<Script> = Arc::new(script);
        // The threads end with the test process.
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let peer = Peer::of(stream, manners, &accepting, &script);
                thread::spawn(move || peer.serve());
            }
        });
        Upstream2 { address, shared }
    }

    /// A server whose answers the test writes, each through what is given back for it.
    pub(crate) fn staged(manners: Manners) -> (Upstream2, Receiver<(Call, Sender<Step>)>) {
        let (begun, answers) = mpsc::channel();
        let upstream = Upstream2::mannered(manners, move |call| {
            let (steps, follow) = mpsc::channel();
            // A test that has ended wants no further answer.
            let _ = begun.send((call.clone(), steps));
            Reply2::Follow(follow)
        });
        (upstream, answers)
    }

    /// The URL of its MCP endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A copy of all that was seen until now.
    pub(crate) fn log(&self) -> Log2 {
        self.shared.log.lock().expect("no panic in a log").clone()
    }

    /// How often this tool was called by a complete request.
    pub(crate) fn runs(&self, tool: &str) -> usize {
        self.log().calls_of(tool).len()
    }

    /// Waits until what was seen satisfies `done`, or fails the test with `what`.
    pub(crate) fn wait(&self, what: &str, done: impl Fn(&Log2) -> bool) -> Duration {
        let start = Instant::now();
        let mut log = self.shared.log.lock().expect("no panic in a log");
        while !done(&log) {
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "never happened: {what}; {log:#?}");
            let waited = self.shared.changed.wait_timeout(log, left);
            log = waited.expect("no panic in a log").0;
        }
        start.elapsed()
    }
}

/// One connection, as its reading thread has it.
struct Peer {
    number: usize,
    wire: Wire,
    writer: Arc<Mutex<TcpStream>>,
    manners: Manners,
    shared: Arc<Shared>,
    script: Arc<Script>,
}

impl Peer {
    fn of(stream: TcpStream, manners: Manners, shared: &Arc<Shared>, script: &Arc<Script>) -> Peer {
        let number = shared.note(|log| {
            log.connections.push(None);
            log.connections.len() - 1
        });
        let writer = stream.try_clone().expect("a socket to write to");
        Peer {
            number,
            wire: Wire::new(stream, Duration::from_secs(600)),
            writer: Arc::new(Mutex::new(writer)),
            manners,
            shared: Arc::clone(shared),
            script: Arc::clone(script),
        }
    }

    fn serve(mut self) {
        let fault = match self.greet() {
            Err(fault) => fault,
            Ok(()) => loop {
                if let Err(fault) = self.frame() {
                    break fault;
                }
            },
        };
        let number = self.number;
        self.shared
            .note(|log| log.connections[number] = Some(fault));
    }

    fn greet(&mut self) -> Result<(), Fault> {
        let preface = self.wire.exactly(24)?;
        assert_eq!(preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let settings = self.manners.streams_max.map(streams_max);
        self.write(SETTINGS, 0, 0, &settings.unwrap_or_default());
        Ok(())
    }

    /// Reads one frame and does what it asks for.
    fn frame(&mut self) -> Result<(), Fault> {
        let head = self.wire.exactly(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.wire.exactly(length as usize)?;
        match kind {
            HEADERS => self.begin(stream),
            DATA => {
                assert_eq!(flags & PADDED, 0, "nobody pads here");
                if self.manners.reads && length > 0 {
                    self.write(WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
                    self.write(WINDOW_UPDATE, 0, stream, &length.to_be_bytes());
                }
                self.change(stream, |call| call.body.extend(payload));
            }
            RST_STREAM => {
                let code = [payload[0], payload[1], payload[2], payload[3]];
                self.change(stream, |call| call.reset = Some(u32::from_be_bytes(code)));
            }
            SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[]),
            SETTINGS => self.shared.note(|log| log.confirmed += 1),
            PING if flags & ACK == 0 => {
                self.shared.note(|log| log.pings += 1);
                if self.manners.answers_pings {
                    self.write(PING, ACK, 0, &payload);
                }
            }
            _ => {}
        }
        let ended = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
        if ended {
            self.change(stream, |call| call.complete = true);
        }
        if if self.manners.early {
            kind == HEADERS
        } else {
            ended
        } {
            self.answer(stream);
        }
        Ok(())
    }

    fn begin(&self, stream: u32) {
        let call = Call {
            connection: self.number,
            stream,
            body: Vec::new(),
            complete: false,
            reset: None,
        };
        self.shared.note(|log| log.calls.push(call));
    }

    fn change(&self, stream: u32, change: impl FnOnce(&mut Call)) {
        self.shared.note(|log| {
            let mut calls = log.calls.iter_mut();
            let call = calls.find(|call| call.connection == self.number && call.stream == stream);
            change(call.expect("a stream that was begun"));
        });
    }

    /// Plays the answer on a thread of its own.
    fn answer(&self, stream: u32) {
        let log = self.shared.log.lock().expect("no panic in a log");
        let mut calls = log.calls.iter();
        let call = calls.find(|call| call.connection == self.number && call.stream == stream);
        let call = call.expect("a stream that was begun").clone();
        drop(log);
        let (writer, script) = (Arc::clone(&self.writer), Arc::clone(&self.script));
        thread::spawn(move || {
            let steps: Box<dyn Iterator<Item = Step>> = match script(&call) {
                Reply2::Steps(steps) => Box::new(steps.into_iter()),
                Reply2::Follow(steps) => Box::new(steps.into_iter()),
            };
            for step in steps {
                let mut writer = writer.lock().expect("no panic in a writer");
                // A peer that went away is noted by the reading thread.
                if play(&mut writer, stream, step).is_err() {
                    return;
                }
            }
        });
    }

    fn write(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut writer = self.writer.lock().expect("no panic in a writer");
        // A peer that went away is noted where it is read from.
        let _ = writer.write_all(&frame(kind, flags, stream, payload));
    }
}

fn play(writer: &mut TcpStream, stream: u32, step: Step) -> io::Result<()> {
    let bytes = match step {
        Step::Head(status, lines) => {
            let status = (":status", status.to_string());
            let block: Vec<u8> = std::iter::once(status)
                .chain(lines)
                .flat_map(|(name, value)| field(name, &value))
                .collect();
            frame(HEADERS, END_HEADERS, stream, &block)
        }
        Step::Data(data) => frame(DATA, 0, stream, &data),
        Step::Last(data) => frame(DATA, END_STREAM, stream, &data),
        Step::Reset(code) => frame(RST_STREAM, 0, stream, &code.to_be_bytes()),
        Step::GoAway(last, code) => {
            let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
            frame(GOAWAY, 0, 0, &payload)
        }
        Step::StreamsMax(max) => frame(SETTINGS, 0, 0, &streams_max(max)),
        Step::Raw(bytes) => bytes,
        Step::Pause(time) => {
            thread::sleep(time);
            return Ok(());
        }
        Step::Close => return writer.shutdown(Shutdown::Both),
    };
    writer.write_all(&bytes)
}

/// A frame with this payload.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn streams_max(max: u32) -> Vec<u8> {
    [&[0, MAX_CONCURRENT_STREAMS][..], &max.to_be_bytes()].concat()
}

/// A header field, spelled out (RFC 7541, section 6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).expect("a short field"));
        bytes.extend(text.as_bytes());
    }
    bytes
}
