//! The stream under a client's connection. It counts what comes in, notices that the client has
//! gone even while the HTTP library is not reading, and lingers after the last answer so that a
//! client which is still sending can read it. It keeps the last head that came as it stood, for
//! what the library does not tell of one.

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::gather::{GATHER_BYTES_MAX, gather};

/// Most bytes that are read ahead of the HTTP library while an exchange is in flight.
const AHEAD_BYTES_MAX: usize = 16 << 10;
/// What every client of HTTP/2 sends first (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most bytes of a head that are kept as they stood, and how much room is kept for the next one.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEAD_BYTES_USUAL: usize = 2 << 10;
/// How long a closed connection is read on, and how much of it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 << 20;

/// A stream that can tell that its peer has gone while there is input that nobody reads.
pub trait Peer {
    /// Ready once the peer has ended or reset the connection. It does not wake the task for that
    /// while input is unread.
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Lets the connection be reset when the stream is dropped, so that no reader takes its end for
    /// that of an answer.
    fn reset_on_drop(&self);
}

impl Peer for TcpStream {
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        match pin!(self.ready(Interest::READABLE)).poll(cx) {
            Poll::Ready(Ok(ready)) if !ready.is_read_closed() => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }

    fn reset_on_drop(&self) {
        // It fails only for a socket that has ended already.
        let _ = self.set_zero_linger();
    }
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, or 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// What `bytes`, the first of a connection, speak; `None` if that takes more of them.
    fn of(bytes: &[u8]) -> Option<Protocol> {
        let common = bytes.len().min(PREFACE.len());
        if bytes[..common] != PREFACE[..common] {
            return Some(Protocol::Http1);
        }
        (common == PREFACE.len()).then_some(Protocol::Http2)
    }
}

/// The half that the HTTP library reads and writes.
#[derive(Debug)]
pub struct Wire<S>(Arc<Mutex<Shared<S>>>);

/// The half by which the connection's task watches the other.
#[derive(Debug)]
pub struct Watch<S>(Arc<Mutex<Shared<S>>>);

/// An exchange in flight, until it is dropped.
#[derive(Debug)]
pub struct InFlight<S> {
    shared: Arc<Mutex<Shared<S>>>,
    /// The turn after which what it had to write has been tried, once that is asked for.
    tried_after: Option<u64>,
}

#[derive(Debug)]
struct Shared<S> {
    stream: S,
    ahead: BytesMut,
    /// The library waits for input itself, and will notice an end itself.
    library_waits: bool,
    /// Since when no write has gone through, so that a part of an answer is not written yet.
    blocked_since: Option<Instant>,
    /// Who waits for something to be written.
    waiting: Vec<Waker>,
    /// How many turns of the connection's task have begun, and what wakes it.
    turns: u64,
    driver: Option<Waker>,
    received: u64,
    written: u64,
    /// What the library has read since the last exchange ended.
    head: Vec<u8>,
    exchanges: u64,
    in_flight: usize,
    /// When the last answer was written, or the connection was made; and what was received by the
    /// end of the last exchange.
    idle_since: Instant,
    received_before: u64,
    linger: Option<Linger>,
    /// The client has taken nothing for too long, and what is in flight ends for that.
    is_given_up: bool,
}

/// What is known of a connection between two exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Since when it waits for a request's head to be complete.
    pub since: Instant,
    /// Whether a part of that head has come.
    pub head_begun: bool,
}

#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    left: usize,
}

/// Both halves of `stream`.
pub fn wire<S>(stream: S) -> (Wire<S>, Watch<S>) {
    let shared = Arc::new(Mutex::new(Shared {
        stream,
        ahead: BytesMut::new(),
        library_waits: false,
        blocked_since: None,
        waiting: Vec::new(),
        turns: 0,
        driver: None,
        received: 0,
        written: 0,
        head: Vec::new(),
        exchanges: 0,
        in_flight: 0,
        idle_since: Instant::now(),
        received_before: 0,
        linger: None,
        is_given_up: false,
    }));
    (Wire(shared.clone()), Watch(shared))
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    // Both halves live in one task; a panic ends them together.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Shared<S> {
    fn note_write(&mut self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &wrote {
            Poll::Pending if self.blocked_since.is_none() => {
                self.blocked_since = Some(Instant::now());
            }
            Poll::Pending => {}
            Poll::Ready(wrote) => {
                self.written += wrote.as_ref().map_or(0, |count| *count as u64);
                if self.blocked_since.take().is_some() {
                    self.idle_since = Instant::now();
                    self.wake_waiting();
                }
            }
        }
        wrote
    }

    fn wake_waiting(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}

impl<S: AsyncRead + Unpin> Shared<S> {
    /// Reads a piece ahead of the library. Ready with whether there was one, or the client has gone.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut chunk = [MaybeUninit::uninit(); 4096];
        let mut buf = ReadBuf::uninit(&mut chunk);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
        self.received += buf.filled().len() as u64;
        self.ahead.extend_from_slice(buf.filled());
        Poll::Ready(read.is_ok() && !buf.filled().is_empty())
    }
}

