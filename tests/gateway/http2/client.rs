//! A client of HTTP/2 that shows what a stream came to, reset by reset.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::harness::wire::PATIENCE;
use crate::harness::{Gateway, Request, eventually};

/// One connection.
pub(crate) struct Client2 {
    runtime: Arc<Runtime>,
    sender: SendRequest<Bytes>,
    connection: AbortHandle,
    ended: Arc<Mutex<Option<Result<(), h2::Error>>>>,
}

/// One request, and what comes for it.
pub(crate) struct Stream2 {
    runtime: Arc<Runtime>,
    response: Option<ResponseFuture>,
    upload: SendStream<Bytes>,
    body: Option<RecvStream>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Client2 {
    pub(crate) fn connect(gateway: &Gateway) -> Client2 {
        Client2::with(gateway, Builder::new())
    }

    /// A connection with these settings of the client.
    pub(crate) fn with(gateway: &Gateway, settings: Builder) -> Client2 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (sender, connection) = waits(&runtime, "a connection", async {
            let socket = TcpStream::connect(gateway.address).await.expect("a socket");
            socket.set_nodelay(true).expect("a socket");
            settings.handshake(socket).await.expect("a handshake")
        });
        let ended = Arc::new(Mutex::new(None));
        let noted = ended.clone();
        let connection = runtime.spawn(async move {
            let end = connection.await;
            *noted.lock().expect("no panic") = Some(end);
        });
        Client2 {
            runtime: Arc::new(runtime),
            sender,
            connection: connection.abort_handle(),
            ended,
        }
    }

    /// Sends a request whole.
    pub(crate) fn send(&mut self, request: &Request) -> Stream2 {
        let mut stream = self.begin(request);
        stream.upload(&request.body, true);
        stream
    }

    /// Sends the head of a request; its body is up to the test.
    pub(crate) fn begin(&mut self, request: &Request) -> Stream2 {
        let ended = request.body.is_empty() && request.method != "POST";
        let (response, upload) = self
            .try_begin(request, ended)
            .expect("a request that can be sent");
        Stream2 {
            runtime: self.runtime.clone(),
            response: Some(response),
            upload,
            body: None,
        }
    }

    fn try_begin(
        &mut self,
        request: &Request,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut head = http::Request::builder().method(request.method.as_str());
        let mut host = "127.0.0.1".to_owned();
        for (name, value) in &request.lines {
            match name.to_ascii_lowercase().as_str() {
                "host" => host = String::from_utf8_lossy(value).into_owned(),
                // What a test wants to send as it is.
                ":host" => head = head.header("host", value.as_slice()),
                _ => head = head.header(name.as_str(), value.as_slice()),
            }
        }
        let uri = format!("http://{host}{}", request.target);
        let head = head.uri(uri).body(()).expect("a head");
        let sender = &mut self.sender;
        let ready = std::future::poll_fn(|cx| sender.poll_ready(cx));
        waits(&self.runtime, "room for a stream", ready)?;
        self.sender.send_request(head, ended)
    }

    /// Sends a request and reads its answer.
    pub(crate) fn exchange(&mut self, request: &Request) -> Answer {
        self.send(request).read()
    }

    /// How many streams the server allows now.
    pub(crate) fn streams_max(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Waits until the server has ended the connection, and says how.
    pub(crate) fn ending(&self) -> Result<(), h2::Error> {
        let took = eventually("the end of the connection", || self.is_ended());
        println!("the connection ended after {took:?}");
        let mut ended = self.ended.lock().expect("no panic");
        ended.take().expect("an end")
    }

    /// Whether the connection has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.lock().expect("no panic").is_some()
    }

    /// Closes the socket, whatever is open.
    pub(crate) fn close(self) {
        self.connection.abort();
    }
}

impl Stream2 {
    /// Hands a piece of the body to the connection, which sends it as there is room.
    pub(crate) fn upload(&mut self, piece: &[u8], end: bool) {
        if piece.is_empty() && !end {
            return;
        }
        // A server that has reset the stream takes no more.
        let _ = self.upload.send_data(Bytes::copy_from_slice(piece), end);
    }

    /// Gives the stream up.
    pub(crate) fn reset(&mut self) {
        self.reset_by(Reason::CANCEL);
    }

    /// Gives the stream up for this reason.
    pub(crate) fn reset_by(&mut self, reason: Reason) {
        self.upload.send_reset(reason);
    }

    /// Waits for the head of the answer.
    pub(crate) fn head(&mut self) -> Result<http::response::Parts, Reason> {
        let response = self.response.take().expect("a head that was not read yet");
        let response = waits(&self.runtime, "a head", response).map_err(|error| reason(&error))?;
        let (head, body) = response.into_parts();
        self.body = Some(body);
        Ok(head)
    }

    /// The next piece of the body that has something in it; none at its proper end.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Reason> {
        let body = self.body.as_mut().expect("a head was read");
        loop {
            match waits(&self.runtime, "a piece", body.data()) {
                None => return Ok(None),
                Some(Err(error)) => return Err(reason(&error)),
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => {
                    // Room for the next.
                    let _ = body.flow_control().release_capacity(piece.len());
                    return Ok(Some(piece));
                }
            }
        }
    }

    /// Whether nothing of the body is there now.
    pub(crate) fn is_silent(&mut self) -> bool {
        let runtime = self.runtime.clone();
        let body = self.body.as_mut().expect("a head was read");
        runtime.block_on(async {
            let mut next = pin!(body.data());
            std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await
        })
    }

    /// Reads the answer.
    pub(crate) fn read(mut self) -> Answer {
        let head = self.head().expect("an answer");
        let mut body = Vec::new();
        while let Some(piece) = self.next().expect("a body to its end") {
            body.extend_from_slice(&piece);
        }
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    /// Reads on until the stream is reset, which must happen before a proper end; gives the reason
    /// and what came before.
    pub(crate) fn read_to_reset(&mut self) -> (Reason, Vec<u8>) {
        let mut came = Vec::new();
        loop {
            match self.next() {
                Ok(Some(piece)) => came.extend_from_slice(&piece),
                Ok(None) => panic!("a clean end behind {:?}", String::from_utf8_lossy(&came)),
                Err(reason) => return (reason, came),
            }
        }
    }
}

/// Why a stream ended; a connection that broke under it has none.
fn reason(error: &h2::Error) -> Reason {
    error.reason().unwrap_or(Reason::CONNECT_ERROR)
}

fn waits<T>(runtime: &Runtime, what: &str, future: impl Future<Output = T>) -> T {
    runtime.block_on(async {
        timeout(PATIENCE, future)
            .await
            .unwrap_or_else(|_| panic!("never came: {what}"))
    })
}
