//! Refusals because there is too much at once, whatever is asked.

use super::telling::Telling;

/// When whoever was refused may try again, in seconds: what is in flight is short, mostly.
const RETRY_AFTER: u32 = 1;

/// What is said on a connection that is one too many, before anything is read of it, in HTTP/1.1.
pub const CONNECTION_REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 47\r\n\r\nthis gateway has as many connections as it may\n";

/// What there is too much of.
#[derive(Debug)]
pub enum OverloadFault {
    /// Requests in flight.
    Requests {
        /// The bound.
        max: usize,
    },
}

impl OverloadFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            OverloadFault::Requests { max } => Telling::own(
                "overloaded",
                503,
                format!("as many requests are in flight as listen.requests_max allows ({max})"),
            )
            .limit("listen.requests_max")
            .hint("try again after the time that Retry-After says"),
        }
        .retry_after(RETRY_AFTER)
        .in_band()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::refusal::NOT_TLS;

    #[test]
    fn the_canned_answers_are_as_long_as_they_say() {
        for answer in [CONNECTION_REFUSED, NOT_TLS] {
            let text = std::str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())));
        }
        let text = std::str::from_utf8(CONNECTION_REFUSED).unwrap();
        assert!(text.contains(&format!("Retry-After: {RETRY_AFTER}\r\n")));
    }
}
