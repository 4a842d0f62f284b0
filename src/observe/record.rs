//! Records as data, and how they are written: pure, with times as arguments.
//!
//! The fields of an `exchange`, in this order; one that has nothing to say is left out:
//!
//! | field | says |
//! | --- | --- |
//! | `time` | when the record was closed, UTC |
//! | `route` | the route's name |
//! | `peer` | address and port of the connection |
//! | `client` | the client's address, where a trusted proxy says it |
//! | `http_method` | |
//! | `path` | only if there is no route, or one of many paths |
//! | `era`, `version` | how the message was placed; era `none` where it passed unread |
//! | `method`, `name` | the message's method, and the tool, prompt, URI or task that it names |
//! | `body` | `streamed`, if it passed by while it was scanned; `method` and `name` are then those of the headers |
//! | `verdict` | `refused:` and the refusal's name, `forwarded`, or `answered` by ourselves |
//! | `detail` | more about a refusal |
//! | `cache` | what an answer from memory came to, or why there was none: the first word of `Cache-Status` |
//! | `stored` | `stored`, or why the answer was not kept |
//! | `schema` | `none`, where the definition of a tool could not be had, so that its argument headers passed unjudged |
//! | `status` | of our answer |
//! | `upstream_reused` | whether the upstream connection had served before |
//! | `upstream_status`, `upstream_head_ms` | the upstream's status, and when its head was here |
//! | `bytes_in`, `bytes_out` | of the bodies, as received from and handed to the client |
//! | `first_byte_ms` | when the first byte of our body was handed over |
//! | `total_ms` | from the request's head to the end |
//! | `end` | `complete`, `client_gone`, `upstream_failed`, `half_event`, `no_response`, `limit:` and the limit's key, `shut_down` or `panicked` |
//!
//! `path_bytes`, `method_bytes`, `name_bytes` and `detail_bytes` follow a string that is not shown
//! as a whole, with the length of the whole.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::exchange::End;
use super::line::{Encoding, Line, cut, key};
use super::words::{METHOD_BYTES_MAX, Words};
use crate::policy::plan::Route;
use crate::protocol::version::{Era, Version};

/// A connection that ended before it had an exchange.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    /// Who it was.
    pub peer: SocketAddr,
    /// How much was read from it.
    pub bytes_in: u64,
    /// How long it lasted.
    pub duration: Duration,
    /// What ended it: a stable name.
    pub reason: &'static str,
    /// More about that.
    pub detail: Option<String>,
}

impl ConnectionEnd {
    pub(super) fn write(&self, out: &mut Vec<u8>, encoding: Encoding, now: SystemTime) {
        let mut line = Line::begin(out, encoding, now, "connection");
        line.address(key!("peer"), &self.peer);
        line.number(key!("bytes_in"), self.bytes_in);
        line.millis(key!("total_ms"), self.duration);
        line.string(key!("end"), self.reason);
        if let Some(detail) = &self.detail {
            line.string(key!("detail"), cut(detail, DETAIL_BYTES_MAX));
        }
        line.end();
    }
}

/// Most bytes of a refusal's detail that the log shows.
pub const DETAIL_BYTES_MAX: usize = 1024;

/// What is known of an exchange, without a clock.
pub(super) struct Record {
    pub(super) peer: SocketAddr,
    pub(super) client: Option<IpAddr>,
    pub(super) http_method: http::Method,
    pub(super) route: Option<Arc<Route>>,
    pub(super) words: Words,
    pub(super) placed: Option<(Era, Option<Version>)>,
    /// The request's body was scanned while it passed.
    pub(super) streamed: bool,
    pub(super) refused: Option<(&'static str, Option<String>)>,
    /// What the memory of answers had to say.
    pub(super) cache: Option<&'static str>,
    /// Whether the answer was kept.
    pub(super) stored: Option<&'static str>,
    /// What was known of the tool.
    pub(super) schema: Option<&'static str>,
    /// The request was sent on; whether over a connection that had served before.
    pub(super) upstream_reused: Option<bool>,
    pub(super) upstream_status: Option<(u16, Duration)>,
    pub(super) status: Option<u16>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) first_byte: Option<Duration>,
    pub(super) end: Option<End>,
}

