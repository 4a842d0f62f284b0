//! Streams of events that take their time: what keeps them alive, what ends them, and how.

mod coded;
mod deadline;
mod drain;
mod ends;
mod gone;
mod keep_alive;
mod multiplexed;
mod pressure;
mod silence;
