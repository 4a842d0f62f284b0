//! Connections to one upstream: made when needed, kept while they are fresh, given up at once when
//! the exchange that uses them is.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::alarm::Alarm;
use super::outlet::Outlet;
use crate::policy::plan::Upstream;

/// The most that the head of an answer may take, and the size of read buffers.
const READ_BUFFER_BYTES_MAX: usize = 64 << 10;
/// How often a connection looks at its deadline. Timers that are set and cleared with every request
/// cost more than all that is done with its headers.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How long a request waits for a kept connection that is not ready yet, before it takes another.
/// A server that answers before it has read the whole request may never read the rest of it.
const READY_WAIT_MAX: Duration = Duration::from_millis(20);
/// How often a request that was provably not sent is tried on another connection that turns out
/// to be closed; every one of them leaves the pool, so this only bounds a server that closes all.
const ATTEMPTS_MAX: usize = 3;

/// Why an upstream gave no answer.
#[derive(Debug)]
pub enum Failure {
    /// No connection could be made.
    Connect(io::Error),
    /// None was made in time.
    ConnectTimeout,
    /// The connection broke before the head of an answer was complete.
    Broken(hyper::Error),
    /// No head came in time.
    HeaderTimeout,
}

impl Failure {
    /// The chain of causes, for the log.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Failure::Connect(error) => error.to_string(),
            Failure::ConnectTimeout => "connect timed out".into(),
            Failure::HeaderTimeout => "no response head in time".into(),
            Failure::Broken(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        }
    }
}

/// A body that can be sent upstream. One that fails leaves the upstream with a request that never
/// became complete.
pub trait Outbound:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> Outbound for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// The connections to one upstream, over which bodies of type `B` are sent.
#[derive(Debug)]
pub struct Pool<B> {
    upstream: Arc<Upstream>,
    idle: Mutex<Vec<Connection<B>>>,
}

/// One connection. Dropping it ends it at once, whatever it is in the middle of.
#[derive(Debug)]
struct Connection<B> {
    sender: SendRequest<B>,
    driver: AbortHandle,
    deadline: Arc<Deadline>,
}

/// When a connection must have done what it is waited for: have the head of an answer, or be used
/// again. It is met or missed, never both: whoever says so first is right.
#[derive(Debug)]
struct Deadline {
    origin: Instant,
    /// Milliseconds after the origin, or one of the two values below.
    after_ms: AtomicU64,
}

/// Nothing is waited for.
const NONE: u64 = 0;
/// It was missed, and the connection ends.
const MISSED: u64 = u64::MAX;

impl Deadline {
    fn starting_at(origin: Instant) -> Deadline {
        Deadline {
            origin,
            after_ms: AtomicU64::new(NONE),
        }
    }

    /// From `now` on, something is waited for.
    fn set(&self, now: Instant, wait: Duration) {
        let elapsed = now.saturating_duration_since(self.origin);
        let after = elapsed.saturating_add(wait).as_millis();
        let after = u64::try_from(after).unwrap_or(MISSED);
        let after = after.clamp(NONE + 1, MISSED - 1);
        self.after_ms.store(after, Ordering::Relaxed);
    }

    /// What was waited for has come. Tells whether it came before the deadline was missed.
    fn meet(&self) -> bool {
        self.after_ms.swap(NONE, Ordering::Relaxed) != MISSED
    }

