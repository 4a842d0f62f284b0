//! Who sent a request, as far as it can be believed, and how the upstream is told. What a proxy
//! says that the policy trusts is read; of anybody else only what we see ourselves counts.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::net::listener::Client;
use crate::policy::host::host_of;
use crate::policy::network::Network;
use crate::policy::plan::{Forwarded, ForwardedBy, Listen};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");

/// Most addresses in the trail of a request, and most bytes of the lines that it stands in. What is
/// longer is not believed.
const HOPS_MAX: usize = 32;
const TRAIL_BYTES_MAX: usize = 4 << 10;

/// Who sent a request.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    client: Client,
    trail: Option<Trail>,
}

/// What a trusted proxy says of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trail {
    /// Where it came from: first the client, the nearest that no trusted proxy is, then the trusted
    /// proxies behind it; the proxy that says it is not among them.
    hops: Vec<IpAddr>,
    /// Whether the client's connection was encrypted.
    tls: Option<bool>,
    /// The host that the client named.
    host: Option<HeaderValue>,
}

impl Sender {
    /// The sender of a request with these headers, which came from `client`.
    #[must_use]
    pub(super) fn of(client: Client, headers: &HeaderMap, listen: &Listen) -> Sender {
        let trusted = &listen.trusted_proxies;
        let trail = if is_among(trusted, client.address.ip()) {
            match listen.forwarded {
                ForwardedBy::XForwarded => read_x_forwarded(headers, trusted),
                ForwardedBy::Forwarded => read_forwarded(headers, trusted),
            }
        } else {
            None
        };
        Sender { client, trail }
    }

    /// The other end of the connection.
    #[must_use]
    pub(super) fn peer(&self) -> SocketAddr {
        self.client.address
    }

    /// The client's address as a trusted proxy gives it.
    #[must_use]
    pub(super) fn named(&self) -> Option<IpAddr> {
        self.trail.as_ref()?.hops.first().copied()
    }

    /// Tells in `headers` where the request came from; `host` is the one that it names.
    pub(super) fn tell(&self, headers: &mut HeaderMap, how: Forwarded, host: HeaderValue) {
        let trail = self.trail.as_ref();
        let host = trail.and_then(|trail| trail.host.clone()).unwrap_or(host);
        let tls = trail.and_then(|trail| trail.tls).unwrap_or(self.client.tls);
        if matches!(how, Forwarded::Forwarded | Forwarded::Both) {
            headers.insert(FORWARDED, self.forwarded(tls, &host));
        }
        if matches!(how, Forwarded::XForwarded | Forwarded::Both) {
            let name = &self.client.name;
            let (all, first) = match trail.and_then(|trail| Some((trail, trail.hops.first()?))) {
                None => (name.clone(), name.clone()),
                Some((trail, client)) => (trail.behind(name), value(*client)),
            };
            headers.insert(X_FORWARDED_FOR, all);
            headers.insert(X_REAL_IP, first);
            headers.insert(X_FORWARDED_PROTO, if tls { HTTPS } else { HTTP });
            headers.insert(X_FORWARDED_HOST, host);
        }
    }

    /// One element for each hop (RFC 7239, 4); that of the client says what the client did.
    fn forwarded(&self, tls: bool, host: &HeaderValue) -> HeaderValue {
        let own = self.client.address.ip().to_canonical();
        let hops = self.trail.as_ref().map_or(&[][..], |trail| &trail.hops);
        let mut text = Vec::with_capacity(64 + host.len());
        for (at, hop) in hops.iter().chain([&own]).enumerate() {
            if at > 0 {
                text.extend_from_slice(b", ");
            }
            let node = match hop {
                IpAddr::V4(address) => format!("for={address}"),
                IpAddr::V6(address) => format!("for=\"[{address}]\""),
            };
            text.extend_from_slice(node.as_bytes());
            if at == 0 {
                let proto: &[u8] = if tls { b";proto=https" } else { b";proto=http" };
                text.extend_from_slice(proto);
                // It was read as a host, in which nothing stands that would have to be escaped.
                text.extend_from_slice(b";host=\"");
                text.extend_from_slice(host.as_bytes());
                text.push(b'"');
            }
        }
        HeaderValue::try_from(text).unwrap_or_else(|_| self.client.name.clone())
    }
}

impl Trail {
    /// The trail of `hops`, of which everything before the nearest that no trusted proxy is was said
    /// by whoever that is: it is not believed, and not passed on either.
    fn new(mut hops: Vec<IpAddr>, trusted: &[Network]) -> Trail {
        // Where all are trusted, the farthest is the client.
        let client = hops.iter().rposition(|hop| !is_among(trusted, *hop));
        hops.drain(..client.unwrap_or(0));
        Trail {
            hops,
            tls: None,
            host: None,
        }
    }

