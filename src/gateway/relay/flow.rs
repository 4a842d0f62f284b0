//! The upstream's answer in motion: piece by piece, with an eye on the clock and on the policy.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, SizeHint};
use tokio::time::Instant;

use super::StreamFault;
use super::events::Events;
use super::messages::{Leaving, Messages};
use super::patience::{Due, Patience};
use crate::gateway::outbound::Lease;
use crate::net::alarm::Alarm;
use crate::net::upstream::Inbound;
use crate::observe::End;

/// An answer of the upstream on its way.
pub(in crate::gateway) struct Flow {
    /// What was held back of it to be read.
    held: Option<Bytes>,
    /// The rest, and the connection that it comes from; absent once the answer has ended. Dropping
    /// them ends what the upstream is doing.
    upstream: Option<(Inbound, Lease)>,
    /// Whether the end of the upstream's connection is the only end that it has.
    ends_by_close: bool,
    /// Its messages, where they are read.
    messages: Option<Box<Messages>>,
    watch: Option<Watch>,
    /// The end that we put to it, if it was not the upstream.
    ended: Option<End>,
}

/// What is watched while it flows.
struct Watch {
    patience: Patience,
    /// Set when the upstream is waited for, which small answers mostly are not.
    alarm: Option<Alarm>,
    events: Option<Box<Events>>,
}

/// What comes next of an answer.
pub(super) enum Step {
    /// This piece.
    Data(Bytes),
    /// Its end, as the upstream has it.
    End,
    /// An end of our own, with this as the last piece.
    Ended(Option<Bytes>, End),
    /// No end: it breaks off.
    Broken(StreamFault),
}

impl Flow {
    /// The answer that begins with `held` and goes on with `rest`.
    pub(super) fn new(
        held: Option<Bytes>,
        rest: Inbound,
        lease: Lease,
        ends_by_close: bool,
    ) -> Flow {
        Flow {
            held,
            upstream: Some((rest, lease)),
            ends_by_close,
            messages: None,
            watch: None,
            ended: None,
        }
    }

    /// From now on its messages are read.
    pub(super) fn read(&mut self, messages: Messages) {
        self.messages = Some(Box::new(messages));
    }

    /// From now on it is watched.
    pub(super) fn watch(&mut self, patience: Patience, events: Option<Events>) {
        self.watch = Some(Watch {
            patience,
            alarm: None,
            events: events.map(Box::new),
        });
    }

