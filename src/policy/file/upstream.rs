//! `upstreams`: the servers behind us, by name.

use std::time::Duration;

use crate::policy::finding::{Flaw, Origin, shown};
use crate::policy::plan::{Forwarded, Http, Upstream};
use crate::policy::unit::duration;
use crate::policy::url::{self, Scheme, Url};

use super::Setting;
use super::gateway::Draft;
use super::key::{self, Key, Seen, Shown, word};
use super::node::{Data, Node, Word};
use super::reader::Reader;
use super::shape::Shape;
use super::tls::DraftTls;
use super::value;

/// Node closes an idle connection after 5 s, uvicorn too.
const SERVER_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The words for [`Http`].
const HTTP: [(&str, Http); 3] = [("1.1", Http::V1), ("2", Http::V2), ("auto", Http::Auto)];

/// The words for [`Forwarded`].
const FORWARDED: [(&str, Forwarded); 4] = [
    ("x-forwarded", Forwarded::XForwarded),
    ("forwarded", Forwarded::Forwarded),
    ("both", Forwarded::Both),
    ("off", Forwarded::Off),
];

/// Most streams that one connection may be given: its window must hold as many windows of streams.
const HTTP2_STREAMS_MAX: u64 = 10_000;

/// Most upstreams of one policy, whatever the number of its files.
const UPSTREAMS_MAX: usize = 10_000;

/// An upstream as it was read.
pub(super) struct DraftUpstream {
    pub(super) name: String,
    /// Where the name stands.
    pub(super) origin: Origin,
    /// Absent where its URL was refused; the name is known all the same. Whatever else was refused of
    /// it is at its default here.
    pub(super) upstream: Option<Upstream>,
}

/// What the keys of one upstream say: where it is, once its URL is known, and all else.
#[derive(Clone)]
pub(super) struct Target {
    url: Option<Url>,
    upstream: Upstream,
    tls: DraftTls,
}

impl Default for Target {
    fn default() -> Self {
        Target {
            url: None,
            upstream: Upstream::at("", "", 0, "/"),
            tls: DraftTls::default(),
        }
    }
}

impl Target {
    /// The upstream of this name that a URL from the command line names.
    pub(super) fn of(url: Url) -> Target {
        Target {
            url: Some(url),
            ..Target::default()
        }
    }

    /// The upstream with this name, if the URL is known.
    pub(super) fn upstream(self, name: &str) -> Option<Upstream> {
        let url = self.url?;
        let tls = match url.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(self.tls.settle(&url)?),
        };
        Some(Upstream {
            name: name.to_owned(),
            tls,
            authority: url.authority,
            host: url.host,
            port: url.port,
            path: url.path,
            query: url.query,
            ..self.upstream
        })
    }
}

const TARGET: &[Key<Target>] = &[
    Key {
        name: "url",
        read: read_url,
        show: |_| Shown::value("required"),
    },
    Key {
        name: "connect_timeout",
        read: |t, n, r| r.duration(n, &mut t.upstream.connect_timeout),
        show: |t| Shown::value(duration(t.upstream.connect_timeout)),
    },
    Key {
        name: "response_header_timeout",
        read: |t, n, r| r.duration(n, &mut t.upstream.response_header_timeout),
        show: |t| Shown::value(duration(t.upstream.response_header_timeout)),
    },
    Key {
        name: "response_idle_timeout",
        read: |t, n, r| r.duration(n, &mut t.upstream.response_idle_timeout),
        show: |t| Shown::value(duration(t.upstream.response_idle_timeout)),
    },
    Key {
        name: "idle_timeout",
        read: read_idle_timeout,
        show: |t| Shown::value(duration(t.upstream.idle_timeout)),
    },
    Key {
        name: "connection_age_max",
        read: |t, n, r| r.duration(n, &mut t.upstream.connection_age_max),
        show: |t| Shown::value(duration(t.upstream.connection_age_max)),
    },
    Key {
        name: "idle_connections_max",
        // With 0 every request makes a connection of its own.
        read: |t, n, r| r.count(n, 0..=65_536, &mut t.upstream.idle_connections_max),
        show: |t| Shown::value(t.upstream.idle_connections_max),
    },
    Key {
        name: "http",
        read: |t, n, r| r.choice(n, &HTTP, &mut t.upstream.http),
        show: |t| Shown::value(word(&HTTP, t.upstream.http)),
    },
    Key {
        name: "http2_streams_max",
        read: |t, n, r| r.count(n, 1..=HTTP2_STREAMS_MAX, &mut t.upstream.http2_streams_max),
        show: |t| Shown::value(t.upstream.http2_streams_max),
    },
    Key {
        name: "http2_ping_interval",
        read: |t, n, r| r.duration(n, &mut t.upstream.http2_ping_interval),
        show: |t| Shown::value(duration(t.upstream.http2_ping_interval)),
    },
    Key {
        name: "forwarded",
        read: |t, n, r| r.choice(n, &FORWARDED, &mut t.upstream.forwarded),
        show: |t| Shown::value(word(&FORWARDED, t.upstream.forwarded)),
    },
    Key {
        name: "tls",
        read: |t, n, r| t.tls.read(n, r),
        show: |t| t.tls.show(),
    },
];

/// What `defaults.upstream` may have: everything but the URL.
pub(super) const DEFAULTS: &[Key<Target>] = TARGET.split_at(1).1;

/// What of an upstream is not at its default.
pub(super) fn settings(upstream: &Upstream) -> Vec<Setting> {
    let target = Target {
        url: None,
        upstream: upstream.clone(),
        tls: DraftTls::of(upstream),
    };
    key::differences(DEFAULTS, "", &target, &Target::default())
}

