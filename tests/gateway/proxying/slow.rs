//! Clients that read slowly: what was written for them is not thrown away because they take time.

use std::time::Duration;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::harness::wire::{BodyReader, PATIENCE, Wire};
use crate::harness::{Client, Fault, Gateway, Play, Received, Reply, Request, Site, Upstream};

/// Answers that grow by less than what the gateway itself holds of one: whatever the sockets on
/// the way hold, some of these answers end in its hands while the client does not read.
const STEP: usize = 96 << 10;
const STEPS: usize = 64;
/// Long enough for all buffers on the way to fill.
const PAUSE: Duration = Duration::from_millis(1500);

/// A client whose socket takes as little as it can before somebody reads it.
fn narrow(gateway: &Gateway) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let address = gateway.address.into();
    socket
        .connect_timeout(&address, PATIENCE)
        .expect("a gateway that listens");
    Client {
        wire: Wire::new(socket.into(), PATIENCE),
    }
}

/// Lets the rest come as fast as it can.
fn widen(client: &Client) {
    let socket = socket2::SockRef::from(&client.wire.stream);
    socket.set_recv_buffer_size(1 << 20).expect("a buffer");
}

fn sized(bytes: usize) -> Request {
    Request::modern(
        "tools/call",
        json!({"name": "sized", "arguments": {"bytes": bytes}}),
    )
}

fn asked_size(request: &Received) -> usize {
    let size = &request.json()["params"]["arguments"]["bytes"];
    size.as_u64().map_or(0, |size| size as usize)
}

/// Asks for answers of all sizes at once, reads none of them for a while, then all; gives what
/// each came to, for those that are not as they should be.
fn read_late(site: &Site, finish: fn(&mut Client, usize) -> Result<(), String>) -> Vec<String> {
    let gateway = &site.gateway;
    std::thread::scope(|scope| {
        let reading: Vec<_> = (1..=STEPS)
            .map(|step| {
                scope.spawn(move || {
                    let mut client = narrow(gateway);
                    client.send(&sized(step * STEP));
                    std::thread::sleep(PAUSE);
                    widen(&client);
                    finish(&mut client, step * STEP)
                })
            })
            .collect();
        let outcomes = reading.into_iter().map(|one| one.join().expect("a client"));
        outcomes.filter_map(Result::err).collect()
    })
}

#[test]
fn an_answer_that_waits_for_its_reader_is_not_cut_off_by_the_idle_time() {
    let upstream = Upstream::with(|request| Reply::json(200, "x".repeat(asked_size(request))));
    let site = Site::before(upstream, |policy| {
        policy.listen("header_read_timeout", "300ms")
    });
    let cut = read_late(&site, |client, size| match client.try_read() {
        Ok(answer) if answer.body.len() == size => Ok(()),
        other => Err(format!("{size} bytes: {:?}", other.map(|a| a.body.len()))),
    });
    assert_eq!(cut, [""; 0]);
    for record in site.records(STEPS) {
        assert_eq!(record["end"], "complete", "{record}");
    }
}

#[test]
fn a_connection_is_idle_once_its_answer_is_written() {
    let site = Site::with(|policy| policy.listen("header_read_timeout", "300ms"));
    let mut client = narrow(&site.gateway);
    site.works("slow", &mut client);
    assert!(matches!(client.wire.ending(), Fault::Closed(0)));
}

#[test]
fn what_came_before_a_break_reaches_a_slow_client_too() {
    let upstream = Upstream::with(|request| {
        let event = format!("data: {}\n\n", "x".repeat(4096 - 8));
        let events = event.repeat(asked_size(request) / event.len());
        Reply::Steps(vec![Play::sse_head(), Play::chunk(events), Play::Close])
    });
    let site = Site::before(upstream, |policy| policy);
    let lost = read_late(&site, |client, size| {
        let head = client.wire.head().map_err(|fault| format!("{fault:?}"))?;
        let framing = head.response_framing("POST").expect("one framing");
        let mut body = BodyReader::new(framing);
        let mut came = 0;
        let end = loop {
            match body.next(&mut client.wire) {
                Ok(Some(part)) => came += part.len(),
                end => break end,
            }
        };
        match end {
            Err(Fault::Closed(_)) if came == size => Ok(()),
            end => Err(format!("{came} of {size} bytes, then {end:?}")),
        }
    });
    assert_eq!(lost, [""; 0]);
    for record in site.records(STEPS) {
        assert_eq!(record["end"], "upstream_failed", "{record}");
    }
    // The records of the exchanges tell it all.
    assert!(site.gateway.wait_for_connections(0).is_empty());
}

#[test]
fn an_answer_waits_for_its_reader_where_the_connection_ends_with_it() {
    let upstream = Upstream::with(|request| Reply::json(200, "x".repeat(asked_size(request))));
    let site = Site::before(upstream, |policy| policy);
    for (line, version) in [("close", "1.1"), ("", "1.0")] {
        let mut client = narrow(&site.gateway);
        let request = sized(8 << 20).line("Connection", line).bytes();
        let request = String::from_utf8(request).expect("text");
        let request = request.replacen("HTTP/1.1", &format!("HTTP/{version}"), 1);
        client.send_bytes(request.as_bytes());
        std::thread::sleep(Duration::from_millis(300));
        widen(&client);
        assert_eq!(client.read().body.len(), 8 << 20, "HTTP/{version}");
        assert!(client.is_closed());
    }
}
