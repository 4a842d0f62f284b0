//! How many requests are in flight, and which of them are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::protocol::refusal::OverloadFault;

/// Counts the requests in flight.
#[derive(Debug)]
pub(super) struct Intake {
    in_flight: Arc<AtomicUsize>,
    requests_max: usize,
}

/// A request in flight, until its answer has been sent or dropped.
#[derive(Debug)]
pub(super) struct Seat {
    in_flight: Arc<AtomicUsize>,
    is_spare: bool,
    requests_max: usize,
}

impl Intake {
    pub(super) fn new(requests_max: usize) -> Intake {
        Intake {
            in_flight: Arc::default(),
            requests_max,
        }
    }

    /// Takes a seat for a request. Up to twice the limit there is one, because clients would take
    /// a refused `server/discover` for a word about the server's era; all others give it up.
    ///
    /// # Errors
    /// There is none left.
    pub(super) fn seat(&self) -> Result<Seat, OverloadFault> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let seat = Seat {
            in_flight: self.in_flight.clone(),
            is_spare: before >= self.requests_max,
            requests_max: self.requests_max,
        };
        if before >= self.requests_max.saturating_mul(2) {
            return Err(seat.fault());
        }
        Ok(seat)
    }
}

impl Seat {
    /// Whether only a request that is never shed may keep it.
    #[must_use]
    pub(super) fn is_spare(&self) -> bool {
        self.is_spare
    }

    /// Refuses any request but one that is never shed.
    ///
    /// # Errors
    /// The seat is a spare one.
    pub(super) fn check(&self) -> Result<(), OverloadFault> {
        match self.is_spare {
            true => Err(self.fault()),
            false => Ok(()),
        }
    }

    fn fault(&self) -> OverloadFault {
        OverloadFault::Requests {
            max: self.requests_max,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_come_back_and_twice_the_limit_is_the_end() {
        let intake = Intake::new(2);
        let seats: Vec<_> = (0..4).map(|_| intake.seat().unwrap()).collect();
        let spare: Vec<_> = seats.iter().map(Seat::is_spare).collect();
        assert_eq!(spare, [false, false, true, true]);
        assert!(seats[1].check().is_ok() && seats[2].check().is_err());
        for _ in 0..3 {
            assert!(intake.seat().is_err());
        }
        drop(seats);
        assert_eq!(intake.in_flight.load(Ordering::Relaxed), 0);
        assert!(!intake.seat().unwrap().is_spare());
    }
}
