//! Clients that leave at each stage of an exchange: the upstream's work ends within moments, over
//! HTTP/1.1 with its connection, over HTTP/2 with its stream alone.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{before2, plain, record_of};
use crate::harness::upstream2::{CANCEL, Call, Manners, Reply2, Step, Upstream2, frame};
use crate::harness::{
    Client, Gateway, Play, Policy, Received, Reply, Request, Upstream, eventually,
};

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// It ends its side and goes on listening.
    Fin,
    /// It closes the socket.
    Close,
    /// It resets the connection, as a process does that crashes.
    Reset,
}

const WAYS: [Leaving; 3] = [Leaving::Fin, Leaving::Close, Leaving::Reset];

/// Leaves; a socket that was only ended on our side is given back, so that it stays open.
fn leave(client: Client, way: Leaving) -> Option<Client> {
    match way {
        Leaving::Fin => {
            client.wire.finish();
            Some(client)
        }
        Leaving::Close => None,
        Leaving::Reset => {
            client.wire.reset();
            None
        }
    }
}

/// A call with more in it than the upstream takes before it reads, which the gateway takes whole
/// before it sends any of it.
fn large(tool: &str) -> Request {
    let large = format!("\"arguments\":{{\"a\":\"{}\"}}", "x".repeat(4_000_000));
    Request::legacy_call(tool).edit("\"arguments\":{}", &large)
}

/// Where an exchange stands when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The upstream takes the request and says nothing.
    Silence,
    /// Half of the head of the answer has come.
    HalfHead,
    /// The head has come, and nothing of the body.
    Head,
    /// A part of the body has come.
    Body,
}

const STAGES: [Stage; 4] = [Stage::Silence, Stage::HalfHead, Stage::Head, Stage::Body];

/// Sends a call, and waits until the client has all that comes at this stage.
fn ask(gateway: &Gateway, stage: Stage, tool: &str) -> Client {
    let mut client = gateway.connect();
    client.send(&Request::call(tool));
    if matches!(stage, Stage::Head | Stage::Body) {
        let (_, mut body) = client.read_head();
        if stage == Stage::Body {
            client.read_until(&mut body, b"data: 1\n\n");
        }
    }
    client
}

#[test]
fn the_connection_ends_with_its_client() {
    for stage in STAGES {
        let upstream = Upstream::with(move |_: &Received| {
            let half = Play::Send(b"HTTP/1.1 200 OK\r\nContent-Ty".to_vec());
            Reply::Steps(match stage {
                Stage::Silence => Vec::new(),
                Stage::HalfHead => vec![half],
                Stage::Head => vec![Play::sse_head()],
                Stage::Body => vec![Play::sse_head(), Play::chunk("data: 1\n\n")],
            })
        });
        let gateway = Gateway::before(&upstream);
        for (number, way) in WAYS.into_iter().enumerate() {
            let client = ask(&gateway, stage, "left");
            upstream.wait_for_requests(number + 1);
            let kept = leave(client, way);
            let what = format!("{stage:?}, {way:?}");
            let took = upstream.wait(&what, |log| log.ended(number).is_some());
            println!("{what}: gone after {took:?}");
            let record = &gateway.wait_for_records(number + 1)[number];
            assert_eq!(record["end"], "client_gone", "{what}: {record}");
            drop(kept);
        }
        assert_eq!(upstream.runs("left"), WAYS.len(), "{stage:?}");
    }
}

/// What a server of HTTP/2 has said at this stage.
fn said(stage: Stage, call: &Call) -> Vec<Step> {
    // A header block without its end, which would stand in a further frame.
    let half = frame(1, 0, call.stream, &[0x88]);
    match stage {
        Stage::Silence => Vec::new(),
        Stage::HalfHead => vec![Step::Raw(half)],
        Stage::Head => vec![Step::sse()],
        Stage::Body => vec![Step::sse(), Step::Data(b"data: 1\n\n".to_vec())],
    }
}

/// One client leaves in one way at one stage.
fn leaves_its_stream(stage: Stage, way: Leaving) {
    let upstream = Upstream2::with(move |call| match call.tool().as_str() {
        "left" => Reply2::Steps(said(stage, call)),
        _ => Reply2::Steps(vec![
            Step::sse(),
            Step::Pause(Duration::from_millis(20)),
            Step::Last(b"data: 1\n\n".to_vec()),
        ]),
    });
    let gateway = before2(&upstream, plain);
    let what = format!("{stage:?}, {way:?}");
    let client = ask(&gateway, stage, "left");
    upstream.wait(&what, |log| !log.calls_of("left").is_empty());
    let kept = leave(client, way);
    let took = upstream.wait(&what, |log| log.calls[0].reset == Some(CANCEL));
    println!("{what}: gone after {took:?}");
    let record = record_of(&gateway, "left");
    assert_eq!(record["end"], "client_gone", "{what}: {record}");
    if stage != Stage::HalfHead {
        // Within a header block, nothing else may come from the server.
        let neighbour = gateway.ask(&Request::call("neighbour"));
        assert_eq!(neighbour.text(), "data: 1\n\n", "{what}");
    }
    assert_eq!(upstream.log().connections, [None], "{what}");
    drop(kept);
}

