//! What is known of an answer that is a stream of events: where in it something can be put, and
//! with which words we end it.

use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::asked::{Asked, Kind};
use super::flow::Step;
use super::{Drain, StreamFault};
use crate::observe::End;
use crate::policy::plan::{Route, StreamEnd};
use crate::protocol::event::{self, Boundary};
use crate::protocol::refusal::{self, Refusal};
use crate::protocol::subscription;

/// The events of one answer.
pub(super) struct Events {
    /// Where they stand; absent where their bytes are coded.
    boundary: Option<Boundary>,
    /// Whether something can be put between them.
    is_open: bool,
    /// Whether a response must be among them.
    has_response: bool,
    /// The last event where the answer is late.
    overdue: Option<Bytes>,
    closing: Option<Closing>,
}

/// What form a stream of events has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// It can have more events than the upstream sends.
    Open,
    /// The number of its bytes was told.
    Counted,
    /// Its bytes are coded.
    Coded,
}

/// The end of a stream that has none of its own.
struct Closing {
    begins: Pin<Box<WaitForCancellationFutureOwned>>,
    begun: bool,
    how: How,
}

enum How {
    /// At once, and for no good reason.
    Break,
    /// In good order between two events, with this one as the last.
    End(Option<Bytes>),
}

impl Events {
    /// The events of the answer to what was `asked`.
    pub(super) fn new(form: Form, asked: &Asked, route: &Route, drain: &Drain) -> Events {
        let is_open = form == Form::Open;
        let id = asked.id.as_deref();
        let overdue = asked.deadline.map(|deadline| {
            let refusal = Refusal::from(deadline.fault(&route.upstream));
            refusal::event(&refusal.telling(), id).into()
        });
        let closing = (asked.kind != Kind::Response).then(|| Closing {
            begins: Box::pin(drain.begins.clone().cancelled_owned()),
            begun: false,
            how: match drain.streams {
                StreamEnd::End if is_open => How::End(closure(asked)),
                // Nobody would know the end of such a stream from one that is cut off.
                StreamEnd::End | StreamEnd::Break => How::Break,
            },
        });
        Events {
            boundary: (form != Form::Coded).then(Boundary::default),
            is_open,
            has_response: asked.kind == Kind::Response && id.is_some(),
            overdue,
            closing,
        }
    }

    /// Follows a chunk, and gives what passes of it.
    pub(super) fn pass(&mut self, chunk: Bytes) -> Bytes {
        match &mut self.boundary {
            Some(boundary) => boundary.pass(chunk),
            None => chunk,
        }
    }

    /// A comment, if one can stand here.
    pub(super) fn comment(&mut self) -> Option<Bytes> {
        if !self.can_insert() {
            return None;
        }
        self.boundary.as_mut()?.insert();
        Some(Bytes::from_static(event::KEEP_ALIVE))
    }

    /// The event that says that the answer is late, if one can stand here.
    pub(super) fn overdue(&mut self) -> Option<Bytes> {
        self.overdue.take().filter(|_| self.can_insert())
    }

    /// How an answer ends that its upstream ends in good order. It passes as it is all the same: an
    /// upstream's answers are its own, and a reader may know what to make of them. That a stream of
    /// notifications alone lacks its response goes unnoticed, because nobody reads them here.
    pub(super) fn end(&self) -> End {
        match &self.boundary {
            Some(boundary) if boundary.is_in_event() => End::HalfEvent,
            Some(boundary) if self.has_response && !boundary.had_event() => End::NoResponse,
            Some(_) | None => End::Complete,
        }
    }

    /// Learns whether the process is about to end.
    pub(super) fn poll_closing(&mut self, cx: &mut Context<'_>) {
        if let Some(closing) = &mut self.closing
            && !closing.begun
        {
            closing.begun = closing.begins.as_mut().poll(cx).is_ready();
        }
    }

    /// The end of this stream, if it is to end and can do so here.
    pub(super) fn close(&mut self) -> Option<Step> {
        let can_insert = self.can_insert();
        let closing = self.closing.as_mut().filter(|closing| closing.begun)?;
        match &mut closing.how {
            How::Break => Some(Step::Broken(StreamFault::ShutDown)),
            How::End(last) if can_insert => Some(Step::Ended(last.take(), End::ShutDown)),
            How::End(_) => None,
        }
    }

    fn can_insert(&self) -> bool {
        self.is_open && self.boundary.as_ref().is_some_and(Boundary::is_between)
    }
}

/// The last event of a stream that ends in good order, if it has one.
fn closure(asked: &Asked) -> Option<Bytes> {
    let id = asked
        .id
        .as_deref()
        .filter(|_| asked.kind == Kind::Subscription)?;
    Some(event::message(&subscription::closure(id)).into())
}
