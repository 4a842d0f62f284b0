//! Accepting clients.

use std::error::Error;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::connection;
use super::descriptor::{self, Descriptors};
use super::ending::Phases;
use super::received::Received;
use super::tls::{self, Acceptor, Fault, Rejected};
use crate::policy::plan::Listen;
use crate::protocol::refusal::{CONNECTION_REFUSED, NOT_TLS};

pub use super::ending::Phase;

/// The pause after a failed accept doubles between these: with no descriptor left, trying again at
/// once would only burn the processor.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Most connections that are told at once that they are too many; further ones are closed unheard.
const FAREWELLS_MAX: usize = 64;
/// How long that may take.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// How often it is reported that connections were refused.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// After what silence the system asks whether a client is still there, how often, and how many times.
const PEER_IDLE: Duration = Duration::from_secs(60);
const PEER_PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PEER_PROBES: u32 = 4;
/// How much the system takes of an answer beyond what it can send at once.
const UNSENT_BYTES_MAX: u32 = 128 << 10;
/// How much the system holds of what a client has not taken. It says that a client has taken
/// something only once a third of this is free again: with the megabytes that it may grow to by
/// itself, a client that reads steadily and slowly would look like one that takes nothing.
const SEND_BUFFER_BYTES: usize = 128 << 10;

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

/// The body of an answer. It is dropped when the exchange has ended, however it ended; if it fails, the
/// client gets an answer that is visibly cut short.
pub trait Answer:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
    /// The client did not take all of it, even where the last piece was asked for: because it has
    /// gone, or because it has taken nothing for as long as the limit with this key allows. Called
    /// before it is dropped, if ever.
    fn untaken(&mut self, limit: Option<&'static str>);
}

/// What serves the requests of all connections.
pub trait Serve: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Answer;

    /// Answers one request of `client`.
    fn serve(
        &self,
        client: Client,
        request: Request<Received>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// A connection has ended in a way that no exchange accounts for.
    fn connection_ended(&self, end: ConnectionEnd);

    /// A connection could not be accepted.
    fn accept_failed(&self, error: &io::Error);

    /// So many connections were refused since the last word of it; the last of them because of the
    /// limit with this key.
    fn connections_refused(&self, limit: &'static str, count: u64);
}

/// Stands among the extensions of a request that had a length beside its chunks: hops before us may
/// have gone by the one, and the HTTP library goes by the other and hides the first.
#[derive(Clone, Copy, Debug)]
pub struct LengthBesideChunks;

/// A connection that ended before an exchange, or between two of them in the middle of a head.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    /// The client.
    pub peer: SocketAddr,
    /// Bytes received, without those of a handshake that failed.
    pub received: u64,
    /// How long the connection stood.
    pub duration: Duration,
    /// What ended it: a stable name.
    pub reason: &'static str,
    /// More about that, in the words of a library.
    pub detail: Option<String>,
}

/// What the connections of a process share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// How far the process is on its way to its end.
    pub phases: watch::Receiver<Phase>,
    /// The tasks of the connections.
    pub tasks: TaskTracker,
    /// How many files the process may have open.
    pub descriptors: Descriptors,
}

/// A listener with all that its connections are served by.
struct Intake<V> {
    listener: TcpListener,
    listen: Arc<Listen>,
    acceptor: Option<Acceptor>,
    service: V,
    shared: Shared,
    admission: Admission,
    farewells: Arc<Semaphore>,
}

/// Accepts connections on `listener` until the process takes no more of them. They are encrypted if
/// there is something to encrypt them with.
pub async fn serve(
    listener: TcpListener,
    listen: Listen,
    acceptor: Option<Acceptor>,
    service: impl Serve,
    shared: Shared,
) {
    prepare(&listener);
    let mut phases = shared.phases.clone();
    let intake = Intake {
        listener,
        admission: Admission::new(&listen),
        listen: Arc::new(listen),
        acceptor,
        service,
        shared,
        farewells: Arc::new(Semaphore::new(FAREWELLS_MAX)),
    };
    tokio::select! {
        () = intake.run() => {}
        Ok(_) = phases.wait_for(|phase| *phase > Phase::Serving) => {}
    }
}

/// Lets the system find out about clients that vanished without a word, such as a machine that lost
/// its power, and hold little of an answer that its client is slow to take: with megabytes of it in
/// the system, nothing could be written for hours, and the client would seem to take nothing.
/// Accepted sockets have both from their listener, and cost no further call.
fn prepare(listener: &TcpListener) {
    let probing = TcpKeepalive::new()
        .with_time(PEER_IDLE)
        .with_interval(PEER_PROBE_INTERVAL)
        .with_retries(PEER_PROBES);
    // Where the system knows none of it, the time limits of the policy are left.
    let socket = SockRef::from(listener);
    let _ = socket.set_tcp_keepalive(&probing);
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
    let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
}

