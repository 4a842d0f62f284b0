//! How long an answer may pause and take: arithmetic, with the time as an argument.

use std::time::Duration;

use tokio::time::Instant;

use super::asked::Deadline;

/// What is waited for, and how long.
#[derive(Debug)]
pub(super) struct Patience {
    /// The longest pause of the upstream, and the key of the policy that says so.
    idle_timeout: Duration,
    idle_limit: &'static str,
    /// After how much silence the client hears something from us.
    keep_alive: Option<Duration>,
    deadline: Option<Deadline>,
    /// Since when the upstream is waited for; absent while bytes come.
    silent_since: Option<Instant>,
    /// When the client last heard something from us in that time.
    spoke_at: Option<Instant>,
}

/// What time has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing yet.
    Nothing,
    /// The client should hear something.
    KeepAlive,
    /// The upstream was silent for too long; the key of the policy that says so.
    Silence(&'static str),
    /// The answer as a whole took too long; likewise.
    Deadline(&'static str),
}

impl Patience {
    /// The upstream may pause for `idle_timeout`, which stands under the key `idle_limit`.
    pub(super) fn new(
        idle_timeout: Duration,
        idle_limit: &'static str,
        deadline: Option<Deadline>,
    ) -> Patience {
        Patience {
            idle_timeout,
            idle_limit,
            keep_alive: None,
            deadline,
            silent_since: None,
            spoke_at: None,
        }
    }

    /// The client hears something after each silence of this length, if any is given.
    pub(super) fn keep_alive(&mut self, keep_alive: Option<Duration>) {
        self.keep_alive = keep_alive;
    }

    /// Whether the answer as a whole takes too long: the key of the policy that says so. `now` is
    /// asked for only where there is a deadline.
    pub(super) fn overdue(&self, now: impl FnOnce() -> Instant) -> Option<&'static str> {
        let deadline = self.deadline?;
        (deadline.at <= now()).then_some(deadline.limit)
    }

    /// Bytes have come.
    pub(super) fn heard(&mut self) {
        self.silent_since = None;
        self.spoke_at = None;
    }

    /// None have come. `now` is asked for only where a wait begins with that.
    pub(super) fn wait(&mut self, now: impl FnOnce() -> Instant) {
        self.silent_since.get_or_insert_with(now);
    }

    /// The next moment at which something can be due, if `now` nothing is. It only moves on, so
    /// whoever looks at the last one does not miss this one.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let silence = self.silent_since.unwrap_or(now) + self.idle_timeout;
        let deadline = self.deadline.map(|deadline| deadline.at);
        [self.speaks_at(), deadline]
            .into_iter()
            .flatten()
            .fold(silence, Instant::min)
    }

    /// What is due `now`. A comment is due once; it is for the caller to write it or not.
    pub(super) fn due(&mut self, now: Instant) -> Due {
        if let Some(limit) = self.overdue(|| now) {
            return Due::Deadline(limit);
        }
        let silence = self.silent_since.map(|since| since + self.idle_timeout);
        if silence.is_some_and(|end| end <= now) {
            return Due::Silence(self.idle_limit);
        }
        if self.speaks_at().is_some_and(|at| at <= now) {
            self.spoke_at = Some(now);
            return Due::KeepAlive;
        }
        Due::Nothing
    }

    fn speaks_at(&self) -> Option<Instant> {
        let quiet_since = self.spoke_at.or(self.silent_since)?;
        Some(quiet_since + self.keep_alive?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn patience() -> (Patience, Instant) {
        (Patience::new(10 * SECOND, "idle", None), Instant::now())
    }

    #[test]
    fn only_silence_is_bounded() {
        let (mut patience, start) = patience();
        patience.wait(|| start);
        assert_eq!(patience.next(start), start + 10 * SECOND);
        assert_eq!(patience.due(start + 9 * SECOND), Due::Nothing);
        patience.heard();
        // While bytes come, or nobody takes them, nothing is due.
        assert_eq!(patience.due(start + 99 * SECOND), Due::Nothing);
        patience.wait(|| start + 99 * SECOND);
        patience.wait(|| unreachable!("a wait begins once"));
        assert_eq!(patience.next(start), start + 109 * SECOND);
        assert_eq!(patience.due(start + 109 * SECOND), Due::Silence("idle"));
    }

    #[test]
    fn a_comment_is_due_after_each_interval_of_silence() {
        let (mut patience, start) = patience();
        patience.keep_alive(Some(3 * SECOND));
        patience.wait(|| start);
        assert_eq!(patience.next(start), start + 3 * SECOND);
        assert_eq!(patience.due(start + 2 * SECOND), Due::Nothing);
        assert_eq!(patience.due(start + 4 * SECOND), Due::KeepAlive);
        assert_eq!(patience.next(start), start + 7 * SECOND);
        assert_eq!(patience.due(start + 4 * SECOND), Due::Nothing);
        assert_eq!(patience.due(start + 7 * SECOND), Due::KeepAlive);
        // Comments of ours are no word of the upstream.
        assert_eq!(patience.next(start), start + 10 * SECOND);
        assert_eq!(patience.due(start + 10 * SECOND), Due::Silence("idle"));
    }

    #[test]
    fn a_deadline_comes_whatever_is_heard() {
        let start = Instant::now();
        let deadline = Deadline {
            at: start + 5 * SECOND,
            limit: "deadline",
            max: 5 * SECOND,
        };
        let mut patience = Patience::new(10 * SECOND, "idle", Some(deadline));
        assert_eq!(patience.next(start), start + 5 * SECOND);
        patience.wait(|| start);
        patience.heard();
        assert_eq!(patience.overdue(|| start + 4 * SECOND), None);
        assert_eq!(patience.overdue(|| start + 5 * SECOND), Some("deadline"));
        assert_eq!(patience.due(start + 4 * SECOND), Due::Nothing);
        assert_eq!(patience.due(start + 5 * SECOND), Due::Deadline("deadline"));
    }
}
