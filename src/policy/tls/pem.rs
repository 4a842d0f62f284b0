//! PEM files, and what people write into them by mistake.

use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;

use crate::policy::content::{self, name};
use crate::policy::finding::Flaw;

/// Most bytes of a file; the bundle of a whole system has a quarter of it.
const BYTES_MAX: u64 = 1 << 20;

/// All certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Flaw> {
    let bytes = content(path)?;
    let name = name(path);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Err(_) => Err(broken(&name)),
        Ok(chain) if chain.is_empty() => Err(match key_label(&bytes) {
            Some(_) => Flaw::new(
                format!("{name} has a key in it and no certificate"),
                "name the file with the certificate here, the one with the key under `key`",
            ),
            None => absent(&bytes, &name, "certificate", "CERTIFICATE"),
        }),
        Ok(chain) => match ParsedCertificate::try_from(&chain[0]) {
            Ok(_) => Ok(chain),
            Err(_) => Err(not_a_certificate(&name)),
        },
    }
}

/// The key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Flaw> {
    let bytes = content(path)?;
    let name = name(path);
    if is_encrypted(&bytes) {
        return Err(Flaw::new(
            format!("the key in {name} is encrypted, and nobody is there to type its password"),
            "store it without a password (`openssl pkey -in … -out …`), readable for the gateway alone",
        ));
    }
    let mut keys = PrivateKeyDer::pem_slice_iter(&bytes);
    match (keys.next(), keys.next()) {
        (Some(Ok(key)), None) => Ok(key),
        (Some(Ok(_)), Some(_)) => Err(Flaw::new(
            format!("{name} has more than one key in it"),
            "keep the one that belongs to the certificate",
        )),
        (Some(Err(_)), _) => Err(broken(&name)),
        (None, _) if contains(&bytes, "-----BEGIN CERTIFICATE-----") => Err(Flaw::new(
            format!("{name} has a certificate in it and no key"),
            "name the file with the key here, the one with the certificate under `cert`",
        )),
        (None, _) => Err(absent(&bytes, &name, "key", "PRIVATE KEY")),
    }
}

/// The flaw of a file whose certificate cannot be used as one.
pub(super) fn not_a_certificate(name: &str) -> Flaw {
    Flaw::new(
        format!("what {name} has in it cannot be read as a certificate"),
        "see whether `openssl x509 -in … -text` shows an X.509 certificate of version 3",
    )
}

/// What a file with certificates or a key holds.
///
/// # Errors
/// It cannot be read, is no file, or is larger than any such file.
pub fn content(path: &Path) -> Result<Vec<u8>, Flaw> {
    content::read(path, BYTES_MAX, "name a file with certificates alone")
}

/// The flaw of a file that does not have what it should.
fn absent(bytes: &[u8], name: &str, what: &str, label: &str) -> Flaw {
    if bytes.trim_ascii().is_empty() {
        return Flaw::new(
            format!("the file {name} is empty"),
            format!("put the {what} into it as PEM"),
        );
    }
    // A sequence with a length of two bytes: any certificate or key in DER, and any PKCS #12.
    if bytes.starts_with(&[0x30, 0x82]) {
        return Flaw::new(
            format!("{name} is binary (DER or PKCS #12), not PEM"),
            "convert it: `openssl x509 -inform der`, `openssl pkey -inform der` or `openssl pkcs12` \
             write PEM",
        );
    }
    Flaw::new(
        format!("there is no {what} in {name}"),
        format!("it must hold one as PEM, between lines such as `-----BEGIN {label}-----`"),
    )
}

fn broken(name: &str) -> Flaw {
    Flaw::new(
        format!("the PEM in {name} is damaged"),
        "it was cut short or changed on its way; copy it again",
    )
}

/// Whether a key is encrypted: in the form of PKCS #8, or in the older one of OpenSSL.
fn is_encrypted(bytes: &[u8]) -> bool {
    contains(bytes, "-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || (key_label(bytes).is_some() && contains(bytes, "Proc-Type: 4,ENCRYPTED"))
}

fn key_label(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"PRIVATE KEY-----")
}

fn contains(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}
