//! weirgate: a protocol-aware reverse proxy for the Model Context Protocol.
//!
//! # One exchange
//!
//! Each arrow is a function, each noun a type that only its stage can build, so that no stage can
//! be skipped. `gateway/pipeline.rs` is this picture as code.
//!
//! ```text
//! connection ── net::listener ──▶ head and body
//! head ── gateway::intake ──▶ seat            one of the requests in flight, or one too many
//! head ── gateway::sender ──▶ Sender          who sent it, as far as proxies are trusted
//! head ── gateway::route ──▶ route            form, path, Host, Origin
//! preflight ── gateway::cors ──▶ answer       what a page may send; others get its headers later
//! head and body ── gateway::pass ──▶ answer   where a route says that they are no MCP
//! body ── gateway::receive ──▶ bytes          whole, within its bounds
//! bytes ── protocol::frame ──▶ Frame          one scan: id, method, name, versions, as ranges
//! head + Frame ── gateway::place ──▶ Placed   modern or legacy, and which version
//! head + Frame + Placed ── gateway::agree ──▶ Routing   headers held against the body
//! Placed ── accept ──▶ Accepted               does the route serve this version and method
//! call ── gateway::catalog ──▶ Tool           its definition; its argument headers held against it
//! large body ── gateway::agree ──▶ Claim      decided on by its headers
//! Claim + body ── gateway::upload ──▶ body    held against them while it passes
//! all of it ── gateway::admitted ──▶ Admitted   what may go upstream, and what is awaited of it
//! Admitted ── gateway::recall ──▶ answer      from memory, where that may be and can be
//! Admitted ── gateway::forward ──▶ answer     the same bytes, headers rebuilt from them
//! answer ── gateway::recall ──▶ memory        what may be kept, and what of a list leaves
//! answer ── gateway::relay ──▶ client         bytes as they come
//! every exchange ── observe ──▶ record        closed once, whatever ended it
//! ```
//!
//! # The rooms, in reading order
//!
//! - [`protocol`] has the words of the protocol. No I/O, no clock, no runtime. [`protocol::refusal`]
//!   holds every refusal and the one table that says how it travels.
//! - [`policy`] has what the platform team decides, from files to the resolved plan.
//! - [`observe`] has records, and the log that never waits.
//! - [`net`] has the sockets. [`net::wire`] notices a client that has gone; [`net::upstream`] gives up a
//!   connection, or its stream of one, at once when an exchange is given up; [`net::tls`] takes
//!   certificates as [`net::reload`] finds them.
//! - [`gateway`] has the stages; `cache` is what they remember, `follow` hears of what has changed,
//!   `own` asks an upstream on behalf of a client.
//! - [`admin`] has the listeners beside the gateway: probes, and what the gateway remembers.
//! - [`command`] has what the binary can be asked to do.
//!
//! Imports point downwards in this list read from its end: a room may use those above it.
#![forbid(unsafe_code)]

pub mod admin;
pub mod command;
pub mod gateway;
pub mod net;
pub mod observe;
pub mod policy;
pub mod protocol;
