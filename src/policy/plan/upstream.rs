//! The servers behind us, and how they are spoken to.

use std::time::Duration;

use crate::policy::tls::UpstreamTls;
use crate::policy::url::Scheme;

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
    /// How long the upstream may take from the end of the request to the head of its answer, and
    /// for each piece of a request body that streams.
    pub response_header_timeout: Duration,
    /// How long the upstream may pause in the middle of an answer that is no stream of events.
    pub response_idle_timeout: Duration,
    /// How long an unused connection is kept; shorter than servers keep theirs (Node: 5 s).
    pub idle_timeout: Duration,
    /// How old a connection may become and still take a request.
    pub connection_age_max: Duration,
    /// Most unused connections that are kept.
    pub idle_connections_max: usize,
    /// Which HTTP it speaks.
    pub http: Http,
    /// Most requests at once on one HTTP/2 connection, where the upstream takes so many.
    pub http2_streams_max: usize,
    /// How often a peer with open HTTP/2 streams is asked whether it is there, and how long it may
    /// take to say so.
    pub http2_ping_interval: Duration,
    /// How it is told where a request came from.
    pub forwarded: Forwarded,
    /// Whom we trust and who we are, if the URL is `https://`.
    pub tls: Option<UpstreamTls>,
}

/// Which HTTP an upstream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Http {
    /// HTTP/1.1.
    V1,
    /// HTTP/2, known beforehand.
    V2,
    /// What it chooses in the TLS handshake; HTTP/1.1 where there is none.
    Auto,
}

/// How an upstream is told where a request came from. Whatever a request says of it itself is
/// replaced in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// By `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Real-IP`.
    XForwarded,
    /// By `Forwarded` (RFC 7239).
    Forwarded,
    /// By all of these.
    Both,
    /// Not at all.
    Off,
}

impl Upstream {
    /// The URL without its query, which may hold a credential.
    #[must_use]
    pub fn url(&self) -> String {
        let query = if self.query.is_some() { "?…" } else { "" };
        let scheme = self.scheme().as_str();
        format!("{scheme}://{}{}{query}", self.authority, self.path)
    }

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
            response_idle_timeout: Upstream::RESPONSE_IDLE_TIMEOUT,
            idle_timeout: Upstream::IDLE_TIMEOUT,
            connection_age_max: Upstream::CONNECTION_AGE_MAX,
            idle_connections_max: Upstream::IDLE_CONNECTIONS_MAX,
            http: Upstream::HTTP,
            http2_streams_max: Upstream::HTTP2_STREAMS_MAX,
            http2_ping_interval: Upstream::HTTP2_PING_INTERVAL,
            forwarded: Upstream::FORWARDED,
            tls: None,
        }
    }

    /// The default: a server that is there answers at once, and packets may be lost twice.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// The default: long, because a tool may work for minutes before it answers as JSON.
    pub const RESPONSE_HEADER_TIMEOUT: Duration = Duration::from_secs(300);
    /// The default: as long as the head may take, for servers that write as they work.
    pub const RESPONSE_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
    /// The default: Node closes idle connections after 5 s.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
    /// The default: a name that moves is followed within minutes, and handshakes stay rare.
    pub const CONNECTION_AGE_MAX: Duration = Duration::from_secs(300);
    /// The default: enough for a sidecar under load.
    pub const IDLE_CONNECTIONS_MAX: usize = 256;
    /// The default.
    pub const HTTP: Http = Http::Auto;
    /// The default: what servers take by default too.
    pub const HTTP2_STREAMS_MAX: usize = 100;
    /// The default: a peer that vanished is noticed within a minute.
    pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
    /// The default: what most servers can read.
    pub const FORWARDED: Forwarded = Forwarded::XForwarded;
}
