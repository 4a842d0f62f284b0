//! Drafts → the plan: names become the things they name, and what contradicts another part of the
//! policy is refused.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::policy::finding::{self, Errors, Flaw, Origin, shown};
use crate::policy::host::{address, is_loopback};
use crate::policy::plan::{Hosts, Origins, Pass, Plan, Route, Upstream};
use crate::policy::url::Url;

use super::gateway::Draft;
use super::key::{Seen, suggest};
use super::reader::Reader;
use super::route::{DraftRoute, Endpoint, Terms};
use super::upstream::{self, DraftUpstream, Target};
use super::{Addresses, Policy};

/// The plan of what was read.
pub(super) fn resolve(
    mut draft: Draft,
    addresses: Addresses,
    mut reader: Reader<'_>,
) -> Result<Policy, Errors> {
    let origins = settle_addresses(&mut draft, addresses);
    warn_of_admin(&draft, origins.admin.as_ref(), &mut reader);
    // The gateway file was read first, but the routes keep the order of the files.
    draft.routes.sort_by_key(|route| route.origin.rank());
    check_addresses(&draft, origins, &mut reader);
    warn_of_exposure(&draft, &mut reader);
    let listen = draft.listen.value.address;
    for route in &mut draft.routes {
        settle(&mut route.terms, listen);
    }
    check_cors(&draft, &mut reader);
    check_overlaps(&draft.routes, &mut reader);
    let routes = link(
        draft.routes,
        draft.upstreams,
        draft.lacks_upstreams,
        &mut reader,
    );
    Errors::none_in(reader.findings)?;
    let mut warnings = reader.warnings;
    finding::sort(&mut warnings);
    let plan = Plan {
        listen: draft.listen.value,
        status: draft.status.value.address,
        admin: draft.admin.value.address,
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
    let mut reader = Reader::new(&|_| None);
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
        endpoint: Endpoint {
            name: NAME.to_owned(),
            upstream: NAME.to_owned(),
            ..Endpoint::default()
        },
        terms: Terms::default(),
        seen: Seen::default(),
        origin: origin.clone(),
        upstream_origin: origin,
    });
    resolve(draft, addresses, reader)
}

/// Where our addresses were written, if they were.
struct AddressOrigins {
    listen: Option<Origin>,
    status: Option<Origin>,
    admin: Option<Origin>,
}

/// Puts the addresses of the command line over those of the files.
fn settle_addresses(draft: &mut Draft, addresses: Addresses) -> AddressOrigins {
    let settle = |over: Option<SocketAddr>, flag: &str, seen: &mut Seen| {
        if over.is_none() {
            return seen.place("address").map(Origin::from);
        }
        seen.settle("address");
        Some(Origin::Argument(flag.to_owned()))
    };
    let (listen, status, admin) = (&mut draft.listen, &mut draft.status, &mut draft.admin);
    let address = &mut listen.value.address;
    *address = addresses.listen.unwrap_or(*address);
    let address = &mut status.value.address;
    *address = addresses.status.unwrap_or(*address);
    let address = &mut admin.value.address;
    *address = addresses.admin.or(*address);
    AddressOrigins {
        listen: settle(addresses.listen, "--listen", &mut listen.seen),
        status: settle(addresses.status, "--status", &mut status.seen),
        admin: settle(addresses.admin, "--admin", &mut admin.seen),
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
fn check_addresses(draft: &Draft, origins: AddressOrigins, reader: &mut Reader<'_>) {
    check_clashes(draft, origins, reader);
    if !draft.listen.seen.knows("address") {
        return;
    }
    let listen = draft.listen.value.address;
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
fn check_clashes(draft: &Draft, origins: AddressOrigins, reader: &mut Reader<'_>) {
    let (listen, status, admin) = (&draft.listen, &draft.status, &draft.admin);
    let (a, b, c) = (
        listen.value.address,
        status.value.address,
        admin.value.address,
    );
    let listen = ("listen", Some(a), &listen.seen, origins.listen);
    let status = ("status", Some(b), &status.seen, origins.status);
    let admin = ("admin", c, &admin.seen, origins.admin);
    let meets = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
    for (first, second) in [(&listen, &status), (&listen, &admin), (&status, &admin)] {
        let (Some(a), Some(b)) = (first.1, second.1) else {
            continue;
        };
        let known = first.2.knows("address") && second.2.knows("address");
        if !known || a.port() == 0 || a.port() != b.port() || !meets(a.ip(), b.ip()) {
            continue;
        }
        let cause = format!(
            "`{}` ({a}) and `{}` ({b}) are the same address",
            first.0, second.0
        );
        let origin = second.3.clone().or_else(|| first.3.clone());
        let origin = origin.unwrap_or_else(|| Origin::Argument("policy".to_owned()));
        reader.refuse(origin, Flaw::new(cause, "give them different ports"));
    }
}

/// Warns where other machines could look at what the gateway remembers, and purge it.
fn warn_of_admin(draft: &Draft, origin: Option<&Origin>, reader: &mut Reader<'_>) {
    if let Some(address) = draft.admin.value.address
        && !address.ip().is_loopback()
        && let Some(origin) = origin
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
    let listen = draft.listen.value.address;
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
            "the gateway listens on {listen}, and {}{others} answers to any `Host`",
            first.called()
        ),
        "write `hosts: [ … ]` with the names that clients use (for all routes under `defaults`), or \
         `hosts: any` if it is meant",
    );
    reader.warn(first.origin.clone(), flaw);
}

/// Refuses `cors` where no page is let in, and warns where no route makes use of that of `defaults`.
fn check_cors(draft: &Draft, reader: &mut Reader<'_>) {
    let lets_in = |route: &DraftRoute| route.terms.origins != Some(Origins::None);
    for route in draft.routes.iter().filter(|route| !lets_in(route)) {
        // Where the address is not known, it is taken for loopback, and pages are let in.
        if let Some(place) = route.seen.place("cors")
            && route.seen.knows("origins")
        {
            let cause = "nothing is allowed by `cors` where `origins` is `none`, as it is without \
                         being written unless the gateway listens on loopback";
            let hint = "list the origins of the pages under `origins`, or remove `cors`";
            reader.refuse(place, Flaw::new(cause, hint));
        }
    }
    if let Some(place) = draft.defaults.seen.place("cors")
        && !draft.routes.iter().any(lets_in)
    {
        let cause = "this has no effect, because `origins` of every route is `none`";
        let hint = "list the origins of the pages under `origins`, or remove `cors`";
        reader.warn(place, Flaw::new(cause, hint));
    }
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
    for route in routes.iter().filter(|route| route.is_placed()) {
        let taken = paths.entry(&route.endpoint.path).or_default();
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
            "{} and {} ({}) both answer to the path {} on the same host",
            route.called(),
            other.called(),
            other.origin,
            shown(&route.endpoint.path)
        ),
        "give them different paths, or `hosts` that have nothing in common",
    )
}

