//! `shutdown`: how the process ends.

use std::time::Duration;

/// How the process ends once it is told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How long new work is still taken once the probes say that there should be none: whoever
    /// sends it learns of that only with the next probe.
    pub notice: Duration,
    /// How long requests in flight may then take to finish; what is left is broken off.
    pub timeout: Duration,
    /// What becomes of the streams that have no end of their own: subscriptions, and those that
    /// older clients open by GET.
    pub streams: StreamEnd,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            notice: Duration::from_secs(2),
            // With the notice and the last lines of the log, within the 30 s that Kubernetes grants.
            timeout: Duration::from_secs(25),
            // Where a process ends, another one mostly takes its place, and clients are to find it.
            streams: StreamEnd::Break,
        }
    }
}

/// How a stream that has no end of its own is ended by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// In good order: a subscription with its result, which tells the client not to come back.
    End,
    /// Abruptly, which tells the client to listen again.
    Break,
}
