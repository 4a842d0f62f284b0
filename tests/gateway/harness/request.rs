//! Requests that are right in every respect, for a test to change one thing about.

use serde_json::{Value, json};

/// The version that modern requests of the tests speak.
pub(crate) const MODERN: &str = "2026-07-28";
/// The version that legacy requests of the tests speak.
pub(crate) const LEGACY: &str = "2025-11-25";
/// The `_meta` key that makes a request modern.
pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key that every modern request must have beside it.
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// One HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Name and value, in the order in which they are sent.
    pub(crate) lines: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Sizes of chunks to send the body in; with a Content-Length if empty.
    pub(crate) chunks: Vec<usize>,
}

impl Request {
    /// A request with `Host` and `Accept` alone.
    pub(crate) fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.to_owned(),
            target: target.to_owned(),
            lines: Vec::new(),
            body: Vec::new(),
            chunks: Vec::new(),
        }
        .header("Host", "127.0.0.1")
        .header("Accept", "application/json, text/event-stream")
    }

    /// A POST of these bytes as JSON, without any MCP header.
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Request {
        Request::new("POST", "/mcp")
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// A modern request, with all that must be in its head and body. Its id is 1.
    pub(crate) fn modern(method: &str, params: Value) -> Request {
        Request::modern_message(json!({
            "jsonrpc": "2.0", "id": 1, "method": method, "params": with_meta(params)
        }))
    }

    /// A modern request or notification around a message that is sent as it is; the headers are
    /// what the message asks for.
    pub(crate) fn modern_message(message: Value) -> Request {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let field = match method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => "",
        };
        let name = message["params"][field].as_str().map(str::to_owned);
        let mut request = Request::post(message.to_string())
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", &method);
        if let Some(name) = name {
            request = request.header("Mcp-Name", &name);
        }
        request
    }

    /// A modern notification, with `Mcp-Method` as a careful client sends it.
    pub(crate) fn modern_notification(method: &str) -> Request {
        Request::modern_message(json!({"jsonrpc": "2.0", "method": method}))
    }

    /// A modern call of a tool.
    pub(crate) fn call(tool: &str) -> Request {
        Request::modern("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// A request of 2025-11-25, with the version header that clients of it send.
    pub(crate) fn legacy(method: &str, params: Value) -> Request {
        Request::legacy_message(json!({
            "jsonrpc": "2.0", "id": 1, "method": method, "params": params
        }))
    }

    /// A legacy request, notification or response around a message that is sent as it is.
    pub(crate) fn legacy_message(message: Value) -> Request {
        Request::post(message.to_string()).header("MCP-Protocol-Version", LEGACY)
    }

    /// A call of a tool on 2025-11-25.
    pub(crate) fn legacy_call(tool: &str) -> Request {
        Request::legacy("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// The handshake of a legacy client; it has no version header yet.
    pub(crate) fn initialize(version: &str) -> Request {
        Request::legacy(
            "initialize",
            json!({"protocolVersion": version, "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}}),
        )
        .without("MCP-Protocol-Version")
    }

    /// The stream of a legacy server's own messages.
    pub(crate) fn get() -> Request {
        Request::new("GET", "/mcp")
            .header("Accept", "text/event-stream")
            .header("MCP-Protocol-Version", LEGACY)
    }

    /// The end of a legacy session.
    pub(crate) fn delete(session: &str) -> Request {
        Request::new("DELETE", "/mcp")
            .header("MCP-Protocol-Version", LEGACY)
            .header("Mcp-Session-Id", session)
    }

    /// Sets a header: replaces its line, or adds one.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        let existing = self
            .lines
            .iter_mut()
            .find(|(have, _)| have.eq_ignore_ascii_case(name));
        match existing {
            Some(line) => *line = (name.to_owned(), value.as_bytes().to_vec()),
            None => self
                .lines
                .push((name.to_owned(), value.as_bytes().to_vec())),
        }
        self
    }

    /// Adds a line, whether or not there is one of that name; the value need not be text.
    pub(crate) fn line(mut self, name: &str, value: impl Into<Vec<u8>>) -> Request {
        self.lines.push((name.to_owned(), value.into()));
        self
    }

    /// Removes every line of a header.
    pub(crate) fn without(mut self, name: &str) -> Request {
        self.lines
            .retain(|(have, _)| !have.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces the body and leaves the head as it is.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Replaces the id in the body by this token, whatever it is.
    pub(crate) fn id(self, token: &str) -> Request {
        self.edit("\"id\":1,", &format!("\"id\":{token},"))
    }

    /// Replaces a piece of the body's text; the test is wrong if it is not there.
    pub(crate) fn edit(mut self, from: &str, to: &str) -> Request {
        let body = String::from_utf8(self.body).expect("a body of text");
        assert!(body.contains(from), "{from:?} is not in {body}");
        self.body = body.replacen(from, to, 1).into_bytes();
        self
    }

    /// Sends to another path or query.
    pub(crate) fn target(mut self, target: &str) -> Request {
        target.clone_into(&mut self.target);
        self
    }

    /// Uses another HTTP method.
    pub(crate) fn method(mut self, method: &str) -> Request {
        method.clone_into(&mut self.method);
        self
    }

    /// Sends the body chunked, in chunks of this many bytes.
    pub(crate) fn chunked(mut self, size: usize) -> Request {
        self.chunks = self.body.chunks(size).map(<[u8]>::len).collect();
        self
    }

    /// The head alone, up to and including its empty line.
    pub(crate) fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.lines {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        let announced = self
            .lines
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if !self.chunks.is_empty() {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        } else if !announced && (self.method == "POST" || !self.body.is_empty()) {
            let length = format!("Content-Length: {}\r\n", self.body.len());
            bytes.extend_from_slice(length.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// The body as it is framed.
    pub(crate) fn body_bytes(&self) -> Vec<u8> {
        if self.chunks.is_empty() {
            return self.body.clone();
        }
        let mut bytes = Vec::new();
        let mut rest = self.body.as_slice();
        for size in &self.chunks {
            let (chunk, behind) = rest.split_at(*size);
            bytes.extend_from_slice(format!("{size:x}\r\n").as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
            rest = behind;
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    /// The whole request as it is sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head_bytes(), self.body_bytes()].concat()
    }
}

/// These parameters with the `_meta` of a modern request.
fn with_meta(mut params: Value) -> Value {
    params["_meta"] = json!({VERSION_KEY: MODERN, CAPABILITIES_KEY: {}});
    params
}
