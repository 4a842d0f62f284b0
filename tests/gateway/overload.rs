//! Too much at once: connections, requests, open files. What is refused is told so, whatever was
//! taken is served, and places come back.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use crate::harness::{
    Client, Fault, Gateway, LEGACY, Play, Policy, Refusal, Reply, Request, Response, Site,
    Upstream, eventually,
};
use crate::http2::Client2;

/// An upstream that never answers a slow call.
fn slow() -> Upstream {
    Upstream::with(|request| match request.json()["params"]["name"].as_str() {
        Some("slow") => Reply::silence(),
        Some("stream") => Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]),
        _ => Reply::usual(request),
    })
}

/// Takes all of `count` places with calls that are in flight.
fn occupy(site: &Site, count: usize) -> Vec<Client> {
    let before = site.upstream.runs("slow");
    let clients: Vec<_> = (0..count)
        .map(|_| {
            let mut client = site.gateway.connect();
            client.send(&Request::call("slow"));
            client
        })
        .collect();
    site.upstream
        .wait("the slow calls", |log| log.runs("slow") == before + count);
    clients
}

fn discover() -> Request {
    Request::modern("server/discover", json!({}))
}

#[test]
fn requests_over_the_limit_are_told_to_come_back() {
    let site = Site::before(slow(), |policy| policy.listen("requests_max", 2));
    let mut waiting = site.gateway.connect();
    site.works("an empty house", &mut waiting);
    let occupied = occupy(&site, 2);
    site.records(1);

    let modern = Refusal::of(503, 503).names(&["listen.requests_max", "2"]);
    let legacy = Refusal::of(200, 503).names(&["listen.requests_max"]);
    let large = Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(100_000)),
    );
    let head = Refusal::of_head(503).names(&["listen.requests_max"]);
    for (what, request, refusal) in [
        ("modern", Request::call("echo"), &modern),
        ("legacy", Request::legacy_call("echo"), &legacy),
        ("large", large, &head),
        ("of unknown size", Request::call("echo").chunked(50), &head),
        ("GET", Request::get().header("Accept", "*/*"), &head),
    ] {
        let answer = waiting.exchange(&request);
        refusal.check(what, &answer);
        assert_eq!(
            answer.head.value("retry-after").as_deref(),
            Some("1"),
            "{what}"
        );
        let record = &site.records(1)[0];
        assert_eq!(record["verdict"], "refused:overloaded", "{record}");
    }
    // What is wrong anyway is told as ever.
    let wrong = waiting.exchange(&Request::call("echo").header("Mcp-Name", "other"));
    Refusal::of(400, -32020).check("wrong", &wrong);
    assert_eq!(site.upstream.runs("echo"), 0);

    drop(occupied);
    let took = eventually("a free place", || {
        waiting.exchange(&Request::call("echo")).status == 200
    });
    println!("free again after {took:?}");
}

#[test]
fn discovery_is_answered_up_to_twice_the_limit() {
    let site = Site::before(slow(), |policy| policy.listen("requests_max", 2));
    let mut occupied = occupy(&site, 2);
    for _ in 0..3 {
        let answer = site.gateway.ask(&discover());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // One whose answer never comes holds a place beyond the limit.
    let full = Site::before(Upstream::with(|_| Reply::silence()), |policy| {
        policy.listen("requests_max", 2)
    });
    for number in 1..=4 {
        let mut client = full.gateway.connect();
        client.send(&discover());
        full.upstream.wait_for_requests(number);
        occupied.push(client);
    }
    let mut client = full.gateway.connect();
    for request in [discover(), discover(), Request::call("echo")] {
        let probe = request.body == discover().body;
        let answer = client.exchange(&request);
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.head.value("retry-after").as_deref(), Some("1"));
        // No client may take it for a word of the server about its era.
        let kind = answer.head.value("content-type").unwrap();
        assert_eq!(kind == "application/problem+json", probe, "{kind}");
    }
    assert_eq!(full.upstream.request_count(), 4);
}