    /// The next piece; none at the end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, StreamFault>>> {
        let step = loop {
            match ready!(self.poll_step(cx)) {
                // All of it is held back until its message is complete.
                Step::Data(data) if data.is_empty() && self.messages.is_some() => {}
                step => break step,
            }
        };
        if let Step::Ended(..) | Step::Broken(_) = step {
            // The client may take its time to hear of it; the upstream stops working at once.
            self.upstream = None;
        }
        Poll::Ready(match step {
            Step::Data(data) => Some(Ok(data)),
            Step::End => None,
            Step::Ended(last, end) => {
                self.ended = Some(end);
                last.map(Ok)
            }
            Step::Broken(fault) => {
                self.ended = Some(fault.end());
                Some(Err(fault))
            }
        })
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(self.data(held, cx));
        }
        let Some((rest, _)) = &mut self.upstream else {
            return Poll::Ready(Step::End);
        };
        if let Some(step) = self.watch.as_mut().and_then(Watch::interrupt) {
            return Poll::Ready(step);
        }
        match Pin::new(rest).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                Poll::Ready(self.data(data, cx))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Step::Broken(StreamFault::Upstream(error)))
            }
            Poll::Ready(None) if self.ends_by_close && self.end() == End::HalfEvent => {
                // No server closes there that has said all it had to say.
                let error = "the connection ended within an event".into();
                Poll::Ready(Step::Broken(StreamFault::Upstream(error)))
            }
            Poll::Ready(None) => {
                let messages = self.messages.as_mut();
                Poll::Ready(match messages.and_then(|messages| messages.end()) {
                    None => Step::End,
                    last => Step::Ended(last, End::UpstreamFailed),
                })
            }
            Poll::Pending => match &mut self.watch {
                Some(watch) => watch.poll_wait(cx),
                None => Poll::Pending,
            },
        }
    }

    fn data(&mut self, data: Bytes, cx: &mut Context<'_>) -> Step {
        let Leaving { bytes: data, ends } = match &mut self.messages {
            Some(messages) => messages.pass(data),
            None => Leaving::all(data),
        };
        let data = match &mut self.watch {
            Some(watch) => watch.pass(data, cx),
            None => data,
        };
        match ends {
            true => Step::Ended(Some(data), End::UpstreamFailed),
            false => Step::Data(data),
        }
    }

    /// Everything was passed on: unless we ended it, the connection serves the next exchange. Gives
    /// how it ended.
    pub(super) fn complete(&mut self) -> End {
        if let Some((_, lease)) = self.upstream.take() {
            lease.give_back();
        }
        self.ended.unwrap_or(self.end())
    }

    /// How an answer ends that its upstream ends here.
    fn end(&self) -> End {
        let events = self.watch.as_ref().and_then(|watch| watch.events.as_ref());
        events.map_or(End::Complete, |events| events.end())
    }

    /// Whether messages may leave otherwise than they came.
    fn is_edited(&self) -> bool {
        let messages = self.messages.as_ref();
        messages.is_some_and(|messages| messages.edits())
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let ended = |(rest, _): &(Inbound, Lease)| rest.is_end_stream();
        // What is held back of a message, or is said in its place, follows the end of the upstream.
        let open = self.is_edited() && self.upstream.is_some();
        self.held.is_none() && !open && self.upstream.as_ref().is_none_or(ended)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, Bytes::len) as u64;
        let Some((rest, _)) = &self.upstream else {
            return SizeHint::with_exact(held);
        };
        if self.is_edited() {
            return SizeHint::default();
        }
        // The length of the rest is what the upstream claims.
        let mut hint = rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(hint.lower().saturating_add(held));
        hint
    }
}

impl Watch {
    /// What comes before the next piece is asked for: a deadline does not wait for a pause, nor
    /// does the end of a stream that is busy.
    fn interrupt(&mut self) -> Option<Step> {
        if let Some(step) = self.events.as_mut().and_then(|events| events.close()) {
            return Some(step);
        }
        let limit = self.patience.overdue(Instant::now)?;
        Some(self.overdue(limit))
    }

    /// A piece passes.
    fn pass(&mut self, data: Bytes, cx: &mut Context<'_>) -> Bytes {
        self.patience.heard();
        match &mut self.events {
            Some(events) => {
                // Looked at here too, because a busy stream never pauses.
                events.poll_closing(cx);
                events.pass(data)
            }
            None => data,
        }
    }

    /// Nothing has come.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(events) = &mut self.events {
            events.poll_closing(cx);
            if let Some(step) = events.close() {
                return Poll::Ready(step);
            }
        }
        let patience = &mut self.patience;
        patience.wait(Instant::now);
        let alarm = self
            .alarm
            .get_or_insert_with(|| Alarm::new(patience.next(Instant::now())));
        loop {
            ready!(alarm.poll(cx));
            let now = Instant::now();
            let due = patience.due(now);
            alarm.reset(patience.next(now));
            match due {
                Due::Nothing => {}
                Due::KeepAlive => {
                    let events = self.events.as_mut();
                    if let Some(comment) = events.and_then(|events| events.comment()) {
                        return Poll::Ready(Step::Data(comment));
                    }
                }
                Due::Silence(limit) => {
                    return Poll::Ready(Step::Broken(StreamFault::Limit(limit)));
                }
                Due::Deadline(limit) => return Poll::Ready(self.overdue(limit)),
            }
        }
    }

    /// The end of an answer that takes too long.
    fn overdue(&mut self, limit: &'static str) -> Step {
        let events = self.events.as_mut();
        match events.and_then(|events| events.overdue()) {
            Some(last) => Step::Ended(Some(last), End::Limit(limit)),
            None => Step::Broken(StreamFault::Limit(limit)),
        }
    }
}
