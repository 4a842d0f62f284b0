//! Sockets: what clients connect to, and how upstreams are reached.

mod alarm;
pub mod listener;
pub mod upstream;
pub mod wire;
