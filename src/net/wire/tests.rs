//! The two halves of a connection, polled by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, duplex};
use tokio::task::yield_now;

use super::*;

impl Peer for DuplexStream {
    /// It tells nothing before what is unread was read.
    fn poll_ended(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn reset_on_drop(&self) {}
}

/// How often the connection's task was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A connection whose task is the test, and the client's end of it.
struct Connection {
    client: DuplexStream,
    wire: Wire<DuplexStream>,
    watch: Watch<DuplexStream>,
    wakes: Arc<Wakes>,
}

impl Connection {
    /// At most `capacity` bytes are on the way in either direction.
    fn new(capacity: usize) -> Connection {
        let (client, server) = duplex(capacity);
        let (wire, watch) = wire(server);
        let wakes = Arc::default();
        Connection {
            client,
            wire,
            watch,
            wakes,
        }
    }

    /// Whether something that was waited for has come since the last call.
    fn woken(&self) -> bool {
        self.wakes.0.swap(0, Ordering::SeqCst) > 0
    }

    fn poll<T>(&mut self, poll: impl FnOnce(&mut Connection, &mut Context<'_>) -> T) -> T {
        let waker = Waker::from(self.wakes.clone());
        poll(self, &mut Context::from_waker(&waker))
    }

    fn client_writes(&mut self, bytes: &[u8]) -> usize {
        self.poll(
            |this, cx| match Pin::new(&mut this.client).poll_write(cx, bytes) {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) | Poll::Pending => 0,
            },
        )
    }

    fn begin_turn(&mut self) {
        self.poll(|this, cx| this.watch.begin_turn(cx));
    }

    /// A turn in which the library does not read.
    fn gone(&mut self) -> bool {
        self.begin_turn();
        self.poll(|this, cx| this.watch.poll_gone(cx).is_ready())
    }

    /// What the library reads in a turn, `None` if it has to wait.
    fn library_reads(&mut self, most: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; most];
        let mut buf = ReadBuf::new(&mut bytes);
        self.begin_turn();
        let read = self.poll(|this, cx| Pin::new(&mut this.wire).poll_read(cx, &mut buf));
        read.is_ready().then(|| buf.filled().to_vec())
    }

    fn library_writes(&mut self, bytes: &[u8]) -> Option<usize> {
        let wrote = self.poll(|this, cx| Pin::new(&mut this.wire).poll_write(cx, bytes));
        match wrote {
            Poll::Ready(count) => Some(count.unwrap()),
            Poll::Pending => None,
        }
    }

    fn shut_down(&mut self) -> bool {
        self.poll(|this, cx| Pin::new(&mut this.wire).poll_shutdown(cx).is_ready())
    }
}

#[test]
fn what_is_read_ahead_is_kept_for_the_library() {
    let mut connection = Connection::new(64);
    assert!(!connection.gone());
    connection.client_writes(b"\r\n");
    assert!(connection.woken(), "the task looks again");
    assert!(!connection.gone());
    connection.client_writes(b"GET /");
    assert!(!connection.gone());
    assert_eq!(connection.library_reads(3).unwrap(), b"\r\nG");
    assert_eq!(connection.library_reads(64).unwrap(), b"ET /");
    assert_eq!(connection.library_reads(64), None);
    assert_eq!(connection.watch.received(), 7);
}

#[tokio::test]
async fn a_client_that_has_gone_is_noticed_and_what_it_sent_kept() {
    for last_words in [&b""[..], b"\r\n", b"POST /mcp"] {
        let mut connection = Connection::new(64);
        assert!(!connection.gone());
        connection.client.write_all(last_words).await.unwrap();
        connection.client.shutdown().await.unwrap();
        assert!(connection.woken());
        assert!(connection.gone(), "{last_words:?}");
        let kept = connection.library_reads(64).unwrap();
        assert_eq!(kept, last_words);
        assert!(connection.gone(), "and stays so");
    }
}

#[test]
fn an_end_that_the_library_will_see_is_left_to_it() {
    let mut connection = Connection::new(64);
    assert_eq!(connection.library_reads(64), None);
    connection.client = duplex(1).0;
    assert!(connection.woken());
    // The same turn goes on: the library waits for input, and was not asked again.
    assert!(!connection.poll(|this, cx| this.watch.poll_gone(cx).is_ready()));
    assert_eq!(connection.library_reads(64).unwrap(), b"");
    assert!(connection.poll(|this, cx| this.watch.poll_gone(cx).is_ready()));
}

