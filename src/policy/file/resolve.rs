//! Drafts → the plan: names become the things they name, and what contradicts another part of the
//! policy is refused.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::policy::finding::{self, Errors, Finding, Flaw, Origin, shown};
use crate::policy::host::{address, is_loopback};
use crate::policy::plan::{Hosts, Origins, Pass, Plan, Route, Upstream};
use crate::policy::url::Url;

use super::gateway::Draft;
use super::key::suggest;
use super::reader::Reader;
use super::route::{DraftRoute, Terms};
use super::upstream::{self, DraftUpstream, Target};
use super::{Addresses, Policy};

/// The plan of what was read. `complete` says whether every file was.
pub(super) fn resolve(
    mut draft: Draft,
    addresses: Addresses,
    complete: bool,
    mut reader: Reader<'_>,
) -> Result<Policy, Errors> {
    override_addresses(&mut draft, addresses);
    // The gateway file was read first, but the routes keep the order of the files.
    draft.routes.sort_by_key(|route| route.origin.rank());
    check_addresses(&draft, &mut reader);
    warn_of_exposure(&draft, &mut reader);
    warn_of_admin(&draft, &mut reader);
    let listen = draft.listen.address;
    for route in &mut draft.routes {
        settle(&mut route.terms, listen);
    }
    check_overlaps(&draft.routes, &mut reader);
    if complete && draft.routes.is_empty() && reader.findings.is_empty() {
        let flaw = Flaw::new(
            "the policy has no route",
            "write `routes:` with one route at least",
        );
        reader.findings.push(Finding::argument("policy", flaw));
    }
    let routes = link(draft.routes, draft.upstreams, complete, &mut reader);
    Errors::none_in(reader.findings)?;
    let mut warnings = reader.warnings;
    finding::sort(&mut warnings);
    let plan = Plan {
        listen: draft.listen,
        status: draft.status.address,
        admin: draft.admin.address,
        log: draft.log,
        memory: draft.memory,
        shutdown: draft.shutdown,
        routes,
    };
    Ok(Policy { plan, warnings })
}

/// The plan of a single upstream that the command line names.
pub(super) fn single(url: Url, addresses: Addresses) -> Result<Policy, Errors> {
    const NAME: &str = "default";
    let origin = Origin::Argument("--upstream".to_owned());
    let mut reader = Reader {
        findings: Vec::new(),
        warnings: Vec::new(),
        environment: &|_| None,
    };
    if !url.names_path {
        reader.warn(origin.clone(), upstream::no_path());
    }
    let mut draft = Draft::default();
    draft.upstreams.push(DraftUpstream {
        name: NAME.to_owned(),
        origin: origin.clone(),
        upstream: Target::of(url).upstream(NAME),
    });
    draft.routes.push(DraftRoute {
        terms: Terms {
            name: NAME.to_owned(),
            upstream: NAME.to_owned(),
            ..Terms::default()
        },
        origin: origin.clone(),
        upstream_origin: origin,
        well: true,
    });
    resolve(draft, addresses, true, reader)
}

fn override_addresses(draft: &mut Draft, addresses: Addresses) {
    if let Some(address) = addresses.listen {
        draft.listen.address = address;
        draft.listen_origin = Some(Origin::Argument("--listen".to_owned()));
    }
    if let Some(address) = addresses.status {
        draft.status.address = address;
        draft.status_origin = Some(Origin::Argument("--status".to_owned()));
    }
    if let Some(address) = addresses.admin {
        draft.admin.address = Some(address);
        draft.admin_origin = Some(Origin::Argument("--admin".to_owned()));
    }
}

/// Fills in what depends on the address: on loopback only this machine's names and origins are let
/// in, against DNS rebinding.
fn settle(terms: &mut Terms, listen: SocketAddr) {
    let local = listen.ip().is_loopback();
    terms
        .hosts
        .get_or_insert(if local { Hosts::Loopback } else { Hosts::Any });
    terms.origins.get_or_insert(if local {
        Origins::Loopback
    } else {
        Origins::None
    });
}

/// Refuses addresses that cannot both be listened on, and upstreams that lead back to us.
fn check_addresses(draft: &Draft, reader: &mut Reader<'_>) {
    check_clashes(draft, reader);
    let listen = draft.listen.address;
    for upstream in &draft.upstreams {
        let Some(target) = &upstream.upstream else {
            continue;
        };
        let same_host = match target.host.parse::<IpAddr>() {
            Ok(ip) => ip == listen.ip() || (ip.is_loopback() && listen.ip().is_unspecified()),
            Err(_) => {
                is_loopback(&target.host)
                    && (listen.ip().is_loopback() || listen.ip().is_unspecified())
            }
        };
        if same_host && target.port == listen.port() {
            let flaw = Flaw::new(
                format!(
                    "the upstream `{}` is the gateway itself: it listens on {listen}",
                    upstream.name
                ),
                "write the address of the server, or another `listen.address`",
            );
            reader.refuse(upstream.origin.clone(), flaw);
        }
    }
}

