//! TLS on both sides: what clients speak to us, and what we speak to upstreams.
//!
//! Whoever ends an encrypted stream in good order says so. One that ends without that word was cut
//! off by somebody, and is read as an error, never as an end; that is also how a client sees an
//! answer that we broke off.

mod acceptor;
mod connector;

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

pub(super) use acceptor::protocol;
pub use acceptor::{Acceptor, Rejected};
pub use connector::{Connector, Connectors};

/// How HTTP/2 and HTTP/1.1 are called in a handshake (RFC 7301).
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Why a handshake failed.
#[derive(Debug)]
pub enum Fault {
    /// The peer does not speak TLS.
    NotTls,
    /// The peer showed no certificate, and must.
    Anonymous,
    /// The peer's certificate is not good.
    Untrusted(rustls::Error),
    /// The peer ended the handshake and said why, for example because it does not trust us.
    Refused(rustls::Error),
    /// The peer went without a word.
    Closed,
    /// The peer took too long.
    Timeout,
    /// The two have nothing in common, or one of them does not keep to the protocol.
    Failed(String),
}

impl Fault {
    fn of(error: &io::Error) -> Fault {
        let cause = error
            .get_ref()
            .and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::NoCertificatesPresented) => Fault::Anonymous,
            Some(cause @ rustls::Error::InvalidCertificate(_)) => Fault::Untrusted(cause.clone()),
            Some(cause @ rustls::Error::AlertReceived(_)) => Fault::Refused(cause.clone()),
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
                Fault::NotTls
            }
            Some(cause) => Fault::Failed(cause.to_string()),
            None => match error.kind() {
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => Fault::Closed,
                _ => Fault::Failed(error.to_string()),
            },
        }
    }

    /// A stable name, where the peer is a client.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Fault::NotTls => "not_tls",
            Fault::Anonymous => "tls_client_certificate_missing",
            Fault::Untrusted(_) => "tls_client_certificate_refused",
            Fault::Refused(_) => "tls_refused_by_client",
            Fault::Closed => "tls_handshake_closed",
            Fault::Timeout => "tls_handshake_timeout",
            Fault::Failed(_) => "tls_handshake_failed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotTls => f.write_str("the peer does not speak TLS"),
            Fault::Anonymous => f.write_str("the peer showed no certificate"),
            Fault::Untrusted(error) | Fault::Refused(error) => error.fmt(f),
            Fault::Closed => f.write_str("the peer closed the connection in the handshake"),
            Fault::Timeout => f.write_str("the handshake took too long"),
            Fault::Failed(why) => f.write_str(why),
        }
    }
}

impl Error for Fault {}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError};

    use super::*;

    #[test]
    fn a_failure_is_told_by_its_cause() {
        let library = |error: rustls::Error| io::Error::new(ErrorKind::InvalidData, error);
        for (error, reason) in [
            (
                library(rustls::Error::NoCertificatesPresented),
                "tls_client_certificate_missing",
            ),
            (
                library(CertificateError::UnknownIssuer.into()),
                "tls_client_certificate_refused",
            ),
            (
                library(rustls::Error::AlertReceived(AlertDescription::UnknownCA)),
                "tls_refused_by_client",
            ),
            (
                library(rustls::InvalidMessage::InvalidContentType.into()),
                "not_tls",
            ),
            (
                library(rustls::Error::NoApplicationProtocol),
                "tls_handshake_failed",
            ),
            (ErrorKind::UnexpectedEof.into(), "tls_handshake_closed"),
            (ErrorKind::ConnectionReset.into(), "tls_handshake_closed"),
            (ErrorKind::Other.into(), "tls_handshake_failed"),
        ] {
            let fault = Fault::of(&error);
            assert_eq!(fault.reason(), reason, "{error}");
            assert!(!fault.to_string().is_empty());
        }
    }
}
