//! Arguments, signals, exit codes; no logic.
fn main() {}
