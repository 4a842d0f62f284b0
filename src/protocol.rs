//! The words of the protocol: no I/O, no clock, no runtime.

pub mod event;
pub mod version;
