//! Clients that go while a stream is silent, full of comments, or held up by themselves; and what
//! does not end with them.

use serde_json::json;

use super::pressure::{Torrent, narrow};
use crate::harness::{Client, Gateway, Play, Reply, Request, Site, Upstream};

type Way = fn(Client) -> Option<Client>;

/// The ways to leave; a socket that is only ended on one side is given back, so that it stays open.
const WAYS: [(&str, Way); 3] = [
    ("fin", |client| {
        client.wire.finish();
        Some(client)
    }),
    ("close", |_| None),
    ("reset", |client| {
        client.wire.reset();
        None
    }),
];

#[test]
fn a_client_goes_that_was_not_reading() {
    for (way, leave) in WAYS {
        let torrent = Torrent::start();
        let gateway = Gateway::start(&torrent.policy());
        let mut client = narrow(&gateway);
        client.send(&Request::call("torrent"));
        client.read_head();
        torrent.wait_for_standstill();
        assert!(!torrent.is_broken(), "{way}: it stands, and is not broken");
        let kept = leave(client);
        let took = torrent.wait_for_break();
        println!("{way}: the upstream's stream was broken off after {took:?}");
        let record = &gateway.wait_for_records(1)[0];
        assert_eq!(record["end"], "client_gone", "{way}: {record}");
        drop(kept);
    }
}

#[test]
fn a_client_goes_while_its_stream_is_silent() {
    for keep_alive in ["off", "20ms"] {
        let upstream = Upstream::with(|_| Reply::Steps(vec![Play::sse_head()]));
        let site = Site::before(upstream, |policy| {
            policy
                .set("/routes/0/streams/keep_alive", json!(keep_alive))
                .set("/routes/0/deadline/call", json!("1h"))
        });
        for request in [
            Request::call("echo"),
            Request::modern("subscriptions/listen", json!({})),
            Request::legacy_call("echo"),
            Request::get(),
        ] {
            for (way, leave) in WAYS {
                let mut client = site.gateway.connect();
                client.send(&request);
                client.read_head();
                let kept = leave(client);
                let connection = site.upstream.last().connection;
                site.upstream.wait("the end of the stream", |log| {
                    log.ended(connection).is_some()
                });
                let record = &site.records(1)[0];
                assert_eq!(record["end"], "client_gone", "{way}: {record}");
                drop(kept);
            }
        }
        assert_eq!(site.upstream.log().open(), 0);
    }
}

#[test]
fn a_legacy_client_that_goes_ends_no_more_than_its_connection() {
    let upstream = Upstream::with(|request| {
        match (
            request.method.as_str(),
            request.json()["params"]["name"].as_str(),
        ) {
            ("GET", _) | (_, Some("slow")) => {
                Reply::Steps(vec![Play::sse_head(), Play::chunk("data: 1\n\n")])
            }
            _ => Reply::usual(request),
        }
    });
    let site = Site::before(upstream, |policy| policy);
    let answer = site.gateway.ask(&Request::initialize("2025-11-25"));
    let session = answer.head.value("mcp-session-id").unwrap();
    let open = |request: Request| {
        let before = site.upstream.request_count();
        let mut client = site.gateway.connect();
        client.send(&request.header("Mcp-Session-Id", &session));
        let (_, mut body) = client.read_head();
        client.read_until(&mut body, b"data: 1\n\n");
        assert_eq!(site.upstream.request_count(), before + 1);
        (client, site.upstream.last().connection)
    };
    let (_stays, kept) = open(Request::get());
    let (_other, also_kept) = open(Request::legacy_call("slow"));
    for (_, leave) in WAYS {
        for request in [Request::legacy_call("slow"), Request::get()] {
            let (client, connection) = open(request);
            let client = leave(client);
            site.upstream.wait("the end of its connection", |log| {
                log.ended(connection).is_some()
            });
            drop(client);
        }
    }
    let request = Request::legacy_call("good").header("Mcp-Session-Id", &session);
    assert_eq!(
        site.gateway.ask(&request).status,
        200,
        "the session goes on"
    );
    let log = site.upstream.log();
    for connection in [kept, also_kept] {
        assert_eq!(log.ended(connection), None, "so do its other streams");
    }
    for request in &log.requests {
        assert_ne!(request.method, "DELETE", "nobody ended the session");
        let method = request.json()["method"].clone();
        assert_ne!(method, "notifications/cancelled", "nobody cancelled");
    }
}
