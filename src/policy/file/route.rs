//! `routes`: which path and host leads to which upstream, and what is accepted there.

use crate::policy::finding::{Flaw, Origin, shown};
use crate::policy::host::{parse_host, parse_origin, parse_pass_path, parse_route_path};
use crate::policy::pin::Pin;
use crate::policy::plan::{
    Bounds, Cache, Catalog, Cors, Deadlines, Hosts, Origins, Protocol, Route, Streams,
};
use crate::policy::unit::duration;

use super::cache;
use super::gateway::Draft;
use super::key::{self, Key, Shown};
use super::node::{Data, Node};
use super::pin;
use super::protocol;
use super::reader::Reader;
use super::stream;

/// Most routes of one policy, whatever the number of its files.
const ROUTES_MAX: usize = 10_000;

/// A route as it was read.
pub(super) struct DraftRoute {
    pub(super) terms: Terms,
    /// Where its name stands.
    pub(super) origin: Origin,
    /// Where its upstream is named.
    pub(super) upstream_origin: Origin,
    /// Whether it was read without a flaw.
    pub(super) well: bool,
}

/// What the keys of one route say.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) name: String,
    /// Whether requests pass through unread.
    pub(super) pass: bool,
    pub(super) path: String,
    pub(super) upstream: String,
    /// Absent where neither the route nor the defaults say; then the address decides.
    pub(super) hosts: Option<Hosts>,
    pub(super) origins: Option<Origins>,
    pub(super) cors: Cors,
    pub(super) protocol: Protocol,
    pub(super) bounds: Bounds,
    pub(super) streams: Streams,
    pub(super) deadline: Deadlines,
    pub(super) cache: Cache,
    pub(super) catalog: Catalog,
    pub(super) pin: Option<Pin>,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            name: String::new(),
            pass: false,
            path: Route::PATH.to_owned(),
            upstream: String::new(),
            hosts: None,
            origins: None,
            cors: Cors::default(),
            protocol: Protocol::default(),
            bounds: Bounds::default(),
            streams: Streams::default(),
            deadline: Deadlines::default(),
            cache: Cache::default(),
            catalog: Catalog::default(),
            pin: None,
        }
    }
}

/// The words for a switch.
pub(super) const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];

const TERMS: &[Key<Terms>] = &[
    Key {
        name: "name",
        read: |t, n, r| {
            if let Some(text) = r.text(n, "a name")
                && r.name(text, false, &n.place)
            {
                text.clone_into(&mut t.name);
            }
        },
        show: |_| Shown::value("required"),
    },
    Key {
        name: "pass",
        read: |t, n, r| r.choice(n, &SWITCH, &mut t.pass),
        show: |t| Shown::value(t.pass),
    },
    Key {
        name: "path",
        read: |t, n, r| {
            let parse = if t.pass {
                parse_pass_path
            } else {
                parse_route_path
            };
            r.parsed(n, "a path such as `/mcp`", parse, &mut t.path);
        },
        show: |t| Shown::value(&t.path),
    },
    Key {
        name: "upstream",
        read: |t, n, r| {
            if let Some(text) = r.text(n, "the name of an upstream") {
                text.clone_into(&mut t.upstream);
            }
        },
        show: |_| Shown::value("required"),
    },
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
        show: |t| key::show(protocol::PROTOCOL, &t.protocol),
    },
    Key {
        name: "bounds",
        read: |t, n, r| {
            key::read(n, "`bounds`", protocol::BOUNDS, &mut t.bounds, r);
        },
        show: |t| key::show(protocol::BOUNDS, &t.bounds),
    },
    Key {
        name: "streams",
        read: |t, n, r| stream::read_streams(n, &mut t.streams, r),
        show: |t| key::show(stream::STREAMS, &t.streams),
    },
    Key {
        name: "deadline",
        read: |t, n, r| stream::read_deadlines(n, &mut t.deadline, r),
        show: |t| key::show(stream::DEADLINES, &t.deadline),
    },
    Key {
        name: "cache",
        read: |t, n, r| cache::read(n, &mut t.cache, r),
        show: |t| cache::show(&t.cache),
    },
    Key {
        name: "catalog",
        read: |t, n, r| cache::read_catalog(n, &mut t.catalog, r),
        show: |t| cache::show_catalog(&t.catalog),
    },
    Key {
        name: "pin",
        read: |t, n, r| pin::read(n, &mut t.pin, r),
        show: |t| pin::show(t.pin.as_ref()),
    },
];

pub(super) const CORS: &[Key<Cors>] = &[
    Key {
        name: "headers",
        read: |c, n, r| {
            let wanted = "a list of header names such as `X-Tenant`";
            if let Some(names) = r.texts(n, wanted, parse_cors_header) {
                c.headers = names;
            }
        },
        show: |c| Shown::list(&c.headers),
    },
    Key {
        name: "max_age",
        read: |c, n, r| r.duration(n, &mut c.max_age),
        show: |c| Shown::value(duration(c.max_age)),
    },
    Key {
        name: "credentials",
        read: |c, n, r| r.choice(n, &SWITCH, &mut c.credentials),
        show: |c| Shown::value(c.credentials),
    },
];

