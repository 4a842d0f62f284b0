//! Upstreams at fault: each test observes what the upstream received, how often a tool ran, what is
//! left open, what the client got byte for byte, and what the log says of the exchange.

mod multiplexed;