#[test]
fn the_read_ahead_is_bounded_and_goes_on_when_it_was_read() {
    let mut connection = Connection::new(1 << 20);
    let sent: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    assert_eq!(connection.client_writes(&sent), sent.len());
    for _ in 0..3 {
        assert!(!connection.gone());
        assert!(connection.watch.is_full());
        assert_eq!(connection.watch.received(), AHEAD_BYTES_MAX as u64);
    }
    connection.client = duplex(1).0;
    assert!(!connection.gone(), "hidden behind what was sent");
    let mut read = Vec::new();
    while read.len() < sent.len() {
        read.extend(connection.library_reads(1000).unwrap());
    }
    assert_eq!(read, sent);
    assert!(!connection.watch.is_full());
    assert!(connection.gone());
}

#[test]
fn a_connection_is_idle_between_exchanges() {
    let mut connection = Connection::new(16);
    let idle = |connection: &Connection| connection.watch.idle().map(|idle| idle.head_begun);
    assert_eq!(idle(&connection), Some(false));
    connection.client_writes(b"POST");
    assert_eq!(connection.library_reads(64).unwrap(), b"POST");
    assert_eq!(idle(&connection), Some(true));
    let exchange = connection.watch.begin_exchange();
    assert_eq!((idle(&connection), connection.watch.exchanges()), (None, 1));
    drop(exchange);
    assert_eq!(idle(&connection), Some(false), "the next head is another");
    connection.client_writes(b"P");
    assert!(!connection.gone());
    assert_eq!(idle(&connection), Some(true));
}

#[tokio::test]
async fn a_connection_is_not_idle_while_an_answer_is_unwritten() {
    let mut connection = Connection::new(16);
    let mut exchange = connection.watch.begin_exchange();
    let mut written =
        |connection: &mut Connection| connection.poll(|_, cx| exchange.poll_written(cx).is_ready());
    assert_eq!(connection.library_writes(&[7; 20]), Some(16));
    connection.begin_turn();
    assert!(
        !written(&mut connection),
        "this turn may have written before"
    );
    assert!(
        connection.woken(),
        "the connection's task is to have another"
    );
    for turn in 1..=2 {
        connection.begin_turn();
        assert!(connection.woken(), "who waits looks again");
        assert_eq!(written(&mut connection), turn == 2);
    }
    assert_eq!(connection.library_writes(&[7; 4]), None);
    connection.woken();
    for _ in 0..100 {
        assert!(!written(&mut connection));
        connection.begin_turn();
        assert!(!connection.woken(), "no turn calls for the next");
    }
    assert!(!written(&mut connection));
    let before = Instant::now();
    assert!(connection.watch.blocked_since().unwrap() <= before);
    connection.client.read_exact(&mut [0; 16]).await.unwrap();
    assert!(connection.woken(), "the library can write again");
    assert_eq!(connection.library_writes(&[7; 4]), Some(4));
    assert!(connection.woken(), "and who waited for that looks again");
    assert!(written(&mut connection));
    assert_eq!(connection.watch.written(), 20);
    // The same once the exchange is over.
    assert_eq!(connection.library_writes(&[7; 13]), Some(12));
    assert_eq!(connection.library_writes(&[7]), None);
    drop(exchange);
    assert_eq!(connection.watch.idle(), None);
    connection.client.read_exact(&mut [0; 16]).await.unwrap();
    assert_eq!(connection.library_writes(&[7]), Some(1));
    assert_eq!(connection.watch.blocked_since(), None);
    assert!(connection.watch.idle().unwrap().since >= before);
}

#[test]
fn the_first_bytes_tell_the_protocol() {
    let protocol = |connection: &mut Connection| {
        connection.poll(|this, cx| match this.watch.poll_protocol(cx) {
            Poll::Ready(protocol) => Some(protocol),
            Poll::Pending => None,
        })
    };
    for at in 0..PREFACE.len() {
        let mut connection = Connection::new(64);
        assert_eq!(protocol(&mut connection), None);
        connection.client_writes(&PREFACE[..at]);
        assert_eq!(protocol(&mut connection), None, "{at} bytes of it");
        let mut other = connection;
        other.client_writes(b"!");
        assert_eq!(protocol(&mut other), Some(Protocol::Http1), "{at}");
        let kept = other.library_reads(64).unwrap();
        assert_eq!(kept, [&PREFACE[..at], b"!"].concat());
    }
    let mut connection = Connection::new(64);
    connection.client_writes(&[PREFACE, b"more"].concat());
    assert_eq!(protocol(&mut connection), Some(Protocol::Http2));
    assert_eq!(connection.library_reads(64).unwrap().len(), 28);
    let mut connection = Connection::new(64);
    connection.client_writes(b"PRI");
    connection.client = duplex(1).0;
    assert_eq!(
        protocol(&mut connection),
        Some(Protocol::Http1),
        "no more comes"
    );
}

