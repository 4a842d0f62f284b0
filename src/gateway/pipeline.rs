//! The path of one exchange, from its head to its answer. Each stage is a function of what the
//! stages before it made, and only they can make it; so none can be skipped.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::admitted::{Admitted, Reading};
use super::agree::{self, Routing};
use super::claim::Claim;
use super::cors::{self, Cors};
use super::forward::{Destination, Farewell};
use super::intake::{self, Intake};
use super::message::Message;
use super::outbound::{Outbound, Pool};
use super::place::{self, Placed};
use super::receive::{self, Taken};
use super::relay::{self, Asked, Drain, Outgoing, Source};
use super::sender::Sender;
use super::session::Sessions;
use super::upload::Upload;
use super::{discover, handshake, pass, route};
use crate::net::listener::{self, Client, ConnectionEnd};
use crate::net::received::Received;
use crate::net::reload::Renewal;
use crate::net::tls::Connectors;
use crate::observe::{self, Exchange, Level, Log};
use crate::policy::plan::{Bounds, LegacyRefusals, Listen, Plan, Route};
use crate::protocol::frame::{self, Paths};
use crate::protocol::head::Fields;
use crate::protocol::header;
use crate::protocol::method;
use crate::protocol::refusal::{self, Addressee, HttpFault, MessageFault, Refusal};
use crate::protocol::version::{Era, Version};

/// The running gateway: a plan with the connections and sessions that belong to it.
#[derive(Clone)]
pub struct Gateway(Arc<Running>);

struct Running {
    listen: Listen,
    log: Log,
    intake: Intake,
    routes: Vec<Serving>,
    drain: Drain,
}

/// A route at work.
struct Serving {
    route: Arc<Route>,
    destination: Destination,
    sessions: Sessions,
    cors: Cors,
}

impl Gateway {
    /// The gateway that `plan` describes, on the current runtime, and how it follows its files. Once
    /// `drain` is cancelled, it ends the streams that have no end of their own.
    ///
    /// # Errors
    /// An upstream's authority or path that no request can carry, of which a checked plan has none;
    /// and what keeps TLS from being set up on this system.
    pub fn start(
        plan: &Plan,
        log: Log,
        drain: CancellationToken,
    ) -> Result<(Gateway, Vec<Renewal>), Box<dyn Error + Send + Sync>> {
        let mut pools: Vec<Arc<Pool>> = Vec::new();
        let mut connectors = Connectors::default();
        let mut routes = Vec::with_capacity(plan.routes.len());
        for route in &plan.routes {
            // Routes that lead to one upstream share its connections.
            let known = pools
                .iter()
                .find(|pool| std::ptr::eq(pool.upstream(), &*route.upstream));
            let pool = match known {
                Some(pool) => pool.clone(),
                None => {
                    let connector = connectors.connector(&route.upstream)?;
                    pools.push(Pool::new(route.upstream.clone(), connector));
                    pools[pools.len() - 1].clone()
                }
            };
            routes.push(Serving {
                route: route.clone(),
                destination: Destination::new(pool)?,
                sessions: Sessions::new(&route.bounds),
                cors: Cors::new(&route.cors),
            });
        }
        route::sort(&mut routes, |serving| &serving.route);
        let gateway = Gateway(Arc::new(Running {
            listen: plan.listen.clone(),
            log,
            intake: Intake::new(plan.listen.requests_max),
            routes,
            drain: Drain {
                begins: drain,
                streams: plan.shutdown.streams,
            },
        }));
        Ok((gateway, connectors.into_renewals()))
    }
}

impl listener::Serve for Gateway {
    type Body = Outgoing;

