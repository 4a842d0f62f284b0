//! The log: where records and events are put, without ever waiting for whoever reads them.

use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use super::exchange::Exchange;
use super::line::{Encoding, Line, cut};
use super::record::ConnectionEnd;
use super::sink::{Kept, LogFile, Sink, StandardError};
use super::writer::{Backlog, RETRY_TIME, Writer};
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
    /// If the target cannot be opened for appending, or no thread can be had.
    pub fn start(plan: &plan::Log) -> io::Result<Log> {
        match &plan.file {
            None => Log::start_to(StandardError::open()?, plan, RETRY_TIME),
            Some(path) => Log::start_to(LogFile::open(path.clone())?, plan, RETRY_TIME),
        }
    }

    /// Starts one whose records are kept in memory as JSON.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn kept() -> io::Result<(Log, Kept)> {
        let plan = plan::Log {
            access: LogFormat::Json,
            ..plan::Log::default()
        };
        let kept = Kept::default();
        Ok((Log::start_to(kept.clone(), &plan, RETRY_TIME)?, kept))
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
            let mut line = Line::event(out, encoding, SystemTime::now(), level, message);
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

    /// The process is about to end: an exchange that is dropped from now on without a word was cut
    /// off by us, and no client left.
    pub fn shut_down(&self) {
        self.0.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Waits until all lines so far are written, but no longer than `timeout`; tells whether they
    /// are. For the end of the process: what is in memory then is lost, a few hundredths of a
    /// second's lines at most if the target keeps up.
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
            is_shutting_down: AtomicBool::new(false),
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

    pub(super) fn is_shutting_down(&self) -> bool {
        self.0.is_shutting_down.load(Ordering::Relaxed)
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
    is_shutting_down: AtomicBool,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{PipeWriter, Read as _, Write as _};

    use serde_json::Value;

    use super::*;
    use crate::observe::line::tests::{json, text};

    impl Sink for PipeWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            io::Write::write(self, bytes)
        }
    }

    fn plan(access: LogFormat, backlog_bytes_max: usize) -> plan::Log {
        plan::Log {
            access,
            file: None,
            backlog_bytes_max,
        }
    }

    /// A log into a pipe, and the reading end.
    fn piped(plan: &plan::Log) -> (Log, io::PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let log = Log::start_to(writer, plan, Duration::from_millis(1)).unwrap();
        (log, reader)
    }

    /// Reads until the log's thread has ended.
    fn all(mut reader: io::PipeReader) -> String {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).unwrap();
        lines
    }

    #[test]
    fn events_have_a_level_a_message_and_fields() {
        let address = "127.0.0.1:8080";
        let write = |access| {
            let (log, reader) = piped(&plan(access, 4096));
            log.event(
                Level::Info,
                "listening",
                &[("listen", &address), ("workers", &2)],
            );
            log.event(Level::Error, "a long one", &[("error", &"e".repeat(5000))]);
            drop(log);
            all(reader)
        };
        let lines = write(LogFormat::Text);
        let (first, second) = lines.split_once('\n').unwrap();
        let (_, first) = first.split_once(' ').unwrap();
        assert_eq!(
            first,
            "event level=info message=listening listen=127.0.0.1:8080 workers=2"
        );
        let second = text(second);
        assert_eq!(second["level"], "error");
        assert_eq!(second["error"], "e".repeat(EVENT_FIELD_BYTES_MAX));

        let lines = write(LogFormat::Json);
        let (first, _) = lines.split_once('\n').unwrap();
        let (_, first) = first.split_once(',').unwrap();
        assert_eq!(
            first,
            r#""kind":"event","level":"info","message":"listening","listen":"127.0.0.1:8080","workers":"2"}"#
        );
    }

    #[test]
    fn the_time_is_now() {
        let (log, reader) = piped(&plan(LogFormat::Text, 4096));
        let second = |time: SystemTime| {
            let mut out = Vec::new();
            Line::begin(&mut out, Encoding::Text, time, "event").end();
            String::from_utf8(out).unwrap()[..19].to_owned()
        };
        let before = second(SystemTime::now());
        log.event(Level::Info, "now", &[]);
        let after = second(SystemTime::now());
        drop(log);
        let time = &all(reader)[..19];
        assert!(*before <= *time && *time <= *after, "{time}");
    }

    #[test]
    fn threads_tear_no_line_and_keep_their_order() {
        const THREADS: usize = 8;
        const LINES: usize = 500;
        let (log, reader) = piped(&plan(LogFormat::Json, 1 << 20));
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let log = log.clone();
                thread::spawn(move || {
                    for line in 0..LINES {
                        log.event(Level::Info, "x", &[("thread", &thread), ("line", &line)]);
                    }
                })
            })
            .collect();
        drop(log);
        let mut next = [0; THREADS];
        for line in all(reader).lines() {
            let line = json(line);
            let number = |key: &str| line[key].as_str().unwrap().parse::<usize>().unwrap();
            let thread = number("thread");
            assert_eq!(number("line"), next[thread]);
            next[thread] += 1;
        }
        assert_eq!(next, [LINES; THREADS]);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    }

    #[test]
    fn a_reader_that_sleeps_costs_counted_lines() {
        const LINES: u64 = 10_000;
        let (log, reader) = piped(&plan(LogFormat::Json, 16 << 10));
        for line in 0..LINES {
            log.event(Level::Info, "x", &[("line", &line)]);
        }
        // Nobody has read yet, and here we are; pipe and backlog hold a tenth of that.
        drop(log);
        let (mut seen, mut lost, mut last) = (0, 0, None);
        for line in all(reader).lines().map(json) {
            if let Some(lines) = line.get("lines").and_then(Value::as_u64) {
                assert_eq!(line["level"], "warn");
                lost += lines;
            } else {
                let number: u64 = line["line"].as_str().unwrap().parse().unwrap();
                assert!(last < Some(number), "in order");
                last = Some(number);
                seen += 1;
            }
        }
        assert!(lost > 0);
        assert_eq!(seen + lost, LINES);
    }

    #[test]
    fn a_reader_that_left_stops_nobody() {
        let (log, reader) = piped(&plan(LogFormat::Json, 1024));
        drop(reader);
        for line in 0..1000 {
            log.event(Level::Info, "x", &[("line", &line)]);
        }
        assert!(!log.flush(Duration::from_millis(1)));
    }

    #[test]
    fn the_plan_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let plan = plan::Log {
            file: Some(path.clone()),
            ..plan(LogFormat::Text, 4096)
        };
        std::fs::File::create(&path)
            .unwrap()
            .write_all(b"before\n")
            .unwrap();
        let log = Log::start(&plan).unwrap();
        log.event(Level::Info, "after", &[]);
        assert!(log.flush(Duration::from_secs(60)));
        let lines = std::fs::read_to_string(&path).unwrap();
        assert!(
            lines.starts_with("before\n") && lines.ends_with("message=after\n"),
            "{lines}"
        );
        let nowhere = plan::Log {
            file: Some(folder.path().join("no/such/folder")),
            ..plan
        };
        assert!(Log::start(&nowhere).is_err());
    }

    #[test]
    fn panics_are_events_that_quote_nobody() {
        let (log, reader) = piped(&plan(LogFormat::Json, 1 << 20));
        log.take_panics();
        let sent = "a secret".to_owned();
        let quoted = thread::spawn(move || panic!("a peer sent {sent}")).join();
        let literal = thread::spawn(|| panic!("expected by the test")).join();
        drop(std::panic::take_hook());
        assert!(quoted.is_err() && literal.is_err());
        drop(log);
        let lines = all(reader);
        assert!(!lines.contains("a secret"));
        // Other tests of this process may panic at the same time.
        let ours =
            |line: &BTreeMap<String, Value>| line["place"].as_str().unwrap().contains(file!());
        let lines: Vec<_> = lines.lines().map(json).filter(ours).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["cause"], "not shown");
        assert_eq!(lines[1]["cause"], "expected by the test");
        assert_eq!(lines[1]["level"], "error");
    }
}
