//! Policy files for the tests. They are written as JSON, which is YAML too, so that a test can
//! set one key by its path.

use serde_json::{Value, json};

use super::upstream::Upstream;

/// A policy with one route, `/mcp`, to one upstream.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    document: Value,
}

impl Policy {
    /// Everything at its default, but on ports that the system chooses, with a JSON log, and with
    /// nothing remembered: the upstream gets what the test sends, and nothing else.
    pub(crate) fn new(upstream: &Upstream) -> Policy {
        Policy::to_url(&upstream.url())
    }

    /// The same before an upstream that is only a URL.
    pub(crate) fn to_url(url: &str) -> Policy {
        Policy {
            document: json!({
                "listen": {"address": "127.0.0.1:0"},
                "status": {"address": "127.0.0.1:0"},
                "admin": {"address": "127.0.0.1:0"},
                "log": {"access": "json"},
                "defaults": {"cache": "off", "catalog": "off"},
                "upstreams": {"up": {"url": url}},
                "routes": [{"name": "main", "path": "/mcp", "upstream": "up"}],
            }),
        }
    }

    /// Remembers answers and definitions of tools, as a gateway does by default.
    pub(crate) fn remembering(mut self) -> Policy {
        self.document
            .as_object_mut()
            .expect("a mapping")
            .remove("defaults");
        self
    }

    /// Accepts these versions and no others.
    pub(crate) fn versions(self, versions: &[&str]) -> Policy {
        self.set("/routes/0/protocol/versions", json!(versions))
    }

    /// Sets a routing-header rule of the route: `missing` or `legacy`.
    pub(crate) fn routing_headers(self, key: &str, value: &str) -> Policy {
        let path = format!("/routes/0/protocol/routing_headers/{key}");
        self.set(&path, json!(value))
    }

    /// Sets one limit of the route by its key.
    pub(crate) fn bound(self, key: &str, value: impl Into<Value>) -> Policy {
        self.set(&format!("/routes/0/bounds/{key}"), value.into())
    }

    /// Sets one key of the upstream.
    pub(crate) fn upstream(self, key: &str, value: impl Into<Value>) -> Policy {
        self.set(&format!("/upstreams/up/{key}"), value.into())
    }

    /// Sets one key of the listener.
    pub(crate) fn listen(self, key: &str, value: impl Into<Value>) -> Policy {
        self.set(&format!("/listen/{key}"), value.into())
    }

    /// Sets whatever stands at a path of keys; objects on the way are made.
    pub(crate) fn set(mut self, path: &str, value: Value) -> Policy {
        let mut place = &mut self.document;
        for key in path.split('/').skip(1) {
            place = match key.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[key],
            };
        }
        *place = value;
        self
    }

    /// The file's text.
    pub(crate) fn text(&self) -> String {
        format!("{:#}\n", self.document)
    }
}
