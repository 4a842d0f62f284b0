//! One connection over HTTP/1.1: one exchange at a time, and a deadline for whatever it waits for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::{Failure, HEAD_BYTES_MAX, Lost, Outbound, look_interval};
use crate::net::alarm::Alarm;
use crate::net::outlet::Outlet;
use crate::policy::plan::Upstream;

/// How long a request waits for a kept connection that is not ready yet, before it takes another.
/// A server that answers before it has read the whole request may never read the rest of it.
const READY_WAIT_MAX: Duration = Duration::from_millis(20);

/// One connection. Dropping it ends it at once, whatever it is in the middle of.
#[derive(Debug)]
pub(super) struct Connection<B> {
    sender: SendRequest<B>,
    driver: AbortHandle,
    deadline: Arc<Deadline>,
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<B: Outbound> Connection<B> {
    /// A connection over `stream`, driven by a task of its own.
    ///
    /// # Errors
    /// [`Failure::Broken`].
    pub(super) async fn over<S>(stream: S, upstream: &Upstream) -> Result<Connection<B>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(Outlet::new(stream)))
            .await
            .map_err(Failure::broken)?;
        let deadline = Arc::new(Deadline::starting_at(Instant::now()));
        let shortest = upstream
            .response_header_timeout
            .min(upstream.idle_timeout)
            .min(upstream.connection_age_max);
        let look = look_interval(shortest);
        let driver = tokio::spawn(drive(driver, deadline.clone(), look));
        Ok(Connection {
            sender,
            driver: driver.abort_handle(),
            deadline,
        })
    }

    /// Sends `request`, and waits so long for the head of its answer, or as long as it is wanted.
    ///
    /// # Errors
    /// What became of the request, which is handed back where nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<B>,
        wait: Option<Duration>,
    ) -> Result<Response<Incoming>, Lost<B>> {
        match wait {
            Some(wait) => self.deadline.set(Instant::now(), wait),
            // That it is used again has come in time.
            None => {
                self.deadline.meet();
            }
        }
        let mut unsent = match self.sender.try_send_request(request).await {
            Ok(response) if self.deadline.meet() => return Ok(response),
            // The connection has ended, and would break the answer off.
            Ok(_) => return Err(Lost::Sent(Failure::HeaderTimeout)),
            Err(unsent) => unsent,
        };
        Err(match unsent.take_message() {
            Some(back) => Lost::Unsent(Box::new(back), Failure::broken(unsent.into_error())),
            None if self.deadline.was_missed() => Lost::Sent(Failure::HeaderTimeout),
            None => Lost::Sent(Failure::broken(unsent.into_error())),
        })
    }

    /// From `now` on nothing happens on it until it is used again, which must be before `idle_timeout`
    /// is over and before it is `age_max` old. Tells whether it is young enough for that.
    pub(super) fn rest(&self, now: Instant, idle_timeout: Duration, age_max: Duration) -> bool {
        let age = now.saturating_duration_since(self.deadline.origin);
        let left = age_max.saturating_sub(age);
        self.deadline.set(now, idle_timeout.min(left));
        !left.is_zero()
    }

    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether it has rested for too long or is too old at `now`, after which it ends.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.deadline.miss(now)
    }

    /// Whether it can serve another exchange after the last: mostly it can at once.
    pub(super) async fn is_ready(&mut self) -> bool {
        let sender = &mut self.sender;
        let at_once = poll_fn(|cx| Poll::Ready(sender.poll_ready(cx))).await;
        match at_once {
            Poll::Ready(ready) => ready.is_ok(),
            Poll::Pending => matches!(timeout(READY_WAIT_MAX, sender.ready()).await, Ok(Ok(()))),
        }
    }
}

/// When a connection must have done what it is waited for: have the head of an answer, or be used
/// again. It is met or missed, never both: whoever says so first is right.
#[derive(Debug)]
struct Deadline {
    /// When the connection was made.
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
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_deadline_is_met_or_missed_and_never_both() {
        let origin = Instant::now();
        let deadline = Deadline::starting_at(origin);
        assert!(
            !deadline.miss(origin + 3600 * SECOND),
            "nothing is waited for"
        );
        deadline.set(origin + SECOND, SECOND);
        assert!(!deadline.miss(origin));
        assert!(!deadline.miss(origin + 2 * SECOND - MILLISECOND));
        // What comes late, but before anybody looked, has come.
        assert!(deadline.meet());
        assert!(!deadline.miss(origin + 3600 * SECOND));
        deadline.set(origin + 4 * SECOND, SECOND);
        deadline.set(origin + 5 * SECOND, SECOND);
        assert!(!deadline.miss(origin + 5 * SECOND), "set anew");
        assert!(deadline.miss(origin + 6 * SECOND));
        assert!(deadline.was_missed() && deadline.miss(origin), "for good");
        assert!(!deadline.meet(), "too late");
    }

    #[test]
    fn a_deadline_takes_any_wait() {
        let origin = Instant::now();
        for (wait, missed_at) in [
            (Duration::ZERO, Some(MILLISECOND)),
            (Duration::from_nanos(1), Some(MILLISECOND)),
            (3600 * SECOND, Some(3600 * SECOND)),
            (Duration::MAX, None),
        ] {
            let deadline = Deadline::starting_at(origin);
            deadline.set(origin, wait);
            assert!(!deadline.miss(origin), "{wait:?}");
            assert!(!deadline.was_missed(), "{wait:?}");
            let then = origin + missed_at.unwrap_or(1_000_000 * SECOND);
            assert_eq!(deadline.miss(then), missed_at.is_some(), "{wait:?}");
        }
    }
}
