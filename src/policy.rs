//! What the platform team decides: pure, with time as an argument.

pub mod plan;
