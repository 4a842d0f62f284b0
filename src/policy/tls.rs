//! Certificates, keys and authorities: what a policy names by files, read and checked before
//! anything is served with it.
//!
//! What was read here is what is served: nobody reads the files again and finds something else in
//! them, until they change and [`Identity::reread`] and [`Authorities::reread`] find them good.

mod pem;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

use super::content::name;
use super::finding::Flaw;

pub use pem::content;

/// TLS on the side of the clients.
#[derive(Clone, Debug)]
pub struct ListenTls {
    /// Who we are.
    pub identity: Identity,
    /// Whose certificates clients show, if they are asked for any.
    pub clients: Option<ClientCertificates>,
}

/// Clients are asked for a certificate.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    /// Who vouches for them.
    pub authorities: Authorities,
    /// Whether a client without one is let in.
    pub demand: Demand,
}

/// Whether a certificate must be shown. One that is shown must always be good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// The handshake fails without.
    #[default]
    Required,
    /// A client without is let in.
    Optional,
}

/// TLS to an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Who vouches for the server; the authorities that Mozilla trusts if none are named.
    pub authorities: Option<Authorities>,
    /// The name that its certificate must have, and that it is asked for (SNI).
    pub server_name: ServerName<'static>,
    /// Who we are, if the server asks.
    pub identity: Option<Identity>,
}

/// The one provider of cryptography.
#[must_use]
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    &PROVIDER
}

/// A certificate with the chain below it, and the key that fits it.
#[derive(Clone, Debug)]
pub struct Identity {
    cert: PathBuf,
    key: PathBuf,
    certified: Arc<CertifiedKey>,
}

/// Which of two files a flaw is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The certificates.
    Cert,
    /// The key.
    Key,
}

impl Half {
    /// Looks into `file` for this half alone.
    ///
    /// # Errors
    /// What is wrong with it, whatever the other half is.
    pub fn check(self, file: &Path) -> Result<(), (Half, Flaw)> {
        let checked = match self {
            Half::Cert => pem::certificates(file).map(|_| ()),
            Half::Key => pem::key(file).map(|_| ()),
        };
        checked.map_err(|flaw| (self, flaw))
    }
}

impl Identity {
    /// The certificates of the file `cert`, the own one first, with the key of the file `key`.
    ///
    /// # Errors
    /// What is wrong with each file, or with both together.
    pub fn read(cert: &Path, key: &Path) -> Result<Identity, Vec<(Half, Flaw)>> {
        let chain = pem::certificates(cert).map_err(|flaw| (Half::Cert, flaw));
        let secret = pem::key(key).map_err(|flaw| (Half::Key, flaw));
        let (chain, secret) = match (chain, secret) {
            (Ok(chain), Ok(secret)) => (chain, secret),
            (chain, secret) => return Err(chain.err().into_iter().chain(secret.err()).collect()),
        };
        let certified = CertifiedKey::from_der(chain, secret, provider());
        let certified = certified.map_err(|error| vec![misfit(&error, cert, key)])?;
        Ok(Identity {
            cert: cert.to_owned(),
            key: key.to_owned(),
            certified: Arc::new(certified),
        })
    }

    /// The same files as they are now.
    ///
    /// # Errors
    /// As [`Identity::read`].
    pub fn reread(&self) -> Result<Identity, Vec<(Half, Flaw)>> {
        Identity::read(&self.cert, &self.key)
    }

    /// The file with the certificates.
    #[must_use]
    pub fn cert(&self) -> &Path {
        &self.cert
    }

    /// The file with the key.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Certificates and key, as handshakes need them.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// What peers will find wrong with the certificates at the time `now`: they have expired, or
    /// are not valid yet.
    #[must_use]
    pub fn untimely(&self, now: UnixTime) -> Option<Flaw> {
        let chain = self.certified.cert.iter();
        chain
            .enumerate()
            .find_map(|(at, cert)| untimely(cert, at, &self.cert, now))
    }
}

