//! The way of lines to their target: a bounded backlog in memory, and a thread of its own that
//! empties it. Whoever appends never waits for the target; a target that is slow, blocked or
//! broken costs lines once the backlog is full, and the log itself says how many.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::line::{Encoding, Line, key};

/// How long the writer gathers lines after the first one, so that a busy gateway makes one write
/// (and one wake-up) per batch and not per line.
pub(super) const GATHER_TIME: Duration = Duration::from_millis(20);

/// How long the writer waits before it tries a target again that failed.
pub(super) const RETRY_TIME: Duration = Duration::from_secs(1);

/// Where batches of lines go.
pub(super) trait Sink: Send + 'static {
    /// Writes some bytes of whole lines; gives how many. May block.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Called before every write: turns to a new target if the old one is no longer where it
    /// should be, and tells whether it did.
    fn renew(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Standard error.
pub(super) struct StandardError;

impl Sink for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }
}

/// A file that is appended to, and opened anew when its name leads to another file or to none:
/// whoever rotates logs needs to tell nobody.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens or creates the file.
    pub(super) fn open(path: PathBuf) -> io::Result<LogFile> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(LogFile { path, file })
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Sink for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn renew(&mut self) -> io::Result<bool> {
        if self.is_in_place()? {
            return Ok(false);
        }
        *self = LogFile::open(self.path.clone())?;
        Ok(true)
    }
}

/// The lines that wait for the writer.
pub(super) struct Backlog {
    queue: Mutex<Queue>,
    bytes_max: usize,
    /// Tells the writer that there is something to do.
    woken: Condvar,
    /// Tells those who flush that a batch is through.
    written: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<u8>,
    /// Bytes that the writer has taken and not yet written; `None` if it has none in hand.
    writing: Option<usize>,
    /// Lines that found the backlog full since the writer last took a batch.
    lost: u64,
    /// The writer has nothing to do and must be woken.
    idle: bool,
    /// How many wait for the backlog to be empty.
    flushing: usize,
    /// Nobody can append any more.
    closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.lost == 0
    }
}

impl Backlog {
    /// An empty backlog for at most `bytes_max` bytes, those in the writer's hand included.
    pub(super) fn new(bytes_max: usize) -> Backlog {
        Backlog {
            queue: Mutex::new(Queue::default()),
            bytes_max,
            woken: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// Appends whole lines, or drops and counts them if they find no room. Never waits for the
    /// target.
    pub(super) fn append(&self, line: &[u8]) {
        let mut queue = self.lock();
        let before = queue.waiting.len();
        let after = before + line.len();
        if after + queue.writing.unwrap_or(0) > self.bytes_max {
            queue.lost += 1;
        } else {
            queue.waiting.extend_from_slice(line);
        }
        // A writer that gathers is woken once more when half the room is taken: at a hundred
        // thousand lines per second the whole would not last for the time of gathering.
        let half = self.bytes_max / 2;
        let wake = queue.idle || (before < half && half <= after);
        queue.idle = false;
        drop(queue);
        if wake {
            self.woken.notify_one();
        }
    }

    /// Waits until all that was appended is written, but no longer than `timeout`; tells whether
    /// it is.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let mut queue = self.lock();
        queue.flushing += 1;
        self.woken.notify_one();
        let (mut queue, waited) = self
            .written
            .wait_timeout_while(queue, timeout, |queue| {
                !queue.is_empty() || queue.writing.is_some()
            })
            .unwrap_or_else(PoisonError::into_inner);
        queue.flushing -= 1;
        !waited.timed_out()
    }

    /// Lets the writer end once it has written what is there.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.woken.notify_one();
    }

    /// The batch before is through: waits for lines, gathers, and exchanges `batch` for them.
    /// Gives how many lines were lost meanwhile, or `None` at the end.
    fn take(&self, batch: &mut Vec<u8>) -> Option<u64> {
        let mut queue = self.lock();
        queue.writing = None;
        if queue.flushing > 0 {
            self.written.notify_all();
        }
        while queue.is_empty() {
            if queue.closed {
                return None;
            }
            queue.idle = true;
            queue = self
                .woken
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.idle = false;
        let half = self.bytes_max / 2;
        let (mut queue, _) = self
            .woken
            .wait_timeout_while(queue, GATHER_TIME, |queue| {
                !queue.closed && queue.flushing == 0 && queue.waiting.len() < half
            })
            .unwrap_or_else(PoisonError::into_inner);
        batch.clear();
        std::mem::swap(batch, &mut queue.waiting);
        queue.writing = Some(batch.len());
        Some(std::mem::take(&mut queue.lost))
    }

    /// Waits; tells whether the backlog was closed, and the writer should give up what it cannot
    /// write.
    fn pause(&self, time: Duration) -> bool {
        let (queue, _) = self
            .woken
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
            let mut line = Line::begin(batch, self.encoding, SystemTime::now(), "event");
            line.words(key!("level"), &["warn"]);
            line.string(key!("message"), "writing the log failed for a while");
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
        let mut line = Line::begin(batch, self.encoding, SystemTime::now(), "event");
        line.words(key!("level"), &["warn"]);
        line.string(
            key!("message"),
            "lines were lost because the log was read too slowly",
        );
        line.number(key!("lines"), lost);
        line.end();
    }
}

/// Where the line begins that holds the byte at `at`.
fn start_of_line(batch: &[u8], at: usize) -> usize {
    batch[..at]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1)
}
