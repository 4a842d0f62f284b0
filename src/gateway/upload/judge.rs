//! What a body is judged by while it passes.

use bytes::Bytes;

use crate::gateway::agree::claim::{Agreement, Inspection, Refused};
use crate::gateway::receive;
use crate::policy::plan::Bounds;
use crate::protocol::refusal::Refusal;

/// The judge of one body.
#[derive(Debug)]
pub(super) enum Judge {
    /// It must say what its headers claim.
    Claimed(Box<Inspection>),
    /// Nobody reads it: only its length counts.
    Unread {
        /// How much has passed.
        passed: u64,
        /// What its route allows.
        bounds: Bounds,
    },
}

impl Judge {
    /// Reads the next piece and gives what of it may go on.
    ///
    /// # Errors
    /// Why the body is refused, whatever follows.
    pub(super) fn read(&mut self, piece: Bytes) -> Result<Bytes, Refused> {
        match self {
            Judge::Claimed(inspection) => inspection.read(piece),
            Judge::Unread { passed, bounds } => {
                *passed += piece.len() as u64;
                match receive::check_unread(*passed, bounds) {
                    Ok(()) => Ok(piece),
                    Err(fault) => Err(Refused::new(fault, None)),
                }
            }
        }
    }

    /// The body has ended. Gives the proof that it agrees with its claim, if it has one, and what was
    /// kept back of it.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn end(self) -> Result<(Option<Agreement>, Bytes), Refused> {
        match self {
            Judge::Claimed(inspection) => {
                let (agreement, tail) = inspection.end()?;
                Ok((Some(agreement), tail))
            }
            Judge::Unread { .. } => Ok((None, Bytes::new())),
        }
    }

    /// No more of it is read. Gives what is known to be wrong with it, or else `why`.
    pub(super) fn conclude(&self, why: Refusal) -> Refused {
        match self {
            Judge::Claimed(inspection) => inspection.conclude(why),
            Judge::Unread { .. } => Refused::new(why, None).closing(),
        }
    }

    /// What reads the body, if anything does.
    pub(super) fn inspection(&self) -> Option<&Inspection> {
        match self {
            Judge::Claimed(inspection) => Some(inspection),
            Judge::Unread { .. } => None,
        }
    }

    /// Whether it is refused whatever follows.
    pub(super) fn contradicts(&self) -> bool {
        self.inspection().is_some_and(Inspection::contradicts)
    }
}
