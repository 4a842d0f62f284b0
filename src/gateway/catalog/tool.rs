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
    behaviour: Behaviour,
}

/// What a server says of how its tool behaves; nothing makes it true (specification,
/// "ToolAnnotations").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::gateway) struct Behaviour {
    /// `readOnlyHint`
    pub(in crate::gateway) read_only: Option<bool>,
    /// `destructiveHint`
    pub(in crate::gateway) destructive: Option<bool>,
    /// `idempotentHint`
    pub(in crate::gateway) idempotent: Option<bool>,
    /// `openWorldHint`
    pub(in crate::gateway) open_world: Option<bool>,
}

impl Tool {
    /// Reads a definition. One that cannot be read makes an invalid tool.
    #[must_use]
    pub(super) fn read(definition: &Definition<'_>) -> Tool {
        let (annotations, behaviour) = match Members::read(definition.raw) {
            Ok(members) => (
                // Without a schema, the definition is none.
                Annotations::read(members.of("inputSchema").unwrap_or("null")),
                Behaviour::read(members.of("annotations")),
            ),
            Err(why) => (Err(Invalid::unreadable(&why)), Behaviour::default()),
        };
        Tool {
            name: definition.name.into(),
            digest: definition.digest,
            annotations,
            behaviour,
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

    /// What the server says of how it behaves.
    #[must_use]
    pub(in crate::gateway) fn behaviour(&self) -> Behaviour {
        self.behaviour
    }

    /// Whether this is what reading the definition alone would make.
    pub(super) fn is_of_itself(&self) -> bool {
        !matches!(self.annotations, Err(Invalid::Ambiguous))
    }
}

impl Behaviour {
    /// Reads the raw `annotations` of a definition. What is no boolean says nothing.
    fn read(annotations: Option<&str>) -> Behaviour {
        let members = annotations.and_then(|raw| Members::read(raw.as_bytes()).ok());
        let hint = |name| match members.as_ref()?.of(name)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Behaviour {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
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
        assert_eq!(
            tool.behaviour(),
            Behaviour {
                read_only: Some(true),
                destructive: Some(false),
                idempotent: None,
                open_world: None,
            }
        );
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
