//! Of those that ask the same at once one goes upstream, and the others are given its answer.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Stage, cache_status, hinted, id_of, list, message, number_of, public};
use crate::harness::wire::PATIENCE;
use crate::harness::{Client, Play, Policy, Received, Reply, Request, Upstream};

/// A server whose answers the test writes; what the gateway asks for itself is answered aside.
struct Staged {
    stage: Stage,
    begun: Receiver<(Received, Sender<Play>)>,
}

impl Staged {
    fn new(shape: impl FnOnce(Policy) -> Policy) -> Staged {
        let (begin, begun) = std::sync::mpsc::channel();
        let upstream = Upstream::with(move |request| {
            if super::is_own(request) {
                return super::document(request, super::OFFERS_NOTHING);
            }
            let (plays, follow) = std::sync::mpsc::channel();
            // A test that has ended wants no further answer.
            let _ = begin.send((request.clone(), plays));
            Reply::follow(std::sync::Arc::new(std::sync::Mutex::new(follow)))
        });
        Staged {
            stage: Stage::before(upstream, shape),
            begun,
        }
    }

    /// A client that has asked this.
    fn asks(&self, request: &Request) -> Client {
        let mut client = self.stage.site.gateway.connect();
        client.send(request);
        client
    }

    /// The next request that reaches the server.
    fn begun(&self) -> (Received, Sender<Play>) {
        self.begun
            .recv_timeout(PATIENCE)
            .expect("a request upstream")
    }

    /// The records of so many exchanges, by what memory had to do with them.
    fn words(&self, count: usize) -> Vec<(String, Option<String>)> {
        let word = |record: &Value, key: &str| record[key].as_str().map(str::to_owned);
        let mut words: Vec<_> = self
            .stage
            .site
            .records(count)
            .iter()
            .map(|record| {
                (
                    word(record, "cache").unwrap_or_default(),
                    word(record, "stored"),
                )
            })
            .collect();
        words.sort();
        words
    }
}

/// Answers this request with a document.
fn answer(begun: &(Received, Sender<Play>), result: &str) {
    respond(begun, 200, &message(&begun.0, result));
}

fn respond((_, plays): &(Received, Sender<Play>), status: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    plays
        .send(Play::Last([head.as_bytes(), body.as_bytes()].concat()))
        .expect("an upstream at work");
}

fn numbered(number: u64) -> String {
    public(&format!(r#""number":{number}"#))
}

fn miss(stored: &str) -> (String, Option<String>) {
    ("miss".to_owned(), Some(stored.to_owned()))
}

fn request() -> Request {
    list("prompts/list")
}

#[test]
fn a_thousand_at_once_cause_one_request() {
    const COUNT: usize = 1000;
    let staged = Staged::new(|policy| policy);
    let mut clients: Vec<Client> = (0..COUNT)
        .map(|_| staged.stage.site.gateway.connect())
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&request().id(&number.to_string()));
    }
    let first = staged.begun();
    answer(&first, &numbered(7));
    let mut waited = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.read();
        assert_eq!((answer.status, number_of(&answer)), (200, 7), "{number}");
        assert_eq!(answer.raw_id(), Some(number.to_string()));
        let status = cache_status(&answer);
        let is = |beginning: &str| status.starts_with(beginning);
        waited += usize::from(is("weirgate; fwd=uri-miss; collapsed; ttl="));
        let leads = status == "weirgate; fwd=uri-miss; stored; ttl=60";
        assert_eq!(leads, number.to_string() == id_of(&first.0), "{status}");
        assert!(
            leads || is("weirgate; fwd=uri-miss; collapsed") || is("weirgate; hit"),
            "{status}"
        );
    }
    println!("{waited} of {COUNT} waited");
    assert_eq!(staged.stage.fetched(), 1);
    let words = staged.words(COUNT);
    let count = |word: &str| words.iter().filter(|(cache, _)| cache == word).count();
    assert_eq!((count("miss"), count("wait")), (1, waited));
    assert!(waited > 0 && count("hit") + waited + 1 == COUNT);
}

#[test]
fn others_do_not_wait() {
    let staged = Staged::new(|policy| policy);
    let requests = [
        request(),
        Request::modern("prompts/list", json!({"cursor": "a"})),
        list("tools/list"),
        request().header("Authorization", "Bearer a"),
    ];
    let clients: Vec<Client> = requests
        .iter()
        .map(|request| staged.asks(request))
        .collect();
    let begun: Vec<_> = requests.iter().map(|_| staged.begun()).collect();
    for begun in &begun {
        answer(begun, &numbered(1));
    }
    for mut client in clients {
        assert_eq!(number_of(&client.read()), 1);
    }
    assert_eq!(staged.words(4), vec![miss("stored"); 4]);
}

