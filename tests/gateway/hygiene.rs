//! What is no request that the protocol knows: each gets its one answer, the upstream gets
//! nothing, and the connection serves the next request.

mod accept;
mod document;
mod expect;
mod frames;
mod http;
mod identifier;
mod keys;
mod media;
mod pipelined;
mod upload;
