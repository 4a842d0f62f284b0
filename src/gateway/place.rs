//! Which era and version a message belongs to. The body decides; the version header confirms it.

use crate::policy::plan::{Missing, Protocol};
use crate::protocol::frame::{Field, Frame, Kind, Presence, Text};
use crate::protocol::header::{self, Reading};
use crate::protocol::method;
use crate::protocol::refusal::{HeaderFault, HttpFault, MessageFault, Refusal, VersionFault};
use crate::protocol::version::{Era, Version};

const VERSION_HEADER: &str = "MCP-Protocol-Version";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const META_VERSION: MessageFault =
    MessageFault::MetaKey { key: VERSION_KEY, expected: "a version as a string" };
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// A version as somebody names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
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
pub struct Placed {
    era: Era,
    version: Option<Named>,
    version_in_header: bool,
}

impl Placed {
    /// The era.
    #[must_use]
    pub fn era(&self) -> Era {
        self.era
    }

    /// The version that the message names or that its session is known to speak.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_ref().map(Named::as_str)
    }

    /// The version, if it is one that we know.
    #[must_use]
    pub fn known_version(&self) -> Option<Version> {
        match self.version {
            Some(Named::Known(version)) => Some(version),
            Some(Named::Unknown(_)) | None => None,
        }
    }

    /// Whether the client sent the version header itself.
    #[must_use]
    pub fn version_in_header(&self) -> bool {
        self.version_in_header
    }

    /// Judges whether the route serves this version, and whether the version has this method.
    ///
    /// # Errors
    /// [`VersionFault`]: the version first, then the method.
    pub fn accept(&self, frame: &Frame, protocol: &Protocol) -> Result<(), Refusal> {
        let versions = protocol.versions;
        let method = frame.method().unwrap_or_default();
        let handshake = self.era == Era::Legacy && method == method::INITIALIZE;
        let accepted = match &self.version {
            Some(Named::Known(version)) => {
                versions.contains(*version) && version.era() == self.era
            }
            Some(Named::Unknown(_)) => false,
            None => versions.serves_legacy(),
        };
        if handshake && !versions.serves_legacy() {
            let requested = match frame.text(Field::ProtocolVersion) {
                Text::Is(version) => version.into_owned(),
                Text::Absent | Text::WrongType => String::new(),
            };
            return Err(VersionFault::Handshake { requested, supported: versions }.into());
        }
        if !accepted {
            let modern = versions.modern();
            let named_in_body = self.era == Era::Modern && modern.serves_modern();
            return Err(VersionFault::Unsupported {
                requested: self.version().unwrap_or_default().to_owned(),
                supported: if named_in_body { modern } else { versions },
            }
            .into());
        }
        if self.era == Era::Modern && method::is_legacy_only(&method) {
            return Err(VersionFault::MethodNotFound {
                method: method.into_owned(),
                supported: versions,
            }
            .into());
        }
        Ok(())
    }
}

/// Places a message. `session` is asked for the version of the session that the request belongs
/// to, if it is known; only legacy messages without a version header need it.
///
/// # Errors
/// The refusals of `_meta` (−32602) and of the version header (−32020), in this order.
pub fn place(
    frame: &Frame,
    reading: Reading<'_>,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Placed, Refusal> {
    match frame.text(Field::MetaVersion) {
        Text::Is(version) => place_modern(frame, &version, reading, protocol),
        Text::WrongType => Err(META_VERSION.into()),
        Text::Absent => match read_version(reading)? {
            Some(named) => place_by_header(frame, named),
            None => place_headerless(frame, protocol, session),
        },
    }
}

