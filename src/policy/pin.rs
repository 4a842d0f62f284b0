//! Pins: definitions of tools that somebody has looked at, kept as digests in a lock file, so that a
//! server that gives a tool another definition later (a "rug pull") is noticed.
//!
//! A lock file is JSON with one tool per line, in the order of their names, and nothing in it that
//! differs from one writing to the next: what changes between two versions of it is what changed
//! upstream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content;
use super::finding::{Flaw, shown};
use crate::protocol::canonical::{Digest, Numbers, Uncanonical};
use crate::protocol::members::Members;

/// Most bytes of a lock file: as many tools as anybody lists, and long names.
pub const LOCK_BYTES_MAX: u64 = 16 << 20;
/// The format that this version writes, and the only one that it reads.
const FORMAT: &str = "1";
/// What a digest is written behind; it says how it was made.
const ALGORITHM: &str = "sha256:";

/// What a route holds its upstream's tools against.
#[derive(Clone, Debug)]
pub struct Pin {
    /// The definitions that were looked at.
    pub lock: Arc<Lock>,
    /// The file that they were read from.
    pub file: PathBuf,
    /// What becomes of a tool whose definition is another.
    pub on_change: OnChange,
}

/// What becomes of a tool that is not as it was pinned: changed, or not pinned at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// It is told in the log and on the admin listener.
    #[default]
    Warn,
    /// It also does not stand in lists.
    Hide,
    /// It also cannot be called.
    Block,
}

/// The digest of a tool's definition, as the server sent it: the same for all ways to write it.
///
/// # Errors
/// A definition that could be understood in two ways.
pub fn digest(definition: &[u8]) -> Result<Digest, Uncanonical> {
    Digest::of_json(definition, Numbers::Ecmascript)
}

/// The tools of one upstream with the digests of their definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    upstream: String,
    tools: BTreeMap<String, Digest>,
}

impl Lock {
    /// A lock of these tools; `upstream` says where they came from, for whoever reads the file.
    #[must_use]
    pub fn new(upstream: &str, tools: BTreeMap<String, Digest>) -> Lock {
        Lock {
            upstream: upstream.to_owned(),
            tools,
        }
    }

    /// Reads the lock file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is not such a file.
    pub fn open(path: &Path) -> Result<Lock, Flaw> {
        let bytes = content::read(path, LOCK_BYTES_MAX, HINT)?;
        Lock::read(&bytes).map_err(|why| {
            let name = content::name(path);
            Flaw::new(format!("{name} is not a lock file: {why}"), HINT)
        })
    }

    /// Reads a lock from the text of its file.
    ///
    /// # Errors
    /// Why it is none. Whatever is not known is refused: a lock that says less than it seems to would
    /// protect nobody.
    pub fn read(text: &[u8]) -> Result<Lock, String> {
        if text.trim_ascii().is_empty() {
            return Err("it is empty".to_owned());
        }
        let members = Members::read(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let (mut format, mut upstream, mut tools) = (None, None, None);
        for (name, value) in members.iter() {
            match name {
                "format" => format = Some(value),
                "upstream" => upstream = serde_json::from_str(value).ok(),
                "tools" => tools = Some(read_tools(value)?),
                _ => return Err(format!("it has a member {}", shown(name))),
            }
        }
        match format {
            None => return Err("it has no `format`".to_owned()),
            Some(FORMAT) => {}
            Some(other) => {
                let known = "and this version reads format 1 only";
                return Err(format!("it is of format {}, {known}", shown(other)));
            }
        }
        Ok(Lock {
            upstream: upstream.ok_or("its `upstream` is no text, or missing")?,
            tools: tools.ok_or("it has no `tools`")?,
        })
    }

    /// The text of its file.
    #[must_use]
    pub fn write(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let upstream = quoted(&self.upstream);
        let mut text = format!("{{\n  \"format\": {FORMAT},\n  \"upstream\": {upstream},\n");
        text.push_str("  \"tools\": {");
        for (index, (name, digest)) in self.tools.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{comma}\n    {}: \"{ALGORITHM}{digest}\"",
                quoted(name)
            );
        }
        if !self.tools.is_empty() {
            text.push_str("\n  ");
        }
        text.push_str("}\n}\n");
        text
    }

    /// Where the tools came from.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The tools with their digests, by name.
    #[must_use]
    pub fn tools(&self) -> &BTreeMap<String, Digest> {
        &self.tools
    }

    /// How a tool of this name and definition stands to what was pinned.
    #[must_use]
    pub fn standing(&self, tool: &str, digest: &Digest) -> Standing {
        match self.tools.get(tool) {
            Some(pinned) if pinned == digest => Standing::Pinned,
            Some(_) => Standing::Changed,
            None => Standing::Added,
        }
    }

    /// How all tools of an upstream differ from what was pinned.
    #[must_use]
    pub fn difference(&self, found: &BTreeMap<String, Digest>) -> Difference {
        let mut difference = Difference::default();
        for (tool, digest) in found {
            match self.standing(tool, digest) {
                Standing::Pinned => {}
                Standing::Changed => difference.changed.push(tool.clone()),
                Standing::Added => difference.added.push(tool.clone()),
            }
        }
        let vanished = self.tools.keys().filter(|tool| !found.contains_key(*tool));
        difference.vanished.extend(vanished.cloned());
        difference
    }
}

/// How a tool stands to what was pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its definition is the one that was pinned.
    Pinned,
    /// It was pinned with another definition.
    Changed,
    /// It was not pinned.
    Added,
}

