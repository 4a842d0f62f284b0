//! A client that sends exactly the bytes it is told to, at the moment it is told to.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::request::Request;
use super::wire::{BodyReader, Fault, Framing, Head, PATIENCE, Wire};

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) wire: Wire,
}

/// A response that was read to its end.
#[derive(Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// How the body was delimited.
    pub(crate) framing: Framing,
    /// The interim statuses (1xx) that came before.
    pub(crate) interim: Vec<u16>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a server that listens");
        Client {
            wire: Wire::new(stream, PATIENCE),
        }
    }

    /// Sends a request whole.
    pub(crate) fn send(&mut self, request: &Request) {
        self.send_bytes(&request.bytes());
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.write(bytes).expect("a connection that is open");
    }

    /// Sends what is taken of these bytes at once, and forgets the rest.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) {
        let stream = &self.wire.stream;
        stream.set_nonblocking(true).expect("a socket");
        let mut rest = bytes;
        while let Ok(taken @ 1..) = (&*stream).write(rest) {
            rest = &rest[taken..];
        }
        stream.set_nonblocking(false).expect("a socket");
    }

    /// Sends bytes one by one, each in a segment of its own.
    pub(crate) fn dribble(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send_bytes(std::slice::from_ref(byte));
        }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn exchange(&mut self, request: &Request) -> Response {
        self.send(request);
        self.read()
    }

    /// Sends a request and reads its answer, or says what was wrong with it.
    pub(crate) fn try_exchange(&mut self, request: &Request) -> Result<Response, Fault> {
        self.send(request);
        self.try_read()
    }

    /// Reads the answer to a request that was no HEAD.
    pub(crate) fn read(&mut self) -> Response {
        self.try_read()
            .unwrap_or_else(|fault| panic!("no answer: {fault:?}"))
    }

    /// Reads an answer, or says what was wrong with it.
    pub(crate) fn try_read(&mut self) -> Result<Response, Fault> {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.wire.head()?;
            match head.status() {
                status @ 100..=199 => interim.push(status),
                0 => return Err(Fault::Malformed(head.start)),
                _ => break head,
            }
        };
        let framing = head.response_framing("POST")?;
        let body = self.wire.body(framing)?;
        Ok(Response {
            status: head.status(),
            head,
            body,
            framing,
            interim,
        })
    }

    /// Reads only the head of an answer; the body is read part by part with what is given back.
    pub(crate) fn read_head(&mut self) -> (Head, BodyReader) {
        let head = self
            .wire
            .head()
            .unwrap_or_else(|fault| panic!("no head: {fault:?}"));
        let framing = head.response_framing("POST").expect("one framing");
        (head, BodyReader::new(framing))
    }

    /// Reads parts of a body until they contain `until`, and gives back all of them.
    pub(crate) fn read_until(&mut self, reader: &mut BodyReader, until: &[u8]) -> Vec<u8> {
        let mut seen = Vec::new();
        loop {
            match reader.next(&mut self.wire) {
                Ok(Some(part)) => seen.extend(part),
                end => panic!(
                    "{end:?} before {:?}; until then {:?}",
                    String::from_utf8_lossy(until),
                    String::from_utf8_lossy(&seen)
                ),
            }
            if contains(&seen, until) {
                return seen;
            }
        }
    }

    /// Whether the server has ended the connection, which a reused one must not be.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.wire.set_patience(Duration::from_millis(20));
        let ending = self.wire.ending();
        self.wire.set_patience(PATIENCE);
        ending != Fault::Silence
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let shown: String = text.chars().take(1000).collect();
        write!(f, "{:?}{shown} ({} bytes)", self.head, self.body.len())
    }
}

impl Response {
    /// The body as JSON; where it is an event stream, the JSON of its last event.
    pub(crate) fn json(&self) -> Value {
        let kind = self.head.value("content-type").unwrap_or_default();
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let document = match kind.starts_with("text/event-stream") {
            true => text
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix("data:"))
                .map(str::to_owned),
            false => Some(text.clone()),
        };
        document
            .and_then(|document| serde_json::from_str(&document).ok())
            .unwrap_or_else(|| panic!("no JSON in {kind:?}: {text:?}"))
    }

    /// The code of the JSON-RPC error in the body, if there is one.
    pub(crate) fn code(&self) -> Option<i64> {
        self.json()["error"]["code"].as_i64()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The id as it stands in the body, with its very bytes; `None` if there is no such member.
    pub(crate) fn raw_id(&self) -> Option<String> {
        let text = self.text();
        let document = text
            .lines()
            .find_map(|line| line.strip_prefix("data:"))
            .unwrap_or(&text);
        let members: BTreeMap<&str, &RawValue> = serde_json::from_str(document).ok()?;
        members.get("id").map(|id| id.get().to_owned())
    }
}

/// Whether `needle` occurs in `haystack`.
pub(crate) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    needle.is_empty()
        || haystack
            .windows(needle.len())
            .any(|window| window == needle)
}
