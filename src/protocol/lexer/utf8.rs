//! UTF-8, checked once per chunk and not per string: whole chunks are what SIMD is good at.

/// Checks a stream of chunks, of which any may end within a character.
#[derive(Clone, Debug, Default)]
pub(super) struct Utf8 {
    /// The bytes of a character whose rest is in the next chunk.
    cut: [u8; 4],
    cut_len: usize,
}

impl Utf8 {
    /// Checks the next chunk, which begins at the absolute offset `base`. The error is the
    /// absolute offset of the first byte of what is no character, and may lie in an earlier
    /// chunk.
    pub(super) fn check(&mut self, chunk: &[u8], base: usize) -> Result<(), usize> {
        let mut from = 0;
        while self.cut_len > 0 {
            let Some(&byte) = chunk.get(from) else {
                return Ok(());
            };
            let begins_at = base + from - self.cut_len;
            self.cut[self.cut_len] = byte;
            self.cut_len += 1;
            from += 1;
            match std::str::from_utf8(&self.cut[..self.cut_len]) {
                Ok(_) => self.cut_len = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(begins_at),
            }
        }
        let rest = chunk.get(from..).unwrap_or_default();
        let whole = rest.len() - cut_character(rest);
        let (whole, cut) = rest.split_at(whole);
        if simdutf8::basic::from_utf8(whole).is_err() {
            let valid =
                std::str::from_utf8(whole).map_or_else(|error| error.valid_up_to(), str::len);
            return Err(base + from + valid);
        }
        self.cut[..cut.len()].copy_from_slice(cut);
        self.cut_len = cut.len();
        Ok(())
    }

    /// How many bytes of an unfinished character were read last.
    pub(super) fn unfinished(&self) -> usize {
        self.cut_len
    }
}

/// The length of the unfinished character at the end of the bytes, 0 if there is none.
fn cut_character(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let len = match byte {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if len > back + 1 { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offset of the first offence, or of an unfinished character at the end.
    fn check(chunks: &[&[u8]]) -> Option<usize> {
        let mut utf8 = Utf8::default();
        let mut base = 0;
        for chunk in chunks {
            if let Err(at) = utf8.check(chunk, base) {
                return Some(at);
            }
            base += chunk.len();
        }
        (utf8.unfinished() > 0).then(|| base - utf8.unfinished())
    }

    #[test]
    fn agrees_with_the_standard_library_however_the_text_is_cut() {
        let pieces: [&[u8]; 14] = [
            "a".as_bytes(),
            "é".as_bytes(),
            "€".as_bytes(),
            "\u{10FFFF}".as_bytes(),
            b"\x80",
            b"\xC0\x80",
            b"\xC3",
            b"\xE0\x80",
            b"\xE2\x82",
            b"\xED\xA0\x80",
            b"\xF0\x9F\x98",
            b"\xF4\x90\x80\x80",
            b"\xF5",
            b"\xFF",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let text = [first, second, third].concat();
                    let expected = std::str::from_utf8(&text).err().map(|e| e.valid_up_to());
                    for one in 0..=text.len() {
                        for two in one..=text.len() {
                            let chunks = [&text[..one], &text[one..two], &text[two..]];
                            assert_eq!(check(&chunks), expected, "{text:x?} {one} {two}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn long_chunks_take_the_wide_path() {
        let mut text = "日本語のテキスト ".repeat(200).into_bytes();
        assert_eq!(check(&[&text[..1000], &text[1000..]]), None);
        text[2001] = 0xFF;
        let expected = std::str::from_utf8(&text).err().map(|e| e.valid_up_to());
        assert_eq!(check(&[&text[..1000], &text[1000..]]), expected);
    }
}
