//! The way of lines to their target: a bounded backlog in memory, and a thread of its own that
//! empties it. Whoever appends never waits for the target; a target that is slow, blocked or
//! broken costs lines once the backlog is full, and the log itself says how many.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::line::{Encoding, Line, key};
use super::log::Level;
use super::sink::Sink;

/// How long the writer gathers lines after the first one, so that a busy gateway makes one write
/// (and one wake-up) per batch and not per line.
pub(super) const GATHER_TIME: Duration = Duration::from_millis(20);

/// How long the writer waits before it tries a target again that failed.
pub(super) const RETRY_TIME: Duration = Duration::from_secs(1);

/// Most bytes of buffer, twice, that are kept while there is nothing to write.
const IDLE_BYTES_MAX: usize = 64 << 10;

/// The lines that wait for the writer.
pub(super) struct Backlog {
    queue: Mutex<Queue>,
    bytes_max: usize,
    /// Tells the writer that there is something to do.
    work: Condvar,
    /// Tells those who flush that a batch is through.
    progress: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<u8>,
    /// Bytes that found room, ever.
    accepted: u64,
    /// Those of them that are written.
    written: u64,
    /// Lines that found none, since the writer last took a batch.
    lost: u64,
    /// The writer has nothing to do and must be woken.
    idle: bool,
    /// How many wait until something is written.
    flushing: usize,
    /// Nobody can append any more.
    closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.lost == 0
    }

    /// Whether so many more bytes fit, beside those that wait and those in the writer's hand.
    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.accepted - self.written + bytes as u64 <= bytes_max as u64
    }
}

impl Backlog {
    /// An empty backlog for at most `bytes_max` bytes, those in the writer's hand included.
    pub(super) fn new(bytes_max: usize) -> Backlog {
        Backlog {
            queue: Mutex::new(Queue::default()),
            bytes_max,
            work: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    /// Appends whole lines, or drops and counts them if they find no room. Never waits for the
    /// target.
    pub(super) fn append(&self, line: &[u8]) {
        let mut queue = self.lock();
        let before = queue.waiting.len();
        if queue.has_room(line.len(), self.bytes_max) {
            queue.waiting.extend_from_slice(line);
            queue.accepted += line.len() as u64;
        } else {
            queue.lost += 1;
        }
        // A writer that gathers is woken once more when half the room is taken: at a hundred
        // thousand lines per second the whole would not last for the time of gathering.
        let half = self.bytes_max / 2;
        let wake = queue.idle || (before < half && half <= queue.waiting.len());
        queue.idle = false;
        drop(queue);
        if wake {
            self.work.notify_one();
        }
    }

    /// Waits until all that was appended before is written, but no longer than `timeout`; tells
    /// whether it is.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let mut queue = self.lock();
        let goal = queue.accepted;
        queue.flushing += 1;
        self.work.notify_one();
        let (mut queue, waited) = self
            .progress
            .wait_timeout_while(queue, timeout, |queue| queue.written < goal)
            .unwrap_or_else(PoisonError::into_inner);
        queue.flushing -= 1;
        !waited.timed_out()
    }

    /// Lets the writer end once it has written what is there.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    /// The batch before is through: waits for lines, gathers, and exchanges `batch` for them.
    /// Gives how many lines were lost meanwhile, or `None` at the end.
    fn take(&self, batch: &mut Vec<u8>) -> Option<u64> {
        let mut queue = self.lock();
        queue.written = queue.accepted - queue.waiting.len() as u64;
        if queue.flushing > 0 {
            self.progress.notify_all();
        }
        batch.clear();
        while queue.is_empty() {
            if queue.closed {
                return None;
            }
            // The rush is over, and so is the need for large buffers.
            batch.shrink_to(IDLE_BYTES_MAX);
            queue.waiting.shrink_to(IDLE_BYTES_MAX);
            queue.idle = true;
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.idle = false;
        let half = self.bytes_max / 2;
        let (mut queue, _) = self
            .work
            .wait_timeout_while(queue, GATHER_TIME, |queue| {
                !queue.closed && queue.flushing == 0 && queue.waiting.len() < half
            })
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(batch, &mut queue.waiting);
        Some(std::mem::take(&mut queue.lost))
    }

    /// Waits; tells whether the backlog was closed, and the writer should give up what it cannot
    /// write.
    fn pause(&self, time: Duration) -> bool {
        let (queue, _) = self
            .work
            .wait_timeout_while(self.lock(), time, |queue| !queue.closed)
            .unwrap_or_else(PoisonError::into_inner);
        queue.closed
    }

    /// No code panics while it holds the lock, so a poisoned one guards a sound queue.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side of the log.
pub(super) struct Writer<S> {
    pub(super) backlog: Arc<Backlog>,
    pub(super) sink: S,
    /// How the writer's own lines are written.
    pub(super) encoding: Encoding,
    /// How long to wait after a failure.
    pub(super) retry_time: Duration,
}

/// The log ended while its target failed.
struct GivenUp;

impl<S: Sink> Writer<S> {
    /// Writes batches until the backlog is closed and empty, or closed and the target fails.
    pub(super) fn run(mut self) {
        let mut batch = Vec::new();
        while let Some(lost) = self.backlog.take(&mut batch) {
            if lost > 0 {
                self.report_lost(&mut batch, lost);
            }
            if let Err(GivenUp) = self.write_and_report(&mut batch) {
                return;
            }
        }
    }

    /// Writes the batch; if that met a failure, says so in a line of its own, now that the
    /// target works again.
    fn write_and_report(&mut self, batch: &mut Vec<u8>) -> Result<(), GivenUp> {
        while let Some(failure) = self.write(batch)? {
            batch.clear();
            let mut line = self.warn(batch, "writing the log failed for a while");
            line.string(key!("error"), &failure.to_string());
            line.end();
        }
        Ok(())
    }

    /// Writes the whole batch, however often the target fails; gives the last failure.
    fn write(&mut self, batch: &[u8]) -> Result<Option<io::Error>, GivenUp> {
        let mut written = 0;
        let mut failure = None;
        while written < batch.len() {
            match self.write_some(batch, &mut written) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Standard error may share a file description that somebody made non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pause(GATHER_TIME)?;
                }
                Err(error) => {
                    failure = Some(error);
                    self.pause(self.retry_time)?;
                }
            }
        }
        Ok(failure)
    }

    fn write_some(&mut self, batch: &[u8], written: &mut usize) -> io::Result<()> {
        if self.sink.renew()? {
            // The new target must begin with a whole line, even if the old one has a part of it.
            *written = start_of_line(batch, *written);
        }
        match self.sink.write(&batch[*written..])? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => {
                *written += count;
                Ok(())
            }
        }
    }

