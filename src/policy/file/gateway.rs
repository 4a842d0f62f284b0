//! What stands once in a policy: `listen`, `status`, `admin`, `log`, `cache`, `shutdown` and `defaults`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::policy::finding::Origin;
use crate::policy::host::parse_address;
use crate::policy::network::Network;
use crate::policy::plan::{
    Bounds, Cache, Catalog, Cors, Deadlines, ForwardedBy, Hosts, Listen, Log, LogFormat, Memory,
    Origins, Plan, Protocol, Shutdown, Streams,
};
use crate::policy::unit::{duration, size};

use super::Setting;
use super::cache;
use super::key::{self, Key, Shown};
use super::node::{Data, Node};
use super::protocol;
use super::reader::Reader;
use super::route::{self, DraftRoute, read_hosts, read_origins};
use super::stream;
use super::tls;
use super::upstream::{self, DraftUpstream, Target};

/// What was read so far, on top of the defaults.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) listen: Listen,
    pub(super) status: Status,
    pub(super) admin: Admin,
    pub(super) log: Log,
    pub(super) memory: Memory,
    pub(super) shutdown: Shutdown,
    pub(super) defaults: Defaults,
    /// Where the addresses were written, if they were.
    pub(super) listen_origin: Option<Origin>,
    pub(super) status_origin: Option<Origin>,
    pub(super) admin_origin: Option<Origin>,
    pub(super) upstreams: Vec<DraftUpstream>,
    pub(super) routes: Vec<DraftRoute>,
}

/// The status listener.
pub(super) struct Status {
    pub(super) address: SocketAddr,
}

impl Default for Status {
    fn default() -> Self {
        Status {
            address: Plan::STATUS,
        }
    }
}

/// The admin listener.
pub(super) struct Admin {
    pub(super) address: Option<SocketAddr>,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            address: Some(Plan::ADMIN),
        }
    }
}

/// What routes and upstreams have unless they say otherwise.
#[derive(Clone, Default)]
pub(super) struct Defaults {
    pub(super) protocol: Protocol,
    pub(super) bounds: Bounds,
    pub(super) streams: Streams,
    pub(super) deadline: Deadlines,
    pub(super) cache: Cache,
    pub(super) catalog: Catalog,
    pub(super) hosts: Option<Hosts>,
    pub(super) origins: Option<Origins>,
    pub(super) cors: Cors,
    pub(super) upstream: Target,
}

/// The keys that only the gateway file has.
pub(super) const GATEWAY_KEYS: [&str; 7] = [
    "listen", "status", "admin", "log", "cache", "shutdown", "defaults",
];

/// The keys of a file. The defaults come before what builds on them.
pub(super) const ROOT: &[Key<Draft>] = &[
    Key {
        name: "listen",
        read: |d, n, r| {
            key::read(n, "`listen`", LISTEN, &mut d.listen, r);
            d.listen_origin = n
                .find("address")
                .map(|address| Origin::from(&address.place));
        },
        show: |d| key::show(LISTEN, &d.listen),
    },
    Key {
        name: "status",
        read: |d, n, r| {
            key::read(n, "`status`", STATUS, &mut d.status, r);
            d.status_origin = n
                .find("address")
                .map(|address| Origin::from(&address.place));
        },
        show: |d| key::show(STATUS, &d.status),
    },
    Key {
        name: "admin",
        read: |d, n, r| {
            key::read(n, "`admin`", ADMIN, &mut d.admin, r);
            d.admin_origin = n
                .find("address")
                .map(|address| Origin::from(&address.place));
        },
        show: |d| key::show(ADMIN, &d.admin),
    },
    Key {
        name: "log",
        read: |d, n, r| {
            key::read(n, "`log`", LOG, &mut d.log, r);
        },
        show: |d| key::show(LOG, &d.log),
    },
    Key {
        name: "cache",
        read: |d, n, r| cache::read_memory(n, &mut d.memory, r),
        show: |d| key::show(cache::MEMORY, &d.memory),
    },
    Key {
        name: "shutdown",
        read: |d, n, r| {
            key::read(n, "`shutdown`", stream::SHUTDOWN, &mut d.shutdown, r);
        },
        show: |d| key::show(stream::SHUTDOWN, &d.shutdown),
    },
    Key {
        name: "defaults",
        read: |d, n, r| {
            let keys = DEFAULTS;
            if key::read(n, "`defaults`", keys, &mut d.defaults, r) {
                let header_bytes_max = d.listen.header_bytes_max;
                protocol::check_bounds(n, &d.defaults.bounds, header_bytes_max, r);
            }
        },
        show: |d| key::show(DEFAULTS, &d.defaults),
    },
    Key {
        name: "upstreams",
        read: upstream::read_all,
        show: |_| upstream::show_all(),
    },
    Key {
        name: "routes",
        read: route::read_all,
        show: |_| route::show_all(),
    },
];

