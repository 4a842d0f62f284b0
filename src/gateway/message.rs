//! A message as the stages judge it: what its scan found, decoded once.

use std::borrow::Cow;

use super::place::Accepted;
use crate::protocol::frame::{Field, Kind, Outline, Text};
use crate::protocol::method;
use crate::protocol::version::{Era, Version};

/// What a message asks for, as far as anything is decided by it: the body says it, or the headers
/// of a body that is too large to be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call<'m> {
    /// The era.
    pub(super) era: Era,
    /// The version, if it is one that we know.
    pub(super) version: Option<Version>,
    /// Whether the client waits for an answer with its id; so it is taken to where the body has
    /// still to say it.
    pub(super) is_request: bool,
    /// The method; empty in a response.
    pub(super) method: &'m str,
    /// The tool, prompt, URI or task that it names.
    pub(super) name: Option<&'m str>,
}

/// The method of a message, and the parameter that names its target.
#[derive(Debug)]
pub(super) struct Message<'f> {
    outline: &'f Outline,
    method: Cow<'f, str>,
    target: Option<(Field, Text<'f>)>,
}

impl<'f> Message<'f> {
    /// Decodes what the stages need of `outline`.
    #[must_use]
    pub(super) fn of(outline: &'f Outline) -> Message<'f> {
        let method = outline.method().unwrap_or_default();
        let target = method::name_field(&method).map(|field| (field, outline.text(field)));
        Message {
            outline,
            method,
            target,
        }
    }

    /// What the scan found.
    #[must_use]
    pub(super) fn outline(&self) -> &'f Outline {
        self.outline
    }

    /// Whether the client waits for an answer with its id.
    #[must_use]
    pub(super) fn is_request(&self) -> bool {
        self.outline.kind() == Kind::Request
    }

    /// What the message asks for, once its version is accepted.
    #[must_use]
    pub(super) fn call(&self, accepted: &Accepted) -> Call<'_> {
        Call {
            era: accepted.era(),
            version: accepted.known_version(),
            is_request: self.is_request(),
            method: self.method(),
            name: self.name(),
        }
    }

    /// The method; empty in a response.
    #[must_use]
    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// The parameter that `Mcp-Name` repeats for this method, if it has one, with its value.
    #[must_use]
    pub(super) fn target(&self) -> Option<(Field, &Text<'f>)> {
        self.target.as_ref().map(|(field, text)| (*field, text))
    }

    /// The name of the target, where there is one and it is a string.
    #[must_use]
    pub(super) fn name(&self) -> Option<&str> {
        match &self.target {
            Some((_, Text::Is(name))) => Some(name),
            Some((_, Text::Absent | Text::WrongType)) | None => None,
        }
    }
}
