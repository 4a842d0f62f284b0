//! What real clients and servers say to each other goes through unharmed: every entry of
//! `exchanges.json`, which `exchanges.md` describes, with the upstream playing the server.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};

use serde::Deserialize;
use serde_json::Value;

use crate::harness::wire::{BodyReader, Head, PATIENCE};
use crate::harness::{
    Client, HEADERLESS, MODERN, Play, Received, Request, Response, Site, Upstream, raw_member,
};

#[derive(Deserialize)]
struct Entry {
    name: String,
    request: Asked,
    response: Answered,
    expect: Expected,
}

#[derive(Deserialize)]
struct Asked {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

#[derive(Deserialize)]
struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    body_chunks: Vec<String>,
    ends: Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Ends {
    #[serde(rename = "complete")]
    Complete,
    #[serde(rename = "client hangs up")]
    ClientHangsUp,
    #[serde(rename = "server, once the session is deleted")]
    WithItsSession,
}

#[derive(Deserialize)]
struct Expected {
    era: Option<String>,
    version: Option<String>,
    forwarded: bool,
    upstream: Vec<(String, String)>,
}

fn entries() -> Vec<Entry> {
    serde_json::from_str(include_str!("exchanges.json")).expect("exchanges.json as documented")
}

impl Entry {
    fn request(&self, host: &str) -> Request {
        let mut request = Request::new(&self.request.method, &self.request.path);
        request.lines.clear();
        for (name, value) in &self.request.headers {
            let value = match name.eq_ignore_ascii_case("host") {
                true => host,
                false => value,
            };
            request = request.line(name, value);
        }
        request.body(self.request.body.clone().unwrap_or_default())
    }

