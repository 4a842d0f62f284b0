//! `routes`: which path and host leads to which upstream, and what is accepted there.

use std::fmt;

use crate::policy::finding::{Flaw, Origin, Place, shown};
use crate::policy::host::{parse_host, parse_origin, parse_pass_path, parse_route_path};
use crate::policy::pin::Pin;
use crate::policy::plan::{
    Bounds, Cache, Catalog, Cors, Deadlines, Hosts, Origins, Protocol, Route, Streams,
};

use super::Setting;
use super::bounds::{self, BOUNDS};
use super::cache;
use super::cors::CORS;
use super::gateway::{Defaults, Draft};
use super::key::{self, Key, SWITCH, Section, Seen, Shown};
use super::node::{Data, Node};
use super::pin;
use super::protocol::{self, PROTOCOL};
use super::reader::Reader;
use super::stream::{self, DEADLINES, STREAMS};

/// Most routes of one policy, whatever the number of its files.
const ROUTES_MAX: usize = 10_000;

/// A route as it was read.
pub(super) struct DraftRoute {
    pub(super) endpoint: Endpoint,
    pub(super) terms: Terms,
    pub(super) seen: Seen,
    /// Where its name stands.
    pub(super) origin: Origin,
    /// Where its upstream is named.
    pub(super) upstream_origin: Origin,
}

impl DraftRoute {
    /// Whether it is known what it answers to.
    pub(super) fn is_placed(&self) -> bool {
        self.seen.knows("path") && self.seen.knows("hosts")
    }

    /// Whether requests pass through unread; absent where that is not known.
    pub(super) fn passes(&self) -> Option<bool> {
        self.seen.knows("pass").then_some(self.endpoint.pass)
    }

    /// What it is called in messages.
    pub(super) fn called(&self) -> impl fmt::Display {
        match self.endpoint.name.as_str() {
            "" => "a route without a name".to_owned(),
            name => format!("the route `{name}`"),
        }
    }
}

/// What makes a route this one.
pub(super) struct Endpoint {
    pub(super) name: String,
    /// Whether requests pass through unread.
    pub(super) pass: bool,
    pub(super) path: String,
    pub(super) upstream: String,
    pub(super) pin: Option<Pin>,
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint {
            name: String::new(),
            pass: false,
            path: Route::PATH.to_owned(),
            upstream: String::new(),
            pin: None,
        }
    }
}

/// What routes have on their own or by `defaults`.
#[derive(Clone, Default)]
pub(super) struct Terms {
    /// Absent where neither the route nor the defaults say; then the address decides.
    pub(super) hosts: Option<Hosts>,
    pub(super) origins: Option<Origins>,
    pub(super) cors: Cors,
    pub(super) protocol: Section<Protocol>,
    pub(super) bounds: Section<Bounds>,
    pub(super) streams: Streams,
    pub(super) deadline: Deadlines,
    pub(super) cache: Section<Cache>,
    pub(super) catalog: Catalog,
}

impl Terms {
    /// Those of a route that builds on these.
    fn inherited(&self) -> Terms {
        Terms {
            protocol: self.protocol.inherited(),
            bounds: self.bounds.inherited(),
            cache: self.cache.inherited(),
            ..self.clone()
        }
    }

    /// Those of a route of the plan.
    fn of(route: &Route) -> Terms {
        Terms {
            hosts: Some(route.hosts.clone()),
            origins: Some(route.origins.clone()),
            cors: route.cors.clone(),
            protocol: route.protocol.clone().into(),
            bounds: route.bounds.into(),
            streams: route.streams,
            deadline: route.deadline.clone(),
            cache: route.cache.into(),
            catalog: route.catalog,
        }
    }
}

const ENDPOINT: &[Key<Endpoint>] = &[
    Key {
        name: "name",
        read: |e, n, r| {
            if let Some(text) = r.text(n, "a name")
                && r.name(text, false, &n.place)
            {
                text.clone_into(&mut e.name);
            }
        },
        show: |_| Shown::value("required"),
    },
    Key {
        name: "pass",
        read: |e, n, r| r.choice(n, &SWITCH, &mut e.pass),
        show: |e| Shown::value(e.pass),
    },
    Key {
        name: "path",
        read: |e, n, r| r.parsed(n, "a path such as `/mcp`", parse_pass_path, &mut e.path),
        show: |e| Shown::value(&e.path),
    },
    Key {
        name: "upstream",
        read: |e, n, r| r.string(n, "the name of an upstream", &mut e.upstream),
        show: |_| Shown::value("required"),
    },
    Key {
        name: "pin",
        read: |e, n, r| pin::read(n, &mut e.pin, r),
        show: |e| pin::show(e.pin.as_ref()),
    },
];

