//! Connections to one upstream: made when needed, kept while they are fresh, given up at once when
//! the exchange that uses them is. Over HTTP/2 a connection serves many exchanges, and the stream of
//! one is what is given up.

mod connect;
mod http1;
mod http2;
mod inbound;

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

pub use inbound::Inbound;

use super::tls::{self, Connector};
use crate::policy::plan::{Http, Upstream};

/// The most that the head of an answer may take, and the size of read buffers.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How often a connection looks at its deadline. Timers that are set and cleared with every request
/// cost more than all that is done with its headers.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How often a request that was provably not sent is tried on another connection that turns out
/// to be closed; every one of them leaves the pool, so this only bounds a server that closes all.
const ATTEMPTS_MAX: usize = 3;
/// How many connections are made at once where each of them will serve many requests: those that
/// wait meanwhile share them.
const OPENING_MAX: usize = 4;

/// Why an upstream gave no answer.
#[derive(Debug)]
pub enum Failure {
    /// Its name has no address.
    Resolve(io::Error),
    /// No connection could be made.
    Connect(io::Error),
    /// None was made in time.
    ConnectTimeout,
    /// A connection was made, and no TLS over it.
    Tls(tls::Fault),
    /// The connection broke before the head of an answer was complete.
    Broken(Box<dyn Error + Send + Sync>),
    /// No head came in time.
    HeaderTimeout,
}

impl Failure {
    fn broken(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure::Broken(error.into())
    }

    /// The chain of causes, for the log.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Failure::Resolve(error) | Failure::Connect(error) => error.to_string(),
            Failure::Tls(fault) => fault.to_string(),
            Failure::ConnectTimeout => "connect timed out".into(),
            Failure::HeaderTimeout => "no response head in time".into(),
            Failure::Broken(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        }
    }
}

/// A request that got no answer.
#[derive(Debug)]
enum Lost<B> {
    /// The upstream did nothing with it, which is certain; here it is again.
    Unsent(Box<Request<B>>, Failure),
    /// The upstream may have done what it asks for.
    Sent(Failure),
}

/// A body that can be sent upstream. One that fails leaves the upstream with a request that never
/// became complete.
pub trait Outbound:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + Sized + 'static
{
    /// The same body once more, where all of it is at hand and nothing of it has been read.
    fn again(&self) -> Option<Self>;
}

/// Where all of a body is at hand from the beginning.
impl Outbound for Full<Bytes> {
    fn again(&self) -> Option<Full<Bytes>> {
        Some(self.clone())
    }
}

/// The connections to one upstream, over which bodies of type `B` are sent.
pub struct Pool<B> {
    upstream: Arc<Upstream>,
    resolve: connect::Resolve,
    connector: Option<Connector>,
    /// The upstream chose HTTP/1.1 in the last handshake.
    chose_http1: AtomicBool,
    kept: Mutex<Kept<B>>,
    opening: Semaphore,
}

/// The connections that can take a request.
#[derive(Debug)]
struct Kept<B> {
    /// Unused ones, the last used at the end.
    http1: Vec<http1::Connection<B>>,
    /// Those that are not closing. The first with room takes the next request, so that others
    /// become idle and end.
    http2: Vec<http2::Connection>,
}

impl<B> Kept<B> {
    /// A place for one more stream.
    fn slot(&mut self, streams_max: usize) -> Option<http2::Slot> {
        if self.http2.is_empty() {
            return None;
        }
        self.http2.retain_mut(|connection| !connection.is_closed());
        self.http2
            .iter()
            .find_map(|connection| connection.slot(streams_max))
    }
}

/// A connection in use, or a stream of one. Dropping it ends that, and with it the request that the
/// upstream is working on; [`Lease::give_back`] keeps the connection for the next one.
#[derive(Debug)]
pub struct Lease<B> {
    line: Line<B>,
    pool: Arc<Pool<B>>,
    reused: bool,
}

/// What an exchange takes place on.
#[derive(Debug)]
enum Line<B> {
    Http1(http1::Connection<B>),
    Http2(Box<http2::Slot>),
}

impl<B: Outbound> Lease<B> {
    /// Whether the connection had served another exchange before.
    #[must_use]
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Keeps the connection for the next exchange. Only after the answer was read to its end.
    pub fn give_back(self) {
        let Lease { line, pool, .. } = self;
        match line {
            Line::Http1(connection) => pool.keep(connection),
            Line::Http2(slot) => slot.finish(pool.upstream.idle_timeout),
        }
    }

    async fn send(
        &mut self,
        request: Request<B>,
        wait: Option<Duration>,
    ) -> Result<Response<Inbound>, Lost<B>> {
        match &mut self.line {
            Line::Http1(connection) => {
                let response = connection.send(request, wait).await?;
                Ok(response.map(Inbound::Http1))
            }
            Line::Http2(slot) => {
                let response = Box::pin(slot.send(request, wait)).await?;
                Ok(response.map(|body| Inbound::Http2(Box::new(body))))
            }
        }
    }
}

