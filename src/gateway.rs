//! The stages of one exchange, a file each, in the order of the path through them.

pub mod agree;
pub mod answer;
pub mod discover;
pub mod forward;
pub mod handshake;
pub mod hop;
pub mod message;
pub mod pipeline;
pub mod place;
pub mod receive;
pub mod relay;
pub mod route;
pub mod session;
