//! Answers from memory, and what becomes of those that have to be fetched: kept for others, and
//! changed where the route has them leave otherwise than they came.

mod answering;
mod view;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::Response;
use tokio::time::timeout_at;

use super::admitted::{Admitted, Wanted};
use super::answer;
use super::cache::{Asking, Entry, Fill, Look, Outcome, Status, Why};
use super::catalog::Learning;
use super::inquiry::Inquiry;
use super::own;
use super::pipeline;
use super::relay::Source;
use super::serving::{Running, Serving};
use crate::observe::Exchange;
use crate::protocol::event;
use crate::protocol::media::{self, Accepts};
use crate::protocol::refusal::Refusal;
use crate::protocol::version::Era;

pub(super) use answering::Answering;
pub(super) use view::{Selection, View};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Answers what was admitted: from memory where that may be and can be, else from upstream.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn answer(
    gateway: &Running,
    serving: &Serving,
    head: Parts,
    mut admitted: Admitted,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let Some(wanted) = admitted.wanted.take() else {
        return pipeline::forward(gateway, serving, head, admitted, &mut None, inquiry).await;
    };
    let wanted = *wanted;
    let found = look(gateway, serving, &head, &wanted, &admitted).await;
    let id = inquiry.to.id.clone();
    let learning = Learning::of(serving, &head, &wanted);
    let bytes_max = gateway.store.entry_bytes_max();
    let answering = Answering::new(wanted.view, wanted.era, id, bytes_max, &serving.follower);
    let answering = answering.learning(learning);
    let answering = match found {
        Found::Entry(entry, status, refresh) => {
            if let Some(fill) = refresh {
                let request = admitted.depart(head, &serving.destination, &inquiry.sender);
                if let Ok((request, ..)) = request {
                    tokio::spawn(refetch(serving.destination.clone(), request, answering.keeping(fill)));
                }
            }
            return Ok(from_memory(&entry, status, inquiry));
        }
        Found::Fill(fill) => answering.keeping(fill),
        Found::Nothing(why) => {
            inquiry.exchange.cache(Status::Bypass(why).word());
            answering
        }
    };
    let mut answering = Some(Box::new(answering));
    let answered = pipeline::forward(gateway, serving, head, admitted, &mut answering, inquiry).await;
    // What was taken has been read, or is.
    let Some(answering) = answering else {
        return answered;
    };
    let failed = match &answered {
        Ok(response) if response.status().is_server_error() => Some(response.status().as_u16()),
        Err(Refusal::Upstream(_)) => None,
        Ok(_) | Err(_) => {
            answering.refused();
            return answered;
        }
    };
    match answering.failed() {
        None => answered,
        Some(stale) => {
            let ttl = stale.ttl_seconds(Instant::now());
            let status = Status::Stale { ttl, upstream: failed };
            Ok(from_memory(&stale, status, inquiry))
        }
    }
}

/// What memory has for a request.
enum Found {
    /// This; and perhaps the right to fetch it again beside it.
    Entry(Arc<Entry>, Status, Option<Fill>),
    /// Nothing, and the right to keep what comes.
    Fill(Fill),
    /// Nothing, and nothing is kept.
    Nothing(Why),
}

async fn look(
    gateway: &Running,
    serving: &Serving,
    head: &Parts,
    wanted: &Wanted,
    deadline: Option<tokio::time::Instant>,
) -> Found {
    let route = &*serving.route;
    let (Some(kind), Some(frame)) = (wanted.kind, &wanted.frame) else {
        return Found::Nothing(Why::Params);
    };
    let asking = Asking {
        route: &route.name,
        policy: &route.cache,
        upstream: &route.upstream.name,
        changes: serving.follower.changes(),
        kind,
        era: wanted.era,
        version: wanted.version,
        head,
        frame,
    };
    let question = match gateway.store.question(asking) {
        Ok(question) => question,
        Err(why) => return Found::Nothing(why),
    };
    let now = Instant::now();
    let mut waiting = match gateway.store.look(&question, now) {
        Look::Hit(hit) => {
            let ttl = hit.entry.ttl_seconds(now);
            return Found::Entry(hit.entry, Status::Hit { ttl }, hit.refresh);
        }
        Look::Lead(fill) => return Found::Fill(fill),
        Look::Wait(waiting) => waiting,
    };
    let late = tokio::time::Instant::from_std(now) + route.cache.wait_timeout;
    let late = deadline.map_or(late, |deadline| deadline.min(late));
    let outcome = match timeout_at(late, waiting.outcome()).await {
        Ok(outcome) => outcome,
        Err(_) => waiting.give_up(),
    };
    let ttl = |entry: &Entry| entry.ttl_seconds(Instant::now());
    match outcome {
        Outcome::Answer(entry) => {
            let status = Status::Waited { ttl: ttl(&entry) };
            Found::Entry(entry, status, None)
        }
        Outcome::Stale(entry) => {
            let (ttl, upstream) = (ttl(&entry), None);
            Found::Entry(entry, Status::Stale { ttl, upstream }, None)
        }
        Outcome::Lead(fill) => Found::Fill(fill),
    }
}