/// The keys that a route and the defaults have alike.
pub(super) const TERMS: &[Key<Terms>] = &[
    Key {
        name: "hosts",
        read: |t, n, r| read_hosts(n, &mut t.hosts, r),
        show: |_| Shown::value("`loopback` on a loopback `listen.address`, else `any`"),
    },
    Key {
        name: "origins",
        read: |t, n, r| read_origins(n, &mut t.origins, r),
        show: |_| Shown::value("`loopback` on a loopback `listen.address`, else `none`"),
    },
    Key {
        name: "cors",
        read: |t, n, r| {
            key::read(n, "`cors`", CORS, &mut t.cors, r);
        },
        show: |t| key::show(CORS, &t.cors),
    },
    Key {
        name: "protocol",
        read: |t, n, r| protocol::read(n, &mut t.protocol, r),
        show: |t| key::show(PROTOCOL, &t.protocol.value),
    },
    Key {
        name: "bounds",
        read: |t, n, r| t.bounds.read(n, "`bounds`", BOUNDS, r),
        show: |t| key::show(BOUNDS, &t.bounds.value),
    },
    Key {
        name: "streams",
        read: |t, n, r| stream::read_streams(n, &mut t.streams, r),
        show: |t| key::show(STREAMS, &t.streams),
    },
    Key {
        name: "deadline",
        read: |t, n, r| stream::read_deadlines(n, &mut t.deadline, r),
        show: |t| key::show(DEADLINES, &t.deadline),
    },
    Key {
        name: "cache",
        read: |t, n, r| cache::read(n, &mut t.cache, r),
        show: |t| cache::show(&t.cache.value),
    },
    Key {
        name: "catalog",
        read: |t, n, r| cache::read_catalog(n, &mut t.catalog, r),
        show: |t| cache::show_catalog(&t.catalog),
    },
];

/// The keys by which nothing is enforced where requests pass through unread: those of a message, of
/// a session, and of an answer that is read.
const UNREAD: [&str; 14] = [
    "protocol",
    "streams",
    "deadline",
    "cache",
    "catalog",
    "pin",
    "bounds.buffer_bytes",
    "bounds.depth_max",
    "bounds.keys_max",
    "bounds.method_bytes_max",
    "bounds.name_bytes_max",
    "bounds.id_bytes_max",
    "bounds.sessions_max",
    "bounds.session_idle_timeout",
];

/// Reads the routes of one file.
pub(super) fn read_all(draft: &mut Draft, node: &Node, reader: &mut Reader<'_>) {
    let Some(list) = reader.list(node, "a list of routes, each beginning with `- name:`") else {
        return;
    };
    for element in list {
        let route = read_one(element, draft, reader);
        let name = &route.endpoint.name;
        let mut named = draft.routes.iter().map(|r| (&r.endpoint.name, &r.origin));
        if let Some((_, first)) = named.find(|(other, _)| *other == name && !name.is_empty()) {
            let flaw = Flaw::new(
                format!("the route `{name}` is already defined at {first}"),
                "rename one of the two, or remove it",
            );
            reader.refuse(route.origin.clone(), flaw);
        }
        if draft.routes.len() >= ROUTES_MAX {
            let cause = format!("the policy has more than {ROUTES_MAX} routes");
            let hint = "split it among several gateways";
            return reader.refuse(route.origin, Flaw::new(cause, hint));
        }
        draft.routes.push(route);
    }
}

/// The default of each key.
pub(super) fn show_all() -> Shown {
    let mut keys = key::show(ENDPOINT, &Endpoint::default());
    if let (Shown::Keys(all), Shown::Keys(terms)) = (&mut keys, key::show(TERMS, &Terms::default()))
    {
        all.extend(terms);
    }
    Shown::List(Box::new(keys))
}

/// What of a route is not at its default, but for what makes it this one and for what has no effect
/// there.
pub(super) fn settings(route: &Route) -> Vec<Setting> {
    let mut settings = key::differences(TERMS, "", &Terms::of(route), &Terms::default());
    for (key, enabled) in [
        ("cache", route.cache.enabled),
        ("catalog", route.catalog.enabled),
    ] {
        if !enabled {
            settings.retain(|setting| !setting.is_of(key));
            settings.push(cache::off(key));
        }
    }
    settings.extend(pin::settings(route));
    if route.pass.is_some() {
        settings.retain(|setting| !UNREAD.iter().any(|key| setting.is_of(key)));
    }
    settings
}