/// Gives each route its upstream. `lacks_some` says that there may be upstreams that could not be read.
fn link(
    drafts: Vec<DraftRoute>,
    upstreams: Vec<DraftUpstream>,
    lacks_some: bool,
    reader: &mut Reader<'_>,
) -> Vec<Arc<Route>> {
    let used: HashSet<&str> = drafts
        .iter()
        .map(|route| route.endpoint.upstream.as_str())
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
    for draft in drafts {
        match targets.get(&draft.endpoint.upstream) {
            Some(Some(upstream)) => {
                let endpoints = endpoints.get(&server(upstream));
                routes.push(Arc::new(route(draft, upstream, endpoints, reader)));
            }
            // Its own flaw was reported.
            Some(None) => {}
            // It may be one that could not be read, or was not named at all.
            None if lacks_some || draft.seen.lacks("upstream") || !draft.seen.knows("upstream") => {
            }
            None => {
                let known = targets.keys().map(String::as_str);
                let flaw = unknown_upstream(&draft.endpoint.upstream, known);
                reader.refuse(draft.upstream_origin, flaw);
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
    for draft in drafts.iter().filter(|draft| draft.passes() == Some(false)) {
        if let Some(Some(upstream)) = targets.get(&draft.endpoint.upstream) {
            let paths = endpoints.entry(server(upstream)).or_default();
            if !paths.contains(&upstream.path) {
                paths.push(upstream.path.clone());
            }
        }
    }
    endpoints
}

fn unread(draft: &DraftRoute) -> Flaw {
    Flaw::new(
        format!(
            "{} passes requests through to the MCP endpoint of its upstream, where \
             nobody would have read them",
            draft.called()
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

/// The route that was read. `endpoints` are those of its server, to which nothing may pass unread.
fn route(
    draft: DraftRoute,
    upstream: &Arc<Upstream>,
    endpoints: Option<&Vec<String>>,
    reader: &mut Reader<'_>,
) -> Route {
    let pass = (draft.passes() == Some(true)).then(|| Pass {
        endpoints: endpoints.cloned().unwrap_or_default(),
    });
    if let Some(pass) = &pass
        && draft.seen.knows("path")
        && pass.reaches_endpoint(&draft.endpoint.path)
    {
        reader.refuse(draft.origin.clone(), unread(&draft));
    }
    let DraftRoute {
        endpoint, terms, ..
    } = draft;
    Route {
        name: endpoint.name,
        path: endpoint.path,
        pass,
        // Settled before; the stricter of the two where it was not.
        hosts: terms.hosts.unwrap_or(Hosts::Loopback),
        origins: terms.origins.unwrap_or(Origins::None),
        cors: terms.cors,
        upstream: Arc::clone(upstream),
        protocol: terms.protocol.value,
        bounds: terms.bounds.value,
        streams: terms.streams,
        deadline: terms.deadline,
        cache: terms.cache.value,
        catalog: terms.catalog,
        pin: endpoint.pin,
    }
}