/// The tools in which an upstream differs from what was pinned, each list by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// With another definition.
    pub changed: Vec<String>,
    /// Not pinned.
    pub added: Vec<String>,
    /// Pinned, and not there any more.
    pub vanished: Vec<String>,
}

impl Difference {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.vanished.is_empty()
    }
}

/// How a file that is no lock file comes to be one.
const HINT: &str = "name a file that `weirgate pin` wrote, or write it anew with that";

fn read_tools(value: &str) -> Result<BTreeMap<String, Digest>, String> {
    let members = Members::read(value.as_bytes());
    let members = members.map_err(|error| format!("its `tools` are no mapping: {error}"))?;
    let tools = members.iter().map(|(name, value)| {
        let text: Option<&str> = serde_json::from_str(value).ok();
        let digits = text.and_then(|text| text.strip_prefix(ALGORITHM));
        let digest = digits.and_then(|digits| digits.parse().ok());
        match digest {
            Some(digest) => Ok((name.to_owned(), digest)),
            None => Err(format!("the digest of {} is none", shown(name))),
        }
    });
    tools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(byte: u8) -> Digest {
        format!("{byte:02x}").repeat(32).parse().unwrap()
    }

    fn tools(tools: &[(&str, u8)]) -> BTreeMap<String, Digest> {
        let tools = tools.iter();
        tools
            .map(|(name, byte)| ((*name).to_owned(), sum(*byte)))
            .collect()
    }

    #[test]
    fn a_lock_is_written_line_by_line_and_read_again() {
        let lock = Lock::new("we\"ather", tools(&[("b", 0xb0), ("a\n", 0x0a), ("ü", 1)]));
        let text = lock.write();
        let digest = |byte: &str| format!("\"sha256:{}\"", byte.repeat(32));
        let expected = format!(
            "{{\n  \"format\": 1,\n  \"upstream\": \"we\\\"ather\",\n  \"tools\": {{\n    \
             \"a\\n\": {},\n    \"b\": {},\n    \"ü\": {}\n  }}\n}}\n",
            digest("0a"),
            digest("b0"),
            digest("01")
        );
        assert_eq!(text, expected);
        assert_eq!(Lock::read(text.as_bytes()).as_ref(), Ok(&lock));
        let none = Lock::new("w", BTreeMap::new());
        assert_eq!(Lock::read(none.write().as_bytes()), Ok(none));
    }

    #[test]
    fn what_is_no_lock_is_refused_and_says_why() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let with = |tools: &str| format!(r#"{{"format":1,"upstream":"u","tools":{tools}}}"#);
        for (text, why) in [
            (String::new(), "it is empty"),
            ("{".to_owned(), "it is no JSON"),
            ("[]".to_owned(), "it is no JSON"),
            (r#"{"upstream":"u","tools":{}}"#.to_owned(), "no `format`"),
            (
                r#"{"format":2,"upstream":"u","tools":{}}"#.to_owned(),
                "of format `2`",
            ),
            (r#"{"format":1,"tools":{}}"#.to_owned(), "`upstream`"),
            (
                r#"{"format":1,"upstream":1,"tools":{}}"#.to_owned(),
                "`upstream`",
            ),
            (
                r#"{"format":1,"upstream":"u"}"#.to_owned(),
                "it has no `tools`",
            ),
            (
                r#"{"format":1,"upstream":"u","tools":{},"prompts":{}}"#.to_owned(),
                "a member `prompts`",
            ),
            (with("[]"), "`tools` are no mapping"),
            (
                with(&format!(r#"{{"a":"{digest}","a":"{digest}"}}"#)),
                "repeated key",
            ),
            (with(r#"{"a":1}"#), "the digest of `a`"),
            (with(r#"{"a":"sha256:0a"}"#), "the digest of `a`"),
            (
                with(&format!(r#"{{"a":"{}"}}"#, digest.to_uppercase())),
                "the digest of `a`",
            ),
            (
                with(&format!(r#"{{"a":"{}"}}"#, digest.replace("0a", "0A"))),
                "the digest of `a`",
            ),
            (
                with(&format!(r#"{{"a":"{}"}}"#, &digest[7..])),
                "the digest of `a`",
            ),
        ] {
            let found = Lock::read(text.as_bytes()).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn a_definition_has_one_digest_however_it_is_written() {
        let digest = |json: &str| digest(json.as_bytes());
        let plain = digest(r#"{"name":"t","inputSchema":{"maximum":10}}"#).unwrap();
        let other = digest("{ \"inputSchema\": {\"maximum\": 1e1}, \"\\u006eame\": \"t\" }");
        assert_eq!(other, Ok(plain));
        assert_ne!(
            digest(r#"{"name":"t","inputSchema":{"maximum":11}}"#),
            Ok(plain)
        );
        assert!(digest(r#"{"name":"t","name":"u"}"#).is_err());
    }

    #[test]
    fn a_difference_names_each_tool_once() {
        let lock = Lock::new("u", tools(&[("same", 1), ("other", 2), ("gone", 3)]));
        let found = tools(&[("same", 1), ("other", 9), ("new", 3)]);
        let difference = lock.difference(&found);
        let expected = Difference {
            changed: vec!["other".to_owned()],
            added: vec!["new".to_owned()],
            vanished: vec!["gone".to_owned()],
        };
        assert_eq!(difference, expected);
        assert!(!difference.is_empty() && lock.difference(lock.tools()).is_empty());
        assert_eq!(lock.standing("same", &sum(1)), Standing::Pinned);
    }
}
