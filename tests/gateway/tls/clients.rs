//! What a handshake agrees on, and what ends it.

use std::io::Write as _;
use std::net::TcpStream;

use bytes::Bytes;
use http::header::CONTENT_TYPE;

use super::Shop;
use crate::harness::tunnel::{Offer, RUNTIME};
use crate::harness::{Client, Fault, MODERN, Request, Upstream};

#[test]
fn a_call_over_tls_is_served() {
    let shop = Shop::new();
    let (mut client, agreed) = shop
        .papers
        .offer()
        .connect(shop.gateway.address)
        .expect("a handshake");
    assert_eq!(agreed.protocol.as_deref(), Some("http/1.1"));
    assert_eq!(agreed.version, Some(rustls::ProtocolVersion::TLSv1_3));
    for _ in 0..3 {
        assert_eq!(client.exchange(&Request::call("t")).status, 200);
    }
    let received = shop.upstream.last();
    assert_eq!(
        received.head.value("x-forwarded-proto").as_deref(),
        Some("https")
    );
    // All of it on one connection, and no other was noted.
    assert_eq!(shop.gateway.wait_for_records(3).len(), 3);
    shop.gateway.wait_for_line("listening on https://");
}

#[test]
fn a_client_chooses_among_versions_and_protocols() {
    let shop = Shop::new();
    let offer = || shop.papers.offer();
    for (offer, version, protocol) in [
        (
            offer().older(),
            rustls::ProtocolVersion::TLSv1_2,
            Some("http/1.1"),
        ),
        (
            offer().protocols(&[]),
            rustls::ProtocolVersion::TLSv1_3,
            None,
        ),
        (
            offer().protocols(&["http/1.1", "h2"]),
            rustls::ProtocolVersion::TLSv1_3,
            Some("h2"),
        ),
    ] {
        let (mut client, agreed) = offer.connect(shop.gateway.address).expect("a handshake");
        assert_eq!(agreed.version, Some(version));
        assert_eq!(agreed.protocol.as_deref(), protocol);
        if protocol != Some("h2") {
            assert_eq!(client.exchange(&Request::call("t")).status, 200);
        }
    }
    // One that speaks nothing of ours is told so in the handshake.
    let stranger = offer().protocols(&["h3"]).connect(shop.gateway.address);
    assert!(stranger.is_err());
    let reasons = shop.reasons(1);
    assert!(
        reasons.contains(&"tls_handshake_failed".to_owned()),
        "{reasons:?}"
    );
}

/// A call over HTTP/2, and the status of its answer.
async fn call_over_http2(offer: &Offer, address: std::net::SocketAddr) -> (u16, Bytes) {
    let stream = offer.shake(address).await.expect("a handshake");
    let (client, driver) = h2::client::handshake(stream).await.expect("HTTP/2");
    let driving = tokio::spawn(driver);
    let mut client = client.ready().await.expect("room");
    let call = Request::call("t");
    let mut request = http::Request::post("https://127.0.0.1/mcp")
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "application/json, text/event-stream");
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let line = call
            .lines
            .iter()
            .find(|(line, _)| line.eq_ignore_ascii_case(name))
            .expect("a header");
        request = request.header(name, &line.1[..]);
    }
    let request = request.body(()).expect("a request");
    let (answer, mut upload) = client.send_request(request, false).expect("a stream");
    upload.send_data(call.body.into(), true).expect("a body");
    let answer = answer.await.expect("an answer");
    let status = answer.status().as_u16();
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        bytes.extend_from_slice(&piece.expect("a piece"));
    }
    // The library keeps a connection for as long as anything of it is held.
    drop((client, upload, body));
    driving.await.expect("no panic").expect("a good end");
    (status, bytes.into())
}

#[test]
fn http2_is_served_where_the_handshake_chose_it() {
    let shop = Shop::new();
    let offer = shop.papers.offer().protocols(&["h2"]);
    let (status, body) = RUNTIME.block_on(call_over_http2(&offer, shop.gateway.address));
    assert_eq!(status, 200, "{body:?}");
    assert_eq!(shop.upstream.runs("t"), 1);
    let received = shop.upstream.last();
    assert_eq!(
        received.head.value("x-forwarded-proto").as_deref(),
        Some("https")
    );
    assert_eq!(
        received.head.value("mcp-protocol-version").as_deref(),
        Some(MODERN)
    );
}

#[test]
fn a_client_that_is_not_encrypted_is_told_so() {
    let shop = Shop::new();
    let answer = shop.gateway.ask(&Request::call("t"));
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text().contains("https://"), "{answer:?}");
    // Whatever else is no handshake ends as well.
    for bytes in [&b"\x00\x01\x02"[..], b"SSH-2.0-x\r\n"] {
        let mut client = Client::connect(shop.gateway.address);
        client.send_bytes(bytes);
        let ended = client.wire.ending();
        assert!(matches!(ended, Fault::Closed(_)), "{ended:?}");
    }
    assert_eq!(shop.reasons(3), ["not_tls"; 3]);
    assert_eq!(shop.upstream.request_count(), 0);
}

#[test]
fn a_handshake_that_does_not_end_is_ended() {
    let shop = Shop::with(Upstream::start(), &[], |policy| {
        policy.listen("handshake_timeout", "100ms")
    });
    // Nothing, a part of a record, and a record that is none.
    let silent = TcpStream::connect(shop.gateway.address).unwrap();
    let mut slow = TcpStream::connect(shop.gateway.address).unwrap();
    slow.write_all(b"\x16\x03\x01\x02\x00\x01\x00").unwrap();
    let mut wrong = TcpStream::connect(shop.gateway.address).unwrap();
    wrong.write_all(b"\x16\x03\x01\x00\x05hello").unwrap();
    // Nobody else waits for them.
    assert_eq!(shop.connect().exchange(&Request::call("t")).status, 200);
    let mut reasons = shop.reasons(3);
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "tls_handshake_failed",
            "tls_handshake_timeout",
            "tls_handshake_timeout"
        ]
    );
    for stream in [silent, slow, wrong] {
        let mut client = Client {
            wire: crate::harness::wire::Wire::new(stream, crate::harness::wire::PATIENCE),
        };
        assert_ne!(client.wire.ending(), Fault::Silence);
    }
}

#[test]
fn a_client_that_does_not_trust_us_or_goes_is_noted() {
    let shop = Shop::new();
    let stranger = crate::harness::certificates::Authority::new("stranger");
    let refused = Offer::trusting(&stranger).connect(shop.gateway.address);
    assert!(refused.is_err());
    assert_eq!(shop.reasons(1), ["tls_refused_by_client"]);
    let record = &shop.gateway.wait_for_connections(1)[0];
    let detail = record["detail"].as_str().unwrap();
    assert!(detail.contains("UnknownCA"), "{record}");
    drop(TcpStream::connect(shop.gateway.address).unwrap());
    assert_eq!(shop.reasons(2)[1], "tls_handshake_closed");
}
