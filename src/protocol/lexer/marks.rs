//! Where the plain stretches of strings end.
//!
//! Most of what passes through is string: names of a few bytes, texts full of escape sequences,
//! blobs of megabytes. All are searched for three things, the marks: a quote, a backslash, a
//! control character. A short string is over within a word or two ([`near`], [`first`]). A long
//! one is compared in blocks, which the compiler turns into vector instructions. Where escape
//! sequences are dense, the bits of one block answer many searches ([`Marks`]): each waits for a
//! shift and a count, and not for a load and a comparison.

/// One bit of a word for each byte.
const BLOCK: usize = 64;
/// So many bytes are asked at once whether there is any mark among them.
const STRETCH: usize = 4 * BLOCK;
/// A name, even a long one, is shorter than so many words.
const WORDS: usize = 8;

/// Flipping this bit moves the quote (0x22) next to the control characters, and nothing else
/// between, so that one comparison finds both.
const QUOTE_TO_CONTROL: u8 = 0x02;
const END_OF_CONTROL: u8 = 0x21;

/// The index of the first mark from `at` on, if it is among the next eight bytes; else an index
/// up to which there is none.
#[inline(always)]
pub(super) fn near(chunk: &[u8], at: usize) -> usize {
    word_at(chunk, at).map_or(at, |word| at + plain_bytes(word))
}

/// The index of the first mark from `at` on, or the length of the chunk.
#[inline(never)]
pub(super) fn first(chunk: &[u8], mut at: usize) -> usize {
    for _ in 0..WORDS {
        let Some(word) = word_at(chunk, at) else {
            let tail = chunk.get(at..).unwrap_or_default();
            return at + tail.iter().take_while(|&&byte| !is_mark(byte)).count();
        };
        let plain = plain_bytes(word);
        at += plain;
        if plain < 8 {
            return at;
        }
    }
    Marks::new().next(chunk, at)
}

/// The marks of one block of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    block: usize,
    bits: u64,
}

impl Marks {
    /// The marks of no block yet.
    pub(super) fn new() -> Marks {
        Marks {
            block: usize::MAX,
            bits: 0,
        }
    }

    /// The index of the first mark from `at` on, or the length of the chunk, which must be the
    /// same in every call.
    #[inline(always)]
    pub(super) fn next(&mut self, chunk: &[u8], at: usize) -> usize {
        let block = at / BLOCK;
        if block != self.block {
            *self = Marks::of_block(chunk, block);
        }
        let rest = self.bits >> (at % BLOCK);
        if rest != 0 {
            return at + rest.trailing_zeros() as usize;
        }
        *self = Marks::from_block(chunk, block + 1);
        (self.block * BLOCK + self.bits.trailing_zeros() as usize).min(chunk.len())
    }

    /// The marks of the first block from this one on that has any, or else of the last.
    #[inline(never)]
    fn from_block(chunk: &[u8], mut block: usize) -> Marks {
        let mut marks = Marks::of_block(chunk, block);
        while marks.bits == 0 && (block + 1) * BLOCK < chunk.len() {
            block += 1;
            while stretch_at(chunk, block * BLOCK).is_some_and(is_plain) {
                block += STRETCH / BLOCK;
            }
            marks = Marks::of_block(chunk, block);
        }
        marks
    }

    #[inline(never)]
    fn of_block(chunk: &[u8], block: usize) -> Marks {
        let rest = chunk.get(block * BLOCK..).unwrap_or_default();
        let bits = rest.first_chunk().map_or_else(|| bits_of_tail(rest), bits);
        Marks { block, bits }
    }
}

/// The marks of what is shorter than a block.
fn bits_of_tail(tail: &[u8]) -> u64 {
    let mut padded = [b' '; BLOCK];
    padded[..tail.len()].copy_from_slice(tail);
    bits(&padded)
}

#[inline(always)]
fn bits(bytes: &[u8; BLOCK]) -> u64 {
    let flags = bytes.map(|byte| u8::from(is_mark(byte)));
    let mut bits = 0;
    for (index, flags) in flags.as_chunks::<8>().0.iter().enumerate() {
        // The product gathers the lowest bits of the eight bytes in the highest byte.
        let gathered = u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= gathered << (8 * index);
    }
    bits
}

#[inline(always)]
fn stretch_at(chunk: &[u8], at: usize) -> Option<&[u8; STRETCH]> {
    chunk.get(at..)?.first_chunk()
}

/// Whether a stretch has no mark at all, which is quicker to ask than where they are: the least
/// of these numbers is 0 only if there is one.
#[inline(always)]
fn is_plain(stretch: &[u8; STRETCH]) -> bool {
    let least = stretch.iter().fold(u8::MAX, |least, &byte| {
        let quote_or_control = (byte ^ QUOTE_TO_CONTROL).saturating_sub(END_OF_CONTROL - 1);
        least.min(quote_or_control).min(byte ^ b'\\')
    });
    least > 0
}

#[inline(always)]
fn word_at(chunk: &[u8], at: usize) -> Option<u64> {
    let word = chunk.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// How many bytes of the word come before its first mark; 8 if it has none.
#[inline(always)]
fn plain_bytes(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 255;
    let quote_or_control = word ^ (ONES * QUOTE_TO_CONTROL as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    // A subtraction that borrows sets the top bit of a byte. It may borrow from the byte behind
    // and set a wrong bit there, but never before the first that is right.
    let found = (quote_or_control.wrapping_sub(ONES * END_OF_CONTROL as u64) & !quote_or_control)
        | (backslash.wrapping_sub(ONES) & !backslash);
    ((found & (ONES << 7)).trailing_zeros() / 8) as usize
}

/// A quote, a backslash or a control character.
#[inline(always)]
fn is_mark(byte: u8) -> bool {
    ((byte ^ QUOTE_TO_CONTROL) < END_OF_CONTROL) | (byte == b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_are_the_quote_the_backslash_and_the_control_characters() {
        for byte in 0..=255 {
            assert_eq!(
                is_mark(byte),
                matches!(byte, b'"' | b'\\' | 0..0x20),
                "{byte}"
            );
            let stretch = std::array::from_fn(|at| if at == 77 { byte } else { b'x' });
            assert_eq!(is_plain(&stretch), !is_mark(byte), "{byte}");
        }
    }

    #[test]
    fn every_search_finds_what_a_search_byte_by_byte_finds() {
        let mut state = 1u32;
        for len in (0..200).chain([400, 1000, 4096]) {
            // Marks are dense in some chunks, rare in others, and stand next to bytes from
            // which a subtraction borrows.
            let density = 1 << (len % 7);
            let chunk: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let choice = (state >> 16) as usize;
                    match choice % density {
                        0 => b"\"\\\n\x00\x1f"[choice / density % 5],
                        _ => b"!#][ a\x7f\x80\xff\xa2\xdc"[choice / density % 11],
                    }
                })
                .collect();
            let mut marks = Marks::new();
            for at in 0..=len {
                let expected = chunk[at..].iter().position(|&byte| is_mark(byte));
                let expected = expected.map_or(len, |position| at + position);
                assert_eq!(marks.next(&chunk, at), expected);
                assert_eq!(first(&chunk, at), expected);
                let near = near(&chunk, at);
                assert!(near == expected || near < expected && (near == at || near == at + 8));
            }
        }
    }
}