/// Fetches again, beside an answer from memory, what will soon be stale.
async fn refetch(destination: Destination, request: Request<Outbound>, answering: Answering) {
    let told = own::ask(&destination, request, answering.limits()).await;
    match told {
        Ok(Told::Response(response)) => answering.keep_only(response),
        Ok(Told::Status(status)) if !status.is_server_error() => answering.refused(),
        // What is in memory stays there until it is stale.
        Ok(Told::Status(_)) | Err(_) => drop(answering.failed()),
    }
}

/// A list of tools that is fetched for ourselves, in the context of a caller whose request for it
/// would be `head` and `wanted`: from memory where it is there, and else kept there where it may be.
///
/// # Errors
/// A fault of the upstream, or the status of an answer in which there is no response.
pub(super) async fn fetch(
    gateway: &Running,
    serving: &Serving,
    behalf: &Behalf,
    wanted: Wanted,
    learning: Learning,
) -> Result<Response, Result<StatusCode, Refusal>> {
    let head = behalf.head();
    let found = look(gateway, serving, &head, &wanted, None).await;
    let bytes_max = gateway.store.entry_bytes_max();
    let (view, era) = (wanted.view, wanted.era);
    let answering = Answering::new(view, era, None, bytes_max, &serving.follower);
    let answering = match found {
        Found::Entry(entry, _, _) => {
            learning.learn(entry.response());
            return Ok(entry.response().clone());
        }
        Found::Fill(fill) => answering.keeping(fill),
        Found::Nothing(_) => answering,
    };
    let Some(frame) = wanted.frame else {
        unreachable!()
    };
    let request = behalf.request(&serving.destination, era, wanted.version, "tools/list", frame.body().clone());
    let request = request.map_err(|fault| Err(fault.into()))?;
    match own::ask(&serving.destination, request, answering.limits()).await {
        Ok(Told::Response(response)) => {
            answering.learning(Some(learning)).keep_only(response.clone());
            Ok(response)
        }
        Ok(Told::Status(status)) => {
            answering.refused();
            Err(Ok(status))
        }
        Err(fault) => Err(Err(fault.into())),
    }
}

/// The answer to this request that an entry holds.
fn from_memory(entry: &Entry, status: Status, inquiry: &mut Inquiry<'_>) -> Response<Source> {
    let now = Instant::now();
    let id = inquiry.to.id.as_deref();
    let message = View::leave(entry.response(), entry.selection(), id, Some(entry.ttl_ms(now)));
    let (form, body) = match Accepts::of(inquiry.to.accept.as_ref()) {
        Accepts::Json => (media::JSON, message),
        Accepts::EventStream => (media::EVENT_STREAM, Bytes::from(event::message(&message))),
    };
    let mut response = Response::new(Source::Own(Some(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    note(&mut response, status, &mut inquiry.exchange);
    response
}

/// Says in an answer and in the log what memory had to do with it.
fn note(response: &mut Response<Source>, status: Status, exchange: &mut Exchange) {
    exchange.cache(status.word());
    // Of words and numbers of ours, and so a value.
    if let Ok(value) = HeaderValue::try_from(status.to_string()) {
        response.headers_mut().append(CACHE_STATUS, value);
    }
}