/// Refuses two addresses of ours that are one.
fn check_clashes(draft: &Draft, reader: &mut Reader<'_>) {
    let listen = ("listen", draft.listen.address, &draft.listen_origin);
    let status = ("status", draft.status.address, &draft.status_origin);
    let admin = draft.admin.address;
    let admin = admin.map(|address| ("admin", address, &draft.admin_origin));
    let meets = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
    let pairs = [
        Some((listen, status)),
        admin.map(|admin| (listen, admin)),
        admin.map(|admin| (status, admin)),
    ];
    for ((first, a, a_origin), (second, b, b_origin)) in pairs.into_iter().flatten() {
        if a.port() == 0 || a.port() != b.port() || !meets(a.ip(), b.ip()) {
            continue;
        }
        let origin = b_origin.clone().or_else(|| a_origin.clone());
        let flaw = Flaw::new(
            format!("`{first}` ({a}) and `{second}` ({b}) are the same address"),
            "give them different ports",
        );
        let origin = origin.unwrap_or_else(|| Origin::Argument("policy".to_owned()));
        reader.refuse(origin, flaw);
    }
}

/// Warns where other machines could look at what the gateway remembers, and purge it.
fn warn_of_admin(draft: &Draft, reader: &mut Reader<'_>) {
    if let Some(address) = draft.admin.address
        && !address.ip().is_loopback()
        && let Some(origin) = &draft.admin_origin
    {
        let flaw = Flaw::new(
            format!(
                "whoever reaches {address} can look at what the gateway remembers and purge it, \
                 because nobody is asked who they are there"
            ),
            "listen on loopback, as in `127.0.0.1:9901`, unless something else keeps others away",
        );
        reader.warn(origin.clone(), flaw);
    }
}

/// Warns where the gateway can be reached from other machines and nobody said by which names.
fn warn_of_exposure(draft: &Draft, reader: &mut Reader<'_>) {
    let listen = draft.listen.address;
    let open: Vec<&DraftRoute> = draft
        .routes
        .iter()
        .filter(|r| r.terms.hosts.is_none())
        .collect();
    let Some(first) = open.first() else {
        return;
    };
    if listen.ip().is_loopback() {
        return;
    }
    let others = match open.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let flaw = Flaw::new(
        format!(
            "the gateway listens on {listen}, and the route `{}`{others} answers to any `Host`",
            first.terms.name
        ),
        "write `hosts: [ … ]` with the names that clients use (for all routes under `defaults`), or \
         `hosts: any` if it is meant",
    );
    reader.warn(first.origin.clone(), flaw);
}

/// Refuses two routes of which a request could mean either.
fn check_overlaps(routes: &[DraftRoute], reader: &mut Reader<'_>) {
    #[derive(Default)]
    struct Taken<'r> {
        first: Option<&'r DraftRoute>,
        any: Option<&'r DraftRoute>,
        loopback: Option<&'r DraftRoute>,
        loopback_name: Option<&'r DraftRoute>,
        names: HashMap<&'r str, &'r DraftRoute>,
    }
    let mut paths: HashMap<&str, Taken<'_>> = HashMap::new();
    for route in routes.iter().filter(|route| route.well) {
        let taken = paths.entry(&route.terms.path).or_default();
        let other = match &route.terms.hosts {
            None | Some(Hosts::Any) => taken.first,
            Some(Hosts::Loopback) => taken.any.or(taken.loopback).or(taken.loopback_name),
            Some(Hosts::Named(names)) => taken
                .any
                .or_else(|| {
                    taken
                        .loopback
                        .filter(|_| names.iter().any(|n| is_loopback(n)))
                })
                .or_else(|| {
                    names
                        .iter()
                        .find_map(|n| taken.names.get(n.as_str()).copied())
                }),
        };
        if let Some(other) = other {
            reader.refuse(route.origin.clone(), overlap(route, other));
            continue;
        }
        taken.first.get_or_insert(route);
        match &route.terms.hosts {
            None | Some(Hosts::Any) => taken.any = Some(route),
            Some(Hosts::Loopback) => taken.loopback = Some(route),
            Some(Hosts::Named(names)) => {
                taken
                    .names
                    .extend(names.iter().map(|name| (name.as_str(), route)));
                if names.iter().any(|name| is_loopback(name)) {
                    taken.loopback_name = Some(route);
                }
            }
        }
    }
}

fn overlap(route: &DraftRoute, other: &DraftRoute) -> Flaw {
    Flaw::new(
        format!(
            "the routes `{}` and `{}` ({}) both answer to the path {} on the same host",
            route.terms.name,
            other.terms.name,
            other.origin,
            shown(&route.terms.path)
        ),
        "give them different paths, or `hosts` that have nothing in common",
    )
}

