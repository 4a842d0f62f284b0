//! Who asks, and what is known of the request so far: what every stage may add to, and what is left
//! of a request once it is answered.

use http::HeaderMap;
use http::request::Parts;

use super::cors::{Cors, Origin};
use super::receive;
use super::sender::Sender;
use crate::net::received::Received;
use crate::observe::Exchange;
use crate::policy::plan::Bounds;
use crate::protocol::refusal::{Addressee, Refusal};

/// One request on its way through the stages.
pub(super) struct Inquiry<'g> {
    /// Who sent it.
    pub(super) sender: Sender,
    /// Its record, which closes when this is dropped.
    pub(super) exchange: Exchange,
    /// Whom a refusal of it is told to.
    pub(super) to: Addressee,
    /// The page that it comes from, once its route has let that in.
    pub(super) page: Option<Page<'g>>,
}

/// The page of a browser that a request comes from and that its route has let in: it may read
/// whatever is answered.
pub(super) struct Page<'g> {
    /// What the pages of the route may do.
    pub(super) cors: &'g Cors,
    /// Where the page is from.
    pub(super) origin: Origin,
}

impl<'g> Inquiry<'g> {
    /// A request of `sender` with these headers, of which nothing else is known yet.
    #[must_use]
    pub(super) fn new(sender: Sender, mut exchange: Exchange, headers: &HeaderMap) -> Inquiry<'g> {
        exchange.client(sender.named());
        Inquiry {
            sender,
            exchange,
            to: Addressee::of(headers),
            page: None,
        }
    }

    /// The request is answered by its head alone: what comes of its body is drained, or the
    /// connection ends with the answer.
    pub(super) fn leave_unread(&mut self, head: &Parts, body: Received, bounds: &Bounds) {
        self.to.closes = !receive::drain_unread(head, body, bounds);
    }

    /// The same of a request that is refused.
    pub(super) fn refuse_unread(
        &mut self,
        head: &Parts,
        body: Received,
        bounds: &Bounds,
        why: impl Into<Refusal>,
    ) -> Refusal {
        self.leave_unread(head, body, bounds);
        why.into()
    }
}
