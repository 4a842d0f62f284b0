//! What the cases ask.

use serde_json::Value;

use crate::policy::case::Given;
use crate::policy::finding::Flaw;

use super::{json, read_headers, read_text};
use crate::policy::file::key::{self, Key, Shown};
use crate::policy::file::node::{Data, Node};
use crate::policy::file::reader::Reader;

pub(super) const REQUEST: &[Key<Given>] = &[
    Key {
        name: "route",
        read: |g, n, r| read_text(&mut g.route, n, "the name of a route", r),
        show: |_| Shown::value("by path and host"),
    },
    Key {
        name: "path",
        read: |g, n, r| read_text(&mut g.path, n, "a path such as `/mcp`", r),
        show: |_| Shown::value("that of the route"),
    },
    Key {
        name: "host",
        read: |g, n, r| read_text(&mut g.host, n, "a host", r),
        show: |_| Shown::value("one that the route answers to"),
    },
    Key {
        name: "version",
        read: |g, n, r| read_text(&mut g.version, n, "a version in quotes", r),
        show: |_| Shown::value("the newest that the route accepts"),
    },
    Key {
        name: "method",
        read: |g, n, r| r.string(n, "a method such as `tools/list`", &mut g.method),
        show: |_| Shown::value("that of what is named"),
    },
    Key {
        name: "tool",
        read: |g, n, r| read_name(g, n, "tools/call", r),
        show: |_| Shown::value("none"),
    },
    Key {
        name: "prompt",
        read: |g, n, r| read_name(g, n, "prompts/get", r),
        show: |_| Shown::value("none"),
    },
    Key {
        name: "uri",
        read: |g, n, r| read_name(g, n, "resources/read", r),
        show: |_| Shown::value("none"),
    },
    Key {
        name: "arguments",
        read: |g, n, r| read_object(&mut g.arguments, n, r),
        show: |_| Shown::value("none"),
    },
    Key {
        name: "params",
        read: |g, n, r| read_object(&mut g.params, n, r),
        show: |_| Shown::value("none"),
    },
    Key {
        name: "headers",
        read: |g, n, r| read_headers(&mut g.headers, n, r),
        show: |_| Shown::value("those that follow from the rest"),
    },
    Key {
        name: "body",
        read: read_body,
        show: |_| Shown::value("the one that follows from the rest"),
    },
    Key {
        name: "source",
        read: |g, n, r| {
            let parse = |text: &str| {
                text.parse().map_err(|_| {
                    Flaw::of(text, "is not an address", "write one such as `203.0.113.7`")
                })
            };
            r.parsed(n, "an address such as `203.0.113.7`", parse, &mut g.source);
        },
        show: |_| Shown::value("127.0.0.1"),
    },
];

/// Reads what is asked: by a name, from which the method follows, or by a method.
pub(super) fn read(node: &Node, given: &mut Given, reader: &mut Reader<'_>) {
    let seen = key::read(node, "`request`", REQUEST, given, reader);
    if let Some(place) = seen.place("method")
        && given.name.is_some()
    {
        let flaw = Flaw::new(
            "`method` has no effect beside a tool, a prompt or a URI, from which it follows",
            "remove it; or name the method alone, with what it takes under `params`",
        );
        reader.refuse(place, flaw);
    }
}

/// Reads a body as it is sent, which may be anything but YAML's own lists and mappings.
fn read_body(given: &mut Given, node: &Node, reader: &mut Reader<'_>) {
    match &node.data {
        Data::Scalar(scalar) => given.body = Some(scalar.text.clone()),
        Data::Refused | Data::Asked => {}
        Data::List(_) | Data::Mapping(_) => {
            let cause = format!("expected the text of a body, found {}", node.describe());
            let hint = "write it in single quotes: `body: '{\"jsonrpc\": …}'`";
            reader.refuse(&node.place, Flaw::new(cause, hint));
        }
    }
}

fn read_name(given: &mut Given, node: &Node, method: &str, reader: &mut Reader<'_>) {
    if let Some(text) = reader.text(node, "a name") {
        if let Some(first) = &given.name {
            let flaw = Flaw::new(
                format!("the request already names `{first}`"),
                "name one tool, one prompt or one URI",
            );
            return reader.refuse(&node.place, flaw);
        }
        given.name = Some(text.to_owned());
        method.clone_into(&mut given.method);
    }
}

fn read_object(into: &mut Option<Value>, node: &Node, reader: &mut Reader<'_>) {
    match json(node) {
        Some(value @ Value::Object(_)) => *into = Some(value),
        Some(_) => {
            let cause = format!("expected a mapping, found {}", node.describe());
            reader.refuse(&node.place, Flaw::new(cause, "write `{ key: value }`"));
        }
        None => {}
    }
}
