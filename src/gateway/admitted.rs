//! What may go upstream, and what its answer will be read for.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use tokio::time::Instant;

use super::agree::Routing;
use super::agree::claim::Claim;
use super::cache::Kind;
use super::forward::Destination;
use super::inquiry::Inquiry;
use super::message::{Call, Message};
use super::outbound::Outbound;
use super::place::Accepted;
use super::recall::View;
use super::receive::Part;
use super::relay::{Asked, Deadline};
use super::sender::Sender;
use super::upload::{self, Upload};
use crate::policy::plan::Route;
use crate::protocol::frame::Frame;
use crate::protocol::header;
use crate::protocol::method;
use crate::protocol::refusal::{HttpFault, Refusal};
use crate::protocol::version::{Era, Version};

/// A request that may go upstream. Each way to make one takes what only the stages before it can
/// have made: the accepted version, the headers that agree, the claim.
pub(super) struct Admitted {
    routing: Routing,
    body: Outbound,
    awaited: Awaited,
    asked: Asked,
    /// What is asked for, where memory may have it or the answer is read.
    pub(super) wanted: Option<Box<Wanted>>,
}

/// A request for something that may be kept. No other answer leaves otherwise than it came.
pub(super) struct Wanted {
    /// What it asks for.
    pub(super) kind: Kind,
    /// Its era.
    pub(super) era: Era,
    /// Its version, if it is one that we know.
    pub(super) version: Option<Version>,
    /// Its message, where that is at hand.
    pub(super) frame: Option<Frame>,
    /// How its answer leaves.
    pub(super) view: View,
}

impl Wanted {
    /// What `call` wants of `route`, if that is anything of this kind.
    #[must_use]
    pub(super) fn of(call: &Call<'_>, frame: Option<&Frame>, route: &Arc<Route>) -> Option<Wanted> {
        let kind = Kind::of(call.method, call.era).filter(|_| call.is_request)?;
        Some(Wanted {
            kind,
            era: call.era,
            version: call.version,
            frame: frame.cloned(),
            view: View::of(call, route),
        })
    }
}

/// What is awaited of a request that was sent.
pub(super) struct Awaited {
    /// The era.
    pub(super) era: Era,
    /// The exchange's half of a body that streams.
    pub(super) upload: Option<Upload>,
    /// What its answer is read for.
    pub(super) reading: Reading,
}

/// What an answer is read for before it goes on.
pub(super) enum Reading {
    /// Nothing: it passes as it comes.
    Nothing,
    /// What the server tells of changes.
    Changes,
    /// Whether the server takes the headers of its arguments for others than we do.
    Call,
    /// The version that the server chose.
    Handshake,
    /// Whether this session has ended.
    EndOfSession(HeaderValue),
}

impl Reading {
    /// What the answer to a message is read for.
    #[must_use]
    fn of(call: &Call<'_>) -> Reading {
        match (call.era, call.method) {
            (Era::Legacy, method::INITIALIZE) if call.is_request => Reading::Handshake,
            (Era::Modern, method::LISTEN) => Reading::Changes,
            (Era::Modern, method::CALL) => Reading::Call,
            _ => Reading::Nothing,
        }
    }
}

impl Admitted {
    /// The message in `frame`, which was read and judged.
    #[must_use]
    pub(super) fn by_message(
        message: &Message<'_>,
        frame: &Frame,
        accepted: &Accepted,
        routing: Routing,
        route: &Arc<Route>,
        deadline: Option<Deadline>,
    ) -> Admitted {
        let call = message.call(accepted);
        Admitted {
            wanted: Wanted::of(&call, Some(frame), route).map(Box::new),
            routing,
            body: Outbound::Whole(frame.body().clone()),
            asked: Asked::by(&call, frame.shared_id(), deadline),
            awaited: Awaited {
                era: call.era,
                upload: None,
                reading: Reading::of(&call),
            },
        }
    }

    /// A message that is too large to be read first: admitted by what its headers claim, and held
    /// against them while it passes.
    ///
    /// # Errors
    /// What its beginning is refused for.
    pub(super) async fn by_claim(
        claim: Claim,
        route: &Arc<Route>,
        part: Part,
        deadline: Option<Deadline>,
        inquiry: &mut Inquiry<'_>,
    ) -> Result<Admitted, Refusal> {
        let Inquiry { exchange, to, .. } = inquiry;
        let call = claim.call();
        let era = call.era;
        exchange.streamed();
        let (routing, reading) = (claim.routing(), Reading::of(&call));
        let asked = Asked::by(&call, None, deadline);
        let wanted = Wanted::of(&call, None, route).map(Box::new);
        let begun = upload::begin(claim, route, part, exchange.receiving()).await;
        let (upload, body) = begun.map_err(|refused| refused.tell(to))?;
        to.id = upload.id();
        Ok(Admitted {
            routing,
            body: Outbound::Streamed(body),
            awaited: Awaited {
                era,
                upload: Some(upload),
                reading,
            },
            asked,
            wanted,
        })
    }

    /// A request without a body: GET, which opens a legacy server's stream, or DELETE, which ends a
    /// legacy session.
    #[must_use]
    pub(super) fn bodiless(head: &Parts, accepted: &Accepted, routing: Routing) -> Admitted {
        let reading = match head.headers.get(header::SESSION_ID) {
            Some(id) if head.method == Method::DELETE => Reading::EndOfSession(id.clone()),
            Some(_) | None => Reading::Changes,
        };
        Admitted {
            routing,
            body: Outbound::Whole(Bytes::new()),
            awaited: Awaited {
                era: accepted.era(),
                upload: None,
                reading,
            },
            asked: Asked::by_bodiless(&head.method),
            wanted: None,
        }
    }

    /// When its whole answer must be there.
    #[must_use]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asked.deadline.map(|deadline| deadline.at)
    }

    /// The request to `destination` that it becomes with its head, what is awaited of that, and what
    /// the way of its answer depends on.
    ///
    /// # Errors
    /// [`HttpFault::TargetTooLong`].
    pub(super) fn depart(
        self,
        head: Parts,
        destination: &Destination,
        sender: &Sender,
    ) -> Result<(Request<Outbound>, Awaited, Asked), HttpFault> {
        let Admitted {
            routing,
            body,
            awaited,
            asked,
            wanted: _,
        } = self;
        let request = destination.request(head, body, routing, awaited.era, Some(sender))?;
        Ok((request, awaited, asked))
    }
}
