//! URLs of upstreams, read strictly.
//!
//! A general URL parser repairs: it lower-cases, resolves dot segments, turns backslashes into
//! slashes and drops fragments, and the next reader may repair differently. Here nothing is
//! repaired. What two readers could take for two things is refused, and what is accepted is sent
//! as it was written.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::finding::Flaw;
use super::segment::bare;

/// Most bytes of a URL or of a path.
const BYTES_MAX: usize = 4096;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// The scheme as it stands in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of a URL that names none.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A checked `http://` or `https://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// How the server is spoken to.
    pub scheme: Scheme,
    /// Host and port as they stand in the URL, the host in lower case.
    pub authority: String,
    /// The host alone, an IPv6 address without its brackets.
    pub host: String,
    /// The port, that of the scheme unless the URL names one.
    pub port: u16,
    /// The path, `/` if the URL has none.
    pub path: String,
    /// Whether the URL named a path at all.
    pub names_path: bool,
    /// The query, without its question mark.
    pub query: Option<String>,
}

/// Reads the URL of an upstream.
///
/// # Errors
/// Whatever is not `http[s]://host[:port][/path][?query]` and unambiguous. No flaw ever repeats a
/// part of the URL, because a credential may stand in any of them.
pub fn parse(text: &str) -> Result<Url, Flaw> {
    if text.len() > BYTES_MAX {
        return Err(flaw(
            "the URL is too long",
            "shorten it to at most 4096 bytes",
        ));
    }
    if text.bytes().any(|b| !(0x21..=0x7e).contains(&b)) {
        return Err(flaw(
            "the URL contains a blank, a control character or a character outside ASCII",
            "percent-encode it in a path or query; write an international host name in its `xn--` form",
        ));
    }
    let (scheme, rest) = split_scheme(text)?;
    if rest.contains('#') {
        return Err(flaw(
            "the URL has a fragment (`#…`), which is never sent to a server",
            "remove it",
        ));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (host, port) = split_authority(authority, scheme)?;
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (tail, None),
    };
    if !path.is_empty() {
        check_path(path)?;
    }
    if let Some(query) = query {
        check_query(query)?;
    }
    Ok(Url {
        scheme,
        authority: authority.to_ascii_lowercase(),
        host: host.to_ascii_lowercase(),
        port,
        path: if path.is_empty() { "/" } else { path }.to_owned(),
        names_path: !path.is_empty(),
        query: query.map(str::to_owned),
    })
}

/// The scheme, and what follows its `://`.
fn split_scheme(text: &str) -> Result<(Scheme, &str), Flaw> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(flaw(
            "the URL does not begin with `http://` or `https://`",
            "write `http://host:port/path`",
        ));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Scheme::Http, rest)),
        "https" => Ok((Scheme::Https, rest)),
        _ => Err(flaw(
            "the URL has a scheme other than `http` and `https`",
            "write `http://host:port/path`",
        )),
    }
}

/// Host and port of an authority without a user part.
fn split_authority(authority: &str, scheme: Scheme) -> Result<(&str, u16), Flaw> {
    if authority.contains('@') {
        return Err(flaw(
            "the URL has a user part (`user:password@`), which would end up in logs",
            "remove it; credentials for upstreams do not belong into a URL",
        ));
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err(flaw(
                "the URL's host has no closing `]`",
                "write `http://[::1]:3000/mcp`",
            ));
        };
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(flaw(
                "what stands in brackets in the URL is not an IPv6 address",
                "write `http://[::1]:3000/mcp`, without a zone (`%eth0`)",
            ));
        }
        (host, after)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (host, after) = authority.split_at(end);
        check_host(host)?;
        (host, after)
    };
    Ok((host, parse_port(port)?.unwrap_or(scheme.port())))
}

