//! The chunked transfer coding, read piece by piece.

/// Where in the coding the next byte stands.
#[derive(Default)]
enum At {
    #[default]
    Size,
    /// The rest of the size's line.
    SizeLine,
    Data,
    /// The line end behind a chunk.
    DataLine,
    /// The line behind the last chunk.
    Last,
    End,
}

#[derive(Default)]
pub(crate) struct Chunked {
    at: At,
    left: usize,
}

impl Chunked {
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.at, At::End)
    }

    /// Hands the data in `bytes` to `take`; trailer fields and bytes behind the end are errors.
    pub(crate) fn read(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), String> {
        while let Some(&byte) = bytes.first() {
            if let At::Data = self.at {
                let (data, rest) = bytes.split_at(self.left.min(bytes.len()));
                take(data);
                bytes = rest;
                self.left -= data.len();
                if self.left == 0 {
                    self.at = At::DataLine;
                }
                continue;
            }
            bytes = &bytes[1..];
            self.at = match (&self.at, byte) {
                (At::Size, b'\r' | b';') => At::SizeLine,
                (At::Size, digit) => {
                    let value = char::from(digit).to_digit(16);
                    let value = value.ok_or_else(|| format!("chunk size byte {digit:#x}"))?;
                    self.left = (self.left << 4) + value as usize;
                    At::Size
                }
                (At::SizeLine, b'\n') if self.left == 0 => At::Last,
                (At::SizeLine, b'\n') => At::Data,
                (At::SizeLine, _) => At::SizeLine,
                (At::DataLine, b'\r') => At::DataLine,
                (At::DataLine, b'\n') => At::Size,
                (At::Last, b'\r') => At::Last,
                (At::Last, b'\n') => At::End,
                (_, other) => return Err(format!("byte {other:#x} out of place")),
            };
        }
        Ok(())
    }
}
