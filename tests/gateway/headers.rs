//! Routing headers against the body, and what of them goes upstream.

mod bodiless;
mod encoding;
mod legacy;
mod lines;
mod rebuilt;
