//! The end of the process: told first, then in good order, then at once.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use h2::Reason;
use serde_json::json;

use crate::harness::{Client, Fault, Gateway, Play, Policy, Reply, Request, Upstream, eventually};
use crate::http2::Client2;

const LONG: &str = "1h";

/// A gateway before an upstream whose calls of `slow` are answered as the test says, one after the
/// other, and whose `stream` begins and never ends.
struct House {
    upstream: Upstream,
    gateway: Gateway,
    plays: Sender<Play>,
}

impl House {
    fn with(notice: &str, timeout: &str) -> House {
        let (plays, following) = std::sync::mpsc::channel();
        let following = Arc::new(Mutex::new(following));
        let upstream =
            Upstream::with(
                move |request| match request.json()["params"]["name"].as_str() {
                    Some("slow") => Reply::follow(following.clone()),
                    Some("stream") => {
                        Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")])
                    }
                    _ => Reply::usual(request),
                },
            );
        let policy =
            Policy::new(&upstream).set("/shutdown", json!({"notice": notice, "timeout": timeout}));
        House {
            gateway: Gateway::start(&policy),
            upstream,
            plays,
        }
    }

    /// Answers the slow call.
    fn answer(&self) {
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.plays.send(Play::Send(head.into_bytes())).unwrap();
    }

    fn probe(&self, path: &str) -> u16 {
        let mut client = Client::connect(self.gateway.status);
        client.exchange(&Request::new("GET", path)).status
    }

    /// Waits until nobody is let in any more.
    fn wait_until_closed(&self) {
        let took = eventually("a listener that is closed", || {
            is_closed(self.gateway.address)
        });
        println!("closed after {took:?}");
    }

    /// The process ends by itself and well, and its last record ended so.
    fn ends(mut self, end: &str) {
        assert_eq!(self.gateway.ended(), Some(0));
        let records = self.gateway.wait_for_records(1);
        assert_eq!(records[records.len() - 1]["end"], end, "{records:#?}");
    }
}

fn is_closed(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

fn open(client: &mut Client, bytes: &[u8]) -> crate::harness::wire::BodyReader {
    client.send_bytes(bytes);
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, b"data: 1\n\n");
    body
}

#[test]
fn it_is_told_first_and_work_is_still_taken() {
    let house = House::with(LONG, LONG);
    assert_eq!(house.probe("/readyz"), 200);
    let mut kept = house.gateway.connect();
    assert_eq!(kept.exchange(&Request::call("echo")).status, 200);
    house.gateway.signal("TERM");
    let took = eventually("a probe that fails", || house.probe("/readyz") == 503);
    println!("not ready after {took:?}");
    for _ in 0..5 {
        assert_eq!(
            (house.probe("/readyz"), house.probe("/healthz")),
            (503, 200)
        );
        for client in [&mut kept, &mut house.gateway.connect()] {
            let answer = client.exchange(&Request::call("echo"));
            assert_eq!(answer.status, 200);
            assert!(!answer.head.has("connection"), "{answer:?}");
        }
    }
    // A second signal does not wait for anything.
    let mut stream = house.gateway.connect();
    let mut body = open(&mut stream, &Request::call("stream").bytes());
    house.gateway.signal("TERM");
    assert!(matches!(body.next(&mut stream.wire), Err(Fault::Closed(_))));
    house.ends("shut_down");
}

#[test]
fn what_is_in_flight_is_finished_and_nothing_else_is_taken() {
    let mut house = House::with(LONG, LONG);
    let mut idle = house.gateway.connect();
    assert_eq!(idle.exchange(&Request::call("echo")).status, 200);
    let mut silent = house.gateway.connect();
    let mut slow = house.gateway.connect();
    slow.send(&Request::call("slow"));
    house
        .upstream
        .wait("the slow call", |log| log.runs("slow") == 1);
    let mut uploading = house.gateway.connect();
    let upload = Request::call("upload").bytes();
    uploading.send_bytes(&upload[..upload.len() - 10]);
    // Who is at the keyboard does not want to wait for probes.
    house.gateway.signal("INT");
    house.wait_until_closed();
    assert_eq!(idle.wire.ending(), Fault::Closed(0));
    assert_eq!(silent.wire.ending(), Fault::Closed(0));
    assert_eq!(
        (house.probe("/readyz"), house.probe("/healthz")),
        (503, 200)
    );
    assert!(house.gateway.runs());
    uploading.send_bytes(&upload[upload.len() - 10..]);
    let uploaded = uploading.read();
    // Only now, because the connection to the upstream on which this one is answered stays occupied.
    house.answer();
    let answered = slow.read();
    for (client, answer) in [(&mut uploading, uploaded), (&mut slow, answered)] {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.head.value("connection").as_deref(), Some("close"));
        assert_eq!(client.wire.ending(), Fault::Closed(0));
    }
    assert_eq!(house.upstream.runs("upload"), 1);
    house.ends("complete");
}

#[test]
fn over_http2_the_client_is_told_and_its_streams_are_finished() {
    let house = House::with(LONG, LONG);
    let mut idle = Client2::connect(&house.gateway);
    assert_eq!(idle.exchange(&Request::call("echo")).status, 200);
    let mut busy = Client2::connect(&house.gateway);
    let slow = busy.send(&Request::call("slow"));
    house
        .upstream
        .wait("the slow call", |log| log.runs("slow") == 1);
    house.gateway.signal("INT");
    house.wait_until_closed();
    idle.ending().expect("a farewell, and then the end");
    assert!(!busy.is_ended());
    house.answer();
    assert_eq!(slow.read().status, 200);
    busy.ending().expect("a farewell, and then the end");
    house.ends("complete");
}

#[test]
fn what_does_not_finish_in_time_is_broken_off_and_looks_like_it() {
    let house = House::with("1ms", "300ms");
    let mut client = house.gateway.connect();
    let mut body = open(&mut client, &Request::call("stream").bytes());
    house.gateway.signal("TERM");
    // Its last chunk would be a clean end.
    assert!(matches!(body.next(&mut client.wire), Err(Fault::Closed(_))));
    house.gateway.wait_for_line("breaking off");
    house.ends("shut_down");
}

#[test]
fn an_old_client_is_not_left_to_take_the_break_for_an_end() {
    let house = House::with("1ms", "300ms");
    let mut client = house.gateway.connect();
    let text = String::from_utf8(Request::call("stream").bytes()).unwrap();
    let mut body = open(
        &mut client,
        text.replacen("HTTP/1.1", "HTTP/1.0", 1).as_bytes(),
    );
    house.gateway.signal("TERM");
    assert_eq!(body.next(&mut client.wire), Err(Fault::Reset));
    house.ends("shut_down");
}

#[test]
fn streams_of_http2_are_reset_when_they_are_broken_off() {
    let house = House::with("1ms", "300ms");
    let mut client = Client2::connect(&house.gateway);
    let mut streams: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = client.send(&Request::call("stream"));
            stream.head().unwrap();
            stream
        })
        .collect();
    house.gateway.signal("TERM");
    for stream in &mut streams {
        let (reason, came) = stream.read_to_reset();
        assert_eq!(
            (reason, came.as_slice()),
            (Reason::CANCEL, &b"data: 1\n\n"[..])
        );
    }
    house.ends("shut_down");
}
