//! The end of streams that have none of their own, once the process is told to end.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weirgate::gateway::pipeline::Gateway;
use weirgate::net::listener::{self, Phase, Shared};
use weirgate::observe::Log;
use weirgate::policy::file::Addresses;
use weirgate::policy::plan::{LogFormat, Plan, StreamEnd};

use crate::harness::wire::BodyReader;
use crate::harness::{Client, Fault, Play, Reply, Request, Upstream, eventually};

const ID: &str = "9223372036854775807";

/// A gateway in this process, which is told to end without ending.
struct Draining {
    address: SocketAddr,
    drain: CancellationToken,
    log: Log,
    directory: TempDir,
    _phase: watch::Sender<Phase>,
    _runtime: Runtime,
}

impl Draining {
    fn before(upstream: &Upstream, streams: StreamEnd) -> Draining {
        let directory = TempDir::new().unwrap();
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let addresses = Addresses {
            listen: any,
            status: any,
        };
        let mut plan = Plan::for_single_upstream(&upstream.url(), addresses)
            .unwrap()
            .plan;
        plan.shutdown.streams = streams;
        plan.log.access = LogFormat::Json;
        plan.log.file = Some(directory.path().join("log"));
        let (log, drain) = (Log::start(&plan.log).unwrap(), CancellationToken::new());
        let gateway = Gateway::start(&plan, log.clone(), drain.clone()).unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime
            .block_on(TcpListener::bind(plan.listen.address))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let (phase, phases) = watch::channel(Phase::Serving);
        let shared = Shared {
            phases,
            tasks: TaskTracker::new(),
            descriptors: None,
        };
        let serving = listener::serve(listener, plan.listen.clone(), None, gateway, shared);
        runtime.spawn(serving);
        Draining {
            _phase: phase,
            address,
            drain,
            log,
            directory,
            _runtime: runtime,
        }
    }

    /// A stream that is open, with its first event.
    fn open(&self, request: &Request) -> (Client, BodyReader) {
        let mut client = Client::connect(self.address);
        client.send(request);
        let (_, mut body) = client.read_head();
        client.read_until(&mut body, b"data: 1\n\n");
        (client, body)
    }

    /// The `end` of the only record.
    fn end(&self) -> String {
        let mut end = None;
        eventually("a record", || {
            self.log.flush(std::time::Duration::from_secs(1));
            let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
            let record = text
                .lines()
                .next()
                .and_then(|line| serde_json::from_str::<Value>(line).ok());
            end = record.and_then(|record| record["end"].as_str().map(str::to_owned));
            end.is_some()
        });
        end.unwrap()
    }
}

fn listen() -> Request {
    Request::modern("subscriptions/listen", json!({"toolsListChanged": true})).id(ID)
}

/// What is left of a body, and how it ends.
fn rest(client: &mut Client, body: &mut BodyReader) -> (String, Result<(), Fault>) {
    let mut seen = Vec::new();
    let end = loop {
        match body.next(&mut client.wire) {
            Ok(Some(part)) => seen.extend(part),
            Ok(None) => break Ok(()),
            Err(fault) => break Err(fault),
        }
    };
    (String::from_utf8(seen).unwrap(), end)
}

fn is_broken(end: &Result<(), Fault>) -> bool {
    matches!(end, Err(Fault::Closed(_) | Fault::Reset))
}

/// A server whose streams send one event and are then silent.
fn begins() -> Upstream {
    Upstream::with(|_| Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]))
}

#[test]
fn a_subscription_ends_with_its_result() {
    let upstream = begins();
    let gateway = Draining::before(&upstream, StreamEnd::End);
    let (mut client, mut body) = gateway.open(&listen());
    gateway.drain.cancel();
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    let expected = format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{ID},\"result\":{{\"resultType\":\
         \"complete\",\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{ID}}}}}}}\n\n"
    );
    assert_eq!(last, expected);
    upstream.wait("the end of the stream", |log| log.ended(0).is_some());
    assert_eq!(gateway.end(), "shut_down");
}

#[test]
fn a_result_waits_for_the_end_of_an_event() {
    let (upstream, plays) = Upstream::controlled();
    let gateway = Draining::before(&upstream, StreamEnd::End);
    plays.send(Play::sse_head()).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    let (mut client, mut body) = gateway.open(&listen());
    plays.send(Play::chunk("data: ha")).unwrap();
    client.read_until(&mut body, b"data: ha");
    gateway.drain.cancel();
    plays.send(Play::chunk("lf\n\n")).unwrap();
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    assert!(last.starts_with("lf\n\nevent: message\ndata: {"), "{last}");
}