impl<S: AsyncRead + Peer + Unpin> Watch<S> {
    /// To be called before the library has a connection: ready once it is known what the client
    /// speaks. Only a client of HTTP/2 is waited for until it has sent all by which it is known.
    pub fn poll_protocol(&self, cx: &mut Context<'_>) -> Poll<Protocol> {
        let shared = &mut *lock(&self.0);
        loop {
            if let Some(protocol) = Protocol::of(&shared.ahead) {
                return Poll::Ready(protocol);
            }
            if !ready!(shared.poll_read_ahead(cx)) {
                // There is a library for a connection that ends like this, too.
                return Poll::Ready(Protocol::Http1);
            }
        }
    }

    /// To be called after the library's connection was polled: ready once the client has gone.
    /// What it sent meanwhile, such as a stray line end or the next request, is kept for the
    /// library. Once that is as much as is kept, see [`Watch::is_full`].
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &mut *lock(&self.0);
        if shared.library_waits || shared.linger.is_some() {
            return Poll::Pending;
        }
        while shared.ahead.len() < AHEAD_BYTES_MAX {
            if !ready!(shared.poll_read_ahead(cx)) {
                return Poll::Ready(());
            }
        }
        shared.stream.poll_ended(cx)
    }
}

impl<S: AsyncWrite + Unpin> Watch<S> {
    /// Ends our side in good order, as far as that takes no waiting: nothing was cut off, and over
    /// TLS that is said.
    pub fn finish(&self, cx: &mut Context<'_>) {
        let _ = Pin::new(&mut lock(&self.0).stream).poll_shutdown(cx);
    }
}

impl<S> Watch<S> {
    /// To be called before the library's connection is polled.
    pub fn begin_turn(&self, cx: &mut Context<'_>) {
        let shared = &mut *lock(&self.0);
        shared.library_waits = false;
        shared.turns += 1;
        // Whoever waits may be a part of this very task, which would wake itself without end while
        // nothing can be written. A write that goes through wakes them.
        if shared.blocked_since.is_none() && !shared.waiting.is_empty() {
            shared.wake_waiting();
        }
        match &mut shared.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            None => shared.driver = Some(cx.waker().clone()),
        }
    }

    /// Whether nothing more is read ahead, so that a client which goes now wakes nobody: whoever
    /// watches has to ask [`Watch::poll_gone`] from time to time.
    #[must_use]
    pub fn is_full(&self) -> bool {
        lock(&self.0).ahead.len() >= AHEAD_BYTES_MAX
    }

    /// Bytes received so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        lock(&self.0).received
    }

    /// How many exchanges have begun.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        lock(&self.0).exchanges
    }

    /// An exchange begins: its head is complete.
    #[must_use]
    pub fn begin_exchange(&self) -> InFlight<S> {
        let mut shared = lock(&self.0);
        shared.exchanges += 1;
        shared.in_flight += 1;
        shared.head.clear();
        if shared.head.capacity() > HEAD_BYTES_USUAL {
            shared.head = Vec::new();
        }
        InFlight {
            shared: self.0.clone(),
            tried_after: None,
        }
    }

    /// Whether the head that the library has just read, which begins with `method`, had a line
    /// called `name`, whatever the library made of it. To be asked before the exchange begins, and
    /// only over HTTP/1. What came while another exchange was in flight is not known.
    #[must_use]
    pub fn head_had(&self, method: &str, name: &str) -> bool {
        let shared = lock(&self.0);
        let head = shared.head.trim_ascii_start();
        let is_name = |line: &[u8]| {
            let colon = memchr::memchr(b':', line);
            colon.is_some_and(|at| line[..at].eq_ignore_ascii_case(name.as_bytes()))
        };
        head.starts_with(method.as_bytes())
            && head
                .split(|byte| *byte == b'\n')
                .take_while(|line| !line.trim_ascii_end().is_empty())
                .any(is_name)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        lock(&self.0).written
    }

    /// Since when the client takes nothing of what is there for it.
    #[must_use]
    pub fn blocked_since(&self) -> Option<Instant> {
        lock(&self.0).blocked_since
    }

    /// The connection is about to end because the client takes nothing of what is there for it.
    pub fn give_up(&self) {
        lock(&self.0).is_given_up = true;
    }

    /// Since when the connection is idle; `None` while an exchange is in flight, or while the
    /// client has yet to take the end of its answer.
    #[must_use]
    pub fn idle(&self) -> Option<Idle> {
        let shared = lock(&self.0);
        (shared.in_flight == 0 && shared.blocked_since.is_none()).then(|| Idle {
            since: shared.idle_since,
            head_begun: shared.received > shared.received_before,
        })
    }
}

