//! The admin listener: what the gateway remembers, to look at and to purge.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /cache` | the answers in memory, of `route`, `method` and `uri` if the query names them |
//! | `DELETE /cache` | drops the same, and says how many |
//! | `GET /pins` | where tools differ from what was pinned, by route |
//!
//! Nobody is asked who they are. What keeps others away is the address, on loopback unless the policy
//! says otherwise, and against pages in a browser on the same machine the headers: a page sends an
//! `Origin` with whatever it may not do unasked, and one that was led here by its own name (DNS
//! rebinding) sends that name as `Host`.

mod filter;
mod listing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub use filter::Filter;

use super::endpoint::{Bounds, Endpoint};
use crate::net::descriptor::Descriptors;
use crate::observe::Log;
use crate::policy::host::{address, host_of, is_loopback};
use crate::policy::pin::{Difference, OnChange};

/// What the admin listener shows and changes.
pub trait Inspected: Send + Sync + 'static {
    /// The answers in memory that the filter admits, `max` at most.
    fn entries(&self, filter: &Filter, max: usize) -> Entries;
    /// Drops those that the filter admits, and says how many.
    fn purge(&self, filter: &Filter) -> usize;
    /// The routes that hold their tools against a lock file.
    fn pins(&self) -> Vec<Pinned>;
}

/// Some of the answers in memory.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// What was found.
    pub found: Vec<Entry>,
    /// Whether there is more.
    pub truncated: bool,
}

/// An answer in memory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of its route.
    pub route: String,
    /// The name of the upstream that gave it.
    pub upstream: String,
    /// The method that asked for it.
    pub method: &'static str,
    /// The protocol version in which it was asked for.
    pub version: &'static str,
    /// The URI of a resource.
    pub uri: Option<String>,
    /// The cursor of a page behind the first.
    pub cursor: Option<String>,
    /// Who may be given it, in one word.
    pub audience: &'static str,
    /// How long ago it came.
    pub age: Duration,
    /// How long it is still fresh; zero for one that is kept for the case that its server fails.
    pub ttl_left: Duration,
    /// What it takes of the memory.
    pub bytes: usize,
    /// How often it was given.
    pub hits: u64,
}

/// A route that holds its tools against a lock file.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Its name.
    pub route: String,
    /// The lock file.
    pub file: String,
    /// What becomes of a tool that differs.
    pub on_change: OnChange,
    /// Where the upstream differed when it was last listed; none while it was not.
    pub difference: Option<Difference>,
}

/// Serves `inspected` on `listener` for as long as it is polled.
pub async fn serve(
    listener: TcpListener,
    inspected: Arc<dyn Inspected>,
    descriptors: Descriptors,
    log: Log,
) {
    let endpoint = Endpoint {
        name: "admin",
        bounds: Bounds::DEFAULT,
        listener,
        descriptors,
        log,
    };
    endpoint
        .serve(move |request, local| answer(request, local, &*inspected))
        .await;
}

/// The paths that are served, with their methods.
const PATHS: [(&str, &str); 2] = [("/cache", "GET, HEAD, DELETE"), ("/pins", "GET, HEAD")];

fn answer<B>(
    request: &Request<B>,
    local: SocketAddr,
    inspected: &dyn Inspected,
) -> Response<Full<Bytes>> {
    if let Err(why) = admit(request.uri(), request.headers(), local) {
        return refused(StatusCode::FORBIDDEN, why);
    }
    let path = request.uri().path();
    let Some((_, methods)) = PATHS.iter().find(|(served, _)| *served == path) else {
        return refused(StatusCode::NOT_FOUND, "there are /cache and /pins");
    };
    let method = request.method();
    let is_served = methods.split(", ").any(|served| method.as_str() == served);
    if !is_served {
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "no such method here");
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static(methods));
        return response;
    }
    let query = request.uri().query().unwrap_or_default();
    match (path, Filter::read(query)) {
        ("/pins", _) if !query.is_empty() => refused(
            StatusCode::BAD_REQUEST,
            "/pins shows all routes and has no query",
        ),
        ("/pins", _) => told(StatusCode::OK, &listing::pins(&inspected.pins())),
        (_, Err(why)) => refused(StatusCode::BAD_REQUEST, &why),
        (_, Ok(filter)) if method == Method::DELETE => {
            let purged = inspected.purge(&filter);
            told(StatusCode::OK, &json!({ "purged": purged }))
        }
        (_, Ok(filter)) => told(StatusCode::OK, &listing::entries(inspected, &filter)),
    }
}

/// Lets in what no page in a browser can send: a request that names this machine, by whatever name it
/// has itself, and comes from no page.
fn admit(uri: &Uri, headers: &HeaderMap, local: SocketAddr) -> Result<(), &'static str> {
    if headers.contains_key(ORIGIN) {
        return Err("this is not for pages in a browser, which send an Origin");
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("name this machine in one Host");
    };
    let names_us = |text: &str| {
        host_of(text).is_some_and(|host| is_loopback(host) || address(host) == Some(local.ip()))
    };
    let host = host.to_str().is_ok_and(names_us);
    let target = uri.authority().is_none_or(|named| names_us(named.as_str()));
    if host && target {
        return Ok(());
    }
    Err("name this machine in Host: localhost, 127.0.0.1 or the address that is listened on")
}

fn refused(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    told(status, &json!({ "error": why }))
}

fn told(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body:#}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, json);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert("x-content-type-options", nosniff);
    response
}

#[cfg(test)]
mod tests;