#[test]
fn a_subscription_that_breaks_tells_the_client_to_listen_again() {
    let upstream = begins();
    let gateway = Draining::before(&upstream, StreamEnd::Break);
    for request in [listen(), Request::get()] {
        let gateway = Draining::before(&upstream, StreamEnd::Break);
        let (mut client, mut body) = gateway.open(&request);
        gateway.drain.cancel();
        let (last, end) = rest(&mut client, &mut body);
        assert!(last.is_empty() && is_broken(&end), "{last} {end:?}");
        assert_eq!(gateway.end(), "shut_down");
    }
    upstream.wait("the end of the streams", |log| log.open() == 0);
    // One that comes when the end has begun fares the same.
    gateway.drain.cancel();
    let mut client = Client::connect(gateway.address);
    client.send(&listen());
    let (head, mut body) = client.read_head();
    assert_eq!(head.status(), 200);
    assert!(is_broken(&rest(&mut client, &mut body).1));
}

#[test]
fn the_stream_of_a_legacy_server_ends_between_events() {
    let (upstream, plays) = Upstream::controlled();
    let gateway = Draining::before(&upstream, StreamEnd::End);
    plays.send(Play::sse_head()).unwrap();
    plays.send(Play::chunk("data: 1\n\n")).unwrap();
    let (mut client, mut body) = gateway.open(&Request::get());
    plays.send(Play::chunk("data: ha")).unwrap();
    client.read_until(&mut body, b"data: ha");
    gateway.drain.cancel();
    plays.send(Play::chunk("lf\n\n")).unwrap();
    assert_eq!(rest(&mut client, &mut body), ("lf\n\n".to_owned(), Ok(())));
}

#[test]
fn other_streams_go_on() {
    for streams in [StreamEnd::End, StreamEnd::Break] {
        for request in [Request::call("long"), Request::legacy_call("long")] {
            let (upstream, plays) = Upstream::controlled();
            let gateway = Draining::before(&upstream, streams);
            plays.send(Play::sse_head()).unwrap();
            plays.send(Play::chunk("data: 1\n\n")).unwrap();
            let (mut client, mut body) = gateway.open(&request);
            gateway.drain.cancel();
            plays.send(Play::chunk("data: 2\n\n")).unwrap();
            plays.send(Play::end()).unwrap();
            let whole = ("data: 2\n\n".to_owned(), Ok(()));
            assert_eq!(rest(&mut client, &mut body), whole);
            assert_eq!(gateway.end(), "complete");
        }
    }
}

#[test]
fn a_fault_of_the_upstream_is_no_graceful_end() {
    for (what, ending) in [
        ("closed", vec![Play::Close]),
        ("reset", vec![Play::Reset]),
        ("garbage", vec![Play::Send(b"zz\r\n".to_vec())]),
    ] {
        let (upstream, plays) = Upstream::controlled();
        let gateway = Draining::before(&upstream, StreamEnd::End);
        plays.send(Play::sse_head()).unwrap();
        plays.send(Play::chunk("data: 1\n\n")).unwrap();
        let (mut client, mut body) = gateway.open(&listen());
        // In the middle of an event, so that the end has to wait for what the upstream does.
        plays.send(Play::chunk("data: ha")).unwrap();
        client.read_until(&mut body, b"data: ha");
        gateway.drain.cancel();
        for step in ending {
            plays.send(step).unwrap();
        }
        let (last, end) = rest(&mut client, &mut body);
        assert!(last.is_empty() && is_broken(&end), "{what}: {last} {end:?}");
        assert_eq!(gateway.end(), "upstream_failed", "{what}");
    }
}

#[test]
fn what_cannot_end_in_good_order_breaks() {
    for lines in [
        "Content-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Content-Length: 500",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{lines}\r\n\r\n");
        let first = match lines.contains("chunked") {
            true => Play::chunk("data: 1\n\n"),
            false => Play::Send(b"data: 1\n\n".to_vec()),
        };
        let steps = vec![Play::Send(head.into_bytes()), first];
        let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
        for request in [listen(), Request::get()] {
            let gateway = Draining::before(&upstream, StreamEnd::End);
            let (mut client, mut body) = gateway.open(&request);
            gateway.drain.cancel();
            let (last, end) = rest(&mut client, &mut body);
            assert!(
                last.is_empty() && is_broken(&end),
                "{lines}: {last} {end:?}"
            );
        }
    }
}

#[test]
fn a_busy_subscription_ends_too() {
    let steps = std::iter::repeat_n(Play::chunk("data: 1\n\n"), 100_000);
    let steps: Vec<_> = std::iter::once(Play::sse_head()).chain(steps).collect();
    let steps = Arc::new(steps);
    let upstream = Upstream::with(move |_| Reply::Steps(steps.to_vec()));
    let gateway = Draining::before(&upstream, StreamEnd::End);
    let (mut client, mut body) = gateway.open(&listen());
    gateway.drain.cancel();
    let (last, end) = rest(&mut client, &mut body);
    assert_eq!(end, Ok(()));
    assert!(last.ends_with("}}}\n\n"), "{}", last.len());
    assert_eq!(gateway.end(), "shut_down");
}
