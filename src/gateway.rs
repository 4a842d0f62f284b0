//! The stages of one exchange, a file each, in the order of the path through them.

mod admitted;
mod agree;
mod answer;
#[expect(
    dead_code,
    unused_imports,
    reason = "the path of an exchange does not ask it yet"
)]
mod cache;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the pipeline asks it once lists are fetched")
)]
mod catalog;
mod cors;
mod discover;
mod forward;
mod handshake;
mod hop;
mod inquiry;
mod intake;
mod message;
mod outbound;
mod pass;
mod pipeline;
mod place;
mod receive;
mod relay;
mod route;
mod sender;
mod serving;
mod session;
mod upload;

pub use relay::Outgoing;
pub use serving::Gateway;
