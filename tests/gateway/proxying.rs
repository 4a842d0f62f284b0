//! What passes through: answers as bytes, streams event by event, headers of each leg on their own.

mod answers;
mod faults;
mod gone;
mod hops;
mod legacy;
mod pool;
mod streams;
mod target;
