//! What was asked for, as far as the way of the answer depends on it.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::time::Instant;

use crate::gateway::message::Call;
use crate::policy::plan::{Deadlines, Upstream};
use crate::protocol::method;
use crate::protocol::refusal::UpstreamFault;

/// A request, to whoever passes its answer on.
#[derive(Debug)]
pub(in crate::gateway) struct Asked {
    /// The raw id, if it has one.
    pub(super) id: Option<Bytes>,
    /// What kind of answer is asked for.
    pub(super) kind: Kind,
    /// When the whole answer must be there.
    pub(in crate::gateway) deadline: Option<Deadline>,
}

/// The kinds of answers, by what ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its last message.
    Response,
    /// Nothing: a subscription.
    Subscription,
    /// Nothing: the stream of a legacy server's own messages.
    ServerStream,
}

/// When a whole answer must be there.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Deadline {
    /// The moment.
    pub(in crate::gateway) at: Instant,
    /// The key of the policy that sets it.
    pub(super) limit: &'static str,
    /// What it allows.
    pub(super) max: Duration,
}

impl Deadline {
    /// That of a call which is admitted now, if it has one.
    #[must_use]
    pub(in crate::gateway) fn of(call: &Call<'_>, deadlines: &Deadlines) -> Option<Deadline> {
        if !call.is_request || call.method == method::LISTEN {
            return None;
        }
        let tool = match call.method {
            method::CALL => call.name,
            _ => None,
        };
        deadlines.of(tool).map(|(limit, max)| Deadline {
            at: Instant::now() + max,
            limit,
            max,
        })
    }

    /// What is told of an answer of `upstream` that is late.
    pub(in crate::gateway) fn fault(&self, upstream: &Upstream) -> UpstreamFault {
        UpstreamFault::Timeout {
            upstream: upstream.name.clone(),
            limit: self.limit,
            max: self.max,
        }
    }
}

impl Asked {
    /// By a request that nobody read.
    pub(in crate::gateway) const UNREAD: Asked = Asked {
        id: None,
        kind: Kind::Response,
        deadline: None,
    };

    /// By a message that asks for this, with this id, if it has one, until its deadline.
    pub(in crate::gateway) fn by(
        call: &Call<'_>,
        id: Option<Bytes>,
        deadline: Option<Deadline>,
    ) -> Asked {
        let kind = match call.method {
            method::LISTEN => Kind::Subscription,
            _ => Kind::Response,
        };
        Asked { id, kind, deadline }
    }

    /// It has this id, which came behind what was asked for.
    pub(in crate::gateway) fn answer_to(&mut self, id: Option<Bytes>) {
        self.id = id;
    }

    /// By a request without a message.
    pub(in crate::gateway) fn by_bodiless(http_method: &Method) -> Asked {
        Asked {
            kind: match *http_method == Method::GET {
                true => Kind::ServerStream,
                false => Kind::Response,
            },
            ..Asked::UNREAD
        }
    }
}
