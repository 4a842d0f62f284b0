//! The notifications that say what is stale.

use memchr::memmem;

use super::{List, text};
use crate::protocol::members::Members;

/// A notification that tells of a change, or what changes will be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A list has changed; that of resources and that of resource templates change together.
    ListChanged(List),
    /// A resource has changed.
    ResourceUpdated {
        /// Which; absent where it does not say so in a way that can be read: then it may be any.
        uri: Option<String>,
    },
    /// A subscription has begun (specification, "Acknowledgment").
    Acknowledged(Granted),
    /// It may be any of these: two readers could understand it differently.
    Unreadable,
}

/// What a subscription will tell of. What cannot be read is not granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// `toolsListChanged`
    pub tools: bool,
    /// `promptsListChanged`
    pub prompts: bool,
    /// `resourcesListChanged`
    pub resources: bool,
    /// `resourceSubscriptions`
    pub uris: Vec<String>,
}

impl Notification {
    /// Reads any message of an answer or a stream; gives nothing for what is none of these.
    ///
    /// Most messages are none, and are passed over without being parsed.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Notification> {
        if !may_be_one(message) {
            return None;
        }
        let Ok(members) = Members::read(message) else {
            return Some(Notification::Unreadable);
        };
        let params = members.of("params");
        let params = params.and_then(|raw| Members::read(raw.as_bytes()).ok());
        let param = |key: &str| params.as_ref().and_then(|params| params.of(key));
        Some(match &*text(members.of("method")?.as_bytes())? {
            "notifications/tools/list_changed" => Notification::ListChanged(List::Tools),
            "notifications/prompts/list_changed" => Notification::ListChanged(List::Prompts),
            "notifications/resources/list_changed" => Notification::ListChanged(List::Resources),
            "notifications/resources/updated" => Notification::ResourceUpdated {
                uri: param("uri").and_then(string),
            },
            "notifications/subscriptions/acknowledged" => {
                let granted = param("notifications").and_then(granted);
                Notification::Acknowledged(granted.unwrap_or_default())
            }
            _ => return None,
        })
    }
}

/// Whether a method of ours may stand in the message. The methods are letters and slashes: they
/// stand there as they are, or with slashes escaped as some writers do by default, or some of them
/// is written as a `\u00…`.
fn may_be_one(message: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"\"notifications";
    let mut found = memmem::find_iter(message, BEGINNING);
    let names_one = found.any(|at| {
        let rest = &message[at + BEGINNING.len()..];
        let rest = rest.strip_prefix(b"\\").unwrap_or(rest);
        [
            &b"/tools"[..],
            b"/prompts",
            b"/resources",
            b"/subscriptions",
        ]
        .iter()
        .any(|kind| rest.starts_with(kind))
    });
    names_one || memmem::find(message, b"\\u00").is_some()
}

fn granted(raw: &str) -> Option<Granted> {
    let members = Members::read(raw.as_bytes()).ok()?;
    let is_true = |key: &str| members.of(key) == Some("true");
    let uris = members.of("resourceSubscriptions");
    Some(Granted {
        tools: is_true("toolsListChanged"),
        prompts: is_true("promptsListChanged"),
        resources: is_true("resourcesListChanged"),
        uris: uris
            .and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default(),
    })
}

fn string(raw: &str) -> Option<String> {
    text(raw.as_bytes()).map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Notification> {
        Notification::read(json.as_bytes())
    }

    #[test]
    fn changes_are_noticed_however_their_method_is_written() {
        let methods = [
            ("tools/list_changed", Notification::ListChanged(List::Tools)),
            (
                "prompts/list_changed",
                Notification::ListChanged(List::Prompts),
            ),
            (
                "resources/list_changed",
                Notification::ListChanged(List::Resources),
            ),
            (
                "resources/updated",
                Notification::ResourceUpdated { uri: None },
            ),
            (
                "subscriptions/acknowledged",
                Notification::Acknowledged(Granted::default()),
            ),
        ];
        for (tail, expected) in methods {
            let method = format!("notifications/{tail}");
            let expected = Some(expected);
            let plain = format!(r#"{{"method":"{method}"}}"#);
            assert_eq!(read(&plain), expected);
            let slashes = format!(r#" {{ "method" : "{}" }}"#, method.replace('/', r"\/"));
            assert_eq!(read(&slashes), expected);
            for (at, letter) in method.char_indices() {
                let escaped = format!("\\u{:04X}", u32::from(letter));
                let mut method = method.clone();
                method.replace_range(at..=at, &escaped);
                assert_eq!(
                    read(&format!(r#"{{"method":"{method}"}}"#)),
                    expected,
                    "{method}"
                );
            }
        }
    }

    #[test]
    fn what_tells_of_no_change_is_passed_over() {
        for json in [
            r#"{"method":"notifications/progress","method":"x"}"#,
            r#"{"method":"notifications/message","params":{"data":"notifications/tools"}}"#,
            r#"{"method":"notifications/message","params":{"x":"notifications/tools/list_changed"}}"#,
            r#"{"method":"notifications/tools/list_changed2"}"#,
            r#"{"id":1,"result":{"x":"\u0000","method":"notifications/tools/list_changed"}}"#,
            r#"{"id":1,"result":{},"method":7,"x":"notifications/tools"}"#,
            "no json",
            "",
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn what_may_be_a_change_is_not_passed_over() {
        for json in [
            r#"{"method":"x","method":"notifications/tools/list_changed"}"#,
            r#"{"method":"notifications/tools/list_changed"#,
        ] {
            assert_eq!(read(json), Some(Notification::Unreadable), "{json}");
        }
    }

    #[test]
    fn an_update_names_its_resource_if_it_can() {
        let updated = |params: &str| {
            read(&format!(
                r#"{{"method":"notifications/resources/updated","params":{params}}}"#
            ))
        };
        let uri = Some("file:///a".to_owned());
        let expected = Some(Notification::ResourceUpdated { uri });
        assert_eq!(updated(r#"{"_meta":{},"uri":"file:\/\/\/a"}"#), expected);
        for params in ["{}", "null", r#"{"uri":1}"#, r#"{"uri":"a","uri":"b"}"#] {
            let any = Some(Notification::ResourceUpdated { uri: None });
            assert_eq!(updated(params), any, "{params}");
        }
    }

    #[test]
    fn a_subscription_grants_what_it_says_and_no_more() {
        let acknowledged = |filter: &str| {
            read(&format!(
                r#"{{"method":"notifications/subscriptions/acknowledged",
                "params":{{"notifications":{filter}}}}}"#
            ))
        };
        let granted = Granted {
            tools: true,
            uris: vec!["a:b".to_owned()],
            ..Granted::default()
        };
        assert_eq!(
            acknowledged(
                r#"{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":1,
                "resourceSubscriptions":["a\u003ab"]}"#
            ),
            Some(Notification::Acknowledged(granted))
        );
        for filter in [
            "null",
            "[]",
            r#"{"toolsListChanged":true,"toolsListChanged":true}"#,
        ] {
            let none = Some(Notification::Acknowledged(Granted::default()));
            assert_eq!(acknowledged(filter), none, "{filter}");
        }
    }
}