/// The port of `after`, which is empty or begins with a colon.
fn parse_port(after: &str) -> Result<Option<u16>, Flaw> {
    if after.is_empty() {
        return Ok(None);
    }
    after
        .strip_prefix(':')
        .filter(|digits| !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .map(Some)
        .ok_or_else(|| {
            flaw(
                "the URL's port is not a number from 1 to 65535",
                "write it directly behind the host: `http://127.0.0.1:3000/mcp`",
            )
        })
}

/// Checks a host that is a name or an IPv4 address.
pub(crate) fn check_host(host: &str) -> Result<(), Flaw> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.is_empty() {
        return Err(flaw(
            "the host is missing",
            "write a name or an address, such as `127.0.0.1`",
        ));
    }
    if host.len() > 253 || !host.split('.').all(label) {
        return Err(flaw(
            "the host is neither a name nor an address",
            "a name has letters, digits, `-`, `_` and single dots between them, none at its end",
        ));
    }
    // `127.1`, `2130706433` and `0x7f000001` are loopback to some resolvers and names to others.
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err(flaw(
            "the host looks like a number, which resolvers read in different ways",
            "write an IPv4 address as four decimal numbers, such as `127.0.0.1`",
        ));
    }
    Ok(())
}

/// Checks a path: what it says must be the same to every reader.
pub(crate) fn check_path(path: &str) -> Result<(), Flaw> {
    if !path.starts_with('/') {
        return Err(flaw(
            "the path does not begin with `/`",
            "write it as `/mcp`",
        ));
    }
    if path.len() > BYTES_MAX {
        return Err(flaw(
            "the path is too long",
            "shorten it to at most 4096 bytes",
        ));
    }
    if path.contains('\\') {
        return Err(flaw(
            "the path has a backslash, which some servers read as `/`",
            "write `/`",
        ));
    }
    check_bytes(path, b":@/", "path")?;
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        // Some servers cut a segment at `;` before they look whether it is empty, and at its dots.
        let name = segment.split(';').next().unwrap_or(segment);
        let is_last = segments.peek().is_none();
        if name.is_empty() && !(segment.is_empty() && is_last) {
            return Err(flaw(
                "the path has an empty segment (`//` or `/;x`), which some servers drop",
                "write single slashes",
            ));
        }
        if !name.is_empty() && bare(name).is_empty() {
            return Err(flaw(
                "the path has a dot segment (`.` or `..`, or of dots and blanks), which some servers \
                 resolve",
                "write the path that it leads to",
            ));
        }
    }
    Ok(())
}

/// Checks a query.
fn check_query(query: &str) -> Result<(), Flaw> {
    check_bytes(query, b":@/?", "query")
}

/// Checks that only the characters of RFC 3986 occur (the unreserved ones, `sub-delims` and
/// `more`), and that percent-encoding is used only where it says one thing.
fn check_bytes(text: &str, more: &[u8], part: &str) -> Result<(), Flaw> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next(), bytes.next()];
            check_encoded(pair, part)?;
        } else if !(is_plain(byte) || more.contains(&byte)) {
            return Err(flaw(
                format!("the {part} has a character that must be percent-encoded"),
                "letters, digits and `-._~!$&'()*+,;=:@` may stand in it as they are",
            ));
        }
    }
    Ok(())
}

/// The unreserved characters and the `sub-delims` of RFC 3986.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// Checks the two characters behind a percent sign. In a path, an encoded `/` is a slash to some
/// servers and not to others, and an encoded letter equals the letter to some only.
fn check_encoded(pair: [Option<u8>; 2], part: &str) -> Result<(), Flaw> {
    let digit = |b: Option<u8>| match b? {
        b @ b'0'..=b'9' => Some(b - b'0'),
        b @ b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    };
    let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
        return Err(flaw(
            format!("the {part} has a `%` without two hexadecimal digits in upper case behind it"),
            "write the percent-encoding like `%C3%A9`",
        ));
    };
    let byte = high << 4 | low;
    if byte.is_ascii_control() {
        return Err(flaw(
            format!("the {part} has an encoded control character"),
            "remove it",
        ));
    }
    if part == "path" && (is_plain(byte) || b"/\\%?#:@".contains(&byte)) {
        return Err(flaw(
            "the path has a percent-encoding that can be read in two ways",
            "write letters, digits, `-`, `.`, `_` and `~` as they are, and do without an encoded \
             slash or percent sign",
        ));
    }
    Ok(())
}

