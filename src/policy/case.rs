//! Requests that a policy is tried with before it is loaded, and what is expected of them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde_json::Value;

use super::finding::Origin;

/// The cases of one file.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The file, as it was named.
    pub name: String,
    /// The policy that is tried.
    pub policy: Vec<PathBuf>,
    /// The tools that the servers are taken to have, as `tools/list` gives them.
    pub tools: Vec<Value>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// One request, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows, in words.
    pub name: String,
    /// Where it stands.
    pub origin: Origin,
    /// What is asked.
    pub given: Given,
    /// What is expected.
    pub expect: Expect,
}

/// A request as people describe it: what is left out follows from the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The route by its name; without it, the path and host decide.
    pub route: Option<String>,
    /// The path of its target.
    pub path: Option<String>,
    /// The host that it names.
    pub host: Option<String>,
    /// The version that it speaks; the newest of the route if it names none.
    pub version: Option<String>,
    /// The method of the message.
    pub method: String,
    /// The tool, prompt, URI or task that it names.
    pub name: Option<String>,
    /// The arguments of the tool or the prompt.
    pub arguments: Option<Value>,
    /// Further parameters.
    pub params: Option<Value>,
    /// Header fields over those that follow from the rest; one without a value is left out.
    pub headers: Vec<(String, Option<String>)>,
    /// The body as it is sent, in place of the one that follows from the rest.
    pub body: Option<String>,
    /// Where it comes from.
    pub source: IpAddr,
}

impl Default for Given {
    fn default() -> Self {
        Given {
            route: None,
            path: None,
            host: None,
            version: None,
            method: "tools/call".to_owned(),
            name: None,
            arguments: None,
            params: None,
            headers: Vec::new(),
            body: None,
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go upstream.
    Allow,
    /// It is refused.
    Refuse,
}

impl Verdict {
    /// The words for them.
    pub const WORDS: [(&'static str, Verdict); 2] =
        [("allow", Verdict::Allow), ("refuse", Verdict::Refuse)];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Verdict::WORDS.iter().find(|(_, verdict)| verdict == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

/// What is expected of a request; what is left out may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// What comes of it.
    pub verdict: Option<Verdict>,
    /// The name of the refusal, as in the log.
    pub reason: Option<String>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The JSON-RPC code of the answer.
    pub code: Option<i32>,
    /// Header fields of the answer; one without a value is not there.
    pub headers: Vec<(String, Option<String>)>,
}