impl Record {
    pub(super) fn new(peer: SocketAddr, http_method: &http::Method, path: &str) -> Record {
        Record {
            peer,
            client: None,
            http_method: http_method.clone(),
            route: None,
            words: Words::with_path(path),
            placed: None,
            streamed: false,
            refused: None,
            cache: None,
            stored: None,
            schema: None,
            upstream_reused: None,
            upstream_status: None,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            first_byte: None,
            end: None,
        }
    }

    pub(super) fn route(&mut self, route: &Arc<Route>) {
        self.route = Some(Arc::clone(route));
        // A route of one path need not repeat it in the log.
        if !route.path.ends_with('*') {
            self.words.clear();
        }
    }

    /// Writes the line of an exchange that took `total` and ended now.
    pub(super) fn write(
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
        if let Some(client) = self.client {
            line.string(key!("client"), &client.to_string());
        }
        self.write_call(&mut line);
        self.write_verdict(&mut line);
        self.write_transfer(&mut line);
        line.millis(key!("total_ms"), total);
        line.words(key!("end"), &end.words());
        line.end();
    }

    /// What was asked for.
    fn write_call(&self, line: &mut Line<'_>) {
        let http_method = self.http_method.as_str();
        line.string(key!("http_method"), cut(http_method, METHOD_BYTES_MAX));
        self.words.write_path(line);
        if self
            .route
            .as_ref()
            .is_some_and(|route| route.pass.is_some())
        {
            line.words(key!("era"), &["none"]);
        }
        if let Some((era, version)) = self.placed {
            line.words(key!("era"), &[era.as_str()]);
            if let Some(version) = version {
                line.words(key!("version"), &[version.as_str()]);
            }
        }
        self.words.write_call(line);
        if self.streamed {
            line.words(key!("body"), &["streamed"]);
        }
    }

