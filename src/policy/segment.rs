//! Segments of paths, as the servers read them that are the least particular.

/// A segment without what some servers drop of it: everything from a `;` on, which they read as its
/// parameters, and dots and blanks at its end, which some file systems ignore.
pub(crate) fn bare(segment: &str) -> &str {
    let mut bare = segment.split(';').next().unwrap_or(segment);
    while let Some(shorter) = bare.strip_suffix('.').or_else(|| bare.strip_suffix("%20")) {
        bare = shorter;
    }
    bare
}

/// Whether some server takes both segments for the same.
pub(crate) fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (bare(one), bare(other));
    let is_encoded = one.contains('%') || other.contains('%');
    one.eq_ignore_ascii_case(other) || (is_encoded && folded(one) == folded(other))
}

/// The text of a segment without regard to case. Some letters outside ASCII fold into one of ASCII,
/// such as the sign for Kelvin.
fn folded(segment: &str) -> String {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let (bytes, mut decoded) = (segment.as_bytes(), Vec::with_capacity(segment.len()));
    let mut at = 0;
    while at < bytes.len() {
        let pair = (digit(bytes.get(at + 1)), digit(bytes.get(at + 2)));
        if let (b'%', (Some(high), Some(low))) = (bytes[at], pair) {
            decoded.extend(u8::try_from(high << 4 | low));
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    let text = String::from_utf8_lossy(&decoded);
    let is_dropped = |c: char| c == '.' || c.is_whitespace();
    let text = text.trim_end_matches(is_dropped);
    text.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_alike_where_some_server_takes_them_for_the_same() {
        for (one, other) in [
            ("mcp", "MCP"),
            ("mcp", "mcp;a=1"),
            ("mcp", "mcp."),
            ("mcp", "Mcp...;x"),
            ("mcp", "mcp%20"),
            ("mcp", "mcp.%20.;x"),
            ("mcp", "mcp%C2%A0"),
            ("mcp", "mcp%C2%A0."),
            ("mcp", "m%63p"),
            ("caf%C3%A9", "CAF%C3%89"),
            ("tasks", "tas%E2%84%AAs"),
            ("tasks", "ta%C5%BFks"),
            ("a%22", "A%22"),
        ] {
            assert!(are_alike(one, other) && are_alike(other, one), "{other}");
        }
        for (one, other) in [
            ("mcp", "mcpx"),
            ("mcp", "m.cp"),
            ("mcp", ".mcp"),
            ("mcp", "mcp%22"),
            ("mcp", ""),
            ("caf%C3%A9", "cafe"),
        ] {
            assert!(!are_alike(one, other) && !are_alike(other, one), "{other}");
        }
    }
}
