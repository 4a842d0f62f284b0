//! Accepting clients, and the life of one connection over HTTP/1.1.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use super::alarm::Alarm;
use super::wire::{InFlight, Watch, wire};
use crate::policy::plan::Listen;

/// The pause after a failed accept doubles between these: with no descriptor left, trying again at
/// once would only burn the processor.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The HTTP library answers a head over its own limits with a bare 431; ours lie well below these,
/// and say which limit it was. Up to this number it keeps header fields on its stack.
const LIBRARY_HEADERS: usize = 100;
const LIBRARY_BUFFER_MIN: usize = 128 << 10;

/// How often a client is looked for that has sent more than is read ahead of its exchange: its end
/// stands behind that.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Whom a connection leads to, and over what.
#[derive(Clone, Debug)]
pub struct Client {
    /// The other end of the connection.
    pub address: SocketAddr,
    /// Its IP address as upstreams are told it, written once for all requests of the connection.
    pub name: HeaderValue,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

impl Client {
    /// The client at `address`.
    #[must_use]
    pub fn new(address: SocketAddr, tls: bool) -> Client {
        let name = address.ip().to_canonical().to_string();
        Client {
            address,
            // An address is written in letters, digits, dots and colons.
            name: HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("unknown")),
            tls,
        }
    }
}

/// What serves the requests of all connections.
pub trait Serve: Clone + Send + Sync + 'static {
    /// The body of an answer. It is dropped when the exchange has ended, however it ended.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// Answers one request of `client`.
    fn serve(
        &self,
        client: Client,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// A connection has ended in a way that no exchange accounts for.
    fn connection_ended(&self, end: ConnectionEnd);

    /// A connection could not be accepted.
    fn accept_failed(&self, error: &io::Error);
}

/// A connection that ended before an exchange, or between two of them in the middle of a head.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    /// The client.
    pub peer: SocketAddr,
    /// Bytes received.
    pub received: u64,
    /// How long the connection stood.
    pub duration: Duration,
    /// What ended it: a stable name.
    pub reason: &'static str,
}

/// Accepts connections on `listener` for as long as it is polled.
pub async fn serve(listener: TcpListener, listen: Listen, service: impl Serve) {
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                pause = ACCEPT_PAUSE_MIN;
                tokio::spawn(connection(stream, peer, listen.clone(), service.clone()));
            }
            Err(error) => {
                service.accept_failed(&error);
                sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// Serves one connection until it ends.
async fn connection(stream: TcpStream, peer: SocketAddr, listen: Listen, service: impl Serve) {
    let begun = Instant::now();
    // Answers are written whole; waiting for more would only delay the last piece.
    let _ = stream.set_nodelay(true);
    let client = Client::new(peer, false);
    let (wire, watch) = wire(stream);
    let answering = service_fn(|request| {
        let exchange = watch.begin_exchange();
        let answer = service.serve(client.clone(), request);
        async move {
            let response = answer.await;
            Ok::<_, std::convert::Infallible>(response.map(|body| Tracked {
                body,
                failure: None,
                exchange,
            }))
        }
    });
    let mut library = http1::Builder::new();
    // The watch over the connection notices a client that has gone, whatever the library reads.
    library.half_close(true);
    library.max_buf_size(LIBRARY_BUFFER_MIN.max(listen.header_bytes_max * 4));
    if listen.header_count_max * 3 / 2 > LIBRARY_HEADERS {
        library.max_headers(listen.header_count_max * 3 / 2);
    }
    let library = library.serve_connection(TokioIo::new(wire), answering);
    let end = drive(library, &watch, listen.header_read_timeout).await;
    let reason = match end {
        End::Client if watch.exchanges() > 0 => return,
        End::Client => "closed_before_request",
        End::Silent { head_begun: false } if watch.exchanges() > 0 => return,
        End::Silent { .. } => "header_read_timeout",
        End::Gone => return,
        // The body of an answer failed, and its exchange accounts for that.
        End::Failed(error) if error.is_user() => return,
        End::Failed(error) => match watch.idle() {
            Some(idle) if watch.exchanges() == 0 || idle.head_begun || error.is_parse() => {
                reason(&error)
            }
            // Whoever resets a connection between two exchanges has only ended it.
            Some(_) | None => return,
        },
    };
    service.connection_ended(ConnectionEnd {
        peer,
        received: watch.received(),
        duration: begun.elapsed(),
        reason,
    });
}

/// How a connection ended.
enum End {
    /// It was closed in good order between two exchanges.
    Client,
    /// The client went in the middle of an exchange.
    Gone,
    /// No complete head came in time.
    Silent { head_begun: bool },
    /// The HTTP library gave up.
    Failed(hyper::Error),
}

/// Drives the library's connection, and watches over it: for the client's end while the library
/// does not look, and for silence. One timer serves all heads of the connection; it is set anew
/// only when it fires, so that a request costs no timer.
async fn drive<C>(library: C, watch: &Watch<TcpStream>, head_timeout: Duration) -> End
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut library = pin!(library);
    let mut alarm = Alarm::new(Instant::now() + head_timeout);
    poll_fn(|cx| {
        watch.begin_turn();
        if let Poll::Ready(end) = library.as_mut().poll(cx) {
            return Poll::Ready(match end {
                Ok(()) => End::Client,
                Err(error) => End::Failed(error),
            });
        }
        if watch.poll_gone(cx).is_ready() {
            return Poll::Ready(End::Gone);
        }
        let full = watch.is_full();
        if full && alarm.deadline() > Instant::now() + LOOK_INTERVAL {
            alarm.reset(Instant::now() + LOOK_INTERVAL);
        }
        while alarm.poll(cx).is_ready() {
            let now = Instant::now();
            let deadline = match watch.idle() {
                None if full => now + LOOK_INTERVAL,
                None => now + head_timeout,
                Some(idle) if idle.since + head_timeout > now => idle.since + head_timeout,
                Some(idle) => {
                    return Poll::Ready(End::Silent {
                        head_begun: idle.head_begun,
                    });
                }
            };
            alarm.reset(deadline);
        }
        Poll::Pending
    })
    .await
}

fn reason(error: &hyper::Error) -> &'static str {
    if error.is_parse_too_large() {
        "head_too_large"
    } else if error.is_parse() {
        "not_http"
    } else if error.is_incomplete_message() {
        "closed_in_head"
    } else {
        "connection_failed"
    }
}

/// A body that keeps its exchange in flight. The library drops what it has not written yet when it
/// hears that a body failed; so it hears of that only when what came before is written.
struct Tracked<B> {
    body: B,
    failure: Option<Box<dyn Error + Send + Sync>>,
    exchange: InFlight<TcpStream>,
}

impl<B> Body for Tracked<B>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = &mut *self;
        if this.failure.is_none() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Err(failure)) => this.failure = Some(failure.into()),
                Some(Ok(frame)) => return Poll::Ready(Some(Ok(frame))),
                None => return Poll::Ready(None),
            }
            // Until it asks again, the library has tried to write all that it has.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(this.exchange.poll_written(cx));
        Poll::Ready(this.failure.take().map(Err))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