/// Why a certificate and a key are no pair.
fn misfit(error: &Error, cert: &Path, key: &Path) -> (Half, Flaw) {
    let (cert, key) = (name(cert), name(key));
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => (
            Half::Key,
            Flaw::new(
                format!("the key in {key} does not belong to the certificate in {cert}"),
                "name the key that the certificate was made for; of several certificates the first \
                 must be the gateway's own, those that vouch for it come behind",
            ),
        ),
        Error::InvalidCertificate(_) => (Half::Cert, pem::not_a_certificate(&cert)),
        _ => (
            Half::Key,
            Flaw::new(
                format!("the key in {key} cannot be used: {error}"),
                "use an RSA key of 2048 bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519",
            ),
        ),
    }
}

/// What is wrong with the validity of a certificate. The library that verifies certificates reads
/// the dates; nobody vouches here, and that is said only when they are good.
fn untimely(cert: &CertificateDer<'_>, at: usize, file: &Path, now: UnixTime) -> Option<Flaw> {
    let parsed = ParsedCertificate::try_from(cert).ok()?;
    let nobody = RootCertStore::empty();
    let algorithms = provider().signature_verification_algorithms.all;
    let verdict = rustls::client::verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &nobody,
        &[],
        now,
        algorithms,
    );
    let which = match at {
        0 => String::new(),
        at => format!("number {} of ", at + 1),
    };
    let file = name(file);
    let cause = match verdict {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { time, not_after })) => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!(
                "{which}the certificates in {file} expired {} ago",
                span(ago)
            )
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
            time,
            not_before,
        })) => {
            let ahead = not_before.as_secs().saturating_sub(time.as_secs());
            format!(
                "{which}the certificates in {file} will only be valid in {}",
                span(ahead)
            )
        }
        _ => return None,
    };
    Some(Flaw::new(
        cause,
        "peers that verify it end the handshake; renew it, and see to the clock of this machine",
    ))
}

/// A time for people.
fn span(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..3600 => (seconds / 60, "minute"),
        3600..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let mut text = format!("{number} {unit}");
    if number != 1 {
        // Writing to a string does not fail.
        let _ = text.write_char('s');
    }
    text
}

/// Certificates of those who vouch for others.
#[derive(Clone, Debug)]
pub struct Authorities {
    file: PathBuf,
    roots: Arc<RootCertStore>,
    unusable: usize,
}

impl Authorities {
    /// The authorities of a file.
    ///
    /// # Errors
    /// What is wrong with it; it must have one at least that can be used.
    pub fn read(file: &Path) -> Result<Authorities, Flaw> {
        let mut roots = RootCertStore::empty();
        // Bundles of whole systems have some that are made against the standards.
        let (_, unusable) = roots.add_parsable_certificates(pem::certificates(file)?);
        if roots.is_empty() {
            return Err(pem::not_a_certificate(&name(file)));
        }
        Ok(Authorities {
            file: file.to_owned(),
            roots: Arc::new(roots),
            unusable,
        })
    }

    /// The same file as it is now.
    ///
    /// # Errors
    /// As [`Authorities::read`].
    pub fn reread(&self) -> Result<Authorities, Flaw> {
        Authorities::read(&self.file)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The authorities, as handshakes need them.
    #[must_use]
    pub fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }

    /// Says that some of the certificates are left aside.
    #[must_use]
    pub fn incomplete(&self) -> Option<Flaw> {
        (self.unusable > 0).then(|| {
            Flaw::new(
                format!(
                    "{} of the certificates in {} cannot be read and will vouch for nobody",
                    self.unusable,
                    name(&self.file)
                ),
                "remove them from the file, or make them anew",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_for_people() {
        for (seconds, told) in [
            (0, "0 minutes"),
            (119, "1 minute"),
            (7199, "1 hour"),
            (172_799, "47 hours"),
            (172_800, "2 days"),
            (864_000_000, "10000 days"),
        ] {
            assert_eq!(span(seconds), told);
        }
    }
}
