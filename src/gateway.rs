//! The stages of one exchange, a file each, in the order of the path through them.

mod admitted;
mod agree;
mod answer;
mod cache;
mod catalog;
mod cors;
mod follow;
mod forward;
mod handshake;
mod hop;
mod inquiry;
mod inspect;
mod intake;
mod message;
mod outbound;
mod own;
mod pass;
mod pipeline;
mod place;
mod recall;
mod receive;
mod relay;
mod route;
mod sender;
mod serving;
mod session;
mod settle;
mod upload;

pub use inspect::{PinnedRoute, Remembered};
pub use relay::Outgoing;
pub use serving::Gateway;
