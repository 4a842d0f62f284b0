//! A small MCP server for the demonstration: modern and legacy, three tools.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep, sleep};

use crate::protocol::version::Version;

const BODY_BYTES_MAX: usize = 1 << 20;
const COUNT: u64 = 3;
const PAUSE: Duration = Duration::from_millis(400);

/// Serves on a port of loopback that the system chooses, for as long as the process lives.
///
/// # Errors
/// No port can be had.
pub(super) async fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(serve)),
            );
        }
    });
    Ok(address)
}

/// What the server answers with.
enum Answer {
    /// Nothing: a notification was accepted.
    Accepted,
    /// One message.
    Message(StatusCode, Value),
    /// Progress first, then the message.
    Progress { token: Value, message: Value },
}

async fn serve(request: Request<Incoming>) -> Result<Response<Output>, Infallible> {
    if request.method() != Method::POST {
        let mut response = Response::new(Output::Whole(None));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(response);
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX)
        .collect()
        .await;
    let message = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let answer = match message {
        Some(message) => answer(&message),
        None => Answer::Message(
            StatusCode::BAD_REQUEST,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "not JSON"}}),
        ),
    };
    Ok(respond(answer))
}

fn respond(answer: Answer) -> Response<Output> {
    let (status, form, output) = match answer {
        Answer::Accepted => (StatusCode::ACCEPTED, None, Output::Whole(None)),
        Answer::Message(status, message) => (
            status,
            Some("application/json"),
            Output::Whole(Some(message.to_string().into())),
        ),
        Answer::Progress { token, message } => (
            StatusCode::OK,
            Some("text/event-stream"),
            Output::Countdown(Countdown {
                token,
                message: Some(message),
                counted: 0,
                pause: Box::pin(sleep(Duration::ZERO)),
            }),
        ),
    };
    let mut response = Response::new(output);
    *response.status_mut() = status;
    if let Some(form) = form {
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(form));
    }
    response
}

fn answer(message: &Value) -> Answer {
    let Some(id) = message.get("id") else {
        return Answer::Accepted;
    };
    let params = &message["params"];
    let modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" if !modern => initialize(params),
        "ping" if !modern => json!({}),
        "server/discover" if modern => discover(),
        "tools/list" => list(),
        "tools/call" => return call(id, params, modern),
        _ => return failure(id, modern, -32601, "method not found"),
    };
    Answer::Message(StatusCode::OK, success(id, result, modern))
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().and_then(Version::parse);
    let version = asked
        .filter(|version| !version.is_modern())
        .unwrap_or(Version::V2025_11_25);
    json!({
        "protocolVersion": version.as_str(),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "weirgate-demo", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn discover() -> Value {
    json!({
        "supportedVersions": [Version::V2026_07_28.as_str()],
        "capabilities": {"tools": {}},
        "ttlMs": 60_000,
        "cacheScope": "public",
    })
}

fn list() -> Value {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let text = json!({"type": "string"});
    json!({
        "tools": [
            {
                "name": "echo",
                "description": "Says what it was told",
                "inputSchema": object(json!({"text": text}), json!(["text"])),
            },
            {
                "name": "forecast",
                "description": "Tells the weather of a region; the region travels in a header too",
                "inputSchema": object(
                    json!({"region": {"type": "string", "x-mcp-header": "Region"}}),
                    json!(["region"]),
                ),
            },
            {
                "name": "countdown",
                "description": "Counts to three, telling its progress as it goes",
                "inputSchema": object(json!({}), json!([])),
            },
        ],
        "ttlMs": 60_000,
        "cacheScope": "public",
    })
}

fn call(id: &Value, params: &Value, modern: bool) -> Answer {
    let arguments = &params["arguments"];
    let said = |text: String| {
        success(
            id,
            json!({"content": [{"type": "text", "text": text}]}),
            modern,
        )
    };
    let text = match params["name"].as_str().unwrap_or_default() {
        "echo" => arguments["text"].as_str().unwrap_or_default().to_owned(),
        "forecast" => {
            format!(
                "{}: sun, later rain",
                arguments["region"].as_str().unwrap_or("somewhere")
            )
        }
        "countdown" => {
            let token = params["_meta"]["progressToken"].clone();
            return Answer::Progress {
                token,
                message: said("done".into()),
            };
        }
        _ => return failure(id, modern, -32602, "unknown tool"),
    };
    Answer::Message(StatusCode::OK, said(text))
}

/// A result in the shape of its era.
fn success(id: &Value, mut result: Value, modern: bool) -> Value {
    if modern {
        result["resultType"] = json!("complete");
    } else if let Some(members) = result.as_object_mut() {
        members.retain(|key, _| key != "ttlMs" && key != "cacheScope");
    }
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn failure(id: &Value, modern: bool, code: i32, message: &str) -> Answer {
    let status = if modern && code == -32601 {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::OK
    };
    let error = json!({"code": code, "message": message});
    Answer::Message(status, json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// The body of an answer.
enum Output {
    Whole(Option<Bytes>),
    Countdown(Countdown),
}

/// A stream of events: a pause and a notification for each number, then the result.
struct Countdown {
    token: Value,
    message: Option<Value>,
    counted: u64,
    pause: Pin<Box<Sleep>>,
}

impl Countdown {
    fn next(&mut self) -> Option<Value> {
        if self.counted == COUNT {
            return self.message.take();
        }
        self.counted += 1;
        let (progress, token) = (self.counted, &self.token);
        Some(json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": progress, "total": COUNT},
        }))
    }
}

impl Body for Output {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Output::Whole(body) => body.take(),
            Output::Countdown(countdown) => {
                ready!(countdown.pause.as_mut().poll(cx));
                countdown.pause.as_mut().reset(Instant::now() + PAUSE);
                let event = countdown.next();
                event.map(|event| Bytes::from(format!("event: message\ndata: {event}\n\n")))
            }
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Output::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Output::Whole(body) => {
                http_body::SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64)
            }
            Output::Countdown(_) => http_body::SizeHint::default(),
        }
    }
}
