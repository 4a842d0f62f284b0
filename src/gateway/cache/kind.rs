//! The methods whose results may be kept (specification, "Cacheable Results").

use crate::protocol::method;
use crate::protocol::version::Era;

/// A method whose results may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gateway) enum Kind {
    /// `server/discover`
    Discover,
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `resources/read`
    Contents,
}

impl Kind {
    /// All of them, in the order of their discriminants.
    pub(super) const ALL: [Kind; 6] = [
        Kind::Discover,
        Kind::Tools,
        Kind::Prompts,
        Kind::Resources,
        Kind::Templates,
        Kind::Contents,
    ];

    /// What `method` is in this era, if its results may be kept. Legacy versions do not know
    /// `server/discover`.
    #[must_use]
    pub(in crate::gateway) fn of(method: &str, era: Era) -> Option<Kind> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.method() == method)?;
        (era == Era::Modern || kind != Kind::Discover).then_some(kind)
    }

    /// The name of the method.
    #[must_use]
    pub(in crate::gateway) const fn method(self) -> &'static str {
        match self {
            Kind::Discover => method::DISCOVER,
            Kind::Tools => "tools/list",
            Kind::Prompts => "prompts/list",
            Kind::Resources => "resources/list",
            Kind::Templates => "resources/templates/list",
            Kind::Contents => "resources/read",
        }
    }

    /// Whether its results come in pages.
    #[must_use]
    pub(in crate::gateway) const fn is_list(self) -> bool {
        match self {
            Kind::Tools | Kind::Prompts | Kind::Resources | Kind::Templates => true,
            Kind::Discover | Kind::Contents => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_methods_are_kept_and_five_of_legacy_versions() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.method(), Era::Modern), Some(kind));
            let legacy = Kind::of(kind.method(), Era::Legacy);
            assert_eq!(legacy, (kind != Kind::Discover).then_some(kind));
            assert_eq!(Kind::ALL[kind as usize], kind);
        }
        for method in [
            "tools/call",
            "prompts/get",
            "completion/complete",
            "subscriptions/listen",
            "tasks/list",
            "Tools/list",
            "notifications/tools/list_changed",
            "",
        ] {
            assert_eq!(Kind::of(method, Era::Modern), None, "{method}");
        }
    }
}
