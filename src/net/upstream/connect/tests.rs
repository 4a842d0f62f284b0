//! Names and addresses, over real sockets of this machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use super::*;

/// Only waited for where something hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A name that has these addresses.
fn named(addresses: Vec<SocketAddr>) -> Resolve {
    Box::new(move |_, _| {
        let addresses = addresses.clone();
        Box::pin(async move { Ok(addresses) })
    })
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address on which nobody listens, on a host that no other test binds.
async fn closed() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.77:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// An address that answers nothing: a socket whose backlog is full. The sockets keep it so.
fn silent() -> (
    SocketAddr,
    Socket,
    Vec<std::io::Result<std::net::TcpStream>>,
) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 78], 0));
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let patience = Duration::from_millis(50);
    let filling = (0..4).map(|_| std::net::TcpStream::connect_timeout(&address, patience));
    let filling: Vec<_> = filling.collect();
    assert!(
        filling.iter().any(Result::is_err),
        "the backlog is not full"
    );
    (address, socket, filling)
}

async fn reached(addresses: Vec<SocketAddr>) -> Result<SocketAddr, Failure> {
    let resolve = named(addresses);
    let stream = timeout(PATIENCE, tcp(&resolve, "name", 1)).await;
    Ok(stream.expect("no end of trying")?.peer_addr().unwrap())
}

#[tokio::test]
async fn every_address_is_tried_until_one_answers() {
    let (_listener, open) = listener().await;
    let closed = closed().await;
    for addresses in [
        vec![open],
        vec![closed, open],
        vec![closed, closed, closed, open],
        vec![open, closed],
    ] {
        assert_eq!(reached(addresses).await.unwrap(), open);
    }
    for addresses in [vec![closed], vec![closed, closed]] {
        let failure = reached(addresses).await.unwrap_err();
        assert!(
            matches!(&failure, Failure::Connect(error)
            if error.kind() == io::ErrorKind::ConnectionRefused),
            "{failure:?}"
        );
    }
    let many = [vec![closed; ADDRESSES_MAX], vec![open]].concat();
    assert!(
        matches!(reached(many).await, Err(Failure::Connect(_))),
        "bounded"
    );
}

#[tokio::test]
async fn an_address_that_is_silent_holds_nobody_up() {
    let (_listener, open) = listener().await;
    let (silent, _socket, _filling) = silent();
    assert_eq!(reached(vec![silent, open]).await.unwrap(), open);
    assert_eq!(reached(vec![silent, silent, open]).await.unwrap(), open);
}

#[tokio::test]
async fn a_name_without_address_is_no_connection() {
    let failure = reached(Vec::new()).await.unwrap_err();
    assert!(matches!(failure, Failure::Resolve(_)), "{failure:?}");
    let resolve: Resolve = Box::new(|_, _| Box::pin(async { Err(io::Error::other("no answer")) }));
    let failure = tcp(&resolve, "name", 1).await.unwrap_err();
    assert_eq!(failure.detail(), "no answer");
}

#[tokio::test]
async fn what_is_given_up_is_tried_no_further() {
    let (silent, _socket, _filling) = silent();
    let (listener, open) = listener().await;
    let resolve = named(vec![silent, open]);
    // Given up before the second address is due.
    let given_up = timeout(NEXT_ADDRESS_AFTER / 10, tcp(&resolve, "name", 1)).await;
    assert!(given_up.is_err());
    let late = timeout(NEXT_ADDRESS_AFTER * 3, listener.accept()).await;
    assert!(late.is_err(), "nobody connects any more");
}

#[tokio::test]
async fn the_resolver_is_asked_each_time_and_by_the_right_name() {
    let (_first, first) = listener().await;
    let (_second, second) = listener().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let count = AtomicUsize::new(0);
    let asking = asked.clone();
    let resolve: Resolve = Box::new(move |host, port| {
        asking.lock().unwrap().push(format!("{host}:{port}"));
        let address = [first, second][count.fetch_add(1, Ordering::SeqCst)];
        Box::pin(async move { Ok(vec![address]) })
    });
    for expected in [first, second] {
        let stream = tcp(&resolve, "moves", 81).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), expected);
    }
    assert_eq!(*asked.lock().unwrap(), ["moves:81", "moves:81"]);
}

#[tokio::test]
async fn the_resolver_of_the_system_knows_this_machine() {
    let (_listener, open) = listener().await;
    let stream = tcp(&system(), "localhost", open.port()).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), open);
    assert!(SockRef::from(&stream).keepalive().unwrap());
    assert!(stream.nodelay().unwrap());
}

#[tokio::test]
async fn lookups_that_hang_take_no_more_than_their_share() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counting = begun.clone();
    let resolve = bounded(move |_, _| {
        let begun = counting.clone();
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    for _ in 0..5 {
        // Whoever asks gives up after a while, and others come.
        let asking: Vec<_> = (0..LOOKUPS_MAX).map(|_| resolve("hangs", 1)).collect();
        for asking in asking {
            let asked = timeout(Duration::from_millis(5), asking).await;
            assert!(asked.is_err());
        }
    }
    assert_eq!(begun.load(Ordering::SeqCst), LOOKUPS_MAX);
    // An address needs no lookup.
    let found = timeout(PATIENCE, resolve("::1", 80)).await;
    let expected = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 80));
    assert_eq!(found.expect("at once").unwrap(), [expected]);
}
