//! Answers from memory, and what becomes of those that have to be fetched: kept for others, and
//! changed where the route has them leave otherwise than they came.

mod answering;
mod view;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use tokio::time::timeout_at;

use super::admitted::{Admitted, Wanted};
use super::answer::{self, Held, Limits, Unread};
use super::cache::{Asking, Change, Entry, Fill, Kind, Look, Outcome, Status, Why};
use super::catalog::Learning;
use super::forward::Destination;
use super::inquiry::Inquiry;
use super::message::Call;
use super::outbound::{Lease, Outbound};
use super::own::{self, Behalf, Told};
use super::relay::Source;
use super::serving::{Running, Serving};
use super::settle;
use crate::net::upstream::Inbound;
use crate::observe::Exchange;
use crate::protocol::event;
use crate::protocol::frame::{self, Field, Paths, Text};
use crate::protocol::media::{self, Accepts};
use crate::protocol::refusal::{Refusal, UpstreamFault};
use crate::protocol::response;
use crate::protocol::version::{Era, Version};

pub(super) use answering::Answering;
pub(super) use view::{Selection, View};

/// Room for nearly every `Cache-Status`.
const STATUS_BYTES: usize = 64;
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Answers what was admitted and `wanted`: from memory where that may be and can be, else from
/// upstream.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn answer(
    gateway: &Running,
    serving: &Serving,
    head: Parts,
    admitted: Admitted,
    wanted: Box<Wanted>,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let found = look(gateway, serving, &head, &wanted, admitted.deadline()).await;
    let found = match found {
        Found::Entry(entry, status, None) => return Ok(from_memory(&entry, status, inquiry)),
        found => found,
    };
    let wanted = *wanted;
    let id = inquiry.to.id.clone();
    let learning = learning(serving, &head, &wanted);
    let bytes_max = gateway.store.entry_bytes_max();
    let answering = Answering::new(wanted.view, wanted.era, id, bytes_max, &serving.follower);
    let answering = answering.learning(learning);
    let answering = match found {
        Found::Entry(entry, status, refresh) => {
            let response = from_memory(&entry, status, inquiry);
            if let Some(fill) = refresh {
                let destination = serving.destination.clone();
                let (request, ..) = admitted.depart(head, &destination, &inquiry.sender)?;
                tokio::spawn(refetch(destination, request, answering.keeping(fill)));
            }
            return Ok(response);
        }
        Found::Fill(fill) => answering.keeping(fill),
        Found::Nothing(why) => answering.bypassing(why),
    };
    let (unused, mut answering) = match answering.has_use() {
        true => (None, Some(Box::new(answering))),
        false => (Some(answering), None),
    };
    // Apart, so that an answer from memory does not carry its room.
    let forwarding = settle::forward(gateway, serving, head, admitted, &mut answering, inquiry);
    let mut answered = Box::pin(forwarding).await;
    if let Some(answering) = unused {
        answering.note(&mut answered, &mut inquiry.exchange);
        return answered;
    }
    match answering {
        Some(answering) => or_stale(*answering, answered, inquiry),
        // It reads on, while the answer passes.
        None => answered,
    }
}

/// What came of fetching an answer, or what memory has in place of it where that failed.
fn or_stale(
    mut answering: Answering,
    mut answered: Result<Response<Source>, Refusal>,
    inquiry: &mut Inquiry<'_>,
) -> Result<Response<Source>, Refusal> {
    let upstream = match &answered {
        Ok(response) if response.status().is_success() => return answered,
        Ok(response) if response.status().is_server_error() => Some(response.status().as_u16()),
        Err(Refusal::Upstream(_)) => None,
        Ok(_) => {
            answering.refused();
            answering.note(&mut answered, &mut inquiry.exchange);
            return answered;
        }
        Err(_) => return answered,
    };
    match answering.failed() {
        None => {
            answering.note(&mut answered, &mut inquiry.exchange);
            answered
        }
        Some(stale) => {
            let ttl = stale.ttl_seconds(Instant::now());
            Ok(from_memory(
                &stale,
                Status::Stale { ttl, upstream },
                inquiry,
            ))
        }
    }
}

