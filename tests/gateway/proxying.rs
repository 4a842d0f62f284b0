//! What passes through: answers as bytes, streams event by event, headers of each leg on their own.

mod answers;
mod deadlines;
mod discovery;
mod faults;
mod gone;
mod held;
mod hops;
mod legacy;
mod older;
mod pool;
mod slow;
mod streams;
mod target;
