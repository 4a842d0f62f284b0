//! Where a resource stands among others, by the path of its URI.

/// The place of the resource at `uri`: its scheme, and the segments behind it that hold something.
/// What the URI says behind `?` or `#` is left away, escape sequences are resolved and so are `.`
/// and `..`: two URIs of one resource have one place. That some of different resources have one too
/// costs a fetch and no more.
///
/// One place is above another if it is the beginning of it and `/` comes next.
#[must_use]
pub(super) fn place(uri: &str) -> Box<str> {
    let path = &uri[..uri.find(['?', '#']).unwrap_or(uri.len())];
    let (scheme, path) = match path.split_once(':') {
        Some((scheme, path)) => (scheme.to_ascii_lowercase(), path),
        None => (String::new(), path),
    };
    let decoded = decode(path.as_bytes());
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut place = scheme;
    place.push(':');
    for (index, segment) in segments.into_iter().enumerate() {
        place.push('/');
        match index {
            // Of most URIs this is the host, and then its case says nothing.
            0 => place.push_str(&segment.to_ascii_lowercase()),
            _ => place.push_str(segment),
        }
    }
    place.into()
}

/// The places above `place`, the nearest first.
pub(super) fn above(place: &str) -> impl Iterator<Item = &str> {
    let mut rest = place;
    std::iter::from_fn(move || {
        rest = &rest[..rest.rfind('/')?];
        Some(rest)
    })
}

/// `text` with its percent-encoded bytes as they are; what is no UTF-8 then is replaced.
fn decode(text: &[u8]) -> String {
    let digit = |at: usize| text.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two digits make one byte.
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_one_resource_have_one_place() {
        for (uri, other) in [
            ("file:///a/b", "file:///a/b/"),
            ("file:///a/b", "FILE:///a//b"),
            ("file:///a/b", "file:///a/./c/../b"),
            ("file:///a/b", "file:///a/%62"),
            ("x://Host/a?q=1", "x://host/a#top"),
            ("x://host", "x://host/"),
            ("file:///", "file://"),
            ("x://h/ü", "x://h/%C3%BC"),
        ] {
            assert_eq!(place(uri), place(other), "{uri} {other}");
        }
        for (uri, other) in [
            ("file:///a/b", "file:///a/bc"),
            ("file:///a/b", "file:///a/B"),
            ("file:///a/b", "http:///a/b"),
            ("x://a/b", "x://a/b/c"),
            ("urn:a:b", "urn:a:c"),
        ] {
            assert_ne!(place(uri), place(other), "{uri} {other}");
        }
    }

    #[test]
    fn a_place_lies_below_those_of_its_segments() {
        let place = place("file:///a/b/c%2");
        assert_eq!(&*place, "file:/a/b/c%2");
        let above: Vec<_> = above(&place).collect();
        assert_eq!(above, ["file:/a/b", "file:/a", "file:"]);
    }

    #[test]
    fn nothing_that_a_peer_sends_is_too_much() {
        for uri in ["", ":", "%", "%%4", "../..", "a:../../b", "é%", "%ff", "?"] {
            assert!(place(uri).contains(':'), "{uri}");
        }
    }
}
