//! A message as the stages judge it: what its frame says, decoded once.

use std::borrow::Cow;

use crate::protocol::frame::{Field, Frame, Kind, Text};
use crate::protocol::method;

/// The method of a frame, and the parameter that names its target.
#[derive(Debug)]
pub(super) struct Message<'f> {
    frame: &'f Frame,
    method: Cow<'f, str>,
    target: Option<(Field, Text<'f>)>,
}

impl<'f> Message<'f> {
    /// Decodes what the stages need of `frame`.
    #[must_use]
    pub(super) fn of(frame: &'f Frame) -> Message<'f> {
        let method = frame.method().unwrap_or_default();
        let target = method::name_field(&method).map(|field| (field, frame.text(field)));
        Message {
            frame,
            method,
            target,
        }
    }

    /// The frame.
    #[must_use]
    pub(super) fn frame(&self) -> &'f Frame {
        self.frame
    }

    /// Whether the client waits for an answer with its id.
    #[must_use]
    pub(super) fn is_request(&self) -> bool {
        self.frame.kind() == Kind::Request
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