#[test]
fn a_head_is_kept_as_it_stood() {
    const HEAD: &[u8] = b"\r\nPOST / HTTP/1.1\r\nCONTENT-length: 5\r\nX: y\r\n\r\nZ: body\r\n";
    let mut connection = Connection::new(4096);
    // In pieces, of which the first was read ahead.
    connection.client_writes(&HEAD[..30]);
    assert!(!connection.gone());
    assert_eq!(connection.library_reads(64).unwrap(), &HEAD[..30]);
    connection.client_writes(&HEAD[30..]);
    assert_eq!(connection.library_reads(4096).unwrap(), &HEAD[30..]);
    let had = |connection: &Connection, name| connection.watch.head_had("POST", name);
    assert!(had(&connection, "content-length") && had(&connection, "x"));
    for name in ["content-lengt", "post / http/1.1", "z", "", "y"] {
        assert!(!had(&connection, name), "{name}");
    }
    assert!(!connection.watch.head_had("GET", "x"), "of another request");
    let exchange = connection.watch.begin_exchange();
    assert!(!had(&connection, "x"), "of the one before");
    connection.client_writes(HEAD);
    connection.library_reads(4096);
    drop(exchange);
    assert!(!had(&connection, "x"), "came while another was in flight");
}

#[tokio::test]
async fn a_closed_connection_lingers_until_the_client_ends_it_or_sends_too_much() {
    for ends in [true, false] {
        let mut connection = Connection::new(1 << 20);
        connection.client_writes(b"still sending");
        assert!(!connection.shut_down());
        assert_eq!(connection.client.read(&mut [0; 8]).await.unwrap(), 0);
        let mut sent = 0;
        while sent < LINGER_BYTES_MAX / 2 {
            sent += connection.client_writes(&[0; 1 << 16]);
            assert!(!connection.shut_down(), "after {sent} bytes");
            // A task that never pauses is told that nothing is ready.
            yield_now().await;
        }
        assert!(!connection.gone(), "this is no exchange any more");
        if ends {
            connection.client = duplex(1).0;
        }
        while !connection.shut_down() {
            assert!(!ends && sent <= LINGER_BYTES_MAX, "after {sent} bytes");
            sent += connection.client_writes(&[0; 1 << 16]);
            yield_now().await;
        }
    }
}

proptest! {
    /// Whoever reads and whenever: the library gets every byte once and in order.
    #[test]
    fn the_library_reads_what_was_sent(
        turns in prop::collection::vec((0..9000_usize, any::<bool>(), 1..9000_usize), 0..40),
    ) {
        let mut connection = Connection::new(24 << 10);
        let (mut sent, mut read) = (Vec::new(), Vec::new());
        for (writes, library, most) in turns {
            let bytes: Vec<u8> = (0..writes).map(|n| (sent.len() + n) as u8).collect();
            let count = connection.client_writes(&bytes);
            sent.extend_from_slice(&bytes[..count]);
            if library {
                read.extend(connection.library_reads(most).unwrap_or_default());
            }
            prop_assert!(!connection.gone());
        }
        connection.client = duplex(1).0;
        while let Some(bytes) = connection.library_reads(4096).filter(|bytes| !bytes.is_empty()) {
            read.extend(bytes);
        }
        prop_assert_eq!(connection.watch.received(), sent.len() as u64);
        prop_assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
    }
}

#[test]
fn what_a_stream_has_taken_and_keeps_is_not_written() {
    // As one that encrypts does: it takes more than it passes on.
    let (mut client, server) = duplex(4);
    let (mut wire, watch) = wire(BufWriter::with_capacity(64, server));
    let mut exchange = watch.begin_exchange();
    let waker = Waker::from(Arc::<Wakes>::default());
    let cx = &mut Context::from_waker(&waker);
    let turn = |cx: &mut Context<'_>| watch.begin_turn(cx);
    turn(cx);
    assert!(matches!(
        Pin::new(&mut wire).poll_write(cx, b"answer"),
        Poll::Ready(Ok(6))
    ));
    assert!(Pin::new(&mut wire).poll_flush(cx).is_pending());
    for _ in 0..4 {
        turn(cx);
        assert!(exchange.poll_written(cx).is_pending());
    }
    assert!(watch.idle().is_none() && watch.blocked_since().is_some());
    let mut bytes = [0; 8];
    let mut buf = ReadBuf::new(&mut bytes);
    assert!(Pin::new(&mut client).poll_read(cx, &mut buf).is_ready());
    assert!(Pin::new(&mut wire).poll_flush(cx).is_ready());
    assert!(exchange.poll_written(cx).is_ready());
    assert!(watch.blocked_since().is_none());
}
