//! What is not fresh any more is rather old than nothing, within bounds and only where the server
//! fails; and it is fetched again beforehand only where that was asked for.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::{hears, tells};
use super::{Counter, Stage, Told, cache_status, document, hinted, id_of, list, number_of};
use crate::harness::wire::Wire;
use crate::harness::{MODERN_ONLY, Play, Policy, Received, Reply, Request, eventually};

/// A time to live that is over when a test has slept for [`PAUSE`].
const SHORT: u64 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// What a server does instead of giving its answer, by the number of its status, or one of these.
const GOOD: u16 = 0;
const CLOSES: u16 = 1;
const BREAKS_OFF: u16 = 2;
const SAYS_NOTHING: u16 = 3;
const TELLS_AN_ERROR: u16 = 4;

/// A server whose answers are fresh for this time, in milliseconds, until it is told to do something
/// else.
struct Failing {
    stage: Stage,
    does: Arc<AtomicU16>,
}

impl Failing {
    fn new(ttl_ms: u64, cache: Value) -> Failing {
        Failing::with(ttl_ms, |policy| policy.set("/routes/0/cache", cache))
    }

    fn with(ttl_ms: u64, shape: impl FnOnce(Policy) -> Policy) -> Failing {
        let does = Arc::new(AtomicU16::new(GOOD));
        let (now, counter) = (Arc::clone(&does), Counter::default());
        let script = move |request: &Received| {
            if let Some(told) = tells(request) {
                return told;
            }
            let hints = format!(r#""ttlMs":{ttl_ms},"cacheScope":"public""#);
            let result = hinted(&format!(r#""number":{}"#, counter.next()), &hints);
            let error = |code| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no"}}}}"#,
                    id_of(request)
                )
            };
            match now.load(Ordering::SeqCst) {
                GOOD => document(request, &result),
                CLOSES => Reply::Steps(vec![Play::Close]),
                BREAKS_OFF => Reply::raw_then_close(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"jsonrpc\"",
                ),
                SAYS_NOTHING => Reply::silence(),
                TELLS_AN_ERROR => Reply::json(200, error(-32603)),
                status => Reply::json(status, error(-32603)),
            }
        };
        let stage = Stage::with(script, |policy| {
            shape(policy.upstream("response_header_timeout", "300ms"))
        });
        Failing { stage, does }
    }

    fn turns_to(&self, does: u16) {
        self.does.store(does, Ordering::SeqCst);
    }
}

fn request() -> Request {
    list("prompts/list")
}

/// It went upstream, and was given the answer with this number, which is not fresh any more.
fn is_stale(what: &str, told: &Told, number: u64, upstream: Option<u16>) {
    assert_eq!(told.answer.status, 200, "{what}: {:?}", told.answer);
    assert_eq!(number_of(&told.answer), number, "{what}");
    assert_eq!(told.answer.json()["result"]["ttlMs"], 0, "{what}");
    told.is(what, "stale", None);
    let status = match upstream {
        Some(status) => format!("weirgate; fwd=stale; fwd-status={status}; ttl="),
        None => "weirgate; fwd=stale; ttl=".to_owned(),
    };
    let ttl = told.cache_status();
    let ttl: i64 = ttl
        .strip_prefix(&status)
        .unwrap_or_else(|| panic!("{what}: {ttl}"))
        .parse()
        .unwrap();
    assert!((-10..=0).contains(&ttl), "{what}: {ttl}");
}

#[test]
fn a_server_that_fails_is_made_up_for() {
    for (what, does, upstream) in [
        ("502", 502, Some(502)),
        ("503", 503, Some(503)),
        ("500", 500, Some(500)),
        ("504", 504, Some(504)),
        ("a closed connection", CLOSES, None),
        ("half an answer", BREAKS_OFF, None),
        ("silence", SAYS_NOTHING, None),
    ] {
        let failing = Failing::new(SHORT, json!({"stale_if_error": "1m"}));
        failing.stage.stores(what, &request());
        sleep(PAUSE);
        failing.turns_to(does);
        for id in ["2", "\"three\""] {
            let before = failing.stage.fetched();
            let told = failing.stage.tell(&request().id(id));
            is_stale(what, &told, 0, upstream);
            assert_eq!(told.answer.raw_id().as_deref(), Some(id), "{what}");
            assert_eq!(
                failing.stage.fetched(),
                before + 1,
                "{what}: it is tried each time"
            );
        }
        // And once it is there again, its answer counts.
        failing.turns_to(GOOD);
        let told = failing.stage.tell(&request());
        told.is(what, "miss", Some("stored"));
        assert_eq!(
            told.cache_status(),
            "weirgate; fwd=stale; stored; ttl=0",
            "{what}"
        );
        assert!(number_of(&told.answer) > 0, "{what}");
    }
}

/// A server that answers one request and is gone.
fn answers_once(number: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut wire = Wire::new(stream, Duration::from_secs(10));
        let head = wire.head().expect("a head");
        wire.body(head.request_framing().expect("one framing"))
            .expect("a body");
        drop(listener);
        let result = format!(
            r#"{{"supportedVersions":["2026-07-28"],"number":{number},"ttlMs":{SHORT},"cacheScope":"public"}}"#
        );
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        wire.write(answer.as_bytes()).expect("a connection");
    });
    address
}

