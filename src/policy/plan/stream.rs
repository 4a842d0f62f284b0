//! How long answers may take on their way.

use std::collections::HashMap;
use std::time::Duration;

/// How streams of events are kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// After how much silence a comment is put between two events, so that nobody on the way to
    /// the client takes the connection for dead; never if absent.
    pub keep_alive: Option<Duration>,
    /// How long an upstream may leave a stream silent. Comments of ours do not count.
    pub idle_timeout: Duration,
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            keep_alive: None,
            idle_timeout: Duration::from_secs(3600),
        }
    }
}

/// How long a request may take from its admission to the end of its answer. A subscription and the
/// stream of a GET are no calls, and have no deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// Any request, unless its tool has a deadline of its own.
    pub call: Option<Duration>,
    /// The calls of a tool, by its exact name; absent where the tool may take what it takes.
    pub tools: HashMap<String, Option<Duration>>,
}

impl Deadlines {
    /// How long a request may take, and the key that says so. `tool` is what it calls, if it calls
    /// one.
    #[must_use]
    pub fn of(&self, tool: Option<&str>) -> Option<(&'static str, Duration)> {
        match tool.and_then(|tool| self.tools.get(tool)) {
            Some(own) => own.map(|max| ("deadline.tools", max)),
            None => self.call.map(|max| ("deadline.call", max)),
        }
    }
}
