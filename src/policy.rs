//! What the platform team decides: pure, with time as an argument.

pub mod case;
mod content;
pub mod file;
pub mod finding;
pub mod host;
pub mod network;
pub mod pin;
pub mod plan;
mod segment;
pub mod tls;
pub mod unit;
pub mod url;
