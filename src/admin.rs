//! The status listener: probes for whoever runs the process.
//!
//! `/healthz` says that the process serves, `/readyz` that it takes new work. Both answer `GET`
//! and `HEAD`; every connection serves one request, in bounded time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::observe::{Level, Log};

/// Whether the gateway takes new work: a flag that all clones share. It only moves forward, from
/// starting to ready to draining, so a late word of readiness cannot undo a drain.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    const STARTING: u8 = 0;
    const READY: u8 = 1;
    const DRAINING: u8 = 2;

    /// Not ready yet.
    #[must_use]
    pub fn starting() -> Readiness {
        Readiness::default()
    }

    /// The gateway listens.
    pub fn ready(&self) {
        self.0.fetch_max(Readiness::READY, Ordering::AcqRel);
    }

    /// The gateway is about to end and wants no new work.
    pub fn draining(&self) {
        self.0.fetch_max(Readiness::DRAINING, Ordering::AcqRel);
    }

    /// Why there should be no new work, if so.
    fn objection(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Acquire) {
            Readiness::STARTING => Some("starting: the gateway does not listen yet\n"),
            Readiness::READY => None,
            _ => Some("draining: the gateway finishes what it has and takes no new work\n"),
        }
    }
}

/// Most connections at once; further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for its request's head.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may last, reading the answer included.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a head; a probe has a hundred. The smallest that hyper takes.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// How long to wait after a failed accept: without, an exhausted table of files is a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers probes on `listener` until it is dropped.
pub async fn serve(listener: TcpListener, readiness: Readiness, log: Log) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed, so there always is a permit in the end.
        let permit = Arc::clone(&permits).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let readiness = readiness.clone();
                tokio::spawn(async move {
                    serve_connection(stream, readiness).await;
                    drop(permit);
                });
            }
            Err(error) => {
                log.event(
                    Level::Warn,
                    "the status listener cannot accept",
                    &[("error", &error)],
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one request. A probe that leaves early or talks nonsense is nobody's concern, so
/// failures end here.
async fn serve_connection(stream: TcpStream, readiness: Readiness) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let response = answer(request.method(), request.uri().path(), &readiness);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        // Some probes close their half once they have asked.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

fn answer(method: &Method, path: &str, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        "/healthz" | "/readyz" if method != Method::GET && method != Method::HEAD => (
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are served here\n",
        ),
        "/healthz" => (StatusCode::OK, "ok\n"),
        "/readyz" => match readiness.objection() {
            None => (StatusCode::OK, "ready\n"),
            Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        },
        _ => (StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