    /// The method of the message, empty where there is none.
    fn method(&self) -> String {
        let body = self.request.body.as_deref().unwrap_or_default();
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        message["method"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the gateway must have read the answer before it passes any of it on.
    fn is_read(&self) -> bool {
        ["server/discover", "initialize"].contains(&self.method().as_str())
    }

    fn session(&self) -> Option<&str> {
        line(&self.request.headers, "mcp-session-id")
    }

    fn is_chunked(&self) -> bool {
        line(&self.response.headers, "transfer-encoding") == Some("chunked")
    }

    /// The head of the answer as the server sends it.
    fn head(&self) -> Play {
        let mut head = format!("HTTP/1.1 {} Told\r\n", self.response.status);
        for (name, value) in &self.response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Play::Send(format!("{head}\r\n").into_bytes())
    }

    fn piece(&self, chunk: &str) -> Play {
        match self.is_chunked() {
            true => Play::chunk(chunk),
            false => Play::Send(chunk.as_bytes().to_vec()),
        }
    }

    fn end(&self) -> Play {
        match self.is_chunked() {
            true => Play::end(),
            false => Play::Last(Vec::new()),
        }
    }

    /// The body that the client of a route with these versions must get.
    fn body(&self, served: &[&str]) -> String {
        let body = self.response.body_chunks.concat();
        if self.method() != "server/discover" {
            return body;
        }
        let result = raw_member(body.as_bytes(), "result").expect("a result");
        let list = raw_member(result.as_bytes(), "supportedVersions").expect("a list");
        let offered: Vec<String> = serde_json::from_str(&list).expect("a list of versions");
        let listed: Vec<&str> = served
            .iter()
            .copied()
            .filter(|version| *version != MODERN || offered.contains(&MODERN.to_owned()))
            .collect();
        body.replacen(&list, &serde_json::to_string(&listed).expect("a list"), 1)
    }
}

fn line<'a>(lines: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = lines
        .iter()
        .find(|(have, _)| have.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// The lines but for those with a name that `leaves_out` says, sorted, with names in lower case.
fn sorted<'a>(
    lines: impl Iterator<Item = (&'a str, String)>,
    leaves_out: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let mut kept: Vec<_> = lines
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| !leaves_out(name))
        .collect();
    kept.sort();
    kept
}

fn recorded(lines: &[(String, String)]) -> impl Iterator<Item = (&str, String)> {
    lines
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
}

fn came(head: &Head) -> impl Iterator<Item = (&str, String)> {
    head.lines.iter().map(|line| {
        let value = String::from_utf8_lossy(&line.value).into_owned();
        (line.name.as_str(), value)
    })
}

/// Lines that belong to one leg: of the connection, or about how the body is framed on it.
fn is_of_one_leg(name: &str) -> bool {
    [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "transfer-encoding",
        "content-length",
    ]
    .contains(&name)
}

fn is_routing(name: &str) -> bool {
    name.starts_with("mcp-") || name == "last-event-id"
}

/// A route that serves these versions, before a server that the test plays.
struct Stage {
    site: Site,
    answers: Receiver<Sender<Play>>,
    served: Vec<String>,
    /// The version of each session that was opened through the gateway.
    sessions: BTreeMap<String, String>,
}

impl Stage {
    fn serving(versions: &[&str]) -> Stage {
        let (upstream, answers) = Upstream::staged();
        Stage {
            site: Site::before(upstream, |policy| policy.versions(versions)),
            answers,
            served: versions.iter().map(|&version| version.to_owned()).collect(),
            sessions: BTreeMap::new(),
        }
    }

    /// The version that the gateway knows to be in force: what the exchange itself says, else
    /// that of its session.
    fn version(&self, entry: &Entry) -> Option<String> {
        let session = entry.session().and_then(|id| self.sessions.get(id));
        entry.expect.version.as_ref().or(session).cloned()
    }

    /// Plays one exchange and judges all that is to be seen of it.
    fn replay(&mut self, entry: &Entry) {
        let name = &entry.name;
        let version = self.version(entry);
        let before = self.site.upstream.request_count();
        let mut client = self.site.gateway.connect();
        client.send(&entry.request(&self.site.gateway.address.to_string()));
        if entry.expect.forwarded {
            self.site.upstream.wait_for_requests(before + 1);
            let answer = self.play(entry, client);
            check_received(entry, &self.site);
            check_answer(entry, &self.served(), &answer);
        } else {
            let answer = client.read();
            assert_eq!(answer.status, 404, "{name}: {answer:?}");
            assert!(!client.is_closed(), "{name}");
        }
        let forwarded = usize::from(entry.expect.forwarded);
        let count = self.site.upstream.request_count();
        assert_eq!(count, before + forwarded, "{name}");
        self.check_record(entry, version.as_deref());
        self.remember(entry);
    }

    fn served(&self) -> Vec<&str> {
        self.served.iter().map(String::as_str).collect()
    }

    /// Plays the server's answer, piece by piece, and reads it as it arrives.
    fn play(&self, entry: &Entry, mut client: Client) -> Response {
        let name = &entry.name;
        let plays = self
            .answers
            .recv_timeout(PATIENCE)
            .expect("the beginning of an answer");
        let play = |step| plays.send(step).expect("an upstream at work");
        let connection = self.site.upstream.last().connection;
        play(entry.head());
        let mut body = Vec::new();
        let (head, mut reader) = match entry.is_read() {
            true => {
                let chunks = &entry.response.body_chunks;
                chunks.iter().for_each(|chunk| play(entry.piece(chunk)));
                play(entry.end());
                client.read_head()
            }
            // Nothing but the head was sent yet, so the client has it before the first event.
            false => {
                let (head, mut reader) = client.read_head();
                for chunk in &entry.response.body_chunks {
                    play(entry.piece(chunk));
                    body.extend(client.read_until(&mut reader, chunk.as_bytes()));
                }
                (head, reader)
            }
        };
        if entry.response.ends == Ends::ClientHangsUp {
            drop(client);
            self.site.upstream.wait("the end of the request", |log| {
                log.ended(connection).is_some()
            });
        } else {
            if !entry.is_read() {
                play(entry.end());
            }
            body.extend(rest(name, &mut client, &mut reader));
            assert!(!client.is_closed(), "{name}: the connection is spent");
        }
        Response {
            status: head.status(),
            framing: head.response_framing("POST").expect("one framing"),
            head,
            body,
            interim: Vec::new(),
        }
    }

    fn check_record(&self, entry: &Entry, version: Option<&str>) {
        let record = &self.site.records(1)[0];
        let name = &entry.name;
        let said = |key: &str| record[key].as_str().map(str::to_owned);
        assert_eq!(said("era"), entry.expect.era, "{name}: {record}");
        assert_eq!(said("version").as_deref(), version, "{name}: {record}");
        let verdict = said("verdict").unwrap_or_default();
        match entry.expect.forwarded {
            true => assert_eq!(verdict, "forwarded", "{name}: {record}"),
            false => assert!(verdict.starts_with("refused:"), "{name}: {record}"),
        }
        let end = match entry.response.ends {
            Ends::ClientHangsUp => "client_gone",
            Ends::Complete | Ends::WithItsSession => "complete",
        };
        assert_eq!(record["end"], end, "{name}: {record}");
    }

    /// Keeps what the exchange did to its session.
    fn remember(&mut self, entry: &Entry) {
        let opened = line(&entry.response.headers, "mcp-session-id");
        if let (Some(id), "initialize") = (opened, entry.method().as_str()) {
            let version = entry.expect.version.clone().expect("a version");
            self.sessions.insert(id.to_owned(), version);
        }
        if let (Some(id), "DELETE") = (entry.session(), entry.request.method.as_str()) {
            self.sessions.remove(id);
        }
    }
}

/// What is left of a body, which must come to its proper end.
fn rest(name: &str, client: &mut Client, reader: &mut BodyReader) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        match reader.next(&mut client.wire) {
            Ok(Some(part)) => body.extend(part),
            Ok(None) => return body,
            Err(fault) => panic!("{name}: {fault:?}"),
        }
    }
}

/// The body byte for byte, the routing lines as expected, every other line of the client's.
fn check_received(entry: &Entry, site: &Site) {
    let received: Received = site.upstream.last();
    let (name, head) = (&entry.name, &received.head);
    assert_eq!(received.method, entry.request.method, "{name}");
    assert_eq!(received.target, "/mcp", "{name}");
    assert!(received.complete, "{name}");
    let sent = entry.request.body.clone().unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&received.body), sent, "{name}");
    if !sent.is_empty() {
        let length = head.value("content-length");
        assert_eq!(length, Some(sent.len().to_string()), "{name}");
    }
    let routing = sorted(came(head), |line| !is_routing(line));
    let expected = sorted(recorded(&entry.expect.upstream), |_| false);
    assert_eq!(routing, expected, "{name}");
    assert_eq!(head.values("host"), [site.upstream.address.to_string()]);
    // An answer that must be read is asked for as it is.
    assert_eq!(head.values("accept-encoding"), ["identity"], "{name}");
    // Where it came from is told anew.
    assert_eq!(head.values("x-forwarded-for"), ["127.0.0.1"], "{name}");
    let told = ["host", "accept-encoding", "x-real-ip"];
    let changed = |line: &str| {
        is_routing(line)
            || is_of_one_leg(line)
            || line.starts_with("x-forwarded-")
            || told.contains(&line)
    };
    assert_eq!(
        sorted(came(head), changed),
        sorted(recorded(&entry.request.headers), changed),
        "{name}"
    );
}

