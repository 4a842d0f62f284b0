//! The resolved policy: what the gateway runs on. Built only from checked files or from flags,
//! with every default filled in, so that no stage asks twice what a missing key means.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::tls::{ListenTls, UpstreamTls};
use super::url::Scheme;
use crate::protocol::frame;
use crate::protocol::version::{Version, Versions};

/// Everything that one gateway process runs on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where clients connect.
    pub listen: Listen,
    /// Where `/healthz` and `/readyz` are served.
    pub status: SocketAddr,
    /// The access log.
    pub log: Log,
    /// The routes, in the order of the files.
    pub routes: Vec<Arc<Route>>,
}

/// The client side, as far as it is decided before a route is known.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The address to bind; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Most header fields that a request may have.
    pub header_count_max: usize,
    /// Most bytes that the request line and all header fields may take together.
    pub header_bytes_max: usize,
    /// How long a client may take to send its head, and to begin a request on an idle connection.
    pub header_read_timeout: Duration,
    /// Who we are and whom we let in, if clients come over TLS.
    pub tls: Option<ListenTls>,
}

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            header_count_max: 64,
            header_bytes_max: 32 << 10,
            header_read_timeout: Duration::from_secs(60),
            tls: None,
        }
    }
}

/// The access log: one record per exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How a record is written.
    pub access: LogFormat,
    /// Where to; standard error if no file is named.
    pub file: Option<PathBuf>,
    /// How many bytes of records may wait for a slow reader before further ones are dropped
    /// (and counted).
    pub backlog_bytes_max: usize,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            access: LogFormat::Text,
            file: None,
            backlog_bytes_max: 1 << 20,
        }
    }
}

/// How an access record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// `key=value` pairs per line, for people.
    Text,
    /// No access log.
    Off,
}

/// One endpoint: a path (and perhaps a host), what it accepts and where it leads.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name, unique in the policy.
    pub name: String,
    /// The exact path, without a slash at its end (`/` alone excepted).
    pub path: String,
    /// The hosts that a request may name in `Host`; the port is not compared.
    pub hosts: Hosts,
    /// The origins that a browser may come from.
    pub origins: Origins,
    /// Where requests go.
    pub upstream: Arc<Upstream>,
    /// Versions and header rules.
    pub protocol: Protocol,
    /// What a client may make us hold or wait for.
    pub bounds: Bounds,
}

impl Route {
    /// The path of a route that names none.
    pub const PATH: &str = "/mcp";
}

/// Which `Host` values a route answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Any host: the default where we do not listen on loopback.
    Any,
    /// Names of this machine's loopback only: the default on loopback, against DNS rebinding.
    Loopback,
    /// These names in lower case, compared without regard to case; an IPv6 address stands without
    /// brackets and in its canonical form.
    Named(Vec<String>),
}

/// Which `Origin` values a route answers to; a request without the header is always let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// None: the default where we do not listen on loopback.
    None,
    /// Origins on loopback: the default on loopback.
    Loopback,
    /// These origins in lower case, as browsers write them: scheme, host and port, nothing else.
    Named(Vec<String>),
}

/// What a route speaks.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The versions that are accepted.
    pub versions: Versions,
    /// What becomes of modern requests without their routing headers.
    pub missing: Missing,
    /// What becomes of routing headers on legacy requests.
    pub legacy: LegacyHeaders,
    /// How refusals of readable legacy requests travel.
    pub legacy_refusals: LegacyRefusals,
}

impl Default for Protocol {
    fn default() -> Self {
        Protocol {
            versions: Versions::of(&[
                Version::V2026_07_28,
                Version::V2025_11_25,
                Version::V2025_06_18,
            ]),
            missing: Missing::Reject,
            legacy: LegacyHeaders::Verify,
            legacy_refusals: LegacyRefusals::InBand,
        }
    }
}

