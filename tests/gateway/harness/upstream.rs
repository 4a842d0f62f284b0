//! A fake upstream that keeps everything it receives, byte for byte, and answers as a test
//! scripts it.

use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::script::{Play, Reply};
use super::wire::{BodyReader, Fault, Head, PATIENCE, Wire};

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Received {
    /// Which connection it came on, counted from 0.
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its proper end.
    pub(crate) complete: bool,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, complete) = (&self.head, self.complete);
        let body = String::from_utf8_lossy(&self.body);
        let shown: String = body.chars().take(1000).collect();
        write!(
            f,
            "on {} (complete: {complete}): {head:?}{shown}",
            self.connection
        )
    }
}

impl Received {
    /// The body as JSON, null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A connection as it was seen from this end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// How it ended, once it did: by the peer, unless the script closed it.
    pub(crate) ended: Option<Fault>,
}

/// Everything that an upstream has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) connections: Vec<Connection>,
    pub(crate) requests: Vec<Received>,
}

impl Log {
    /// How the connection with this number ended; `None` while it is open or has not come yet.
    pub(crate) fn ended(&self, connection: usize) -> Option<&Fault> {
        self.connections.get(connection)?.ended.as_ref()
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.connections
            .iter()
            .filter(|connection| connection.ended.is_none())
            .count()
    }

    /// How often this tool was called by a complete request.
    pub(crate) fn runs(&self, tool: &str) -> usize {
        self.requests
            .iter()
            .filter(|request| request.complete)
            .map(Received::json)
            .filter(|json| json["method"] == "tools/call" && json["params"]["name"] == tool)
            .count()
    }
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
}

impl Shared {
    fn note<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let result = change(&mut self.log.lock().expect("no panic in a log"));
        self.changed.notify_all();
        result
    }
}

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

/// A server that listens until the test ends.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    /// An upstream that answers every message as a lenient server of both eras does.
    pub(crate) fn start() -> Upstream {
        Upstream::with(Reply::usual)
    }

    /// The same on this address.
    pub(crate) fn at(address: SocketAddr) -> Upstream {
        Upstream::listen(address, Reply::usual)
    }

    /// An upstream that answers every complete request by this script.
    pub(crate) fn with(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Upstream {
        Upstream::listen(SocketAddr::from(([127, 0, 0, 1], 0)), script)
    }

    fn listen(
        address: SocketAddr,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared::default());
        let script: Arc<Script> = Arc::new(script);
        let accepting = Arc::clone(&shared);
        // The threads end with the test process; a blocked accept has nothing to clean up.
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                serve(stream, &accepting, &script);
            }
        });
        Upstream { address, shared }
    }

    /// An upstream whose answer to every request is written step by step by the test, through
    /// what is given back.
    pub(crate) fn controlled() -> (Upstream, Sender<Play>) {
        let (plays, follow) = mpsc::channel();
        let follow = Arc::new(Mutex::new(follow));
        let upstream = Upstream::with(move |_| Reply::follow(Arc::clone(&follow)));
        (upstream, plays)
    }

    /// An upstream that gives out, for each request, what the answer to it is written through,
    /// step by step. An answer whose writer is dropped goes no further.
    pub(crate) fn staged() -> (Upstream, Receiver<Sender<Play>>) {
        let (begun, answers) = mpsc::channel();
        let upstream = Upstream::with(move |_| {
            let (plays, follow) = mpsc::channel();
            // A test that has ended wants no further answer.
            let _ = begun.send(plays);
            Reply::follow(Arc::new(Mutex::new(follow)))
        });
        (upstream, answers)
    }

    /// The URL of its MCP endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// A copy of all that was seen until now.
    pub(crate) fn log(&self) -> Log {
        self.shared.log.lock().expect("no panic in a log").clone()
    }

    /// How many requests have come, complete or not.
    pub(crate) fn request_count(&self) -> usize {
        self.log().requests.len()
    }

    /// How often this tool was called by a complete request.
    pub(crate) fn runs(&self, tool: &str) -> usize {
        self.log().runs(tool)
    }

    /// The last request that came; the test fails if there was none.
    pub(crate) fn last(&self) -> Received {
        self.log()
            .requests
            .pop()
            .expect("a request reached the upstream")
    }

    /// Waits until what was seen satisfies `done`, and gives back how long that took. Fails the
    /// test with `what` if it never does.
    pub(crate) fn wait(&self, what: &str, done: impl Fn(&Log) -> bool) -> Duration {
        let start = Instant::now();
        let mut log = self.shared.log.lock().expect("no panic in a log");
        while !done(&log) {
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "never happened: {what}; {log:#?}");
            log = self
                .shared
                .changed
                .wait_timeout(log, left)
                .expect("no panic in a log")
                .0;
        }
        start.elapsed()
    }

    /// Waits until this many requests have come completely.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.wait(&format!("{count} complete requests"), |log| {
            log.requests.iter().filter(|r| r.complete).count() >= count
        });
    }
}