const LISTEN: &[Key<Listen>] = &[
    Key {
        name: "address",
        read: |l, n, r| {
            r.parsed(
                n,
                "an address such as `127.0.0.1:8080`",
                parse_address,
                &mut l.address,
            )
        },
        show: |l| Shown::value(l.address),
    },
    Key {
        name: "header_count_max",
        read: |l, n, r| r.count(n, 1..=1000, &mut l.header_count_max),
        show: |l| Shown::value(l.header_count_max),
    },
    Key {
        name: "header_bytes_max",
        // The HTTP library cannot read a head with less than 8 KiB.
        read: |l, n, r| r.size(n, 8 << 10..=1 << 20, &mut l.header_bytes_max),
        show: |l| Shown::value(size(l.header_bytes_max as u64)),
    },
    Key {
        name: "header_read_timeout",
        read: |l, n, r| r.duration(n, &mut l.header_read_timeout),
        show: |l| Shown::value(duration(l.header_read_timeout)),
    },
    Key {
        name: "handshake_timeout",
        read: |l, n, r| r.duration(n, &mut l.handshake_timeout),
        show: |l| Shown::value(duration(l.handshake_timeout)),
    },
    Key {
        name: "write_idle_timeout",
        read: |l, n, r| r.duration(n, &mut l.write_idle_timeout),
        show: |l| Shown::value(duration(l.write_idle_timeout)),
    },
    Key {
        name: "http2_streams_max",
        read: |l, n, r| r.count(n, 1..=10_000, &mut l.http2_streams_max),
        show: |l| Shown::value(l.http2_streams_max),
    },
    Key {
        name: "connections_max",
        read: |l, n, r| r.count(n, 1..=10_000_000, &mut l.connections_max),
        show: |l| Shown::value(l.connections_max),
    },
    Key {
        name: "connections_per_source_max",
        read: |l, n, r| r.count(n, 1..=10_000_000, &mut l.connections_per_source_max),
        show: |l| Shown::value(l.connections_per_source_max),
    },
    Key {
        name: "requests_max",
        read: |l, n, r| r.count(n, 1..=10_000_000, &mut l.requests_max),
        show: |l| Shown::value(l.requests_max),
    },
    Key {
        name: "trusted_proxies",
        read: |l, n, r| {
            let wanted = "a list of ranges of addresses such as `10.0.0.0/8`";
            if let Some(networks) = r.texts(n, wanted, Network::parse) {
                l.trusted_proxies = networks;
            }
        },
        show: |l| Shown::list(&l.trusted_proxies),
    },
    Key {
        name: "forwarded",
        read: |l, n, r| r.choice(n, &FORWARDED_BY, &mut l.forwarded),
        show: |l| Shown::value(protocol::word(&FORWARDED_BY, l.forwarded)),
    },
    Key {
        name: "tls",
        read: |l, n, r| tls::read_listen(n, &mut l.tls, r),
        show: |l| tls::show_listen(l.tls.as_ref()),
    },
];

/// The words for [`ForwardedBy`].
const FORWARDED_BY: [(&str, ForwardedBy); 2] = [
    ("x-forwarded", ForwardedBy::XForwarded),
    ("forwarded", ForwardedBy::Forwarded),
];

const STATUS: &[Key<Status>] = &[Key {
    name: "address",
    read: |s, n, r| {
        r.parsed(
            n,
            "an address such as `127.0.0.1:9902`",
            parse_address,
            &mut s.address,
        )
    },
    show: |s| Shown::value(s.address),
}];

const ADMIN: &[Key<Admin>] = &[Key {
    name: "address",
    read: |a, n, r| {
        if matches!(&n.data, Data::Scalar(scalar) if scalar.text == "off") {
            a.address = None;
            return;
        }
        let parse = |text: &str| parse_address(text).map(Some);
        let wanted = "an address such as `127.0.0.1:9901`, or `off`";
        r.parsed(n, wanted, parse, &mut a.address);
    },
    show: |a| match a.address {
        Some(address) => Shown::value(address),
        None => Shown::value("off"),
    },
}];