/// Shorthand.
fn flaw(cause: impl Into<String>, hint: impl Into<String>) -> Flaw {
    Flaw::new(cause, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_and_left_as_written() {
        let url = parse("http://Weather.example:3000/mcp/v1?team=a&x=%2F").unwrap();
        assert_eq!(url.authority, "weather.example:3000");
        assert_eq!((url.host.as_str(), url.port), ("weather.example", 3000));
        assert_eq!(url.path, "/mcp/v1");
        assert_eq!(url.query.as_deref(), Some("team=a&x=%2F"));

        let url = parse("HTTPS://h/").unwrap();
        assert_eq!((url.scheme, url.port), (Scheme::Https, 443));
        assert_eq!(url.authority, "h");
        assert_eq!(parse("https://h:80/").unwrap().port, 80);

        let url = parse("http://[::1]").unwrap();
        assert_eq!(
            (url.host.as_str(), url.authority.as_str()),
            ("::1", "[::1]")
        );
        assert_eq!(
            (url.port, url.path.as_str(), url.names_path),
            (80, "/", false)
        );
        assert_eq!(parse("http://h?q").unwrap().path, "/");
        assert_eq!(
            parse("http://my_service:80/").unwrap().authority,
            "my_service:80"
        );
        assert_eq!(parse("http://h/caf%C3%A9/").unwrap().path, "/caf%C3%A9/");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for (url, cause) in [
            ("weather:3000", "does not begin with"),
            ("https//h/", "does not begin with"),
            ("https://u:secret@h/", "user part"),
            ("ftp://h/", "scheme other"),
            ("http://", "host is missing"),
            ("http:///mcp", "host is missing"),
            ("http://u:secret@h/", "user part"),
            ("http://secret@h/", "user part"),
            ("http://h/#secret", "fragment"),
            ("http://h:/", "port"),
            ("http://h:0/", "port"),
            ("http://h:080/", "port"),
            ("http://h:+80/", "port"),
            ("http://h:65536/", "port"),
            ("http://[::1]3000/", "port"),
            ("http://[::1/", "closing"),
            ("http://[fe80::1%25eth0]/", "IPv6"),
            ("http://127.1/", "looks like a number"),
            ("http://2130706433/", "looks like a number"),
            ("http://0x7f000001/", "looks like a number"),
            ("http://010.0.0.1/", "looks like a number"),
            ("http://h./", "neither"),
            ("http://-h/", "neither"),
            ("http://a..b/", "neither"),
            ("http://h/a//b", "empty segment"),
            ("http://h//", "empty segment"),
            ("http://h/a/../b", "dot segment"),
            ("http://h/./b", "dot segment"),
            ("http://h/..;/b", "dot segment"),
            ("http://h/.../b", "dot segment"),
            ("http://h/%20/b", "dot segment"),
            ("http://h/.%20;x/b", "dot segment"),
            ("http://h/;", "empty segment"),
            ("http://h/;/b", "empty segment"),
            ("http://h/a/;x;y=1/b", "empty segment"),
            ("http://h/%2e%2e/", "upper case"),
            ("http://h/%2E%2E/", "two ways"),
            ("http://h/a%2Fb", "two ways"),
            ("http://h/%41", "two ways"),
            ("http://h/%25", "two ways"),
            ("http://h/%00", "control"),
            ("http://h/?%0A", "control"),
            ("http://h/%", "upper case"),
            ("http://h/%zz", "upper case"),
            ("http://h/a b", "blank"),
            ("http://h/é", "outside ASCII"),
            ("http://h/a\nb", "control"),
            ("http://h/a\\b", "backslash"),
            ("http://h/{x}", "must be percent-encoded"),
            ("http://h/?<x>", "must be percent-encoded"),
        ] {
            let flaw = parse(url).unwrap_err();
            assert!(flaw.cause.contains(cause), "{url}: {flaw:?}");
            assert!(!flaw.cause.contains("secret") && !flaw.hint.contains("secret"));
        }
        assert!(parse(&format!("http://h/{}", "a".repeat(5000))).is_err());
    }

    #[test]
    fn the_http_library_reads_an_accepted_url_as_we_do() {
        for text in [
            "http://h",
            "http://[::1]:3000/mcp",
            "http://A_b.c:1/x/~y;z?q=/?:@&%C3",
            "http://h?q",
        ] {
            let ours = parse(text).unwrap();
            let theirs: http::Uri = text.parse().unwrap();
            let authority = theirs.authority().unwrap();
            assert_eq!(authority.as_str().to_ascii_lowercase(), ours.authority);
            assert_eq!(theirs.port_u16().unwrap_or(80), ours.port);
            assert_eq!(theirs.path(), ours.path);
            assert_eq!(theirs.query(), ours.query.as_deref());
        }
    }
}
