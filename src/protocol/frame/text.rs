//! Strings without their quotes and escape sequences.

use std::borrow::Cow;

/// Decodes a string as it stands in the body, quotes included; the lexer has accepted it.
/// `None` if half of a surrogate pair stands alone, which no text can hold.
pub(super) fn decode(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let inner = std::str::from_utf8(inner).ok()?;
    // The texts that decide are short, and a plain loop finds most of them without a backslash.
    match inner.bytes().position(|byte| byte == b'\\') {
        None => Some(Cow::Borrowed(inner)),
        Some(first) => unescape(inner, first).map(Cow::Owned),
    }
}

/// Decodes what has an escape sequence, the first of them at `first`.
fn unescape(text: &str, first: usize) -> Option<String> {
    let mut decoded = String::with_capacity(text.len());
    let (plain, mut rest) = text.split_at_checked(first)?;
    decoded.push_str(plain);
    while let Some(sequence) = rest.strip_prefix('\\') {
        let letter = sequence.chars().next()?;
        rest = sequence.get(letter.len_utf8()..)?;
        let character = match letter {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let character;
                (character, rest) = unicode(rest)?;
                character
            }
            itself => itself,
        };
        decoded.push(character);
        let plain = rest.find('\\').unwrap_or(rest.len());
        decoded.push_str(rest.get(..plain)?);
        rest = rest.get(plain..)?;
    }
    Some(decoded)
}

/// The character that the digits behind `\u` mean, and what follows it. One beyond the basic
/// plane is written as two sequences, a high and a low surrogate.
fn unicode(text: &str) -> Option<(char, &str)> {
    let (unit, rest) = hex4(text)?;
    if !(0xD800..0xDC00).contains(&unit) {
        return Some((char::from_u32(unit)?, rest));
    }
    let (low, rest) = hex4(rest.strip_prefix("\\u")?)?;
    if !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    let character = char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))?;
    Some((character, rest))
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_serde_json_decodes_and_refuses_what_it_refuses() {
        let pieces = [
            "",
            "a",
            "é",
            r"\n",
            r#"\""#,
            r"\\",
            r"\/",
            r"\b",
            r"\f",
            r"\r",
            r"\t",
            r"\u0000",
            r"\u0041",
            r"\u00e9",
            r"\uD83D",
            r"\ude00",
            r"\uD83D\uDE00",
            r"\uDBFF\uDFFF",
            r"\uD800\uD800",
            r"\uffff",
            "😀",
            "u0041",
            "𝄞",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let raw = format!("\"{first}{second}{third}\"");
                    let theirs = serde_json::from_str::<String>(&raw).ok();
                    let ours = decode(raw.as_bytes()).map(Cow::into_owned);
                    assert_eq!(ours, theirs, "{raw}");
                }
            }
        }
    }

    #[test]
    fn copies_nothing_without_escape_sequences() {
        assert!(matches!(
            decode("\"tools/call\"".as_bytes()),
            Some(Cow::Borrowed("tools/call"))
        ));
    }
}
