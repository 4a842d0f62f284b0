//! weirgate: a protocol-aware reverse proxy for the Model Context Protocol.
#![forbid(unsafe_code)]

pub mod admin;
pub mod command;
pub mod observe;
pub mod policy;
pub mod protocol;
