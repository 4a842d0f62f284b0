//! Accepting clients.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::connection;
use super::ending::Phases;
use crate::policy::plan::Listen;

pub use super::ending::Phase;

/// The pause after a failed accept doubles between these: with no descriptor left, trying again at
/// once would only burn the processor.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Whom a connection leads to, and over what.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The other end of the connection.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// What serves the requests of all connections.
pub trait Serve: Clone + Send + Sync + 'static {
    /// The body of an answer. It is dropped when the exchange has ended, however it ended; if it
    /// fails, the client gets an answer that is visibly cut short.
    type Body: Body<Data = Bytes> + Send + Unpin + 'static;

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

/// Stands among the extensions of a request that had a length beside its chunks: hops before us may
/// have gone by the one, and the HTTP library goes by the other and hides the first.
#[derive(Clone, Copy, Debug)]
pub struct LengthBesideChunks;

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

/// The connections of a process, as whoever ends it sees them.
#[derive(Clone, Debug)]
pub struct Connections {
    /// How far the process is on its way to its end.
    pub phases: watch::Receiver<Phase>,
    /// The tasks of the connections, and the listener's own.
    pub tasks: TaskTracker,
}

/// Accepts connections on `listener` until the process takes no more of them.
pub async fn serve(
    listener: TcpListener,
    listen: Listen,
    service: impl Serve,
    connections: Connections,
) {
    let listen = Arc::new(listen);
    let mut draining = connections.phases.clone();
    let draining = draining.wait_for(|phase| *phase > Phase::Serving);
    tokio::select! {
        () = accept(&listener, &listen, &service, &connections) => {}
        _ = draining => {}
    }
}

async fn accept(
    listener: &TcpListener,
    listen: &Arc<Listen>,
    service: &impl Serve,
    connections: &Connections,
) {
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                pause = ACCEPT_PAUSE_MIN;
                let phases = Phases::new(connections.phases.clone());
                let serving = plain(stream, peer, listen.clone(), service.clone(), phases);
                connections.tasks.spawn(serving);
            }
            Err(error) => {
                service.accept_failed(&error);
                sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// Serves a connection that is not encrypted.
async fn plain(
    stream: TcpStream,
    peer: SocketAddr,
    listen: Arc<Listen>,
    service: impl Serve,
    phases: Phases,
) {
    // Answers are written whole; waiting for more would only delay the last piece.
    let _ = stream.set_nodelay(true);
    let client = Client {
        address: peer,
        tls: false,
    };
    connection::serve(stream, client, None, &listen, &service, phases).await;
}
