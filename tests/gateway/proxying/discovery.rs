//! `server/discover`: the list of versions becomes the route's, and no other byte of the answer
//! changes.

use serde_json::json;

use crate::harness::{
    Framing, HEADERLESS, MIXED, MODERN, MODERN_ONLY, Play, Reply, Request, Response, Site, Upstream,
};

/// A discover result with this list; what is around it is as odd as JSON allows.
fn result(list: &str) -> String {
    format!(
        "{{ \"id\":\"probe-1\",\"jsonrpc\":\"2.0\" ,\"result\":{{\"ttlMs\":60000.0,\"a\":false,\
         \"supportedVersions\": {list} ,\"instructions\":\"\\u2602 \\/ \u{6c34}\",\
         \"n\":12345678901234567890}}}}"
    )
}

fn probe() -> Request {
    Request::modern("server/discover", json!({})).id("\"probe-1\"")
}

/// What a client of a route with these versions gets from a server that answers like this.
fn discover(versions: &[&str], reply: Reply) -> (Site, Response) {
    let upstream = Upstream::with(move |_| reply.clone());
    let site = Site::before(upstream, |policy| policy.versions(versions));
    let answer = site.gateway.ask(&probe());
    (site, answer)
}

fn event_stream(body: &str) -> Reply {
    Reply::with_lines(200, "Content-Type: text/event-stream\r\n", body)
}

/// Versions of a route, the list of a server behind it, and the list that a client gets.
fn lists() -> Vec<(&'static [&'static str], String, String)> {
    let list = |versions: &[&str]| serde_json::to_string(versions).expect("a list");
    vec![
        (MODERN_ONLY, list(MODERN_ONLY), list(MODERN_ONLY)),
        (MIXED, list(MODERN_ONLY), list(MIXED)),
        (HEADERLESS, list(MODERN_ONLY), list(HEADERLESS)),
        // A server may have what the route does not serve, and say so in any form.
        (MODERN_ONLY, list(HEADERLESS), list(MODERN_ONLY)),
        (
            MIXED,
            "[ \"2099-01-01\",\n\t\"2026-07-28\" ]".to_owned(),
            list(MIXED),
        ),
        (MIXED, list(&["2099-01-01"]), list(&MIXED[1..])),
        (MODERN_ONLY, list(&["2099-01-01"]), "[]".to_owned()),
        // Where nothing is to be changed, nothing is.
        (
            MODERN_ONLY,
            format!("[ \"{MODERN}\" ]"),
            format!("[ \"{MODERN}\" ]"),
        ),
    ]
}

#[test]
fn the_list_of_a_document_is_the_routes() {
    for (versions, offered, listed) in lists() {
        let (before, after) = (result(&offered), result(&listed));
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
            &before[..4],
            before.len() - 4,
            &before[4..]
        );
        for reply in [
            Reply::json(200, &before),
            Reply::json(203, &before),
            Reply::raw(chunked),
        ] {
            let (site, answer) = discover(versions, reply.clone());
            assert_eq!(answer.text(), after, "{reply:?}");
            if let Framing::Length(length) = answer.framing {
                assert_eq!(length, after.len(), "{reply:?}");
            }
            let record = &site.records(1)[0];
            assert_eq!(record["verdict"], "forwarded", "{record}");
            assert_eq!(record["bytes_out"], after.len(), "{record}");
            // The connection was read to its end, and serves on.
            assert_eq!(site.gateway.ask(&probe()).text(), after);
            assert_eq!(site.upstream.log().connections.len(), 1);
        }
    }
}

