//! Sockets: what clients connect to, and how upstreams are reached.

mod alarm;
mod gather;
pub mod listener;
mod outlet;
pub mod reload;
pub mod tls;
pub mod upstream;
pub mod wire;