    async fn serve(&self, client: Client, request: Request<Received>) -> Response<Outgoing> {
        let (mut head, body) = request.into_parts();
        let seat = self.0.intake.seat(&mut head);
        let wants_body = head.method != Method::HEAD;
        let sender = Sender::of(client, &head.headers, &self.0.listen);
        let mut exchange = self
            .0
            .log
            .exchange(sender.peer(), &head.method, head.uri.path());
        exchange.client(sender.named());
        let mut page = None;
        let mut to = Addressee::of(&head.headers);
        let answered = answer(
            &self.0,
            head,
            body,
            &sender,
            &mut exchange,
            &mut to,
            &mut page,
        );
        let mut response = match answered.await {
            Ok(response) => response,
            Err(refusal) => {
                let telling = refusal.telling();
                let detail = refusal.detail().or(telling.subject());
                exchange.refused(telling.reason, detail.map(str::to_owned));
                // A body that HEAD does not want would never be asked for, and so never end.
                refusal::answer(&telling, &to).map(|body| Source::Own(wants_body.then_some(body)))
            }
        };
        if let Some(Page { cors, origin }) = page {
            cors.expose(response.headers_mut(), origin);
        }
        exchange.status(response.status().as_u16());
        response.map(|source| Outgoing::new(source, exchange, seat))
    }

    fn connection_ended(&self, end: ConnectionEnd) {
        self.0.log.connection(&observe::ConnectionEnd {
            peer: end.peer,
            bytes_in: end.received,
            duration: end.duration,
            reason: end.reason,
            detail: end.detail,
        });
    }

    fn accept_failed(&self, error: &std::io::Error) {
        let log = &self.0.log;
        log.event(
            Level::Warn,
            "a connection could not be accepted",
            &[("error", error)],
        );
    }

    fn connections_refused(&self, limit: &'static str, count: u64) {
        let log = &self.0.log;
        log.event(
            Level::Warn,
            "connections were refused",
            &[("limit", &limit), ("count", &count)],
        );
    }
}

/// The page of a browser that a request comes from and that its route has let in: it may read
/// whatever is answered.
struct Page<'g> {
    cors: &'g Cors,
    origin: cors::Origin,
}

