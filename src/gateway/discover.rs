//! The answer to `server/discover`. Clients choose a version by it, so it lists those of the route:
//! the modern ones that the server has too, and the legacy ones, which servers that speak both eras
//! do not name there.

use http::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{self, Read};
use super::outbound::Lease;
use super::relay::{self, Source};
use crate::net::upstream::Inbound;
use crate::policy::plan::Route;
use crate::protocol::refusal::Refusal;
use crate::protocol::version::{Era, Version, Versions};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered<'a> {
    #[serde(borrow)]
    supported_versions: Option<&'a RawValue>,
}

/// What becomes of a message: passed as it is, or with these bytes in its place.
#[derive(Debug, PartialEq, Eq)]
enum Edit {
    Keep,
    Replace(Vec<u8>),
}

/// Puts the route's versions into the list of a discover result; all other bytes stay.
fn read(message: &[u8], served: Versions) -> Read<Edit> {
    let discovered: Option<Discovered<'_>> = match answer::result(message) {
        Read::Response(discovered) => discovered,
        Read::NotYet => return Read::NotYet,
        Read::Unreadable => return Read::Unreadable,
    };
    // An error, or a result without a list, offers nothing that could be refused afterwards.
    let list = discovered.and_then(|discovered| discovered.supported_versions);
    let Some(raw) = list.map(RawValue::get) else {
        return Read::Response(Edit::Keep);
    };
    let Ok(offered) = serde_json::from_str::<Vec<String>>(raw) else {
        return Read::Unreadable;
    };
    let listed: Vec<&str> = served
        .iter()
        .filter(|version| !version.is_modern() || offered.iter().any(|o| o == version.as_str()))
        .map(Version::as_str)
        .collect();
    if listed == offered {
        return Read::Response(Edit::Keep);
    }
    let Ok(list) = serde_json::to_vec(&listed) else {
        return Read::Unreadable;
    };
    // The raw value is a part of the message, so its place there is known.
    let start = raw.as_ptr().addr() - message.as_ptr().addr();
    let rest = &message[start + raw.len()..];
    Read::Response(Edit::Replace([&message[..start], &list, rest].concat()))
}

/// Passes the answer to `server/discover` on, with the route's versions.
///
/// # Errors
/// An answer that cannot be read within the route's bounds.
pub(super) async fn settle(
    response: Response<Inbound>,
    lease: Lease,
    route: &Route,
) -> Result<Response<Source>, Refusal> {
    if !response.status().is_success() {
        return Ok(relay::pass(response, lease, Era::Modern));
    }
    let served = route.protocol.versions;
    let reading = |message: &[u8]| read(message, served);
    let (held, edit) = answer::demand(response, lease, route, reading).await?;
    Ok(match edit {
        Edit::Keep => held.pass(Era::Modern),
        Edit::Replace(message) => held.replace(&message, Era::Modern),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> Versions {
        Versions::of(&[Version::V2026_07_28, Version::V2025_11_25])
    }

    #[test]
    fn the_list_is_the_routes_and_no_other_byte_changes() {
        let before = r#"{ "result":{"x":1.0,"supportedVersions": ["2027-01-01","2026-07-28"],"y":{}} ,"id":0}"#;
        let after = r#"{ "result":{"x":1.0,"supportedVersions": ["2026-07-28","2025-11-25"],"y":{}} ,"id":0}"#;
        let edit = Edit::Replace(after.as_bytes().to_vec());
        assert_eq!(read(before.as_bytes(), served()), Read::Response(edit));
    }

    #[test]
    fn a_modern_version_that_the_server_lacks_is_not_listed() {
        let before = r#"{"result":{"supportedVersions":["2027-01-01"]},"id":0}"#;
        let after = r#"{"result":{"supportedVersions":["2025-11-25"]},"id":0}"#;
        let edit = Edit::Replace(after.as_bytes().to_vec());
        assert_eq!(read(before.as_bytes(), served()), Read::Response(edit));
    }

    #[test]
    fn what_needs_no_change_has_none() {
        for message in [
            r#"{"result":{"supportedVersions":["2026-07-28", "2025-11-25"]},"id":0}"#,
            r#"{"error":{"code":-32601},"id":0}"#,
            r#"{"result":{},"id":0}"#,
        ] {
            assert_eq!(
                read(message.as_bytes(), served()),
                Read::Response(Edit::Keep)
            );
        }
    }

    #[test]
    fn what_cannot_be_read_does_not_pass() {
        for message in [
            r#"{"result":{"supportedVersions":"2026-07-28"},"id":0}"#,
            r#"{"result":{"supportedVersions":[],"supportedVersions":[]},"id":0}"#,
            "not json",
        ] {
            assert_eq!(
                read(message.as_bytes(), served()),
                Read::Unreadable,
                "{message}"
            );
        }
    }
}
