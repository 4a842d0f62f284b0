//! Our end of an upstream's handshake.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Fault, HTTP1, HTTP2};
use crate::net::reload::Renewal;
use crate::policy::finding::Flaw;
use crate::policy::plan::{Http, Upstream};
use crate::policy::tls::{Authorities, Identity, UpstreamTls, provider};

/// What we speak TLS with to one upstream. Each handshake takes the certificates that are there when
/// it begins.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ArcSwap<ClientConfig>>,
    server_name: ServerName<'static>,
}

impl Connector {
    /// Does the handshake over `stream`. Gives the encrypted stream, and whether the upstream chose
    /// HTTP/2; one that chose nothing leaves that open.
    ///
    /// # Errors
    /// Why there is none; nothing of a request has been sent then.
    pub async fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<Http>), Fault> {
        let connector = TlsConnector::from(self.config.load_full());
        let handshake = connector.connect(self.server_name.clone(), stream);
        let stream = handshake.await.map_err(|error| Fault::of(&error))?;
        let chosen = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Some(Http::V2),
            Some(_) => Some(Http::V1),
            None => None,
        };
        Ok((stream, chosen))
    }
}

/// The connectors of many upstreams. Those with the same files share what was made of them.
#[derive(Debug, Default)]
pub struct Connectors {
    known: HashMap<Terms, Arc<ArcSwap<ClientConfig>>>,
    renewals: Vec<Renewal>,
}

/// What a handshake with an upstream depends on, beside its name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Terms {
    authorities: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    http: Http,
}

impl Connectors {
    /// The connector of `upstream`, if it is spoken to over TLS.
    ///
    /// # Errors
    /// The system has no cryptography that TLS could use.
    pub fn connector(&mut self, upstream: &Upstream) -> Result<Option<Connector>, rustls::Error> {
        let Some(tls) = &upstream.tls else {
            return Ok(None);
        };
        let server_name = tls.server_name.clone();
        let files = |identity: &Identity| (identity.cert().to_owned(), identity.key().to_owned());
        let terms = Terms {
            authorities: tls.authorities.as_ref().map(|ca| ca.file().to_owned()),
            identity: tls.identity.as_ref().map(files),
            http: upstream.http,
        };
        let config = match self.known.get(&terms) {
            Some(config) => config.clone(),
            None => {
                let config = Arc::new(ArcSwap::from_pointee(config(tls, upstream.http)?));
                self.renewals.extend(renewal(tls, upstream.http, &config));
                self.known.insert(terms, config.clone());
                config
            }
        };
        Ok(Some(Connector {
            config,
            server_name,
        }))
    }

    /// How all of them follow their files.
    #[must_use]
    pub fn into_renewals(self) -> Vec<Renewal> {
        self.renewals
    }
}

/// How a connector follows its files, if it has any.
fn renewal(tls: &UpstreamTls, http: Http, config: &Arc<ArcSwap<ClientConfig>>) -> Option<Renewal> {
    let authorities = tls.authorities.as_ref().map(Authorities::file);
    let identity = tls.identity.iter().flat_map(|own| [own.cert(), own.key()]);
    let files: Vec<&Path> = authorities.into_iter().chain(identity).collect();
    if files.is_empty() {
        return None;
    }
    let swapped = config.clone();
    let tls = tls.clone();
    Some(Renewal::new(files, move || {
        let renewed = reread(&tls)?;
        let config = self::config(&renewed, http).map_err(|error| {
            let cause = format!("what the files hold cannot be used: {error}");
            vec![Flaw::new(cause, "see whether they were made for TLS")]
        })?;
        swapped.store(Arc::new(config));
        let identity = renewed.identity.as_ref();
        let untimely = identity.and_then(|own| own.untimely(UnixTime::now()));
        let incomplete = renewed
            .authorities
            .as_ref()
            .and_then(Authorities::incomplete);
        Ok(untimely.into_iter().chain(incomplete).collect())
    }))
}

/// What the files of `tls` hold now.
fn reread(tls: &UpstreamTls) -> Result<UpstreamTls, Vec<Flaw>> {
    let mut flaws = Vec::new();
    let authorities = tls.authorities.as_ref().map(Authorities::reread);
    let authorities = authorities.transpose().map_err(|flaw| flaws.push(flaw));
    let identity = tls.identity.as_ref().map(Identity::reread).transpose();
    let identity = identity.map_err(|found| flaws.extend(found.into_iter().map(|(_, flaw)| flaw)));
    match (authorities, identity) {
        (Ok(authorities), Ok(identity)) => Ok(UpstreamTls {
            authorities,
            server_name: tls.server_name.clone(),
            identity,
        }),
        _ => Err(flaws),
    }
}

fn config(tls: &UpstreamTls, http: Http) -> Result<ClientConfig, rustls::Error> {
    let roots = match &tls.authorities {
        Some(authorities) => authorities.roots().clone(),
        None => mozilla(),
    };
    let builder = ClientConfig::builder_with_provider(provider().clone())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let certified = SingleCertAndKey::from(identity.certified().clone());
            builder.with_client_cert_resolver(Arc::new(certified))
        }
    };
    let offered: &[&[u8]] = match http {
        Http::V1 => &[HTTP1],
        Http::V2 => &[HTTP2],
        Http::Auto => &[HTTP2, HTTP1],
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// The authorities that Mozilla trusts, as of the release that this was built with.
fn mozilla() -> Arc<RootCertStore> {
    static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        Arc::new(roots)
    });
    ROOTS.clone()
}
