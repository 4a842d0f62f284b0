//! Refusals because of the server behind us.

use std::time::Duration;

use http::HeaderValue;

use super::telling::{Telling, quoted};

/// What went wrong behind us. `upstream` is the server's name in the policy.
#[derive(Debug)]
pub enum UpstreamFault {
    /// It could not be reached, or broke off before the head of its answer.
    Failed {
        /// Its name.
        upstream: String,
        /// What failed, in general words.
        what: &'static str,
        /// The cause, for the log only.
        detail: String,
    },
    /// It took too long.
    Timeout {
        /// Its name.
        upstream: String,
        /// The bound's name in the policy.
        limit: &'static str,
        /// The bound.
        max: Duration,
    },
    /// It does not give this caller what is needed to judge the call.
    Refused {
        /// Its name.
        upstream: String,
        /// The status that it refuses with: 401, 403, or 404 for a legacy session that has ended.
        status: u16,
        /// What it asks for to sign in.
        challenge: Option<HeaderValue>,
    },
    /// An answer that had to be read could not be.
    Unreadable {
        /// Its name.
        upstream: String,
        /// What could not be read.
        what: &'static str,
    },
}

impl UpstreamFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            // By status in every era: it is what clients sign in by, or begin another session.
            UpstreamFault::Refused {
                upstream,
                status,
                challenge,
            } => {
                return Telling::own(
                    "upstream_refused",
                    *status,
                    format!(
                        "upstream {} does not list its tools to this caller",
                        quoted(upstream)
                    ),
                )
                .upstream(upstream)
                .challenge(challenge.clone())
                .hint("sign in as the server asks, or begin another session");
            }
            UpstreamFault::Failed { upstream, what, .. } => Telling::own(
                "upstream_failed",
                502,
                format!("upstream {} {what}", quoted(upstream)),
            )
            .upstream(upstream)
            .hint("see the cause in the gateway's access log"),
            UpstreamFault::Timeout {
                upstream,
                limit,
                max,
            } => Telling::own(
                "upstream_timeout",
                504,
                format!("upstream {} exceeded {limit} ({max:?})", quoted(upstream)),
            )
            .upstream(upstream)
            .limit(limit),
            UpstreamFault::Unreadable { upstream, what } => Telling::own(
                "upstream_unreadable",
                502,
                format!("upstream {} sent {what}", quoted(upstream)),
            )
            .upstream(upstream),
        }
        .in_band()
    }

    pub(super) fn detail(&self) -> Option<&str> {
        match self {
            UpstreamFault::Failed { detail, .. } => Some(detail),
            UpstreamFault::Timeout { .. }
            | UpstreamFault::Refused { .. }
            | UpstreamFault::Unreadable { .. } => None,
        }
    }
}
