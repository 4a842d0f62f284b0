//! Who asks, from which page, for which host and path: browsers, proxies, and routes that pass.

mod blame;
mod browser;
mod http2;
mod page;
mod pass;
mod preflight;
mod sender;
mod slash;
mod upload;
