//! What a fake upstream answers.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::request::LEGACY;
use super::upstream::Received;

/// One step of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Write these bytes.
    Send(Vec<u8>),
    /// Write these bytes, with which the answer is complete; the next request is read.
    Last(Vec<u8>),
    /// Do nothing for a while.
    Pause(Duration),
    /// Close the connection (FIN).
    Close,
    /// Reset the connection (RST).
    Reset,
}

impl Play {
    /// One chunk of a chunked body.
    pub(crate) fn chunk(bytes: impl AsRef<[u8]>) -> Play {
        let bytes = bytes.as_ref();
        let head = format!("{:x}\r\n", bytes.len()).into_bytes();
        Play::Send([head.as_slice(), bytes, b"\r\n"].concat())
    }

    /// The proper end of a chunked body, and with it of the answer.
    pub(crate) fn end() -> Play {
        Play::Last(b"0\r\n\r\n".to_vec())
    }

    /// The head of an event stream whose events follow as chunks.
    pub(crate) fn sse_head() -> Play {
        Play::Send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_vec(),
        )
    }
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Play these steps, then read on.
    Steps(Vec<Play>),
    /// Play what the test sends, for as long as it can.
    Follow(Arc<Mutex<Receiver<Play>>>),
}

impl Reply {
    /// A JSON document with this status.
    pub(crate) fn json(status: u16, body: impl AsRef<str>) -> Reply {
        Reply::with_lines(status, "Content-Type: application/json\r\n", body)
    }

    /// A body with these header lines, each ended by CRLF, and its length.
    pub(crate) fn with_lines(status: u16, lines: &str, body: impl AsRef<str>) -> Reply {
        let body = body.as_ref();
        Reply::raw(format!(
            "HTTP/1.1 {status} Told\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Exactly these bytes, and the connection stays open.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Steps(vec![Play::Send(bytes.into())])
    }

    /// Exactly these bytes, then FIN.
    pub(crate) fn raw_then_close(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Steps(vec![Play::Send(bytes.into()), Play::Close])
    }

    /// Exactly these bytes, then RST.
    pub(crate) fn raw_then_reset(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Steps(vec![Play::Send(bytes.into()), Play::Reset])
    }

    /// No answer at all, on a connection that stays open.
    pub(crate) fn silence() -> Reply {
        Reply::Steps(Vec::new())
    }

    /// An event stream with this body, chunked, sent at once.
    pub(crate) fn sse(events: &str) -> Reply {
        Reply::Steps(vec![Play::sse_head(), Play::chunk(events), Play::end()])
    }

    /// What the test decides while the answer is under way.
    pub(crate) fn follow(plays: Arc<Mutex<Receiver<Play>>>) -> Reply {
        Reply::Follow(plays)
    }

    /// What a lenient server of both eras answers: a result under the request's own id, 202 to
    /// everything else that is posted, a session from `initialize`, 405 to GET, 200 to DELETE.
    pub(crate) fn usual(request: &Received) -> Reply {
        match request.method.as_str() {
            "GET" => Reply::with_lines(405, "Allow: POST\r\n", ""),
            "DELETE" => Reply::with_lines(200, "", ""),
            _ => match (raw_member(&request.body, "id"), request.json()) {
                (Some(id), json) if json.get("method").is_some() => {
                    Reply::result(&id, &json["method"], usual_result(&json))
                }
                _ => Reply::with_lines(202, "", ""),
            },
        }
    }

    fn result(id: &str, method: &Value, result: Value) -> Reply {
        let lines = match method == "initialize" {
            true => "Content-Type: application/json\r\nMcp-Session-Id: session-1\r\n",
            false => "Content-Type: application/json\r\n",
        };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        Reply::with_lines(200, lines, body)
    }

    /// The steps, one after the other, waiting for the test where it decides.
    pub(super) fn steps(self) -> Box<dyn Iterator<Item = Play>> {
        match self {
            Reply::Steps(steps) => Box::new(steps.into_iter()),
            Reply::Follow(plays) => Box::new(std::iter::from_fn(move || {
                plays.lock().ok().and_then(|plays| plays.recv().ok())
            })),
        }
    }
}

fn usual_result(message: &Value) -> Value {
    match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": LEGACY, "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"}
        }),
        Some("tools/call") => json!({
            "resultType": "complete",
            "content": [{"type": "text", "text": message["params"]["name"]}]
        }),
        _ => json!({"resultType": "complete"}),
    }
}

/// A member of a JSON object with the very bytes it came with.
pub(crate) fn raw_member(document: &[u8], name: &str) -> Option<String> {
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_slice(document).ok()?;
    members.get(name).map(|value| value.get().to_owned())
}