/// One exchange: its route, what its HTTP method makes of it, and the answer of the upstream.
async fn answer<'g>(
    gateway: &'g Running,
    head: Parts,
    body: Received,
    sender: &Sender,
    exchange: &mut Exchange,
    to: &mut Addressee,
    page: &mut Option<Page<'g>>,
) -> Result<Response<Source>, Refusal> {
    let fields = Fields::read(&head.headers);
    let serving = match find(gateway, &head, &fields, to) {
        Ok(serving) => serving,
        Err(refusal) => {
            to.closes = !receive::drain_unread(&head, body, &Bounds::default());
            return Err(refusal);
        }
    };
    exchange.route(&serving.route);
    to.in_band = serving.route.protocol.legacy_refusals == LegacyRefusals::InBand;
    if fields.origin != header::Reading::Absent
        && let Some(origin) = cors::Origin::admitted(&head.headers)
    {
        let cors = &serving.cors;
        if cors::is_preflight(&head) {
            to.closes = !receive::drain_unread(&head, body, &serving.route.bounds);
            let preflight = cors.preflight(&head, &origin, methods(&serving.route));
            return Ok(preflight.map(|()| Source::Own(None)));
        }
        *page = Some(Page { cors, origin });
    }
    if serving.route.pass.is_some() {
        if let Err(fault) = intake::check(&head) {
            to.closes = !receive::drain_unread(&head, body, &serving.route.bounds);
            return Err(fault.into());
        }
        let (route, destination) = (&serving.route, &serving.destination);
        let passed = pass::pass(
            route,
            destination,
            head,
            body,
            sender,
            exchange,
            &mut to.closes,
        );
        // Apart, so that the exchanges of MCP do not carry its room.
        let response = Box::pin(passed).await?;
        return Ok(relay::watch(
            response,
            &Asked::UNREAD,
            route,
            &gateway.drain,
        ));
    }
    let admitted = if head.method == Method::POST {
        admit_message(serving, &head, &fields, body, exchange, to).await?
    } else {
        to.closes = !receive::drain_unread(&head, body, &serving.route.bounds);
        intake::check(&head)?;
        let allow = methods(&serving.route);
        match head.method {
            Method::GET | Method::DELETE => admit_bodiless(serving, &head, &fields, exchange, to)?,
            Method::OPTIONS => return Ok(refusal::options(allow).map(|()| Source::Own(None))),
            _ => return Err(HttpFault::MethodNotAllowed { allow }.into()),
        }
    };
    forward(gateway, serving, head, admitted, sender, exchange, to).await
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
    serving: &Serving,
    head: &Parts,
    fields: &Fields<'_>,
    body: Received,
    exchange: &mut Exchange,
    to: &mut Addressee,
) -> Result<Admitted, Refusal> {
    let route = &*serving.route;
    let claim = || Claim::of(fields, &head.headers, route);
    let acceptable = receive::check(fields, &body, &route.bounds, || claim().is_some())
        .map_err(Refusal::from)
        .and_then(|()| match to.probe {
            // What shows itself to be none is shed once it has been read.
            true => Ok(()),
            false => Ok(intake::check_size(head, &body, &route.bounds)?),
        });
    if let Err(refusal) = acceptable {
        to.closes = !receive::drain_unread(head, body, &route.bounds);
        return Err(refusal);
    }
    let body = match receive::take(body, &route.bounds).await? {
        Taken::Whole(body) => body,
        Taken::Part(part) => match claim() {
            Some(claim) => {
                // It may be one that was announced as small, where less than that is held.
                if !to.probe
                    && let Err(fault) = intake::check(head)
                {
                    receive::drain(part.rest, &route.bounds);
                    return Err(fault.into());
                }
                let admitting = Admitted::by_claim(claim, &serving.route, part, exchange, to);
                // Boxed, because few exchanges need the room that it takes.
                return Box::pin(admitting).await;
            }
            None => part.whole(&route.bounds).await?,
        },
    };
    exchange.received(body.len() as u64);
    let frame = frame::scan(body, &route.bounds.message, &Paths::default()).map_err(|flaw| {
        to.id = flaw.id().map(Bytes::copy_from_slice);
        MessageFault::Unreadable(flaw)
    })?;
    let message = Message::of(&frame);
    let (placed, routing) = judge(serving, &message, fields, &head.headers, exchange, to)?;
    if !to.probe {
        intake::check(head)?;
    }
    let call = message.call(&placed);
    Ok(Admitted {
        era: call.era,
        routing,
        body: Outbound::Whole(frame.body().clone()),
        upload: None,
        reading: Reading::of(&call),
        asked: Asked::by(&call, to.id.clone(), &route.deadline),
    })
}

/// Era, headers, version and method of a message, in the order in which the first failure wins.
fn judge(
    serving: &Serving,
    message: &Message<'_>,
    fields: &Fields<'_>,
    headers: &HeaderMap,
    exchange: &mut Exchange,
    to: &mut Addressee,
) -> Result<(Placed, Routing), Refusal> {
    let route = &*serving.route;
    to.id = message.outline().shared_id();
    to.probe = message.method() == method::DISCOVER;
    exchange.called(message.method(), message.name());
    let placed = place::place(message, fields.protocol_version, &route.protocol, || {
        session(serving, fields)
    })?;
    to.era = Some(placed.era());
    exchange.placed(placed.era(), placed.known_version());
    let routing = agree::agree(&placed, message, fields, headers, route)?;
    placed.accept(message, &route.protocol)?;
    Ok((placed, routing))
}

