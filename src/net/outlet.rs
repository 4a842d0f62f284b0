//! The stream under a connection to an upstream. A server may answer before it has read the whole
//! request, and close; what we still write then fails although the answer is there. The HTTP
//! library would give up at once, so it does not hear of that failure: it reads on, and finds the
//! answer or the same end.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::gather::{GATHER_BYTES_MAX, gather};

/// A stream whose reader alone tells that the peer has gone.
#[derive(Debug)]
pub(super) struct Outlet<S> {
    stream: S,
    /// The peer takes nothing any more; what is written goes nowhere.
    closed: bool,
}

impl<S> Outlet<S> {
    /// Over this stream.
    pub(super) fn new(stream: S) -> Outlet<S> {
        Outlet {
            stream,
            closed: false,
        }
    }

    /// What became of writing `length` bytes.
    fn note(&mut self, wrote: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Err(error)) if is_gone(&error) => {
                self.closed = true;
                Poll::Ready(Ok(length))
            }
            wrote => wrote,
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted
    )
}

impl<S: AsyncRead + Unpin> AsyncRead for Outlet<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outlet<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.closed {
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(wrote, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bytes.iter().map(|slice| slice.len()).sum();
        if self.closed {
            return Poll::Ready(Ok(length));
        }
        let mut room = [0; GATHER_BYTES_MAX];
        let stream = Pin::new(&mut self.stream);
        let wrote = match gather(bytes, &mut room) {
            Some(one) => stream.poll_write(cx, one),
            None => stream.poll_write_vectored(cx, bytes),
        };
        self.note(wrote, length)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closed {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closed {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_the_peer_said_before_it_closed_is_read() {
        let (ours, mut theirs) = duplex(64);
        let mut outlet = Outlet::new(ours);
        outlet.write_all(b"question").await.unwrap();
        theirs.write_all(b"answer").await.unwrap();
        drop(theirs);
        for _ in 0..3 {
            outlet.write_all(&[7; 1000]).await.unwrap();
            let slices = [io::IoSlice::new(b"ab"), io::IoSlice::new(b"c")];
            assert_eq!(outlet.write_vectored(&slices).await.unwrap(), 3);
            outlet.flush().await.unwrap();
        }
        let mut answer = String::new();
        outlet.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        outlet.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn what_is_written_goes_to_a_peer_that_is_there() {
        let (ours, mut theirs) = duplex(64);
        let mut outlet = Outlet::new(ours);
        outlet.write_all(b"question").await.unwrap();
        outlet.shutdown().await.unwrap();
        let mut question = String::new();
        theirs.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
    }
}
