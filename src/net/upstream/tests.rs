//! What a pool keeps, and for how long.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

type Kind = Full<Bytes>;

#[test]
fn a_connection_looks_often_enough_and_not_too_often() {
    let ms = Duration::from_millis;
    for (shortest, interval) in [
        (4 * SECOND, SECOND),
        (ms(300), ms(75)),
        (ms(200), ms(50)),
        (ms(1), LOOK_MIN),
        (3600 * SECOND, LOOK_MAX),
    ] {
        assert_eq!(look_interval(shortest), interval, "{shortest:?}");
    }
}

fn pool(idle_connections_max: usize, idle_timeout: Duration) -> Arc<Pool<Kind>> {
    let upstream = Upstream {
        response_header_timeout: 3600 * SECOND,
        idle_timeout,
        idle_connections_max,
        ..Upstream::at("up", "up", 80, "/")
    };
    Pool::new(Arc::new(upstream), None)
}

fn patient_pool(idle_connections_max: usize) -> Arc<Pool<Kind>> {
    pool(idle_connections_max, 3600 * SECOND)
}

/// An HTTP/1.1 connection in use, and the upstream's end of it.
async fn lease(pool: &Arc<Pool<Kind>>) -> (Lease<Kind>, DuplexStream) {
    let (ours, theirs) = duplex(1024);
    let connection = http1::Connection::over(ours, &pool.upstream).await;
    let line = Line::Http1(connection.expect("a connection"));
    (pool.leased(false, line), theirs)
}

fn is_closed(lease: &Lease<Kind>) -> bool {
    matches!(&lease.line, Line::Http1(connection) if connection.is_closed())
}

/// Reads to the end, which must come.
async fn ends(mut theirs: DuplexStream) {
    let read = theirs.read_to_end(&mut Vec::new()).await;
    assert_eq!(read.expect("an end"), 0);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_allowed() {
    for (max, used, kept) in [(0, 1, 0), (1, 1, 1), (2, 5, 2), (8, 5, 5)] {
        let pool = patient_pool(max);
        let mut upstream = Vec::new();
        for _ in 0..used {
            let (lease, theirs) = lease(&pool).await;
            lease.give_back();
            upstream.push(theirs);
        }
        assert_eq!(pool.lock().http1.len(), kept);
        for theirs in upstream.split_off(kept) {
            ends(theirs).await;
        }
        assert!(pool.lock().http1.iter().all(|kept| !kept.is_closed()));
    }
}

#[tokio::test]
async fn the_connection_that_was_used_last_is_used_first() {
    let pool = patient_pool(8);
    let mut upstream = Vec::new();
    for _ in 0..3 {
        let (lease, theirs) = lease(&pool).await;
        lease.give_back();
        upstream.push(theirs);
    }
    while let Some(theirs) = upstream.pop() {
        let lease = pool.lease().await.expect("a kept connection");
        assert!(lease.reused());
        drop(lease);
        ends(theirs).await;
    }
    assert!(pool.take().is_none());
}

#[tokio::test]
async fn a_connection_that_is_not_fresh_is_not_used_again() {
    let pool = pool(8, Duration::from_millis(1));
    let (lease, theirs) = lease(&pool).await;
    lease.give_back();
    // Whether or not its own task has looked meanwhile.
    sleep(Duration::from_millis(3)).await;
    assert!(pool.take().is_none());
    ends(theirs).await;
}

#[tokio::test]
async fn a_connection_that_its_upstream_closed_makes_room() {
    let pool = patient_pool(2);
    let mut upstream = Vec::new();
    for _ in 0..2 {
        let (lease, theirs) = lease(&pool).await;
        lease.give_back();
        upstream.push(theirs);
    }
    upstream.pop();
    while !pool.lock().http1[1].is_closed() {
        yield_now().await;
    }
    let (third, _theirs) = lease(&pool).await;
    third.give_back();
    let open = |kept: &&http1::Connection<Kind>| !kept.is_closed();
    assert_eq!(pool.lock().http1.iter().filter(open).count(), 2);
    // Nor is one kept that was closed while it was in use.
    let (fourth, theirs) = lease(&pool).await;
    drop(theirs);
    while !is_closed(&fourth) {
        yield_now().await;
    }
    let before = pool.lock().http1.len();
    fourth.give_back();
    assert_eq!(pool.lock().http1.len(), before);
}

#[tokio::test]
async fn a_lease_that_is_dropped_ends_its_connection() {
    let pool = patient_pool(8);
    let (lease, theirs) = lease(&pool).await;
    drop(lease);
    ends(theirs).await;
    assert!(pool.lock().http1.is_empty());
}

#[tokio::test]
async fn a_connection_ends_at_its_age_however_short_it_rests() {
    let (idle_timeout, age_max) = (4 * SECOND, 10 * SECOND);
    for (rests_after, kept_until) in [
        (3 * SECOND, Some(7 * SECOND)),
        (9 * SECOND, Some(10 * SECOND)),
        (10 * SECOND, None),
    ] {
        let (ours, _theirs) = duplex(1024);
        let before = Instant::now();
        let upstream = Upstream::at("up", "up", 80, "/");
        let connection = http1::Connection::<Kind>::over(ours, &upstream).await;
        let connection = connection.expect("a connection");
        let made = Instant::now();
        let kept = connection.rest(made + rests_after, idle_timeout, age_max);
        assert_eq!(kept, kept_until.is_some(), "{rests_after:?}");
        if let Some(until) = kept_until {
            assert!(!connection.is_stale(before + until - SECOND / 100));
            assert!(connection.is_stale(made + until), "{rests_after:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_grew_old_in_use_is_not_kept() {
    let upstream = Upstream {
        connection_age_max: Duration::from_millis(1),
        ..Upstream::at("up", "up", 80, "/")
    };
    let pool = Pool::new(Arc::new(upstream), None);
    let (lease, theirs) = lease(&pool).await;
    sleep(Duration::from_millis(3)).await;
    assert!(!is_closed(&lease), "it is in use");
    lease.give_back();
    assert!(pool.lock().http1.is_empty());
    ends(theirs).await;
}

/// A server that answers every request on every connection, and ends none; how many it took.
async fn server(http: Http) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("a bound socket");
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            match http {
                Http::V2 => tokio::spawn(answer2(stream)),
                Http::V1 | Http::Auto => tokio::spawn(answer1(stream)),
            };
        }
    });
    (address, count)
}

