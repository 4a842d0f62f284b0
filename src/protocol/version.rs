//! Protocol versions and the two eras they fall into (specification, "Versioning").

use std::fmt;

/// A protocol version that this gateway knows by name, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2024-11-05, over Streamable HTTP as some early clients speak it.
    V2024_11_05,
    /// 2025-03-26, the first revision with Streamable HTTP.
    V2025_03_26,
    /// 2025-06-18, the first with an `MCP-Protocol-Version` header.
    V2025_06_18,
    /// 2025-11-25, the last with a handshake.
    V2025_11_25,
    /// 2026-07-28, stateless and routed by headers.
    V2026_07_28,
}

impl Version {
    /// All known versions, oldest first.
    pub const ALL: [Version; 5] = [
        Version::V2024_11_05,
        Version::V2025_03_26,
        Version::V2025_06_18,
        Version::V2025_11_25,
        Version::V2026_07_28,
    ];

    /// The version as it stands in headers and bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
            Version::V2026_07_28 => "2026-07-28",
        }
    }

    /// The known version that `text` names exactly, if any.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|v| v.as_str() == text)
    }

    /// The era of this version.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Version::V2026_07_28 => Era::Modern,
            Version::V2024_11_05
            | Version::V2025_03_26
            | Version::V2025_06_18
            | Version::V2025_11_25 => Era::Legacy,
        }
    }

    /// Whether requests of this version carry their own version and routing headers.
    #[must_use]
    pub const fn is_modern(self) -> bool {
        matches!(self.era(), Era::Modern)
    }

    /// Whether clients of this version send no `MCP-Protocol-Version` header at all.
    #[must_use]
    pub const fn is_headerless(self) -> bool {
        matches!(self, Version::V2024_11_05 | Version::V2025_03_26)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The two shapes of the protocol: per-request metadata, or a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28 and later.
    Modern,
    /// 2025-11-25 and earlier.
    Legacy,
}

impl Era {
    /// The era's name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        }
    }
}

/// The versions that a route accepts: a small set, cheap to copy and to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions(u8);

impl Versions {
    /// The set of the given versions.
    #[must_use]
    pub fn of(versions: &[Version]) -> Versions {
        Versions(versions.iter().fold(0, |set, v| set | 1 << (*v as u8)))
    }

    /// Whether `version` is accepted.
    #[must_use]
    pub const fn contains(self, version: Version) -> bool {
        self.0 & (1 << (version as u8)) != 0
    }

    /// The accepted versions, newest first, as error data lists them.
    pub fn iter(self) -> impl Iterator<Item = Version> {
        Version::ALL
            .into_iter()
            .rev()
            .filter(move |v| self.contains(*v))
    }

    /// Only the modern ones of this set.
    #[must_use]
    pub fn modern(self) -> Versions {
        Versions::of(&self.iter().filter(|v| v.is_modern()).collect::<Vec<_>>())
    }

    /// Only the legacy ones of this set.
    #[must_use]
    pub fn legacy(self) -> Versions {
        Versions(self.0 & !self.modern().0)
    }

    /// Whether any modern version is accepted.
    #[must_use]
    pub fn serves_modern(self) -> bool {
        self.iter().any(Version::is_modern)
    }

    /// Whether any legacy version is accepted.
    #[must_use]
    pub fn serves_legacy(self) -> bool {
        self.iter().any(|v| !v.is_modern())
    }

    /// Whether clients that send no version header are accepted.
    #[must_use]
    pub fn serves_headerless(self) -> bool {
        self.iter().any(Version::is_headerless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_as_it_is_written() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(version));
        }
        assert_eq!(Version::parse("2026-07-28 "), None);
        assert_eq!(Version::parse("2099-01-01"), None);
    }

    #[test]
    fn a_set_lists_newest_first() {
        let set = Versions::of(&[Version::V2025_06_18, Version::V2026_07_28]);
        let listed: Vec<_> = set.iter().collect();
        assert_eq!(listed, [Version::V2026_07_28, Version::V2025_06_18]);
        assert!(set.serves_modern() && set.serves_legacy() && !set.serves_headerless());
        assert_eq!(set.modern(), Versions::of(&[Version::V2026_07_28]));
    }
}
