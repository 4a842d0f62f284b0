//! The log: where records and events are put, without ever waiting for whoever reads them.

use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::line::{Encoding, Line, cut, key};
use super::record::{ConnectionEnd, Exchange};
use super::writer::{Backlog, LogFile, RETRY_TIME, Sink, StandardError, Writer};
use crate::policy::plan::{self, LogFormat};

/// The running log. Clones are cheap and lead to the same target; when the last one goes, the
/// writing thread writes what it has and ends.
#[derive(Clone)]
pub struct Log(Arc<Input>);

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Info,
    /// Worth a look; the gateway goes on as before.
    Warn,
    /// Something does not work.
    Error,
}

impl Level {
    /// The level as it stands in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

impl Log {
    /// Starts the log's thread.
    ///
    /// # Errors
    /// If the file that the plan names cannot be opened for appending, or no thread can be had.
    pub fn start(plan: &plan::Log) -> io::Result<Log> {
        match &plan.file {
            None => Log::start_to(StandardError, plan, RETRY_TIME),
            Some(path) => Log::start_to(LogFile::open(path.clone())?, plan, RETRY_TIME),
        }
    }

    /// Opens the record of an exchange, which begins now. `path` is the request's, and is only
    /// written if no route is found for it.
    #[must_use]
    pub fn exchange(&self, peer: SocketAddr, http_method: &http::Method, path: &str) -> Exchange {
        Exchange::open(self.clone(), peer, http_method, path)
    }

    /// Records a connection that ended without an exchange.
    pub fn connection(&self, end: &ConnectionEnd) {
        if self.has_access_log() {
            self.append(|out, encoding| end.write(out, encoding, SystemTime::now()));
        }
    }

    /// Writes an event of the gateway itself: a fixed message, and fields with what varies. Field
    /// names are letters, digits and `_`, and none of `time`, `kind`, `level` and `message`.
    pub fn event(&self, level: Level, message: &str, fields: &[(&'static str, &dyn Display)]) {
        self.append(|out, encoding| {
            let mut line = Line::begin(out, encoding, SystemTime::now(), "event");
            line.words(key!("level"), &[level.as_str()]);
            line.string(key!("message"), message);
            for (name, value) in fields {
                line.named(name, cut(&value.to_string(), EVENT_FIELD_BYTES_MAX));
            }
            line.end();
        });
    }

    /// Makes panics of this process events of this log, instead of text that the standard library
    /// writes to standard error, between our lines and waiting for whoever reads it. The event
    /// says where; it says why only if the code holds the words, because a message that was put
    /// together at run time may quote what a peer sent.
    pub fn take_panics(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map_or(String::new(), ToString::to_string);
            let cause = panic.payload().downcast_ref::<&'static str>();
            let cause = cause.copied().unwrap_or("not shown");
            log.event(
                Level::Error,
                "panic",
                &[("place", &place), ("cause", &cause)],
            );
        }));
    }

    /// Waits until all lines so far are written, but no longer than `timeout`; tells whether they
    /// are. For the end of the process.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.0.backlog.flush(timeout)
    }

    /// Starts a log to any sink, which is tried again `retry_time` after it failed.
    pub(super) fn start_to(
        sink: impl Sink,
        plan: &plan::Log,
        retry_time: Duration,
    ) -> io::Result<Log> {
        let backlog = Arc::new(Backlog::new(plan.backlog_bytes_max));
        let input = Input {
            access: plan.access,
            backlog: Arc::clone(&backlog),
        };
        let writer = Writer {
            backlog,
            sink,
            encoding: input.encoding(),
            retry_time,
        };
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(|| writer.run())?;
        Ok(Log(Arc::new(input)))
    }

    /// Whether exchanges and connections are recorded at all.
    pub(super) fn has_access_log(&self) -> bool {
        self.0.access != LogFormat::Off
    }

    /// Appends the lines that `write` makes.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>, Encoding)) {
        // The buffer is taken out of its place while it is used, and a thread that is ending has
        // none: neither a panic in `write` nor a record closed late finds it in a bad state.
        let mut line = LINE.try_with(Cell::take).unwrap_or_default();
        line.clear();
        write(&mut line, self.0.encoding());
        self.0.backlog.append(&line);
        let _ = LINE.try_with(|place| place.set(line));
    }
}

/// Most bytes of the value of an event's field; what is over is cut off.
const EVENT_FIELD_BYTES_MAX: usize = 1024;

thread_local! {
    /// Where this thread puts a line together before it appends it under the lock.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The appending side, shared by all clones.
struct Input {
    access: LogFormat,
    backlog: Arc<Backlog>,
}

impl Input {
    /// Events are written even if there is no access log; then for people.
    fn encoding(&self) -> Encoding {
        match self.access {
            LogFormat::Json => Encoding::Json,
            LogFormat::Text | LogFormat::Off => Encoding::Text,
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.backlog.close();
    }
}
