//! From the head of a request to its route: form, path, `Host` and `Origin`.

use http::request::Parts;
use http::{Uri, Version};

use crate::net::listener::LengthBesideChunks;
use crate::policy::host::{address, is_loopback};
use crate::policy::plan::{Hosts, Listen, Origins, Route};
use crate::protocol::head::Fields;
use crate::protocol::header::Reading;
use crate::protocol::refusal::{BodyFault, HttpFault};

/// Judges the form of a head, which no route can change.
///
/// # Errors
/// Bounds of the header fields, transfer codings, an unclear `Host`.
pub(super) fn check_form(
    head: &Parts,
    fields: &Fields<'_>,
    listen: &Listen,
) -> Result<(), HttpFault> {
    if fields.count > listen.header_count_max {
        return Err(HttpFault::HeadTooLarge {
            limit: "listen.header_count_max",
            max: listen.header_count_max,
        });
    }
    let target = head.uri.path().len() + head.uri.query().map_or(0, |query| query.len() + 1);
    let line = head.method.as_str().len() + target + "  HTTP/1.1\r\n".len();
    if line + fields.bytes > listen.header_bytes_max {
        return Err(HttpFault::HeadTooLarge {
            limit: "listen.header_bytes_max",
            max: listen.header_bytes_max,
        });
    }
    if head.extensions.get::<LengthBesideChunks>().is_some() {
        return Err(BodyFault::LengthBesideChunks.into());
    }
    match fields.transfer_encoding {
        Reading::Absent => Ok(()),
        Reading::Once(coding) if coding.eq_ignore_ascii_case(b"chunked") => Ok(()),
        Reading::Once(_) | Reading::Repeated => Err(BodyFault::TransferCoding.into()),
    }
}

/// Finds the route of a request among `routes`, by path and host; then judges its origin.
///
/// # Errors
/// 404 for an unknown path, 403 for a host or origin that is not let in, 400 for an unclear host.
pub(super) fn find<'r, T>(
    routes: &'r [T],
    of: impl Fn(&T) -> &Route,
    head: &Parts,
    fields: &Fields<'_>,
) -> Result<&'r T, HttpFault> {
    let host = host(head.version, &head.uri, fields.host)?;
    let path = head.uri.path();
    if path.starts_with("/.well-known/") || path == "/.well-known" {
        return Err(HttpFault::WellKnown);
    }
    let mut path_known = false;
    for candidate in routes {
        let route = of(candidate);
        if !is_path(&route.path, path) {
            continue;
        }
        path_known = true;
        if admits_host(&route.hosts, host) {
            check_origin(&route.origins, fields.origin)?;
            return Ok(candidate);
        }
    }
    Err(if path_known {
        HttpFault::Host {
            host: host.to_owned(),
        }
    } else {
        HttpFault::NotFound
    })
}

/// `/mcp/` is the same as `/mcp`; nothing else is.
fn is_path(route: &str, path: &str) -> bool {
    path == route || path.strip_suffix('/').is_some_and(|path| path == route)
}

/// The host that a request names, one way only: `Host` once, and equal to the authority of an
/// absolute target where there is one; over HTTP/2 the authority stands for it (RFC 9113, 8.3.1). An
/// IPv6 address keeps its brackets.
fn host<'h>(version: Version, uri: &'h Uri, host: Reading<'h>) -> Result<&'h str, HttpFault> {
    let unclear = |why| HttpFault::HostUnclear { why };
    let value = match host {
        Reading::Absent => match uri.authority() {
            Some(authority) if version == Version::HTTP_2 => authority.as_str().as_bytes(),
            Some(_) | None => return Err(unclear("is missing")),
        },
        Reading::Repeated => return Err(unclear("stands more than once")),
        Reading::Once(value) => value,
    };
    let text = std::str::from_utf8(value).unwrap_or_default();
    let host = host_of(text).ok_or_else(|| unclear("is not a host, or a host with a port"))?;
    if !matches!(uri.scheme_str(), None | Some("http" | "https")) {
        return Err(unclear("does not fit the scheme of the request's target"));
    }
    match uri.authority() {
        Some(target) if !target.as_str().eq_ignore_ascii_case(text) => {
            Err(unclear("differs from the request's target"))
        }
        Some(_) | None => Ok(host),
    }
}

