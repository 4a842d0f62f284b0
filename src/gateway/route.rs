//! From the head of a request to its route: form, path, `Host` and `Origin`.

use http::request::Parts;
use http::{Uri, Version};

use crate::net::listener::LengthBesideChunks;
use crate::policy::host::{address, host_of, is_loopback};
use crate::policy::plan::{Hosts, Listen, Origins, Route};
use crate::policy::url::check_path;
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

/// Sorts routes as [`find`] wants them: those of one path first, then those of all paths below
/// another, the longest first.
pub(super) fn sort<T>(routes: &mut [T], of: impl Fn(&T) -> &Route) {
    routes.sort_by_key(|candidate| {
        let route = of(candidate);
        below(&route.path).map_or(0, |above| usize::MAX - above.len())
    });
}

/// Finds the route of a request among `routes`, which are sorted, by path and host.
///
/// # Errors
/// 404 for an unknown path, 403 for a host that is not let in, 400 for an unclear host, and for an
/// unclear path where any could be meant.
pub(super) fn find<'r, T>(
    routes: &'r [T],
    of: impl Fn(&T) -> &Route,
    head: &Parts,
    fields: &Fields<'_>,
) -> Result<&'r T, HttpFault> {
    let host = host(head.version, &head.uri, fields.host)?;
    let path = head.uri.path();
    let mut path_known = false;
    for candidate in routes {
        let route = of(candidate);
        if !admits_path(route, path)? {
            continue;
        }
        let pass = route.pass.as_ref();
        let reaches_endpoint = pass.is_some_and(|pass| pass.reaches_endpoint(path));
        if admits_host(&route.hosts, host) {
            if reaches_endpoint {
                // This is the route that says most of the path. One that says less may lead to
                // another server, which nobody meant.
                break;
            }
            return Ok(candidate);
        }
        path_known |= !reaches_endpoint;
    }
    Err(if path_known {
        HttpFault::Host {
            host: host.to_owned(),
        }
    } else if is_well_known(path) {
        HttpFault::WellKnown
    } else {
        HttpFault::NotFound
    })
}

/// Whether a route takes this path. One that takes all paths below its own does so only where every
/// server reads the same path, so that nothing climbs out of it, and no well-known documents unless
/// it names them.
fn admits_path(route: &Route, path: &str) -> Result<bool, HttpFault> {
    let Some(above) = below(&route.path) else {
        return Ok(is_path(&route.path, path));
    };
    if !path.starts_with(above) {
        return Ok(false);
    }
    if let Err(flaw) = check_path(path) {
        return Err(HttpFault::PathUnclear { why: flaw.cause });
    }
    Ok(!is_well_known(path) || is_well_known(above))
}

/// What all paths of a route begin with, if they are not one path.
fn below(path: &str) -> Option<&str> {
    path.strip_suffix('*')
}

/// `/mcp/` is the same as `/mcp`; nothing else is.
fn is_path(route: &str, path: &str) -> bool {
    path == route || path.strip_suffix('/').is_some_and(|path| path == route)
}

/// Whether a path is one of RFC 8615.
fn is_well_known(path: &str) -> bool {
    let below = path.strip_prefix("/.well-known");
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The host that a request names, one way only. In HTTP/1 that is `Host`, once and equal to the
/// authority of an absolute target where there is one (RFC 9112, 3.2); in later versions `:authority`,
/// and equal to it `Host` where there is one (RFC 9113, 8.3.1). An IPv6 address keeps its brackets.
fn host<'h>(version: Version, uri: &'h Uri, host: Reading<'h>) -> Result<&'h str, HttpFault> {
    let unclear = |why| HttpFault::HostUnclear { why };
    let target = uri.authority().map(http::uri::Authority::as_str);
    let line = match host {
        Reading::Absent => None,
        Reading::Repeated => return Err(unclear("stands more than once")),
        Reading::Once(value) => Some(std::str::from_utf8(value).unwrap_or_default()),
    };
    let named = match (version, target, line) {
        (Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11, _, None) => {
            return Err(unclear("is missing"));
        }
        (Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11, _, Some(line)) => line,
        (_, None, _) => return Err(unclear("stands in no :authority, where it belongs")),
        (_, Some(target), _) => target,
    };
    let host = host_of(named).ok_or_else(|| unclear("is not a host, or a host with a port"))?;
    if !matches!(uri.scheme_str(), None | Some("http" | "https")) {
        return Err(unclear("does not fit the scheme of the request's target"));
    }
    let differs = |other: &str| !other.eq_ignore_ascii_case(named);
    if target.is_some_and(differs) || line.is_some_and(differs) {
        return Err(unclear("differs from the request's target"));
    }
    Ok(host)
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

/// Judges the page that a request comes from. Browsers write an origin one way only (RFC 6454, 6.2:
/// without the default port of the scheme, a name in its ASCII form), so it is compared as it is.
///
/// # Errors
/// [`HttpFault::Origin`] for one that is not let in, and for more than one.
pub(super) fn check_origin(origins: &Origins, origin: Reading<'_>) -> Result<(), HttpFault> {
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
mod tests;
