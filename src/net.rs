//! Sockets: what clients connect to, and how upstreams are reached.

mod alarm;
mod connection;
mod ending;
mod gather;
pub mod listener;
mod outlet;
pub mod upstream;
pub mod wire;
