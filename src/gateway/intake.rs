//! How many requests are in flight, and which of them are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::request::Parts;
use http_body::Body;

use crate::policy::plan::Bounds;
use crate::protocol::refusal::OverloadFault;

/// Counts the requests in flight.
#[derive(Debug)]
pub(super) struct Intake {
    in_flight: Arc<AtomicUsize>,
    requests_max: usize,
}

/// A request in flight, until its answer has been sent or dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

/// Stands among the extensions of a request that is one too many.
#[derive(Clone, Copy, Debug)]
struct Surplus {
    requests_max: usize,
    /// Twice as many are in flight as there may be.
    is_hopeless: bool,
}

impl Surplus {
    fn fault(self) -> OverloadFault {
        OverloadFault::Requests {
            max: self.requests_max,
        }
    }
}

impl Intake {
    pub(super) fn new(requests_max: usize) -> Intake {
        Intake {
            in_flight: Arc::default(),
            requests_max,
        }
    }

    /// Takes a seat for a request, and marks one that is too many. It is not refused at once: a
    /// legacy client is told in band, under its id, and `server/discover` is answered up to twice the
    /// limit, because clients take its refusal for a word about the era of the server.
    pub(super) fn seat(&self, head: &mut Parts) -> Seat {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before >= self.requests_max {
            head.extensions.insert(Surplus {
                requests_max: self.requests_max,
                is_hopeless: before >= self.requests_max.saturating_mul(2),
            });
        }
        Seat(self.in_flight.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Refuses what is too many whatever it asks.
///
/// # Errors
/// Twice as many requests as there may be are in flight.
pub(super) fn check_hopeless(head: &Parts) -> Result<(), OverloadFault> {
    match head.extensions.get::<Surplus>() {
        Some(surplus) if surplus.is_hopeless => Err(surplus.fault()),
        Some(_) | None => Ok(()),
    }
}

/// Refuses what is too many and would have to be read at some length before it is known who asks
/// what.
///
/// # Errors
/// More requests than there may be are in flight, and the body is not announced as a small one.
pub(super) fn check_size(
    head: &Parts,
    body: &impl Body,
    bounds: &Bounds,
) -> Result<(), OverloadFault> {
    let announced = body.size_hint().exact();
    if announced.is_some_and(|length| length <= bounds.buffer_bytes as u64) {
        return Ok(());
    }
    check(head)
}

/// Refuses what is too many, unless it is never shed.
///
/// # Errors
/// More requests than there may be are in flight.
pub(super) fn check(head: &Parts) -> Result<(), OverloadFault> {
    match head.extensions.get::<Surplus>() {
        Some(surplus) => Err(surplus.fault()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;

    use super::*;

    #[test]
    fn seats_come_back_and_twice_the_limit_is_the_end() {
        let intake = Intake::new(2);
        let body = |length: usize| Full::new(Bytes::from(vec![b' '; length]));
        let bounds = Bounds::default();
        let take = || {
            let (mut head, ()) = Request::new(()).into_parts();
            let seat = intake.seat(&mut head);
            let small = check_size(&head, &body(bounds.buffer_bytes), &bounds).is_ok();
            let large = check_size(&head, &body(bounds.buffer_bytes + 1), &bounds).is_ok();
            let any = check(&head).is_ok();
            (seat, [check_hopeless(&head).is_ok(), small, large, any])
        };
        let seats: Vec<_> = (0..5).map(|_| take()).collect();
        let checks: Vec<_> = seats.iter().map(|(_, checks)| *checks).collect();
        assert_eq!(checks[..2], [[true; 4]; 2]);
        assert_eq!(checks[2..4], [[true, true, false, false]; 2]);
        assert!(!checks[4][0]);
        drop(seats);
        assert_eq!(intake.in_flight.load(Ordering::Relaxed), 0);
        assert_eq!(take().1, [true; 4]);
    }
}
