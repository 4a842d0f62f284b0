//! `tls`, of the listener and of upstreams: the files are read when the policy is, so that what is
//! wrong with them is told with everything else.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustls::pki_types::{ServerName, UnixTime};

use crate::policy::finding::Flaw;
use crate::policy::plan::Upstream;
use crate::policy::tls::{
    Authorities, ClientCertificates, Demand, Half, Identity, ListenTls, UpstreamTls,
};
use crate::policy::url::{Url, check_host};

use super::key::{self, Key, Seen, Shown, word};
use super::node::Node;
use super::reader::Reader;

/// What the keys of `listen.tls` say.
#[derive(Default)]
struct DraftListen {
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    client_certificate: Demand,
}

/// The words for [`Demand`].
const DEMANDS: [(&str, Demand); 2] = [
    ("required", Demand::Required),
    ("optional", Demand::Optional),
];

const LISTEN: &[Key<DraftListen>] = &[
    Key {
        name: "cert",
        read: |l, n, r| read_path(n, &mut l.cert, r),
        show: |l| show_path(l.cert.as_deref(), "none"),
    },
    Key {
        name: "key",
        read: |l, n, r| read_path(n, &mut l.key, r),
        show: |l| show_path(l.key.as_deref(), "none"),
    },
    Key {
        name: "client_ca",
        read: |l, n, r| read_path(n, &mut l.client_ca, r),
        show: |l| show_path(l.client_ca.as_deref(), "none"),
    },
    Key {
        name: "client_certificate",
        read: |l, n, r| r.choice(n, &DEMANDS, &mut l.client_certificate),
        show: |l| Shown::value(word(&DEMANDS, l.client_certificate)),
    },
];

/// Reads `listen.tls` and the files that it names.
pub(super) fn read_listen(node: &Node, into: &mut Option<ListenTls>, reader: &mut Reader<'_>) {
    let mut draft = DraftListen::default();
    let seen = key::read(node, "`listen.tls`", LISTEN, &mut draft, reader);
    if let Some(place) = seen.place("client_certificate")
        && seen.lacks("client_ca")
    {
        let flaw = Flaw::new(
            "`client_certificate` without `client_ca`: nobody would vouch for a certificate",
            "name the file with the authority that clients have theirs from under `client_ca`",
        );
        reader.refuse(place, flaw);
    }
    let identity = read_identity(&seen, draft.cert.as_deref(), draft.key.as_deref(), reader);
    let authorities = read_authorities(&seen, "client_ca", draft.client_ca.as_deref(), reader);
    if seen.lacks("cert") && seen.lacks("key") {
        let flaw = Flaw::new(
            "`listen.tls` names no certificate",
            "write `tls: { cert: FILE, key: FILE }`",
        );
        reader.refuse(&node.place, flaw);
    }
    *into = identity.map(|identity| ListenTls {
        identity,
        clients: authorities.map(|authorities| ClientCertificates {
            authorities,
            demand: draft.client_certificate,
        }),
    });
}

/// What `listen.tls` says.
pub(super) fn show_listen(tls: Option<&ListenTls>) -> Shown {
    let clients = tls.and_then(|tls| tls.clients.as_ref());
    let draft = DraftListen {
        cert: tls.map(|tls| tls.identity.cert().to_owned()),
        key: tls.map(|tls| tls.identity.key().to_owned()),
        client_ca: clients.map(|clients| clients.authorities.file().to_owned()),
        client_certificate: clients.map(|clients| clients.demand).unwrap_or_default(),
    };
    key::show(LISTEN, &draft)
}

/// What the keys of an upstream's `tls` say, and what was in the files.
#[derive(Clone, Default)]
pub(super) struct DraftTls {
    ca: Option<PathBuf>,
    server_name: Option<String>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<Authorities>,
    identity: Option<Identity>,
}

const UPSTREAM: &[Key<DraftTls>] = &[
    Key {
        name: "ca",
        read: |t, n, r| read_path(n, &mut t.ca, r),
        show: |t| show_path(t.ca.as_deref(), "Mozilla's list"),
    },
    Key {
        name: "server_name",
        read: read_server_name,
        show: |t| Shown::value(t.server_name.as_deref().unwrap_or("the URL's host")),
    },
    Key {
        name: "cert",
        read: |t, n, r| read_path(n, &mut t.cert, r),
        show: |t| show_path(t.cert.as_deref(), "none"),
    },
    Key {
        name: "key",
        read: |t, n, r| read_path(n, &mut t.key, r),
        show: |t| show_path(t.key.as_deref(), "none"),
    },
];

