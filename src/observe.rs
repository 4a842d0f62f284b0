//! What the gateway tells about itself: one record per exchange, one per connection that died
//! before it had an exchange, and events of its own (start, warnings), all as lines of one log.
//!
//! A line never holds a secret (credentials, cookies, session ids, query strings) nor an argument
//! of a call. What a peer chose is bounded, and written so that it can forge neither a line nor
//! a field.

mod exchange;
mod line;
mod log;
mod record;
mod sink;
mod timestamp;
mod words;
mod writer;

pub use exchange::{End, Exchange};
pub use log::{Level, Log};
pub use record::{ConnectionEnd, DETAIL_BYTES_MAX};
pub use sink::Kept;
pub use words::{METHOD_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
