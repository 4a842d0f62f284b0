//! Clients of HTTP/2, with prior knowledge.

mod bounds;
mod calls;
mod client;
mod gone;
mod hostile;
mod uploads;

pub(crate) use client::Client2;