#[test]
fn a_server_that_is_gone_is_made_up_for() {
    // Of all that is asked, the probe says most about a server.
    for request in [request(), list("server/discover")] {
        let address = answers_once(5);
        let policy = Policy::to_url(&format!("http://{address}/mcp"))
            .remembering()
            .versions(MODERN_ONLY)
            .set("/routes/0/cache", json!({"stale_if_error": "1m"}));
        let gateway = crate::harness::Gateway::start(&policy);
        assert_eq!(number_of(&gateway.ask(&request)), 5);
        sleep(PAUSE);
        for id in ["2", "3"] {
            let answer = gateway.ask(&request.clone().id(id));
            assert_eq!((answer.status, number_of(&answer)), (200, 5));
            assert_eq!(answer.raw_id().as_deref(), Some(id));
            assert!(cache_status(&answer).starts_with("weirgate; fwd=stale; ttl="));
        }
        let other = gateway.ask(&list("tools/list"));
        assert_eq!(
            (other.status, other.code()),
            (502, Some(502)),
            "what is not there is not made up"
        );
    }
}

#[test]
fn a_refusal_is_an_answer() {
    for (what, does) in [
        ("400", 400),
        ("401", 401),
        ("403", 403),
        ("404", 404),
        ("405", 405),
        ("410", 410),
        ("429", 429),
        ("an error", TELLS_AN_ERROR),
    ] {
        let failing = Failing::new(SHORT, json!({"stale_if_error": "1m"}));
        failing.stage.stores(what, &request());
        sleep(PAUSE);
        failing.turns_to(does);
        let told = failing.stage.tell(&request());
        let status = if does == TELLS_AN_ERROR { 200 } else { does };
        assert_eq!(
            (told.answer.status, told.answer.code()),
            (status, Some(-32603)),
            "{what}"
        );
        told.is(what, "miss", Some("error"));
        assert_eq!(
            told.cache_status(),
            "weirgate; fwd=stale; detail=error",
            "{what}"
        );
        // It was the last word about what was kept.
        failing.turns_to(503);
        let answer = failing.stage.misses(what, &request(), "error");
        assert_eq!(answer.status, 503, "{what}");
    }
}

#[test]
fn nothing_is_served_that_is_too_old() {
    for (what, cache) in [
        ("never", json!({})),
        ("off", json!({"stale_if_error": "off"})),
        ("not so long", json!({"stale_if_error": "50ms"})),
    ] {
        let failing = Failing::new(SHORT, cache);
        failing.stage.stores(what, &request());
        sleep(Duration::from_millis(250));
        failing.turns_to(503);
        let answer = failing.stage.misses(what, &request(), "error");
        assert_eq!(answer.status, 503, "{what}");
        assert!(
            cache_status(&answer).ends_with("detail=error"),
            "{what}: {answer:?}"
        );
        failing.turns_to(CLOSES);
        let told = failing.stage.tell(&request());
        assert_eq!(told.answer.status, 502, "{what}");
        told.is(what, "miss", Some("error"));
    }
}

#[test]
fn what_has_changed_is_not_served_stale() {
    let failing = Failing::new(SHORT, json!({"stale_if_error": "1m"}));
    failing.stage.stores("first", &request());
    sleep(PAUSE);
    failing.turns_to(503);
    is_stale("not changed", &failing.stage.tell(&request()), 0, Some(503));
    // The server tells a client of it, in passing.
    let _heard = hears(&failing.stage, "notifications/prompts/list_changed");
    let answer = failing.stage.misses("changed", &request(), "error");
    assert_eq!(answer.status, 503);
}

#[test]
fn those_that_wait_are_given_it_too() {
    let failing = Failing::new(SHORT, json!({"stale_if_error": "1m"}));
    failing.stage.stores("first", &request());
    sleep(PAUSE);
    failing.turns_to(SAYS_NOTHING);
    let before = failing.stage.fetched();
    let mut clients: Vec<_> = (0..10)
        .map(|_| failing.stage.site.gateway.connect())
        .collect();
    clients
        .iter_mut()
        .for_each(|client| client.send(&request()));
    for client in &mut clients {
        let answer = client.read();
        assert_eq!((answer.status, number_of(&answer)), (200, 0));
        assert!(
            cache_status(&answer).starts_with("weirgate; fwd=stale; ttl="),
            "{answer:?}"
        );
    }
    assert_eq!(failing.stage.fetched(), before + 1);
    let records = failing.stage.site.records(10);
    assert!(
        records.iter().all(|record| record["cache"] == "stale"),
        "{records:?}"
    );
}

#[test]
fn what_is_soon_stale_is_fetched_again_beside() {
    let failing = Failing::new(6_000, json!({"refresh_before": "5s"}));
    let stage = &failing.stage;
    stage.stores("first", &request());
    // It is due after half of its time at the earliest.
    stage.hits("at once", &request());
    assert_eq!(stage.fetched(), 1);
    sleep(Duration::from_millis(3_100));
    let mut clients: Vec<_> = (0..5).map(|_| stage.site.gateway.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send(&request()));
    for client in &mut clients {
        let answer = client.read();
        assert!(
            cache_status(&answer).starts_with("weirgate; hit; ttl="),
            "{answer:?}"
        );
    }
    stage.site.records(5);
    eventually("a fetch beside", || stage.fetched() == 2);
    eventually("its answer", || {
        let told = stage.tell(&request());
        told.is("afterwards", "hit", None);
        number_of(&told.answer) == 1
    });
    assert_eq!(stage.fetched(), 2, "once");
}

#[test]
fn a_fetch_beside_that_fails_takes_nothing_away() {
    for does in [503, CLOSES] {
        let failing = Failing::new(
            6_000,
            json!({"refresh_before": "5s", "stale_if_error": "1m"}),
        );
        let stage = &failing.stage;
        stage.stores("first", &request());
        failing.turns_to(does);
        sleep(Duration::from_millis(3_100));
        stage.tell(&request()).is("due", "hit", None);
        eventually("a fetch beside", || stage.fetched() == 2);
        for _ in 0..3 {
            assert_eq!(number_of(&stage.hits("still there", &request())), 0);
        }
        assert_eq!(stage.fetched(), 2, "it is not tried again and again");
    }
}
