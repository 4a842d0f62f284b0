//! The server for what a static answer cannot do: it discards uploads, sends events, and holds
//! streams open. A thread for each connection, which waits most of the time and costs little.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::chunked::Chunked;
use crate::events::{NUMBER_KEY, SENT_KEY, TOTAL_KEY, now_ns, number};
use crate::plan::Gaps;

const HEAD_BYTES_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 256 * 1024;
/// Bodies of which nothing is needed but their length.
const SMALL_BODY_BYTES_MAX: usize = 4096;
const STACK_BYTES: usize = 64 * 1024;

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// Says on standard error where it listens, then serves until it is killed.
pub(crate) fn serve() -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(told)?;
    let address = listener.local_addr().map_err(told)?;
    eprintln!("listening on http://{address}");
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream.map_err(told)?;
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // The proxy that ends a connection knows why.
                let _ = converse(stream, number as u32);
            })
            .map_err(told)?;
    }
    Ok(())
}

fn converse(mut stream: TcpStream, number: u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut room = vec![0; 4096];
    while let Some(request) = Request::read(&mut stream, &mut room)? {
        match request.kind {
            Kind::Upload => {
                let answer = upload_answer(request.body_bytes);
                let length = answer.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let answer = format!("{head}content-length: {length}\r\n\r\n{answer}");
                stream.write_all(answer.as_bytes())?;
            }
            Kind::Listen => {
                let mut answer = STREAM_HEAD.to_owned().into_bytes();
                chunk(&mut answer, LISTEN_EVENT.as_bytes());
                stream.write_all(&answer)?;
            }
            Kind::Events => send_events(&mut stream, &request.body, number)?,
        }
    }
    Ok(())
}

/// The first event of a stream that is held.
const LISTEN_EVENT: &str = concat!(
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",",
    "\"params\":{\"notifications\":{\"toolsListChanged\":true},",
    "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":4}}}\n\n"
);

fn upload_answer(body_bytes: usize) -> String {
    format!(
        "{{\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"received {body_bytes} bytes\"}}],\
         \"resultType\":\"complete\"}},\"jsonrpc\":\"2.0\",\"id\":4}}"
    )
}

/// Sends events for as long and as often as the request's arguments say, each in a write of its
/// own, as servers do; a rate of 0 is as fast as they are taken.
fn send_events(stream: &mut TcpStream, body: &[u8], connection: u32) -> io::Result<()> {
    let argument = |key| number(body, key).unwrap_or(0);
    let (milliseconds, rate) = (argument("\"milliseconds\":"), argument("\"rate\":"));
    let mut gaps = (rate > 0).then(|| Gaps::new(connection, 1.0 / rate as f64));
    stream.write_all(STREAM_HEAD.as_bytes())?;
    let begun = Instant::now();
    let time = Duration::from_millis(milliseconds);
    let mut due = begun;
    let mut count = 0_u64;
    let mut piece = Vec::new();
    loop {
        if let Some(gaps) = &mut gaps {
            due += gaps.next();
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        if begun.elapsed() >= time {
            break;
        }
        let event = format!(
            "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\
             {{\"progressToken\":4,{NUMBER_KEY}{count},\"message\":\"Reading the stations of the region\",\
             \"_meta\":{{{SENT_KEY}{}}}}}}}\n\n",
            now_ns()
        );
        piece.clear();
        chunk(&mut piece, event.as_bytes());
        stream.write_all(&piece)?;
        count += 1;
    }
    let last = format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{{\"content\":[],\
         \"resultType\":\"complete\",\"structuredContent\":{{{TOTAL_KEY}{count}}}}}}}\n\n"
    );
    piece.clear();
    chunk(&mut piece, last.as_bytes());
    piece.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&piece)
}

fn chunk(into: &mut Vec<u8>, data: &[u8]) {
    into.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    into.extend_from_slice(data);
    into.extend_from_slice(b"\r\n");
}

enum Kind {
    Upload,
    Listen,
    Events,
}

/// A request that has been read to its end.
struct Request {
    kind: Kind,
    body_bytes: usize,
    /// The body's beginning.
    body: Vec<u8>,
}

impl Request {
    /// `None` once the proxy has ended the connection.
    fn read(stream: &mut TcpStream, room: &mut Vec<u8>) -> io::Result<Option<Request>> {
        let mut bytes = Vec::new();
        let body_at = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let count = stream.read(room)?;
            if count == 0 || bytes.len() > HEAD_BYTES_MAX {
                return Ok(None);
            }
            bytes.extend_from_slice(&room[..count]);
        };
        let head = String::from_utf8_lossy(&bytes[..body_at]).to_ascii_lowercase();
        let field = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.trim())
        };
        let kind = match (field("mcp-method"), field("mcp-name")) {
            (Some("subscriptions/listen"), _) => Kind::Listen,
            (_, Some("count_stations")) => Kind::Events,
            _ => Kind::Upload,
        };
        let length = field("content-length").and_then(|text| text.parse().ok());
        let mut request = Request {
            kind,
            body_bytes: 0,
            body: Vec::new(),
        };
        if length.is_none_or(|length: usize| length > SMALL_BODY_BYTES_MAX) {
            room.resize(READ_BYTES, 0);
        }
        request.read_body(stream, length, &bytes[body_at..], room)?;
        Ok(Some(request))
    }

    fn read_body(
        &mut self,
        stream: &mut TcpStream,
        length: Option<usize>,
        first: &[u8],
        room: &mut [u8],
    ) -> io::Result<()> {
        let mut chunked = length.is_none().then(Chunked::default);
        self.take(first, &mut chunked)?;
        loop {
            let has_ended = match (&chunked, length) {
                (Some(chunked), _) => chunked.has_ended(),
                (None, length) => length.is_none_or(|length| self.body_bytes >= length),
            };
            if has_ended {
                return Ok(());
            }
            let count = stream.read(room)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.take(&room[..count], &mut chunked)?;
        }
    }

    fn take(&mut self, bytes: &[u8], chunked: &mut Option<Chunked>) -> io::Result<()> {
        let mut keep = |data: &[u8]| {
            self.body_bytes += data.len();
            let free = SMALL_BODY_BYTES_MAX - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(free)]);
        };
        match chunked {
            Some(chunked) => chunked.read(bytes, keep).map_err(io::Error::other),
            None => {
                keep(bytes);
                Ok(())
            }
        }
    }
}