/// Status, end-to-end lines and body as the server sent them.
fn check_answer(entry: &Entry, served: &[&str], answer: &Response) {
    let name = &entry.name;
    assert_eq!(answer.status, entry.response.status, "{name}");
    assert_eq!(answer.text(), entry.body(served), "{name}");
    if let Some(length) = answer.head.value("content-length") {
        assert_eq!(length, answer.body.len().to_string(), "{name}");
    }
    // A date is supplied where the server sends none.
    let has_date = line(&entry.response.headers, "date").is_some();
    let left_out = |line: &str| is_of_one_leg(line) || (line == "date" && !has_date);
    // No page asks, so nothing is said to one.
    let gone = |line: &str| left_out(line) || line.starts_with("access-control-");
    let mut expected = sorted(recorded(&entry.response.headers), gone);
    let kind = line(&entry.response.headers, "content-type").unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        expected.retain(|(name, _)| name != "x-accel-buffering");
        expected.push(("x-accel-buffering".to_owned(), "no".to_owned()));
        expected.sort();
    }
    assert_eq!(sorted(came(&answer.head), left_out), expected, "{name}");
}

#[test]
fn every_exchange_goes_through_in_its_session() {
    let mut stage = Stage::serving(HEADERLESS);
    let entries = entries();
    assert!(entries.len() > 70, "{} entries", entries.len());
    for entry in &entries {
        stage.replay(entry);
    }
    println!("{} exchanges replayed", entries.len());
}

#[test]
fn every_exchange_goes_through_where_its_session_is_unknown() {
    let mut stage = Stage::serving(HEADERLESS);
    for entry in entries().iter().filter(|entry| entry.session().is_some()) {
        stage.replay(entry);
    }
    assert!(stage.sessions.is_empty(), "a session that was opened");
}

#[test]
fn every_exchange_goes_through_a_route_that_serves_its_version_alone() {
    let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
    // The version of a session holds for what comes after its handshake.
    let mut sessions = BTreeMap::new();
    let mut alone = 0;
    for entry in entries() {
        let opened = line(&entry.response.headers, "mcp-session-id");
        if let (Some(id), Some(version), "initialize") =
            (opened, &entry.expect.version, entry.method().as_str())
        {
            sessions.insert(id.to_owned(), version.clone());
        }
        let session = entry.session().and_then(|id| sessions.get(id));
        let Some(version) = entry.expect.version.as_ref().or(session) else {
            println!("no one version: {}", entry.name);
            continue;
        };
        let stage = stages
            .entry(version.clone())
            .or_insert_with(|| Stage::serving(&[version]));
        stage.replay(&entry);
        alone += 1;
    }
    assert!(alone > 65, "{alone} entries");
    assert_eq!(stages.len(), HEADERLESS.len(), "each version has its own");
}
