//! What became of a request on its way through the cache: for `Cache-Status` (RFC 9211) and the log.

use std::fmt;

/// Why a request is not answered from memory, or an answer not kept there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gateway) enum Why {
    /// The route keeps nothing.
    Off,
    /// The request is of a legacy version, and the policy does not say how those are kept.
    Legacy,
    /// Only requests of one session may be given the answer, and this one names none.
    NoSession,
    /// It carries `inputResponses` or `requestState`.
    Input,
    /// Its parameters are none that a key can be made of.
    Params,
    /// As many requests wait for the same answer as may.
    Crowded,
    /// The answer that it waited for did not come in time.
    Late,
    /// The answer is for its caller alone.
    Private,
    /// The answer is not to be used again.
    TtlZero,
    /// The answer does not say, or not as the specification has it, how long and by whom it may be
    /// used again.
    Hints,
    /// The answer is an error.
    Error,
    /// The answer asks for input.
    InputRequired,
    /// The answer is longer than what may be kept.
    TooLarge,
    /// It changed while it was fetched, or a newer answer came.
    Voided,
    /// The answer broke off.
    Truncated,
    /// The answer cannot be read one way only.
    Unreadable,
}

impl Why {
    /// The word for it, in the log and as `detail` of `Cache-Status`.
    #[must_use]
    pub(in crate::gateway) const fn word(self) -> &'static str {
        match self {
            Why::Off => "off",
            Why::Legacy => "legacy",
            Why::NoSession => "no_session",
            Why::Input => "input",
            Why::Params => "params",
            Why::Crowded => "crowded",
            Why::Late => "late",
            Why::Private => "private",
            Why::TtlZero => "ttl_zero",
            Why::Hints => "hints",
            Why::Error => "error",
            Why::InputRequired => "input_required",
            Why::TooLarge => "too_large",
            Why::Voided => "voided",
            Why::Truncated => "truncated",
            Why::Unreadable => "unreadable",
        }
    }
}

/// What became of a request on its way through the cache. Times are whole seconds until the end of
/// freshness, rounded down; below zero behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Status {
    /// It went upstream, past the cache.
    Bypass(Why),
    /// It was answered from memory.
    Hit {
        /// How long the answer is fresh.
        ttl: i64,
    },
    /// It was given the answer to another request, which went upstream.
    Waited {
        /// How long the answer is fresh.
        ttl: i64,
    },
    /// It went upstream.
    Fetched {
        /// Whether there was an answer in memory that was not fresh any more.
        had_stale: bool,
        /// How long the answer that came is fresh, or why it was not kept; absent where that was
        /// not known yet when the answer began.
        kept: Option<Result<i64, Why>>,
    },
    /// It went upstream in vain, and was given what was in memory.
    Stale {
        /// How long the answer is fresh: no more than zero.
        ttl: i64,
        /// The status that came from upstream, if one came.
        upstream: Option<u16>,
    },
}

impl Status {
    /// The word for the log.
    #[must_use]
    pub(in crate::gateway) const fn word(self) -> &'static str {
        match self {
            Status::Bypass(_) => "bypass",
            Status::Hit { .. } => "hit",
            Status::Waited { .. } => "wait",
            Status::Fetched { .. } => "miss",
            Status::Stale { .. } => "stale",
        }
    }

    /// Why it was not answered from memory or its answer not kept.
    #[must_use]
    pub(in crate::gateway) const fn why(self) -> Option<Why> {
        match self {
            Status::Bypass(why)
            | Status::Fetched {
                kept: Some(Err(why)),
                ..
            } => Some(why),
            _ => None,
        }
    }
}

/// The value of `Cache-Status`, with us as its one member. `hit` and `fwd` exclude each other: what
/// was served stale after a fetch in vain was forwarded (RFC 9211, 2.1 and 2.2).
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("weirgate")?;
        match *self {
            Status::Bypass(why) => write!(f, "; fwd=bypass; detail={}", why.word()),
            Status::Hit { ttl } => write!(f, "; hit; ttl={ttl}"),
            Status::Waited { ttl } => write!(f, "; fwd=uri-miss; collapsed; ttl={ttl}"),
            Status::Fetched { had_stale, kept } => {
                f.write_str(match had_stale {
                    true => "; fwd=stale",
                    false => "; fwd=uri-miss",
                })?;
                match kept {
                    None => Ok(()),
                    Some(Ok(ttl)) => write!(f, "; stored; ttl={ttl}"),
                    Some(Err(why)) => write!(f, "; detail={}", why.word()),
                }
            }
            Status::Stale { ttl, upstream } => {
                f.write_str("; fwd=stale")?;
                if let Some(status) = upstream {
                    write!(f, "; fwd-status={status}")?;
                }
                write!(f, "; ttl={ttl}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_words() {
        let fetched = |had_stale, kept| Status::Fetched { had_stale, kept };
        for (status, value, word, why) in [
            (
                Status::Hit { ttl: 29 },
                "weirgate; hit; ttl=29",
                "hit",
                None,
            ),
            (
                Status::Waited { ttl: 300 },
                "weirgate; fwd=uri-miss; collapsed; ttl=300",
                "wait",
                None,
            ),
            (
                fetched(false, Some(Ok(300))),
                "weirgate; fwd=uri-miss; stored; ttl=300",
                "miss",
                None,
            ),
            (
                fetched(true, Some(Err(Why::Private))),
                "weirgate; fwd=stale; detail=private",
                "miss",
                Some(Why::Private),
            ),
            (fetched(false, None), "weirgate; fwd=uri-miss", "miss", None),
            (
                Status::Bypass(Why::Input),
                "weirgate; fwd=bypass; detail=input",
                "bypass",
                Some(Why::Input),
            ),
            (
                Status::Stale {
                    ttl: -3,
                    upstream: Some(503),
                },
                "weirgate; fwd=stale; fwd-status=503; ttl=-3",
                "stale",
                None,
            ),
            (
                Status::Stale {
                    ttl: -3,
                    upstream: None,
                },
                "weirgate; fwd=stale; ttl=-3",
                "stale",
                None,
            ),
        ] {
            assert_eq!(status.to_string(), value);
            assert_eq!((status.word(), status.why()), (word, why), "{value}");
        }
    }
}
