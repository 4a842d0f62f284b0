//! A gateway before an upstream, and the two things that a test says of a request: it is
//! forwarded as it came, or it is refused for this cause and nothing else happens.

use std::cell::Cell;

use serde_json::{Value, json};

use super::client::{Client, Response};
use super::gateway::Gateway;
use super::policy::Policy;
use super::request::{LEGACY, MODERN, Request};
use super::upstream::{Received, Upstream};

/// The versions of a route, by what it serves.
pub(crate) const MODERN_ONLY: &[&str] = &[MODERN];
pub(crate) const LEGACY_ONLY: &[&str] = &[LEGACY, "2025-06-18"];
pub(crate) const MIXED: &[&str] = &[MODERN, LEGACY, "2025-06-18"];
pub(crate) const HEADERLESS: &[&str] = &[MODERN, LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];

/// What a refusal must look like.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    status: u16,
    /// The JSON-RPC code; any of these where the protocol leaves a choice.
    codes: Vec<i64>,
    id: Option<String>,
    names: Vec<String>,
    supported: Option<Vec<String>>,
}

impl Refusal {
    /// This status and code, with the id 1 that the tests' requests have.
    pub(crate) fn of(status: u16, code: i64) -> Refusal {
        Refusal::any_of(status, &[code])
    }

    /// This status, and a code among these.
    pub(crate) fn any_of(status: u16, codes: &[i64]) -> Refusal {
        Refusal {
            status,
            codes: codes.to_vec(),
            id: Some("1".to_owned()),
            names: Vec::new(),
            supported: None,
        }
    }

    /// This status, an error of any code, and the id null, because no body was read.
    pub(crate) fn of_head(status: u16) -> Refusal {
        Refusal::any_of(status, &[]).id("null")
    }

    /// The error's id is this token.
    pub(crate) fn id(mut self, token: &str) -> Refusal {
        self.id = Some(token.to_owned());
        self
    }

    /// The error has an id, whichever.
    pub(crate) fn with_some_id(mut self) -> Refusal {
        self.id = None;
        self
    }

    /// The error's message or data contains each of these.
    pub(crate) fn names(mut self, names: &[&str]) -> Refusal {
        self.names.extend(names.iter().map(|&name| name.to_owned()));
        self
    }

    /// The error's data lists exactly these versions, whatever their order.
    pub(crate) fn supported(mut self, versions: &[&str]) -> Refusal {
        let mut versions: Vec<_> = versions.iter().map(|&v| v.to_owned()).collect();
        versions.sort();
        self.supported = Some(versions);
        self
    }

    /// Fails the test unless the answer is this refusal.
    pub(crate) fn check(&self, what: &str, answer: &Response) {
        let text = answer.text();
        assert_eq!(answer.status, self.status, "{what}: {text}");
        let kind = answer.head.value("content-type").unwrap_or_default();
        assert_eq!(kind, "application/json", "{what}: {text}");
        let json = answer.json();
        assert_eq!(json["jsonrpc"], "2.0", "{what}: {text}");
        let code = answer.code();
        assert!(code.is_some(), "{what}: no error in {text}");
        if !self.codes.is_empty() {
            assert!(
                code.is_some_and(|code| self.codes.contains(&code)),
                "{what}: {:?} expected, got {text}",
                self.codes
            );
        }
        let id = answer.raw_id();
        match &self.id {
            Some(_) => assert_eq!(id, self.id, "{what}: {text}"),
            None => assert!(id.is_some(), "{what}: no id in {text}"),
        }
        let error = said(&json);
        for name in &self.names {
            assert!(error.contains(name), "{what}: {name:?} is not in {text}");
        }
        if let Some(supported) = &self.supported {
            assert_eq!(&versions(&json), supported, "{what}: {text}");
        }
    }
}

/// The message and the data of an error, as text to search.
fn said(json: &Value) -> String {
    let message = json["error"]["message"].as_str().unwrap_or_default();
    format!("{message} {}", json["error"]["data"])
}

fn versions(json: &Value) -> Vec<String> {
    let listed = json["error"]["data"]["supported"].as_array();
    let mut versions: Vec<String> = listed
        .into_iter()
        .flatten()
        .filter_map(|version| version.as_str().map(str::to_owned))
        .collect();
    versions.sort();
    versions
}

