//! Refusals because of what is known, or not known, of a tool.

use super::telling::{Telling, quoted};

/// What stands against a call, as far as the definition of its tool goes.
#[derive(Debug)]
pub enum CatalogFault {
    /// The definition cannot be had, and the route asks for it.
    Unknown {
        /// The upstream's name in the policy.
        upstream: String,
        /// The tool.
        tool: String,
    },
    /// The definition is not the one that was pinned, or none was.
    NotPinned {
        /// The tool.
        tool: String,
        /// How it differs.
        how: &'static str,
    },
}

impl CatalogFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            CatalogFault::Unknown { upstream, tool } => Telling::own(
                "tool_unknown",
                502,
                format!(
                    "upstream {} gives no definition of the tool {}, without which this route calls none",
                    quoted(upstream),
                    quoted(tool)
                ),
            )
            .upstream(upstream)
            .hint("ask for tools/list, or let the policy set catalog.required: false on the route"),
            CatalogFault::NotPinned { tool, how } => Telling::own(
                "tool_not_pinned",
                403,
                format!("the tool {} {how}", quoted(tool)),
            )
            .limit("pin.on_change")
            .hint(
                "look at what the tool has become (GET /pins on the admin listener), and pin it \
                 again with `weirgate pin`",
            ),
        }
        .in_band()
    }
}