#[test]
fn the_stream_ends_with_its_client_and_its_neighbours_go_on() {
    for stage in STAGES {
        WAYS.into_iter()
            .for_each(|way| leaves_its_stream(stage, way));
    }
}

#[test]
fn an_upload_that_is_not_read_ends_with_its_client() {
    for way in WAYS {
        let manners = Manners {
            reads: false,
            ..Manners::default()
        };
        let upstream = Upstream2::mannered(manners, |_| Reply2::silence());
        let gateway = before2(&upstream, plain);
        let mut client = gateway.connect();
        client.send(&large("left"));
        upstream.wait("the window to fill", |log| {
            let mut calls = log.calls.iter();
            calls.any(|call| call.body.len() > 60_000)
        });
        let kept = leave(client, way);
        upstream.wait(&format!("{way:?}"), |log| {
            log.calls[0].reset == Some(CANCEL)
        });
        assert!(!upstream.log().calls[0].complete);
        assert_eq!(upstream.log().open(), 1, "the connection is left alone");
        drop(kept);
    }
}

#[test]
fn an_upload_behind_an_early_answer_ends_with_its_client() {
    let manners = Manners {
        reads: false,
        early: true,
        ..Manners::default()
    };
    let upstream = Upstream2::mannered(manners, |_| {
        Reply2::Steps(vec![Step::sse(), Step::Data(b"data: 1\n\n".to_vec())])
    });
    let gateway = before2(&upstream, plain);
    let mut client = gateway.connect();
    client.send(&large("left"));
    let (_, mut body) = client.read_head();
    client.read_until(&mut body, b"data: 1\n\n");
    drop(client);
    upstream.wait("the reset", |log| log.calls[0].reset == Some(CANCEL));
    assert_eq!(upstream.log().open(), 1, "the connection is left alone");
}

#[test]
fn a_greeting_that_does_not_come_is_waited_for_no_longer_than_the_client() {
    // To this server, the greeting of HTTP/2 is a request that it does not answer.
    let upstream = Upstream::with(|_| Reply::silence());
    let policy = Policy::new(&upstream).upstream("http", "2");
    let gateway = Gateway::start(&policy);
    for (number, way) in WAYS.into_iter().enumerate() {
        let mut client = gateway.connect();
        client.send(&Request::call("left"));
        upstream.wait("a connection", |log| log.requests.len() > number);
        let kept = leave(client, way);
        upstream.wait(&format!("{way:?}"), |log| log.ended(number).is_some());
        drop(kept);
    }
    assert_eq!(upstream.runs("left"), 0);
}

/// How many sockets of this machine are connecting to an address.
fn connecting_to(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else {
        return 0;
    };
    let ip = u32::from_le_bytes(address.ip().octets());
    let peer = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&peer.as_str()) && row.get(3) == Some(&"02"))
        .count()
}

#[test]
fn connections_that_are_being_made_end_with_their_clients() {
    // An address that answers nothing: a socket whose backlog is full.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 79], 0));
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let patience = Duration::from_millis(100);
    let filling = (0..4).map(|_| std::net::TcpStream::connect_timeout(&address, patience));
    let _filling: Vec<_> = filling.collect();
    for (http, most) in [("1.1", 30), ("2", 4)] {
        let policy = Policy::to_url(&format!("http://{address}/mcp"));
        let policy = policy
            .upstream("http", http)
            .upstream("connect_timeout", "1h");
        let gateway = Gateway::start(&policy);
        let before = connecting_to(address);
        let mut clients: Vec<_> = (0..30).map(|_| gateway.connect()).collect();
        for client in &mut clients {
            client.send(&Request::call("left"));
        }
        eventually("all connections are being made", || {
            connecting_to(address) == before + most
        });
        for (number, client) in clients.into_iter().enumerate() {
            leave(client, WAYS[1 + number % 2]);
        }
        eventually("no connection is being made", || {
            connecting_to(address) == before
        });
        let records = gateway.wait_for_records(30);
        assert!(records.iter().all(|record| record["end"] == "client_gone"));
    }
}