impl<B: Outbound> Pool<B> {
    /// An empty pool, whose connections are encrypted by `connector` if there is one.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, connector: Option<Connector>) -> Arc<Pool<B>> {
        Pool::resolving(upstream, connector, connect::system())
    }

    /// An empty pool that finds its upstream in this way.
    fn resolving(
        upstream: Arc<Upstream>,
        connector: Option<Connector>,
        resolve: connect::Resolve,
    ) -> Arc<Pool<B>> {
        Arc::new(Pool {
            upstream,
            resolve,
            connector,
            chose_http1: AtomicBool::new(false),
            kept: Mutex::new(Kept {
                http1: Vec::new(),
                http2: Vec::new(),
            }),
            opening: Semaphore::new(OPENING_MAX),
        })
    }

    /// The upstream that this pool leads to.
    #[must_use]
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Sends `request` and waits so long for the head of the answer; with no limit, the caller keeps
    /// the time. A request is tried again only when the upstream certainly did nothing with it.
    ///
    /// # Errors
    /// Why no answer came. The request may then have reached the upstream, unless the failure is
    /// one of connecting.
    pub async fn send(
        self: &Arc<Self>,
        mut request: Request<B>,
        wait: Option<Duration>,
    ) -> Result<(Response<Inbound>, Lease<B>), Failure> {
        let mut attempt = 1;
        loop {
            let mut lease = self.lease().await?;
            match lease.send(request, wait).await {
                Ok(response) => return Ok((response, lease)),
                Err(Lost::Unsent(back, _)) if attempt < ATTEMPTS_MAX => request = *back,
                Err(Lost::Unsent(_, failure) | Lost::Sent(failure)) => return Err(failure),
            }
            attempt += 1;
        }
    }

    /// A connection that is ready: one that is there, or a new one.
    async fn lease(self: &Arc<Self>) -> Result<Lease<B>, Failure> {
        if let Some(slot) = self.lock().slot(self.upstream.http2_streams_max) {
            return Ok(self.leased(slot.reused(), Line::Http2(Box::new(slot))));
        }
        while let Some(mut connection) = self.take() {
            if connection.is_ready().await {
                return Ok(self.leased(true, Line::Http1(connection)));
            }
        }
        match timeout(self.upstream.connect_timeout, Box::pin(self.open())).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::ConnectTimeout),
        }
    }

    fn leased(self: &Arc<Self>, reused: bool, line: Line<B>) -> Lease<B> {
        Lease {
            line,
            pool: self.clone(),
            reused,
        }
    }

    /// The HTTP/1.1 connection that was used last. One that is no longer fresh ends here.
    fn take(&self) -> Option<http1::Connection<B>> {
        loop {
            let connection = self.lock().http1.pop()?;
            if !connection.is_closed() && !connection.is_stale(Instant::now()) {
                return Some(connection);
            }
        }
    }

    fn keep(&self, connection: http1::Connection<B>) {
        let upstream = &*self.upstream;
        let (idle_timeout, age_max) = (upstream.idle_timeout, upstream.connection_age_max);
        if connection.is_closed() || !connection.rest(Instant::now(), idle_timeout, age_max) {
            return;
        }
        let mut kept = self.lock();
        let connections_max = upstream.idle_connections_max;
        if kept.http1.len() >= connections_max {
            kept.http1.retain(|kept| !kept.is_closed());
        }
        if kept.http1.len() < connections_max {
            kept.http1.push(connection);
        }
    }

    /// A new connection, or a stream of one that others have made meanwhile.
    async fn open(self: &Arc<Self>) -> Result<Lease<B>, Failure> {
        let upstream = &*self.upstream;
        // Where a connection will serve one request at a time, nobody waits for others'.
        let opening = match self.will_share() {
            true => Some(self.opening.acquire().await),
            false => None,
        };
        // While this one waited, the first may have shown that nothing is shared.
        let _opening = opening.filter(|_| self.will_share());
        if let Some(slot) = self.lock().slot(upstream.http2_streams_max) {
            return Ok(self.leased(slot.reused(), Line::Http2(Box::new(slot))));
        }
        let stream = connect::tcp(&self.resolve, &upstream.host, upstream.port).await?;
        let Some(connector) = &self.connector else {
            return self.over(stream, upstream.http).await;
        };
        let (stream, chosen) = connector.connect(stream).await.map_err(Failure::Tls)?;
        let http = chosen.unwrap_or(upstream.http);
        self.chose_http1.store(http != Http::V2, Ordering::Relaxed);
        self.over(stream, http).await
    }

    /// Whether a new connection is likely to serve several requests at once.
    fn will_share(&self) -> bool {
        match self.upstream.http {
            Http::V1 => false,
            Http::V2 => true,
            Http::Auto => self.connector.is_some() && !self.chose_http1.load(Ordering::Relaxed),
        }
    }

    /// A connection over `stream`, which speaks `http`.
    async fn over<S>(self: &Arc<Self>, stream: S, http: Http) -> Result<Lease<B>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let upstream = &*self.upstream;
        match http {
            Http::V1 | Http::Auto => {
                let connection = http1::Connection::over(stream, upstream).await?;
                Ok(self.leased(false, Line::Http1(connection)))
            }
            Http::V2 => {
                let connection = http2::Connection::over(stream, upstream).await?;
                let slot = connection.slot(upstream.http2_streams_max);
                let slot = slot.ok_or_else(|| Failure::broken("closed at once"))?;
                self.lock().http2.push(connection);
                Ok(self.leased(false, Line::Http2(Box::new(slot))))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept<B>> {
        // The lists are whole between any two statements that touch them.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> std::fmt::Debug for Pool<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

/// How often a connection looks whether the shortest of its times is over.
fn look_interval(shortest: Duration) -> Duration {
    (shortest / 4).clamp(LOOK_MIN, LOOK_MAX)
}

#[cfg(test)]
mod tests;