    /// What we decided: `refused:` and why, `forwarded`, or `answered` by ourselves; nothing if
    /// it did not come to that.
    fn write_verdict(&self, line: &mut Line<'_>) {
        match &self.refused {
            Some((reason, detail)) => {
                line.words(key!("verdict"), &["refused:", reason]);
                if let Some(detail) = detail {
                    line.string(key!("detail"), cut(detail, DETAIL_BYTES_MAX));
                    if detail.len() > DETAIL_BYTES_MAX {
                        line.number(key!("detail_bytes"), detail.len() as u64);
                    }
                }
            }
            None if self.upstream_reused.is_some() => line.words(key!("verdict"), &["forwarded"]),
            None if self.status.is_some() => line.words(key!("verdict"), &["answered"]),
            None => {}
        }
        if let Some(word) = self.cache {
            line.words(key!("cache"), &[word]);
        }
        if let Some(word) = self.stored {
            line.words(key!("stored"), &[word]);
        }
        if let Some(word) = self.schema {
            line.words(key!("schema"), &[word]);
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

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::observe::NAME_BYTES_MAX;
    use crate::observe::line::tests::{json, text};
    use crate::policy::plan;

    /// 2026-07-28T09:15:02.007Z.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_785_230_102_007)
    }

    pub(in crate::observe) fn peer() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 7], 50_123))
    }

    pub(in crate::observe) fn weather() -> Arc<Route> {
        Arc::new(Route {
            name: "weather".to_owned(),
            path: "/mcp".to_owned(),
            pass: None,
            hosts: plan::Hosts::Any,
            origins: plan::Origins::None,
            cors: plan::Cors::default(),
            upstream: Arc::new(plan::Upstream::at("weather", "127.0.0.1", 3000, "/mcp")),
            protocol: plan::Protocol::default(),
            bounds: plan::Bounds::default(),
            streams: plan::Streams::default(),
            deadline: plan::Deadlines::default(),
            cache: plan::Cache::default(),
            catalog: plan::Catalog::default(),
            pin: None,
        })
    }

    fn forwarded() -> Record {
        let mut record = Record::new(peer(), &http::Method::POST, "/mcp");
        record.route(&weather());
        record.placed = Some((Era::Modern, Some(Version::V2026_07_28)));
        record.words.call("tools/call", Some("get_weather"));
        record.upstream_reused = Some(true);
        record.upstream_status = Some((200, Duration::from_nanos(12_345_678)));
        record.status = Some(200);
        record.bytes_in = 301;
        record.bytes_out = 99;
        record.first_byte = Some(Duration::from_micros(12_400));
        record
    }

    fn line(record: &Record, encoding: Encoding) -> String {
        let mut out = Vec::new();
        let total = Duration::from_micros(60_001_050);
        record.write(&mut out, encoding, now(), total, End::Complete);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_forwarded_call() {
        assert_eq!(
            line(&forwarded(), Encoding::Json),
            concat!(
                r#"{"time":"2026-07-28T09:15:02.007Z","kind":"exchange","route":"weather","#,
                r#""peer":"192.0.2.7:50123","http_method":"POST","era":"modern","#,
                r#""version":"2026-07-28","method":"tools/call","name":"get_weather","#,
                r#""verdict":"forwarded","status":200,"upstream_reused":true,"#,
                r#""upstream_status":200,"upstream_head_ms":12.345,"bytes_in":301,"#,
                r#""bytes_out":99,"first_byte_ms":12.400,"total_ms":60001.050,"end":"complete"}"#,
                "\n",
            )
        );
        assert_eq!(
            line(&forwarded(), Encoding::Text),
            concat!(
                "2026-07-28T09:15:02.007Z exchange route=weather peer=192.0.2.7:50123 ",
                "http_method=POST era=modern version=2026-07-28 method=tools/call ",
                "name=get_weather verdict=forwarded status=200 upstream_reused=true ",
                "upstream_status=200 upstream_head_ms=12.345 bytes_in=301 bytes_out=99 ",
                "first_byte_ms=12.400 total_ms=60001.050 end=complete\n",
            )
        );
    }

    #[test]
    fn a_refusal() {
        let mut record = Record::new(peer(), &http::Method::POST, "/mcp");
        record.route(&weather());
        record.refused = Some((
            "header_mismatch",
            Some("Mcp-Name says \"a\", the body \"b\"".to_owned()),
        ));
        record.status = Some(400);
        assert_eq!(
            line(&record, Encoding::Json),
            concat!(
                r#"{"time":"2026-07-28T09:15:02.007Z","kind":"exchange","route":"weather","#,
                r#""peer":"192.0.2.7:50123","http_method":"POST","#,
                r#""verdict":"refused:header_mismatch","#,
                r#""detail":"Mcp-Name says \"a\", the body \"b\"","status":400,"#,
                r#""bytes_in":0,"bytes_out":0,"total_ms":60001.050,"end":"complete"}"#,
                "\n",
            )
        );
        assert_eq!(
            line(&record, Encoding::Text),
            concat!(
                "2026-07-28T09:15:02.007Z exchange route=weather peer=192.0.2.7:50123 ",
                r#"http_method=POST verdict=refused:header_mismatch "#,
                r#"detail="Mcp-Name says \"a\", the body \"b\"" status=400 "#,
                "bytes_in=0 bytes_out=0 total_ms=60001.050 end=complete\n",
            )
        );
    }

    #[test]
    fn a_long_detail_is_cut() {
        let mut record = forwarded();
        record.refused = Some(("refused_so", Some("d".repeat(5000))));
        let fields = json(&line(&record, Encoding::Json));
        assert_eq!(fields["detail"], "d".repeat(DETAIL_BYTES_MAX));
        assert_eq!(fields["detail_bytes"], 5000);
    }

    #[test]
    fn a_path_is_shown_where_no_route_is() {
        let peer = "[2001:db8::1]:443".parse().unwrap();
        let mut record = Record::new(peer, &http::Method::GET, "/.well-known/x?token=secret");
        record.status = Some(404);
        assert_eq!(
            line(&record, Encoding::Text),
            concat!(
                "2026-07-28T09:15:02.007Z exchange peer=[2001:db8::1]:443 http_method=GET ",
                "path=/.well-known/x path_bytes=27 verdict=answered status=404 ",
                "bytes_in=0 bytes_out=0 total_ms=60001.050 end=complete\n",
            )
        );
        record.words.call("ping", None);
        let fields = text(&line(&record, Encoding::Text));
        assert_eq!(fields["path"], "/.well-known/x");
        assert_eq!(fields["method"], "ping");
        record.route(&weather());
        assert!(!text(&line(&record, Encoding::Text)).contains_key("path"));
    }

    #[test]
    fn a_connection_without_an_exchange() {
        let end = ConnectionEnd {
            peer: peer(),
            bytes_in: 17,
            duration: Duration::from_millis(60_000),
            reason: "no head in time",
            detail: Some("it was slow".to_owned()),
        };
        let mut out = Vec::new();
        end.write(&mut out, Encoding::Json, now());
        end.write(&mut out, Encoding::Text, now());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"time":"2026-07-28T09:15:02.007Z","kind":"connection","#,
                r#""peer":"192.0.2.7:50123","bytes_in":17,"total_ms":60000.000,"#,
                r#""end":"no head in time","detail":"it was slow"}"#,
                "\n2026-07-28T09:15:02.007Z connection peer=192.0.2.7:50123 bytes_in=17 ",
                "total_ms=60000.000 end=\"no head in time\" detail=\"it was slow\"\n",
            )
        );
    }

    proptest! {
        #[test]
        fn every_line_reads_back_as_it_was_written(
            // Without the two marks of what is not shown.
            method in "[^?@]{0,80}",
            name in prop::option::of("[^?@]{0,280}"),
            detail in prop::option::of(any::<String>()),
            status in prop::option::of(100_u16..1000),
            bytes in any::<(u64, u64)>(),
            micros in 0_u64..1 << 50,
            millis in 0_u64..253_402_300_800_000,
        ) {
            let mut record = forwarded();
            record.words.call(&method, name.as_deref());
            record.refused = Some(("refused_so", detail.clone()));
            record.status = status;
            (record.bytes_in, record.bytes_out) = bytes;
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            let total = Duration::from_micros(micros);
            let (mut in_json, mut in_text) = (Vec::new(), Vec::new());
            record.write(&mut in_json, Encoding::Json, time, total, End::ClientGone);
            record.write(&mut in_text, Encoding::Text, time, total, End::ClientGone);

            let in_json = json(std::str::from_utf8(&in_json).unwrap());
            prop_assert_eq!(&in_json["method"], cut(&method, METHOD_BYTES_MAX));
            let name = name.map(|name| Value::from(cut(&name, NAME_BYTES_MAX)));
            prop_assert_eq!(in_json.get("name"), name.as_ref());
            let detail = detail.map(|detail| Value::from(cut(&detail, DETAIL_BYTES_MAX)));
            prop_assert_eq!(in_json.get("detail"), detail.as_ref());
            let status = status.map(Value::from);
            prop_assert_eq!(in_json.get("status"), status.as_ref());
            prop_assert_eq!(&in_json["bytes_in"], &Value::from(bytes.0));
            prop_assert_eq!(&in_json["bytes_out"], &Value::from(bytes.1));
            prop_assert_eq!(in_json["total_ms"].as_f64(), Some(micros as f64 / 1000.0));
            prop_assert_eq!(&in_json["end"], "client_gone");

            // The text says the same, field by field.
            let mut as_text = BTreeMap::new();
            for (key, value) in &in_json {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                as_text.insert(key.clone(), value);
            }
            let in_text = text(std::str::from_utf8(&in_text).unwrap());
            for key in ["total_ms", "upstream_head_ms", "first_byte_ms"] {
                let number: f64 = in_text[key].parse().unwrap();
                prop_assert_eq!(Some(number), in_json[key].as_f64());
                as_text.insert(key.to_owned(), in_text[key].clone());
            }
            prop_assert_eq!(in_text, as_text);
        }
    }
}
