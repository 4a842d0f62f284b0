//! Answers from memory: what may be kept of upstreams' answers, for whom, for how long, and who of
//! those that ask the same at once goes upstream.
//!
//! A request that may be answered from memory is a [`Question`]. The [`Store`] has a fresh
//! [`Entry`] for it, or lets this request fetch the answer with a [`Fill`] in its hand, or lets it
//! wait for the answer to another one. A [`Fill`] that is dropped, because its request was given
//! up, passes to one of those that wait. What an upstream tells of changes goes to its [`Changes`],
//! which entries and fills begun before do not outlive.
//!
//! Nothing here knows a connection or reads a clock.

mod audience;
mod change;
mod entry;
mod flight;
mod key;
mod kind;
mod place;
mod status;
mod store;

pub(super) use audience::is_harmless;
pub(super) use change::{Change, Changes};
pub(super) use entry::Entry;
pub(super) use flight::{Fill, Outcome};
pub(super) use key::Asking;
pub(super) use kind::Kind;
pub(super) use status::{Status, Why};
pub(super) use store::{Filter, Look, Store};

#[cfg(test)]
use self::{audience::Audience, flight::Waiting, key::Question, store::Hit};

#[cfg(test)]
mod tests;
