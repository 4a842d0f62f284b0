//! Policy files → the [`Plan`]: read, checked as a whole, and every flaw told at once.
//!
//! A policy is one file or several. The one that has any of `listen`, `status`, `admin`, `log`, `cache`,
//! `shutdown` and `defaults` is the gateway file; all others hold `upstreams` and `routes` only, so
//! that teams can own files of their own without reaching into what concerns all.
//!
//! The stages: [`source`] reads bytes, [`node`] makes a tree of them in which every node knows its
//! place, the tables of [`key`] turn the tree into typed drafts, [`resolve`] makes the plan.

mod bounds;
mod cache;
mod case;
mod cors;
mod gateway;
mod key;
mod node;
mod pin;
mod protocol;
mod reader;
mod resolve;
mod route;
mod shape;
mod source;
mod stream;
mod tls;
mod upstream;
mod value;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::finding::{Errors, Finding, Flaw};
use super::plan::{Plan, Route, Upstream};
use super::url;

use gateway::{Draft, GATEWAY_KEYS, ROOT};
use key::Seen;
use reader::Reader;

pub use case::{case_keys, is_suite, load_request, load_suite, suite_of};
pub use shape::Shape;

/// A plan, and what is allowed in its files but probably not meant.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What the gateway runs on.
    pub plan: Plan,
    /// Sorted by file and position.
    pub warnings: Vec<Finding>,
}

