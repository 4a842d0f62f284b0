//! The access record: one per exchange, closed exactly once whatever ends it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::line::{Encoding, Key, Line, cut, key};
use super::log::Log;
use crate::policy::plan::Route;
use crate::protocol::version::Version;

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer was handed to the client's connection.
    Complete,
    /// The client left before it had the whole answer.
    ClientGone,
    /// The upstream broke off in the middle of its answer.
    UpstreamFailed,
    /// We broke off ourselves, because the process ends.
    ShutDown,
    /// Code of ours panicked.
    Panicked,
}

impl End {
    /// The end as it stands in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::ClientGone => "client_gone",
            End::UpstreamFailed => "upstream_failed",
            End::ShutDown => "shut_down",
            End::Panicked => "panicked",
        }
    }
}

/// The open record of one exchange. It moves with the exchange, from the request into the body
/// of the answer; where it is dropped, it is closed and written.
pub struct Exchange {
    log: Log,
    opened: Instant,
    record: Record,
}

impl Exchange {
    pub(super) fn open(
        log: Log,
        peer: SocketAddr,
        http_method: &http::Method,
        path: &str,
    ) -> Exchange {
        Exchange {
            log,
            opened: Instant::now(),
            record: Record::new(peer, http_method, path),
        }
    }

    /// A route was found.
    pub fn route(&mut self, route: &Arc<Route>) {
        self.record.route = Some(Arc::clone(route));
        // A route has one path, and the log need not repeat it.
        self.record.words.clear();
    }

    /// The message was placed: its era, and its version if it has one that we know.
    pub fn placed(&mut self, era: &'static str, version: Option<Version>) {
        self.record.placed = Some((era, version));
    }

    /// The message's method, and the tool, prompt, URI or task that it names. Both are the
    /// client's words: the log shows at most [`METHOD_BYTES_MAX`] and [`NAME_BYTES_MAX`] bytes.
    pub fn called(&mut self, method: &str, name: Option<&str>) {
        self.record.words.call(method, name);
    }

    /// We refused: the stable name of the refusal (letters, digits and `_`), and what only the
    /// log may say about it, of which it shows at most [`DETAIL_BYTES_MAX`] bytes.
    pub fn refused(&mut self, reason: &'static str, detail: Option<String>) {
        self.record.refused = Some((reason, detail));
    }

    /// The request was sent on, over a connection that had served before or a new one.
    pub fn upstream_connection(&mut self, reused: bool) {
        self.record.upstream_reused = Some(reused);
    }

    /// The head of the upstream's answer is here, with this status.
    pub fn upstream_status(&mut self, status: u16) {
        self.record.upstream_status = Some((status, self.opened.elapsed()));
    }

    /// The status of our answer.
    pub fn status(&mut self, status: u16) {
        self.record.status = Some(status);
    }

    /// So many more bytes of the request's body came in.
    pub fn received(&mut self, bytes: u64) {
        self.record.bytes_in += bytes;
    }

    /// So many more bytes of the answer's body went out.
    pub fn sent(&mut self, bytes: u64) {
        if self.record.bytes_out == 0 && bytes > 0 {
            self.record.first_byte = Some(self.opened.elapsed());
        }
        self.record.bytes_out += bytes;
    }

    /// How the exchange ended; the last word counts. If nobody says it, the drop concludes that
    /// the client left, or that we panicked.
    pub fn ended(&mut self, end: End) {
        self.record.end = Some(end);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.log.has_access_log() {
            return;
        }
        let end = self.record.end.unwrap_or(if std::thread::panicking() {
            End::Panicked
        } else {
            End::ClientGone
        });
        let (now, total) = (SystemTime::now(), self.opened.elapsed());
        self.log
            .append(|out, encoding| self.record.write(out, encoding, now, total, end));
    }
}

/// A connection that ended before it had an exchange.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    /// Who it was.
    pub peer: SocketAddr,
    /// How much was read from it.
    pub bytes_in: u64,
    /// How long it lasted.
    pub duration: Duration,
    /// What ended it.
    pub reason: Cow<'static, str>,
}

impl ConnectionEnd {
    pub(super) fn write(&self, out: &mut Vec<u8>, encoding: Encoding, now: SystemTime) {
        let mut line = Line::begin(out, encoding, now, "connection");
        line.address(key!("peer"), &self.peer);
        line.number(key!("bytes_in"), self.bytes_in);
        line.millis(key!("total_ms"), self.duration);
        line.string(key!("end"), cut(&self.reason, DETAIL_BYTES_MAX));
        line.end();
    }
}

/// Most bytes of a method (of HTTP or of a message) that the log shows.
pub const METHOD_BYTES_MAX: usize = 64;
/// Most bytes of a tool's or prompt's name, a URI or a task id that the log shows.
pub const NAME_BYTES_MAX: usize = 256;
/// Most bytes of a path without a route that the log shows.
pub const PATH_BYTES_MAX: usize = 256;
/// Most bytes of a refusal's detail that the log shows.
pub const DETAIL_BYTES_MAX: usize = 1024;

