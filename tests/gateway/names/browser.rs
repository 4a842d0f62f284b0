//! A real browser: a page of one origin that calls the gateway on another.
//!
//! The page's own server keeps what the page reports, so that a test waits for that and for nothing
//! else. The browser is Debian's; `tests/run` installs it.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Play, Reply, Site, Upstream, eventually};

const BROWSER: &str = "chromium";
/// A browser starts many processes, and all tests run at once.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser that shows one page; it is ended when this is dropped.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    fn show(url: &str) -> Browser {
        let profile = TempDir::new().expect("a temporary directory");
        let child = Command::new(BROWSER)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("this test needs a browser: apt-get install {BROWSER} ({error})")
            });
        Browser {
            child,
            _profile: profile,
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server of the page, which takes its report.
fn page() -> Upstream {
    let html = format!("<!doctype html><meta charset=utf-8><script type=module>{CALLS}</script>");
    Upstream::with(move |request| match request.target.as_str() {
        "/report" => Reply::with_lines(204, "", ""),
        target if target.starts_with("/?") => {
            Reply::with_lines(200, "Content-Type: text/html\r\n", &html)
        }
        _ => Reply::with_lines(404, "", ""),
    })
}

/// What the page reports once it has called this gateway.
fn report(page: &Upstream, gateway: SocketAddr) -> Value {
    let url = format!("http://localhost:{}/?{gateway}", page.address.port());
    // One browser at a time is work enough for a machine that runs other tests beside it.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _browser = Browser::show(&url);
    let begun = Instant::now();
    loop {
        let log = page.log();
        let mut requests = log.requests.iter();
        let report = requests.find(|request| request.target == "/report" && request.complete);
        if let Some(report) = report {
            return report.json();
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "no report of the page: {log:#?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

static TURN: Mutex<()> = Mutex::new(());

/// One call as a modern client in a page makes it, what it reads of the answer, and a refusal.
const CALLS: &str = r#"
const gateway = "http://" + location.search.slice(1);
const url = gateway + "/mcp";
const call = (id, name, headers = {}) => fetch(url, {
  method: "POST",
  headers: {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name,
    "Authorization": "Bearer token", ...headers },
  body: JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {},
    _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
             "io.modelcontextprotocol/clientCapabilities": {} } } }) });
