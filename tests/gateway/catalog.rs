//! What the gateway knows of the tools behind it: where it has that from, what calls are held against
//! it, and which tools it lets nobody see or call.

mod annotations;
mod bounds;
mod cut;
mod learning;
mod params;
mod pins;
mod unlisted;

use crate::harness::{
    Gateway, Policy, Received, Refusal, Reply, Request, Response, Upstream, eventually,
};

/// How long a list may be kept, and by whom.
const PUBLIC: &str = r#""ttlMs":60000,"cacheScope":"public""#;
const PRIVATE: &str = r#""ttlMs":60000,"cacheScope":"private""#;

/// A tool with an argument of each type in a header, one of them below another.
const QUERY: &str = r#"{"name":"query","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "count":{"type":"integer","x-mcp-header":"Count"},
    "dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
    "where":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}},
    "text":{"type":"string"}}}}"#;

/// A server that answers `tools/list` by this script, and everything else as usual.
fn server(list: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Upstream {
    Upstream::with(move |request| match is_list(request) {
        true => list(request),
        false => Reply::usual(request),
    })
}

/// A server with this list, which everybody may be given.
fn listing(tools: &'static str) -> Upstream {
    server(move |request| page(request, tools, PUBLIC))
}

/// The result that answers a request.
fn result(request: &Received, members: &str) -> String {
    let id = request.json()["id"].clone();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{members}}}}}"#)
}

/// A page of these tools, with these further members.
fn page(request: &Received, tools: &str, members: &str) -> Reply {
    Reply::json(
        200,
        result(request, &format!(r#""tools":[{tools}],{members}"#)),
    )
}

/// An error with this status and code.
fn error(request: &Received, status: u16, code: i64) -> Reply {
    let id = request.json()["id"].clone();
    let error = format!(r#"{{"code":{code},"message":"no"}}"#);
    Reply::json(
        status,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
    )
}

/// A gateway that remembers what it learns, before this server.
fn before(upstream: &Upstream) -> Gateway {
    Gateway::start(&Policy::new(upstream).remembering())
}

/// A call of `query` with these raw arguments.
fn call(arguments: &str) -> Request {
    call_of("query", arguments)
}

/// A call with these raw arguments.
fn call_of(tool: &str, arguments: &str) -> Request {
    let arguments = format!("\"arguments\":{arguments}");
    Request::call(tool).edit("\"arguments\":{}", &arguments)
}

/// A call of `query` that agrees with its definition.
fn good() -> Request {
    call(r#"{"region":"eu"}"#).header("Mcp-Param-Region", "eu")
}

fn list() -> Request {
    Request::modern("tools/list", serde_json::json!({}))
}

fn is_list(request: &Received) -> bool {
    request.json()["method"] == "tools/list"
}

/// The requests for lists that have reached the server.
fn lists(upstream: &Upstream) -> Vec<Received> {
    let requests = upstream.log().requests.into_iter();
    requests.filter(is_list).collect()
}

/// The calls that have reached the server, complete or not.
fn calls(upstream: &Upstream) -> Vec<Received> {
    let requests = upstream.log().requests.into_iter();
    let method = |request: &Received| request.head.value("mcp-method");
    requests
        .filter(|request| method(request).as_deref() == Some("tools/call"))
        .collect()
}

/// The call goes on, as it is. Gives what the server received.
#[track_caller]
fn passes(what: &str, gateway: &Gateway, upstream: &Upstream, request: &Request) -> Received {
    let before = calls(upstream).len();
    let answer = gateway.ask(request);
    assert_eq!(answer.status, 200, "{what}: {answer:?}");
    let mut calls = calls(upstream);
    assert_eq!(calls.len(), before + 1, "{what}");
    let received = calls.pop().unwrap();
    assert!(received.complete, "{what}");
    assert!(received.body == request.body, "{what}: {received:?}");
    received
}

/// The call is refused, and no server has ever seen it.
#[track_caller]
fn refused(
    what: &str,
    gateway: &Gateway,
    upstream: &Upstream,
    request: &Request,
    refusal: &Refusal,
) -> Response {
    let before = calls(upstream).len();
    let answer = gateway.ask(request);
    refusal.check(what, &answer);
    assert_eq!(calls(upstream).len(), before, "{what}");
    answer
}

/// What a call is refused with whose header does not agree with its argument.
fn mismatch(header: &str) -> Refusal {
    Refusal::of(400, -32020).names(&[header])
}

/// The lines of the log that contain this text, which are so many. They come a little later than what
/// they tell of.
#[track_caller]
fn told(gateway: &Gateway, text: &str, count: usize) -> Vec<String> {
    let told = || {
        let lines = gateway.lines().into_iter();
        lines
            .filter(|line| line.contains(text))
            .collect::<Vec<String>>()
    };
    eventually(text, || told().len() >= count);
    let told = told();
    assert_eq!(told.len(), count, "{told:#?}");
    told
}