#[test]
fn discovery_of_unknown_size_is_answered_too() {
    let site = Site::before(slow(), |policy| policy.listen("requests_max", 2));
    let _occupied = occupy(&site, 2);
    let chunked = site.gateway.ask(&discover().chunked(50));
    assert_eq!(chunked.status, 200, "{chunked:?}");
    assert_eq!(site.upstream.last().json()["method"], "server/discover");
    // What only pretends to be a probe is shed, or told what is wrong with it, once it is read.
    let count = site.upstream.request_count();
    let pretends = Request::legacy_call("echo").header("Mcp-Method", "server/discover");
    let answer = site.gateway.ask(&pretends.chunked(50));
    assert!(answer.code().is_some(), "{answer:?}");
    assert_eq!(site.upstream.request_count(), count);
}

#[test]
fn a_body_that_streams_is_too_many_whatever_was_announced() {
    let site = Site::before(slow(), |policy| {
        policy
            .listen("requests_max", 2)
            .bound("body_bytes_max", "32Ki")
    });
    let large = Request::call("echo").edit(
        "\"arguments\":{}",
        &format!("\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(50 << 10)),
    );
    let mut client = site.gateway.connect();
    assert_eq!(client.exchange(&large).status, 200);
    let count = site.upstream.request_count();
    let _occupied = occupy(&site, 2);
    let answer = client.exchange(&large);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(
        site.upstream.request_count(),
        count + 2,
        "the slow calls alone"
    );
    // The rest was drained, so that the connection goes on.
    assert_eq!(client.exchange(&discover()).status, 200);
}

#[test]
fn a_place_is_held_until_the_answer_was_sent_or_dropped_and_always_comes_back() {
    let site = Site::before(slow(), |policy| policy.listen("requests_max", 3));
    let full = |site: &Site| site.gateway.ask(&Request::call("echo")).status == 503;
    for round in 0..5 {
        // Streams hold theirs after their head is out.
        let mut streams: Vec<_> = (0..3)
            .map(|_| {
                let mut client = site.gateway.connect();
                client.send(&Request::call("stream"));
                let (_, mut body) = client.read_head();
                client.read_until(&mut body, b"data: 1\n\n");
                client
            })
            .collect();
        assert!(full(&site), "{round}");
        // Clients leave in every way; then as many fit in as before.
        streams.remove(0).wire.reset();
        streams.remove(0).wire.finish();
        drop(streams);
        let took = eventually("all places", || {
            let clients = (0..3).map(|_| site.gateway.connect()).collect::<Vec<_>>();
            let calls = clients.into_iter().map(|mut client| {
                client.send(&Request::call("echo"));
                client
            });
            let calls: Vec<_> = calls.collect();
            calls
                .into_iter()
                .all(|mut client| client.read().status == 200)
        });
        println!("round {round}: all places after {took:?}");
        // Over HTTP/2: resets and refusals give theirs back too.
        let mut client = Client2::connect(&site.gateway);
        let mut slow: Vec<_> = (0..3)
            .map(|_| client.send(&Request::call("slow")))
            .collect();
        site.upstream
            .wait("the slow calls", |log| log.runs("slow") == 3 * (round + 1));
        assert!(full(&site), "{round}");
        assert_eq!(client.exchange(&Request::call("echo")).status, 503);
        for stream in &mut slow {
            stream.reset();
        }
        eventually("all places", || {
            let calls: Vec<_> = (0..3)
                .map(|_| client.send(&Request::call("echo")))
                .collect();
            calls.into_iter().all(|call| call.read().status == 200)
        });
    }
}

/// What a connection that is one too many is told.
fn is_refused(client: &mut Client) {
    client.send(&Request::call("echo"));
    let answer = client.read();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.head.value("retry-after").as_deref(), Some("1"));
    assert_eq!(client.wire.ending(), Fault::Closed(0));
}

