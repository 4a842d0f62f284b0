//! Which era and version a message belongs to. The body decides; the version header confirms it.

use std::ops::Deref;

use super::message::Message;
use crate::policy::plan::{Missing, Protocol};
use crate::protocol::frame::{Field, Kind, Shape, Text};
use crate::protocol::header::{self, Reading, spelled};
use crate::protocol::method;
use crate::protocol::refusal::{HeaderFault, HttpFault, MessageFault, Refusal, VersionFault};
use crate::protocol::version::{Era, Version, Versions};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// That the version which the body must name is missing or no text.
pub(super) const META_VERSION: MessageFault = MessageFault::MetaKey {
    key: VERSION_KEY,
    expected: "a string with the version",
};
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// A version as somebody names it.
#[derive(Debug)]
enum Named {
    /// One that we know.
    Known(Version),
    /// One that we do not.
    Unknown(String),
}

impl Named {
    fn of(text: &str) -> Named {
        match Version::parse(text) {
            Some(version) => Named::Known(version),
            None => Named::Unknown(text.to_owned()),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Named::Known(version) => version.as_str(),
            Named::Unknown(text) => text,
        }
    }

    /// Whether a header with this version says that its request is a modern one. Versions are
    /// dates, so a later one than ours is modern too; what is no date is merely unknown.
    fn signals_modern(&self) -> bool {
        match self {
            Named::Known(version) => version.is_modern(),
            Named::Unknown(text) => {
                text.len() == 10
                    && text.bytes().enumerate().all(|(i, byte)| match i {
                        4 | 7 => byte == b'-',
                        _ => byte.is_ascii_digit(),
                    })
                    && text.as_str() > Version::V2026_07_28.as_str()
            }
        }
    }
}

/// A message with its era. Only [`place`] makes one; whether the route accepts its version is
/// judged by [`Placed::accept`], after its headers, which precede that in the order of judgement.
#[derive(Debug)]
pub(super) struct Placed {
    era: Era,
    version: Option<Named>,
}

impl Placed {
    /// The era.
    #[must_use]
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// The version that the message names or that its session is known to speak.
    #[must_use]
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_ref().map(Named::as_str)
    }

    /// The version, if it is one that we know.
    #[must_use]
    pub(super) fn known_version(&self) -> Option<Version> {
        match self.version {
            Some(Named::Known(version)) => Some(version),
            Some(Named::Unknown(_)) | None => None,
        }
    }

    /// Judges whether the route serves this version, and whether the version has this method.
    ///
    /// # Errors
    /// [`VersionFault`]: the version first, then the method.
    pub(super) fn accept(
        self,
        message: &Message<'_>,
        protocol: &Protocol,
    ) -> Result<Accepted, Refusal> {
        let versions = protocol.versions;
        let method = message.method();
        let handshake = self.era == Era::Legacy && method == method::INITIALIZE;
        let accepted = match &self.version {
            Some(Named::Known(version)) => versions.contains(*version) && version.era() == self.era,
            Some(Named::Unknown(_)) => false,
            None => versions.serves_legacy(),
        };
        if handshake && !versions.serves_legacy() {
            let requested = match message.outline().text(Field::ProtocolVersion) {
                Text::Is(version) => version.into_owned(),
                Text::Absent | Text::WrongType => String::new(),
            };
            return Err(VersionFault::Handshake {
                requested,
                supported: versions,
            }
            .into());
        }
        if !accepted {
            // A legacy version in `_meta` exists nowhere; only modern ones can be named there.
            let supported = match self.known_version() {
                Some(_) if self.era == Era::Modern && versions.serves_modern() => versions.modern(),
                Some(_) | None => versions,
            };
            return Err(self.unsupported(supported));
        }
        if self.era == Era::Modern && method::is_legacy_only(method) {
            return Err(VersionFault::MethodNotFound {
                method: method.to_owned(),
                supported: versions,
            }
            .into());
        }
        Ok(Accepted(self))
    }

    fn new(era: Era, version: impl Into<Option<Named>>) -> Placed {
        Placed {
            era,
            version: version.into(),
        }
    }

    fn unsupported(&self, supported: Versions) -> Refusal {
        VersionFault::Unsupported {
            requested: self.version().unwrap_or_default().to_owned(),
            supported,
        }
        .into()
    }
}

/// A message of a version that its route serves. Only [`Placed::accept`] makes one, and
/// [`place_bodiless`], which judges both at once.
#[derive(Debug)]
pub(super) struct Accepted(Placed);

impl Deref for Accepted {
    type Target = Placed;

    fn deref(&self) -> &Placed {
        &self.0
    }
}

/// Places a message. `session` is asked for the version of the session that the request belongs
/// to, if it is known; only legacy messages without a version header need it.
///
/// # Errors
/// The refusals of `_meta` (−32602) and of the version header (−32020), in this order.
pub(super) fn place(
    message: &Message<'_>,
    reading: Reading<'_>,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Placed, Refusal> {
    let serves_modern = protocol.versions.serves_modern();
    match message.outline().text(Field::MetaProtocolVersion) {
        // That the route has no modern version is −32600, and precedes what else is wrong.
        Text::Is(version) if !serves_modern => {
            let named = Named::of(&version);
            Err(Placed::new(Era::Modern, named).unsupported(protocol.versions))
        }
        Text::Is(version) => place_modern(message, &version, reading, protocol),
        Text::WrongType => Err(META_VERSION.into()),
        Text::Absent => match read_version(reading)? {
            Some(named) => place_by_header(message, named, protocol),
            None => place_headerless(message, protocol, session),
        },
    }
}

