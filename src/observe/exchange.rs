//! The open record of an exchange: closed exactly once, whatever ends it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use super::log::Log;
use super::record::Record;
use crate::policy::plan::Route;
use crate::protocol::version::{Era, Version};

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer was handed to the client's connection.
    Complete,
    /// The client left before it had the whole answer.
    ClientGone,
    /// The upstream broke off in the middle of its answer.
    UpstreamFailed,
    /// The upstream ended its answer in good order in the middle of an event, which clients drop.
    HalfEvent,
    /// The upstream ended a stream in good order in which there was no event, and so no response.
    NoResponse,
    /// We ended the answer, because it reached the limit of the policy with this key.
    Limit(&'static str),
    /// We ended the answer, because the process ends.
    ShutDown,
    /// Code of ours panicked.
    Panicked,
}

impl End {
    /// The end as it stands in the log, in two parts.
    pub(super) const fn words(self) -> [&'static str; 2] {
        match self {
            End::Complete => ["complete", ""],
            End::ClientGone => ["client_gone", ""],
            End::UpstreamFailed => ["upstream_failed", ""],
            End::HalfEvent => ["half_event", ""],
            End::NoResponse => ["no_response", ""],
            End::Limit(limit) => ["limit:", limit],
            End::ShutDown => ["shut_down", ""],
            End::Panicked => ["panicked", ""],
        }
    }
}

