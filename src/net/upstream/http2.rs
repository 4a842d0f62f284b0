//! One connection over HTTP/2: many exchanges at once, each on a stream of its own.
//!
//! The streams are counted here. The library would take any number of requests and let those above the
//! peer's limit wait without a word, which is for ever where streams stay open.

mod body;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, Reason};
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub(super) use body::Inbound;

use body::Upload;

use super::{Failure, HEAD_BYTES_MAX, Lost, Outbound, look_interval};
use crate::net::alarm::Alarm;
use crate::net::outlet::Outlet;
use crate::policy::plan::Upstream;

/// What one stream may have on its way to us, unread.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// What one stream may have on its way to the upstream, unsent.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;

/// One connection. Dropping it leaves the exchanges on it alone.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    streams: Arc<Streams>,
    scheme: Scheme,
}

impl Connection {
    /// A connection over `stream`, driven by a task of its own. It is there once the peer has said
    /// how many streams it takes.
    ///
    /// # Errors
    /// [`Failure::Broken`], also where the peer does not speak HTTP/2.
    pub(super) async fn over<S>(stream: S, upstream: &Upstream) -> Result<Connection, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let streams_max = upstream.http2_streams_max;
        // A reader that stops fills the window of its stream, and takes nothing of its neighbours'.
        let window = u32::try_from(streams_max)
            .unwrap_or(u32::MAX)
            .saturating_mul(STREAM_WINDOW_BYTES)
            .min(i32::MAX as u32);
        let (sender, mut library) = Builder::new()
            // None before the peer has said how many.
            .initial_max_send_streams(0)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(window)
            .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .enable_push(false)
            .handshake::<_, Bytes>(Outlet::new(stream))
            .await
            .map_err(Failure::broken)?;
        poll_fn(|cx| match Pin::new(&mut library).poll(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::broken(error))),
            Poll::Ready(Ok(())) => Poll::Ready(Err(Failure::broken("closed at once"))),
            Poll::Pending if sender.current_max_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        let streams = Arc::new(Streams::starting_at(Instant::now()));
        let watch = Watch {
            pings: library.ping_pong(),
            streams: streams.clone(),
            idle_timeout: upstream.idle_timeout,
            age_max: upstream.connection_age_max,
            ping_interval: upstream.http2_ping_interval,
            pinged: (Instant::now(), true),
        };
        tokio::spawn(drive(library, watch));
        Ok(Connection {
            sender,
            streams,
            scheme: match upstream.tls {
                Some(_) => Scheme::HTTPS,
                None => Scheme::HTTP,
            },
        })
    }

    /// A place for one more stream, of at most `streams_max`; none where the peer takes no more.
    pub(super) fn slot(&self, streams_max: usize) -> Option<Slot> {
        let streams_max = streams_max.min(self.sender.current_max_send_streams());
        let reused = self.streams.open_one(streams_max)?;
        Some(Slot {
            sender: self.sender.clone(),
            streams: self.streams.clone(),
            scheme: self.scheme.clone(),
            upload: None,
            reused,
        })
    }

    /// Whether it takes no further stream, now or later.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(self.sender.poll_ready(&mut cx), Poll::Ready(Err(_)))
    }
}

/// The number of streams of a connection.
#[derive(Debug)]
struct Streams(Mutex<Count>);

#[derive(Debug)]
struct Count {
    open: usize,
    /// When the connection was made.
    made: Instant,
    /// Since when none is open.
    idle_since: Instant,
    /// Whether one was ever open.
    used: bool,
    /// Whether the connection takes no more, and ends when none is open.
    closed: bool,
}

impl Streams {
    fn starting_at(now: Instant) -> Streams {
        Streams(Mutex::new(Count {
            open: 0,
            made: now,
            idle_since: now,
            used: false,
            closed: false,
        }))
    }

    /// Counts one more, if there is room among `max`. Tells whether there were others before.
    fn open_one(&self, max: usize) -> Option<bool> {
        let mut count = self.lock();
        if count.closed || count.open >= max {
            return None;
        }
        count.open += 1;
        Some(std::mem::replace(&mut count.used, true))
    }

    fn close_one(&self) {
        let mut count = self.lock();
        count.open -= 1;
        if count.open == 0 {
            count.idle_since = Instant::now();
        }
    }

    /// Takes no more, if at `now` none has been open for `idle_timeout` or the connection is
    /// `age_max` old. Tells whether none is open then, and none will be.
    fn end(&self, now: Instant, idle_timeout: Duration, age_max: Duration) -> bool {
        let mut count = self.lock();
        let idle = now.saturating_duration_since(count.idle_since);
        count.closed |= now.saturating_duration_since(count.made) >= age_max;
        count.closed |= count.open == 0 && idle >= idle_timeout;
        count.closed && count.open == 0
    }