impl<S> Clone for Watch<S> {
    fn clone(&self) -> Self {
        Watch(self.0.clone())
    }
}

impl<S> InFlight<S> {
    /// Ready once the connection's task has tried to write all that the library had when this was
    /// first asked, and nothing of what it tried is left unwritten.
    pub fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = lock(&self.shared);
        // The turn that goes on may have written before the last of it was there.
        let tried_after = *self.tried_after.get_or_insert(shared.turns + 2);
        let tried = shared.turns >= tried_after;
        if tried && shared.blocked_since.is_none() {
            return Poll::Ready(());
        }
        if !shared
            .waiting
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            shared.waiting.push(cx.waker().clone());
        }
        if !tried && let Some(driver) = &shared.driver {
            driver.wake_by_ref();
        }
        Poll::Pending
    }
}

impl<S> InFlight<S> {
    /// Gives the room back that the head took: the answer is waited for, perhaps for hours.
    pub fn forget_head(&self) {
        lock(&self.shared).head = Vec::new();
    }

    /// Whether it ends because the client takes nothing; see [`Watch::give_up`].
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        lock(&self.shared).is_given_up
    }
}

impl<S: Peer> InFlight<S> {
    /// Lets the connection be reset when it is dropped.
    pub fn reset_on_drop(&self) {
        lock(&self.shared).stream.reset_on_drop();
    }
}

impl<S> Drop for InFlight<S> {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.in_flight -= 1;
        shared.idle_since = Instant::now();
        shared.received_before = shared.received;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        let before = buf.filled().len();
        let read = if shared.ahead.is_empty() {
            let read = Pin::new(&mut shared.stream).poll_read(cx, buf);
            shared.library_waits = read.is_pending();
            shared.received += (buf.filled().len() - before) as u64;
            read
        } else {
            let length = shared.ahead.len().min(buf.remaining());
            buf.put_slice(&shared.ahead[..length]);
            shared.ahead.advance(length);
            if shared.ahead.is_empty() {
                shared.ahead = BytesMut::new();
            }
            Poll::Ready(Ok(()))
        };
        if shared.in_flight == 0 && shared.head.len() < HEAD_BYTES_MAX {
            shared.head.extend_from_slice(&buf.filled()[before..]);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let shared = &mut *lock(&self.0);
        let wrote = Pin::new(&mut shared.stream).poll_write(cx, bytes);
        shared.note_write(wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let shared = &mut *lock(&self.0);
        let mut room = [0; GATHER_BYTES_MAX];
        let stream = Pin::new(&mut shared.stream);
        let wrote = match gather(bytes, &mut room) {
            Some(one) => stream.poll_write(cx, one),
            None => stream.poll_write_vectored(cx, bytes),
        };
        shared.note_write(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        let flushed = Pin::new(&mut shared.stream).poll_flush(cx);
        // What is encrypted already is taken from whoever wrote it, and not yet from us.
        let noted = shared.note_write(flushed.map_ok(|()| 0));
        noted.map_ok(|_| ())
    }

    /// Ends our side, then reads on for a while: a socket that is closed with unread input resets
    /// the connection, and the client may lose an answer that it has not read yet.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        if shared.linger.is_none() {
            ready!(Pin::new(&mut shared.stream).poll_shutdown(cx))?;
        }
        let linger = shared.linger.get_or_insert_with(|| Linger {
            until: Box::pin(tokio::time::sleep_until(Instant::now() + LINGER)),
            left: LINGER_BYTES_MAX,
        });
        let mut chunk = [MaybeUninit::uninit(); 4096];
        while linger.left > 0 && linger.until.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(&mut shared.stream).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                break;
            }
            linger.left = linger.left.saturating_sub(buf.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
