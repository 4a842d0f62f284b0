//! The resolved policy: what the gateway runs on. Built only from checked files or from flags,
//! with every default filled in, so that no stage asks twice what a missing key means.

mod bounds;
mod cache;
mod shutdown;
mod stream;
mod upstream;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::bounds::Bounds;
pub use self::cache::{Cache, Catalog, LegacyCache, LegacyScope, Memory, Order};
pub use self::shutdown::{Shutdown, StreamEnd};
pub use self::stream::{Deadlines, Streams};
pub use self::upstream::{Forwarded, Http, Upstream};
use super::network::Network;
use super::pin::Pin;
use super::segment;
use super::tls::ListenTls;
use crate::protocol::version::{Version, Versions};

/// Everything that one gateway process runs on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where clients connect.
    pub listen: Listen,
    /// Where `/healthz` and `/readyz` are served.
    pub status: SocketAddr,
    /// Where what the gateway remembers can be looked at and purged; nowhere if not named.
    pub admin: Option<SocketAddr>,
    /// The access log.
    pub log: Log,
    /// The memory that the caches of all routes share.
    pub memory: Memory,
    /// How the process ends.
    pub shutdown: Shutdown,
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
    /// How long a client may take to agree on a protocol.
    pub handshake_timeout: Duration,
    /// How long a client may take nothing of an answer that is there for it.
    pub write_idle_timeout: Duration,
    /// Most requests that a client may have in flight on one HTTP/2 connection.
    pub http2_streams_max: u32,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections at once from one address; of IPv6, from one network of 64 bits.
    pub connections_per_source_max: usize,
    /// Most requests in flight on all connections.
    pub requests_max: usize,
    /// The proxies before us, which are believed what they say of where a request came from.
    pub trusted_proxies: Vec<Network>,
    /// The fields in which they say it; what stands in others is believed of nobody.
    pub forwarded: ForwardedBy,
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
            handshake_timeout: Duration::from_secs(10),
            write_idle_timeout: Duration::from_secs(300),
            http2_streams_max: 100,
            connections_max: 10_000,
            connections_per_source_max: 10_000,
            requests_max: 10_000,
            trusted_proxies: Vec::new(),
            forwarded: ForwardedBy::XForwarded,
            tls: None,
        }
    }
}

/// In which fields a proxy says where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
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
    /// The exact path, without a slash at its end (`/` alone excepted). Where requests pass through,
    /// it may end in `/*` and is then every path that begins so.
    pub path: String,
    /// Whether requests pass through unread, and what they may not reach then. Without it they are
    /// MCP messages.
    pub pass: Option<Pass>,
    /// The hosts that a request may name in `Host`; the port is not compared.
    pub hosts: Hosts,
    /// The origins that a browser may come from.
    pub origins: Origins,
    /// What pages of these origins may send and read.
    pub cors: Cors,
    /// Where requests go.
    pub upstream: Arc<Upstream>,
    /// Versions and header rules.
    pub protocol: Protocol,
    /// What a client may make us hold or wait for.
    pub bounds: Bounds,
    /// Streams of events on their way to the client.
    pub streams: Streams,
    /// How long calls may take.
    pub deadline: Deadlines,
    /// What is served from memory.
    pub cache: Cache,
    /// What is done with lists, and learned from them.
    pub catalog: Catalog,
    /// What the definitions of tools are held against, if anything.
    pub pin: Option<Pin>,
}

impl Route {
    /// The path of a route that names none.
    pub const PATH: &str = "/mcp";
}

/// What a route does not let pass that passes requests through unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The paths of MCP endpoints on the same server: a request that reached one here would be one
    /// that nobody has read.
    pub endpoints: Vec<String>,
}

impl Pass {
    /// Whether a server could take `path` for one of its MCP endpoints, or for something below one,
    /// where servers differ in what they compare of a segment.
    #[must_use]
    pub fn reaches_endpoint(&self, path: &str) -> bool {
        let is_at = |endpoint: &String| {
            let mut segments = path.split('/');
            let mut wanted = endpoint.trim_end_matches('/').split('/');
            let above = wanted.all(|wanted| {
                segments
                    .next()
                    .is_some_and(|segment| segment::are_alike(segment, wanted))
            });
            // Below the root lies everything, and only the root itself is the endpoint there.
            above && (endpoint != "/" || segments.all(|segment| segment::bare(segment).is_empty()))
        };
        self.endpoints.iter().any(is_at)
    }
}

/// What a browser is told about requests from pages of other origins (Fetch, "CORS protocol").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Request headers beyond those of MCP, of tracing and `Authorization`.
    pub headers: Vec<String>,
    /// How long a browser may remember the answer to a preflight.
    pub max_age: Duration,
    /// Whether a page may send cookies with its requests, and read the answers to those.
    pub credentials: bool,
}

impl Cors {
    /// The request headers that a page of a route's origins may always send, beside `Mcp-Param-*`.
    pub const ALWAYS: &str = "Accept, Authorization, Content-Type, Last-Event-ID, \
                              MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, baggage, \
                              traceparent, tracestate";
}

impl Default for Cors {
    fn default() -> Self {
        Cors {
            headers: Vec::new(),
            // No browser remembers one for longer than some hours.
            max_age: Duration::from_secs(2 * 3600),
            credentials: false,
        }
    }
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

impl Plan {
    /// The default address of the status listener.
    pub const STATUS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9902);
    /// The default address of the admin listener.
    pub const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);
}