    fn are_open(&self) -> bool {
        self.lock().open > 0
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        // The count is right between any two statements that touch it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection's task looks after, beside the connection.
struct Watch {
    streams: Arc<Streams>,
    idle_timeout: Duration,
    age_max: Duration,
    pings: Option<PingPong>,
    ping_interval: Duration,
    /// When a ping went out last, and whether it was answered.
    pinged: (Instant, bool),
}

impl Watch {
    /// Whether the connection must end at `now`: it has been idle for too long, or too old and
    /// done with its streams, or a peer with open streams has left a ping unanswered.
    fn ends(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        if self.streams.end(now, self.idle_timeout, self.age_max) {
            return true;
        }
        let Some(pings) = &mut self.pings else {
            return false;
        };
        let (at, answered) = &mut self.pinged;
        *answered = *answered || pings.poll_pong(cx).is_ready();
        if now.saturating_duration_since(*at) < self.ping_interval {
            return false;
        }
        if !*answered {
            return true;
        }
        if self.streams.are_open() && pings.send_ping(Ping::opaque()).is_ok() {
            self.pinged = (now, false);
        }
        false
    }
}

/// Drives the library's connection until it ends. Its exchanges hear of that through their streams.
async fn drive(library: impl Future<Output = Result<(), h2::Error>>, mut watch: Watch) {
    let mut library = pin!(library);
    let interval = look_interval(
        watch
            .idle_timeout
            .min(watch.ping_interval)
            .min(watch.age_max),
    );
    let mut look = Alarm::new(Instant::now() + interval);
    poll_fn(|cx| {
        if library.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        while look.poll(cx).is_ready() {
            let now = Instant::now();
            if watch.ends(now, cx) {
                return Poll::Ready(());
            }
            look.reset(now + interval);
        }
        Poll::Pending
    })
    .await;
}

/// A place for one stream, and then that stream. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Slot {
    sender: SendRequest<Bytes>,
    streams: Arc<Streams>,
    scheme: Scheme,
    /// The sending of a body that did not go out at once.
    upload: Option<JoinHandle<()>>,
    reused: bool,
}

impl Slot {
    /// Whether the connection had served another exchange before.
    pub(super) fn reused(&self) -> bool {
        self.reused
    }

    /// Sends `request`, and waits so long for the head of its answer, or as long as it is wanted.
    /// Dropping what this gives, or this while it is pending, resets the stream and nothing else.
    ///
    /// # Errors
    /// What became of the request, which is handed back where the upstream certainly did nothing with
    /// it and all of its body is still there.
    pub(super) async fn send<B: Outbound>(
        &mut self,
        request: Request<B>,
        wait: Option<Duration>,
    ) -> Result<Response<Inbound>, Lost<B>> {
        let again = request.body().again();
        let (parts, body) = request.into_parts();
        let head = match head(&parts, &body, &self.scheme) {
            Ok(head) => head,
            Err(error) => return Err(Lost::Sent(Failure::broken(error))),
        };
        let (answer, stream) = match self.sender.send_request(head, body.is_end_stream()) {
            Ok(sent) => sent,
            Err(error) => {
                let request = Request::from_parts(parts, body);
                return Err(Lost::Unsent(Box::new(request), Failure::broken(error)));
            }
        };
        if !body.is_end_stream() {
            let mut upload = Upload::new(body, stream);
            let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut upload).poll(cx))).await;
            self.upload = at_once.is_pending().then(|| tokio::spawn(upload));
        }
        let answer = match wait {
            Some(wait) => timeout(wait, answer).await,
            None => Ok(answer.await),
        };
        match answer {
            Err(_) => Err(Lost::Sent(Failure::HeaderTimeout)),
            Ok(Ok(response)) => Ok(Inbound::of(response)),
            Ok(Err(error)) => Err(match again {
                Some(body) if is_refused(&error) => {
                    let request = Request::from_parts(parts, body);
                    Lost::Unsent(Box::new(request), Failure::broken(error))
                }
                Some(_) | None => Lost::Sent(Failure::broken(error)),
            }),
        }
    }

    /// The answer was read to its end. A body of which the upstream still takes pieces may go on
    /// for so long.
    pub(super) fn finish(mut self, wait: Duration) {
        if self
            .upload
            .as_ref()
            .is_some_and(|upload| !upload.is_finished())
        {
            tokio::spawn(async move {
                if let Some(upload) = &mut self.upload {
                    // Whatever became of it, the stream ends when this is dropped.
                    let _ = timeout(wait, upload).await;
                }
            });
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.abort();
        }
        self.streams.close_one();
    }
}

/// Whether the upstream says itself that it did nothing with a request (RFC 9113, section 8.7). A
/// GOAWAY says so of some streams too, but the library does not tell which.
fn is_refused(error: &h2::Error) -> bool {
    error.is_reset() && error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM)
}

/// The head of a request as HTTP/2 has it: the authority is no field (RFC 9113, section 8.3.1).
fn head<B: Outbound>(parts: &Parts, body: &B, scheme: &Scheme) -> Result<Request<()>, http::Error> {
    let mut headers = parts.headers.clone();
    let host = headers.remove(HOST);
    let authority = Authority::try_from(host.as_ref().map_or(&b""[..], HeaderValue::as_bytes))?;
    let length = body.size_hint().exact();
    if let Some(length) = length.filter(|length| *length > 0 || parts.method == Method::POST) {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    let path = parts.uri.path_and_query().cloned();
    let uri = Uri::builder()
        .scheme(scheme.clone())
        .authority(authority)
        .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
        .build()?;
    let mut head = Request::new(());
    *head.method_mut() = parts.method.clone();
    *head.uri_mut() = uri;
    *head.headers_mut() = headers;
    *head.version_mut() = Version::HTTP_2;
    Ok(head)
}

#[cfg(test)]
mod tests;
