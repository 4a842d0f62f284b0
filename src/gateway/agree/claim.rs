//! A body that is too large to be read before it is decided on: its headers are taken for what it
//! says, and it is held against them while it passes by.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::{Routing, agree};
use crate::gateway::catalog::Tool;
use crate::gateway::message::{Call, Message};
use crate::gateway::{place, receive};
use crate::policy::plan::{Missing, Route};
use crate::protocol::frame::{Field, Flaw, Outline, Paths, Scanner, Text};
use crate::protocol::head::Fields;
use crate::protocol::header::{self, Reading, spelled};
use crate::protocol::method;
use crate::protocol::param::Annotations;
use crate::protocol::refusal::{Addressee, BodyFault, HeaderFault, MessageFault, Refusal};
use crate::protocol::version::{Era, Version};

/// What the headers of a modern request say: as much as is decided on, so that its body can follow.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Claim {
    version: Version,
    method: String,
    name: Option<String>,
    /// The lines that say so. They are read again when the body is held against them, by the same
    /// judgement that a body has which is read first.
    lines: HeaderMap,
    /// The tool, where it is known.
    tool: Option<Arc<Tool>>,
}

impl Claim {
    /// The claim of a head; none where its body may not stream: because a header is missing,
    /// repeated or unreadable, or says what is refused anyway; because the route supplies missing
    /// ones, for which the body must be read; or because the policy wants it so.
    #[must_use]
    pub(in crate::gateway) fn of(
        fields: &Fields<'_>,
        headers: &HeaderMap,
        route: &Route,
    ) -> Option<Claim> {
        let bounds = &route.bounds;
        if route.protocol.missing == Missing::Mirror
            || bounds.stream_bytes_max <= bounds.body_bytes_max
        {
            return None;
        }
        let version = Version::parse(plain(fields.protocol_version)?)
            .filter(|version| version.is_modern() && route.protocol.versions.contains(*version))?;
        let method = plain(fields.method).filter(|method| {
            !method.is_empty()
                && method.len() <= bounds.message.method_bytes_max
                && !method::is_legacy_only(method)
        })?;
        let name = match (method::name_field(method), fields.name) {
            (None, _) => None,
            (Some(_), Reading::Once(value)) => {
                let name = header::decode(value, bounds.message.name_bytes_max).ok()?;
                Some(name.into_owned())
            }
            (Some(_), Reading::Absent | Reading::Repeated) => return None,
        };
        let mut lines = HeaderMap::new();
        for name in [header::PROTOCOL_VERSION, header::METHOD, header::NAME] {
            for value in headers.get_all(&name) {
                lines.append(name.clone(), value.clone());
            }
        }
        Some(Claim {
            version,
            method: method.to_owned(),
            name,
            lines,
            tool: None,
        })
    }

    /// The same of a call of this tool, with the headers of its arguments.
    #[must_use]
    pub(in crate::gateway) fn about(
        mut self,
        tool: Option<Arc<Tool>>,
        headers: &HeaderMap,
    ) -> Claim {
        self.tool = tool;
        if let Some(annotations) = self.annotations() {
            let names: Vec<_> = annotations.iter().map(|one| one.header().clone()).collect();
            for name in names {
                for value in headers.get_all(&name) {
                    self.lines.append(name.clone(), value.clone());
                }
            }
        }
        self
    }

    fn annotations(&self) -> Option<&Annotations> {
        let annotations = self.tool.as_ref()?.annotations().ok()?;
        (!annotations.is_empty()).then_some(annotations)
    }