fn read_one(node: &Node, draft: &Draft, reader: &mut Reader<'_>) -> DraftRoute {
    let Defaults { terms, seen, .. } = &draft.defaults;
    let mut route = DraftRoute {
        endpoint: Endpoint::default(),
        terms: terms.inherited(),
        seen: Seen::default(),
        origin: Origin::from(&node.place),
        upstream_origin: Origin::from(&node.place),
    };
    for key in ["hosts", "origins"] {
        if !seen.knows(key) {
            route.seen.doubt(key);
        }
    }
    let what = match node.find("name").map(|name| &name.data) {
        Some(Data::Scalar(name)) => format!("the route {}", shown(&name.text)),
        _ => "a route".to_owned(),
    };
    let (endpoint, terms) = (&mut route.endpoint, &mut route.terms);
    let mut tables: [&mut dyn key::Table; 2] = [&mut (ENDPOINT, endpoint), &mut (TERMS, terms)];
    let seen = key::read_tables(node, &what, &mut tables, reader);
    route.seen.add(seen);
    if let Some(place) = route.seen.place("name") {
        route.origin = place.into();
    }
    if let Some(place) = route.seen.place("upstream") {
        route.upstream_origin = place.into();
    }
    for (key, hint) in [
        ("name", "write `name: weather`"),
        ("upstream", "name one of `upstreams`"),
    ] {
        if route.seen.lacks(key) {
            let flaw = Flaw::new(format!("{what} has no `{key}`"), hint);
            reader.refuse(&node.place, flaw);
        }
    }
    match route.passes() {
        Some(true) => check_unread(&mut route, &what, &node.place, reader),
        Some(false) => check_read(&mut route, draft, reader),
        // What is right for the one is wrong for the other.
        None => {}
    }
    route
}

/// Refuses what contradicts each other where messages are read, and warns of what is not used.
fn check_read(route: &mut DraftRoute, draft: &Draft, reader: &mut Reader<'_>) {
    let bounds = &route.terms.bounds;
    bounds::check(bounds, &draft.listen, reader);
    bounds::warn_of_unused(bounds, &route.terms.protocol.value, reader);
    cache::check(
        &route.seen,
        &route.terms.cache,
        &route.terms.catalog,
        &route.terms.protocol,
        reader,
    );
    let Some(place) = route.seen.place("path").cloned() else {
        return;
    };
    if let Err(flaw) = parse_route_path(&route.endpoint.path)
        && route.seen.knows("path")
    {
        reader.refuse(&place, flaw);
        route.seen.doubt("path");
    }
}

/// Refuses what a route that passes requests through cannot enforce, or must say itself.
fn check_unread(route: &mut DraftRoute, what: &str, place: &Place, reader: &mut Reader<'_>) {
    if route.seen.lacks("path") {
        let cause = format!("{what} passes requests through and has no `path`");
        let hint = "write the path, such as `/health`, or `/oauth/*` for all below it";
        reader.refuse(place, Flaw::new(cause, hint));
        route.seen.doubt("path");
    }
    let bounds = &route.terms.bounds;
    for key in UNREAD {
        let place = match key.strip_prefix("bounds.") {
            Some(key) => bounds.seen.place(key),
            None => route.seen.place(key),
        };
        if let Some(place) = place {
            let cause =
                format!("nothing is enforced by `{key}` where requests pass through unread");
            reader.refuse(place, Flaw::new(cause, "remove it, or remove `pass`"));
        }
    }
    bounds::check_unread(bounds, reader);
}

/// Reads `hosts` of a route or of the defaults.
fn read_hosts(node: &Node, hosts: &mut Option<Hosts>, reader: &mut Reader<'_>) {
    if reader.is_word(node, "any") {
        return *hosts = Some(Hosts::Any);
    }
    if reader.is_word(node, "loopback") {
        return *hosts = Some(Hosts::Loopback);
    }
    let wanted = "a list of hosts, or `any`, or `loopback`";
    if let Some(names) = reader.texts(node, wanted, parse_host) {
        *hosts = Some(Hosts::Named(names));
    }
}

/// Reads `origins` of a route or of the defaults.
fn read_origins(node: &Node, origins: &mut Option<Origins>, reader: &mut Reader<'_>) {
    if reader.is_word(node, "none") {
        return *origins = Some(Origins::None);
    }
    if reader.is_word(node, "loopback") {
        return *origins = Some(Origins::Loopback);
    }
    let wanted = "a list of origins, or `loopback`, or `none`";
    if let Some(names) = reader.texts(node, wanted, parse_origin) {
        *origins = Some(Origins::Named(names));
    }
}
