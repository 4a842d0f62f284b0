//! A connection against the library's own server: heads, windows, and the count of streams.

use h2::{RecvStream, server};
use http::HeaderName;
use http_body_util::{BodyExt, Full};
use tokio::io::duplex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::net::upstream::inbound;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

type Asked = (Request<RecvStream>, server::SendResponse<Bytes>);

/// A connection to a server that hands its requests over.
async fn connect(streams_max: usize) -> (Connection, UnboundedReceiver<Asked>) {
    let (ours, theirs) = duplex(1 << 20);
    let (asked, asking) = unbounded_channel();
    tokio::spawn(async move {
        let mut server = server::handshake(theirs).await.expect("a handshake");
        while let Some(request) = server.accept().await {
            let _ = asked.send(request.expect("a request"));
        }
    });
    let upstream = Upstream {
        http2_streams_max: streams_max,
        ..Upstream::at("up", "up", 80, "/")
    };
    let connection = Connection::over(ours, &upstream).await;
    (connection.expect("a connection"), asking)
}

fn request(method: Method, body: &'static str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_static("/mcp?x=1");
    let host = HeaderValue::from_static("up.example:81");
    request.headers_mut().insert(HOST, host);
    request
        .headers_mut()
        .insert("mcp-method", HeaderValue::from_static("ping"));
    request
}

#[tokio::test]
async fn a_head_is_that_of_http2() {
    let (connection, mut asking) = connect(100).await;
    for (method, body, length) in [
        (Method::POST, "{}", Some("2")),
        (Method::POST, "", Some("0")),
        (Method::GET, "", None),
    ] {
        let mut slot = connection.slot(100).expect("room");
        let sent = tokio::spawn(async move {
            let sent = slot.send(request(method, body), Some(60 * SECOND)).await;
            (sent, slot)
        });
        let (asked, mut answering) = asking.recv().await.expect("a request");
        let uri = asked.uri();
        assert_eq!(uri.scheme_str(), Some("http"));
        assert_eq!(uri.authority().expect("one").as_str(), "up.example:81");
        assert_eq!(uri.path_and_query().expect("one").as_str(), "/mcp?x=1");
        let names: Vec<_> = asked.headers().keys().map(HeaderName::as_str).collect();
        let told = asked.headers().get(CONTENT_LENGTH);
        assert_eq!(told.map(HeaderValue::as_bytes), length.map(str::as_bytes));
        let expected = ["mcp-method", "content-length"];
        assert_eq!(names, expected[..1 + usize::from(length.is_some())]);
        answering
            .send_response(Response::new(()), true)
            .expect("an answer");
        let (sent, slot) = sent.await.expect("no panic");
        let answer = sent.expect("an answer").into_body();
        assert!(answer.is_end_stream());
        slot.finish(SECOND);
    }
    assert!(!connection.streams.are_open());
}

#[tokio::test]
async fn a_reader_that_stops_takes_nothing_of_its_neighbours() {
    const STREAMS: usize = 4;
    let (connection, mut asking) = connect(STREAMS).await;
    tokio::spawn(async move {
        while let Some((_, mut answering)) = asking.recv().await {
            tokio::spawn(async move {
                let mut body = answering
                    .send_response(Response::new(()), false)
                    .expect("a stream");
                let mut left = Bytes::from(vec![7; 1 << 20]);
                while !left.is_empty() {
                    body.reserve_capacity(left.len());
                    let room = poll_fn(|cx| body.poll_capacity(cx)).await;
                    let Some(Ok(room)) = room else { return };
                    let _ = body.send_data(left.split_to(room), left.is_empty());
                }
            });
        }
    });
    let mut unread = Vec::new();
    for _ in 1..STREAMS {
        let mut slot = connection.slot(STREAMS).expect("room");
        let sent = slot
            .send(request(Method::POST, "{}"), Some(60 * SECOND))
            .await;
        unread.push((sent.expect("an answer"), slot));
    }
    let mut slot = connection.slot(STREAMS).expect("room");
    assert!(connection.slot(STREAMS).is_none(), "one too many");
    let sent = slot
        .send(request(Method::POST, "{}"), Some(60 * SECOND))
        .await;
    let answer = sent
        .expect("an answer")
        .map(|body| inbound::Inbound::Http2(Box::new(body)));
    let read = answer.into_body().collect().await.expect("an end");
    assert_eq!(read.to_bytes().len(), 1 << 20);
    drop((slot, unread));
    assert!(!connection.streams.are_open());
    assert!(connection.slot(STREAMS).is_some());
}

#[tokio::test]
async fn a_reset_before_the_end_breaks_an_answer_off() {
    for (ends, unsent) in [(false, true), (false, false), (true, true), (true, false)] {
        let (connection, mut asking) = connect(100).await;
        let mut slot = connection.slot(100).expect("room");
        // The upstream gives no window for the rest of the larger one.
        let body = Bytes::from(vec![b'x'; if unsent { 1 << 20 } else { 2 }]);
        let mut request = request(Method::POST, "").map(|_| Full::<Bytes>::from(body));
        request.headers_mut().remove(CONTENT_LENGTH);
        let sent = tokio::spawn(async move {
            let sent = slot.send(request, Some(60 * SECOND)).await;
            (sent, slot)
        });
        let (asked, mut answering) = asking.recv().await.expect("a request");
        let mut body = answering
            .send_response(Response::new(()), false)
            .expect("a stream");
        body.send_data(Bytes::from_static(b"half"), ends)
            .expect("room");
        let (sent, _slot) = sent.await.expect("no panic");
        let mut answer = sent.expect("an answer").into_body();
        let data = poll_fn(|cx| answer.poll_data(cx)).await;
        assert_eq!(data.expect("data").expect("no fault"), "half");
        body.send_reset(Reason::NO_ERROR);
        let end = poll_fn(|cx| answer.poll_data(cx)).await;
        let what = format!("ended: {ends}, unsent: {unsent}, {end:?}");
        assert_eq!(end.is_none(), ends, "{what}");
        assert_eq!(end.is_some_and(|end| end.is_err()), !ends, "{what}");
        drop(asked);
    }
}

#[test]
fn an_idle_connection_ends_once_and_takes_nothing_then() {
    let begun = Instant::now();
    let streams = Streams::starting_at(begun);
    assert!(!streams.end(begun + SECOND, 2 * SECOND, DAY));
    assert_eq!(streams.open_one(2), Some(false), "the first ever");
    assert_eq!(streams.open_one(2), Some(true));
    assert_eq!(streams.open_one(2), None, "full");
    assert!(!streams.end(begun + 3600 * SECOND, 2 * SECOND, DAY));
    streams.close_one();
    streams.close_one();
    assert!(!streams.end(begun + SECOND, 2 * SECOND, DAY), "idle anew");
    assert!(streams.end(begun + 3600 * SECOND, 2 * SECOND, DAY));
    assert_eq!(streams.open_one(2), None, "ended");
}

#[test]
fn an_old_connection_takes_no_more_and_ends_with_its_streams() {
    let made = Instant::now();
    let streams = Streams::starting_at(made);
    for first in [true, false] {
        assert_eq!(streams.open_one(2), Some(!first));
        assert!(!streams.end(made + 4 * SECOND, DAY, 5 * SECOND), "young");
    }
    streams.close_one();
    assert!(!streams.end(made + 5 * SECOND, DAY, 5 * SECOND), "in use");
    assert_eq!(streams.open_one(2), None, "too old");
    streams.close_one();
    assert!(streams.end(made + 5 * SECOND, DAY, 5 * SECOND));
}