    /// Tells whether the deadline is missed at `now`.
    fn miss(&self, now: Instant) -> bool {
        let after = self.after_ms.load(Ordering::Relaxed);
        let elapsed = now.saturating_duration_since(self.origin).as_millis();
        match after {
            NONE => false,
            MISSED => true,
            _ if elapsed < u128::from(after) => false,
            // It may just have been met, or set anew.
            _ => self
                .after_ms
                .compare_exchange(after, MISSED, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok(),
        }
    }

    fn was_missed(&self) -> bool {
        self.after_ms.load(Ordering::Relaxed) == MISSED
    }
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection in use. Dropping it ends the connection, and with it the request that the
/// upstream is working on; [`Lease::give_back`] keeps it for the next one.
#[derive(Debug)]
pub struct Lease<B> {
    connection: Connection<B>,
    pool: Arc<Pool<B>>,
    reused: bool,
}

impl<B: Outbound> Lease<B> {
    /// Whether the connection had served another exchange before.
    #[must_use]
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Keeps the connection for the next exchange. Only after the answer was read to its end.
    pub fn give_back(self) {
        let Lease {
            connection, pool, ..
        } = self;
        if connection.sender.is_closed() {
            return;
        }
        let wait = pool.upstream.idle_timeout;
        connection.deadline.set(Instant::now(), wait);
        let mut idle = pool.lock();
        if idle.len() >= pool.upstream.idle_connections_max {
            idle.retain(|kept| !kept.sender.is_closed());
        }
        if idle.len() < pool.upstream.idle_connections_max {
            idle.push(connection);
        }
    }
}

impl<B: Outbound> Pool<B> {
    /// An empty pool.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>) -> Arc<Pool<B>> {
        Arc::new(Pool {
            upstream,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// The upstream that this pool leads to.
    #[must_use]
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Sends `request` and waits for the head of the answer, for `head_timeout` from now on; with
    /// none, the caller keeps the time. A request is tried again only when the connection handed
    /// it back unsent.
    ///
    /// # Errors
    /// Why no answer came. The request may then have reached the upstream, unless the failure is
    /// one of connecting.
    pub async fn send(
        self: &Arc<Self>,
        mut request: Request<B>,
        head_timeout: Option<Duration>,
    ) -> Result<(Response<Incoming>, Lease<B>), Failure> {
        let mut attempt = 1;
        loop {
            let mut lease = self.lease().await?;
            let Connection {
                sender, deadline, ..
            } = &mut lease.connection;
            match head_timeout {
                Some(wait) => deadline.set(Instant::now(), wait),
                // That the connection is used again has come in time.
                None => {
                    deadline.meet();
                }
            }
            let mut unsent = match sender.try_send_request(request).await {
                Ok(response) if deadline.meet() => return Ok((response, lease)),
                // The connection has ended, and would break the answer off.
                Ok(_) => return Err(Failure::HeaderTimeout),
                Err(unsent) => unsent,
            };
            match unsent.take_message() {
                Some(back) if attempt < ATTEMPTS_MAX => request = back,
                None if deadline.was_missed() => return Err(Failure::HeaderTimeout),
                Some(_) | None => return Err(Failure::Broken(unsent.into_error())),
            }
            attempt += 1;
        }
    }

    /// A connection that is ready: the one used last, or a new one.
    async fn lease(self: &Arc<Self>) -> Result<Lease<B>, Failure> {
        while let Some(mut connection) = self.take() {
            if is_ready(&mut connection.sender).await {
                return Ok(Lease {
                    connection,
                    pool: self.clone(),
                    reused: true,
                });
            }
        }
        let connection =
            match timeout(self.upstream.connect_timeout, Box::pin(self.connect())).await {
                Ok(connection) => connection?,
                Err(_) => return Err(Failure::ConnectTimeout),
            };
        Ok(Lease {
            connection,
            pool: self.clone(),
            reused: false,
        })
    }

    /// The connection that was used last. One that is no longer fresh ends here.
    fn take(&self) -> Option<Connection<B>> {
        loop {
            let connection = self.lock().pop()?;
            if !connection.sender.is_closed() && !connection.deadline.miss(Instant::now()) {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<Connection<B>, Failure> {
        let address = (self.upstream.host.as_str(), self.upstream.port);
        let stream = TcpStream::connect(address)
            .await
            .map_err(Failure::Connect)?;
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        self.connection(stream).await
    }

    /// A connection over `stream`, driven by a task of its own.
    async fn connection<S>(&self, stream: S) -> Result<Connection<B>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(Outlet::new(stream)))
            .await
            .map_err(Failure::Broken)?;
        let deadline = Arc::new(Deadline::starting_at(Instant::now()));
        let driver = tokio::spawn(drive(driver, deadline.clone(), self.look_interval()));
        Ok(Connection {
            sender,
            driver: driver.abort_handle(),
            deadline,
        })
    }

    fn look_interval(&self) -> Duration {
        let shortest = self
            .upstream
            .response_header_timeout
            .min(self.upstream.idle_timeout);
        (shortest / 4).clamp(LOOK_MIN, LOOK_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection<B>>> {
        // The list is whole between any two statements that touch it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a connection that has served an exchange can serve another: mostly it can at once.
async fn is_ready<B>(sender: &mut SendRequest<B>) -> bool {
    let at_once = poll_fn(|cx| Poll::Ready(sender.poll_ready(cx))).await;
    match at_once {
        Poll::Ready(ready) => ready.is_ok(),
        Poll::Pending => matches!(timeout(READY_WAIT_MAX, sender.ready()).await, Ok(Ok(()))),
    }
}

/// Drives the library's connection until it ends or misses its deadline. A failure reaches the
/// exchange through the sender.
async fn drive(
    library: impl Future<Output = Result<(), hyper::Error>>,
    deadline: Arc<Deadline>,
    look_interval: Duration,
) {
    let mut library = pin!(library);
    let mut look = Alarm::new(Instant::now() + look_interval);
    poll_fn(|cx| {
        if library.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        while look.poll(cx).is_ready() {
            let now = Instant::now();
            if deadline.miss(now) {
                return Poll::Ready(());
            }
            look.reset(now + look_interval);
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