    /// The addresses with that of the proxy behind them.
    fn behind(&self, proxy: &HeaderValue) -> HeaderValue {
        let mut text = String::new();
        for hop in &self.hops {
            text.push_str(&hop.to_string());
            text.push_str(", ");
        }
        text.push_str(proxy.to_str().unwrap_or_default());
        HeaderValue::try_from(text).unwrap_or_else(|_| proxy.clone())
    }
}

fn value(address: IpAddr) -> HeaderValue {
    // An address is written in letters, digits, dots and colons.
    HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}

fn is_among(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// Reads `X-Forwarded-For`, and what stands beside it. One entry that is no address, and none counts.
fn read_x_forwarded(headers: &HeaderMap, trusted: &[Network]) -> Option<Trail> {
    let entries = entries(headers, &X_FORWARDED_FOR)?;
    let hops: Option<Vec<_>> = entries.into_iter().map(hop).collect();
    let mut trail = Trail::new(hops?, trusted);
    trail.tls = once(headers, &X_FORWARDED_PROTO).and_then(scheme);
    trail.host = once(headers, &X_FORWARDED_HOST).and_then(host);
    Some(trail)
}

/// Reads `Forwarded` (RFC 7239). One element that does not say by its address whom it is for, and
/// none counts.
fn read_forwarded(headers: &HeaderMap, trusted: &[Network]) -> Option<Trail> {
    let entries = entries(headers, &FORWARDED)?;
    let elements: Option<Vec<Element<'_>>> = entries.into_iter().map(Element::read).collect();
    let elements = elements?;
    let hops: Option<Vec<_>> = elements.iter().map(|element| element.hop).collect();
    let mut trail = Trail::new(hops?, trusted);
    if let Some(client) = elements.get(elements.len() - trail.hops.len()) {
        trail.tls = client.proto.and_then(scheme);
        trail.host = client.host.and_then(host);
    }
    Some(trail)
}

/// The entries of a list that may stand in several lines; none if there are too many.
fn entries<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Vec<&'h str>> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for line in headers.get_all(name) {
        let line = line.to_str().ok()?;
        bytes += line.len();
        entries.extend(line.split(',').map(|entry| entry.trim_matches([' ', '\t'])));
        if bytes > TRAIL_BYTES_MAX || entries.len() > HOPS_MAX {
            return None;
        }
    }
    Some(entries)
}

/// The value of a field that stands in one line.
fn once<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().ok(),
        (_, _) => None,
    }
}

/// An address, perhaps with a port.
fn hop(text: &str) -> Option<IpAddr> {
    let address = match text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(bare) => IpAddr::V6(bare.parse().ok()?),
        None => text
            .parse()
            .or_else(|_| text.parse().map(|socket: SocketAddr| socket.ip()))
            .ok()?,
    };
    Some(address.to_canonical())
}

fn scheme(text: &str) -> Option<bool> {
    match text {
        "https" => Some(true),
        "http" => Some(false),
        _ => None,
    }
}

fn host(text: &str) -> Option<HeaderValue> {
    host_of(text)?;
    HeaderValue::from_str(text).ok()
}

/// One element of `Forwarded`, as far as it matters.
#[derive(Default)]
struct Element<'h> {
    hop: Option<IpAddr>,
    proto: Option<&'h str>,
    host: Option<&'h str>,
}

impl<'h> Element<'h> {
    /// Reads an element. Values with a comma or a semicolon have no meaning here, so the text was
    /// divided at each of them: what was divided inside of quotes is no value any more.
    fn read(text: &'h str) -> Option<Element<'h>> {
        let mut element = Element::default();
        for pair in text.split(';') {
            let (name, value) = pair.split_once('=')?;
            let value = unquoted(value)?;
            if !is_token(name) {
                return None;
            }
            let taken = if name.eq_ignore_ascii_case("for") {
                element.hop.replace(hop(value)?).is_some()
            } else if name.eq_ignore_ascii_case("proto") {
                element.proto.replace(value).is_some()
            } else if name.eq_ignore_ascii_case("host") {
                element.host.replace(value).is_some()
            } else {
                false
            };
            if taken {
                return None;
            }
        }
        Some(element)
    }
}

/// A token as it is, or what stands in quotes.
fn unquoted(value: &str) -> Option<&str> {
    match value.strip_prefix('"') {
        Some(quoted) => quoted
            .strip_suffix('"')
            .filter(|value| !value.contains(['"', '\\'])),
        None => is_token(value).then_some(value),
    }
}

fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

#[cfg(test)]
mod tests;
