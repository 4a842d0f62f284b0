//! Answers from memory: what the upstream received and how often, what the client got byte for byte,
//! and what `Cache-Status` and the log say of it.

mod audience;
mod bounds;
mod changes;
mod inspected;
mod keys;
mod leaving;
mod never;
mod own;
mod served;
mod stale;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::{
    Client, Policy, Received, Reply, Request, Response, Site, Upstream, raw_member,
};

/// The methods whose results may be kept, with parameters for each.
fn cacheable() -> [(&'static str, Value); 6] {
    [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "file:///a"})),
    ]
}

/// The raw id of a request.
fn id_of(request: &Received) -> String {
    raw_member(&request.body, "id").unwrap_or_else(|| "null".to_owned())
}

/// The method of a request.
fn method_of(request: &Received) -> String {
    let json = request.json();
    json["method"].as_str().unwrap_or_default().to_owned()
}

/// Whether the gateway asked this for itself.
fn is_own(request: &Received) -> bool {
    id_of(request).starts_with("\"weirgate-")
}

/// A result with these members beside `resultType`, which anybody may be given for a minute.
fn public(members: &str) -> String {
    hinted(members, r#""ttlMs":60000,"cacheScope":"public""#)
}

/// A result with these members and these hints, as they are written.
fn hinted(members: &str, hints: &str) -> String {
    let parts = [r#""resultType":"complete""#, members, hints];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{{{}}}", parts.join(","))
}

/// The message with this result, under the request's id.
fn message(request: &Received, result: &str) -> String {
    let id = id_of(request);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// It, as a document.
fn document(request: &Received, result: &str) -> Reply {
    Reply::json(200, message(request, result))
}

/// It, as the one event of a stream.
fn event(request: &Received, result: &str) -> Reply {
    Reply::sse(&format!("data: {}\n\n", message(request, result)))
}

/// What a server says of itself that tells of no changes.
const OFFERS_NOTHING: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}"#;

/// A gateway that remembers, before a server, with what each exchange came to.
struct Stage {
    site: Site,
}

/// An answer, with the record of its exchange.
struct Told {
    answer: Response,
    record: Value,
}

impl Stage {
    /// Before a server that answers so; what the gateway asks for itself it answers as one that tells
    /// of no changes.
    fn new(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Stage {
        Stage::with(script, |policy| policy)
    }

    /// The same with something changed in the policy.
    fn with(
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
        shape: impl FnOnce(Policy) -> Policy,
    ) -> Stage {
        let upstream = Upstream::with(move |request| match is_own(request) {
            true => document(request, OFFERS_NOTHING),
            false => script(request),
        });
        Stage::before(upstream, shape)
    }

    /// Before this server.
    fn before(upstream: Upstream, shape: impl FnOnce(Policy) -> Policy) -> Stage {
        let site = Site::before(upstream, |policy| shape(policy.remembering()));
        Stage { site }
    }

    /// How often clients' requests have reached the server.
    fn fetched(&self) -> usize {
        let log = self.site.upstream.log();
        log.requests
            .iter()
            .filter(|request| !is_own(request))
            .count()
    }

    fn tell(&self, request: &Request) -> Told {
        self.tell_over(&mut self.site.gateway.connect(), request)
    }

    fn tell_over(&self, client: &mut Client, request: &Request) -> Told {
        let answer = client.exchange(request);
        let record = self.site.records(1).remove(0);
        Told { answer, record }
    }

    /// It goes upstream once and is kept.
    fn stores(&self, what: &str, request: &Request) -> Response {
        self.misses(what, request, "stored")
    }

    /// It goes upstream once, and this becomes of the answer.
    fn misses(&self, what: &str, request: &Request, stored: &str) -> Response {
        let before = self.fetched();
        let told = self.tell(request);
        assert_eq!(self.fetched(), before + 1, "{what}: {:?}", told.answer);
        told.is(what, "miss", Some(stored));
        told.answer
    }

    /// It is answered from memory.
    fn hits(&self, what: &str, request: &Request) -> Response {
        let before = self.fetched();
        let told = self.tell(request);
        assert_eq!(self.fetched(), before, "{what}: {:?}", told.answer);
        told.is(what, "hit", None);
        let status = told.cache_status();
        assert!(
            status.starts_with("weirgate; hit; ttl="),
            "{what}: {status}"
        );
        told.answer
    }

    /// It goes past the memory, for this reason.
    fn bypasses(&self, what: &str, request: &Request, why: &str) -> Response {
        let before = self.fetched();
        let told = self.tell(request);
        assert_eq!(self.fetched(), before + 1, "{what}: {:?}", told.answer);
        told.is(what, "bypass", Some(why));
        let status = format!("weirgate; fwd=bypass; detail={why}");
        assert_eq!(told.cache_status(), status, "{what}");
        told.answer
    }
}

impl Told {
    /// The words of the log.
    fn is(&self, what: &str, cache: &str, stored: Option<&str>) {
        let record = &self.record;
        assert_eq!(record["cache"], cache, "{what}: {record}");
        assert_eq!(record["stored"].as_str(), stored, "{what}: {record}");
    }

    /// The one `Cache-Status`; empty where there is none.
    fn cache_status(&self) -> String {
        cache_status(&self.answer)
    }
}

/// The one `Cache-Status` of an answer; empty where there is none.
fn cache_status(answer: &Response) -> String {
    let values = answer.head.values("cache-status");
    assert!(values.len() <= 1, "{values:?}");
    values.into_iter().next().unwrap_or_default()
}

/// A counter that a script and its test share.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// Counts, and gives the number before.
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A server each of whose answers holds its own number, and may be given to anybody for a minute.
fn numbering() -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    let counter = Counter::default();
    move |request| {
        let members = format!(r#""number":{}"#, counter.next());
        document(request, &public(&members))
    }
}

/// Which of the numbered answers it is.
fn number_of(answer: &Response) -> u64 {
    answer.json()["result"]["number"]
        .as_u64()
        .unwrap_or_else(|| panic!("{answer:?}"))
}

/// A request for this list.
fn list(method: &str) -> Request {
    Request::modern(method, json!({}))
}

/// A request for this resource.
fn read(uri: &str) -> Request {
    Request::modern("resources/read", json!({"uri": uri}))
}