#[test]
fn the_list_of_an_event_is_the_routes() {
    for (versions, offered, listed) in lists() {
        if offered.contains('\n') {
            // A line end would end the line of data; that case has a test of its own.
            continue;
        }
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        for end in ["\n", "\r\n", "\r"] {
            let stream = |list: &str| {
                let result = result(list);
                let lines = [
                    ": hello",
                    "",
                    &format!("data:{notification}"),
                    "",
                    "id: 7",
                    "retry: 10",
                    &format!(": {}", self::result(&offered)),
                    &format!("data: {result}"),
                    "event: message",
                    "",
                    ": bye",
                    "",
                    "",
                ];
                lines.join(end)
            };
            let (before, after) = (stream(&offered), stream(&listed));
            for reply in [event_stream(&before), Reply::sse(&before)] {
                let (site, answer) = discover(versions, reply.clone());
                assert_eq!(answer.text(), after, "{reply:?}");
                assert_eq!(answer.head.value("x-accel-buffering").unwrap(), "no");
                let record = &site.records(1)[0];
                assert_eq!(record["end"], "complete", "{record}");
            }
        }
    }
}

#[test]
fn an_event_of_several_lines_is_read_as_one_message() {
    let lines = "id: 7\ndata: {\"id\":\"probe-1\",\ndata:\"result\":{\"supportedVersions\":[\ndata: \"2026-07-28\"]}}\n\n: bye\n\n";
    let (_, answer) = discover(MIXED, event_stream(lines));
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.text();
    let data: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    let message: serde_json::Value = serde_json::from_str(&data.join("\n")).unwrap();
    assert_eq!(message["result"]["supportedVersions"], json!(MIXED));
    assert!(text.ends_with("\n\n: bye\n\n"), "{text}");
}

#[test]
fn a_stream_comes_as_soon_as_its_list_is_read() {
    let (upstream, answers) = Upstream::staged();
    let site = Site::before(upstream, |policy| policy.versions(MIXED));
    let mut client = site.gateway.connect();
    client.send(&probe());
    let plays = answers.recv().unwrap();
    plays.send(Play::sse_head()).unwrap();
    let list = serde_json::to_string(MODERN_ONLY).unwrap();
    let event = format!("data: {}\n\n", result(&list));
    let (first, second) = event.split_at(30);
    plays.send(Play::chunk(first)).unwrap();
    plays.send(Play::chunk(second)).unwrap();
    // The stream goes on; what was held back is there all the same.
    let (_, mut body) = client.read_head();
    let listed = result(&serde_json::to_string(MIXED).unwrap());
    client.read_until(&mut body, format!("data: {listed}\n\n").as_bytes());
    plays.send(Play::chunk(": later\n\n")).unwrap();
    client.read_until(&mut body, b": later\n\n");
    plays.send(Play::end()).unwrap();
    assert_eq!(body.next(&mut client.wire), Ok(None));
}

#[test]
fn what_clients_pass_over_is_not_taken_for_the_result() {
    let list = serde_json::to_string(MODERN_ONLY).unwrap();
    let (before, after) = (
        result(&list),
        result(&serde_json::to_string(MIXED).unwrap()),
    );
    for passed_over in [
        "id: 1\ndata\n\n".to_owned(),
        "id: 1\r\ndata: \r\n\r\n".to_owned(),
        "event: ping\ndata: 2026-11-30 12:00:00\n\n".to_owned(),
        // Clients read no message in an event of another type.
        format!("event: other\ndata: {before}\n\n"),
        format!(": data: {before}\n\n"),
    ] {
        let stream = |result: &str| format!("{passed_over}data: {result}\n\n");
        let (_, answer) = discover(MIXED, event_stream(&stream(&before)));
        assert_eq!(answer.text(), stream(&after), "{passed_over}");
    }
}

#[test]
fn what_offers_no_version_passes_as_it_came() {
    for body in [
        r#"{"jsonrpc":"2.0","id":"probe-1","error":{"code":-32601,"message":"no such method"}}"#,
        r#"{"jsonrpc":"2.0","id":"probe-1","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"probe-1","result":{"capabilities":{"supportedVersions":["2099-01-01"]}}}"#,
    ] {
        for reply in [
            Reply::json(200, body),
            event_stream(&format!("data: {body}\n\n")),
        ] {
            let (_, answer) = discover(MIXED, reply);
            assert_eq!(answer.status, 200);
            assert!(answer.text().contains(body), "{answer:?}");
        }
    }
}
