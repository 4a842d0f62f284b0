//! One tool, as its definition says.

use crate::protocol::canonical::Digest;
use crate::protocol::members::Members;
use crate::protocol::param::{Annotations, Invalid};

/// A definition as it stands in a list.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Definition<'a> {
    /// The name, without escape sequences.
    pub(in crate::gateway) name: &'a str,
    /// The whole object, raw.
    pub(in crate::gateway) raw: &'a [u8],
    /// The digest of its canonical form, which it is known again by.
    pub(in crate::gateway) digest: Digest,
}

/// What is kept of a definition.
#[derive(Debug)]
pub(in crate::gateway) struct Tool {
    name: Box<str>,
    digest: Digest,
    annotations: Result<Annotations, Invalid>,
}

impl Tool {
    /// Reads a definition. One that cannot be read makes an invalid tool.
    #[must_use]
    pub(super) fn read(definition: &Definition<'_>) -> Tool {
        let annotations = match Members::read(definition.raw) {
            // Without a schema, the definition is none.
            Ok(members) => Annotations::read(members.of("inputSchema").unwrap_or("null")),
            Err(why) => Err(Invalid::unreadable(&why)),
        };
        Tool {
            name: definition.name.into(),
            digest: definition.digest,
            annotations,
        }
    }

    /// The tool of a definition beside which another one has the same name.
    #[must_use]
    pub(super) fn ambiguous(definition: &Definition<'_>) -> Tool {
        Tool {
            annotations: Err(Invalid::Ambiguous),
            ..Tool::read(definition)
        }
    }

    /// Its name.
    #[must_use]
    pub(in crate::gateway) fn name(&self) -> &str {
        &self.name
    }

    /// The digest of its definition.
    #[must_use]
    pub(in crate::gateway) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Which arguments are repeated in headers.
    ///
    /// # Errors
    /// What makes the tool invalid: it is on no modern list.
    pub(in crate::gateway) fn annotations(&self) -> Result<&Annotations, &Invalid> {
        self.annotations.as_ref()
    }

    /// Whether its list has another tool of the same name, so that this is not what reading the
    /// definition alone would make.
    #[must_use]
    pub(super) fn is_ambiguous(&self) -> bool {
        matches!(self.annotations, Err(Invalid::Ambiguous))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> Tool {
        Tool::read(&Definition {
            name: "query",
            raw: raw.as_bytes(),
            digest: Digest::of(b"7"),
        })
    }

    #[test]
    fn a_definition_is_read() {
        let tool = read(
            r#"{"name":"query","inputSchema":{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"}}},
                "annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":"yes"}}"#,
        );
        assert_eq!((tool.name(), tool.digest()), ("query", &Digest::of(b"7")));
        let annotations = tool.annotations().unwrap();
        let names: Vec<&str> = annotations.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["Region"]);
    }

    #[test]
    fn what_cannot_be_read_is_an_invalid_tool() {
        for raw in [
            r#"{"name":"query"}"#,
            r#"{"name":"query","inputSchema":null}"#,
            r#"{"name":"query","inputSchema":[]}"#,
        ] {
            assert_eq!(read(raw).annotations().unwrap_err(), &Invalid::NoObject);
        }
        for raw in ["[]", "", r#"{"inputSchema":{},"inputSchema":{}}"#] {
            let tool = read(raw);
            assert!(matches!(tool.annotations(), Err(Invalid::Unreadable(_))));
        }
    }
}
