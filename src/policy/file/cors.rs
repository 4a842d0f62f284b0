//! `cors`, of routes and of the defaults: what pages of other origins may send and read.

use crate::policy::finding::Flaw;
use crate::policy::plan::Cors;
use crate::policy::unit::duration;
use crate::protocol::header::PARAM_PREFIX;

use super::key::{Key, SWITCH, Shown, word};
use super::node::{Data, Node};
use super::reader::Reader;

pub(super) const CORS: &[Key<Cors>] = &[
    Key {
        name: "headers",
        read: read_headers,
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
        show: |c| Shown::value(word(&SWITCH, c.credentials)),
    },
];

/// The names of headers that no script of a page can set (Fetch, "forbidden request-header").
const FORBIDDEN: [&str; 21] = [
    "accept-charset",
    "accept-encoding",
    "access-control-request-headers",
    "access-control-request-method",
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "date",
    "dnt",
    "expect",
    "host",
    "keep-alive",
    "origin",
    "referer",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// How the others of them begin.
const FORBIDDEN_PREFIXES: [&str; 2] = ["proxy-", "sec-"];

/// The name of a header; two that differ in case alone are one.
struct Name(String);

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// Reads the request headers that pages may send beyond those that they always may.
fn read_headers(cors: &mut Cors, node: &Node, reader: &mut Reader<'_>) {
    let wanted = "a list of header names such as `X-Tenant`";
    let Some(names) = reader.texts(node, wanted, parse) else {
        return;
    };
    cors.headers = names.into_iter().map(|Name(name)| name).collect();
    let Data::List(elements) = &node.data else {
        return;
    };
    for (name, element) in cors.headers.iter().zip(elements) {
        if is_allowed_anyway(&name.to_ascii_lowercase()) {
            let cause = "this has no effect, because pages may send the header anyway";
            reader.warn(&element.place, Flaw::new(cause, "remove it"));
        }
    }
}

fn parse(text: &str) -> Result<Name, Flaw> {
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
    if is_forbidden(name.as_str()) {
        let hint = match name.as_str() {
            "cookie" => "remove it; `credentials: true` has a browser send its cookies",
            _ => "remove it",
        };
        return refused("is a header that browsers let no page set", hint);
    }
    Ok(Name(text.to_owned()))
}

/// Whether the name, in lower case, is one that no page can set.
fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.contains(&name)
        || FORBIDDEN_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Whether the name, in lower case, is one that every page of an origin may send.
fn is_allowed_anyway(name: &str) -> bool {
    name.starts_with(PARAM_PREFIX)
        || Cors::ALWAYS
            .split(", ")
            .any(|always| always.eq_ignore_ascii_case(name))
}
