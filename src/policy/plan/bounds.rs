//! What one exchange may make us hold or wait for.

use std::time::Duration;

use crate::protocol::frame;

/// What one exchange may make us hold or wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes of a request body that is held whole.
    pub body_bytes_max: usize,
    /// Most bytes of a request body that streams: one over `buffer_bytes` whose headers say all
    /// that is decided on. Where this is not above `body_bytes_max`, none streams.
    pub stream_bytes_max: usize,
    /// The most that is held of a request body that streams, the blanks behind its message
    /// included, and of an answer that must be read (that to `initialize` or `server/discover`);
    /// and the bytes set aside at once for a body whose length is announced.
    pub buffer_bytes: usize,
    /// How long a client may pause while it sends a body.
    pub body_idle_timeout: Duration,
    /// Most bytes of a refused request that are read and thrown away, so that the client, which
    /// may still be sending, reads the answer.
    pub drain_bytes_max: usize,
    /// How long that may take.
    pub drain_timeout: Duration,
    /// What the message in a body may not exceed.
    pub message: frame::Bounds,
    /// Most legacy sessions that are remembered at once; the least used are forgotten first.
    pub sessions_max: u64,
    /// How long an unused legacy session is remembered.
    pub session_idle_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body_bytes_max: 4 << 20,
            stream_bytes_max: 256 << 20,
            buffer_bytes: 64 << 10,
            body_idle_timeout: Duration::from_secs(30),
            drain_bytes_max: 16 << 20,
            drain_timeout: Duration::from_secs(10),
            message: frame::Bounds::default(),
            sessions_max: 10_000,
            session_idle_timeout: Duration::from_secs(3600),
        }
    }
}