async fn answer1(mut stream: TcpStream) {
    let mut room = [0; 1024];
    while let Ok(1..) = stream.read(&mut room).await {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer).await;
    }
}

async fn answer2(stream: TcpStream) {
    let mut server = h2::server::handshake(stream).await.expect("a handshake");
    while let Some(Ok((_, mut answering))) = server.accept().await {
        let _ = answering.send_response(Response::new(()), true);
    }
}

/// An upstream whose name leads to the address that is written into what comes with it.
fn moving(upstream: Upstream, first: SocketAddr) -> (Arc<Pool<Kind>>, Arc<Mutex<SocketAddr>>) {
    let now = Arc::new(Mutex::new(first));
    let name = now.clone();
    let resolve: connect::Resolve = Box::new(move |_, _| {
        let address = *name.lock().expect("no panic");
        Box::pin(async move { Ok(vec![address]) })
    });
    (Pool::resolving(Arc::new(upstream), None, resolve), now)
}

/// One exchange, to its end. Tells whether its connection had served another.
async fn ask(pool: &Arc<Pool<Kind>>) -> bool {
    let mut request = Request::new(Kind::default());
    let host = http::HeaderValue::from_static("moves");
    request.headers_mut().insert(http::header::HOST, host);
    let (answer, lease) = pool.send(request, None).await.expect("an answer");
    assert!(answer.into_body().is_end_stream());
    let reused = lease.reused();
    lease.give_back();
    reused
}

#[tokio::test]
async fn a_name_that_moves_is_followed_by_new_connections() {
    let (before, old) = server(Http::V1).await;
    let (after, new) = server(Http::V1).await;
    let idle_timeout = Duration::from_millis(100);
    let upstream = Upstream {
        idle_timeout,
        ..Upstream::at("up", "moves", 80, "/")
    };
    let (pool, now) = moving(upstream, before);
    ask(&pool).await;
    *now.lock().expect("no panic") = after;
    // What is in use goes on, and what is idle ends.
    ask(&pool).await;
    while pool.lock().http1.iter().any(|kept| !kept.is_closed()) {
        sleep(idle_timeout / 10).await;
    }
    ask(&pool).await;
    let counts = [&old, &new].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1]);
}

#[tokio::test]
async fn a_name_that_moves_is_followed_under_steady_use() {
    for http in [Http::V1, Http::V2] {
        let (before, old) = server(http).await;
        let (after, new) = server(http).await;
        let upstream = Upstream {
            idle_timeout: 3600 * SECOND,
            connection_age_max: Duration::from_millis(200),
            http,
            ..Upstream::at("up", "moves", 80, "/")
        };
        let (pool, now) = moving(upstream, before);
        ask(&pool).await;
        *now.lock().expect("no panic") = after;
        let mut reused = 0;
        while new.load(Ordering::SeqCst) == 0 {
            reused += usize::from(ask(&pool).await);
            assert!(reused < 100_000, "{http:?}: it is never left");
            sleep(Duration::from_millis(1)).await;
        }
        assert!(reused > 0, "{http:?}: nothing was kept");
        assert_eq!(old.load(Ordering::SeqCst), 1, "{http:?}");
    }
}