/// A connection that is served, which a place that is only about to come back may delay.
fn let_in(site: &Site) -> Client {
    let mut served = None;
    let took = eventually("a free place", || {
        let mut client = site.gateway.connect();
        let answered = client.wire.write(&site.good.bytes()).is_ok()
            && client.try_read().is_ok_and(|answer| answer.status == 200);
        served = answered.then_some(client);
        answered
    });
    println!("let in after {took:?}");
    served.expect("a connection")
}

#[test]
fn connections_over_the_limit_are_told_so_and_places_come_back() {
    for (key, limit) in [
        ("connections_max", "listen.connections_max"),
        (
            "connections_per_source_max",
            "listen.connections_per_source_max",
        ),
    ] {
        let site = Site::with(|policy| policy.listen(key, 3));
        for _ in 0..3 {
            let mut kept: Vec<_> = (0..3).map(|_| let_in(&site)).collect();
            for _ in 0..3 {
                is_refused(&mut site.gateway.connect());
            }
            site.works("a full house", &mut kept[0]);
        }
        site.gateway.wait_for_line(limit);
        assert_eq!(site.upstream.runs("echo"), 0);
    }
}

#[test]
fn a_flood_of_connections_is_a_line_each_second() {
    let site = Site::with(|policy| policy.listen("connections_max", 1));
    let mut kept = site.gateway.connect();
    site.works("the first", &mut kept);
    let started = std::time::Instant::now();
    let mut flood = Vec::new();
    for _ in 0..500 {
        flood.push(site.gateway.connect());
        if flood.len() > 200 {
            flood.remove(0);
        }
    }
    let seconds = started.elapsed().as_secs() as usize;
    let count = || -> u64 {
        let lines = site.gateway.lines();
        let reports = lines
            .iter()
            .filter(|line| line.contains("connections were refused"));
        reports
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter_map(|line| line["count"].as_str()?.parse::<u64>().ok())
            .sum()
    };
    eventually("a report of all", || count() == 500);
    let reports = site
        .gateway
        .lines()
        .iter()
        .filter(|line| line.contains("connections were refused"))
        .count();
    assert!(reports <= seconds + 3, "{reports} lines");
    site.works("a flood", &mut kept);
}

/// A process with this many open files at most.
fn limited(policy: &Policy, files: usize) -> Gateway {
    Gateway::start_under(&format!("ulimit -n {files}"), policy)
}

fn probe(address: SocketAddr, path: &str) -> Response {
    Client::connect(address).exchange(&Request::new("GET", path))
}

