//! What the gateway tells about itself: one record per exchange, one per connection that died
//! before it had an exchange, and events of its own (start, warnings), all as lines of one log.
//!
//! A line never holds a secret (credentials, cookies, session ids, query strings) nor an argument
//! of a call. What a peer chose is bounded, and written so that it can forge neither a line nor
//! a field.

mod line;
pub mod log;
pub mod record;
mod writer;

pub use log::{Level, Log};
pub use record::{ConnectionEnd, End, Exchange};
