//! Clients that go: whichever way they do it and whatever they left behind on the connection, the
//! upstream's request of a modern exchange ends with them.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Client, Gateway, Play, Policy, Reply, Request, Site, Upstream};

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

const UNSENT: &str = "more than sockets hold";

/// What stands on the connection behind the request.
fn remainders() -> [(&'static str, Vec<u8>); 7] {
    [
        ("nothing", Vec::new()),
        ("a stray line end", b"\r\n".to_vec()),
        ("a second request", Request::call("second").bytes()),
        (
            "half a request",
            Request::call("second").bytes()[..60].to_vec(),
        ),
        // More than the gateway reads ahead of an exchange, in one piece and in many.
        ("sixty requests", Request::call("second").bytes().repeat(60)),
        (
            "a long request",
            Request::call("second").body("x".repeat(20_000)).bytes(),
        ),
        (UNSENT, vec![b'x'; 3 << 20]),
    ]
}

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

/// One client leaves in one way at the stage that the upstream's script has reached.
fn goes(upstream: &Upstream, gateway: &Gateway, begun: bool, way: Leaving) -> Vec<String> {
    let mut told = Vec::new();
    for (what, behind) in remainders() {
        if what == UNSENT && !matches!(way, Leaving::Reset) {
            // An orderly end stands behind the bytes, and does not arrive before they do.
            continue;
        }
        let tool = format!("{way:?}-{what}-{begun}");
        let before = upstream.request_count();
        let mut client = gateway.connect();
        client.send(&Request::call(&tool));
        if begun {
            let (_, mut body) = client.read_head();
            client.read_until(&mut body, b"data: 1\n\n");
        }
        upstream.wait_for_requests(before + 1);
        let connection = upstream.last().connection;
        // The gateway need not take all of it, so it is sent beside the leaving.
        client.send_some(&behind);
        let kept = leave(client, way);
        let took = upstream.wait(&format!("the end of {tool}"), |log| {
            log.ended(connection).is_some()
        });
        told.push(format!("{tool}: gone after {took:?}"));
        assert_eq!(upstream.runs(&tool), 1, "{tool}");
        drop(kept);
    }
    assert_eq!(upstream.runs("second"), 0, "run for a client that was gone");
    told
}

/// All ways to leave at one stage, each with a gateway of its own, at the same time.
fn leaves_at(begun: bool) {
    let told: Vec<String> = std::thread::scope(|scope| {
        let leaving: Vec<_> = WAYS
            .into_iter()
            .map(|way| {
                scope.spawn(move || {
                    let upstream = Upstream::with(move |request| {
                        match (request.json()["params"]["name"].as_str(), begun) {
                            (Some("good"), _) => Reply::usual(request),
                            (_, true) => {
                                Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")])
                            }
                            (_, false) => Reply::silence(),
                        }
                    });
                    let site = Site::before(upstream, |policy| policy);
                    let told = goes(&site.upstream, &site.gateway, begun, way);
                    for record in &site.gateway.wait_for_records(told.len())[..told.len()] {
                        assert_eq!(record["end"], "client_gone", "{record}");
                    }
                    serves_on(&site);
                    told
                })
            })
            .collect();
        leaving
            .into_iter()
            .flat_map(|one| one.join().expect("no failure above"))
            .collect()
    });
    println!("{}", told.join("\n"));
}

/// Whatever was left, sockets and permits came back.
fn serves_on(site: &Site) {
    for _ in 0..20 {
        site.works("clients that left", &mut site.gateway.connect());
    }
    assert!(site.upstream.log().open() <= 1, "connections are left open");
}

#[test]
fn a_client_goes_while_the_upstream_is_silent() {
    leaves_at(false);
}

#[test]
fn a_client_goes_in_the_middle_of_a_stream() {
    leaves_at(true);
}

#[test]
fn a_client_goes_in_the_middle_of_its_body() {
    let site = Site::new();
    for request in [Request::call("echo"), Request::call("echo").chunked(20)] {
        for way in WAYS {
            let mut client = site.gateway.connect();
            let bytes = request.bytes();
            client.send_bytes(&bytes[..bytes.len() - 8]);
            let kept = leave(client, way);
            let record = &site.records(1)[0];
            // Whoever only ended its side may still read that the body was not whole.
            let verdict = record["verdict"].as_str().unwrap_or_default();
            let told = verdict.starts_with("refused:") && record["status"] == 400;
            assert!(told || record["end"] == "client_gone", "{way:?}: {record}");
            drop(kept);
        }
    }
    assert_eq!(site.upstream.request_count(), 0, "nothing was whole");
    serves_on(&site);
}

#[test]
fn a_client_goes_while_the_upstream_is_being_reached() {
    // An address that answers nothing: a socket whose backlog is full.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 73], 0));
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let filling: Vec<_> = (0..4)
        .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)))
        .collect();
    assert!(
        filling.iter().any(Result::is_err),
        "the backlog is not full"
    );
    let gateway = Gateway::start(&Policy::to_url(&format!("http://{address}/mcp")));
    for (number, way) in WAYS.into_iter().enumerate() {
        let mut client = gateway.connect();
        client.send(&Request::call("echo"));
        // Long enough for the request to be read; the connection attempt lasts seconds.
        std::thread::sleep(Duration::from_millis(100));
        let kept = leave(client, way);
        let record = gateway.wait_for_records(number + 1).remove(number);
        assert_eq!(record["end"], "client_gone", "{way:?}: {record}");
        drop(kept);
    }
}

