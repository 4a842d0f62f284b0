//! Sockets: what clients connect to, and how upstreams are reached.

pub mod alarm;
mod gather;
pub mod listener;
mod outlet;
pub mod upstream;
pub mod wire;
