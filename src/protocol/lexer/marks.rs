//! Where the plain stretches of strings end, one bit for each byte.
//!
//! Most of what passes through is string: names of a few bytes, texts full of escape sequences,
//! blobs of megabytes. All are searched for three things: a quote, a backslash, a control
//! character. Blocks of bytes are compared at once, which the compiler turns into vector
//! instructions, and the bits of the present block answer the next few searches too: so a
//! search waits for a shift and a count, and not for a load and a comparison.

/// One bit of a word for each byte.
const BLOCK: usize = 64;

/// The marks of one block of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    block: usize,
    bits: u64,
}

impl Marks {
    /// The marks of no block yet.
    pub(super) const NONE: Marks = Marks {
        block: usize::MAX,
        bits: 0,
    };

    /// The index of the first quote, backslash or control character from `at` on, or the
    /// length of the chunk.
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

    /// The first block from this one on that has a mark, or else the chunk's last.
    #[inline(never)]
    fn from_block(chunk: &[u8], mut block: usize) -> Marks {
        let marks = Marks::of_block(chunk, block);
        if marks.bits != 0 {
            return marks;
        }
        // Within a blob it is quicker to ask whether there is any mark than where.
        let is_plain =
            |bytes: &[u8; BLOCK]| !bytes.iter().fold(false, |any, &byte| any | is_mark(byte));
        while block_at(chunk, block).is_some_and(is_plain) {
            block += 1;
        }
        Marks::of_block(chunk, block)
    }

    #[inline(never)]
    fn of_block(chunk: &[u8], block: usize) -> Marks {
        let bits = block_at(chunk, block).map_or_else(|| tail_bits(chunk, block), bits);
        Marks { block, bits }
    }
}

#[inline(always)]
fn block_at(chunk: &[u8], block: usize) -> Option<&[u8; BLOCK]> {
    chunk.get(block * BLOCK..)?.first_chunk()
}

/// The marks of what is shorter than a block, at the end of the chunk.
fn tail_bits(chunk: &[u8], block: usize) -> u64 {
    let tail = chunk.get(block * BLOCK..).unwrap_or_default();
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

/// A quote, a backslash or a control character. Flipping the second bit moves the quote (0x22)
/// next to the control characters and nothing else between, so that one comparison finds both.
#[inline(always)]
pub(super) fn is_mark(byte: u8) -> bool {
    ((byte ^ 0x02) < 0x21) | (byte == b'\\')
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
        }
    }

    #[test]
    fn finds_what_a_search_byte_by_byte_finds() {
        let mut state = 1u32;
        for len in (0..200).chain([1000, 4096]) {
            let chunk: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let rare = state >> 24 < 4;
                    if rare {
                        b"\"\\\n\x1f"[state as usize >> 22 & 3]
                    } else {
                        b'a' + (state >> 28) as u8
                    }
                })
                .collect();
            let mut marks = Marks::NONE;
            for at in 0..=len {
                let expected = chunk[at..].iter().position(|&byte| is_mark(byte));
                let expected = expected.map_or(len, |position| at + position);
                assert_eq!(marks.next(&chunk, at), expected);
                let mut fresh = Marks::NONE;
                assert_eq!(fresh.next(&chunk, at), expected);
            }
        }
    }
}
