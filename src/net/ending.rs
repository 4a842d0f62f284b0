//! The way of the process to its end, as its connections see it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop::has_budget_remaining;

/// How far the process is on its way to its end; it only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It serves.
    #[default]
    Serving,
    /// It takes no new connection and finishes what it has.
    Draining,
    /// What is still open is broken off.
    Ending,
}

/// The phases as one connection follows them. Whether a new one has come costs one load of a
/// number in the usual turn, where a wait that is polled each time takes a lock of all connections.
pub(super) struct Phases {
    seen: watch::Receiver<Phase>,
    change: Pin<Box<dyn Future<Output = ()> + Send>>,
    wakes: Option<Waker>,
}

impl Phases {
    pub(super) fn new(seen: watch::Receiver<Phase>) -> Phases {
        Phases {
            change: change(&seen),
            seen,
            wakes: None,
        }
    }

    /// Ready with the phase that has begun since the last call, if one has.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Phase> {
        let waits = self
            .wakes
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()));
        if !waits {
            // In a turn that the scheduler cuts short, nobody learns whom to wake.
            self.wakes = has_budget_remaining().then(|| cx.waker().clone());
            let _ = self.change.as_mut().poll(cx);
        }
        if !self.seen.has_changed().unwrap_or(false) {
            return Poll::Pending;
        }
        let phase = *self.seen.borrow_and_update();
        self.change = change(&self.seen);
        self.wakes = None;
        Poll::Ready(phase)
    }
}

/// Waits for the next phase after the one that `seen` has seen; for ever where none can come.
fn change(seen: &watch::Receiver<Phase>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut seen = seen.clone();
    Box::pin(async move {
        while seen.changed().await.is_ok() {}
        std::future::pending().await
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn each_phase_is_told_once_and_wakes() {
        let (sender, receiver) = watch::channel(Phase::Serving);
        let mut phases = Phases::new(receiver);
        let early = poll_fn(|cx| Poll::Ready(phases.poll(cx))).await;
        assert_eq!(early, Poll::Pending);
        let telling = tokio::spawn(async move {
            for phase in [Phase::Draining, Phase::Ending] {
                tokio::task::yield_now().await;
                sender.send_replace(phase);
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(poll_fn(|cx| phases.poll(cx)).await, Phase::Draining);
        assert_eq!(poll_fn(|cx| phases.poll(cx)).await, Phase::Ending);
        telling.await.unwrap();
        let late = poll_fn(|cx| Poll::Ready(phases.poll(cx))).await;
        assert_eq!(late, Poll::Pending, "nothing comes after the end");
    }
}
