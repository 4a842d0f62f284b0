//! An upstream that keeps the raw bytes of every request, those of one that breaks off too, and
//! answers when it is told to, be it in the middle of a body.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::wire::Head;
use crate::harness::{Fault, Framing, eventually};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n\
                        {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";

/// What a sink does with a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Manner {
    /// Reads no further than so many bytes of the request until it is told to.
    pub(super) pause_at: Option<usize>,
    /// Answers with these bytes once it has so many of the request, and not at its end.
    pub(super) answer_at: Option<(usize, Vec<u8>)>,
    /// What it does after that.
    pub(super) then: Then,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Then {
    #[default]
    ReadOn,
    Close,
    Reset,
}

/// One request as it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) connection: usize,
    /// Every byte of it.
    pub(super) raw: Vec<u8>,
    /// How its connection ended; none while that is open.
    pub(super) ended: Option<Fault>,
}

impl Seen {
    pub(super) fn head(&self) -> Option<Head> {
        let end = self
            .raw
            .windows(4)
            .take(1 << 16)
            .position(|four| four == b"\r\n\r\n")?;
        Head::parse(&self.raw[..end + 4]).ok()
    }

    /// What has come of the body, without its framing.
    pub(super) fn body(&self) -> Vec<u8> {
        let Some(head) = self.head() else {
            return Vec::new();
        };
        let framed = &self.raw[head.bytes.len()..];
        match head.request_framing() {
            Ok(Framing::Chunked) => unchunked(framed),
            _ => framed.to_vec(),
        }
    }

    /// Whether a reader of HTTP takes it for a whole request.
    pub(super) fn is_complete(&self) -> bool {
        let Some(head) = self.head() else {
            return false;
        };
        match head.request_framing() {
            Ok(Framing::Length(length)) => self.raw.len() >= head.bytes.len() + length,
            // Bodies of these tests have no such sequence in them.
            _ => self.raw.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

fn unchunked(mut framed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = framed.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&framed[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let begin = end + 2;
        body.extend_from_slice(&framed[begin..framed.len().min(begin + size)]);
        framed = framed.get(begin + size + 2..).unwrap_or_default();
    }
    body
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Seen>,
    go_on: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic in a sink")
    }
}

/// A server that listens until the test ends.
pub(super) struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Sink {
    /// One that answers every request at its end.
    pub(super) fn start() -> Sink {
        Sink::with(Manner::default())
    }

    /// One that serves every request in this manner.
    pub(super) fn with(manner: Manner) -> Sink {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        // The threads end with the test process.
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (shared, manner) = (Arc::clone(&accepting), manner.clone());
                thread::spawn(move || serve(&stream, number, &shared, &manner));
            }
        });
        Sink { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Reads on where it paused.
    pub(super) fn go_on(&self) {
        self.shared.lock().go_on = true;
        self.shared.changed.notify_all();
    }

    /// All that was seen until now.
    pub(super) fn requests(&self) -> Vec<Seen> {
        self.shared.lock().requests.clone()
    }

    /// The request that came last.
    pub(super) fn last(&self) -> Seen {
        self.requests().pop().expect("a request")
    }

    /// Waits until the request that came last satisfies `done`.
    pub(super) fn wait(&self, what: &str, done: impl Fn(&Seen) -> bool) {
        let start = Instant::now();
        let mut state = self.shared.lock();
        while !state.requests.last().is_some_and(&done) {
            assert!(start.elapsed() < super::LONG, "never happened: {what}");
            state = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(500))
                .expect("no panic in a sink")
                .0;
        }
    }

    /// Waits until so many bytes of the last request have come.
    pub(super) fn wait_for_bytes(&self, count: usize) {
        self.wait(&format!("{count} bytes"), |seen| seen.raw.len() >= count);
    }

    /// Waits until so many requests have begun to come.
    pub(super) fn wait_for_requests(&self, count: usize) {
        eventually(&format!("{count} requests"), || {
            self.shared.lock().requests.len() >= count
        });
        assert_eq!(self.shared.lock().requests.len(), count);
    }

    /// The last request ended with its connection and was never complete.
    pub(super) fn broke_off(&self, what: &str) -> Seen {
        self.wait(&format!("the end of the connection, {what}"), |seen| {
            seen.ended.is_some()
        });
        let seen = self.last();
        assert!(!seen.is_complete(), "{what}: a complete request");
        seen
    }
}

fn serve(stream: &TcpStream, number: usize, shared: &Shared, manner: &Manner) {
    let ended = read(stream, number, shared, manner).unwrap_or_else(|fault| fault);
    let mut state = shared.lock();
    for seen in state
        .requests
        .iter_mut()
        .filter(|seen| seen.connection == number)
    {
        seen.ended = Some(ended.clone());
    }
    shared.changed.notify_all();
}

/// Reads requests until the connection ends.
fn read(
    mut stream: &TcpStream,
    number: usize,
    shared: &Shared,
    manner: &Manner,
) -> Result<Fault, Fault> {
    let mut buffer = vec![0; 64 << 10];
    let mut at = None;
    let mut answered = false;
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(Fault::Closed(0)),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Ok(Fault::Reset),
        };
        let mut state = shared.lock();
        let request = *at.get_or_insert_with(|| {
            state.requests.push(Seen {
                connection: number,
                ..Seen::default()
            });
            state.requests.len() - 1
        });
        state.requests[request]
            .raw
            .extend_from_slice(&buffer[..count]);
        let length = state.requests[request].raw.len();
        let complete = state.requests[request].is_complete();
        shared.changed.notify_all();
        if manner.pause_at.is_some_and(|pause| length >= pause) {
            while !state.go_on {
                state = shared.changed.wait(state).expect("no panic in a sink");
            }
        }
        drop(state);
        let early = manner.answer_at.as_ref();
        if let Some((_, answer)) = early.filter(|(after, _)| length >= *after && !answered) {
            answered = true;
            let _ = stream.write_all(answer);
            match manner.then {
                Then::ReadOn => {}
                Then::Close => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return Err(Fault::Closed(0));
                }
                Then::Reset => {
                    let socket = socket2::SockRef::from(stream);
                    socket.set_linger(Some(Duration::ZERO)).expect("a socket");
                    return Err(Fault::Reset);
                }
            }
        }
        if complete {
            if !answered {
                let _ = stream.write_all(ANSWER);
            }
            (at, answered) = (None, false);
        }
    }
}
