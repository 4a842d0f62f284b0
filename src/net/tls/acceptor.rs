//! Our end of a client's handshake.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Fault, HTTP1, HTTP2};
use crate::net::reload::Renewal;
use crate::net::wire::{Peer, Protocol};
use crate::policy::finding::Flaw;
use crate::policy::tls::{ClientCertificates, Demand, Identity, ListenTls, provider};

/// What a client speaks TLS with. Each handshake takes the certificates that are there when it
/// begins; connections that stand go on with theirs.
#[derive(Clone, Debug)]
pub struct Acceptor {
    config: Arc<ArcSwap<ServerConfig>>,
}

/// A handshake that failed, with the stream as it was left. What the peer is told is written.
#[derive(Debug)]
pub struct Rejected<S> {
    /// Why.
    pub fault: Fault,
    /// The stream, unless it was dropped in the middle of the handshake.
    pub stream: Option<S>,
}

impl Acceptor {
    /// What `tls` describes, and how it follows its files.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(tls: &ListenTls) -> Result<(Acceptor, Renewal), rustls::Error> {
        let config = Arc::new(ArcSwap::from_pointee(config(tls)?));
        let swapped = config.clone();
        let files = files(tls);
        let tls = tls.clone();
        let renewal = Renewal::new(files, move || {
            let (renewed, warnings) = reread(&tls)?;
            let renewed = self::config(&renewed).map_err(|error| vec![unusable(&error)])?;
            swapped.store(Arc::new(renewed));
            Ok(warnings)
        });
        Ok((Acceptor { config }, renewal))
    }

    /// Does the handshake over `stream`, for at most so long.
    ///
    /// # Errors
    /// Why there is none; what the client is told of it has been written then.
    pub async fn accept(
        &self,
        stream: TcpStream,
        patience: Duration,
    ) -> Result<TlsStream<TcpStream>, Rejected<TcpStream>> {
        let handshake = Box::pin(self.handshake(stream));
        timeout(patience, handshake).await.unwrap_or(Err(Rejected {
            fault: Fault::Timeout,
            stream: None,
        }))
    }

    async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Rejected<TcpStream>> {
        let speaks = speaks_tls(&stream).await;
        let fault = match speaks {
            Ok(true) => None,
            Ok(false) => Some(Fault::NotTls),
            Err(error) => Some(Fault::of(&error)),
        };
        if let Some(fault) = fault {
            let stream = Some(stream);
            return Err(Rejected { fault, stream });
        }
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let accepted = acceptor.accept(stream).into_fallible().await;
        accepted.map_err(|(error, stream)| Rejected {
            fault: Fault::of(&error),
            stream: Some(stream),
        })
    }
}

/// Whether the first byte is one of a handshake; it stays unread.
async fn speaks_tls(stream: &TcpStream) -> io::Result<bool> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] == HANDSHAKE),
    }
}

/// What the client chose in its handshake; one that chose nothing is heard first.
pub(in crate::net) fn protocol<S>(stream: &TlsStream<S>) -> Option<Protocol> {
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP2) => Some(Protocol::Http2),
        Some(_) => Some(Protocol::Http1),
        None => None,
    }
}

impl<S: Peer> Peer for TlsStream<S> {
    fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.get_ref().0.poll_ended(cx)
    }

    fn reset_on_drop(&self) {
        self.get_ref().0.reset_on_drop();
    }
}

fn files(tls: &ListenTls) -> Vec<&Path> {
    let clients = tls.clients.as_ref();
    let authorities = clients.map(|clients| clients.authorities.file());
    [tls.identity.cert(), tls.identity.key()]
        .into_iter()
        .chain(authorities)
        .collect()
}

/// What the files of `tls` hold now, and what is to be said of it.
fn reread(tls: &ListenTls) -> Result<(ListenTls, Vec<Flaw>), Vec<Flaw>> {
    let identity = tls.identity.reread();
    let clients = tls.clients.as_ref().map(|clients| {
        Ok(ClientCertificates {
            authorities: clients.authorities.reread()?,
            demand: clients.demand,
        })
    });
    let mut flaws: Vec<Flaw> = Vec::new();
    let clients = clients.transpose().map_err(|flaw| flaws.push(flaw)).ok();
    let identity = identity
        .map_err(|found| flaws.extend(found.into_iter().map(|(_, flaw)| flaw)))
        .ok();
    match (identity, clients) {
        (Some(identity), Some(clients)) => {
            let warnings = untimely(&identity);
            Ok((ListenTls { identity, clients }, warnings))
        }
        _ => Err(flaws),
    }
}

fn untimely(identity: &Identity) -> Vec<Flaw> {
    identity.untimely(UnixTime::now()).into_iter().collect()
}

fn unusable(error: &rustls::Error) -> Flaw {
    Flaw::new(
        format!("what the files hold cannot be used: {error}"),
        "see whether they were made for TLS",
    )
}

fn config(tls: &ListenTls) -> Result<ServerConfig, rustls::Error> {
    let verifier = match &tls.clients {
        None => Arc::new(NoClientAuth),
        Some(clients) => {
            let roots = clients.authorities.roots().clone();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider().clone());
            let verifier = match clients.demand {
                Demand::Required => verifier,
                Demand::Optional => verifier.allow_unauthenticated(),
            };
            let built = verifier.build();
            built.map_err(|error| rustls::Error::General(error.to_string()))?
        }
    };
    let mut config = ServerConfig::builder_with_provider(provider().clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(
            tls.identity.certified().clone(),
        )));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    // Clients keep their own sessions, so that no number of them costs us memory. The keys are made
    // anew with the certificates: nobody goes on who would no longer be let in.
    config.ticketer = Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}
