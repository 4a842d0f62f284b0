//! What may go upstream, and what its answer will be read for.

use std::sync::Arc;

use http::HeaderValue;

use super::agree::Routing;
use super::claim::Claim;
use super::message::Call;
use super::outbound::Outbound;
use super::receive::Part;
use super::relay::Asked;
use super::upload::{self, Upload};
use crate::observe::Exchange;
use crate::policy::plan::Route;
use crate::protocol::method;
use crate::protocol::refusal::{Addressee, Refusal};
use crate::protocol::version::Era;

/// A request that may go upstream.
pub(super) struct Admitted {
    /// The era.
    pub(super) era: Era,
    /// Its routing headers.
    pub(super) routing: Routing,
    /// Its body.
    pub(super) body: Outbound,
    /// The exchange's half of a body that streams.
    pub(super) upload: Option<Upload>,
    /// What its answer is read for.
    pub(super) reading: Reading,
    /// What the way of its answer depends on.
    pub(super) asked: Asked,
}

/// What an answer is read for before it goes on.
pub(super) enum Reading {
    /// Nothing: it passes as it comes.
    Nothing,
    /// The versions that the server offers.
    Discovery,
    /// The version that the server chose.
    Handshake,
    /// Whether this session has ended.
    EndOfSession(HeaderValue),
}

impl Reading {
    /// What the answer to a message is read for.
    #[must_use]
    pub(super) fn of(call: &Call<'_>) -> Reading {
        match (call.era, call.method) {
            (Era::Modern, method::DISCOVER) => Reading::Discovery,
            (Era::Legacy, method::INITIALIZE) if call.is_request => Reading::Handshake,
            _ => Reading::Nothing,
        }
    }
}

impl Admitted {
    /// A message that is too large to be read first: admitted by what its headers claim, and held
    /// against them while it passes.
    ///
    /// # Errors
    /// What its beginning is refused for.
    pub(super) async fn by_claim(
        claim: Claim,
        route: &Arc<Route>,
        part: Part,
        exchange: &mut Exchange,
        to: &mut Addressee,
    ) -> Result<Admitted, Refusal> {
        let call = claim.call();
        let era = call.era;
        to.era = Some(era);
        to.probe = call.method == method::DISCOVER;
        exchange.called(call.method, call.name);
        exchange.placed(era, call.version);
        exchange.streamed();
        let (routing, reading) = (claim.routing(), Reading::of(&call));
        let asked = Asked::by(&call, None, &route.deadline);
        let begun = upload::begin(claim, route, part, exchange.receiving()).await;
        let (upload, body) = begun.map_err(|refused| refused.tell(to))?;
        to.id = upload.id();
        Ok(Admitted {
            era,
            routing,
            body: Outbound::Guarded(body),
            upload: Some(upload),
            reading,
            asked,
        })
    }
}