/// The open record of one exchange. It moves with the exchange, from the request into the body
/// of the answer; where it is dropped, it is closed and written.
pub struct Exchange {
    log: Log,
    opened: Instant,
    record: Record,
    upload: Option<Arc<AtomicU64>>,
    storing: Option<Arc<OnceLock<&'static str>>>,
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
            upload: None,
            storing: None,
        }
    }

    /// A trusted proxy says that the request comes from this address.
    pub fn client(&mut self, address: Option<IpAddr>) {
        self.record.client = address;
    }

    /// A route was found.
    pub fn route(&mut self, route: &Arc<Route>) {
        self.record.route(route);
    }

    /// The message was placed: its era, and its version if it has one that we know.
    pub fn placed(&mut self, era: Era, version: Option<Version>) {
        self.record.placed = Some((era, version));
    }

    /// The message's method, and the tool, prompt, URI or task that it names. Both are the
    /// client's words: the log shows at most [`METHOD_BYTES_MAX`](super::METHOD_BYTES_MAX) and [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes.
    pub fn called(&mut self, method: &str, name: Option<&str>) {
        self.record.words.call(method, name);
    }

    /// We refused: the stable name of the refusal (letters, digits and `_`), and what only the
    /// log may say about it, of which it shows at most [`DETAIL_BYTES_MAX`](super::DETAIL_BYTES_MAX) bytes. The caller sees
    /// to it that this holds neither a secret nor an argument.
    pub fn refused(&mut self, reason: &'static str, detail: Option<String>) {
        self.record.refused = Some((reason, detail));
    }

    /// What the memory of answers had to say: a stable word.
    pub fn cache(&mut self, word: &'static str) {
        self.record.cache = Some(word);
    }

    /// Whether the answer was kept, or why not: a stable word.
    pub fn stored(&mut self, word: &'static str) {
        self.record.stored = Some(word);
    }

    /// Whether the answer is kept will be said there, by its end.
    pub fn storing(&mut self, word: Arc<OnceLock<&'static str>>) {
        self.storing = Some(word);
    }

    /// What was known of the tool that is called: a stable word.
    pub fn schema(&mut self, word: &'static str) {
        self.record.schema = Some(word);
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

    /// The request's body comes in beside the exchange, even while the answer goes out. Its bytes
    /// are counted in what is given back.
    pub fn receiving(&mut self) -> Arc<AtomicU64> {
        Arc::clone(self.upload.get_or_insert_default())
    }

    /// The request's body was decided on by its headers, and is scanned while it passes.
    pub fn streamed(&mut self) {
        self.record.streamed = true;
    }

    /// So many more bytes of the answer's body went out.
    pub fn sent(&mut self, bytes: u64) {
        if self.record.bytes_out == 0 && bytes > 0 {
            self.record.first_byte = Some(self.opened.elapsed());
        }
        self.record.bytes_out += bytes;
    }

    /// How the exchange ended; the last word counts. If nobody says it, the drop concludes that we
    /// panicked, that the process ends, or else that the client left.
    pub fn ended(&mut self, end: End) {
        self.record.end = Some(end);
    }

    /// The client did not take all that was handed to its connection: it took nothing for as long as
    /// the limit with this key allows, or else the drop concludes why. What broke the answer off
    /// before that still counts.
    pub fn untaken(&mut self, limit: Option<&'static str>) {
        if let None | Some(End::Complete) = self.record.end {
            self.record.end = limit.map(End::Limit);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.log.has_access_log() {
            return;
        }
        let end = self.record.end.unwrap_or(if std::thread::panicking() {
            End::Panicked
        } else if self.log.is_shutting_down() {
            End::ShutDown
        } else {
            End::ClientGone
        });
        if let Some(word) = self.storing.as_ref().and_then(|storing| storing.get()) {
            self.record.stored = Some(word);
        }
        if let Some(upload) = &self.upload {
            self.record.bytes_in += upload.load(Ordering::Relaxed);
        }
        let (now, total) = (SystemTime::now(), self.opened.elapsed());
        self.log
            .append(|out, encoding| self.record.write(out, encoding, now, total, end));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::observe::line::tests::{json, text};
    use crate::observe::record::tests::{peer, weather};
    use crate::observe::{ConnectionEnd, Level};
    use crate::policy::plan::{self, LogFormat};

    /// Runs `act` with a log, and gives all lines that are in it at the end.
    fn logged(act: impl FnOnce(&Log)) -> Vec<BTreeMap<String, Value>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::start(&plan::Log {
            access: LogFormat::Json,
            file: Some(path.clone()),
            ..plan::Log::default()
        })
        .unwrap();
        act(&log);
        assert!(log.flush(Duration::from_secs(60)));
        let lines = std::fs::read_to_string(path).unwrap();
        lines.lines().map(json).collect()
    }

    fn ends(lines: &[BTreeMap<String, Value>]) -> Vec<&str> {
        lines
            .iter()
            .map(|line| line["end"].as_str().unwrap())
            .collect()
    }

    fn open(log: &Log) -> Exchange {
        log.exchange(peer(), &http::Method::POST, "/mcp")
    }

    #[test]
    fn an_exchange_is_written_when_it_is_dropped() {
        let lines = logged(|log| {
            let mut exchange = open(log);
            exchange.route(&weather());
            exchange.placed(Era::Legacy, Some(Version::V2025_11_25));
            exchange.called("tools/call", Some("echo"));
            exchange.upstream_connection(false);
            exchange.upstream_status(202);
            exchange.status(202);
            exchange.received(100);
            exchange.received(20);
            exchange.sent(0);
            exchange.sent(7);
            exchange.sent(8);
            exchange.ended(End::UpstreamFailed);
            exchange.ended(End::Complete);
            let mut late = open(log);
            late.ended(End::Limit("deadline.call"));
        });
        assert_eq!(ends(&lines), ["limit:deadline.call", "complete"]);
        let line = &lines[1];
        assert_eq!(line["version"], "2025-11-25");
        assert_eq!(line["upstream_reused"], false);
        assert_eq!(line["bytes_in"], 120);
        assert_eq!(line["bytes_out"], 15);
        let millis = |key: &str| line[key].as_f64().unwrap();
        assert!(millis("upstream_head_ms") <= millis("first_byte_ms"));
        assert!(millis("first_byte_ms") <= millis("total_ms"));
    }

    #[test]
    fn an_exchange_that_nobody_ended_lost_its_client() {
        assert_eq!(ends(&logged(|log| drop(open(log)))), ["client_gone"]);
    }

    #[test]
    fn what_was_not_taken_is_not_complete() {
        let lines = logged(|log| {
            for end in [None, Some(End::Complete), Some(End::UpstreamFailed)] {
                for limit in [None, Some("listen.write_idle_timeout")] {
                    let mut exchange = open(log);
                    end.into_iter().for_each(|end| exchange.ended(end));
                    exchange.untaken(limit);
                }
            }
        });
        let limit = "limit:listen.write_idle_timeout";
        let untaken = ["client_gone", limit];
        assert_eq!(ends(&lines[..2]), untaken);
        assert_eq!(ends(&lines[2..4]), untaken);
        assert_eq!(ends(&lines[4..]), ["upstream_failed"; 2]);
    }

    #[test]
    fn what_is_open_when_the_process_ends_was_cut_off_by_us() {
        let lines = logged(|log| {
            let mut complete = open(log);
            complete.ended(End::Complete);
            let cut_off = open(log);
            log.shut_down();
            drop((complete, cut_off));
        });
        assert_eq!(ends(&lines), ["complete", "shut_down"]);
    }

    #[test]
    fn an_exchange_is_written_once_however_often_it_moves() {
        struct Body {
            exchange: Option<Exchange>,
        }
        let lines = logged(|log| {
            let mut body = Box::new(Body {
                exchange: Some(open(log)),
            });
            let mut exchange = body.exchange.take().unwrap();
            exchange.status(200);
            body.exchange = Some(exchange);
            let bodies = vec![body];
            std::thread::spawn(move || {
                for mut body in bodies {
                    if let Some(exchange) = &mut body.exchange {
                        exchange.ended(End::Complete);
                    }
                }
            })
            .join()
            .unwrap();
        });
        assert_eq!(ends(&lines), ["complete"]);
        assert_eq!(lines[0]["status"], 200);
    }

    #[test]
    fn a_panic_closes_what_it_unwinds() {
        let lines = logged(|log| {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let mut exchange = open(log);
                exchange.called("tools/call", None);
                panic!("expected by the test");
            }));
            assert!(panicked.is_err());
        });
        assert_eq!(ends(&lines), ["panicked"]);
        assert_eq!(lines[0]["method"], "tools/call");
    }

    #[test]
    fn a_panic_of_a_task_closes_what_the_task_holds() {
        struct Body(#[expect(dead_code, reason = "it is there to be dropped")] Exchange);
        impl Future for Body {
            type Output = ();
            fn poll(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<()> {
                panic!("expected by the test");
            }
        }
        let lines = logged(|log| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let task = runtime.spawn(Body(open(log)));
            assert!(runtime.block_on(task).unwrap_err().is_panic());
        });
        assert_eq!(ends(&lines), ["panicked"]);
    }

    #[test]
    fn without_an_access_log_only_events_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = Log::start(&plan::Log {
            access: LogFormat::Off,
            file: Some(path.clone()),
            ..plan::Log::default()
        })
        .unwrap();
        drop(open(&log));
        log.connection(&ConnectionEnd {
            peer: peer(),
            bytes_in: 0,
            duration: Duration::ZERO,
            reason: "closed",
            detail: None,
        });
        log.event(Level::Info, "still here", &[]);
        assert!(log.flush(Duration::from_secs(60)));
        let lines = std::fs::read_to_string(path).unwrap();
        assert_eq!(lines.lines().count(), 1);
        assert_eq!(text(&lines)["message"], "still here");
    }
}