/// Addresses from the command line, which win over those of the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Where clients connect.
    pub listen: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` are served.
    pub status: Option<SocketAddr>,
    /// Where what the gateway remembers can be looked at and purged.
    pub admin: Option<SocketAddr>,
}

/// Reads the policy that `paths` name: files, and directories whose `*.yaml` and `*.yml` are taken
/// by name.
///
/// # Errors
/// All flaws of all files at once.
pub fn load(paths: &[PathBuf], addresses: Addresses) -> Result<Policy, Errors> {
    load_with(paths, addresses, &|name| std::env::var_os(name))
}

/// [`load`] with the variables that `{env: NAME}` may name.
///
/// # Errors
/// All flaws of all files at once.
pub fn load_with(
    paths: &[PathBuf],
    addresses: Addresses,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Policy, Errors> {
    read(paths, addresses, environment, true)
}

/// [`load`] for whoever writes lock files: those that the policy names need not be there, and the
/// plan has empty ones in their place.
///
/// # Errors
/// All other flaws of all files at once.
pub fn load_to_pin(paths: &[PathBuf]) -> Result<Policy, Errors> {
    let environment = |name: &str| std::env::var_os(name);
    read(paths, Addresses::default(), &environment, false)
}

fn read(
    paths: &[PathBuf],
    addresses: Addresses,
    environment: &dyn Fn(&str) -> Option<OsString>,
    reads_locks: bool,
) -> Result<Policy, Errors> {
    let sources = source::read(paths);
    let sources_are_whole = sources.findings.is_empty();
    let mut findings = sources.findings;
    let mut trees = Vec::new();
    for file in &sources.files {
        trees.extend(node::parse(file, &mut findings));
    }
    // Names that are missing may stand in a file that could not be read.
    let complete = sources_are_whole && trees.len() == sources.files.len();
    let mut reader = Reader {
        findings,
        warnings: sources.warnings,
        reads_locks,
        ..Reader::new(environment)
    };
    let is_gateway = |tree: &node::Node| GATEWAY_KEYS.iter().any(|key| tree.find(key).is_some());
    // The gateway file first, because everything else builds on its defaults.
    trees.sort_by_key(|tree| !is_gateway(tree));
    for second in trees.iter().skip(1).filter(|tree| is_gateway(tree)) {
        refuse_second(second, &trees[0], &mut reader);
    }
    let mut draft = Draft::default();
    let mut seen = Seen::default();
    for tree in &trees {
        seen.add(key::read(
            tree,
            "a policy file",
            ROOT,
            &mut draft,
            &mut reader,
        ));
    }
    if complete && seen.lacks("routes") {
        let flaw = Flaw::new(
            "the policy has no route",
            "write `routes:` with one route at least",
        );
        reader.findings.push(Finding::argument("policy", flaw));
    }
    draft.lacks_upstreams |= !complete;
    resolve::resolve(draft, addresses, reader)
}

/// Two files that both claim to be the gateway file.
fn refuse_second(second: &node::Node, first: &node::Node, reader: &mut Reader<'_>) {
    for key in GATEWAY_KEYS {
        if let Some(value) = second.find(key) {
            let flaw = Flaw::new(
                format!(
                    "`{key}` stands in a second gateway file, the first is {}",
                    first.place.source.name
                ),
                "keep `listen`, `status`, `admin`, `log`, `cache`, `shutdown` and `defaults` together in \
                 one file",
            );
            reader.refuse(&value.place, flaw);
        }
    }
}

/// Every key that a policy file may have, as a path, with its default.
#[must_use]
pub fn keys() -> Vec<(String, String)> {
    let mut rows = Vec::new();
    key::show(ROOT, &Draft::default()).flatten("", &mut rows);
    rows
}

/// What a policy file may hold: each key with what it takes.
#[must_use]
pub fn shape() -> Shape {
    let mut reader = Reader::new(&|_| None);
    let asked = node::Node::asked();
    key::read(&asked, "", ROOT, &mut Draft::default(), &mut reader);
    reader.told.pop().unwrap_or(Shape::Keys(Vec::new()))
}

/// A setting that is not at its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key with its path, such as `bounds.body_bytes_max`.
    pub key: String,
    /// Its value, as it would be written in a file.
    pub value: String,
    /// The default, likewise.
    pub default: String,
}

impl Setting {
    /// Whether it is that of `key`, or of a key below.
    fn is_of(&self, key: &str) -> bool {
        let below = self.key.strip_prefix(key);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    }
}

/// The settings of the gateway as a whole that are not at their defaults.
#[must_use]
pub fn settings_of_gateway(plan: &Plan) -> Vec<Setting> {
    gateway::settings(plan)
}

/// The settings of a route that are not at their defaults, but for those that make it this route:
/// its name, path, upstream, hosts and origins.
#[must_use]
pub fn settings_of_route(route: &Route) -> Vec<Setting> {
    route::settings(route)
}

/// The settings of an upstream, but for its URL, that are not at their defaults.
#[must_use]
pub fn settings_of_upstream(upstream: &Upstream) -> Vec<Setting> {
    upstream::settings(upstream)
}

impl Plan {
    /// The plan for one server without a policy file: one route `default` on `/mcp` with every
    /// default, and nobody but this machine is let in unless `listen` says otherwise.
    ///
    /// # Errors
    /// A URL that is not one, and addresses that contradict each other.
    pub fn for_single_upstream(url: &str, addresses: Addresses) -> Result<Policy, Errors> {
        let url = url::parse(url).map_err(|flaw| Finding::argument("--upstream", flaw))?;
        resolve::single(url, addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plan::{Hosts, Origins};

    #[test]
    fn ten_lines_make_a_plan() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.yaml");
        let text = "listen: { address: 127.0.0.1:8080 }\n\
                    upstreams:\n  weather: { url: http://127.0.0.1:3000/mcp }\n\
                    routes:\n  - name: weather\n    upstream: weather\n    bounds: { body_bytes_max: 1Mi }\n";
        std::fs::write(&path, text).unwrap();
        let policy = load(&[path], Addresses::default()).unwrap();
        let route = &policy.plan.routes[0];
        assert_eq!(
            (route.name.as_str(), route.path.as_str()),
            ("weather", "/mcp")
        );
        assert_eq!(
            (&route.hosts, &route.origins),
            (&Hosts::Loopback, &Origins::Loopback)
        );
        assert_eq!(route.bounds.body_bytes_max, 1 << 20);
        assert_eq!(route.upstream.authority, "127.0.0.1:3000");
        assert!(policy.warnings.is_empty());
    }

    #[test]
    fn one_upstream_makes_a_plan_for_this_machine_alone() {
        let policy =
            Plan::for_single_upstream("http://127.0.0.1:3000/mcp", Addresses::default()).unwrap();
        assert_eq!(policy.plan.routes.len(), 1);
        assert_eq!(policy.plan.routes[0].path, "/mcp");
        assert_eq!(policy.plan.routes[0].hosts, Hosts::Loopback);
        assert!(policy.plan.listen.address.ip().is_loopback());
        let refused =
            Plan::for_single_upstream("http://u:secret@h/", Addresses::default()).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("--upstream: the URL has a user part")
        );
        assert!(!refused.to_string().contains("secret"));
    }
}
