//! Header fields that belong to one connection and never cross to the next (RFC 9110, 7.6.1).

use http::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

/// Removes what belongs to the connection that `headers` came from, the fields that it nominates,
/// and those for which `also` is true, which is asked with each name in lower case.
pub(super) fn strip(headers: &mut HeaderMap, also: impl Fn(&str) -> bool) {
    let mut doomed: SmallVec<[HeaderName; 8]> = headers
        .keys()
        .filter(|name| belongs_to_connection(name.as_str()) || also(name.as_str()))
        .cloned()
        .collect();
    if doomed.contains(&CONNECTION) && headers.get_all(CONNECTION).iter().any(nominates) {
        doomed.extend(nominated(headers));
    }
    if doomed.contains(&TRANSFER_ENCODING) {
        // A length beside a transfer coding is not that of the body (RFC 9112, 6.3).
        doomed.push(CONTENT_LENGTH);
    }
    for name in doomed {
        headers.remove(name);
    }
}

fn belongs_to_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Nearly every `Connection` line nominates nothing.
fn nominates(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    !value.eq_ignore_ascii_case(b"keep-alive") && !value.eq_ignore_ascii_case(b"close")
}

/// Whether a field is for every reader of the message, so that no connection may claim it.
fn is_for_all(name: &HeaderName) -> bool {
    *name == CONTENT_TYPE || *name == ACCEPT || *name == HOST || name.as_str().starts_with("mcp-")
}

fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !is_for_all(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nominated_fields_go_with_the_connection() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-One"),
            ("connection", "x-two, Mcp-Name"),
            ("mcp-name", "echo"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("x-four", "4"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers, |name| name == "x-four");
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-three", "mcp-name"]);
    }
}