/// What is known of an exchange, without a clock.
struct Record {
    peer: SocketAddr,
    http_method: http::Method,
    route: Option<Arc<Route>>,
    words: Words,
    placed: Option<(&'static str, Option<Version>)>,
    refused: Option<(&'static str, Option<String>)>,
    /// The request was sent on; whether over a connection that had served before.
    upstream_reused: Option<bool>,
    upstream_status: Option<(u16, Duration)>,
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    first_byte: Option<Duration>,
    end: Option<End>,
}

impl Record {
    fn new(peer: SocketAddr, http_method: &http::Method, path: &str) -> Record {
        Record {
            peer,
            http_method: http_method.clone(),
            route: None,
            words: Words::with_path(path),
            placed: None,
            refused: None,
            upstream_reused: None,
            upstream_status: None,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            first_byte: None,
            end: None,
        }
    }

    fn write(
        &self,
        out: &mut Vec<u8>,
        encoding: Encoding,
        now: SystemTime,
        total: Duration,
        end: End,
    ) {
        let mut line = Line::begin(out, encoding, now, "exchange");
        if let Some(route) = &self.route {
            line.string(key!("route"), &route.name);
        }
        line.address(key!("peer"), &self.peer);
        self.write_call(&mut line);
        self.write_verdict(&mut line);
        self.write_transfer(&mut line);
        line.millis(key!("total_ms"), total);
        line.words(key!("end"), &[end.as_str()]);
        line.end();
    }

    /// What was asked for.
    fn write_call(&self, line: &mut Line<'_>) {
        let http_method = self.http_method.as_str();
        line.string(key!("http_method"), cut(http_method, METHOD_BYTES_MAX));
        let words = &self.words;
        words.write(line, &words.path, key!("path"), key!("path_bytes"));
        if let Some((era, version)) = self.placed {
            line.words(key!("era"), &[era]);
            if let Some(version) = version {
                line.words(key!("version"), &[version.as_str()]);
            }
        }
        words.write(line, &words.method, key!("method"), key!("method_bytes"));
        words.write(line, &words.name, key!("name"), key!("name_bytes"));
    }

    /// What we decided: `refused:` and why, `forwarded`, or `answered` by ourselves; nothing if
    /// it did not come to that.
    fn write_verdict(&self, line: &mut Line<'_>) {
        match &self.refused {
            Some((reason, detail)) => {
                line.words(key!("verdict"), &["refused:", reason]);
                if let Some(detail) = detail {
                    line.string(key!("detail"), cut(detail, DETAIL_BYTES_MAX));
                }
            }
            None if self.upstream_reused.is_some() => line.words(key!("verdict"), &["forwarded"]),
            None if self.status.is_some() => line.words(key!("verdict"), &["answered"]),
            None => {}
        }
    }

    /// What went to and fro.
    fn write_transfer(&self, line: &mut Line<'_>) {
        if let Some(status) = self.status {
            line.number(key!("status"), status.into());
        }
        if let Some(reused) = self.upstream_reused {
            line.flag(key!("upstream_reused"), reused);
        }
        if let Some((status, after)) = self.upstream_status {
            line.number(key!("upstream_status"), status.into());
            line.millis(key!("upstream_head_ms"), after);
        }
        line.number(key!("bytes_in"), self.bytes_in);
        line.number(key!("bytes_out"), self.bytes_out);
        if let Some(after) = self.first_byte {
            line.millis(key!("first_byte_ms"), after);
        }
    }
}

/// Strings of the client's choice, cut to their bounds and kept in one allocation.
#[derive(Default)]
struct Words {
    text: String,
    path: Option<Word>,
    method: Option<Word>,
    name: Option<Word>,
}

/// A part of [`Words::text`].
struct Word {
    kept: Range<usize>,
    /// How long the word was before it was cut.
    bytes: usize,
}

impl Words {
    /// Enough for the path of an endpoint, and afterwards for a method and a tool's name.
    const BYTES_USUAL: usize = 64;

    fn with_path(path: &str) -> Words {
        let mut words = Words {
            text: String::with_capacity(Words::BYTES_USUAL),
            ..Words::default()
        };
        // A query may hold credentials; whatever the caller passes, it stays out.
        let path = path.split('?').next().unwrap_or_default();
        words.path = Some(words.keep(path, PATH_BYTES_MAX));
        words
    }

    fn call(&mut self, method: &str, name: Option<&str>) {
        self.text
            .truncate(self.path.as_ref().map_or(0, |path| path.kept.end));
        self.method = Some(self.keep(method, METHOD_BYTES_MAX));
        self.name = name.map(|name| self.keep(name, NAME_BYTES_MAX));
    }

    /// The words go; the room stays.
    fn clear(&mut self) {
        self.text.clear();
        (self.path, self.method, self.name) = (None, None, None);
    }

    fn keep(&mut self, word: &str, bytes_max: usize) -> Word {
        let start = self.text.len();
        self.text.push_str(cut(word, bytes_max));
        Word {
            kept: start..self.text.len(),
            bytes: word.len(),
        }
    }

    /// Writes a word, and its length if it was cut: a mark that no word can forge.
    fn write(&self, line: &mut Line<'_>, word: &Option<Word>, key: Key, bytes_key: Key) {
        if let Some(word) = word {
            line.string(key, &self.text[word.kept.clone()]);
            if word.bytes > word.kept.len() {
                line.number(bytes_key, word.bytes as u64);
            }
        }
    }
}
