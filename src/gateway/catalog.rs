//! What upstreams say of their tools, as far as calls are judged by it: learned from their lists,
//! believed for a while.

pub(super) mod lists;
pub(super) mod tool;
