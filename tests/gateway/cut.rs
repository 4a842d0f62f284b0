//! Cut-through: bodies that are too large to be held stream upstream while they are scanned, and
//! the upstream's request becomes complete only if they are what their headers say.

mod answers;
mod bounded;
mod http2;
mod passing;
mod refused;
mod sides;
mod sink;
mod whole;

use std::time::Duration;

use crate::harness::{Client, Gateway, Policy, Request, Response};

use sink::Sink;

/// How long a test waits for a large body.
const LONG: Duration = Duration::from_secs(120);
/// Behind this the gateway has begun to send: the prefix that it judges first, and a read of it.
const BEGUN: usize = 256 << 10;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framed {
    Length,
    Chunked,
}

const FRAMINGS: [Framed; 2] = [Framed::Length, Framed::Chunked];

/// A body that a test sends piece by piece.
struct Upload {
    client: Client,
    framed: Framed,
}

impl Upload {
    /// Sends the head of this request on a connection of its own.
    fn begin(gateway: &Gateway, request: &Request, framed: Framed) -> Upload {
        Upload::on(gateway.connect(), request, framed)
    }

    fn on(mut client: Client, request: &Request, framed: Framed) -> Upload {
        let mut request = request.clone();
        if framed == Framed::Chunked {
            request.chunks = vec![request.body.len()];
        }
        client.wire.set_patience(LONG);
        client.send_bytes(&request.head_bytes());
        Upload { client, framed }
    }

    /// Sends the next piece, as a chunk of its own.
    fn piece(&mut self, piece: impl AsRef<[u8]>) {
        self.try_piece(piece).expect("a connection that is open");
    }

    /// The same, where the gateway may have ended the connection.
    fn try_piece(&mut self, piece: impl AsRef<[u8]>) -> std::io::Result<()> {
        let piece = piece.as_ref();
        match self.framed {
            Framed::Length => self.client.wire.write(piece),
            Framed::Chunked => {
                let head = format!("{:x}\r\n", piece.len());
                let chunk = [head.as_bytes(), piece, b"\r\n"].concat();
                self.client.wire.write(&chunk)
            }
        }
    }

    /// Ends the body.
    fn end(&mut self) {
        if self.framed == Framed::Chunked {
            self.client.send_bytes(b"0\r\n\r\n");
        }
    }

    fn answer(&mut self) -> Response {
        self.client.read()
    }
}

/// Sends a request whole and reads its answer.
fn send(gateway: &Gateway, request: &Request, framed: Framed) -> (Client, Response) {
    let mut upload = Upload::begin(gateway, request, framed);
    // What is refused early may not be read to its end.
    let _ = upload.try_piece(&request.body);
    if framed == Framed::Chunked {
        let _ = upload.client.wire.write(b"0\r\n\r\n");
    }
    let answer = upload.answer();
    (upload.client, answer)
}

/// A gateway before this upstream.
fn before(sink: &Sink, shape: impl FnOnce(Policy) -> Policy) -> Gateway {
    Gateway::start(&shape(Policy::to_url(&sink.url())))
}

/// A call of this tool with so many bytes of arguments, one text.
fn call(tool: &str, size: usize) -> Request {
    with_arguments(tool, &format!("{{\"text\":\"{}\"}}", "x".repeat(size)))
}

/// A call with these arguments, which stand before everything that decides.
fn with_arguments(tool: &str, arguments: &str) -> Request {
    Request::call(tool).body(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"params\":{{\"arguments\":{arguments},{},\
         \"name\":\"{tool}\"}},\"method\":\"tools/call\"}}",
        META
    ))
}

const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                    \"io.modelcontextprotocol/clientCapabilities\":{}}";
