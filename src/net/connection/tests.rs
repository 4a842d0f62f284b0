//! Connections over a pipe, with services that do what a gateway never would.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::net::ending::Phase;
use crate::net::listener::Answer;

/// Only waited for where something is lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads the body of a request for `/read` and answers; keeps that of any other, unread.
#[derive(Clone, Default)]
struct Hoarder {
    kept: Arc<Mutex<Vec<Received>>>,
    ends: Arc<Mutex<Vec<&'static str>>>,
}

impl Answer for Full<Bytes> {
    fn untaken(&mut self, _limit: Option<&'static str>) {}
}

impl Serve for Hoarder {
    type Body = Full<Bytes>;

    async fn serve(&self, _client: Client, request: Request<Received>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        if head.uri.path() != "/read" {
            self.kept.lock().unwrap().push(body);
            return std::future::pending().await;
        }
        let read = body.collect().await.unwrap().to_bytes();
        Response::new(Full::new(Bytes::from(read.len().to_string())))
    }

    fn connection_ended(&self, end: ConnectionEnd) {
        self.ends.lock().unwrap().push(end.reason);
    }

    fn accept_failed(&self, _error: &io::Error) {}

    fn connections_refused(&self, _limit: &'static str, _count: u64) {}
}

/// A connection and the other end of it.
struct Pipe {
    client: DuplexStream,
    serving: JoinHandle<()>,
    phases: watch::Sender<Phase>,
    service: Hoarder,
}

fn connect(listen: Listen) -> Pipe {
    let (client, stream) = duplex(1 << 20);
    let (phases, seen) = watch::channel(Phase::Serving);
    let service = Hoarder::default();
    let serves = service.clone();
    let serving = tokio::spawn(async move {
        let peer = Client::new(SocketAddr::from(([127, 0, 0, 1], 1)), false);
        serve(stream, peer, None, &listen, &serves, Phases::new(seen)).await;
    });
    Pipe {
        client,
        serving,
        phases,
        service,
    }
}

fn request(path: &str) -> Request<()> {
    let uri = format!("http://127.0.0.1{path}");
    Request::post(uri).body(()).unwrap()
}

#[tokio::test]
async fn bodies_that_nobody_reads_stop_no_other_body() {
    let streams = 5;
    let pipe = connect(Listen {
        http2_streams_max: streams,
        ..Listen::default()
    });
    let (sender, library) = h2::client::handshake(pipe.client).await.unwrap();
    tokio::spawn(library);
    let mut sender = sender.ready().await.unwrap();
    let whole_window = Bytes::from(vec![b'x'; STREAM_WINDOW_BYTES as usize]);
    let mut unread = Vec::new();
    for _ in 1..streams {
        let (response, mut body) = sender.send_request(request("/unread"), false).unwrap();
        body.send_data(whole_window.clone(), false).unwrap();
        unread.push((response, body));
        sender = sender.ready().await.unwrap();
    }
    let (response, mut body) = sender.send_request(request("/read"), false).unwrap();
    body.send_data(Bytes::from(vec![b'y'; 1 << 20]), true)
        .unwrap();
    let answer = timeout(PATIENCE, response).await.unwrap().unwrap();
    let read = answer.into_body().data().await.unwrap().unwrap();
    assert_eq!(read, (1 << 20).to_string());
    assert_eq!(pipe.service.kept.lock().unwrap().len(), unread.len());
}

/// Lets the connection's task do what it can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_without_a_word_goes_when_the_process_does() {
    for begun in [&b""[..], b"PRI * HT", b"POST /read HT"] {
        for phase in [Phase::Draining, Phase::Ending] {
            let mut pipe = connect(Listen::default());
            pipe.client.write_all(begun).await.unwrap();
            settle().await;
            pipe.phases.send_replace(phase);
            settle().await;
            let half_a_head = begun.starts_with(b"POST");
            if half_a_head && phase == Phase::Draining {
                // It is waited for, and gets its answer.
                let rest = b"TP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
                pipe.client.write_all(rest).await.unwrap();
                let mut answer = String::new();
                let read = pipe.client.read_to_string(&mut answer);
                timeout(PATIENCE, read).await.unwrap().unwrap();
                assert!(answer.contains("connection: close"), "{answer}");
                drop(pipe.client);
            }
            timeout(PATIENCE, pipe.serving).await.unwrap().unwrap();
            assert!(pipe.service.ends.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_say_what_it_speaks_is_given_up() {
    let listen = || Listen {
        handshake_timeout: Duration::from_millis(20),
        header_read_timeout: Duration::from_millis(20),
        ..Listen::default()
    };
    for (begun, reason) in [
        (&b""[..], "header_read_timeout"),
        (b"PRI * HT", "handshake_timeout"),
        (b"POST /", "header_read_timeout"),
    ] {
        let mut pipe = connect(listen());
        pipe.client.write_all(begun).await.unwrap();
        timeout(PATIENCE, pipe.serving).await.unwrap().unwrap();
        assert_eq!(pipe.service.ends.lock().unwrap().as_slice(), [reason]);
    }
}
