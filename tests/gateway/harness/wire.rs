//! HTTP/1.1 as it stands on the wire, read without a library, so that a test sees exactly the
//! bytes that the gateway wrote and no other parser's idea of them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How long a test waits for anything before it fails. Long enough for two busy cores; never
/// asserted against.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why a message could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The peer closed (FIN) before the message was complete; how many bytes had come of the part
    /// that was being read.
    Closed(usize),
    /// The peer reset the connection.
    Reset,
    /// Nothing came for as long as the reader was willing to wait.
    Silence,
    /// The bytes are no HTTP/1.1.
    Malformed(String),
}

/// One header line as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

/// The start line and header lines of a message, and the bytes they were read from.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) start: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) bytes: Vec<u8>,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes))
    }
}

impl Head {
    /// Reads a head from the bytes up to and including its empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Head, Fault> {
        let mut parts = bytes
            .split(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let start = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let mut lines = Vec::new();
        for part in parts.take_while(|line| !line.is_empty()) {
            let colon = part.iter().position(|b| *b == b':').ok_or_else(|| {
                Fault::Malformed(format!(
                    "a line without colon: {:?}",
                    String::from_utf8_lossy(part)
                ))
            })?;
            lines.push(Line {
                name: String::from_utf8_lossy(&part[..colon]).into_owned(),
                value: part[colon + 1..].trim_ascii().to_vec(),
            });
        }
        Ok(Head {
            start,
            lines,
            bytes: bytes.to_vec(),
        })
    }

    /// The values of all lines with this name, in order.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        self.lines
            .iter()
            .filter(|line| line.name.eq_ignore_ascii_case(name))
            .map(|line| String::from_utf8_lossy(&line.value).into_owned())
            .collect()
    }

    /// The value of the only line with this name; `None` if there is none. Two lines fail the
    /// test, because no part of the gateway may write two.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let mut values = self.values(name);
        assert!(values.len() < 2, "{name} came {} times", values.len());
        values.pop()
    }

    /// Whether a line with this name came.
    pub(crate) fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    fn framing(&self) -> Result<Option<Framing>, Fault> {
        let codings = self.values("transfer-encoding");
        if !codings.is_empty() {
            return match codings.join(", ").eq_ignore_ascii_case("chunked") {
                true => Ok(Some(Framing::Chunked)),
                false => Err(Fault::Malformed(format!("transfer codings {codings:?}"))),
            };
        }
        match self.value("content-length") {
            None => Ok(None),
            Some(length) => match length.parse() {
                Ok(length) => Ok(Some(Framing::Length(length))),
                Err(_) => Err(Fault::Malformed(format!("a length of {length:?}"))),
            },
        }
    }

    /// How the body of this request is delimited.
    pub(crate) fn request_framing(&self) -> Result<Framing, Fault> {
        Ok(self.framing()?.unwrap_or(Framing::Length(0)))
    }

    /// How the body of this response to `method` is delimited.
    pub(crate) fn response_framing(&self, method: &str) -> Result<Framing, Fault> {
        let status = self.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Ok(Framing::Length(0));
        }
        Ok(self.framing()?.unwrap_or(Framing::UntilClose))
    }

    /// The status of a response head; 0 where the start line has none.
    pub(crate) fn status(&self) -> u16 {
        let mut words = self.start.split(' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(|word| word.parse().ok());
        status
            .filter(|_| version.starts_with("HTTP/1."))
            .unwrap_or(0)
    }
}

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// What is left to read of one body.
#[derive(Clone, Debug)]
pub(crate) struct BodyReader {
    framing: Framing,
    ended: bool,
}

impl BodyReader {
    pub(crate) fn new(framing: Framing) -> BodyReader {
        BodyReader {
            framing,
            ended: framing == Framing::Length(0),
        }
    }

    /// The next bytes of the body as they arrive, `None` at its proper end.
    pub(crate) fn next(&mut self, wire: &mut Wire) -> Result<Option<Vec<u8>>, Fault> {
        if self.ended {
            return Ok(None);
        }
        match self.framing {
            Framing::Length(left) => {
                let part = wire.some(left)?;
                self.framing = Framing::Length(left - part.len());
                self.ended = left == part.len();
                Ok(Some(part))
            }
            Framing::Chunked => {
                let line = wire.line()?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16)
                    .map_err(|_| Fault::Malformed(format!("a chunk size of {line:?}")))?;
                if size == 0 {
                    while !wire.line()?.is_empty() {}
                    self.ended = true;
                    return Ok(None);
                }
                let part = wire.exactly(size)?;
                match wire.line()?.is_empty() {
                    true => Ok(Some(part)),
                    false => Err(Fault::Malformed("a chunk longer than its size".into())),
                }
            }
            Framing::UntilClose => match wire.some(usize::MAX) {
                Err(Fault::Closed(_)) => {
                    self.ended = true;
                    Ok(None)
                }
                part => part.map(Some),
            },
        }
    }
}

/// A socket with what was read from it and not used yet.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
    patience: Duration,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Wire {
        stream.set_nodelay(true).expect("a fresh socket");
        Wire {
            stream,
            unread: Vec::new(),
            patience,
        }
    }

    /// How long a read waits from now on before it gives up.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Writes all bytes at once.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// Ends our side of the connection (FIN); the other stays readable.
    pub(crate) fn finish(&self) {
        // The peer may have gone first; then there is nothing left to end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends both sides at once with RST, whatever was still to be read.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("an open socket");
    }

    /// The head of the next message.
    pub(crate) fn head(&mut self) -> Result<Head, Fault> {
        let mut searched = 0;
        loop {
            let found = self.unread[searched..]
                .windows(4)
                .position(|window| window == b"\r\n\r\n");
            if let Some(at) = found {
                let bytes: Vec<u8> = self.unread.drain(..searched + at + 4).collect();
                return Head::parse(&bytes);
            }
            searched = self.unread.len().saturating_sub(3);
            self.fill()?;
        }
    }

    /// A whole body.
    pub(crate) fn body(&mut self, framing: Framing) -> Result<Vec<u8>, Fault> {
        let mut reader = BodyReader::new(framing);
        let mut body = Vec::new();
        while let Some(part) = reader.next(self)? {
            body.extend(part);
        }
        Ok(body)
    }

    /// Waits until the peer ends the connection and says how; bytes that still come are
    /// kept.
    pub(crate) fn ending(&mut self) -> Fault {
        loop {
            if let Err(fault) = self.fill() {
                return fault;
            }
        }
    }

    fn some(&mut self, most: usize) -> Result<Vec<u8>, Fault> {
        if self.unread.is_empty() {
            self.fill()?;
        }
        let count = most.min(self.unread.len());
        Ok(self.unread.drain(..count).collect())
    }

    /// So many bytes, whatever they are.
    pub(crate) fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        while self.unread.len() < count {
            self.fill()?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    fn line(&mut self) -> Result<String, Fault> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), Fault> {
        let patience = self.patience.max(Duration::from_millis(1));
        self.stream
            .set_read_timeout(Some(patience))
            .expect("an open socket");
        let mut buffer = [0; 16 << 10];
        match (&self.stream).read(&mut buffer) {
            Ok(0) => Err(Fault::Closed(self.unread.len())),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Fault::Silence,
                _ => Fault::Reset,
            }),
        }
    }
}

/// Asks `done` again and again, for as long as a test is willing to wait, and fails the test
/// with `what` if the answer stays no. Gives back how long it took, to be printed.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}
