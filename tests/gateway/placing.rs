//! How a message is placed: which era and version it belongs to on which route, and what becomes
//! of the ones that belong nowhere.

mod handshake;
mod legacy;
mod methods;
mod modern;
mod order;
mod silent;