/// A modern request lacks a routing header that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse it, as the specification says.
    Reject,
    /// Supply the header from the body, for clients that lag.
    Mirror,
}

/// A legacy request carries routing headers, which nobody ever validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyHeaders {
    /// They must agree with the body.
    Verify,
    /// They are removed unread.
    Drop,
    /// Their presence is refused.
    Refuse,
}

/// How what we refuse of a readable legacy request is told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyRefusals {
    /// HTTP 200 with a JSON-RPC error: legacy clients lose their session over a 4xx or 5xx.
    InBand,
    /// The HTTP status of the refusal.
    Status,
}

/// What one exchange may make us hold or wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes that a request body may have.
    pub body_bytes_max: usize,
    /// Bytes set aside at once for a body whose length is announced, and the most that is held
    /// back of an answer that must be read (that to `initialize` or `server/discover`).
    pub buffer_bytes: usize,
    /// How long a client may pause while it sends a body.
    pub body_idle_timeout: Duration,
    /// Most bytes of a refused request that are read and thrown away, so that the client, which
    /// may still be sending, reads the answer.
    pub drain_bytes_max: usize,
    /// How long that may take.
    pub drain_timeout: Duration,
    /// What the message in a body may not exceed.
    pub message: frame::Bounds,
    /// Most legacy sessions that are remembered at once; the least used are forgotten first.
    pub sessions_max: u64,
    /// How long an unused legacy session is remembered.
    pub session_idle_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body_bytes_max: 4 << 20,
            buffer_bytes: 64 << 10,
            body_idle_timeout: Duration::from_secs(30),
            drain_bytes_max: 16 << 20,
            drain_timeout: Duration::from_secs(10),
            message: frame::Bounds::default(),
            sessions_max: 10_000,
            session_idle_timeout: Duration::from_secs(3600),
        }
    }
}

/// A server behind us.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The name, unique in the policy.
    pub name: String,
    /// Host and port as they stand in the URL; what `Host` says upstream.
    pub authority: String,
    /// The host alone, to be resolved (an IPv6 address without its brackets).
    pub host: String,
    /// The port, that of the scheme unless the URL names one.
    pub port: u16,
    /// The path of the URL, `/` at least.
    pub path: String,
    /// The query of the URL, if it has one; a request's own query is appended to it.
    pub query: Option<String>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long the upstream may take from the request to the head of its answer.
    pub response_header_timeout: Duration,
    /// How long an unused connection is kept; shorter than servers keep theirs (Node: 5 s).
    pub idle_timeout: Duration,
    /// Most unused connections that are kept.
    pub idle_connections_max: usize,
    /// Whom we trust and who we are, if the URL is `https://`.
    pub tls: Option<UpstreamTls>,
}

impl Upstream {
    /// How it is spoken to.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match self.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        }
    }

    /// The upstream that listens on `host` and `port`, with every default.
    #[must_use]
    pub fn at(name: &str, host: &str, port: u16, path: &str) -> Upstream {
        Upstream {
            name: name.to_owned(),
            authority: format!("{host}:{port}"),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query: None,
            connect_timeout: Upstream::CONNECT_TIMEOUT,
            response_header_timeout: Upstream::RESPONSE_HEADER_TIMEOUT,
            idle_timeout: Upstream::IDLE_TIMEOUT,
            idle_connections_max: Upstream::IDLE_CONNECTIONS_MAX,
            tls: None,
        }
    }

    /// The default: a server that is there answers at once, and packets may be lost twice.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// The default: long, because a tool may work for minutes before it answers as JSON.
    pub const RESPONSE_HEADER_TIMEOUT: Duration = Duration::from_secs(300);
    /// The default: Node closes idle connections after 5 s.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
    /// The default: enough for a sidecar under load.
    pub const IDLE_CONNECTIONS_MAX: usize = 256;
}

impl Plan {
    /// The default address of the status listener.
    pub const STATUS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9902);
}
