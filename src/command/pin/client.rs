//! A small MCP client over the gateway's own connections: one request after the other.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::net::tls::Connectors;
use crate::net::upstream::{Inbound, Pool};
use crate::policy::plan::Upstream;
use crate::protocol::event::Splitter;
use crate::protocol::members::Members;
use crate::protocol::response::{Message, Response};
use crate::protocol::version::Version;
use crate::protocol::{header, media};

/// Most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Most characters of what a server says that are repeated.
const SAID_CHARS_MAX: usize = 200;

/// What the answers of one server are asked for with.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// As a server of either era named it.
    version: HeaderValue,
    is_modern: bool,
    session: Option<HeaderValue>,
}

impl Terms {
    /// Those of the current version.
    pub(super) fn modern() -> Terms {
        Terms {
            version: HeaderValue::from_static(Version::V2026_07_28.as_str()),
            is_modern: true,
            session: None,
        }
    }
}

/// Why there is no answer to go by.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is none: it is of no use to ask in another way.
    Unreachable(String),
    /// The server answered something else. With `credentials`, it asks for some.
    Answered { why: String, credentials: bool },
}

impl Fault {
    pub(super) fn answered(why: impl Into<String>) -> Fault {
        Fault::Answered {
            why: why.into(),
            credentials: false,
        }
    }
}

/// A server, and how far its requests were counted.
pub(super) struct Client {
    pool: Arc<Pool<Full<Bytes>>>,
    host: HeaderValue,
    target: Uri,
    requests: u64,
}

impl Client {
    /// # Errors
    /// What keeps TLS from being set up on this system; a checked upstream has no other fault.
    pub(super) fn of(upstream: Arc<Upstream>) -> Result<Client, Box<dyn Error + Send + Sync>> {
        let connector = Connectors::default().connector(&upstream)?;
        let query = upstream.query.as_deref().filter(|query| !query.is_empty());
        let target = match query {
            Some(query) => format!("{}?{query}", upstream.path).parse()?,
            None => upstream.path.parse()?,
        };
        Ok(Client {
            host: HeaderValue::from_str(&upstream.authority)?,
            target,
            pool: Pool::new(upstream, connector),
            requests: 0,
        })
    }

