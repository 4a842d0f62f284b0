//! The server behind a trial: it has the tools that it is given, and takes everything else.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::protocol::method;
use crate::protocol::version::Version;

/// A request as it arrived at the server.
#[derive(Clone, Debug)]
pub(in crate::command) struct Arrived {
    /// Its header fields.
    pub(in crate::command) headers: HeaderMap,
}

/// The server, and what arrived at it last.
pub(super) struct Server {
    address: SocketAddr,
    arrived: Arc<Mutex<Option<Arrived>>>,
}

impl Server {
    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What arrived since it was asked last; lists that the gateway asked for itself are left out.
    pub(super) fn arrived(&self) -> Option<Arrived> {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.take()
    }
}

/// Serves `tools` on a port of loopback that the system chooses.
///
/// # Errors
/// No port can be had.
pub(super) async fn start(tools: Vec<Value>) -> std::io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let arrived = Arc::new(Mutex::new(None));
    let (keeping, tools) = (Arc::clone(&arrived), Arc::new(tools));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (keeping, tools) = (Arc::clone(&keeping), Arc::clone(&tools));
            let serving = service_fn(move |request| serve(request, keeping.clone(), tools.clone()));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), serving));
        }
    });
    Ok(Server { address, arrived })
}

async fn serve(
    request: Request<Incoming>,
    keeping: Arc<Mutex<Option<Arrived>>>,
    tools: Arc<Vec<Value>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // What breaks off is no message.
    let body = body.collect().await.map(|body| body.to_bytes());
    let message: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let answer = answer(&message, &tools);
    let asked_by_us = message["id"]
        .as_str()
        .is_some_and(|id| id.starts_with("weirgate-"));
    if !asked_by_us {
        let headers = head.headers;
        *keeping.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arrived { headers });
    }
    let mut response = Response::new(Full::default());
    match answer {
        None => *response.status_mut() = StatusCode::ACCEPTED,
        Some(answer) => {
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            *response.body_mut() = answer.to_string().into();
        }
    }
    Ok(response)
}

/// The answer to a message that waits for one.
fn answer(message: &Value, tools: &[Value]) -> Option<Value> {
    let id = message.get("id")?;
    let params = &message["params"];
    let modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
    let mut result = match message["method"].as_str().unwrap_or_default() {
        method::INITIALIZE => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "trial", "version": "1" },
        }),
        method::DISCOVER => json!({
            "supportedVersions": [Version::V2026_07_28.as_str()],
            "capabilities": { "tools": {} },
        }),
        "tools/list" => json!({ "tools": tools }),
        _ => json!({ "content": [] }),
    };
    if modern {
        result["resultType"] = json!("complete");
    }
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