/// Serves one connection on two threads: one reads all the time, so that an ending is noticed
/// while an answer is still being written or held back; the other plays the answers.
fn serve(stream: TcpStream, shared: &Arc<Shared>, script: &Arc<Script>) {
    let number = shared.note(|log| {
        log.connections.push(Connection::default());
        log.connections.len() - 1
    });
    let writer = stream.try_clone().expect("a socket to write to");
    let (requests, replies) = mpsc::channel::<Received>();
    let reading = Arc::clone(shared);
    thread::spawn(move || read(stream, number, &reading, &requests));
    let script = Arc::clone(script);
    thread::spawn(move || play(writer, &replies, &*script));
}

fn read(stream: TcpStream, number: usize, shared: &Shared, requests: &Sender<Received>) {
    let mut wire = Wire::new(stream, Duration::from_secs(600));
    let ended = loop {
        let received = match receive(&mut wire, number, shared) {
            Ok(received) => received,
            Err(fault) => break fault,
        };
        if requests.send(received).is_err() {
            break wire.ending();
        }
    };
    shared.note(|log| log.connections[number].ended = Some(ended));
}

fn receive(wire: &mut Wire, number: usize, shared: &Shared) -> Result<Received, Fault> {
    let head = wire.head()?;
    let framing = head.request_framing()?;
    let mut words = head.start.split(' ').map(str::to_owned);
    let received = Received {
        connection: number,
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        head,
        body: Vec::new(),
        complete: false,
    };
    let at = shared.note(|log| {
        log.requests.push(received);
        log.requests.len() - 1
    });
    let mut body = BodyReader::new(framing);
    while let Some(part) = body.next(wire)? {
        shared.note(|log| log.requests[at].body.extend(part));
    }
    Ok(shared.note(|log| {
        log.requests[at].complete = true;
        log.requests[at].clone()
    }))
}

fn play(stream: TcpStream, requests: &Receiver<Received>, script: &Script) {
    let mut wire = Wire::new(stream, PATIENCE);
    while let Ok(received) = requests.recv() {
        for step in script(&received).steps() {
            let written = match step {
                Play::Send(bytes) => wire.write(&bytes),
                Play::Last(bytes) => match wire.write(&bytes) {
                    Ok(()) => break,
                    failed => failed,
                },
                Play::Pause(time) => {
                    thread::sleep(time);
                    Ok(())
                }
                Play::Close => {
                    // Both threads hold the socket, so closing takes a shutdown of both ways.
                    let _ = wire.stream.shutdown(Shutdown::Both);
                    return;
                }
                Play::Reset => {
                    // The reader lets go at its end of file, and the last one to let go resets.
                    let _ = wire.stream.shutdown(Shutdown::Read);
                    return wire.reset();
                }
            };
            // A peer that went away is noted by the reading thread.
            if written.is_err() {
                return;
            }
        }
    }
}