/// What is learned from the answer, if it is a list of tools.
fn learning(serving: &Serving, head: &Parts, wanted: &Wanted) -> Option<Learning> {
    let route = &*serving.route;
    let learns = (wanted.era == Era::Modern && route.catalog.enabled) || route.pin.is_some();
    if wanted.kind != Kind::Tools || !learns {
        return None;
    }
    let cursor = match wanted.frame.as_ref().map(|frame| frame.text(Field::Cursor)) {
        Some(Text::Is(cursor)) => Some(cursor.into_owned()),
        _ => None,
    };
    Some(Learning::new(
        serving,
        head,
        wanted.era,
        wanted.version,
        cursor,
    ))
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
    let Some(frame) = &wanted.frame else {
        return Found::Nothing(Why::Params);
    };
    let asking = Asking {
        route: &route.name,
        policy: &route.cache,
        upstream: &route.upstream.name,
        changes: serving.follower.changes(),
        kind: wanted.kind,
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
async fn refetch(destination: Destination, request: Request<Outbound>, mut answering: Answering) {
    let told = own::ask(&destination, request, answering.limits()).await;
    match told {
        Ok(Told::Response(response)) => answering.keep_only(response),
        Ok(Told::Status(status, _)) if !status.is_server_error() => answering.refused(),
        // What is in memory stays there until it is stale.
        Ok(Told::Status(..)) | Err(_) => drop(answering.failed()),
    }
}

/// Why nothing could be fetched.
pub(super) enum Unfetched {
    /// There was an answer with this status, which is no success; and what it asks for to sign in.
    Status(StatusCode, Option<HeaderValue>),
    /// For this reason there was none.
    Refused(Refusal),
}

/// Fetches a page of the list of tools for ourselves, in the context of a caller: from memory where
/// it is there, and kept there where it may be.
pub(super) async fn fetch(
    gateway: &Running,
    serving: &Serving,
    behalf: &Behalf,
    version: Option<Version>,
    message: Bytes,
    learning: Learning,
) -> Result<response::Response, Unfetched> {
    let bounds = &serving.route.bounds.message;
    let frame = frame::scan(message.clone(), bounds, &Paths::default()).ok();
    let call = Call {
        era: behalf.era(),
        version,
        is_request: true,
        method: LIST_TOOLS,
        name: None,
    };
    let view = View::of(&call, &serving.route);
    let id = frame.as_ref().and_then(|frame| frame.shared_id());
    let wanted = Wanted {
        kind: Kind::Tools,
        era: call.era,
        version,
        frame,
        view: view.clone(),
    };
    let found = look(gateway, serving, &behalf.head(), &wanted, None).await;
    let bytes_max = gateway.store.entry_bytes_max();
    let answering = Answering::new(view, call.era, id, bytes_max, &serving.follower);
    let mut answering = match found {
        Found::Entry(entry, ..) => {
            let response = entry.response().clone();
            learning.learn(&response);
            return Ok(response);
        }
        Found::Fill(fill) => answering.keeping(fill),
        Found::Nothing(_) => answering,
    };
    let request = behalf
        .request(&serving.destination, version, LIST_TOOLS, message)
        .map_err(|fault| Unfetched::Refused(fault.into()))?;
    match own::ask(&serving.destination, request, answering.limits()).await {
        Ok(Told::Response(response)) => {
            let mut answering = answering.learning(Some(learning));
            answering.keep_only(response.clone());
            Ok(response)
        }
        Ok(Told::Status(status, challenge)) => {
            match status.is_server_error() {
                true => drop(answering.failed()),
                false => answering.refused(),
            }
            Err(Unfetched::Status(status, challenge))
        }
        Err(fault) => Err(Unfetched::Refused(fault.into())),
    }
}

/// Passes on an answer with which the upstream refused a call. Where it did so for the header of an
/// argument, what is known of its tools is out of date.
///
/// # Errors
/// [`UpstreamFault::Unreadable`] where it broke off.
pub(super) async fn doubt(
    response: Response<Inbound>,
    lease: Lease,
    serving: &Serving,
) -> Result<Response<Source>, UpstreamFault> {
    let (held, told) = refusal_in(response, lease, serving).await?;
    let error = told.and_then(|told| told.error());
    if error.is_some_and(|error| error.is_header_mismatch())
        && serving.catalog.doubts(tokio::time::Instant::now())
    {
        serving.follower.changes().changed(Change::Tools);
    }
    Ok(held.pass(Era::Modern))
}

/// Passes on an answer with which the upstream refused a page of a list. Its cursor may not hold any
/// more, and then no page of the list does; some servers say so with a status too.
///
/// # Errors
/// [`UpstreamFault::Unreadable`] where it broke off.
pub(super) async fn refuse_page(
    response: Response<Inbound>,
    lease: Lease,
    serving: &Serving,
    answering: &mut Answering,
    era: Era,
) -> Result<Response<Source>, UpstreamFault> {
    let (held, told) = refusal_in(response, lease, serving).await?;
    if let Some(told) = told.filter(|told| told.error().is_some()) {
        answering.keep_only(told);
    }
    Ok(held.pass(era))
}

/// The response in an answer that is a refusal by its status.
async fn refusal_in(
    response: Response<Inbound>,
    lease: Lease,
    serving: &Serving,
) -> Result<(Held, Option<response::Response>), UpstreamFault> {
    let limits = Limits {
        bytes_max: serving.route.bounds.buffer_bytes,
        too_long: "an error that is too long",
        idle_timeout: serving.route.upstream.response_idle_timeout,
        whole_timeout: None,
    };
    let (held, found) = answer::hold(response, lease, limits, own::response_in).await;
    match found {
        Err(Unread::Lost(what)) => Err(UpstreamFault::Unreadable {
            upstream: serving.route.upstream.name.clone(),
            what,
        }),
        Ok(told) => Ok((held, Some(told))),
        Err(Unread::Whole(_)) => Ok((held, None)),
    }
}

const LIST_TOOLS: &str = "tools/list";

/// The answer to this request that an entry holds.
fn from_memory(entry: &Entry, status: Status, inquiry: &mut Inquiry<'_>) -> Response<Source> {
    let id = inquiry.to.id.as_deref();
    let ttl_ms = entry.ttl_ms(Instant::now());
    let message = View::leave(entry.response(), entry.selection(), id, Some(ttl_ms));
    let (form, body) = match Accepts::of(inquiry.to.accept.as_ref()) {
        Accepts::Json => (media::JSON, Source::own(message)),
        Accepts::EventStream => {
            let event = Bytes::from(event::message(&message.whole()));
            (media::EVENT_STREAM, Source::own(event))
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    note(&mut response, status, &mut inquiry.exchange);
    response
}

/// Says in an answer and in the log what memory had to do with it.
fn note(response: &mut Response<Source>, status: Status, exchange: &mut Exchange) {
    told(status, exchange);
    // Of words and numbers of ours, and so a value.
    let mut text = String::with_capacity(STATUS_BYTES);
    let _ = write!(text, "{status}");
    if let Ok(value) = HeaderValue::try_from(text) {
        response.headers_mut().append(CACHE_STATUS, value);
    }
}

fn told(status: Status, exchange: &mut Exchange) {
    exchange.cache(status.word());
    if let Some(why) = status.why() {
        exchange.stored(why.word());
    }
}
