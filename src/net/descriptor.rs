//! The open files of the process: every connection, on either side, is one.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::policy::plan::Listen;

/// What the process has open beside connections of clients and to upstreams: logs, listeners, probes.
const KEPT: u64 = 64;
/// Open files that are given up for probes where the process may open no more: it is then that
/// whoever runs it wants to know how it is.
const SPARES: usize = 8;

/// How many files the process may have open at once, and a few that it can give up.
#[derive(Clone, Debug, Default)]
pub struct Descriptors {
    max: Option<u64>,
    spares: Arc<Mutex<Vec<File>>>,
}

impl Descriptors {
    /// Raises the limit as far as the process may.
    ///
    /// # Errors
    /// The limit cannot be read or set.
    pub fn raise() -> io::Result<Descriptors> {
        Ok(Descriptors {
            max: Some(rlimit::increase_nofile_limit(u64::MAX)?),
            spares: Arc::default(),
        })
    }

    /// How many there may be, if that is known.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// How many `listen` may come to need: each client's connection may need one to an upstream.
    #[must_use]
    pub fn needed(listen: &Listen) -> u64 {
        (listen.connections_max as u64)
            .saturating_mul(2)
            .saturating_add(KEPT)
    }

    /// Whether a client's connection may keep the descriptor that it got. The system gives the
    /// lowest that is free, so that a high one says that nearly all are taken: the last quarter is
    /// for connections to upstreams and for probes, without which no client could be served.
    #[must_use]
    pub fn has_room_for(&self, connection: &impl AsRawFd) -> bool {
        let number = u64::try_from(connection.as_raw_fd()).unwrap_or_default();
        self.max.is_none_or(|max| number < max - max / 4)
    }

    /// Opens the spare files that are missing; tells whether all are there. Whoever could wait for a
    /// descriptor takes none before they are.
    #[must_use]
    pub fn fill_spares(&self) -> bool {
        let mut spares = self.lock();
        while spares.len() < SPARES {
            match File::open("/dev/null") {
                Ok(spare) => spares.push(spare),
                Err(_) => return false,
            }
        }
        true
    }

    /// Gives up a spare file, so that one probe's connection has room; tells whether there was one.
    #[must_use]
    pub fn give_up_spare(&self) -> bool {
        self.lock().pop().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<File>> {
        // The list is whole between any two statements that touch it.
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error says that no descriptor is left, of the process or of the system.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// The error of a process that has no descriptor left for one more client.
#[must_use]
pub fn exhausted() -> io::Error {
    io::Error::other("too many open files: what is left is kept for upstreams and probes")
}
