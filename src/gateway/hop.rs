//! Header fields that belong to one connection and never cross to the next (RFC 9110, 7.6.1).

use http::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Removes what belongs to the connection that `headers` came from, nominated fields included.
pub fn strip(headers: &mut HeaderMap) {
    if headers.get_all(CONNECTION).iter().any(nominates) {
        strip_nominated(headers);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
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

fn strip_nominated(headers: &mut HeaderMap) {
    let nominated: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !is_for_all(name))
        .collect();
    for name in nominated {
        headers.remove(name);
    }
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
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-three", "mcp-name"]);
    }
}