/// Reads the upstreams of one file.
pub(super) fn read_all(draft: &mut Draft, node: &Node, reader: &mut Reader<'_>) {
    if reader.is_asked(node, || Shape::Named(Vec::new())) {
        key::read(node, "", TARGET, &mut Target::default(), reader);
        return;
    }
    let entries = match &node.data {
        Data::Mapping(entries) => entries,
        Data::Refused | Data::Asked => return draft.lacks_upstreams = true,
        Data::Scalar(_) | Data::List(_) => {
            draft.lacks_upstreams = true;
            let flaw = Flaw::new(
                format!("`upstreams` must be a mapping, found {}", node.describe()),
                "write each upstream as `name: { url: http://host:port/path }`",
            );
            reader.refuse(&node.place, flaw);
            return;
        }
    };
    for (word, value) in entries {
        reader.name(&word.text, word.plain, &word.place.alone());
        let upstream = read_one(word, value, &draft.defaults.upstream, reader);
        if let Some(first) = draft.upstreams.iter().find(|u| u.name == word.text) {
            let flaw = Flaw::new(
                format!(
                    "the upstream `{}` is already defined at {}",
                    word.text, first.origin
                ),
                "rename one of the two, or remove it",
            );
            reader.refuse(&word.place.alone(), flaw);
            continue;
        }
        if draft.upstreams.len() >= UPSTREAMS_MAX {
            let cause = format!("the policy has more than {UPSTREAMS_MAX} upstreams");
            let hint = "split it among several gateways";
            return reader.refuse(&word.place, Flaw::new(cause, hint));
        }
        draft.upstreams.push(DraftUpstream {
            name: word.text.clone(),
            origin: Origin::from(&word.place),
            upstream,
        });
    }
}

/// The default of each key, under a name that stands for any.
pub(super) fn show_all() -> Shown {
    Shown::Keys(vec![("NAME", key::show(TARGET, &Target::default()))])
}

fn read_one(
    word: &Word,
    node: &Node,
    defaults: &Target,
    reader: &mut Reader<'_>,
) -> Option<Upstream> {
    let what = format!("the upstream {}", shown(&word.text));
    if let Data::Scalar(scalar) = &node.data
        && scalar.text.contains("://")
    {
        let name = shown(&word.text);
        let flaw = Flaw::new(
            format!("{name} must be a mapping, found a URL"),
            format!("write `{}: {{ url: … }}`", name.trim_matches('`')),
        );
        reader.refuse(&node.place, flaw);
        return None;
    }
    let mut target = defaults.clone();
    let seen = key::read(node, &what, TARGET, &mut target, reader);
    if seen.lacks("url") {
        let flaw = Flaw::new(
            format!("{what} has no `url`"),
            "write `url: http://host:port/path`",
        );
        reader.refuse(&word.place, flaw);
    }
    let scheme = target.url.as_ref().map(|url| url.scheme);
    if let (Some(Scheme::Http), Some(tls)) = (scheme, seen.place("tls")) {
        let flaw = Flaw::new(
            format!("{what} has `tls`, but its URL is `http://`"),
            "write `https://`, or remove `tls`: nothing would be enforced by it",
        );
        reader.refuse(tls, flaw);
    }
    if let Some(scheme) = scheme {
        warn_of_unused(&seen, target.upstream.http, scheme, reader);
    }
    target.upstream(&word.text)
}

/// Warns of what an upstream names for a version of HTTP that is not spoken with it.
fn warn_of_unused(seen: &Seen, http: Http, scheme: Scheme, reader: &mut Reader<'_>) {
    let (version, unused): (_, &[&str]) = match (http, scheme) {
        (Http::V1, _) | (Http::Auto, Scheme::Http) => {
            ("1.1", &["http2_streams_max", "http2_ping_interval"])
        }
        (Http::V2, _) => ("2", &["idle_connections_max"]),
        (Http::Auto, Scheme::Https) => return,
    };
    for place in unused.iter().filter_map(|key| seen.place(key)) {
        let flaw = Flaw::new(
            format!("this has no effect, because the server is spoken to by HTTP/{version} only"),
            "remove it, or write another `http`",
        );
        reader.warn(place, flaw);
    }
}

fn read_url(target: &mut Target, node: &Node, reader: &mut Reader<'_>) {
    let Some(text) = value::read(node, "a URL such as `http://127.0.0.1:3000/mcp`", reader) else {
        return;
    };
    match url::parse(&text) {
        Ok(url) => {
            if !url.names_path {
                reader.warn(&node.place, no_path());
            }
            target.url = Some(url);
        }
        Err(flaw) => reader.refuse(&node.place, flaw),
    }
}

/// What somebody who leaves the path out may not expect.
pub(super) fn no_path() -> Flaw {
    Flaw::new(
        "the URL has no path, so requests go to `/` of the server",
        "most MCP servers listen on `/mcp`; write the path, if only as `/`",
    )
}

fn read_idle_timeout(target: &mut Target, node: &Node, reader: &mut Reader<'_>) {
    reader.duration(node, &mut target.upstream.idle_timeout);
    if target.upstream.idle_timeout >= SERVER_KEEP_ALIVE {
        reader.warn(
            &node.place,
            Flaw::new(
                "many servers close an idle connection after 5s, and a call that is sent at that \
                 moment fails",
                "stay below the time that the server keeps idle connections",
            ),
        );
    }
}
