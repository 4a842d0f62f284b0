//! How answers end: what the upstream breaks off is never a clean end for the client, and what it
//! ends in good order passes as it is.

use crate::harness::{Fault, Play, Reply, Request, Site, Upstream};

#[test]
fn an_upstream_that_dies_is_no_clean_end() {
    let head = |lines: &str| Play::Send(format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n").into_bytes());
    let events = "Content-Type: text/event-stream\r\n";
    let counted = head(&format!("{events}Content-Length: 100"));
    let begun = || Play::chunk("data: 1\n\n");
    let half = || Play::chunk("data: {\"ha");
    for (what, steps) in [
        ("before an event", vec![Play::sse_head()]),
        ("between events", vec![Play::sse_head(), begun()]),
        ("in an event", vec![Play::sse_head(), begun(), half()]),
        (
            "in a chunk",
            vec![Play::sse_head(), Play::Send(b"20\r\ndata: 1\n\n".to_vec())],
        ),
        (
            "in the last chunk",
            vec![Play::sse_head(), begun(), Play::Send(b"0\r\n".to_vec())],
        ),
        (
            "garbage",
            vec![Play::sse_head(), begun(), Play::Send(b"zz\r\n".to_vec())],
        ),
        (
            "before the length",
            vec![counted.clone(), Play::Send(b"data: 1\n\n".to_vec())],
        ),
        (
            "a document",
            vec![
                head("Content-Type: application/json\r\nContent-Length: 100"),
                Play::Send(b"{}".to_vec()),
            ],
        ),
    ] {
        for ending in [Play::Close, Play::Reset] {
            let steps = [steps.clone(), vec![ending.clone()]].concat();
            let upstream =
                Upstream::with(
                    move |request| match request.json()["params"]["name"].as_str() {
                        Some("good") => Reply::usual(request),
                        _ => Reply::Steps(steps.clone()),
                    },
                );
            let site = Site::before(upstream, |policy| policy);
            for request in [Request::call("echo"), Request::legacy_call("echo")] {
                let answer = site.gateway.connect().try_exchange(&request);
                match answer {
                    Err(Fault::Closed(_) | Fault::Reset) => {
                        let record = &site.records(1)[0];
                        assert_eq!(record["end"], "upstream_failed", "{what}: {record}");
                    }
                    // The reset overtook the head.
                    Ok(answer) if matches!(ending, Play::Reset) => {
                        assert_eq!(answer.code(), Some(502), "{what}: {answer:?}");
                        site.records(1);
                    }
                    end => panic!("{what}, {ending:?}: {end:?}"),
                }
            }
            assert_eq!(site.upstream.runs("echo"), 2, "{what}: never repeated");
            site.works(what, &mut site.gateway.connect());
        }
    }
}

#[test]
fn what_is_missing_before_a_clean_end_is_told_and_passes() {
    for (stream, end) in [
        ("data: 1\n\ndata: {\"ha", "half_event"),
        ("data: 1\n\nid: 7\n", "half_event"),
        ("data: {}\n", "half_event"),
        ("data: 1\n\n: note", "complete"),
        (": note\n\n", "no_response"),
        ("data: 1\n\n", "complete"),
    ] {
        let site = Site::before(Upstream::with(move |_| Reply::sse(stream)), |policy| policy);
        let mut client = site.gateway.connect();
        for _ in 0..2 {
            let answer = client.exchange(&Request::call("echo"));
            assert_eq!((answer.status, answer.text().as_str()), (200, stream));
            assert_eq!(site.records(1)[0]["end"], end, "{stream:?}");
        }
        let connections = site.upstream.log().connections.len();
        assert_eq!(connections, 1, "the upstream's connection is whole");
    }
}

#[test]
fn a_connection_that_closes_within_an_event_is_no_clean_end() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    for (stream, end) in [
        ("data: 1\n\ndata: {\"ha", "upstream_failed"),
        ("data: {}\n", "upstream_failed"),
        ("data: 1\n\n", "complete"),
        ("data: 1\n\n: note", "complete"),
    ] {
        for lines in [head.to_owned(), head.replace("HTTP/1.1", "HTTP/1.0")] {
            let reply = Reply::raw_then_close(format!("{lines}{stream}"));
            let site = Site::before(Upstream::with(move |_| reply.clone()), |policy| policy);
            let mut client = site.gateway.connect();
            client.send(&Request::call("echo"));
            let (_, mut body) = client.read_head();
            let mut passed = Vec::new();
            let last = loop {
                match body.next(&mut client.wire) {
                    Ok(Some(piece)) => passed.extend_from_slice(&piece),
                    last => break last,
                }
            };
            // What came passes in any case; only the last chunk says that it is all.
            assert_eq!(String::from_utf8_lossy(&passed), stream);
            assert_eq!(last.is_ok(), end == "complete", "{stream:?}: {last:?}");
            assert_eq!(site.records(1)[0]["end"], end, "{stream:?}");
        }
    }
}
