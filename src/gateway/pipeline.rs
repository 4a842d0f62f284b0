//! The path of one exchange, from its head to its answer. Each stage is a function of what the
//! stages before it made, and only they can make it; so none can be skipped.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};

use super::admitted::Admitted;
use super::agree::claim::Claim;
use super::agree::{self, Routing};
use super::cors;
use super::inquiry::{Inquiry, Page};
use super::intake;
use super::message::Message;
use super::place::{self, Accepted};
use super::receive::{self, Part, Taken};
use super::relay::{self, Asked, Deadline, Source};
use super::serving::{Running, Serving};
use super::settle::forward;
use super::{catalog, pass, recall, route};
use crate::net::received::Received;
use crate::policy::plan::{Bounds, LegacyRefusals, Route};
use crate::protocol::frame::{self, Paths};
use crate::protocol::head::Fields;
use crate::protocol::header;
use crate::protocol::method;
use crate::protocol::refusal::{self, Addressee, HttpFault, MessageFault, Refusal};

/// One exchange: its route, what its HTTP method makes of it, and the answer of the upstream.
///
/// # Errors
/// Why it is refused.
pub(super) async fn answer<'g>(
    gateway: &'g Running,
    head: Parts,
    body: Received,
    inquiry: &mut Inquiry<'g>,
) -> Result<Response<Source>, Refusal> {
    let fields = Fields::read(&head.headers);
    let serving = match find(gateway, &head, &fields, &mut inquiry.to) {
        Ok(serving) => serving,
        Err(refusal) => {
            return Err(inquiry.refuse_unread(&head, body, &Bounds::default(), refusal));
        }
    };
    let route = &*serving.route;
    inquiry.exchange.route(&serving.route);
    inquiry.to.in_band = route.protocol.legacy_refusals == LegacyRefusals::InBand;
    if fields.origin != header::Reading::Absent
        && let Some(origin) = cors::Origin::admitted(&head.headers)
    {
        let cors = &serving.cors;
        if cors::is_preflight(&head) {
            inquiry.leave_unread(&head, body, &route.bounds);
            let preflight = cors.preflight(&head, &origin, methods(route));
            return Ok(preflight.map(|()| Source::empty()));
        }
        inquiry.page = Some(Page { cors, origin });
    }
    if route.pass.is_some() {
        // Apart, so that the exchanges of MCP do not carry its room.
        let response = Box::pin(pass::pass(serving, head, body, inquiry)).await?;
        return Ok(relay::watch(
            response,
            &Asked::UNREAD,
            route,
            &gateway.drain,
        ));
    }
    let mut admitted = if head.method == Method::POST {
        admit_message(gateway, serving, &head, &fields, body, inquiry).await?
    } else {
        inquiry.leave_unread(&head, body, &route.bounds);
        intake::check(&head)?;
        let allow = methods(route);
        match head.method {
            Method::GET | Method::DELETE => admit_bodiless(serving, &head, &fields, inquiry)?,
            Method::OPTIONS => return Ok(refusal::options(allow).map(|()| Source::empty())),
            _ => return Err(HttpFault::MethodNotAllowed { allow }.into()),
        }
    };
    match admitted.wanted.take() {
        None => forward(gateway, serving, head, admitted, &mut None, inquiry).await,
        Some(wanted) => recall::answer(gateway, serving, head, admitted, wanted, inquiry).await,
    }
}

/// The route of a request, which its head may take.
fn find<'g>(
    gateway: &'g Running,
    head: &Parts,
    fields: &Fields<'_>,
    to: &mut Addressee,
) -> Result<&'g Serving, Refusal> {
    to.probe = fields.method == header::Reading::Once(method::DISCOVER.as_bytes());
    intake::check_hopeless(head)?;
    route::check_form(head, fields, &gateway.listen)?;
    let serving = route::find(&gateway.routes, |serving| &serving.route, head, fields)?;
    to.problem = serving.route.pass.is_some();
    route::check_origin(&serving.route.origins, fields.origin)?;
    Ok(serving)
}

/// The HTTP methods that a route serves, as `Allow` lists them.
fn methods(route: &Route) -> &'static str {
    match route.pass {
        None => place::allow(&route.protocol),
        Some(_) => pass::METHODS,
    }
}

