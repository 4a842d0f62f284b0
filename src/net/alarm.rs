//! A timer that a connection's task looks at whenever it is woken, for next to nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer of one task. Polling a timer of the runtime costs as much as a lookup in the headers, and
/// a task is woken several times in an exchange; so it is polled only when it may have fired, or
/// when it does not know yet whom to wake.
#[derive(Debug)]
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    wakes: Option<Waker>,
}

impl Alarm {
    /// An alarm that fires at `deadline`.
    pub(super) fn new(deadline: Instant) -> Alarm {
        Alarm {
            sleep: Box::pin(sleep_until(deadline)),
            wakes: None,
        }
    }

    /// When it fires.
    pub(super) fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Lets it fire at `deadline` instead.
    pub(super) fn reset(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
        self.wakes = None;
    }

    /// Ready once it has fired.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self
            .wakes
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()));
        if waits && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.wakes = Some(cx.waker().clone());
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(())
    }
}
