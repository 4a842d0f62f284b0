//! One connection to a proxy, with or without TLS; one thread may send while another receives.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::plan::Plan;
use crate::seen::Fault;

/// A peer that says nothing for this long has failed.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Bytes that are read from a socket at once.
const READ_BYTES: usize = 16 * 1024;

pub(crate) struct Wire {
    stream: TcpStream,
    tls: Option<Mutex<Tls>>,
}

struct Tls {
    connection: ClientConnection,
    /// Decrypted and not yet taken.
    plain: Vec<u8>,
}

impl Wire {
    /// Connects as the plan says, and speaks TLS up to the end of the handshake.
    pub(crate) fn connect(plan: &Plan) -> Result<Wire, Fault> {
        let stream = connect(&plan.address)
            .map_err(|error| Fault::Refused(format!("connecting to {}: {error}", plan.address)))?;
        let tls = match &plan.tls {
            Some(certificate) => Some(Mutex::new(Tls::agree(&stream, certificate, plan.http2)?)),
            None => None,
        };
        Ok(Wire { stream, tls })
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            return (&self.stream).write_all(bytes);
        };
        let mut tls = lock(tls);
        // In pieces, because rustls keeps no more than its limit of what is not yet encrypted.
        for piece in bytes.chunks(READ_BYTES) {
            tls.connection.writer().write_all(piece)?;
            while tls.connection.wants_write() {
                tls.connection.write_tls(&mut &self.stream)?;
            }
        }
        Ok(())
    }

    /// Waits for bytes; 0 means that the peer has ended.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            return (&self.stream).read(room);
        };
        loop {
            let taken = lock(tls).take(room);
            if taken > 0 {
                return Ok(taken);
            }
            // Not under the lock, so that others may send meanwhile.
            let mut sealed = [0; READ_BYTES];
            let count = (&self.stream).read(&mut sealed)?;
            if count == 0 {
                return Ok(0);
            }
            lock(tls).open(&sealed[..count])?;
        }
    }

    /// Ends both directions, which also wakes a thread that waits in `receive`.
    pub(crate) fn end(&self) {
        // The peer may have been quicker.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the peer has neither ended the connection nor sent anything unread.
    pub(crate) fn is_quiet(&self) -> bool {
        let peek = || {
            self.stream.set_nonblocking(true)?;
            self.stream.peek(&mut [0])
        };
        peek().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Tls {
    fn agree(stream: &TcpStream, certificate: &str, http2: bool) -> Result<Tls, Fault> {
        static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
        let config = CONFIG
            .get_or_init(|| config(certificate, http2))
            .clone()
            .map_err(Fault::Wrong)?;
        let name = ServerName::try_from("localhost").expect("a name");
        let handshake = || {
            let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
            while connection.is_handshaking() {
                connection.complete_io(&mut &*stream)?;
            }
            Ok(connection)
        };
        let connection = handshake()
            .map_err(|error: io::Error| Fault::Refused(format!("TLS handshake: {error}")))?;
        if http2 && connection.alpn_protocol() != Some(b"h2") {
            return Err(Fault::Refused("HTTP/2 was not agreed on by ALPN".into()));
        }
        let plain = Vec::new();
        Ok(Tls { connection, plain })
    }

    fn take(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.plain.len());
        room[..count].copy_from_slice(&self.plain[..count]);
        self.plain.drain(..count);
        count
    }

    fn open(&mut self, mut sealed: &[u8]) -> io::Result<()> {
        while !sealed.is_empty() {
            self.connection.read_tls(&mut sealed)?;
            let state = self
                .connection
                .process_new_packets()
                .map_err(io::Error::other)?;
            let at = self.plain.len();
            self.plain.resize(at + state.plaintext_bytes_to_read(), 0);
            self.connection.reader().read_exact(&mut self.plain[at..])?;
        }
        Ok(())
    }
}

/// TLS 1.3 with one cipher suite only, so that all peers encrypt alike.
fn config(certificate: &str, http2: bool) -> Result<Arc<ClientConfig>, String> {
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    };
    let make = || -> Result<ClientConfig, Box<dyn std::error::Error>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![if http2 {
            b"h2".to_vec()
        } else {
            b"http/1.1".to_vec()
        }];
        Ok(config)
    };
    make()
        .map(Arc::new)
        .map_err(|error| format!("{certificate}: {error}"))
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(stream)
}

/// A thread that panicked has told so already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
