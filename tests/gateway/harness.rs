//! What the tests stand on: the gateway as a process, an upstream that can be scripted, a client
//! that sends exact bytes, and requests that are right until a test changes something.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod gateway;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod script;
mod selftest;
pub(crate) mod site;
pub(crate) mod tunnel;
pub(crate) mod upstream;
pub(crate) mod upstream2;
pub(crate) mod wire;

pub(crate) use client::{Client, Response, contains};
pub(crate) use gateway::{Gateway, policy_file, run_to_end};
pub(crate) use policy::Policy;
pub(crate) use request::{CAPABILITIES_KEY, LEGACY, MODERN, Request, VERSION_KEY};
pub(crate) use script::{Play, Reply, raw_member};
pub(crate) use site::{HEADERLESS, LEGACY_ONLY, MIXED, MODERN_ONLY, Refusal, Site, in_session};
pub(crate) use upstream::{Received, Upstream};
pub(crate) use wire::{Fault, Framing, eventually};
