//! `weirgate pin`: what it asks a server for, what it writes, and what it says of changes.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::harness::{Gateway, LEGACY, MODERN, Policy, Received, Reply, Upstream, run_to_end};

/// How a run of the command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn pin(arguments: &[&str]) -> Ended {
    let output = run_to_end(&[&["pin"], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn answered(request: &Received, result: &Value) -> Reply {
    let id = &request.json()["id"];
    Reply::json(
        200,
        json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
    )
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

/// A server of the current version whose list is what the test says it is, one tool per page.
fn listing(tools: &Arc<Mutex<Vec<Value>>>) -> Upstream {
    let tools = Arc::clone(tools);
    Upstream::with(move |request| {
        let tools = tools.lock().unwrap();
        let cursor = &request.json()["params"]["cursor"];
        let at: usize = cursor.as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let mut result = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public"});
        result["tools"] = json!(tools.get(at..=at).unwrap_or_default());
        if at + 1 < tools.len() {
            result["nextCursor"] = json!((at + 1).to_string());
        }
        answered(request, &result)
    })
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The only names in the directory of a lock file.
fn names_beside(file: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(file.parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_list_of_many_pages_is_written_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("up.lock.json");
    let out = file.to_str().unwrap();
    let tools = Arc::new(Mutex::new(vec![
        tool("search", "Finds"),
        tool("add", "Adds"),
        tool("drop", "Drops"),
    ]));
    let upstream = listing(&tools);
    let url = upstream.url();

    let first = pin(&["--upstream", &url, "--out", out]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_eq!(first.out, format!("{out}: 3 tools, pinned\n"));
    let written = lines(&file);
    assert_eq!(written[2], format!("  \"upstream\": \"{url}\","));
    let names: Vec<&str> = written[4..7]
        .iter()
        .map(|line| line.split('"').nth(1).unwrap())
        .collect();
    assert_eq!(names, ["add", "drop", "search"]);
    for request in upstream.log().requests {
        let json = request.json();
        assert_eq!(json["method"], "tools/list");
        let version = &json["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(version, MODERN);
        for (name, value) in [
            ("mcp-method", "tools/list"),
            ("mcp-protocol-version", MODERN),
        ] {
            assert_eq!(request.head.values(name), [value]);
        }
    }
    assert_eq!(upstream.request_count(), 3);

    let again = pin(&["--upstream", &url, "--out", out, "--check"]);
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""));
    assert_eq!(again.out, format!("{out}: 3 tools, as pinned before\n"));

    *tools.lock().unwrap() = vec![
        tool("add", "Adds, and mails"),
        tool("search", "Finds"),
        tool("mul", ""),
    ];
    let check = pin(&["--upstream", &url, "--out", out, "--check"]);
    let difference = "  changed  add\n  added    mul\n  vanished drop\n";
    let expected = format!("{out}: 3 tools, not as pinned before\n{difference}");
    assert_eq!((check.code, &check.out), (Some(1), &expected));
    assert_eq!(lines(&file), written, "--check writes nothing");

    let renewed = pin(&["--upstream", &url, "--out", out]);
    assert_eq!((renewed.code, &renewed.out), (Some(0), &expected));
    let now = lines(&file);
    assert_ne!(now[4], written[4]);
    assert_eq!(now[6], written[6], "what did not change stays as it was");
    assert_eq!(names_beside(&file), ["up.lock.json"]);
    let check = pin(&["--upstream", &url, "--out", out, "--check"]);
    assert_eq!(check.code, Some(0));
}

#[test]
fn the_same_definition_written_otherwise_is_the_same() {
    let of = |tool: &'static str| {
        let upstream = Upstream::with(move |request| {
            let id = &request.json()["id"];
            let body =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{tool}]}}}}");
            Reply::json(200, body)
        });
        let ended = pin(&["--upstream", &upstream.url()]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out.lines().nth(4).unwrap().to_owned()
    };
    let plain = of(r#"{"name":"t","description":"A/B","inputSchema":{"maximum":10}}"#);
    let other =
        of(r#"{ "inputSchema": {"maximum": 1e1}, "description": "\u0041\/B", "name": "t" }"#);
    assert_eq!(plain, other);
    let changed = of(r#"{"name":"t","description":"A/B","inputSchema":{"maximum":11}}"#);
    assert_ne!(plain, changed);
}

#[test]
fn a_list_may_come_as_events() {
    let upstream = Upstream::with(|request| {
        let id = &request.json()["id"];
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
        let result = json!({"resultType": "complete", "tools": [tool("add", "Adds")]});
        let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
        Reply::sse(&format!(
            "data: {note}\n\n: x\n\nevent: message\ndata: {response}\n\n"
        ))
    });
    let ended = pin(&["--upstream", &upstream.url()]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let lock: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(lock["tools"]["add"].is_string(), "{lock}");
}

#[test]
fn a_server_of_an_older_version_is_asked_in_its_way() {
    let upstream = Upstream::with(|request| {
        if request.method == "DELETE" {
            return Reply::with_lines(200, "", "");
        }
        let json = request.json();
        let in_session = request.head.values("mcp-session-id") == ["session-1"];
        match json["method"].as_str() {
            Some("tools/list") if in_session => {
                answered(request, &json!({"tools": [tool("add", "Adds")]}))
            }
            Some("initialize") => Reply::usual(request),
            Some("notifications/initialized") if in_session => Reply::with_lines(202, "", ""),
            _ => Reply::json(
                400,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#,
            ),
        }
    });
    let ended = pin(&["--upstream", &upstream.url()]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.contains("\"add\": \"sha256:"), "{}", ended.out);
    let requests = upstream.log().requests;
    let asked: Vec<String> = requests
        .iter()
        .map(|request| match request.json()["method"].as_str() {
            Some(method) => method.to_owned(),
            None => request.method.clone(),
        })
        .collect();
    let expected = [
        "tools/list",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "DELETE",
    ];
    assert_eq!(asked, expected);
    for request in &requests[2..] {
        assert_eq!(request.head.values("mcp-protocol-version"), [LEGACY]);
        assert_eq!(request.head.values("mcp-session-id"), ["session-1"]);
    }
    assert!(requests[3].json()["params"].get("_meta").is_none());
}

type Script = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

/// The command fails with this cause and hint, and leaves nothing behind.
#[track_caller]
fn assert_unpinned(script: Script, why: &str, hint: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("up.lock.json");
    let upstream = Upstream::with(script);
    let ended = pin(&[
        "--upstream",
        &upstream.url(),
        "--out",
        file.to_str().unwrap(),
    ]);
    assert_eq!(ended.code, Some(70), "{why}: {}", ended.out);
    assert!(ended.err.starts_with(&upstream.url()), "{}", ended.err);
    assert!(ended.err.contains(why), "{why}: {}", ended.err);
    let (_, told) = ended.err.split_once("\n  hint: ").unwrap();
    assert!(told.contains(hint), "{hint}: {told}");
    assert_eq!(names_beside(&file), [""; 0], "{why}");
}

#[test]
fn a_server_that_gives_no_list_is_told_of() {
    let refused = |request: &Received| {
        let id = &request.json()["id"];
        let error = json!({"code": -32601, "message": "no\u{1b}[31m tools"});
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
        Reply::json(200, answer.to_string())
    };
    let scripts: [(Script, &str, &str); 5] = [
        (
            Box::new(|_| Reply::with_lines(401, "WWW-Authenticate: Bearer\r\n", "")),
            "the answer is 401",
            "asks for credentials",
        ),
        (
            Box::new(refused),
            "`tools/list` got the error -32601: no\\u{1b}[31m tools",
            "MCP endpoint",
        ),
        (
            Box::new(|_| Reply::with_lines(200, "Content-Type: text/html\r\n", "<html>")),
            "the answer is no message",
            "MCP endpoint",
        ),
        (
            Box::new(|request| answered(request, &json!({"items": []}))),
            "has no `tools`",
            "MCP endpoint",
        ),
        (
            Box::new(|_| Reply::raw_then_close("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")),
            "broke off",
            "whether the server runs",
        ),
    ];
    for (script, why, hint) in scripts {
        assert_unpinned(script, why, hint);
    }
    let nobody = pin(&["--upstream", "http://127.0.0.1:1/mcp"]);
    assert_eq!(nobody.code, Some(70));
    assert!(nobody.err.contains("cannot be asked"), "{}", nobody.err);
}

#[test]
fn a_list_that_cannot_be_pinned_is_told_of() {
    let list = |tools: &'static str| -> Script {
        Box::new(move |request| {
            let id = &request.json()["id"];
            let result = format!("{{\"tools\":{tools}}}");
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
            Reply::json(200, body)
        })
    };
    for (tools, why) in [
        (
            r#"[{"name":"a"},{"name":"a","description":"x"}]"#,
            "the tool a is listed twice",
        ),
        (r#"[{"description":"x"}]"#, "a tool has no name"),
        (r#"["a"]"#, "a tool has no name"),
        (
            r#"[{"name":"a","inputSchema":{"x":1,"x":2}}]"#,
            "the definition of a cannot be pinned: an object has a key twice",
        ),
    ] {
        assert_unpinned(list(tools), why, "");
    }
    let pages = AtomicUsize::new(0);
    let endless = move |request: &Received| {
        let number = pages.fetch_add(1, Ordering::SeqCst);
        let tools = [tool(&format!("t{number}"), "")];
        answered(request, &json!({"tools": tools, "nextCursor": "again"}))
    };
    assert_unpinned(Box::new(endless), "the same cursor came twice", "");
}

#[test]
fn what_is_no_lock_file_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("notes.json");
    let out = file.to_str().unwrap();
    let upstream = Upstream::start();
    for text in ["{\"mine\": true}\n", "", "{\"format\": 2, \"tools\": {}}"] {
        std::fs::write(&file, text).unwrap();
        let ended = pin(&["--upstream", &upstream.url(), "--out", out]);
        assert_eq!(ended.code, Some(64));
        assert!(ended.err.contains("is not a lock file"), "{}", ended.err);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    std::fs::remove_file(&file).unwrap();
    let absent = pin(&["--upstream", &upstream.url(), "--out", out, "--check"]);
    assert_eq!(absent.code, Some(64));
    assert!(absent.err.contains("cannot be read"), "{}", absent.err);
    assert_eq!(upstream.request_count(), 0, "nobody was asked in vain");
}

#[test]
fn a_route_names_its_server_and_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let tools = Arc::new(Mutex::new(vec![tool("add", "Adds")]));
    let upstream = listing(&tools);
    let policy = Policy::new(&upstream).set("/routes/0/pin", json!({"file": "locks/up.json"}));
    let path = directory.path().join("p.yaml");
    std::fs::write(&path, policy.text()).unwrap();
    std::fs::create_dir(directory.path().join("locks")).unwrap();
    let path = path.to_str().unwrap();

    let run = run_to_end(&["run", "--policy", path]);
    assert_eq!(run.status.code(), Some(64), "no lock, no gateway");
    let ended = pin(&[path, "--route", "main"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let lock = lines(&directory.path().join("locks/up.json"));
    assert_eq!(lock[2], "  \"upstream\": \"up\",");
    assert_eq!(run_to_end(&["check", path]).status.code(), Some(0));
    assert_eq!(
        pin(&[path, "--check"]).code,
        Some(0),
        "there is one route only"
    );

    let unknown = pin(&[path, "--route", "other"]);
    assert_eq!(unknown.code, Some(64));
    assert!(unknown.err.contains("takes one of main"), "{}", unknown.err);
    let second = json!({"name": "second", "path": "/second", "upstream": "up"});
    let first = json!({"name": "main", "path": "/mcp", "upstream": "up"});
    let two = Policy::new(&upstream).set("/routes", json!([first, second]));
    std::fs::write(path, two.text()).unwrap();
    let several = pin(&[path]);
    assert_eq!(several.code, Some(64));
    assert!(several.err.contains("main, second"), "{}", several.err);
    let nowhere = pin(&[path, "--route", "main", "--check"]);
    assert_eq!(nowhere.code, Some(64));
    assert!(nowhere.err.contains("--out FILE"), "{}", nowhere.err);
}

#[test]
fn what_was_not_understood_is_an_error_of_usage() {
    for arguments in [
        &[][..],
        &["--route", "main"],
        &[
            "policies/sidecar.yaml",
            "--upstream",
            "http://127.0.0.1:1/mcp",
        ],
        &["--upstream", "http://127.0.0.1:1/mcp", "--route", "main"],
        &["--upstream", "127.0.0.1:1"],
        &["policies/absent.yaml", "--route", "main"],
    ] {
        let ended = pin(arguments);
        assert_eq!(ended.code, Some(64), "{arguments:?}: {}", ended.err);
        assert_eq!(ended.out, "");
    }
}

#[test]
fn through_the_gateway_the_tools_are_the_same() {
    let tools = Arc::new(Mutex::new(vec![tool("add", "Adds"), tool("mul", "")]));
    let upstream = listing(&tools);
    let gateway = Gateway::before(&upstream);
    let direct = pin(&["--upstream", &upstream.url()]);
    let through = pin(&["--upstream", &format!("http://{}/mcp", gateway.address)]);
    assert_eq!(
        (direct.code, through.code),
        (Some(0), Some(0)),
        "{}",
        through.err
    );
    let tools = |ended: &Ended| {
        ended
            .out
            .lines()
            .skip(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(tools(&direct), tools(&through));
}