/// The host of `host[:port]`, if nothing else stands there (RFC 9110, 7.2, without user names and
/// percent-encodings, which no host on a network has).
fn host_of(text: &str) -> Option<&str> {
    let end = match text.strip_prefix('[') {
        Some(address) => 1 + address.find(']')? + 1,
        None => text
            .bytes()
            .position(|byte| byte == b':')
            .unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let clear = match host.strip_prefix('[') {
        Some(_) => address(host).is_some_and(|address| address.is_ipv6()),
        None => !host.is_empty() && host.bytes().all(is_of_name),
    };
    let port_clear = match port.strip_prefix(':') {
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    (clear && port_clear).then_some(host)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

fn admits_host(hosts: &Hosts, host: &str) -> bool {
    match hosts {
        Hosts::Any => true,
        Hosts::Loopback => is_loopback(host),
        // The policy keeps addresses in their one canonical form, without brackets.
        Hosts::Named(names) => match address(host) {
            Some(address) => names.contains(&address.to_string()),
            None => names.iter().any(|name| name.eq_ignore_ascii_case(host)),
        },
    }
}

fn check_origin(origins: &Origins, origin: Reading<'_>) -> Result<(), HttpFault> {
    let value = match origin {
        Reading::Absent => return Ok(()),
        Reading::Repeated => {
            return Err(HttpFault::Origin {
                origin: "(more than one)".into(),
            });
        }
        Reading::Once(value) => value,
    };
    let origin = std::str::from_utf8(value).unwrap_or_default();
    let admitted = match origins {
        Origins::None => false,
        Origins::Loopback => is_loopback_origin(origin),
        Origins::Named(names) => names.iter().any(|name| name.eq_ignore_ascii_case(origin)),
    };
    if admitted {
        return Ok(());
    }
    Err(HttpFault::Origin {
        origin: String::from_utf8_lossy(value).into_owned(),
    })
}

/// Whether `origin` is a scheme, a loopback host and perhaps a port, and nothing else.
fn is_loopback_origin(origin: &str) -> bool {
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    authority.and_then(host_of).is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for (text, host) in [
            ("localhost", "localhost"),
            ("a.example:8080", "a.example"),
            ("127.0.0.1:65535", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
        ] {
            assert_eq!(host_of(text), Some(host), "{text}");
        }
        for text in [
            "",
            ":80",
            "a:",
            "a:b",
            "a:65536",
            "a:+1",
            "a:1:2",
            "u@a",
            "a b",
            "a/b",
            "a,b",
            "[::1",
            "[::1]x",
            "[1.2.3.4]",
            "[]",
            "::1",
            "h\u{e9}",
            "a%41",
        ] {
            assert_eq!(host_of(text), None, "{text}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for origin in [
            "http://localhost",
            "https://127.0.0.1:8443",
            "http://[::1]:3000",
        ] {
            assert!(is_loopback_origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "localhost",
            "http://localhost/",
            "http://localhost@evil.example",
            "http://user@localhost",
            "http://localhost.evil.example",
            "ftp://localhost",
            "http://evil.example#localhost",
            "http://localhost:0x",
            "http://localhost:99999",
            "http://localhost:",
        ] {
            assert!(!is_loopback_origin(origin), "{origin}");
        }
    }

    #[test]
    fn a_slash_at_the_end_is_the_same_path() {
        assert!(is_path("/mcp", "/mcp") && is_path("/mcp", "/mcp/") && is_path("/", "/"));
        for path in ["/mcp//", "/mcpx", "/MCP", "/", "/%6dcp", "mcp"] {
            assert!(!is_path("/mcp", path), "{path}");
        }
    }
}