    /// The result of a request of the current or of an older version, or why there is none.
    pub(super) async fn ask(
        &mut self,
        terms: &Terms,
        method: &str,
        mut params: Value,
    ) -> Result<Response, Fault> {
        if terms.is_modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": Version::V2026_07_28.as_str(),
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": us(),
            });
        }
        let (_, response) = self.exchange(Some(terms), method, params).await?;
        Ok(response)
    }

    /// Begins a session of an older version.
    pub(super) async fn initialize(&mut self) -> Result<Terms, Fault> {
        let newest = Version::V2025_11_25.as_str();
        let params = json!({ "protocolVersion": newest, "capabilities": {}, "clientInfo": us() });
        let (headers, response) = self.exchange(None, "initialize", params).await?;
        let version = response.result().and_then(|result| {
            let members = Members::read(result).ok()?;
            let version: String = serde_json::from_str(members.of("protocolVersion")?).ok()?;
            HeaderValue::try_from(version).ok()
        });
        let version = version.ok_or_else(|| {
            Fault::answered("the result of `initialize` names no protocol version")
        })?;
        let terms = Terms {
            version,
            is_modern: false,
            session: headers.get(header::SESSION_ID).cloned(),
        };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let request = self.request(Method::POST, Some(&terms), Some(&told));
        self.send(request).await?;
        Ok(terms)
    }

    /// Ends a session, if one was begun. Servers may not have it, and nothing depends on it.
    pub(super) async fn leave(&self, terms: &Terms) {
        if terms.session.is_some() {
            let _ = self
                .send(self.request(Method::DELETE, Some(terms), None))
                .await;
        }
    }

    async fn exchange(
        &mut self,
        terms: Option<&Terms>,
        method: &str,
        params: Value,
    ) -> Result<(HeaderMap, Response), Fault> {
        self.requests += 1;
        let id = self.requests;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut request = self.request(Method::POST, terms, Some(&message));
        if terms.is_some_and(|terms| terms.is_modern)
            && let Ok(method) = HeaderValue::from_str(method)
        {
            request.headers_mut().insert(header::METHOD, method);
        }
        let id = id.to_string();
        let (headers, response) = self.answer(request, &id).await?;
        if let Some(error) = response.error() {
            let code = error
                .code
                .map_or_else(String::new, |code| format!(" {code}"));
            let said = said(response.bytes());
            return Err(Fault::answered(format!(
                "`{method}` got the error{code}{said}"
            )));
        }
        if !response.is_complete() {
            let why = format!("`{method}` got no complete result");
            return Err(Fault::answered(why));
        }
        Ok((headers, response))
    }

    fn request(
        &self,
        method: Method,
        terms: Option<&Terms>,
        message: Option<&Value>,
    ) -> Request<Full<Bytes>> {
        let body = message.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if message.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(terms) = terms {
            headers.insert(header::PROTOCOL_VERSION, terms.version.clone());
            if let Some(session) = &terms.session {
                headers.insert(header::SESSION_ID, session.clone());
            }
        }
        request
    }

    /// Sends what is not answered with a message.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(), Fault> {
        match timeout(ANSWER_TIMEOUT, self.pool.send(request, None)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) => Err(Fault::Unreachable(failure.detail())),
            Err(_) => Err(late()),
        }
    }

    /// The response with this id.
    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        id: &str,
    ) -> Result<(HeaderMap, Response), Fault> {
        let answer = async {
            let sent = self.pool.send(request, None).await;
            let (answer, lease) = sent.map_err(|f| Fault::Unreachable(f.detail()))?;
            let (head, body) = answer.into_parts();
            let response = if media::is_coded(&head.headers) {
                Err(Fault::answered(
                    "the answer is compressed, which was not asked for",
                ))
            } else if media::is_event_stream(&head.headers) {
                from_events(body, id).await
            } else {
                from_json(body, id).await
            };
            // What was not read to its end is given up with the connection.
            drop(lease);
            match response {
                Ok(response) if head.status.is_success() => Ok((head.headers, response)),
                response => Err(not_that(&head, response)),
            }
        };
        // It is long enough that nobody waits in vain for what a slow server may still say.
        timeout(ANSWER_TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}

/// Who asks.
fn us() -> Value {
    json!({ "name": "weirgate", "version": env!("CARGO_PKG_VERSION") })
}

fn late() -> Fault {
    Fault::Unreachable(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
}

/// The fault of an answer that has no result.
fn not_that(head: &http::response::Parts, response: Result<Response, Fault>) -> Fault {
    let status = head.status;
    let why = match response {
        Ok(response) => format!("the answer is {status}{}", said(response.bytes())),
        Err(Fault::Answered { why, .. }) if status.is_success() => why,
        Err(Fault::Answered { .. }) => format!("the answer is {status}"),
        Err(unreachable) => return unreachable,
    };
    let credentials = head.headers.contains_key(WWW_AUTHENTICATE);
    Fault::Answered { why, credentials }
}

/// What the error in a message says, as the end of a sentence.
fn said(message: &[u8]) -> String {
    let said = Members::read(message).ok().and_then(|members| {
        let error = Members::read(members.of("error")?.as_bytes()).ok()?;
        serde_json::from_str::<String>(error.of("message")?).ok()
    });
    said.map_or_else(String::new, |said| {
        let said: String = said.chars().take(SAID_CHARS_MAX).collect();
        format!(": {}", said.escape_debug())
    })
}

async fn from_json(body: Inbound, id: &str) -> Result<Response, Fault> {
    let collected = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let bytes = collected.map_err(|error| broken(&*error))?.to_bytes();
    match Message::read(bytes) {
        Message::Response(response) if is_to(&response, id) => Ok(response),
        Message::Response(_) | Message::Other { .. } => {
            Err(Fault::answered("the answer belongs to another request"))
        }
        Message::Unreadable(why) => {
            Err(Fault::answered(format!("the answer is no message: {why}")))
        }
    }
}

async fn from_events(mut body: Inbound, id: &str) -> Result<Response, Fault> {
    let mut splitter = Splitter::new(ANSWER_BYTES_MAX);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&*error))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let mut chunk = &data[..];
        loop {
            let event = splitter.next(&mut chunk);
            let event = event.map_err(|oversized| Fault::answered(oversized.to_string()))?;
            let Some(event) = event else { break };
            match Message::read(Bytes::copy_from_slice(event.data)) {
                Message::Response(response) if is_to(&response, id) => return Ok(response),
                // Notifications may come before.
                Message::Response(_) | Message::Other { .. } => {}
                Message::Unreadable(why) => {
                    return Err(Fault::answered(format!("an event is no message: {why}")));
                }
            }
        }
    }
    Err(Fault::answered("the stream ended without a response"))
}

/// Whether a response is to the request with this id. An error may be without one: the server then
/// could not read the request.
fn is_to(response: &Response, id: &str) -> bool {
    match response.id() {
        None | Some(b"null") => response.error().is_some(),
        Some(found) => found == id.as_bytes(),
    }
}

fn broken(error: &(dyn Error + Send + Sync + 'static)) -> Fault {
    if error.is::<http_body_util::LengthLimitError>() {
        let most = ANSWER_BYTES_MAX >> 20;
        return Fault::answered(format!("the answer has more than {most}Mi"));
    }
    Fault::Unreachable(format!("the answer broke off: {error}"))
}