impl DraftTls {
    /// Reads the keys of `node` over what the defaults say, and the files that stand here: those of
    /// the defaults were read with them.
    pub(super) fn read(&mut self, node: &Node, reader: &mut Reader<'_>) {
        let mut own = DraftTls::default();
        let seen = key::read(node, "`tls`", UPSTREAM, &mut own, reader);
        if own.server_name.is_some() {
            self.server_name = own.server_name;
        }
        if own.ca.is_some() {
            self.authorities = read_authorities(&seen, "ca", own.ca.as_deref(), reader);
            self.ca = own.ca;
        }
        if own.cert.is_some() || own.key.is_some() {
            self.identity = read_identity(&seen, own.cert.as_deref(), own.key.as_deref(), reader);
            (self.cert, self.key) = (own.cert, own.key);
        }
    }

    /// What an upstream of the plan has.
    pub(super) fn of(upstream: &Upstream) -> DraftTls {
        let Some(tls) = &upstream.tls else {
            return DraftTls::default();
        };
        let named = tls.server_name.to_str();
        DraftTls {
            ca: tls.authorities.as_ref().map(|ca| ca.file().to_owned()),
            server_name: (named != upstream.host).then(|| named.into_owned()),
            cert: tls.identity.as_ref().map(|own| own.cert().to_owned()),
            key: tls.identity.as_ref().map(|own| own.key().to_owned()),
            authorities: tls.authorities.clone(),
            identity: tls.identity.clone(),
        }
    }

    /// TLS to the server of `url`, as far as its files could be read.
    pub(super) fn settle(self, url: &Url) -> Option<UpstreamTls> {
        let name = self.server_name.unwrap_or_else(|| url.host.clone());
        Some(UpstreamTls {
            authorities: self.authorities,
            // Every name of a checked URL is one of a certificate.
            server_name: ServerName::try_from(name).ok()?,
            identity: self.identity,
        })
    }

    /// What the keys say.
    pub(super) fn show(&self) -> Shown {
        key::show(UPSTREAM, self)
    }
}

fn read_server_name(tls: &mut DraftTls, node: &Node, reader: &mut Reader<'_>) {
    let wanted = "a name such as `mcp.example.com`";
    let parse = |text: &str| {
        let host = text.to_ascii_lowercase();
        let is_address = host.parse::<IpAddr>().is_ok();
        if !is_address {
            check_host(&host)
                .map_err(|flaw| Flaw::of(text, "is not the name of a server", flaw.hint))?;
        }
        Ok(Some(host))
    };
    reader.parsed(node, wanted, parse, &mut tls.server_name);
}

/// The path of a file that is read: relative to the policy file, as everywhere.
fn read_path(node: &Node, into: &mut Option<PathBuf>, reader: &mut Reader<'_>) {
    if let Some(path) = reader.text(node, "the path of a PEM file") {
        let directory = node.place.source.path.parent().unwrap_or(Path::new(""));
        *into = Some(directory.join(path));
    }
}

fn show_path(path: Option<&Path>, absent: &str) -> Shown {
    match path {
        Some(path) => Shown::value(path.display()),
        None => Shown::value(absent),
    }
}

/// The identity that the keys `cert` and `key` of a mapping name. A file is looked into even where the
/// other one is not known.
fn read_identity(
    seen: &Seen,
    cert: Option<&Path>,
    key: Option<&Path>,
    reader: &mut Reader<'_>,
) -> Option<Identity> {
    for (half, other, hint) in [
        ("cert", "key", "name the file with its key"),
        ("key", "cert", "name the file with its certificate"),
    ] {
        if let Some(place) = seen.place(half)
            && seen.lacks(other)
        {
            let flaw = Flaw::new(format!("`{half}` without `{other}`"), hint);
            reader.refuse(place, flaw);
        }
    }
    let (identity, flaws) = match (cert, key) {
        (Some(cert), Some(key)) => match Identity::read(cert, key) {
            Ok(identity) => (Some(identity), Vec::new()),
            Err(flaws) => (None, flaws),
        },
        (Some(cert), None) => (None, Half::Cert.check(cert).err().into_iter().collect()),
        (None, Some(key)) => (None, Half::Key.check(key).err().into_iter().collect()),
        (None, None) => (None, Vec::new()),
    };
    for (half, flaw) in flaws {
        let place = match half {
            Half::Cert => seen.place("cert"),
            Half::Key => seen.place("key"),
        };
        // What was read was written.
        if let Some(place) = place {
            reader.refuse(place, flaw);
        }
    }
    if let Some(place) = seen.place("cert")
        && let Some(identity) = &identity
        && let Some(flaw) = identity.untimely(UnixTime::now())
    {
        reader.warn(place, flaw);
    }
    identity
}

/// The authorities in `file`, which the key `name` of a mapping names.
fn read_authorities(
    seen: &Seen,
    name: &str,
    file: Option<&Path>,
    reader: &mut Reader<'_>,
) -> Option<Authorities> {
    let (file, place) = (file?, seen.place(name)?);
    match Authorities::read(file) {
        Ok(authorities) => {
            if let Some(flaw) = authorities.incomplete() {
                reader.warn(place, flaw);
            }
            Some(authorities)
        }
        Err(flaw) => {
            reader.refuse(place, flaw);
            None
        }
    }
}