/// The words for [`LogFormat`].
const LOG_FORMATS: [(&str, LogFormat); 3] = [
    ("text", LogFormat::Text),
    ("json", LogFormat::Json),
    ("off", LogFormat::Off),
];

const LOG: &[Key<Log>] = &[
    Key {
        name: "access",
        read: |l, n, r| r.choice(n, &LOG_FORMATS, &mut l.access),
        show: |l| Shown::value(protocol::word(&LOG_FORMATS, l.access)),
    },
    Key {
        name: "file",
        read: read_log_file,
        show: |l| match &l.file {
            Some(path) => Shown::value(path.display()),
            None => Shown::value("standard error"),
        },
    },
    Key {
        name: "backlog_bytes_max",
        read: |l, n, r| r.size(n, 4 << 10..=1 << 30, &mut l.backlog_bytes_max),
        show: |l| Shown::value(size(l.backlog_bytes_max as u64)),
    },
];

/// The path of the log is relative to the directory in which the gateway runs, like everything that
/// it writes; policies are often mounted read-only.
fn read_log_file(log: &mut Log, node: &Node, reader: &mut Reader<'_>) {
    if let Some(path) = reader.text(node, "the path of a file") {
        log.file = Some(PathBuf::from(path));
    }
}

const DEFAULTS: &[Key<Defaults>] = &[
    Key {
        name: "protocol",
        read: |d, n, r| protocol::read(n, &mut d.protocol, r),
        show: |_| Shown::value("as `routes[].protocol`"),
    },
    Key {
        name: "bounds",
        read: |d, n, r| {
            key::read(n, "`bounds`", protocol::BOUNDS, &mut d.bounds, r);
        },
        show: |_| Shown::value("as `routes[].bounds`"),
    },
    Key {
        name: "streams",
        read: |d, n, r| stream::read_streams(n, &mut d.streams, r),
        show: |_| Shown::value("as `routes[].streams`"),
    },
    Key {
        name: "deadline",
        read: |d, n, r| stream::read_deadlines(n, &mut d.deadline, r),
        show: |_| Shown::value("as `routes[].deadline`"),
    },
    Key {
        name: "cache",
        read: |d, n, r| cache::read(n, &mut d.cache, r),
        show: |_| Shown::value("as `routes[].cache`"),
    },
    Key {
        name: "catalog",
        read: |d, n, r| cache::read_catalog(n, &mut d.catalog, r),
        show: |_| Shown::value("as `routes[].catalog`"),
    },
    Key {
        name: "hosts",
        read: |d, n, r| read_hosts(n, &mut d.hosts, r),
        show: |_| Shown::value("as `routes[].hosts`"),
    },
    Key {
        name: "origins",
        read: |d, n, r| read_origins(n, &mut d.origins, r),
        show: |_| Shown::value("as `routes[].origins`"),
    },
    Key {
        name: "cors",
        read: |d, n, r| {
            key::read(n, "`cors`", route::CORS, &mut d.cors, r);
        },
        show: |_| Shown::value("as `routes[].cors`"),
    },
    Key {
        name: "upstream",
        read: |d, n, r| {
            key::read(
                n,
                "`defaults.upstream`",
                upstream::DEFAULTS,
                &mut d.upstream,
                r,
            );
        },
        show: |_| Shown::value("as `upstreams.NAME`, without `url`"),
    },
];

/// What of the gateway as a whole is not at its default.
pub(super) fn settings(plan: &Plan) -> Vec<Setting> {
    let status = Status {
        address: plan.status,
    };
    let mut settings = key::differences(LISTEN, "listen", &plan.listen, &Listen::default());
    settings.extend(key::differences(
        STATUS,
        "status",
        &status,
        &Status::default(),
    ));
    let admin = Admin {
        address: plan.admin,
    };
    settings.extend(key::differences(ADMIN, "admin", &admin, &Admin::default()));
    settings.extend(key::differences(LOG, "log", &plan.log, &Log::default()));
    settings.extend(key::differences(
        cache::MEMORY,
        "cache",
        &plan.memory,
        &Memory::default(),
    ));
    let shutdown = Shutdown::default();
    settings.extend(key::differences(
        stream::SHUTDOWN,
        "shutdown",
        &plan.shutdown,
        &shutdown,
    ));
    settings
}
