//! Addresses to listen on, and the values of `Host` and `Origin` that a route lists.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::finding::{Flaw, shown};
use super::url::{check_host, check_path};

/// Reads an address to listen on, such as `127.0.0.1:8080` or `[::]:8080`.
///
/// # Errors
/// Names are refused: what they resolve to can change, and can be several addresses.
pub fn parse_address(text: &str) -> Result<SocketAddr, Flaw> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.rsplit(':').next().unwrap_or(text);
    let hint = if text.parse::<IpAddr>().is_ok() {
        "add a port, as in `127.0.0.1:8080` or `[::1]:8080`".to_owned()
    } else if text.parse::<u16>().is_ok() || text.starts_with(':') {
        format!("write `127.0.0.1:{port}` for this machine alone or `0.0.0.0:{port}` for all")
    } else if text.starts_with("localhost:") {
        format!("write `127.0.0.1:{port}`: a name may stand for several addresses")
    } else {
        "write an IP address and a port, as in `127.0.0.1:8080` or `[::1]:8080`".to_owned()
    };
    Err(Flaw::of(text, "is not an address to listen on", hint))
}

/// Reads one of the hosts that a route answers to and gives it in lower case, an IPv6 address
/// without its brackets and in its canonical form.
///
/// # Errors
/// A scheme, a port, a path, a wildcard, and what is neither a name nor an address.
pub fn parse_host(text: &str) -> Result<String, Flaw> {
    let refused = |cause: &str, hint: &str| Err(Flaw::of(text, cause, hint));
    if text.contains("://") || text.contains('/') {
        return refused(
            "is a URL, not a host",
            "write the host alone, such as `mcp.example.com`",
        );
    }
    if text.contains('*') {
        return refused(
            "is a pattern, and hosts are compared whole",
            "list each host, or write `hosts: any`",
        );
    }
    if matches!(text, "any" | "loopback") {
        return refused(
            "is a word of its own, not a host in a list",
            &format!("write `hosts: {text}`, without brackets"),
        );
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(address.to_string());
    }
    if text.contains(':') {
        return refused("has a port, which is not compared", "write the host alone");
    }
    match check_host(text) {
        Ok(()) => Ok(text.to_ascii_lowercase()),
        Err(flaw) => refused("is not a host", &flaw.hint),
    }
}

/// Reads one of the origins that a route answers to, as browsers write them.
///
/// # Errors
/// What no browser would ever send: a path, a trailing slash, the default port of the scheme; and
/// `null`, which any sandboxed page can send.
pub fn parse_origin(text: &str) -> Result<String, Flaw> {
    let refused = |cause: &str, hint: String| Err(Flaw::of(text, cause, hint));
    let example =
        || "write scheme, host and port only, such as `https://app.example.com`".to_owned();
    if text == "null" {
        return refused(
            "is the origin of every sandboxed page",
            "serve the page from an origin of its own".to_owned(),
        );
    }
    if matches!(text, "none" | "loopback") {
        return refused(
            "is a word of its own, not an origin in a list",
            format!("write `origins: {text}`, without brackets"),
        );
    }
    if text.contains('*') {
        return refused(
            "is a pattern, and origins are compared whole",
            "list each origin".to_owned(),
        );
    }
    let Some((scheme, authority)) = text.split_once("://") else {
        return refused("is not an origin", example());
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme {
        return refused("is not an origin", example());
    }
    if authority.contains(['/', '?', '#', '@']) {
        let trimmed = authority.trim_end_matches('/');
        if !trimmed.contains(['/', '?', '#', '@']) {
            return refused(
                "ends in a slash, which no browser sends",
                format!("write `{scheme}://{trimmed}`"),
            );
        }
        return refused("is more than an origin", example());
    }
    let lower = text.to_ascii_lowercase();
    for (scheme, port) in [("http://", ":80"), ("https://", ":443")] {
        if let Some(host) = lower
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_suffix(port))
        {
            return refused(
                "names the default port, which browsers leave out",
                format!("write `{scheme}{host}`"),
            );
        }
    }
    if !is_authority(authority) {
        return refused("has no valid host and port", example());
    }
    Ok(lower)
}

/// Whether `text` is a host with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = port.is_none_or(|port| {
        !port.starts_with('0') && !port.starts_with('+') && port.parse::<u16>().is_ok()
    });
    let ipv6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    port && match ipv6 {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => check_host(host).is_ok(),
    }
}

/// Reads the path of a route that passes requests through: one path, or one that ends in `/*` for
/// all that begin so. Unlike others it may lie under `/.well-known`.
///
/// # Errors
/// What two readers could read differently, and the star by itself.
pub fn parse_pass_path(text: &str) -> Result<String, Flaw> {
    let Some(above) = text.strip_suffix("/*") else {
        return parse_plain_path(text);
    };
    if above.is_empty() {
        return Ok(text.to_owned());
    }
    if above.ends_with('/') {
        let cause = "has an empty segment (`//`), which some servers drop";
        return Err(Flaw::of(text, cause, "write single slashes"));
    }
    parse_plain_path(above).map(|above| format!("{above}/*"))
}

/// Reads the path of a route and gives it without a slash at its end.
///
/// # Errors
/// What two readers could read differently, and what belongs to us or to nobody.
pub fn parse_route_path(text: &str) -> Result<String, Flaw> {
    if text.ends_with("/*") {
        return Err(Flaw::of(
            text,
            "is a pattern, and the path of an MCP endpoint is compared whole",
            "write a route for each path, or `pass: true` before it if requests shall pass unread",
        ));
    }
    if text == "/.well-known" || text.starts_with("/.well-known/") {
        return Err(Flaw::of(
            text,
            "lies under `/.well-known`, where no MCP endpoint is",
            "choose another path, such as `/mcp`, or write `pass: true` if requests shall pass \
             unread",
        ));
    }
    parse_plain_path(text)
}