    /// What is claimed.
    #[must_use]
    pub(in crate::gateway) fn call(&self) -> Call<'_> {
        Call {
            era: Era::Modern,
            version: Some(self.version),
            is_request: true,
            method: &self.method,
            name: self.name.as_deref(),
        }
    }

    /// The routing headers, as they go upstream before the body.
    #[must_use]
    pub(in crate::gateway) fn routing(&self) -> Routing {
        Routing::modern(
            self.version.as_str(),
            &self.method,
            self.name.as_deref(),
            &Fields::read(&self.lines),
        )
    }

    /// Holds the message, which has passed by, against the claim.
    fn confirm(&self, outline: &Outline, route: &Route) -> Result<Agreement, Refusal> {
        let message = Message::of(outline);
        let fields = Fields::read(&self.lines);
        let session = || None;
        let placed = place::place(&message, fields.protocol_version, &route.protocol, session)?;
        agree(&placed, &message, &fields, &self.lines, route)?;
        placed.accept(&message, &route.protocol)?;
        if let Some(annotations) = self.annotations() {
            let argument_bytes_max = route.bounds.message.name_bytes_max;
            // Other spellings of the same agree as well; they have gone on already.
            annotations.agree(outline, &self.lines, argument_bytes_max, false)?;
        }
        Ok(Agreement {
            id: outline.shared_id(),
        })
    }

    /// Whether what has been read so far cannot agree any more, and how much is settled by it.
    fn compare(&self, scanner: &Scanner) -> Comparison {
        let said = |field: Field, claimed: &str| match scanner.text(field) {
            Text::Absent => Comparison::Open,
            Text::Is(text) if text == claimed => Comparison::Same,
            Text::Is(_) | Text::WrongType => Comparison::Different,
        };
        let method = match scanner.method() {
            None => Comparison::Open,
            Some(method) if method == self.method => Comparison::Same,
            Some(_) => Comparison::Different,
        };
        let name = self
            .target()
            .map_or(Comparison::Same, |(field, name)| said(field, name));
        let version = said(Field::MetaProtocolVersion, self.version.as_str());
        method.and(name).and(version)
    }

    /// What has been read so far is refused for, where it cannot agree any more: the worst of it, as
    /// if nothing followed.
    fn contradiction(&self, scanner: &Scanner) -> Option<Refusal> {
        if let Some(flaw) = scanner.flaw() {
            return Some(MessageFault::Unreadable(flaw).into());
        }
        let version = self.version.as_str();
        match scanner.text(Field::MetaProtocolVersion) {
            Text::WrongType => return Some(place::META_VERSION.into()),
            Text::Is(text) if text != version => {
                return Some(mismatch(spelled::PROTOCOL_VERSION, version, &text));
            }
            Text::Is(_) | Text::Absent => {}
        }
        if let Some(method) = scanner.method().filter(|method| *method != self.method) {
            return Some(mismatch(spelled::METHOD, &self.method, &method));
        }
        let (field, name) = self.target()?;
        match scanner.text(field) {
            Text::WrongType => Some(
                MessageFault::NameParameter {
                    key: field.key(),
                    method: self.method.clone(),
                }
                .into(),
            ),
            Text::Is(text) if text != name => Some(mismatch(spelled::NAME, name, &text)),
            Text::Is(_) | Text::Absent => None,
        }
    }

    /// Where the body names its target, and what the headers say of it.
    fn target(&self) -> Option<(Field, &str)> {
        method::name_field(&self.method).zip(self.name.as_deref())
    }
}

fn mismatch(name: &'static str, header: &str, body: &str) -> Refusal {
    HeaderFault::Mismatch {
        name: name.to_owned(),
        header: header.to_owned(),
        body: body.to_owned(),
    }
    .into()
}

/// A value that is never encoded, if it stands there once.
fn plain(reading: Reading<'_>) -> Option<&str> {
    match reading {
        Reading::Once(value) => header::decode_plain(value).ok(),
        Reading::Absent | Reading::Repeated => None,
    }
}

/// What came of comparing a value that may still have to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    Open,
    Same,
    Different,
}

impl Comparison {
    fn and(self, other: Comparison) -> Comparison {
        match (self, other) {
            (Comparison::Different, _) | (_, Comparison::Different) => Comparison::Different,
            (Comparison::Open, _) | (_, Comparison::Open) => Comparison::Open,
            (Comparison::Same, Comparison::Same) => Comparison::Same,
        }
    }
}

/// The proof that a body which passed by says what its headers claim. Only the end of an
/// [`Inspection`] makes one.
#[derive(Debug)]
pub(in crate::gateway) struct Agreement {
    id: Option<Bytes>,
}

impl Agreement {
    /// The raw id of the message, if it has one.
    #[must_use]
    pub(in crate::gateway) fn id(&self) -> Option<Bytes> {
        self.id.clone()
    }
}

/// A refusal, with the id that it is told to, if that is known.
#[derive(Debug)]
pub(in crate::gateway) struct Refused {
    /// What is told.
    pub(in crate::gateway) refusal: Box<Refusal>,
    /// The raw id of the request.
    pub(in crate::gateway) id: Option<Bytes>,
    /// What is left of the body is not read any more, so that the connection ends.
    pub(in crate::gateway) closes: bool,
}

impl Refused {
    /// A refusal with this id, after which the rest of the body is drained.
    #[must_use]
    pub(in crate::gateway) fn new(refusal: impl Into<Refusal>, id: Option<Bytes>) -> Refused {
        Refused {
            refusal: Box::new(refusal.into()),
            id,
            closes: false,
        }
    }

    /// The same, after which nothing more of the body is read.
    #[must_use]
    pub(in crate::gateway) fn closing(self) -> Refused {
        Refused {
            closes: true,
            ..self
        }
    }