#[test]
fn an_upstream_that_cannot_be_reached_in_time_is_a_timeout() {
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 74], 0));
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _filling: Vec<_> = (0..4)
        .map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)))
        .collect();
    let policy = Policy::to_url(&format!("http://{address}/mcp"));
    let gateway = Gateway::start(&policy.upstream("connect_timeout", "200ms"));
    let answer = gateway.ask(&Request::call("echo"));
    assert_eq!(
        (answer.status, answer.code()),
        (504, Some(504)),
        "{answer:?}"
    );
}

#[test]
fn a_legacy_client_that_goes_leaves_the_gateway_as_it_was() {
    let upstream = Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("good") => Reply::usual(request),
        _ => Reply::silence(),
    });
    let site = Site::before(upstream, |policy| policy);
    for way in WAYS {
        let mut client = site.gateway.connect();
        client.send(&Request::legacy_call("slow"));
        site.upstream.wait("the call", |log| log.runs("slow") > 0);
        drop(leave(client, way));
        site.works("a legacy client that left", &mut site.gateway.connect());
    }
    // Disconnection is not cancellation there: nothing of ours says that the call is off.
    let cancelled = json!("notifications/cancelled");
    let requests = site.upstream.log().requests;
    assert!(
        requests
            .iter()
            .all(|request| request.json()["method"] != cancelled)
    );
}

#[test]
fn a_client_that_does_not_read_stops_the_stream_behind_it() {
    // Two thousand chunks of 64 KiB are more than all the buffers on the way hold together.
    let chunk = "x".repeat(64 << 10);
    let steps = std::iter::once(Play::sse_head())
        .chain((0..2000).map(move |_| Play::chunk(&chunk)))
        .collect::<Vec<_>>();
    let upstream = Upstream::with(move |_| Reply::Steps(steps.clone()));
    let site = Site::before(upstream, |policy| policy);
    let mut client = site.gateway.connect();
    client.send(&Request::call("flood"));
    client.read_head();
    std::thread::sleep(Duration::from_millis(500));
    let memory = site.gateway.memory();
    assert!(memory < 64 << 20, "the gateway holds {memory} bytes");
    let ended = site.upstream.log().ended(0).cloned();
    assert_eq!(ended, None, "the stream goes on");
    client.wire.reset();
    let took = site
        .upstream
        .wait("the end of the flood", |log| log.ended(0).is_some());
    println!("the flood was gone after {took:?}, the gateway held {memory} bytes");
}
