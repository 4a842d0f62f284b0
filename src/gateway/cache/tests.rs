//! The parts at work together: requests against a store, with the answers that they are given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};

use super::*;
use crate::gateway::recall::Selection;
use crate::policy::plan::{self, LegacyCache, LegacyScope, Memory};
use crate::protocol::frame::{self, Bounds, Frame, Paths};
use crate::protocol::response::{Message, Response};
use crate::protocol::version::Version;

mod flight;
mod memory;
mod model;

const SECOND: Duration = Duration::from_secs(1);

/// A request as it was sent.
struct Sent {
    policy: plan::Cache,
    changes: Arc<Changes>,
    version: Version,
    head: Parts,
    frame: Frame,
}

impl Sent {
    /// A modern request without a credential.
    fn new(method: &str, params: &str, policy: plan::Cache, changes: &Arc<Changes>) -> Sent {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let (head, ()) = Request::post("/mcp").body(()).unwrap().into_parts();
        Sent {
            policy,
            changes: changes.clone(),
            version: Version::V2026_07_28,
            head,
            frame: frame::scan(body.into(), &Bounds::default(), &Paths::default()).unwrap(),
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Sent {
        let value = HeaderValue::from_str(value).unwrap();
        let headers = &mut self.head.headers;
        headers.append(HeaderName::from_static(name), value);
        self
    }

    fn of_version(self, version: Version) -> Sent {
        Sent { version, ..self }
    }

    fn question(&self, store: &Store) -> Question<'_> {
        let method = self.frame.method().unwrap();
        let era = self.version.era();
        let asking = Asking {
            route: "weather",
            policy: &self.policy,
            upstream: "upstream",
            changes: &self.changes,
            kind: Kind::of(&method, era).unwrap(),
            era,
            version: Some(self.version),
            head: &self.head,
            frame: &self.frame,
        };
        store.question(asking).unwrap()
    }

    fn look(&self, store: &Store, now: Instant) -> Look {
        store.look(&self.question(store), now)
    }

    fn hit(&self, store: &Store, now: Instant) -> Hit {
        match self.look(store, now) {
            Look::Hit(hit) => hit,
            other => panic!("no hit: {other:?}"),
        }
    }

    fn lead(&self, store: &Store, now: Instant) -> Fill {
        match self.look(store, now) {
            Look::Lead(fill) => fill,
            other => panic!("it does not lead: {other:?}"),
        }
    }

    fn wait(&self, store: &Store, now: Instant) -> Waiting {
        match self.look(store, now) {
            Look::Wait(waiting) => waiting,
            other => panic!("it does not wait: {other:?}"),
        }
    }
}

fn store() -> Store {
    Store::new(&Memory::default()).unwrap()
}

/// A request for the list of tools, and the changes of its upstream.
fn tools() -> (Sent, Arc<Changes>) {
    let changes = Arc::default();
    let sent = Sent::new("tools/list", "{}", plan::Cache::default(), &changes);
    (sent, changes)
}

/// An answer that holds `text`, with these hints as they are written.
fn answer(text: &str, hints: &str) -> Arc<Response> {
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{text}"{hints}}}}}"#
    ))
}

/// One that anybody may be given for 60 s.
fn public(text: &str) -> Arc<Response> {
    answer(text, r#","ttlMs":60000,"cacheScope":"public""#)
}

fn message(json: &str) -> Arc<Response> {
    match Message::read(Bytes::copy_from_slice(json.as_bytes())) {
        Message::Response(response) => Arc::new(response),
        other => panic!("no response: {other:?}"),
    }
}

/// What an answer holds.
fn text(entry: &Entry) -> String {
    let result: serde_json::Value =
        serde_json::from_slice(entry.response().result().unwrap()).unwrap();
    result["text"].as_str().unwrap().to_owned()
}