fn place_modern(
    frame: &Frame,
    version: &str,
    reading: Reading<'_>,
    protocol: &Protocol,
) -> Result<Placed, Refusal> {
    let is_request = frame.kind() == Kind::Request;
    if is_request && frame.client_capabilities() != Presence::Right {
        return Err(MessageFault::MetaKey { key: CAPABILITIES_KEY, expected: "an object" }.into());
    }
    let in_header = match reading {
        Reading::Repeated => return Err(HeaderFault::Repeated { name: VERSION_HEADER }.into()),
        Reading::Absent if is_request && protocol.missing == Missing::Reject => {
            return Err(HeaderFault::Missing {
                name: VERSION_HEADER,
                body: Some(version.to_owned()),
            }
            .into());
        }
        Reading::Absent => false,
        Reading::Once(value) if value == version.as_bytes() => true,
        Reading::Once(value) => {
            return Err(HeaderFault::Mismatch {
                name: VERSION_HEADER,
                header: String::from_utf8_lossy(value).into_owned(),
                body: version.to_owned(),
            }
            .into());
        }
    };
    Ok(Placed {
        era: Era::Modern,
        version: Some(Named::of(version)),
        version_in_header: in_header,
    })
}

/// The body names no version, the header does.
fn place_by_header(frame: &Frame, named: Named) -> Result<Placed, Refusal> {
    let modern = named.signals_modern();
    let is_handshake = frame.method().as_deref() == Some(method::INITIALIZE);
    match frame.kind() {
        Kind::Request if modern && is_handshake => Err(HeaderFault::Mismatch {
            name: VERSION_HEADER,
            header: named.as_str().to_owned(),
            body: "a handshake of an earlier version".into(),
        }
        .into()),
        Kind::Request if modern => Err(META_VERSION.into()),
        Kind::Response if modern => Err(MessageFault::ResponseNotAllowed.into()),
        Kind::Request | Kind::Notification | Kind::Response => Ok(Placed {
            era: if modern { Era::Modern } else { Era::Legacy },
            version: Some(named),
            version_in_header: true,
        }),
    }
}

/// Neither the body nor a header names a version.
fn place_headerless(
    frame: &Frame,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Placed, Refusal> {
    let is_handshake = frame.method().as_deref() == Some(method::INITIALIZE);
    let version = if is_handshake { None } else { session() };
    if !is_handshake && version.is_none() && !protocol.versions.serves_headerless() {
        return Err(HeaderFault::Missing { name: VERSION_HEADER, body: None }.into());
    }
    Ok(Placed {
        era: Era::Legacy,
        version: version.map(Named::Known),
        version_in_header: false,
    })
}

/// Judges GET and DELETE, which have no body and exist in legacy versions only.
///
/// # Errors
/// 405 on a modern-only route or with a modern header, [`VersionFault::Unsupported`] where the
/// header names a version that the route does not accept.
pub fn place_bodiless(
    reading: Reading<'_>,
    protocol: &Protocol,
    session: impl FnOnce() -> Option<Version>,
) -> Result<Placed, Refusal> {
    let versions = protocol.versions;
    let not_allowed = || Refusal::from(HttpFault::MethodNotAllowed { allow: allow(protocol) });
    if !versions.serves_legacy() {
        return Err(not_allowed());
    }
    let named = read_version(reading)?;
    let version_in_header = named.is_some();
    let version = match named {
        Some(named) if named.signals_modern() => return Err(not_allowed()),
        Some(Named::Known(version)) if versions.contains(version) => Some(version),
        Some(named) => {
            return Err(VersionFault::Unsupported {
                requested: named.as_str().to_owned(),
                supported: versions,
            }
            .into());
        }
        None => session(),
    };
    Ok(Placed {
        era: Era::Legacy,
        version: version.map(Named::Known),
        version_in_header,
    })
}

/// The HTTP methods that a route serves, as `Allow` lists them.
#[must_use]
pub fn allow(protocol: &Protocol) -> &'static str {
    if protocol.versions.serves_legacy() {
        "POST, GET, DELETE, OPTIONS"
    } else {
        "POST, OPTIONS"
    }
}

fn read_version(reading: Reading<'_>) -> Result<Option<Named>, HeaderFault> {
    match reading {
        Reading::Absent => Ok(None),
        Reading::Repeated => Err(HeaderFault::Repeated { name: VERSION_HEADER }),
        Reading::Once(value) => header::decode_plain(value)
            .map(|text| Some(Named::of(text)))
            .map_err(|why| HeaderFault::Malformed { name: VERSION_HEADER, why }),
    }
}
