//! Refusals of versions and of methods that a version does not have (specification, "Versioning").

use super::telling::{Telling, code, list, quoted};
use crate::protocol::version::Versions;

/// What is not served. `supported` is what the route accepts.
#[derive(Debug)]
pub enum VersionFault {
    /// The version is not accepted here.
    Unsupported {
        /// What was asked for.
        requested: String,
        /// What the route accepts.
        supported: Versions,
    },
    /// An old client shakes hands with a route that serves modern versions only. The error is the
    /// one thing that it can show to a person.
    Handshake {
        /// What was asked for.
        requested: String,
        /// What the route accepts.
        supported: Versions,
    },
    /// The server behind us chose a version that the route does not accept.
    Negotiated {
        /// What it chose.
        requested: String,
        /// What the route accepts.
        supported: Versions,
    },
    /// The method did not outlive the handshake.
    MethodNotFound {
        /// The method.
        method: String,
        /// What the route accepts.
        supported: Versions,
    },
}

impl VersionFault {
    pub(super) fn telling(&self) -> Telling {
        match self {
            VersionFault::Unsupported {
                requested,
                supported,
            } => {
                // On a route without modern versions the code of the modern error would declare
                // a modern server, and a client of both eras would not fall back.
                let code = if supported.serves_modern() {
                    code::UNSUPPORTED_VERSION
                } else {
                    code::INVALID_REQUEST
                };
                let message = unsupported(requested, *supported);
                Telling::protocol("unsupported_version", code, message)
                    .versions(requested, *supported)
            }
            VersionFault::Handshake {
                requested,
                supported,
            } => Telling::protocol(
                "handshake",
                code::UNSUPPORTED_VERSION,
                format!(
                    "a handshake for protocol version {} is not served here; supported, without \
                     a handshake: {}",
                    quoted(requested),
                    list(*supported)
                ),
            )
            .versions(requested, *supported),
            VersionFault::Negotiated {
                requested,
                supported,
            } => Telling::protocol(
                "negotiated_version",
                code::INVALID_PARAMS,
                format!(
                    "the server chose protocol version {}, which this route does not accept; \
                     supported: {}",
                    quoted(requested),
                    list(*supported)
                ),
            )
            .versions(requested, *supported)
            .in_band(),
            VersionFault::MethodNotFound { method, supported } => Telling::protocol(
                "method_not_found",
                code::METHOD_NOT_FOUND,
                format!(
                    "method {} does not exist in this protocol version; supported versions: {}",
                    quoted(method),
                    list(*supported)
                ),
            )
            .status(404)
            .supported(*supported),
        }
    }
}

fn unsupported(requested: &str, supported: Versions) -> String {
    // A legacy version in `_meta`, on a route that serves it to those who shake hands.
    let how = if supported
        .iter()
        .any(|version| version.as_str() == requested)
    {
        "served here after a handshake only"
    } else {
        "not supported here"
    };
    format!(
        "protocol version {} is {how}; supported: {}",
        quoted(requested),
        list(supported)
    )
}