/// An upstream and the gateway before it, used by one test alone.
pub(crate) struct Site {
    pub(crate) upstream: Upstream,
    pub(crate) gateway: Gateway,
    /// A request that this route serves.
    pub(crate) good: Request,
    exchanges: Cell<usize>,
}

impl Site {
    /// The default route: modern and the two last legacy versions.
    pub(crate) fn new() -> Site {
        Site::with(|policy| policy)
    }

    /// A route that accepts these versions.
    pub(crate) fn serving(versions: &[&str]) -> Site {
        let mut site = Site::with(|policy| policy.versions(versions));
        if !versions.contains(&MODERN) {
            site.good = Request::legacy_call("good");
        }
        site
    }

    /// A policy with something changed.
    pub(crate) fn with(shape: impl FnOnce(Policy) -> Policy) -> Site {
        Site::before(Upstream::start(), shape)
    }

    /// The same before an upstream of the test's own.
    pub(crate) fn before(upstream: Upstream, shape: impl FnOnce(Policy) -> Policy) -> Site {
        let gateway = Gateway::start(&shape(Policy::new(&upstream)));
        Site {
            upstream,
            gateway,
            good: Request::call("good"),
            exchanges: Cell::new(0),
        }
    }

    /// The request is refused, nothing reaches the upstream, the log says so once, and a good
    /// call on the same connection works.
    pub(crate) fn refuses(&self, what: &str, request: &Request, refusal: &Refusal) -> Response {
        let before = self.upstream.request_count();
        let mut client = self.gateway.connect();
        let answer = client.exchange(request);
        refusal.check(what, &answer);
        assert_eq!(self.upstream.request_count(), before, "{what}: forwarded");
        self.works(what, &mut client);
        let records = self.records(2);
        assert_eq!(records[0]["status"], refusal.status, "{what}: {records:?}");
        let verdict = records[0]["verdict"].as_str().unwrap_or_default();
        assert!(verdict.starts_with("refused:"), "{what}: {records:?}");
        answer
    }

    /// The request reaches the upstream, once, with the bytes of its body, and is answered by the
    /// upstream. Gives back what the upstream received.
    pub(crate) fn forwards(&self, what: &str, request: &Request) -> Received {
        let before = self.upstream.request_count();
        let answer = self.gateway.ask(request);
        assert!(answer.status < 300, "{what}: {answer:?}");
        assert_eq!(self.upstream.request_count(), before + 1, "{what}");
        let received = self.upstream.last();
        assert!(received.complete, "{what}: cut short");
        assert_eq!(
            String::from_utf8_lossy(&received.body),
            String::from_utf8_lossy(&request.body),
            "{what}"
        );
        let records = self.records(1);
        assert_eq!(records[0]["verdict"], "forwarded", "{what}: {records:?}");
        received
    }

    /// A good call on this connection runs its tool once.
    pub(crate) fn works(&self, what: &str, client: &mut Client) {
        let before = self.upstream.runs("good");
        let answer = client.exchange(&self.good);
        assert_eq!(answer.status, 200, "afterwards, {what}: {answer:?}");
        assert_eq!(self.upstream.runs("good"), before + 1, "afterwards, {what}");
    }

    /// The last access record that was taken; the test fails if none was.
    pub(crate) fn last_record(&self) -> Value {
        self.gateway.records()[self.exchanges.get() - 1].clone()
    }

    /// The access records of the exchanges since the last call, exactly so many.
    pub(crate) fn records(&self, count: usize) -> Vec<Value> {
        let before = self.exchanges.get();
        let records = self.gateway.wait_for_records(before + count);
        assert_eq!(records.len(), before + count, "{records:#?}");
        self.exchanges.set(records.len());
        records[before..].to_vec()
    }
}

/// A legacy tool call with this session and without a version header.
pub(crate) fn in_session(session: &str) -> Request {
    Request::legacy("tools/call", json!({"name": "echo", "arguments": {}}))
        .without("MCP-Protocol-Version")
        .header("Mcp-Session-Id", session)
}
