//! The stream under a client's connection. It counts what comes in, notices that the client has
//! gone even while the HTTP library is not reading, and lingers after the last answer so that a
//! client which is still sending can read it.

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
/// How long a closed connection is read on, and how much of it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 << 20;

/// A stream that can tell that its peer has gone while there is input that nobody reads.
pub trait Peer {
    /// Ready once the peer has ended or reset the connection. It does not wake the task for that
    /// while input is unread.
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Peer for TcpStream {
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        match pin!(self.ready(Interest::READABLE)).poll(cx) {
            Poll::Ready(Ok(ready)) if !ready.is_read_closed() => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
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
pub struct InFlight<S>(Arc<Mutex<Shared<S>>>);

#[derive(Debug)]
struct Shared<S> {
    stream: S,
    ahead: BytesMut,
    /// The library waits for input itself, and will notice an end itself.
    library_waits: bool,
    /// The last write did not go through, so that a part of an answer is not written yet.
    unwritten: bool,
    /// Who waits for that part to be written.
    written: Option<Waker>,
    received: u64,
    exchanges: u64,
    in_flight: usize,
    /// When the last answer was written, or the connection was made; and what was received by the
    /// end of the last exchange.
    idle_since: Instant,
    received_before: u64,
    linger: Option<Linger>,
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
        unwritten: false,
        written: None,
        received: 0,
        exchanges: 0,
        in_flight: 0,
        idle_since: Instant::now(),
        received_before: 0,
        linger: None,
    }));
    (Wire(shared.clone()), Watch(shared))
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    // Both halves live in one task; a panic ends them together.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Shared<S> {
    fn note_write(&mut self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if wrote.is_pending() {
            self.unwritten = true;
        } else if std::mem::take(&mut self.unwritten) {
            self.idle_since = Instant::now();
            if let Some(waker) = self.written.take() {
                waker.wake();
            }
        }
        wrote
    }
}

impl<S: AsyncRead + Peer + Unpin> Watch<S> {
    /// To be called before the library's connection is polled.
    pub fn begin_turn(&self) {
        lock(&self.0).library_waits = false;
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
            let mut chunk = [MaybeUninit::uninit(); 4096];
            let mut buf = ReadBuf::uninit(&mut chunk);
            match Pin::new(&mut shared.stream).poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if buf.filled().is_empty() => return Poll::Ready(()),
                Poll::Ready(Ok(())) => {
                    shared.received += buf.filled().len() as u64;
                    shared.ahead.extend_from_slice(buf.filled());
                }
            }
        }
        shared.stream.poll_ended(cx)
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
        InFlight(self.0.clone())
    }

    /// Since when the connection is idle; `None` while an exchange is in flight, or while the
    /// client has yet to take the end of its answer.
    #[must_use]
    pub fn idle(&self) -> Option<Idle> {
        let shared = lock(&self.0);
        (shared.in_flight == 0 && !shared.unwritten).then(|| Idle {
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
    /// Ready once nothing that the library tried to write is left unwritten.
    pub fn poll_written(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = lock(&self.0);
        if !shared.unwritten {
            return Poll::Ready(());
        }
        shared.written = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<S> Drop for InFlight<S> {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
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
        if !shared.ahead.is_empty() {
            let length = shared.ahead.len().min(buf.remaining());
            buf.put_slice(&shared.ahead[..length]);
            shared.ahead.advance(length);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut shared.stream).poll_read(cx, buf);
        shared.library_waits = read.is_pending();
        shared.received += (buf.filled().len() - before) as u64;
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
        Pin::new(&mut lock(&self.0).stream).poll_flush(cx)
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
