//! The way to a server: its name becomes addresses, and the first of them that answers a connection.

use std::future::{Future, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Failure;

/// How long one address has before the next is tried beside it (RFC 8305, section 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Most lookups of an upstream's name at once: the system's resolver takes a thread for each.
const LOOKUPS_MAX: usize = 8;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// A peer that vanished is noticed on a connection on which nothing is sent, such as a silent stream.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The addresses of a name, or why it has none.
pub(super) type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// What turns a host and a port into addresses. It is asked for every new connection, and none
/// takes requests beyond `connection_age_max`, so that a name that moves is followed.
pub(super) type Resolve = Box<dyn Fn(&str, u16) -> Resolving + Send + Sync>;

/// The resolver of the system.
pub(super) fn system() -> Resolve {
    bounded(|host, port| async move { Ok(lookup_host((host, port)).await?.collect()) })
}

/// A resolver that asks `look_up` about names, a few at a time.
fn bounded<L, F>(look_up: L) -> Resolve
where
    L: Fn(String, u16) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
    Box::new(move |host, port| {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Box::pin(ready(Ok(vec![SocketAddr::new(address, port)])));
        }
        let permit = permits.clone().acquire_owned();
        let lookup = look_up(host.to_owned(), port);
        Box::pin(async move {
            let permit = permit.await.map_err(io::Error::other)?;
            // A lookup holds a thread until it is over, whether or not somebody still waits for it.
            let lookup = tokio::spawn(async move {
                let found = lookup.await;
                drop(permit);
                found
            });
            lookup.await.map_err(io::Error::other)?
        })
    })
}

/// A connection to the host, by the first of its addresses that takes one.
///
/// # Errors
/// [`Failure::Resolve`] and [`Failure::Connect`].
pub(super) async fn tcp(resolve: &Resolve, host: &str, port: u16) -> Result<TcpStream, Failure> {
    let addresses = resolve(host, port).await.map_err(Failure::Resolve)?;
    if addresses.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(Failure::Resolve(error));
    }
    let stream = reach(&addresses).await.map_err(Failure::Connect)?;
    stream.set_nodelay(true).map_err(Failure::Connect)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&stream)
        .set_tcp_keepalive(&keepalive)
        .map_err(Failure::Connect)?;
    Ok(stream)
}

/// Tries the addresses in turn, each when the one before has failed or has taken too long, until one
/// of them answers. The attempts end with this future.
async fn reach(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(*only).await;
    }
    let mut untried = addresses.iter().copied().take(ADDRESSES_MAX);
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    loop {
        let tried = untried
            .next()
            .map(|next| attempts.spawn(TcpStream::connect(next)));
        let patience = match tried {
            Some(_) => NEXT_ADDRESS_AFTER,
            None => Duration::MAX,
        };
        match timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failure = error,
            Ok(Some(Err(error))) => failure = io::Error::other(error),
            // None is under way any more, and none was left to be tried.
            Ok(None) => return Err(failure),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
