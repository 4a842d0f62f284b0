//! The words of the protocol: no I/O, no clock, no runtime.

pub mod canonical;
pub mod event;
pub mod frame;
pub mod head;
pub mod header;
pub mod lexer;
pub mod media;
pub mod members;
pub mod method;
pub mod param;
pub mod params;
pub mod refusal;
pub mod response;
pub mod subscription;
pub mod version;
