//! A listener that serves one request per connection, in bounded time and number, and answers at once
//! with what it knows.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::net::descriptor::{Descriptors, is_exhausted};
use crate::observe::{Level, Log};

/// What a client may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most connections at once; further ones wait in the system's queue.
    pub(super) connections_max: usize,
    /// How long a client may take for its request's head.
    pub(super) header_read_timeout: Duration,
    /// How long a connection may last, reading the answer included.
    pub(super) connection_timeout: Duration,
}

impl Bounds {
    pub(super) const DEFAULT: Bounds = Bounds {
        connections_max: 64,
        header_read_timeout: Duration::from_secs(5),
        connection_timeout: Duration::from_secs(10),
    };
}

/// Most bytes of a head; a probe has a hundred. The smallest bound that hyper takes.
pub(super) const HEADER_BYTES_MAX: usize = 8 << 10;
/// How long to wait after a failed accept: without, an exhausted table of files is a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener with what it needs.
pub(super) struct Endpoint {
    /// What it is called in the log.
    pub(super) name: &'static str,
    pub(super) bounds: Bounds,
    pub(super) listener: TcpListener,
    /// Gives up spare ones for probes where the process has none left.
    pub(super) descriptors: Descriptors,
    pub(super) log: Log,
}

impl Endpoint {
    /// Answers requests, with the address of ours that each came to, for as long as it is polled.
    pub(super) async fn serve<A>(self, answer: A)
    where
        A: Fn(&Request<Incoming>, SocketAddr) -> Response<Full<Bytes>> + Clone + Send + Sync,
        A: 'static,
    {
        let (bounds, descriptors) = (self.bounds, self.descriptors);
        let permits = Arc::new(Semaphore::new(bounds.connections_max));
        // They are filled again as connections end; where that fails, there is one fewer to accept.
        let _ = descriptors.fill_spares();
        loop {
            // The semaphore is never closed, so there always is a permit in the end.
            let permit = Arc::clone(&permits).acquire_owned().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (answer, descriptors) = (answer.clone(), descriptors.clone());
                    tokio::spawn(async move {
                        serve_connection(bounds, stream, answer).await;
                        let _ = descriptors.fill_spares();
                        drop(permit);
                    });
                }
                Err(error) if is_exhausted(&error) && descriptors.give_up_spare() => {}
                Err(error) => {
                    self.log.event(
                        Level::Warn,
                        "a listener beside the gateway cannot accept",
                        &[("listener", &self.name), ("error", &error)],
                    );
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves one request. Whoever leaves early or talks nonsense is nobody's concern, so failures end
/// here.
async fn serve_connection(
    bounds: Bounds,
    stream: TcpStream,
    answer: impl Fn(&Request<Incoming>, SocketAddr) -> Response<Full<Bytes>>,
) {
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(&request, local);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header_read_timeout)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        // Some probes close their half once they have asked.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(bounds.connection_timeout, connection).await;
}