fn parse_plain_path(text: &str) -> Result<String, Flaw> {
    let refused = |cause: &str, hint: &str| Err(Flaw::of(text, cause, hint));
    if text.contains("://") {
        return refused(
            "is a URL, not a path",
            "write the path alone, such as `/mcp`",
        );
    }
    if text.contains(['?', '#']) {
        return refused(
            "has a query or a fragment, and routes are chosen by the path alone",
            "write the path alone, such as `/mcp`",
        );
    }
    if text.contains('*') || text.contains('{') {
        return refused(
            "is a pattern, and paths are compared whole",
            "write a route for each path",
        );
    }
    if let Err(flaw) = check_path(text) {
        return Err(Flaw::new(
            format!("{}: {}", shown(text), flaw.cause),
            flaw.hint,
        ));
    }
    Ok(match text.strip_suffix('/') {
        None | Some("") => text.to_owned(),
        Some(path) => path.to_owned(),
    })
}

/// Whether a host, of a policy or of a request, names this machine's loopback.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || address(host).is_some_and(|address| address.is_loopback())
}

/// The host of `host[:port]`, if nothing else stands there (RFC 9110, 7.2, without user names and
/// percent-encodings, which no host on a network has).
#[must_use]
pub fn host_of(text: &str) -> Option<&str> {
    let end = match text.strip_prefix('[') {
        Some(address) => 1 + address.find(']')? + 1,
        None => text
            .bytes()
            .position(|byte| byte == b':')
            .unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let clear = match host.strip_prefix('[') {
        Some(_) => address(host).is_some_and(|address| address.is_ipv6()),
        None => !host.is_empty() && host.bytes().all(is_of_name),
    };
    let port_clear = match port.strip_prefix(':') {
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    (clear && port_clear).then_some(host)
}

/// The address that a host is, if it is one; an IPv6 address may stand in brackets.
#[must_use]
pub fn address(host: &str) -> Option<IpAddr> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_read_exactly() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_address_is_a_number_and_a_port() {
        assert!(parse_address("127.0.0.1:0").is_ok() && parse_address("[::]:8080").is_ok());
        for (text, hint) in [
            ("8080", "`0.0.0.0:8080`"),
            (":8080", "`127.0.0.1:8080`"),
            ("localhost:8080", "`127.0.0.1:8080`"),
            ("127.0.0.1", "add a port"),
            ("::1", "add a port"),
            ("127.0.0.1:99999", "as in"),
            ("example.com:80", "as in"),
            ("", "as in"),
        ] {
            assert!(
                parse_address(text).unwrap_err().hint.contains(hint),
                "{text}"
            );
        }
    }

    #[test]
    fn a_host_stands_alone() {
        assert_eq!(
            parse_host("MCP.Example.com").as_deref(),
            Ok("mcp.example.com")
        );
        assert_eq!(parse_host("[0:0::1]").as_deref(), Ok("::1"));
        assert_eq!(parse_host("::1").as_deref(), Ok("::1"));
        assert_eq!(parse_host("10.0.0.7").as_deref(), Ok("10.0.0.7"));
        for (text, cause) in [
            ("https://a.example", "URL"),
            ("a.example/mcp", "URL"),
            ("a.example:8080", "port"),
            ("[::1]:8080", "port"),
            ("*.example.com", "pattern"),
            ("any", "word of its own"),
            ("bücher.example", "not a host"),
            ("a.example.", "not a host"),
            ("127.1", "not a host"),
            ("", "not a host"),
        ] {
            assert!(
                parse_host(text).unwrap_err().cause.contains(cause),
                "{text}"
            );
        }
    }

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for (text, kept) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("http://localhost:5173", "http://localhost:5173"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("vscode-webview://abc", "vscode-webview://abc"),
        ] {
            assert_eq!(parse_origin(text).as_deref(), Ok(kept));
        }
        for (text, part) in [
            (
                "https://app.example.com/",
                "write `https://app.example.com`",
            ),
            ("https://app.example.com/x", "more than"),
            (
                "https://app.example.com:443",
                "write `https://app.example.com`",
            ),
            (
                "http://app.example.com:80",
                "write `http://app.example.com`",
            ),
            ("app.example.com", "not an origin"),
            ("null", "sandboxed"),
            ("*", "pattern"),
            ("https://u:p@x", "not shown"),
            ("https://", "no valid host"),
            ("https://a:b", "no valid host"),
            ("none", "word of its own"),
        ] {
            let flaw = parse_origin(text).unwrap_err();
            assert!(
                format!("{} {}", flaw.cause, flaw.hint).contains(part),
                "{text}: {flaw:?}"
            );
        }
    }

    #[test]
    fn a_path_of_a_route_is_plain() {
        for (text, kept) in [
            ("/mcp", "/mcp"),
            ("/mcp/", "/mcp"),
            ("/", "/"),
            ("/a/b", "/a/b"),
        ] {
            assert_eq!(parse_route_path(text).as_deref(), Ok(kept));
        }
        for text in [
            "mcp",
            "",
            "/mcp?x",
            "/mcp#x",
            "//",
            "/a//b",
            "/a/..",
            "/./a",
            "/%6Dcp",
            "/a%2Fb",
            "/a b",
            "/é",
            "/mcp*",
            "/{team}",
            "http://h/mcp",
            "/.well-known",
            "/.well-known/x",
            "/a\\b",
        ] {
            assert!(parse_route_path(text).is_err(), "{text}");
        }
    }
}
