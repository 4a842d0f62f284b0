//! TLS around the plain clients and upstreams of the tests. How a stream ends goes through: an end in
//! good order (close_notify) becomes a FIN on the plain side and the other way round, and an end
//! without that word becomes a reset.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use super::certificates::{Authority, Issued};
use super::client::Client;
use super::wire::{PATIENCE, Wire};

/// What drives all tunnels of the process.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
});

const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

/// What a client brings to a handshake.
#[derive(Clone)]
pub(crate) struct Offer {
    authority: String,
    identity: Option<Issued>,
    versions: &'static [&'static SupportedProtocolVersion],
    protocols: Vec<Vec<u8>>,
}

impl Offer {
    /// The client trusts this authority, shows nothing and speaks HTTP/1.1.
    pub(crate) fn trusting(authority: &Authority) -> Offer {
        Offer {
            authority: authority.pem(),
            identity: None,
            versions: BOTH,
            protocols: vec![b"http/1.1".to_vec()],
        }
    }

    /// It shows this certificate.
    pub(crate) fn showing(mut self, identity: Issued) -> Offer {
        self.identity = Some(identity);
        self
    }

    /// It offers these protocols.
    pub(crate) fn protocols(mut self, names: &[&str]) -> Offer {
        self.protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// It speaks TLS 1.2 alone.
    pub(crate) fn older(mut self) -> Offer {
        self.versions = TLS12;
        self
    }

    fn config(&self) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(self.versions)
            .expect("known versions")
            .with_root_certificates(roots(&self.authority));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(chain(identity), key(identity))
                .expect("a pair"),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        config
    }

    /// The handshake with the server at `address`, which is `mcp.example.com`.
    pub(crate) async fn shake(
        &self,
        address: SocketAddr,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("mcp.example.com").expect("a name");
        TlsConnector::from(Arc::new(self.config()))
            .connect(name, stream)
            .await
    }

    /// A client behind a handshake with the server at `address`, and what was agreed on.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<(Client, Agreed)> {
        RUNTIME.block_on(async {
            let stream = self.shake(address).await?;
            let agreed = Agreed::of(stream.get_ref().1);
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let ours = std::net::TcpStream::connect(listener.local_addr()?)?;
            let (theirs, _) = listener.accept().await?;
            let socket = twin(stream.get_ref().0)?;
            tokio::spawn(pump(stream, socket, theirs, false));
            let wire = Wire::new(ours, PATIENCE);
            Ok((Client { wire }, agreed))
        })
    }
}

/// What both sides know after a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) protocol: Option<String>,
    pub(crate) version: Option<rustls::ProtocolVersion>,
    /// The certificate that the peer showed.
    pub(crate) shown: Option<CertificateDer<'static>>,
}

impl Agreed {
    fn of(connection: &rustls::CommonState) -> Agreed {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Agreed {
            protocol: connection.alpn_protocol().map(text),
            version: connection.protocol_version(),
            shown: connection
                .peer_certificates()
                .map(|chain| chain[0].clone().into_owned()),
        }
    }
}

/// A handshake as a front saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The name that was asked for.
    pub(crate) name: Option<String>,
    pub(crate) agreed: Agreed,
}

/// How a front behaves.
pub(crate) struct Manner<'a> {
    /// Who it is.
    pub(crate) identity: &'a Issued,
    /// Whose certificate it demands.
    pub(crate) demands: Option<&'a Authority>,
    pub(crate) protocols: &'a [&'a str],
    /// It ends its streams without a word.
    pub(crate) truncates: bool,
}

/// A server that speaks TLS before a plain one.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Result<Seen, String>>>>,
}

impl<'a> Manner<'a> {
    /// This server speaks HTTP/1.1, demands nothing and ends as it should.
    pub(crate) fn of(identity: &'a Issued) -> Manner<'a> {
        Manner {
            identity,
            demands: None,
            protocols: &["http/1.1"],
            truncates: false,
        }
    }
}

impl Front {
    /// One before the plain server at `upstream`.
    pub(crate) fn before(upstream: SocketAddr, manner: &Manner<'_>) -> Front {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(BOTH)
            .expect("known versions");
        let builder = match manner.demands {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let provider = Arc::new(default_provider());
                let roots = Arc::new(roots(&authority.pem()));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let mut config = builder
            .with_single_cert(chain(manner.identity), key(manner.identity))
            .expect("a pair");
        let protocols = manner.protocols.iter();
        config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("a bound socket");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, truncates) = (seen.clone(), manner.truncates);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        RUNTIME.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted) = (acceptor.clone(), noted.clone());
                tokio::spawn(async move {
                    // A peer that goes in the middle has nothing to be told.
                    let _ = front(stream, &acceptor, &noted, upstream, truncates).await;
                });
            }
        });
        Front { address, seen }
    }

    /// The URL by which it is reached as `host`.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/mcp", self.address.port())
    }

    /// The handshakes so far, in order: what was agreed on, or why they failed.
    pub(crate) fn seen(&self) -> Vec<Result<Seen, String>> {
        self.seen.lock().expect("no panic in a list").clone()
    }
}

async fn front(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    noted: &Mutex<Vec<Result<Seen, String>>>,
    upstream: SocketAddr,
    truncates: bool,
) -> io::Result<()> {
    let accepted = acceptor.accept(stream).await;
    let seen = match &accepted {
        Ok(stream) => Ok(Seen {
            name: stream.get_ref().1.server_name().map(str::to_owned),
            agreed: Agreed::of(stream.get_ref().1),
        }),
        Err(error) => Err(error.to_string()),
    };
    noted.lock().expect("no panic in a list").push(seen);
    let stream = accepted?;
    let plain = TcpStream::connect(upstream).await?;
    let socket = twin(stream.get_ref().0)?;
    pump(stream, socket, plain, truncates).await;
    Ok(())
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(cert.expect("PEM")).expect("an authority");
    }
    roots
}

fn chain(identity: &Issued) -> Vec<CertificateDer<'static>> {
    let chain = CertificateDer::pem_slice_iter(identity.cert.as_bytes());
    chain.collect::<Result<_, _>>().expect("PEM")
}

fn key(identity: &Issued) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM")
}

/// The same socket once more, so that it can be reset whoever holds the stream over it.
fn twin(stream: &TcpStream) -> io::Result<socket2::Socket> {
    SockRef::from(stream).try_clone()
}

/// Carries bytes both ways until both sides have ended, or one of them breaks.
async fn pump<S>(encrypted: S, socket: socket2::Socket, plain: TcpStream, truncates: bool)
where
    S: AsyncRead + AsyncWrite,
{
    let plain_socket = twin(&plain).expect("an open socket");
    let (mut from_peer, mut to_peer) = tokio::io::split(encrypted);
    // Halves that own a socket end it when they are dropped, before it can be reset.
    let (mut from_plain, mut to_plain) = tokio::io::split(plain);
    let inward = async {
        let copied = tokio::io::copy(&mut from_peer, &mut to_plain).await;
        copied?;
        to_plain.shutdown().await
    };
    let outward = async {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match from_plain.read(&mut buffer).await? {
                0 if truncates => return socket.shutdown(std::net::Shutdown::Write),
                0 => return to_peer.shutdown().await,
                count => {
                    to_peer.write_all(&buffer[..count]).await?;
                    to_peer.flush().await?;
                }
            }
        }
    };
    if tokio::try_join!(inward, outward).is_err() {
        for socket in [&socket, &plain_socket] {
            // It fails only for one that has ended already.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}
