//! The answer to a legacy `initialize`: the one place where the server's choice of a version is
//! known.

use http::Response;
use serde::Deserialize;

use super::answer::{self, Read};
use super::outbound::Lease;
use super::relay::{self, Source};
use super::session::Sessions;
use crate::net::upstream::Inbound;
use crate::policy::plan::Route;
use crate::protocol::header;
use crate::protocol::refusal::{Refusal, VersionFault};
use crate::protocol::version::{Era, Version};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
}

/// Reads the version that the server chose; none where it answered with an error.
fn read(message: &[u8]) -> Read<Option<String>> {
    let initialized: Read<Option<Initialized>> = answer::result(message);
    match initialized {
        Read::Response(chosen) => Read::Response(chosen.map(|chosen| chosen.protocol_version)),
        Read::NotYet => Read::NotYet,
        Read::Unreadable => Read::Unreadable,
    }
}

/// Reads the answer to `initialize` up to the version that the server chose. An accepted one is
/// passed on byte for byte, and its session remembered; the version is given back beside it.
///
/// # Errors
/// [`VersionFault::Negotiated`] for a version that the route does not accept, or an answer that
/// cannot be read within the route's bounds.
pub(super) async fn settle(
    response: Response<Inbound>,
    lease: Lease,
    route: &Route,
    sessions: &Sessions,
) -> Result<(Response<Source>, Option<Version>), Refusal> {
    if !response.status().is_success() {
        return Ok((relay::pass(response, lease, Era::Legacy), None));
    }
    let session = response.headers().get(header::SESSION_ID).cloned();
    let (held, chosen) = answer::demand(response, lease, route, read).await?;
    let Some(chosen) = chosen else {
        return Ok((held.pass(Era::Legacy), None));
    };
    let supported = route.protocol.versions.legacy();
    let version = Version::parse(&chosen).filter(|version| supported.contains(*version));
    let Some(version) = version else {
        let fault = VersionFault::Negotiated {
            requested: chosen,
            supported,
        };
        return Err(fault.into());
    };
    if let Some(id) = &session {
        sessions.open(id.as_bytes(), version);
    }
    Ok((held.pass(Era::Legacy), Some(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_settles_the_handshake() {
        let chose = |version: &str| Read::Response(Some(version.to_owned()));
        for (message, outcome) in [
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
                Read::NotYet,
            ),
            (
                r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602}}"#,
                Read::Response(None),
            ),
            (
                r#"{"id":0,"result":{"protocolVersion":"2025-06-18","x":1}}"#,
                chose("2025-06-18"),
            ),
            (r#"{"id":0,"result":{}}"#, Read::Unreadable),
            (
                r#"{"id":0,"result":{"protocolVersion":"a","protocolVersion":"b"}}"#,
                Read::Unreadable,
            ),
            (
                r#"{"id":0,"result":{"protocolVersion":"a"},"error":{}}"#,
                Read::Unreadable,
            ),
            (
                r#"[{"id":0,"result":{"protocolVersion":"a"}}]"#,
                Read::Unreadable,
            ),
            ("", Read::Unreadable),
        ] {
            assert_eq!(read(message.as_bytes()), outcome, "{message}");
        }
    }
}
