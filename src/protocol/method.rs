//! Methods: which parameter names their target, and which did not outlive the handshake.

use super::frame::Field;

/// The probe by which clients tell the era of a server.
pub const DISCOVER: &str = "server/discover";
/// The first request of a legacy session.
pub const INITIALIZE: &str = "initialize";
/// The request whose answer is a subscription, a stream without an end of its own.
pub const LISTEN: &str = "subscriptions/listen";
/// The call of a tool.
pub const CALL: &str = "tools/call";

/// The parameter that `Mcp-Name` repeats for `method`, if it has one (specification, "Standard
/// Request Headers", and the tasks extension for the last three).
#[must_use]
pub fn name_field(method: &str) -> Option<Field> {
    match method {
        "tools/call" | "prompts/get" => Some(Field::Name),
        "resources/read" => Some(Field::Uri),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(Field::TaskId),
        _ => None,
    }
}

/// Whether `method` belongs to the legacy eras only. Methods that no revision knows are not in
/// the list: extensions bring their own, and the server behind us answers for them.
#[must_use]
pub fn is_legacy_only(method: &str) -> bool {
    matches!(
        method,
        INITIALIZE
            | "notifications/initialized"
            | "notifications/roots/list_changed"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "tasks/list"
            | "tasks/result"
    )
}