    /// The refusal, told to that id.
    pub(in crate::gateway) fn tell(self, to: &mut Addressee) -> Refusal {
        to.id = self.id;
        to.closes |= self.closes;
        *self.refusal
    }
}

impl From<Flaw> for Refused {
    fn from(flaw: Flaw) -> Refused {
        let id = flaw.id().map(Bytes::copy_from_slice);
        Refused::new(MessageFault::Unreadable(flaw), id)
    }
}

/// Reads a body that passes by, and says how much of it may go on.
///
/// From the closing brace of the message on, everything is kept back until the end: blanks
/// behind it cannot smuggle it out. What is in contradiction to the claim goes no further, but is
/// read on for as long as the body of any refused request, because the worst that is wrong with a
/// message is what its client is told.
#[derive(Debug)]
pub(in crate::gateway) struct Inspection {
    claim: Claim,
    route: Arc<Route>,
    scanner: Scanner,
    read: usize,
    compared: Comparison,
    /// How much had been read when it was certain that the body is refused.
    refuted_at: Option<usize>,
    /// What is kept back.
    tail: Vec<u8>,
}

impl Inspection {
    /// An inspection at the beginning of a body that comes to `route`.
    #[must_use]
    pub(in crate::gateway) fn new(claim: Claim, route: Arc<Route>) -> Inspection {
        Inspection {
            scanner: Scanner::new(
                &route.bounds.message,
                claim
                    .annotations()
                    .map_or(&Paths::default(), Annotations::paths),
            ),
            claim,
            route,
            read: 0,
            compared: Comparison::Open,
            refuted_at: None,
            tail: Vec::new(),
        }
    }

    /// Reads the next piece and gives what of it may go on.
    ///
    /// # Errors
    /// What is wrong with the body whatever follows: it is no JSON, or it exceeds a bound; or what
    /// is known to be wrong with it when no more of it is read for that.
    pub(in crate::gateway) fn read(&mut self, mut piece: Bytes) -> Result<Bytes, Refused> {
        let bounds = &self.route.bounds;
        if piece.len() > bounds.stream_bytes_max - self.read.min(bounds.stream_bytes_max) {
            return Err(Refused::new(
                receive::too_large_to_stream(bounds),
                self.id(),
            ));
        }
        if let Some(refuted_at) = self.refuted_at
            && self.read - refuted_at + piece.len() > bounds.drain_bytes_max
        {
            return Err(self.conclude(BodyFault::Broken));
        }
        self.scanner.push(&piece)?;
        let begin = self.read;
        self.read += piece.len();
        if self.compared == Comparison::Open {
            self.compared = self.claim.compare(&self.scanner);
        }
        if self.contradicts() {
            self.refuted_at.get_or_insert(self.read);
            return Ok(Bytes::new());
        }
        let Some(root_end) = self.scanner.root_end() else {
            return Ok(piece);
        };
        let behind = piece.split_off((root_end - 1).saturating_sub(begin).min(piece.len()));
        let max = bounds.buffer_bytes;
        // The brace itself is no padding.
        if self.tail.len() + behind.len() > max.saturating_add(1) {
            return Err(Refused::new(BodyFault::Padding { max }, self.id()));
        }
        self.tail.extend_from_slice(&behind);
        Ok(piece)
    }

    /// Whether nothing more of the body may go on, because it cannot agree with its claim.
    #[must_use]
    pub(in crate::gateway) fn contradicts(&self) -> bool {
        self.compared == Comparison::Different || self.scanner.is_flawed()
    }

    /// The body has ended. Gives the proof that it agrees, and what was kept back of it.
    ///
    /// # Errors
    /// What a body would have been refused for that is read first.
    pub(in crate::gateway) fn end(self) -> Result<(Agreement, Bytes), Refused> {
        let outline = self.scanner.finish()?;
        match self.claim.confirm(&outline, &self.route) {
            Ok(agreement) => Ok((agreement, self.tail.into())),
            Err(refusal) => Err(Refused::new(refusal, outline.shared_id())),
        }
    }

    /// No more is read of the body. Gives what is known to be wrong with it, or else `why`.
    #[must_use]
    pub(in crate::gateway) fn conclude(&self, why: impl Into<Refusal>) -> Refused {
        let known = self.claim.contradiction(&self.scanner);
        Refused::new(known.unwrap_or_else(|| why.into()), self.id()).closing()
    }

    /// The raw id, if it has come already.
    #[must_use]
    pub(in crate::gateway) fn id(&self) -> Option<Bytes> {
        self.scanner.id()
    }
}

#[cfg(test)]
mod tests;
