//! The gateway at work: what a plan becomes, and how the requests of a listener come to it.

use std::error::Error;
use std::io;
use std::sync::Arc;

use http::{Method, Request, Response};
use tokio_util::sync::CancellationToken;

use super::cache::Store;
use super::catalog::Catalog;
use super::cors::Cors;
use super::follow::Follower;
use super::forward::Destination;
use super::inquiry::{Inquiry, Page};
use super::intake::Intake;
use super::outbound::Pool;
use super::relay::{Drain, Outgoing, Source};
use super::sender::Sender;
use super::session::Sessions;
use super::{pipeline, route};
use crate::net::listener::{self, Client, ConnectionEnd};
use crate::net::received::Received;
use crate::net::reload::Renewal;
use crate::net::tls::Connectors;
use crate::observe::{self, Level, Log};
use crate::policy::plan::{Listen, Plan, Route};
use crate::protocol::header::Reading;
use crate::protocol::refusal;
use crate::protocol::version::Version;

/// The running gateway: a plan with the connections and sessions that belong to it.
#[derive(Clone)]
pub struct Gateway(Arc<Running>);

/// What all exchanges share.
pub(super) struct Running {
    /// What is listened on.
    pub(super) listen: Listen,
    /// The routes, in the order in which they are tried.
    pub(super) routes: Vec<Serving>,
    /// When and how the streams end.
    pub(super) drain: Drain,
    /// The answers in memory.
    pub(super) store: Store,
    log: Log,
    intake: Intake,
}

/// A route at work.
pub(super) struct Serving {
    /// What the policy says of it.
    pub(super) route: Arc<Route>,
    /// Where its requests go.
    pub(super) destination: Destination,
    /// The legacy sessions that were opened through it.
    pub(super) sessions: Sessions,
    /// What pages of other origins may do.
    pub(super) cors: Cors,
    /// What its upstream tells of changes.
    pub(super) follower: Arc<Follower>,
    /// What is known of its tools.
    pub(super) catalog: Arc<Catalog>,
    /// The log.
    pub(super) log: Log,
}

impl Serving {
    /// The version of the session that a request names, if it is known.
    #[must_use]
    pub(super) fn session_version(&self, id: Reading<'_>) -> Option<Version> {
        match id {
            Reading::Once(id) => self.sessions.version(id),
            Reading::Absent | Reading::Repeated => None,
        }
    }
}

impl Gateway {
    /// What all exchanges share.
    pub(super) fn running(&self) -> &Running {
        &self.0
    }

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
        let mut followers: Vec<Arc<Follower>> = Vec::new();
        let mut routes = Vec::with_capacity(plan.routes.len());
        for route in &plan.routes {
            // Routes that lead to one upstream share its connections.
            let known = pools
                .iter()
                .position(|pool| std::ptr::eq(pool.upstream(), &*route.upstream));
            let at = match known {
                Some(at) => at,
                None => {
                    let connector = connectors.connector(&route.upstream)?;
                    let pool = Pool::new(route.upstream.clone(), connector);
                    let destination = Destination::new(pool.clone())?;
                    let follower = Follower::new(destination, drain.clone(), log.clone());
                    followers.push(Arc::new(follower));
                    pools.push(pool);
                    pools.len() - 1
                }
            };
            routes.push(Serving {
                route: route.clone(),
                destination: Destination::new(pools[at].clone())?,
                sessions: Sessions::new(&route.bounds),
                cors: Cors::new(&route.cors),
                follower: followers[at].clone(),
                catalog: Arc::new(Catalog::new(&route.catalog)),
                log: log.clone(),
            });
        }
        route::sort(&mut routes, |serving| &serving.route);
        let gateway = Gateway(Arc::new(Running {
            listen: plan.listen.clone(),
            routes,
            drain: Drain {
                begins: drain,
                streams: plan.shutdown.streams,
            },
            store: Store::new(&plan.memory)?,
            log,
            intake: Intake::new(plan.listen.requests_max),
        }));
        Ok((gateway, connectors.into_renewals()))
    }
}

impl listener::Serve for Gateway {
    type Body = Outgoing;

    async fn serve(&self, client: Client, request: Request<Received>) -> Response<Outgoing> {
        let running = &*self.0;
        let (mut head, body) = request.into_parts();
        let seat = running.intake.seat(&mut head);
        let wants_body = head.method != Method::HEAD;
        let sender = Sender::of(client, &head.headers, &running.listen);
        let exchange = running
            .log
            .exchange(sender.peer(), &head.method, head.uri.path());
        let mut inquiry = Inquiry::new(sender, exchange, &head.headers);
        let answered = pipeline::answer(running, head, body, &mut inquiry).await;
        let Inquiry {
            mut exchange,
            to,
            page,
            ..
        } = inquiry;
        let mut response = match answered {
            Ok(response) => response,
            Err(refusal) => {
                let telling = refusal.telling();
                let detail = refusal.detail().or(telling.subject());
                exchange.refused(telling.reason, detail.map(str::to_owned));
                // A body that HEAD does not want would never be asked for, and so never end.
                refusal::answer(&telling, &to).map(|body| match wants_body {
                    true => Source::own(body),
                    false => Source::empty(),
                })
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

    fn accept_failed(&self, error: &io::Error) {
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
