//! Connections to one upstream: made when needed, kept while they are fresh, given up at once when
//! the exchange that uses them is.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::policy::plan::Upstream;

/// The most that the head of an answer may take, and the size of read buffers.
const READ_BUFFER_BYTES_MAX: usize = 64 << 10;
/// How often connections that are no longer fresh are looked for.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
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

/// The connections to one upstream.
#[derive(Debug)]
pub struct Pool {
    upstream: Arc<Upstream>,
    idle: Mutex<Vec<(Connection, Instant)>>,
}

/// One connection. Dropping it ends it at once, whatever it is in the middle of.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection in use. Dropping it ends the connection, and with it the request that the
/// upstream is working on; [`Lease::give_back`] keeps it for the next one.
#[derive(Debug)]
pub struct Lease {
    connection: Connection,
    pool: Arc<Pool>,
    reused: bool,
}

impl Lease {
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
        let mut idle = pool.lock();
        if idle.len() < pool.upstream.idle_connections_max {
            idle.push((connection, Instant::now()));
        }
    }
}

impl Pool {
    /// An empty pool, and the watch that closes what is no longer fresh. Needs a runtime.
    #[must_use]
    pub fn start(upstream: Arc<Upstream>) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            upstream,
            idle: Mutex::default(),
        });
        let watched = Arc::downgrade(&pool);
        tokio::spawn(async move {
            loop {
                sleep(REAP_INTERVAL).await;
                let Some(pool) = watched.upgrade() else {
                    return;
                };
                pool.reap(Instant::now());
            }
        });
        pool
    }

    /// The upstream that this pool leads to.
    #[must_use]
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Sends `request` and waits for the head of the answer. A request is tried again only when
    /// the connection handed it back unsent.
    ///
    /// # Errors
    /// Why no answer came. The request may then have reached the upstream, unless the failure is
    /// one of connecting.
    pub async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Lease), Failure> {
        let mut attempt = 1;
        loop {
            let mut lease = self.lease().await?;
            let sending = lease.connection.sender.try_send_request(request);
            let answer = timeout(self.upstream.response_header_timeout, sending).await;
            match answer {
                Ok(Ok(response)) => return Ok((response, lease)),
                Ok(Err(mut unsent)) => match unsent.take_message() {
                    Some(back) if attempt < ATTEMPTS_MAX => request = back,
                    _ => return Err(Failure::Broken(unsent.into_error())),
                },
                Err(_) => return Err(Failure::HeaderTimeout),
            }
            attempt += 1;
        }
    }

    /// A connection that is ready: the one used last, or a new one.
    async fn lease(self: &Arc<Self>) -> Result<Lease, Failure> {
        while let Some(mut connection) = self.take() {
            if connection.sender.ready().await.is_ok() {
                return Ok(Lease {
                    connection,
                    pool: self.clone(),
                    reused: true,
                });
            }
        }
        let connection = match timeout(self.upstream.connect_timeout, self.connect()).await {
            Ok(connection) => connection?,
            Err(_) => return Err(Failure::ConnectTimeout),
        };
        Ok(Lease {
            connection,
            pool: self.clone(),
            reused: false,
        })
    }

    fn take(&self) -> Option<Connection> {
        let (connection, since) = self.lock().pop()?;
        // The last one in is the freshest: if it is stale, so are all others.
        if since.elapsed() < self.upstream.idle_timeout {
            return Some(connection);
        }
        self.lock().clear();
        None
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let address = (self.upstream.host.as_str(), self.upstream.port);
        let stream = TcpStream::connect(address)
            .await
            .map_err(Failure::Connect)?;
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(Failure::Broken)?;
        // A failure of the connection reaches its exchange through the sender.
        let driver = tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(Connection {
            sender,
            driver: driver.abort_handle(),
        })
    }

    fn reap(&self, now: Instant) {
        let mut idle = self.lock();
        idle.retain(|(connection, since)| {
            !connection.sender.is_closed()
                && now.duration_since(*since) < self.upstream.idle_timeout
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Connection, Instant)>> {
        // The list is whole between any two statements that touch it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
