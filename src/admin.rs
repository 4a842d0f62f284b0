//! The listeners beside the gateway, for whoever runs it: [`status`] answers probes and may be reached
//! by them from elsewhere; [`inspection`] shows and changes more, and is for this machine alone.

mod endpoint;
pub mod inspection;
pub mod status;
