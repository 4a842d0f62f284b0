//! A timer that a connection's task looks at whenever it is woken, for next to nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

/// A timer of one task. Polling a timer of the runtime costs as much as a lookup in the headers, and
/// a task is woken several times in an exchange; so it is polled only when it may have fired, or
/// when it does not know yet whom to wake.
#[derive(Debug)]
pub struct Alarm {
    sleep: Pin<Box<Sleep>>,
    wakes: Option<Waker>,
}

impl Alarm {
    /// An alarm that fires at `deadline`.
    #[must_use]
    pub fn new(deadline: Instant) -> Alarm {
        Alarm {
            sleep: Box::pin(sleep_until(deadline)),
            wakes: None,
        }
    }

    /// When it fires.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Lets it fire at `deadline` instead.
    pub fn reset(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
        self.wakes = None;
    }

    /// Ready once it has fired.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self
            .wakes
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()));
        if waits && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        // In a turn that the scheduler cuts short, the timer learns of nobody to wake.
        self.wakes = has_budget_remaining().then(|| cx.waker().clone());
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(10);
    /// Only waited for where an alarm is lost.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn an_alarm_fires_each_time_that_it_is_set() {
        let mut alarm = Alarm::new(Instant::now() + SOON);
        for _ in 0..3 {
            let fired = timeout(PATIENCE, poll_fn(|cx| alarm.poll(cx))).await;
            assert_eq!(fired, Ok(()));
            alarm.reset(Instant::now() + SOON);
        }
    }

    #[tokio::test]
    async fn an_alarm_that_is_set_in_a_long_turn_fires_too() {
        for resets in [false, true] {
            let (sender, mut receiver) = unbounded_channel();
            (0..1000).for_each(|_| sender.send(()).unwrap());
            let mut alarm = Alarm::new(Instant::now() + SOON);
            let mut turns = 0;
            let waiting = poll_fn(|cx| {
                turns += 1;
                if turns == 1 {
                    // The scheduler says "not yet" to everything from some point on.
                    while receiver.poll_recv(cx).is_ready() {}
                    if resets {
                        alarm.reset(Instant::now() + SOON);
                    }
                }
                alarm.poll(cx)
            });
            assert_eq!(timeout(PATIENCE, waiting).await, Ok(()), "{resets}");
        }
    }
}