/// Gives each route its upstream.
fn link(
    drafts: Vec<DraftRoute>,
    upstreams: Vec<DraftUpstream>,
    complete: bool,
    reader: &mut Reader<'_>,
) -> Vec<Arc<Route>> {
    let used: HashSet<&str> = drafts
        .iter()
        .map(|route| route.terms.upstream.as_str())
        .collect();
    let mut targets: HashMap<String, Option<Arc<Upstream>>> = HashMap::new();
    for upstream in upstreams {
        if !used.contains(upstream.name.as_str()) {
            let flaw = Flaw::new(
                format!("no route leads to the upstream `{}`", upstream.name),
                "remove it, or write a route for it",
            );
            reader.warn(upstream.origin, flaw);
        }
        targets.insert(upstream.name, upstream.upstream.map(Arc::new));
    }
    let mut routes = Vec::new();
    let endpoints = endpoints(&drafts, &targets);
    for DraftRoute {
        terms,
        origin,
        upstream_origin,
        well,
    } in drafts
    {
        match targets.get(&terms.upstream) {
            Some(Some(upstream)) => {
                let pass = terms.pass.then(|| Pass {
                    endpoints: endpoints
                        .get(&server(upstream))
                        .cloned()
                        .unwrap_or_default(),
                });
                if let Some(pass) = &pass
                    && well
                    && pass.reaches_endpoint(&terms.path)
                {
                    reader.refuse(origin, unread(&terms.name));
                }
                routes.push(Arc::new(route(terms, pass, Arc::clone(upstream))));
            }
            // Its own flaw was reported.
            Some(None) => {}
            // It may stand in the file that could not be read, or was not named at all.
            None if !complete || (terms.upstream.is_empty() && !well) => {}
            None => {
                let flaw = unknown_upstream(&terms.upstream, targets.keys().map(String::as_str));
                reader.refuse(upstream_origin, flaw);
            }
        }
    }
    routes
}

/// A server, by host and port.
type Server = (String, u16);

/// The server of an upstream. All names and addresses of this machine's loopback are one: whatever
/// listens there listens at most of them.
fn server(upstream: &Upstream) -> Server {
    const LOOPBACK: &str = "localhost";
    let host = &upstream.host;
    let address = address(host).map(|address| address.to_canonical());
    let name = match address {
        Some(ip) if ip.is_loopback() || ip.is_unspecified() => LOOPBACK.to_owned(),
        Some(ip) => ip.to_string(),
        // RFC 6761, 6.3.
        None if host.ends_with(".localhost") => LOOPBACK.to_owned(),
        None => host.clone(),
    };
    (name, upstream.port)
}

/// The MCP endpoints of each server.
fn endpoints(
    drafts: &[DraftRoute],
    targets: &HashMap<String, Option<Arc<Upstream>>>,
) -> HashMap<Server, Vec<String>> {
    let mut endpoints: HashMap<Server, Vec<String>> = HashMap::new();
    for draft in drafts.iter().filter(|draft| !draft.terms.pass) {
        if let Some(Some(upstream)) = targets.get(&draft.terms.upstream) {
            let paths = endpoints.entry(server(upstream)).or_default();
            if !paths.contains(&upstream.path) {
                paths.push(upstream.path.clone());
            }
        }
    }
    endpoints
}

fn unread(name: &str) -> Flaw {
    Flaw::new(
        format!(
            "the route `{name}` passes requests through to the MCP endpoint of its upstream, where \
             nobody would have read them"
        ),
        "choose another path, or remove `pass`",
    )
}

fn unknown_upstream<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Flaw {
    const LISTED_MAX: usize = 10;
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let mut listed: Vec<String> = known
        .iter()
        .take(LISTED_MAX)
        .map(|name| format!("`{name}`"))
        .collect();
    if known.len() > LISTED_MAX {
        listed.push(format!("and {} more", known.len() - LISTED_MAX));
    }
    let hint = match suggest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Known are {}", listed.join(", ")),
        None if known.is_empty() => {
            format!("write `upstreams: {{ {name}: {{ url: http://host:port/path }} }}`")
        }
        None => format!("known are {}", listed.join(", ")),
    };
    Flaw::new(format!("there is no upstream {}", shown(name)), hint)
}

fn route(terms: Terms, pass: Option<Pass>, upstream: Arc<Upstream>) -> Route {
    Route {
        name: terms.name,
        path: terms.path,
        pass,
        // Settled before; the stricter of the two where it was not.
        hosts: terms.hosts.unwrap_or(Hosts::Loopback),
        origins: terms.origins.unwrap_or(Origins::None),
        cors: terms.cors,
        upstream,
        protocol: terms.protocol,
        bounds: terms.bounds,
        streams: terms.streams,
        deadline: terms.deadline,
        cache: terms.cache,
        catalog: terms.catalog,
        pin: terms.pin,
    }
}
