//! Refusals of the message itself.

use super::telling::{Telling, code, quoted};
use crate::protocol::frame::Flaw;

/// What is wrong with a message.
#[derive(Debug)]
pub enum MessageFault {
    /// The body is not one JSON-RPC message that every reader understands alike.
    Unreadable(Flaw),
    /// A JSON-RPC response from a client, on a version that has none.
    ResponseNotAllowed,
    /// A key that every modern request must have in `params._meta` is missing or mistyped.
    MetaKey {
        /// The key.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The method cannot be repeated in a header, where every reader of this version looks for it.
    MethodText {
        /// The method.
        method: String,
    },
    /// The parameter that names the target is missing or not a string.
    NameParameter {
        /// The parameter.
        key: &'static str,
        /// The method that needs it.
        method: String,
    },
}

impl MessageFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            MessageFault::Unreadable(flaw) => {
                let telling = if flaw.is_parse_error() {
                    Telling::protocol("not_json", code::PARSE, flaw.to_string())
                } else {
                    Telling::protocol("invalid_request", code::INVALID_REQUEST, flaw.to_string())
                };
                match flaw.limit() {
                    Some(limit) => telling.limit(limit),
                    None => telling,
                }
            }
            MessageFault::ResponseNotAllowed => Telling::protocol(
                "response_not_allowed",
                code::INVALID_REQUEST,
                "a JSON-RPC response from a client has no place in this protocol version".into(),
            ),
            MessageFault::MetaKey { key, expected } => Telling::protocol(
                "meta_key",
                code::INVALID_PARAMS,
                format!("params._meta must have the key \"{key}\", and {expected} as its value"),
            ),
            MessageFault::MethodText { method } => Telling::protocol(
                "method_text",
                code::HEADER_MISMATCH,
                format!(
                    "method {} cannot stand in the Mcp-Method header, which must repeat it",
                    quoted(method)
                ),
            )
            .hint("name methods in plain ASCII, without blanks at either end"),
            MessageFault::NameParameter { key, method } => Telling::protocol(
                "name_parameter",
                code::INVALID_PARAMS,
                format!("params.{key} must be a string in {}", quoted(method)),
            ),
        }
    }
}