/// Reads the routes of one file.
pub(super) fn read_all(draft: &mut Draft, node: &Node, reader: &mut Reader<'_>) {
    let Some(list) = reader.list(node, "a list of routes, each beginning with `- name:`") else {
        return;
    };
    for element in list {
        let route = read_one(element, draft, reader);
        let name = &route.terms.name;
        if let Some(first) = draft
            .routes
            .iter()
            .find(|r| r.terms.name == *name && !name.is_empty())
        {
            let flaw = Flaw::new(
                format!("the route `{name}` is already defined at {}", first.origin),
                "rename one of the two, or remove it",
            );
            reader.refuse(route.origin, flaw);
            continue;
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
    Shown::List(Box::new(key::show(TERMS, &Terms::default())))
}

fn read_one(node: &Node, draft: &Draft, reader: &mut Reader<'_>) -> DraftRoute {
    let defaults = &draft.defaults;
    let mut terms = Terms {
        hosts: defaults.hosts.clone(),
        origins: defaults.origins.clone(),
        cors: defaults.cors.clone(),
        protocol: defaults.protocol.clone(),
        bounds: defaults.bounds,
        streams: defaults.streams,
        deadline: defaults.deadline.clone(),
        cache: defaults.cache,
        catalog: defaults.catalog,
        ..Terms::default()
    };
    let what = match node.find("name").map(|name| &name.data) {
        Some(Data::Scalar(name)) => format!("the route {}", shown(&name.text)),
        _ => "a route".to_owned(),
    };
    let before = reader.findings.len();
    if key::read(node, &what, TERMS, &mut terms, reader) {
        let header_bytes_max = draft.listen.header_bytes_max;
        protocol::check_bounds(node, &terms.bounds, header_bytes_max, reader);
        for (key, hint) in [
            ("name", "write `name: weather`"),
            ("upstream", "name one of `upstreams`"),
        ] {
            if node.find(key).is_none() {
                let flaw = Flaw::new(format!("{what} has no `{key}`"), hint);
                reader.refuse(&node.place, flaw);
            }
        }
        if terms.pass {
            check_pass(node, &what, reader);
        } else {
            cache::check(node, &terms.cache, terms.protocol.versions, reader);
        }
    }
    let origin = |key: &str| Origin::from(&node.find(key).unwrap_or(node).place);
    DraftRoute {
        terms,
        origin: origin("name"),
        upstream_origin: origin("upstream"),
        well: reader.findings.len() == before,
    }
}

/// Refuses what a route that passes requests through cannot enforce, or must say itself.
fn check_pass(node: &Node, what: &str, reader: &mut Reader<'_>) {
    if node.find("path").is_none() {
        let cause = format!("{what} passes requests through and has no `path`");
        let hint = "write the path, such as `/health`, or `/oauth/*` for all below it";
        reader.refuse(&node.place, Flaw::new(cause, hint));
    }
    for key in ["protocol", "deadline", "cache", "catalog", "pin"] {
        if let Some(value) = node.find(key) {
            let flaw = Flaw::new(
                format!("nothing is enforced by `{key}` where requests pass through unread"),
                "remove it, or remove `pass`",
            );
            reader.refuse(&value.place, flaw);
        }
    }
}

/// Reads one of the request headers that pages may send beyond those that they always may.
fn parse_cors_header(text: &str) -> Result<String, Flaw> {
    let refused = |cause, hint: &str| Err(Flaw::of(text, cause, hint));
    if text.contains('*') {
        return refused(
            "is a pattern",
            "list each header; `Mcp-Param-*` may be sent anyway",
        );
    }
    let Ok(name) = http::HeaderName::try_from(text) else {
        return refused("is not the name of a header", "write it as `X-Tenant`");
    };
    if name.as_str().contains('_') {
        return refused(
            "has a `_`, and such headers are removed on the way to the upstream",
            "write it with `-`",
        );
    }
    Ok(text.to_owned())
}

/// Reads `hosts` of a route or of the defaults.
pub(super) fn read_hosts(node: &Node, hosts: &mut Option<Hosts>, reader: &mut Reader<'_>) {
    if let Data::Scalar(scalar) = &node.data {
        match scalar.text.as_str() {
            "any" => return *hosts = Some(Hosts::Any),
            "loopback" => return *hosts = Some(Hosts::Loopback),
            _ => {}
        }
    }
    let wanted = "a list of hosts, or `any`, or `loopback`";
    if let Some(names) = reader.texts(node, wanted, parse_host) {
        *hosts = Some(Hosts::Named(names));
    }
}

/// Reads `origins` of a route or of the defaults.
pub(super) fn read_origins(node: &Node, origins: &mut Option<Origins>, reader: &mut Reader<'_>) {
    if let Data::Scalar(scalar) = &node.data {
        match scalar.text.as_str() {
            "none" => return *origins = Some(Origins::None),
            "loopback" => return *origins = Some(Origins::Loopback),
            _ => {}
        }
    }
    let wanted = "a list of origins, or `loopback`, or `none`";
    if let Some(names) = reader.texts(node, wanted, parse_origin) {
        *origins = Some(Origins::Named(names));
    }
}
