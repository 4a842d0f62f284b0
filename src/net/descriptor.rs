//! The open files of the process: every connection, on either side, is one.

use std::io;
use std::os::fd::AsRawFd;

use crate::policy::plan::Listen;

/// What the process has open beside connections of clients and to upstreams: logs, listeners, probes.
const KEPT: u64 = 64;

/// How many files the process may have open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    max: u64,
}

impl Descriptors {
    /// Raises the limit as far as the process may.
    ///
    /// # Errors
    /// The limit cannot be read or set.
    pub fn raise() -> io::Result<Descriptors> {
        let max = rlimit::increase_nofile_limit(u64::MAX)?;
        Ok(Descriptors { max })
    }

    /// How many there may be.
    #[must_use]
    pub fn max(self) -> u64 {
        self.max
    }

    /// How many `listen` may come to need: each client's connection may need one to an upstream.
    #[must_use]
    pub fn needed(listen: &Listen) -> u64 {
        (listen.connections_max as u64)
            .saturating_mul(2)
            .saturating_add(KEPT)
    }

    /// Whether a client's connection may have the descriptor that it got. The system gives the
    /// lowest that is free, so that a high one says that nearly all are taken: the last quarter is
    /// for connections to upstreams and for probes, without which no client could be served.
    #[must_use]
    pub fn has_room_for(self, connection: &impl AsRawFd) -> bool {
        u64::try_from(connection.as_raw_fd()).is_ok_and(|number| number < self.max - self.max / 4)
    }
}

/// Whether an error says that no descriptor is left, of the process or of the system.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// The error of a process that has no descriptor left for one more connection.
#[must_use]
pub fn exhausted() -> io::Error {
    io::Error::other("too many open files: the last quarter is kept for upstreams and probes")
}