const tried = async (what) => { try { return await what(); } catch (error) { return String(error); } };
const out = {};
out.call = await tried(async () => {
  const answer = await call(1, "echo", { "Mcp-Param-Region": "eu", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
  return { status: answer.status, retry: answer.headers.get("retry-after"), session: answer.headers.get("mcp-session-id"),
           challenge: answer.headers.get("www-authenticate"), hidden: answer.headers.get("x-hidden"), id: (await answer.json()).id };
});
out.refused = await tried(async () => {
  const answer = await call(2, "echo", { "Mcp-Name": "other" });
  return { status: answer.status, code: (await answer.json()).error.code };
});
out.unlisted = await tried(async () => (await call(3, "echo", { "X-Unlisted": "1" })).status);
out.get = await tried(async () => (await fetch(url, { headers: { "MCP-Protocol-Version": "2025-11-25", "Last-Event-ID": "7" } })).status);
out.health = await tried(async () => (await (await fetch(gateway + "/health")).text()));
out.stream = await tried(async () => {
  const answer = await call(4, "stream");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let seen = "";
  while (!seen.includes("one")) seen += (await reader.read()).value;
  await fetch(gateway + "/health?seen=one");
  while (!seen.includes("two")) seen += (await reader.read()).value;
  return { type: answer.headers.get("content-type"), end: (await reader.read()).done, seen };
});
await fetch("/report", { method: "POST", body: JSON.stringify(out) });
"#;

/// The server behind the gateway: its stream goes on once the page has told that it read the first
/// event.
fn server() -> Upstream {
    let (go_on, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let go_on = std::sync::Mutex::new(go_on);
    Upstream::with(move |request| {
        if request.target == "/health?seen=one" {
            let go_on = go_on.lock().expect("no panic in a script");
            for play in [Play::chunk("data: two\n\n"), Play::end()] {
                let _ = go_on.send(play);
            }
        }
        if request.target.starts_with("/health") {
            return Reply::with_lines(200, "Content-Type: text/plain\r\n", "fine");
        }
        if request.json()["params"]["name"] == "stream" {
            let go_on = go_on.lock().expect("no panic in a script");
            for play in [Play::sse_head(), Play::chunk("data: one\n\n")] {
                let _ = go_on.send(play);
            }
            return Reply::follow(std::sync::Arc::clone(&gate));
        }
        match request.json()["method"] == "tools/call" {
            true => Reply::with_lines(
                200,
                "Content-Type: application/json\r\nRetry-After: 7\r\nMcp-Session-Id: s\r\nX-Hidden: 1\r\n\
                 WWW-Authenticate: Bearer\r\nAccess-Control-Allow-Origin: http://wrong.example\r\n",
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            ),
            false => Reply::usual(request),
        }
    })
}

fn before(origins: Value) -> Site {
    Site::before(server(), |policy| {
        policy.set(
            "/routes",
            json!([
                {"name": "main", "path": "/mcp", "upstream": "up", "origins": origins},
                {"name": "health", "pass": true, "path": "/health", "upstream": "up", "origins": origins},
            ]),
        )
    })
}

#[test]
fn a_page_of_a_listed_origin_calls_and_reads() {
    let page = page();
    let origin = format!("http://localhost:{}", page.address.port());
    let site = before(json!([origin]));
    let report = report(&page, site.gateway.address);
    let call = &report["call"];
    assert_eq!(
        (&call["status"], &call["id"]),
        (&json!(200), &json!(1)),
        "{report:#}"
    );
    assert_eq!(
        (&call["retry"], &call["challenge"]),
        (&json!("7"), &json!("Bearer")),
        "{report:#}"
    );
    assert_eq!(call["hidden"], Value::Null, "{report:#}");
    assert_eq!(
        report["refused"],
        json!({"status": 400, "code": -32020}),
        "{report:#}"
    );
    assert!(
        report["unlisted"]
            .as_str()
            .is_some_and(|why| why.contains("TypeError")),
        "{report:#}"
    );
    assert_eq!(report["get"], 405, "{report:#}");
    assert_eq!(report["health"], "fine", "{report:#}");
    let stream = &report["stream"];
    assert_eq!(
        (&stream["type"], &stream["end"]),
        (&json!("text/event-stream"), &json!(true)),
        "{report:#}"
    );
    let log = site.upstream.log();
    assert_eq!(
        log.runs("echo"),
        1,
        "the refused and the unlisted call never came"
    );
    let call = log
        .requests
        .iter()
        .find(|request| request.json()["id"] == 1)
        .expect("the call");
    assert_eq!(call.head.values("mcp-param-region"), ["eu"]);
    assert_eq!(call.head.values("origin"), [origin]);
    assert!(
        log.requests
            .iter()
            .all(|request| request.method != "OPTIONS"),
        "preflights end here"
    );
}

#[test]
fn a_page_of_another_origin_reaches_nothing() {
    let site = before(json!(["https://app.example.com"]));
    let report = report(&page(), site.gateway.address);
    for what in ["call", "refused", "unlisted", "get", "health", "stream"] {
        let why = report[what].as_str().unwrap_or_default();
        assert!(why.contains("TypeError"), "{what}: {report:#}");
    }
    assert_eq!(site.upstream.request_count(), 0, "{report:#}");
    eventually("each attempt is in the log", || {
        let records = site.gateway.records();
        !records.is_empty()
            && records
                .iter()
                .all(|record| record["verdict"] == "refused:origin")
    });
}
