//! The exchanges of one HTTP/2 connection, each in a task of its own.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The exchanges, which end with this.
#[derive(Debug)]
pub(super) struct Streams(Open);

/// The same as others see them: as the executor of the library, which runs each in a task.
#[derive(Clone, Debug)]
pub(super) struct Open(Arc<Mutex<Tasks>>);

#[derive(Debug)]
struct Tasks {
    origin: Instant,
    /// The exchange that is about to be executed.
    announced: Option<Arc<Taking>>,
    running: Vec<(Arc<Taking>, AbortHandle)>,
    /// How many may be in the list before those that have ended are looked for.
    swept_at: usize,
}

/// How far a client takes an answer for which it grants the room itself.
#[derive(Debug)]
pub(super) struct Taking {
    origin: Instant,
    /// Since when it has left a piece lying, in milliseconds after the origin; zero if none.
    lies_since_ms: AtomicU64,
    was_lost: AtomicBool,
    was_given_up: AtomicBool,
}

impl Taking {
    /// A piece was handed over. The library asks for the next only when there was room for it.
    pub(super) fn handed(&self) {
        let since = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lies_since_ms.store(since.max(1), Ordering::Relaxed);
    }

    /// There was room for all that was handed over.
    pub(super) fn taken(&self) {
        self.lies_since_ms.store(0, Ordering::Relaxed);
    }

    /// There never was room for the last piece.
    pub(super) fn lost(&self) {
        self.was_lost.store(true, Ordering::Relaxed);
    }

    /// Whether there never was room for the last piece.
    pub(super) fn was_lost(&self) -> bool {
        self.was_lost.load(Ordering::Relaxed)
    }

    /// Whether the answer ends because a piece of it lay for too long.
    pub(super) fn was_given_up(&self) -> bool {
        self.was_given_up.load(Ordering::Relaxed)
    }

    fn lies_for(&self, now: Instant) -> Duration {
        match self.lies_since_ms.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now
                .saturating_duration_since(self.origin)
                .saturating_sub(Duration::from_millis(since)),
        }
    }
}

/// Below this number nobody looks for exchanges that have ended.
const SWEPT_AT_MIN: usize = 16;

impl Streams {
    /// None yet.
    pub(super) fn new() -> Streams {
        Streams(Open(Arc::new(Mutex::new(Tasks {
            origin: Instant::now(),
            announced: None,
            running: Vec::new(),
            swept_at: SWEPT_AT_MIN,
        }))))
    }

    pub(super) fn open(&self) -> Open {
        self.0.clone()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.end_all();
    }
}

impl Open {
    /// The next future that is executed is an exchange whose answer is taken like this.
    pub(super) fn announce(&self) -> Arc<Taking> {
        let mut tasks = self.lock();
        let taking = Arc::new(Taking {
            origin: tasks.origin,
            lies_since_ms: AtomicU64::new(0),
            was_lost: AtomicBool::new(false),
            was_given_up: AtomicBool::new(false),
        });
        tasks.announced = Some(taking.clone());
        taking
    }

    /// Ends every exchange; its stream is reset.
    pub(super) fn end_all(&self) {
        for (_, task) in self.lock().running.drain(..) {
            task.abort();
        }
    }

    /// Ends the exchanges of which the client has not taken anything for as long as `idle`.
    pub(super) fn end_untaken(&self, now: Instant, idle: Duration) {
        self.lock().running.retain(|(taking, task)| {
            if taking.lies_for(now) < idle {
                return !task.is_finished();
            }
            taking.was_given_up.store(true, Ordering::Relaxed);
            task.abort();
            false
        });
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        // The list is whole between any two statements that touch it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Executor<F> for Open
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, exchange: F) {
        let mut tasks = self.lock();
        let task = tokio::spawn(exchange);
        let Some(taking) = tasks.announced.take() else {
            return;
        };
        if tasks.running.len() >= tasks.swept_at {
            tasks.running.retain(|(_, task)| !task.is_finished());
            tasks.swept_at = SWEPT_AT_MIN.max(tasks.running.len() * 2);
        }
        tasks.running.push((taking, task.abort_handle()));
    }
}