#[test]
fn where_the_first_leaves_exactly_one_takes_over() {
    let staged = Staged::new(|policy| policy);
    let upstream = &staged.stage.site.upstream;
    let first = staged.asks(&request().id("0"));
    let begun = staged.begun();
    let mut others: Vec<(String, Client)> = (1..=3)
        .map(|id| (id.to_string(), staged.asks(&request().id(&id.to_string()))))
        .collect();
    drop(first);
    upstream.wait("the end of the first", |log| {
        log.ended(begun.0.connection).is_some()
    });
    // The next one leaves as well.
    let begun = staged.begun();
    assert_eq!(staged.stage.fetched(), 2);
    let second = id_of(&begun.0);
    others.retain(|(id, _)| *id != second);
    assert_eq!(others.len(), 2);
    upstream.wait("the end of the second", |log| {
        log.ended(begun.0.connection).is_some()
    });
    let begun = staged.begun();
    answer(&begun, &numbered(3));
    for (id, client) in &mut others {
        let answer = client.read();
        assert_eq!(
            (number_of(&answer), answer.raw_id().as_ref()),
            (3, Some(&*id))
        );
    }
    assert_eq!(staged.stage.fetched(), 3);
    let words = staged.words(4);
    let gone = staged
        .stage
        .site
        .gateway
        .records()
        .iter()
        .filter(|record| record["end"] == "client_gone")
        .count();
    assert_eq!(gone, 2);
    let is_one = |word: &str| words.iter().filter(|(cache, _)| cache == word).count() == 1;
    assert!(
        words.contains(&miss("stored")) && (is_one("wait") || is_one("hit")),
        "{words:?}"
    );
}