fn place_modern(
    message: &Message<'_>,
    version: &str,
    reading: Reading<'_>,
    protocol: &Protocol,
) -> Result<Placed, Refusal> {
    let is_request = message.is_request();
    if is_request && message.outline().client_capabilities() != Shape::Object {
        return Err(MessageFault::MetaKey {
            key: CAPABILITIES_KEY,
            expected: "an object",
        }
        .into());
    }
    match reading.once(spelled::PROTOCOL_VERSION)? {
        None if is_request && protocol.missing == Missing::Reject => Err(HeaderFault::Missing {
            name: spelled::PROTOCOL_VERSION.into(),
            body: Some(version.to_owned()),
        }
        .into()),
        Some(value) if value != version.as_bytes() => Err(HeaderFault::Mismatch {
            name: spelled::PROTOCOL_VERSION.into(),
            header: String::from_utf8_lossy(value).into_owned(),
            body: version.to_owned(),
        }
        .into()),
        Some(_) | None if message.outline().kind() == Kind::Response => {
            Err(MessageFault::ResponseNotAllowed.into())
        }
        Some(_) | None => Ok(Placed::new(Era::Modern, Named::of(version))),
    }
}

/// The body names no version, the header does.
fn place_by_header(
    message: &Message<'_>,
    named: Named,
    protocol: &Protocol,
) -> Result<Placed, Refusal> {
    let modern = named.signals_modern();
    let era = if modern { Era::Modern } else { Era::Legacy };
    let placed = Placed::new(era, named);
    let is_handshake = message.method() == method::INITIALIZE;
    match message.outline().kind() {
        Kind::Request if modern && is_handshake => Err(HeaderFault::Mismatch {
            name: spelled::PROTOCOL_VERSION.into(),
            header: placed.version().unwrap_or_default().to_owned(),
            body: "a handshake of an earlier version".into(),
        }
        .into()),
        Kind::Request if modern && !protocol.versions.serves_modern() => {
            Err(placed.unsupported(protocol.versions))
        }
        Kind::Request if modern => Err(META_VERSION.into()),
        Kind::Response if modern => Err(MessageFault::ResponseNotAllowed.into()),
        Kind::Request | Kind::Notification | Kind::Response => Ok(placed),
    }
}

/// Neither the body nor a header names a version.
fn place_headerless(
    message: &Message<'_>,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Placed, Refusal> {
    let is_handshake = message.method() == method::INITIALIZE;
    let version = if is_handshake { None } else { session() };
    if !is_handshake && version.is_none() && !protocol.versions.serves_headerless() {
        return Err(HeaderFault::Missing {
            name: spelled::PROTOCOL_VERSION.into(),
            body: None,
        }
        .into());
    }
    Ok(Placed::new(Era::Legacy, version.map(Named::Known)))
}

/// Judges GET and DELETE, which have no body and exist in legacy versions only.
///
/// # Errors
/// 405 on a modern-only route, with a modern header, or where nothing tells the version;
/// [`VersionFault::Unsupported`] where the header names one that the route does not accept.
pub(super) fn place_bodiless(
    reading: Reading<'_>,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Accepted, Refusal> {
    let versions = protocol.versions;
    let not_allowed = || {
        Refusal::from(HttpFault::MethodNotAllowed {
            allow: allow(protocol),
        })
    };
    if !versions.serves_legacy() {
        return Err(not_allowed());
    }
    match read_version(reading)? {
        Some(named) if named.signals_modern() => Err(not_allowed()),
        Some(named) => {
            let placed = Placed::new(Era::Legacy, named);
            match placed.known_version() {
                Some(version) if versions.contains(version) => Ok(Accepted(placed)),
                Some(_) | None => Err(placed.unsupported(versions)),
            }
        }
        None => match session() {
            // Clients take a 405 for what it is here: that there is no stream to be had.
            None if !versions.serves_headerless() => Err(not_allowed()),
            version => {
                let placed = Placed::new(Era::Legacy, version.map(Named::Known));
                Ok(Accepted(placed))
            }
        },
    }
}

/// The HTTP methods that a route serves, as `Allow` lists them.
#[must_use]
pub(super) fn allow(protocol: &Protocol) -> &'static str {
    if protocol.versions.serves_legacy() {
        "POST, GET, DELETE, OPTIONS"
    } else {
        "POST, OPTIONS"
    }
}

fn read_version(reading: Reading<'_>) -> Result<Option<Named>, HeaderFault> {
    let Some(value) = reading.once(spelled::PROTOCOL_VERSION)? else {
        return Ok(None);
    };
    header::decode_plain(value)
        .map(|text| Some(Named::of(text)))
        .map_err(|why| HeaderFault::Malformed {
            name: spelled::PROTOCOL_VERSION.into(),
            why,
            body: None,
        })
}

#[cfg(test)]
mod tests;