#[test]
fn a_process_without_free_descriptors_answers_probes_and_serves_again() {
    let upstream = Upstream::start();
    let gateway = limited(&Policy::new(&upstream), 128);
    assert!(
        gateway.lines()[0].contains("the limit of open files is low"),
        "{:?}",
        gateway.lines()
    );
    let mut served = gateway.connect();
    assert_eq!(served.exchange(&Request::call("echo")).status, 200);
    let flood: Vec<_> = (0..180).map(|_| gateway.connect()).collect();
    gateway.wait_for_line("a connection could not be accepted");
    let before = gateway.processor_time();
    for _ in 0..20 {
        assert_eq!(probe(gateway.status, "/healthz").status, 200);
        // Who is connected is served, with new connections to the upstream if need be.
        let call = Request::call("echo").line("Connection", "keep-alive");
        assert_eq!(served.exchange(&call).status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = gateway.processor_time() - before;
    assert!(took < Duration::from_millis(500), "it spins: {took:?}");
    let failures = gateway
        .lines()
        .iter()
        .filter(|line| line.contains("could not be accepted"))
        .count();
    assert!(failures < 40, "{failures} lines");
    drop(flood);
    let took = eventually("it serves again", || {
        let mut client = gateway.connect();
        client.wire.set_patience(Duration::from_millis(500));
        client.wire.write(&Request::call("echo").bytes()).is_ok()
            && client.try_read().is_ok_and(|answer| answer.status == 200)
    });
    println!("served again after {took:?}, {failures} failures logged");
}

#[test]
fn a_process_whose_limit_is_taken_away_answers_probes_and_serves_again() {
    let upstream = Upstream::start();
    let gateway = limited(&Policy::new(&upstream), 256);
    let mut served = gateway.connect();
    assert_eq!(served.exchange(&Request::call("echo")).status, 200);
    // From now on the system itself refuses every further descriptor.
    gateway.limit_files_to_open();
    let flood: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    gateway.wait_for_line("a connection could not be accepted");
    let before = gateway.processor_time();
    for _ in 0..10 {
        assert_eq!(probe(gateway.status, "/readyz").status, 200);
        assert_eq!(served.exchange(&Request::call("echo")).status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = gateway.processor_time() - before;
    assert!(took < Duration::from_millis(500), "it spins: {took:?}");
    gateway.limit_files(256);
    for mut client in flood {
        assert_eq!(client.exchange(&Request::call("echo")).status, 200);
    }
}

#[test]
fn whoever_takes_nothing_of_an_answer_is_cut_off() {
    let chunk = "x".repeat(64 << 10);
    let steps = std::iter::once(Play::sse_head())
        .chain((0..400).map(move |_| Play::chunk(&chunk)))
        .collect::<Vec<_>>();
    let upstream = Upstream::with(
        move |request| match request.json()["params"]["name"].as_str() {
            Some("flood") => Reply::Steps(steps.clone()),
            Some("stream") => Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")]),
            _ => Reply::usual(request),
        },
    );
    let site = Site::before(upstream, |policy| {
        policy.listen("write_idle_timeout", "300ms")
    });
    let mut quiet = site.gateway.connect();
    quiet.send(&Request::call("stream"));
    let (_, mut stream) = quiet.read_head();
    quiet.read_until(&mut stream, b"data: 1\n\n");
    let mut client = site.gateway.connect();
    client.send(&Request::call("flood"));
    let (_, mut body) = client.read_head();
    let took = site
        .upstream
        .wait("the end of the flood", |log| log.ended(1).is_some());
    println!("given up after {took:?}");
    assert_eq!(site.records(1)[0]["end"], "limit:listen.write_idle_timeout");
    let end = loop {
        match body.next(&mut client.wire) {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "a clean end");
    // One that is silent leaves nothing untaken.
    assert_eq!(site.upstream.log().ended(0), None);
    site.works("a flood", &mut site.gateway.connect());
}

#[test]
fn two_thousand_slow_clients_stop_no_quick_one() {
    let upstream = Upstream::start();
    let policy = Policy::new(&upstream);
    let gateway = limited(&policy, 8192);
    let head = Request::call("echo")
        .header("MCP-Protocol-Version", LEGACY)
        .head_bytes();
    let mut slow: Vec<_> = (0..2000).map(|_| gateway.connect()).collect();
    for round in 0..5 {
        // A byte now and then, each somewhere else in its head.
        for (number, client) in slow.iter_mut().enumerate() {
            let at = (number + round) % (head.len() - 5);
            let bytes = if round == 0 {
                &head[..at]
            } else {
                &head[at..=at]
            };
            client.send_bytes(bytes);
        }
        let mut quick = gateway.connect();
        for _ in 0..20 {
            assert_eq!(quick.exchange(&Request::call("echo")).status, 200);
        }
        assert_eq!(probe(gateway.status, "/readyz").status, 200);
    }
    let memory = gateway.memory();
    println!(
        "with 2000 half heads the gateway holds {} KiB",
        memory >> 10
    );
    assert!(memory < 128 << 20, "the gateway holds {memory} bytes");
    assert_eq!(upstream.runs("echo"), 100);
}