    fn pause(&self, time: Duration) -> Result<(), GivenUp> {
        if self.backlog.pause(time) {
            return Err(GivenUp);
        }
        Ok(())
    }

    fn report_lost(&self, batch: &mut Vec<u8>, lost: u64) {
        let mut line = self.warn(batch, "lines were lost because their target was too slow");
        line.number(key!("lines"), lost);
        line.end();
    }

    /// Begins a line of the log's own at the end of `batch`.
    fn warn<'b>(&self, batch: &'b mut Vec<u8>, message: &str) -> Line<'b> {
        Line::event(
            batch,
            self.encoding,
            SystemTime::now(),
            Level::Warn,
            message,
        )
    }
}

/// Where the line begins that holds the byte at `at`.
fn start_of_line(batch: &[u8], at: usize) -> usize {
    batch[..at]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::ErrorKind::{BrokenPipe, Interrupted, StorageFull, WouldBlock};
    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// What a scripted target does at the next call.
    enum Act {
        /// Takes no more than so many bytes.
        Take(usize),
        Fail(io::ErrorKind),
        /// Has moved: what follows goes elsewhere.
        Move,
        /// Says so, and waits until it is told to go on.
        Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
    }
    use Act::{Fail, Move, Take, Wait};

    /// A target that follows a script, then takes everything.
    struct Script {
        acts: VecDeque<Act>,
        targets: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Sink for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = match self.acts.pop_front() {
                None | Some(Move) => bytes.len(),
                Some(Take(count)) => count.min(bytes.len()),
                Some(Fail(kind)) => return Err(kind.into()),
                Some(Wait(here, on)) => {
                    here.send(()).unwrap();
                    on.recv().unwrap();
                    bytes.len()
                }
            };
            let mut targets = self.targets.lock().unwrap();
            targets.last_mut().unwrap().extend(&bytes[..count]);
            Ok(count)
        }

        fn renew(&mut self) -> io::Result<bool> {
            let moves = matches!(self.acts.front(), Some(Move));
            if moves {
                self.acts.pop_front();
                self.targets.lock().unwrap().push(Vec::new());
            }
            Ok(moves)
        }
    }

    struct Running {
        backlog: Arc<Backlog>,
        targets: Arc<Mutex<Vec<Vec<u8>>>>,
        thread: JoinHandle<()>,
    }

    fn start(bytes_max: usize, acts: impl IntoIterator<Item = Act>) -> Running {
        let backlog = Arc::new(Backlog::new(bytes_max));
        let targets = Arc::new(Mutex::new(vec![Vec::new()]));
        let writer = Writer {
            backlog: Arc::clone(&backlog),
            sink: Script {
                acts: acts.into_iter().collect(),
                targets: Arc::clone(&targets),
            },
            encoding: Encoding::Text,
            retry_time: Duration::from_millis(1),
        };
        Running {
            backlog,
            targets,
            thread: thread::spawn(|| writer.run()),
        }
    }

    impl Running {
        /// Ends the writer; gives what each target has, with the times taken off our own lines.
        fn end(self) -> Vec<String> {
            self.backlog.close();
            self.thread.join().unwrap();
            let targets = self.targets.lock().unwrap();
            let text = |target: &Vec<u8>| String::from_utf8(target.clone()).unwrap();
            targets.iter().map(text).map(without_times).collect()
        }
    }

    fn without_times(text: String) -> String {
        let line = |line: &str| match line.find(" event ") {
            Some(at) => format!("{}\n", &line[at + 1..]),
            None => format!("{line}\n"),
        };
        let whole = text.is_empty() || text.ends_with('\n');
        assert!(whole || !text.contains(" event "), "{text:?} is torn");
        if whole {
            text.lines().map(line).collect()
        } else {
            text
        }
    }

    const LOST_2: &str =
        "event level=warn message=\"lines were lost because their target was too slow\" lines=2\n";

    #[test]
    fn what_is_appended_before_the_end_is_written() {
        let log = start(100, []);
        log.backlog.append(b"one\n");
        log.backlog.append(b"two\nthree\n");
        assert_eq!(log.end(), ["one\ntwo\nthree\n"]);
        assert_eq!(start(100, []).end(), [""]);
    }

    #[test]
    fn a_flush_waits_for_what_is_there() {
        let log = start(100, [Take(2)]);
        assert!(log.backlog.flush(Duration::from_secs(60)));
        log.backlog.append(b"one\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        assert_eq!(log.targets.lock().unwrap()[0], b"one\n");
        log.end();
    }

    #[test]
    fn a_blocked_target_costs_lines_and_nobody_waits() {
        let (here, blocked) = mpsc::channel();
        let (go_on, on) = mpsc::channel();
        let log = start(12, [Wait(here, on)]);
        log.backlog.append(b"one\n");
        blocked.recv().unwrap();
        // Four bytes are in the writer's hand, so eight find room.
        for line in [b"two\n", b"thr\n", b"fou\n", b"fiv\n"] {
            log.backlog.append(line);
        }
        assert!(!log.backlog.flush(Duration::from_millis(1)));
        go_on.send(()).unwrap();
        assert!(log.backlog.flush(Duration::from_secs(60)));
        log.backlog.append(b"six\n");
        let expected = format!("one\ntwo\nthr\n{LOST_2}six\n");
        assert_eq!(log.end(), [expected]);
    }

    #[test]
    fn a_line_that_finds_no_room_at_all_is_told_about() {
        let log = start(3, []);
        log.backlog.append(b"one\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        let told = log.end().concat();
        assert!(told.ends_with("lines=1\n"), "{told}");
    }

    #[test]
    fn a_failure_tears_no_line_and_is_told_once_things_work() {
        let log = start(
            100,
            [
                Take(2),
                Fail(StorageFull),
                Fail(StorageFull),
                Take(3),
                Take(1),
            ],
        );
        log.backlog.append(b"one\ntwo\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        log.backlog.append(b"three\n");
        let error = io::Error::from(StorageFull);
        assert_eq!(
            log.end(),
            [format!(
                "one\ntwo\nevent level=warn message=\"writing the log failed for a while\" \
                 error=\"{error}\"\nthree\n"
            )]
        );
    }

    #[test]
    fn a_failure_while_a_failure_is_told_is_told_as_well() {
        let log = start(100, [Fail(StorageFull), Take(4), Take(9), Fail(BrokenPipe)]);
        log.backlog.append(b"one\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        let told = log.end().concat();
        let errors: Vec<_> = told
            .lines()
            .map(|line| line.rsplit("error=").next())
            .collect();
        let quoted = |kind: io::ErrorKind| format!("\"{}\"", io::Error::from(kind));
        assert_eq!(
            errors,
            [
                Some("one"),
                Some(&*quoted(StorageFull)),
                Some(&*quoted(BrokenPipe))
            ]
        );
    }

    #[test]
    fn pauses_of_the_target_are_not_failures() {
        let log = start(100, [Fail(Interrupted), Take(1), Fail(WouldBlock)]);
        log.backlog.append(b"one\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        assert_eq!(log.end(), ["one\n"]);
    }

    #[test]
    fn a_new_target_begins_with_a_whole_line() {
        let log = start(100, [Take(6), Fail(StorageFull), Move]);
        log.backlog.append(b"one\ntwo\nthree\n");
        assert!(log.backlog.flush(Duration::from_secs(60)));
        let targets = log.end();
        assert_eq!(targets[0], "one\ntw");
        assert!(
            targets[1].starts_with("two\nthree\nevent "),
            "{}",
            targets[1]
        );
    }

    #[test]
    fn the_end_does_not_wait_for_a_broken_target() {
        let acts = (0..1_000_000).map(|_| Fail(BrokenPipe));
        let log = start(100, acts);
        log.backlog.append(b"one\n");
        assert_eq!(log.end(), [""]);
    }
}