#[test]
fn what_is_not_to_be_shared_each_asks_for_itself_once() {
    let hints = |ttl, scope| {
        hinted(
            r#""number":1"#,
            &format!(r#""ttlMs":{ttl},"cacheScope":"{scope}""#),
        )
    };
    for (result, why) in [
        (hints(60_000, "private"), "private"),
        (hints(0, "public"), "ttl_zero"),
        (hinted(r#""number":1"#, ""), "hints"),
    ] {
        let staged = Staged::new(|policy| policy);
        let mut clients = vec![staged.asks(&request())];
        let first = staged.begun();
        clients.extend((0..3).map(|_| staged.asks(&request())));
        answer(&first, &result);
        // None of them waits for another one.
        let begun: Vec<_> = (0..3).map(|_| staged.begun()).collect();
        for begun in &begun {
            answer(begun, &result);
        }
        for mut client in clients {
            let status = cache_status(&client.read());
            assert_eq!(status, format!("weirgate; fwd=uri-miss; detail={why}"));
        }
        assert_eq!(staged.stage.fetched(), 4);
        assert_eq!(staged.words(4), vec![miss(why); 4]);
        // And for a while nobody waits any more.
        let clients = [staged.asks(&request()), staged.asks(&request())];
        let begun = [staged.begun(), staged.begun()];
        begun.iter().for_each(|begun| answer(begun, &result));
        for mut client in clients {
            client.read();
        }
    }
}

#[test]
fn an_error_is_for_its_caller() {
    let staged = Staged::new(|policy| policy);
    let mut leader = staged.asks(&request());
    let first = staged.begun();
    let mut waiter = staged.asks(&request().id("2"));
    let error = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{id}"}}}}"#)
    };
    respond(&first, 200, &error("1"));
    let second = staged.begun();
    respond(&second, 200, &error("2"));
    assert_eq!(leader.read().json()["error"]["message"], "1");
    assert_eq!(waiter.read().json()["error"]["message"], "2");
    assert_eq!(staged.words(2), vec![miss("error"); 2]);
}

#[test]
fn where_the_first_fails_the_next_one_tries() {
    let staged = Staged::new(|policy| policy);
    let mut leader = staged.asks(&request());
    let first = staged.begun();
    let mut waiters = [staged.asks(&request()), staged.asks(&request())];
    respond(&first, 503, "busy");
    assert_eq!(leader.read().status, 503);
    let second = staged.begun();
    answer(&second, &numbered(2));
    for waiter in &mut waiters {
        assert_eq!(number_of(&waiter.read()), 2);
    }
    assert_eq!(staged.stage.fetched(), 2);
}

#[test]
fn no_more_wait_than_may() {
    let staged = Staged::new(|policy| policy.set("/routes/0/cache", json!({"waiters_max": 1})));
    let mut leader = staged.asks(&request().id("0"));
    let first = staged.begun();
    let mut others: Vec<(String, Client)> = (1..=2)
        .map(|id| (id.to_string(), staged.asks(&request().id(&id.to_string()))))
        .collect();
    // One waits, and the other one asks for itself; its answer is for all.
    let second = staged.begun();
    answer(&second, &numbered(2));
    for (id, client) in &mut others {
        let answer = client.read();
        assert_eq!(
            (number_of(&answer), answer.raw_id().as_ref()),
            (2, Some(&*id))
        );
    }
    answer(&first, &numbered(1));
    assert_eq!(number_of(&leader.read()), 1);
    assert_eq!(staged.stage.fetched(), 2);
    let words = staged.words(3);
    let stored = words
        .iter()
        .filter(|words| **words == miss("stored"))
        .count();
    assert_eq!(stored, 2, "{words:?}");
}

#[test]
fn nobody_waits_longer_than_may_be() {
    let staged =
        Staged::new(|policy| policy.set("/routes/0/cache", json!({"wait_timeout": "100ms"})));
    let mut leader = staged.asks(&request().id("0"));
    let first = staged.begun();
    let mut waiter = staged.asks(&request().id("1"));
    let second = staged.begun();
    assert_eq!(id_of(&second.0), "1");
    answer(
        &second,
        &hinted(r#""number":2"#, r#""ttlMs":1,"cacheScope":"private""#),
    );
    let told = waiter.read();
    assert_eq!(number_of(&told), 2);
    // Why it went beside another one is not what became of its answer.
    assert_eq!(
        cache_status(&told),
        "weirgate; fwd=uri-miss; detail=private"
    );
    answer(&first, &numbered(1));
    assert_eq!(number_of(&leader.read()), 1);
    assert_eq!(staged.words(2), [miss("private"), miss("stored")]);
    assert_eq!(number_of(&staged.stage.hits("kept", &request())), 1);
}

/// The first one's client takes nothing of a stream; that holds up the others no longer than the
/// policy says.
#[test]
fn a_slow_reader_does_not_hold_up_the_others() {
    let staged =
        Staged::new(|policy| policy.set("/routes/0/cache", json!({"wait_timeout": "300ms"})));
    let mut slow = staged.asks(&request().id("0"));
    let first = staged.begun();
    let note = format!(
        r#"data: {{"jsonrpc":"2.0","method":"notifications/message","params":"{}"}}"#,
        "x".repeat(100_000)
    );
    let notes = 200;
    first.1.send(Play::sse_head()).unwrap();
    for _ in 0..notes {
        first.1.send(Play::chunk(format!("{note}\n\n"))).unwrap();
    }
    let response = format!("data: {}\n\n", message(&first.0, &numbered(1)));
    first.1.send(Play::chunk(&response)).unwrap();
    first.1.send(Play::end()).unwrap();
    let (head, mut body) = slow.read_head();
    assert_eq!(head.values("cache-status"), ["weirgate; fwd=uri-miss"]);
    let mut waiter = staged.asks(&request().id("1"));
    let second = staged.begun();
    assert_eq!(id_of(&second.0), "1");
    answer(&second, &numbered(2));
    assert_eq!(number_of(&waiter.read()), 2);
    assert_eq!(staged.words(1), [miss("stored")]);
    assert_eq!(number_of(&staged.stage.hits("kept", &request())), 2);
    // The slow one gets all of its own.
    let mut length = 0;
    let mut last = Vec::new();
    while let Some(part) = body.next(&mut slow.wire).expect("a whole stream") {
        length += part.len();
        last.extend(part);
        last.drain(..last.len().saturating_sub(response.len()));
    }
    assert_eq!(length, notes * (note.len() + 2) + response.len());
    assert_eq!(String::from_utf8_lossy(&last), response);
    assert_eq!(staged.stage.fetched(), 2);
    // However late its client takes it, it is older than what is kept.
    assert_eq!(staged.words(1), [miss("voided")]);
    assert_eq!(number_of(&staged.stage.hits("kept", &request())), 2);
}

#[test]
fn a_deadline_holds_for_those_that_wait() {
    let staged = Staged::new(|policy| {
        let policy = policy.set("/routes/0/cache", json!({"wait_timeout": "1h"}));
        policy.set("/routes/0/deadline", json!({"call": "300ms"}))
    });
    let mut leader = staged.asks(&request());
    let _first = staged.begun();
    let mut waiter = staged.asks(&request());
    for client in [&mut leader, &mut waiter] {
        let answer = client.read();
        assert_eq!((answer.status, answer.code()), (504, Some(504)));
    }
    std::thread::sleep(Duration::from_millis(1));
    assert!(staged.stage.fetched() <= 2);
}