impl<V: Serve> Intake<V> {
    async fn run(&self) {
        let mut pause = ACCEPT_PAUSE_MIN;
        let mut refusals = Refusals::default();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                (limit, count) = refusals.due() => {
                    self.service.connections_refused(limit, count);
                    continue;
                }
            };
            match accepted {
                Ok((stream, peer)) => {
                    pause = ACCEPT_PAUSE_MIN;
                    if let Err(limit) = self.take(stream, peer) {
                        refusals.note(limit);
                    }
                }
                Err(error) => {
                    self.service.accept_failed(&error);
                    pause = self.rest(pause).await;
                }
            }
        }
    }

    /// Pauses after a failed accept, until there are descriptors to spare; gives the next pause.
    async fn rest(&self, mut pause: Duration) -> Duration {
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            if self.shared.descriptors.fill_spares() {
                return pause;
            }
        }
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.listener.accept().await?;
        match self.shared.descriptors.has_room_for(&stream) {
            true => Ok((stream, peer)),
            false => Err(descriptor::exhausted()),
        }
    }

    /// Serves a connection, or tells it that there are too many.
    fn take(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), &'static str> {
        let tasks = &self.shared.tasks;
        match self.admission.admit(peer.ip()) {
            Ok(admitted) => {
                let phases = self.shared.phases.clone();
                let (listen, service) = (self.listen.clone(), self.service.clone());
                let acceptor = self.acceptor.clone();
                tasks.spawn(async move {
                    // Answers are written whole; waiting for more would only delay the last piece.
                    let _ = stream.set_nodelay(true);
                    match acceptor {
                        None => plain(stream, peer, &listen, &service, phases).await,
                        // Its room is a part of every connection that needs none.
                        Some(acceptor) => {
                            let serving =
                                encrypted(stream, peer, &acceptor, &listen, &service, phases);
                            Box::pin(serving).await;
                        }
                    }
                    drop(admitted);
                });
                Ok(())
            }
            // Nobody reads what is not encrypted where it should be.
            Err(limit) if self.acceptor.is_some() => Err(limit),
            Err(limit) => {
                if let Ok(permit) = self.farewells.clone().try_acquire_owned() {
                    tasks.spawn(async move {
                        let _ = timeout(FAREWELL_TIME, farewell(stream, CONNECTION_REFUSED)).await;
                        drop(permit);
                    });
                }
                Err(limit)
            }
        }
    }
}

/// Serves a connection that is not encrypted.
async fn plain(
    stream: TcpStream,
    peer: SocketAddr,
    listen: &Listen,
    service: &impl Serve,
    phases: watch::Receiver<Phase>,
) {
    let client = Client::new(peer, false);
    let phases = Phases::new(phases);
    connection::serve(stream, client, None, listen, service, phases).await;
}

/// Serves a connection once its handshake is done. None is waited for once the process drains.
async fn encrypted(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: &Acceptor,
    listen: &Listen,
    service: &impl Serve,
    mut phases: watch::Receiver<Phase>,
) {
    let begun = Instant::now();
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream, listen.handshake_timeout) => accepted,
        _ = phases.wait_for(|phase| *phase > Phase::Serving) => return,
    };
    match accepted {
        Ok(stream) => {
            let protocol = tls::protocol(&stream);
            let client = Client::new(peer, true);
            let phases = Phases::new(phases);
            connection::serve(stream, client, protocol, listen, service, phases).await;
        }
        Err(Rejected { fault, stream }) => {
            service.connection_ended(ConnectionEnd {
                peer,
                received: 0,
                duration: begun.elapsed(),
                reason: fault.reason(),
                detail: Some(fault.to_string()),
            });
            if let Some(stream) = stream {
                let words = match fault {
                    Fault::NotTls => NOT_TLS,
                    _ => b"",
                };
                let _ = timeout(FAREWELL_TIME, farewell(stream, words)).await;
            }
        }
    }
}

/// Tells a client why it is not served, and reads what it sends until it has read that: a socket that
/// is closed with unread input takes the answer with it.
async fn farewell(mut stream: TcpStream, words: &[u8]) -> io::Result<()> {
    stream.write_all(words).await?;
    stream.shutdown().await?;
    let mut chunk = [0; 1024];
    while stream.read(&mut chunk).await? > 0 {}
    Ok(())
}

/// Connections that were refused and are not reported yet. A flood of them is a line each second.
#[derive(Debug, Default)]
struct Refusals {
    count: u64,
    limit: &'static str,
    reported: Option<Instant>,
}

impl Refusals {
    fn note(&mut self, limit: &'static str) {
        self.count += 1;
        self.limit = limit;
    }

    /// Waits until something is to be reported: the last limit that was met, and how many
    /// connections were refused since the last report.
    async fn due(&mut self) -> (&'static str, u64) {
        if self.count == 0 {
            return pending().await;
        }
        if let Some(reported) = self.reported {
            sleep_until(reported + REPORT_INTERVAL).await;
        }
        self.reported = Some(Instant::now());
        (self.limit, std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_sockets_are_probed_as_their_listener_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let (accepted, _) = accepted.unwrap();
        let socket = SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PEER_IDLE);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), UNSENT_BYTES_MAX);
        // Linux doubles it, for what it keeps beside the bytes.
        let send_buffer = socket.send_buffer_size().unwrap();
        assert!([SEND_BUFFER_BYTES, 2 * SEND_BUFFER_BYTES].contains(&send_buffer));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PEER_PROBES);
        drop(client);
    }

    #[tokio::test]
    async fn refusals_are_reported_at_once_and_then_each_second() {
        let mut refusals = Refusals::default();
        let begun = Instant::now();
        refusals.note("a");
        assert_eq!(refusals.due().await, ("a", 1));
        refusals.note("a");
        refusals.note("b");
        // Whoever waits may be called away, which loses nothing.
        let waiting = timeout(REPORT_INTERVAL / 20, refusals.due()).await;
        assert!(waiting.is_err());
        assert_eq!(refusals.due().await, ("b", 2));
        assert!(begun.elapsed() >= REPORT_INTERVAL);
        let waiting = timeout(REPORT_INTERVAL / 20, refusals.due()).await;
        assert!(waiting.is_err(), "there is nothing to report");
    }
}
