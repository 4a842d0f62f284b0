//! Sockets: what clients connect to, and how upstreams are reached.

mod admission;
pub mod alarm;
mod connection;
pub mod descriptor;
mod ending;
mod gather;
pub mod listener;
mod outlet;
pub mod received;
pub mod reload;
pub mod tls;
pub mod upstream;
pub mod wire;