/// A message: received, scanned, placed, held against its headers.
async fn admit_message(
    gateway: &Running,
    serving: &Serving,
    head: &Parts,
    fields: &Fields<'_>,
    body: Received,
    inquiry: &mut Inquiry<'_>,
) -> Result<Admitted, Refusal> {
    let route = &*serving.route;
    let claim = || Claim::of(fields, &head.headers, route);
    let acceptable = receive::check(fields, &body, &route.bounds, || claim().is_some())
        .map_err(Refusal::from)
        .and_then(|()| match inquiry.to.probe {
            // What shows itself to be none is shed once it has been read.
            true => Ok(()),
            false => Ok(intake::check_size(head, &body, &route.bounds)?),
        });
    if let Err(refusal) = acceptable {
        return Err(inquiry.refuse_unread(head, body, &route.bounds, refusal));
    }
    let body = match receive::take(body, &route.bounds).await? {
        Taken::Whole(body) => body,
        Taken::Part(part) => match claim() {
            Some(claim) => {
                // It may be one that was announced as small, where less than that is held.
                if !inquiry.to.probe
                    && let Err(fault) = intake::check(head)
                {
                    receive::drain(part.rest, &route.bounds);
                    return Err(fault.into());
                }
                // Boxed, because few exchanges need the room that it takes.
                return Box::pin(admit_claim(gateway, serving, head, claim, part, inquiry)).await;
            }
            None => part.whole(&route.bounds).await?,
        },
    };
    inquiry.exchange.received(body.len() as u64);
    let frame = frame::scan(body, &route.bounds.message, &Paths::default()).map_err(|flaw| {
        inquiry.to.id = flaw.id().map(Bytes::copy_from_slice);
        MessageFault::Unreadable(flaw)
    })?;
    let message = Message::of(&frame);
    let (accepted, routing) = judge(serving, &message, head, fields, inquiry)?;
    if !inquiry.to.probe {
        intake::check(head)?;
    }
    let call = message.call(&accepted);
    let deadline = Deadline::of(&call, &serving.route.deadline);
    let tool = catalog::Calling {
        gateway,
        serving,
        head,
        call,
        body: Some(frame.body()),
        deadline,
    };
    let param_lines = tool.judge(&frame, inquiry).await?;
    let routing = routing.with_params(param_lines);
    let route = &serving.route;
    Ok(Admitted::by_message(
        &message, &frame, &accepted, routing, route, deadline,
    ))
}

/// A message that is too large to be read first: admitted by what its headers claim. The definition
/// of the tool that they name is needed before its body is read.
async fn admit_claim(
    gateway: &Running,
    serving: &Serving,
    head: &Parts,
    claim: Claim,
    part: Part,
    inquiry: &mut Inquiry<'_>,
) -> Result<Admitted, Refusal> {
    let call = claim.call();
    let Inquiry { exchange, to, .. } = inquiry;
    to.era = Some(call.era);
    to.probe = call.method == method::DISCOVER;
    exchange.called(call.method, call.name);
    exchange.placed(call.era, call.version);
    let deadline = Deadline::of(&call, &serving.route.deadline);
    let tool = catalog::Calling {
        gateway,
        serving,
        head,
        call,
        body: None,
        deadline,
    };
    let tool = match tool.definition(inquiry).await {
        Ok(tool) => tool,
        Err(refusal) => {
            inquiry.to.id = part.id(&serving.route.bounds);
            receive::drain(part.rest, &serving.route.bounds);
            return Err(refusal);
        }
    };
    let claim = claim.about(tool, &head.headers);
    let admitted = Admitted::by_claim(claim, &serving.route, part, deadline, inquiry).await;
    admitted.inspect_err(|refusal| catalog::doubt_by_claim(serving, refusal))
}

/// Era, headers, version and method of a message, in the order in which the first failure wins.
fn judge(
    serving: &Serving,
    message: &Message<'_>,
    head: &Parts,
    fields: &Fields<'_>,
    inquiry: &mut Inquiry<'_>,
) -> Result<(Accepted, Routing), Refusal> {
    let route = &*serving.route;
    let Inquiry { exchange, to, .. } = inquiry;
    to.id = message.outline().shared_id();
    to.probe = message.method() == method::DISCOVER;
    exchange.called(message.method(), message.name());
    let placed = place::place(message, fields.protocol_version, &route.protocol, || {
        serving.session_version(fields.session_id)
    })?;
    to.era = Some(placed.era());
    exchange.placed(placed.era(), placed.known_version());
    let routing = agree::agree(&placed, message, fields, &head.headers, route)?;
    let accepted = placed.accept(message, &route.protocol)?;
    Ok((accepted, routing))
}

/// GET, which opens a legacy server's stream, and DELETE, which ends a legacy session.
fn admit_bodiless(
    serving: &Serving,
    head: &Parts,
    fields: &Fields<'_>,
    inquiry: &mut Inquiry<'_>,
) -> Result<Admitted, Refusal> {
    let protocol = &serving.route.protocol;
    let accepted = place::place_bodiless(fields.protocol_version, protocol, || {
        serving.session_version(fields.session_id)
    })?;
    inquiry.to.era = Some(accepted.era());
    let version = accepted.known_version();
    inquiry.exchange.placed(accepted.era(), version);
    let routing = agree::agree_bodiless(fields, &head.headers, protocol)?;
    Ok(Admitted::bodiless(head, &accepted, routing))
}
