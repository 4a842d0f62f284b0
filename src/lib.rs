//! weirgate: a protocol-aware reverse proxy for the Model Context Protocol.
#![forbid(unsafe_code)]

pub mod protocol;