/// GET, which opens a legacy server's stream, and DELETE, which ends a legacy session.
fn admit_bodiless(
    serving: &Serving,
    head: &Parts,
    fields: &Fields<'_>,
    exchange: &mut Exchange,
    to: &mut Addressee,
) -> Result<Admitted, Refusal> {
    let protocol = &serving.route.protocol;
    let placed = place::place_bodiless(fields.protocol_version, protocol, || {
        session(serving, fields)
    })?;
    to.era = Some(placed.era());
    exchange.placed(placed.era(), placed.known_version());
    let routing = agree::agree_bodiless(fields, &head.headers, protocol)?;
    let session = head.headers.get(header::SESSION_ID);
    Ok(Admitted {
        era: placed.era(),
        routing,
        body: Outbound::Whole(Bytes::new()),
        upload: None,
        reading: match session {
            Some(id) if head.method == Method::DELETE => Reading::EndOfSession(id.clone()),
            Some(_) | None => Reading::Nothing,
        },
        asked: Asked::by_bodiless(&head.method),
    })
}

/// The version of the session that a request names, if it is known.
fn session(serving: &Serving, fields: &Fields<'_>) -> Option<Version> {
    match fields.session_id {
        header::Reading::Once(id) => serving.sessions.version(id),
        header::Reading::Absent | header::Reading::Repeated => None,
    }
}

/// Sends what was admitted, and passes the answer on, if it is there in time.
async fn forward(
    gateway: &Running,
    serving: &Serving,
    head: Parts,
    admitted: Admitted,
    sender: &Sender,
    exchange: &mut Exchange,
    to: &mut Addressee,
) -> Result<Response<Source>, Refusal> {
    let Admitted {
        era,
        routing,
        body,
        upload,
        reading,
        mut asked,
    } = admitted;
    let route = &*serving.route;
    let request = serving
        .destination
        .request(head, body, routing, era, sender)?;
    let late_id = upload.as_ref().map(Upload::late_id);
    let outcome = {
        let answering = pin!(settle(serving, request, upload, reading, era, exchange, to));
        match asked.deadline {
            None => Ok(answering.await),
            Some(deadline) => timeout_at(deadline.at, answering)
                .await
                .map_err(|_| deadline),
        }
    };
    let response = match outcome {
        Ok(answered) => answered?,
        Err(deadline) => {
            // The id of a body that streams may have come since its request was admitted.
            if let Some(id) = late_id.and_then(|id| id()) {
                to.id = Some(id);
            }
            return Err(deadline.fault(&route.upstream).into());
        }
    };
    if late_id.is_some() {
        asked.answer_to(to.id.clone());
    }
    Ok(relay::watch(response, &asked, route, &gateway.drain))
}

/// Waits for the answer, and reads it for what it must be read for.
async fn settle(
    serving: &Serving,
    request: Request<Outbound>,
    upload: Option<Upload>,
    reading: Reading,
    era: Era,
    exchange: &mut Exchange,
    to: &mut Addressee,
) -> Result<Response<Source>, Refusal> {
    let (route, destination) = (&*serving.route, &serving.destination);
    let farewell =
        matches!(reading, Reading::Handshake).then(|| Farewell::after(&request, destination));
    let sending = destination.send(request);
    let (response, lease) = match upload {
        None => sending.await?,
        Some(upload) => Box::pin(upload.answer(sending, to)).await?,
    };
    exchange.upstream_connection(lease.reused());
    exchange.upstream_status(response.status().as_u16());
    match reading {
        Reading::Nothing => Ok(relay::pass(response, lease, era)),
        Reading::Discovery => Box::pin(discover::settle(response, lease, route)).await,
        Reading::Handshake => {
            let session = response.headers().get(header::SESSION_ID).cloned();
            let unused = farewell
                .zip(session)
                .map(|(farewell, session)| farewell.opened(session));
            let settling = handshake::settle(response, lease, route, &serving.sessions);
            let (response, version) = Box::pin(settling).await?;
            if let Some(unused) = unused {
                unused.keep();
            }
            if version.is_some() {
                exchange.placed(era, version);
            }
            Ok(response)
        }
        Reading::EndOfSession(id) => {
            if response.status().is_success() {
                serving.sessions.close(id.as_bytes());
            }
            Ok(relay::pass(response, lease, era))
        }
    }
}
