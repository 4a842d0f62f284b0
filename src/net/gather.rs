//! Small pieces written as one: the kernel takes one short piece with less work than two, and nearly
//! every head and body that pass here are short.

use std::io::IoSlice;

/// The most that is copied to be written at once.
pub(super) const GATHER_BYTES_MAX: usize = 1024;

/// All of `pieces` in `room`, if they fit.
pub(super) fn gather<'r>(
    pieces: &[IoSlice<'_>],
    room: &'r mut [u8; GATHER_BYTES_MAX],
) -> Option<&'r [u8]> {
    let mut length = 0;
    for piece in pieces {
        room.get_mut(length..length + piece.len())?
            .copy_from_slice(piece);
        length += piece.len();
    }
    Some(&room[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_one_piece() {
        let mut room = [0; GATHER_BYTES_MAX];
        let pieces = [
            IoSlice::new(b"head"),
            IoSlice::new(b""),
            IoSlice::new(b"body"),
        ];
        assert_eq!(gather(&pieces, &mut room), Some(&b"headbody"[..]));
        let large = [7; GATHER_BYTES_MAX];
        assert_eq!(gather(&[IoSlice::new(&large)], &mut room), Some(&large[..]));
        assert_eq!(
            gather(&[IoSlice::new(b"x"), IoSlice::new(&large)], &mut room),
            None
        );
    }
}
