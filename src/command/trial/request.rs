//! From what people say of a request to the request that a client would send.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use serde_json::{Map, Value, json};

use super::Failure;
use crate::policy::case::Given;
use crate::policy::plan::{Hosts, Plan, Route};
use crate::protocol::frame::{self, Bounds};
use crate::protocol::header;
use crate::protocol::method;
use crate::protocol::param::Annotations;
use crate::protocol::version::Version;

/// The request.
///
/// # Errors
/// What contradicts the plan or HTTP.
pub(super) fn made(
    given: &Given,
    plan: &Plan,
    tools: &[Value],
) -> Result<Request<Full<Bytes>>, Failure> {
    let route = route(given, plan)?;
    let version = version(given, route)?;
    let body: Bytes = match &given.body {
        Some(body) => body.clone().into(),
        None => message(given, &version).to_string().into(),
    };
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_str(&host(given, route))?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let either = "application/json, text/event-stream";
    headers.insert(ACCEPT, HeaderValue::from_static(either));
    headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_str(&version)?);
    if is_modern(&version) {
        headers.insert(header::METHOD, HeaderValue::from_str(&given.method)?);
        if let (Some(name), Some(_)) = (&given.name, method::name_field(&given.method)) {
            headers.insert(header::NAME, header::encode(name));
        }
        headers.extend(params(given, &body, tools)?);
    }
    for (name, value) in &given.headers {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        match value {
            Some(value) => drop(headers.insert(name, HeaderValue::from_str(value)?)),
            None => drop(headers.remove(name)),
        }
    }
    let path = given.path.as_deref().or(route.map(|route| &*route.path));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.unwrap_or(Route::PATH).parse()?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// The route that is meant, as far as that is said.
fn route<'p>(given: &Given, plan: &'p Plan) -> Result<Option<&'p Route>, Failure> {
    let routes = || plan.routes.iter().map(|route| &**route);
    match (&given.route, &given.path) {
        (Some(name), _) => match routes().find(|route| route.name == *name) {
            Some(route) => Ok(Some(route)),
            None => Err(format!("the policy has no route `{name}`").into()),
        },
        (None, Some(path)) => Ok(routes().find(|route| route.path == *path)),
        (None, None) => match plan.routes.as_slice() {
            [route] => Ok(Some(route)),
            _ => Err("the policy has more than one route: name the `route` or its `path`".into()),
        },
    }
}

fn version(given: &Given, route: Option<&Route>) -> Result<String, Failure> {
    if let Some(version) = &given.version {
        return Ok(version.clone());
    }
    let versions = route.map(|route| route.protocol.versions);
    let newest = versions.and_then(|versions| versions.iter().max_by_key(|v| v.as_str()));
    Ok(newest.unwrap_or(Version::V2026_07_28).as_str().to_owned())
}

/// Whether a client of this version sends the headers and keys of the modern era.
fn is_modern(version: &str) -> bool {
    Version::parse(version).is_none_or(Version::is_modern)
}

/// A host that the route answers to.
fn host(given: &Given, route: Option<&Route>) -> String {
    match (&given.host, route.map(|route| &route.hosts)) {
        (Some(host), _) => host.clone(),
        (None, Some(Hosts::Named(names))) => match names.first() {
            Some(name) if name.contains(':') => format!("[{name}]"),
            Some(name) => name.clone(),
            None => "localhost".to_owned(),
        },
        (None, _) => "localhost".to_owned(),
    }
}

/// The message that a client of this version would send.
fn message(given: &Given, version: &str) -> Value {
    let mut params = match &given.params {
        Some(Value::Object(params)) => params.clone(),
        _ => Map::new(),
    };
    if let (Some(name), Some(field)) = (&given.name, method::name_field(&given.method)) {
        params.insert(field.key().to_owned(), json!(name));
    }
    if let Some(arguments) = &given.arguments {
        params.insert("arguments".to_owned(), arguments.clone());
    }
    if is_modern(version) && !params.contains_key("_meta") {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params.insert("_meta".to_owned(), meta);
    }
    let mut message = json!({ "jsonrpc": "2.0", "method": given.method, "params": params });
    if !given.method.starts_with("notifications/") {
        message["id"] = json!(1);
    }
    message
}

/// The headers of the arguments that the tool asks for.
fn params(given: &Given, body: &Bytes, tools: &[Value]) -> Result<HeaderMap, Failure> {
    let named = |tool: &&Value| tool["name"].as_str() == given.name.as_deref();
    let tool = tools.iter().find(named);
    let (Some(tool), method::CALL) = (tool, &*given.method) else {
        return Ok(HeaderMap::new());
    };
    // A tool whose annotations are not valid has none, and neither has a body that is no message.
    let Ok(annotations) = Annotations::read(&tool["inputSchema"].to_string()) else {
        return Ok(HeaderMap::new());
    };
    let bounds = Bounds::default();
    let Ok(frame) = frame::scan(body.clone(), &bounds, annotations.paths()) else {
        return Ok(HeaderMap::new());
    };
    let lines = annotations.agree(&frame, &HeaderMap::new(), bounds.name_bytes_max, true);
    Ok(lines.map_or_else(|_| HeaderMap::new(), HeaderMap::from_iter))
}
