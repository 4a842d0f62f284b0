//! What stands once in a policy: `listen`, `status`, `admin`, `log`, `cache`, `shutdown` and `defaults`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::policy::finding::Flaw;
use crate::policy::host::parse_address;
use crate::policy::network::Network;
use crate::policy::plan::{ForwardedBy, Listen, Log, LogFormat, Memory, Plan, Shutdown};
use crate::policy::unit::{duration, size};

use super::Setting;
use super::bounds;
use super::cache;
use super::key::{self, Key, Section, Seen, Shown, word};
use super::node::Node;
use super::reader::Reader;
use super::route::{self, DraftRoute, TERMS, Terms};
use super::stream;
use super::tls;
use super::upstream::{self, DraftUpstream, Target};

/// What was read so far, on top of the defaults.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) listen: Section<Listen>,
    pub(super) status: Section<Status>,
    pub(super) admin: Section<Admin>,
    pub(super) log: Log,
    pub(super) memory: Memory,
    pub(super) shutdown: Shutdown,
    pub(super) defaults: Defaults,
    pub(super) upstreams: Vec<DraftUpstream>,
    /// Whether there may be upstreams whose names could not be read.
    pub(super) lacks_upstreams: bool,
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
#[derive(Default)]
pub(super) struct Defaults {
    pub(super) terms: Terms,
    pub(super) upstream: Target,
    pub(super) seen: Seen,
}

/// The keys that only the gateway file has.
pub(super) const GATEWAY_KEYS: [&str; 7] = [
    "listen", "status", "admin", "log", "cache", "shutdown", "defaults",
];

/// The keys of a file. The defaults come before what builds on them.
pub(super) const ROOT: &[Key<Draft>] = &[
    Key {
        name: "listen",
        read: read_listen,
        show: |d| key::show(LISTEN, &d.listen.value),
    },
    Key {
        name: "status",
        read: |d, n, r| d.status.read(n, "`status`", STATUS, r),
        show: |d| key::show(STATUS, &d.status.value),
    },
    Key {
        name: "admin",
        read: |d, n, r| d.admin.read(n, "`admin`", ADMIN, r),
        show: |d| key::show(ADMIN, &d.admin.value),
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
        read: read_defaults,
        show: |_| show_defaults(),
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
        show: |l| Shown::value(word(&FORWARDED_BY, l.forwarded)),
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
        if r.is_word(n, "off") {
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
        show: |l| Shown::value(word(&LOG_FORMATS, l.access)),
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

/// Reads `listen`, and holds its values against each other.
fn read_listen(draft: &mut Draft, node: &Node, reader: &mut Reader<'_>) {
    let listen = &mut draft.listen;
    listen.read(node, "`listen`", LISTEN, reader);
    let Section { value, seen } = listen;
    let (all, one) = ("connections_max", "connections_per_source_max");
    if value.connections_per_source_max > value.connections_max
        && seen.knows(all)
        && seen.knows(one)
        && let Some(place) = seen.place(one)
    {
        let cause = format!(
            "`{one}` is {} and could never be reached, because `{all}` is {}",
            value.connections_per_source_max, value.connections_max
        );
        let hint = "lower the one or raise the other; what is not written has its default";
        reader.refuse(place, Flaw::new(cause, hint));
    }
    if value.trusted_proxies.is_empty()
        && let Some(place) = seen.place("forwarded")
    {
        let flaw = Flaw::new(
            "this has no effect, because no proxy is believed",
            "list the proxies under `trusted_proxies`, or remove it",
        );
        reader.warn(place, flaw);
    }
}

/// What `defaults` has for upstreams, beside [`TERMS`] for routes.
const UPSTREAM: &[Key<Target>] = &[Key {
    name: "upstream",
    read: |target, n, r| {
        key::read(n, "`defaults.upstream`", upstream::DEFAULTS, target, r);
    },
    show: |_| Shown::value("as `upstreams.NAME`, without `url`"),
}];

fn read_defaults(draft: &mut Draft, node: &Node, reader: &mut Reader<'_>) {
    let Defaults {
        terms,
        upstream,
        seen,
    } = &mut draft.defaults;
    let mut tables: [&mut dyn key::Table; 2] =
        [&mut (TERMS, &mut *terms), &mut (UPSTREAM, upstream)];
    seen.add(key::read_tables(node, "`defaults`", &mut tables, reader));
    bounds::check(&terms.bounds, &draft.listen, reader);
}

/// The keys of `defaults`; each has the default of what it is the default of.
fn show_defaults() -> Shown {
    let terms = TERMS.iter().map(|key| {
        let name = key.name;
        (name, Shown::value(format!("as `routes[].{name}`")))
    });
    let upstream = UPSTREAM
        .iter()
        .map(|key| (key.name, (key.show)(&Target::default())));
    Shown::Keys(terms.chain(upstream).collect())
}

/// What of the gateway as a whole is not at its default.
pub(super) fn settings(plan: &Plan) -> Vec<Setting> {
    let status = Status {
        address: plan.status,
    };
    let mut settings = key::differences(LISTEN, "listen", &plan.listen, &Listen::default());
    let default = Status::default();
    settings.extend(key::differences(STATUS, "status", &status, &default));
    let admin = Admin {
        address: plan.admin,
    };
    settings.extend(key::differences(ADMIN, "admin", &admin, &Admin::default()));
    settings.extend(key::differences(LOG, "log", &plan.log, &Log::default()));
    let default = Memory::default();
    let memory = key::differences(cache::MEMORY, "cache", &plan.memory, &default);
    settings.extend(memory);
    let default = Shutdown::default();
    let shutdown = key::differences(stream::SHUTDOWN, "shutdown", &plan.shutdown, &default);
    settings.extend(shutdown);
    settings
}
