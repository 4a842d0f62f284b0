//! Strings: from the byte behind the opening quote to the closing one.

use super::ErrorKind;
use super::marks::{self, Marks};

/// Where in an escape sequence a string was cut by the end of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Escape {
    /// Outside of any.
    None,
    /// Behind the backslash.
    Begun,
    /// Within `\u`, with so many hexadecimal digits to come.
    Hex(u8),
}

/// What was read of a string that the end of a chunk cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Half {
    escape: Escape,
    /// Whether it has escape sequences so far.
    escaped: bool,
}

/// What a search for the end of a string came to. Positions are indexes into the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Run {
    /// The closing quote is the byte before `end`.
    Closed { end: usize, escaped: bool },
    /// The chunk ended first.
    Cut(Half),
    /// The byte at `at` may not stand there.
    Bad { at: usize, kind: ErrorKind },
}

/// Reads on from `at`, which lies within a string and outside of any escape sequence.
#[inline(never)]
pub(super) fn run(bytes: &[u8], at: usize) -> Run {
    run_on(bytes, at, false)
}

/// Reads on from the beginning of a chunk, where the chunk before it cut the string.
pub(super) fn resume(bytes: &[u8], half: Half) -> Run {
    match rest_of_escape(bytes, 0, half.escape) {
        Ok(at) => run_on(bytes, at, half.escaped),
        Err(run) => run,
    }
}

fn run_on(bytes: &[u8], at: usize, mut escaped: bool) -> Run {
    let mut at = marks::first(bytes, at);
    let mut marks = Marks::new();
    loop {
        match bytes.get(at) {
            Some(b'"') => {
                return Run::Closed {
                    end: at + 1,
                    escaped,
                };
            }
            Some(b'\\') => {}
            Some(_) => {
                return Run::Bad {
                    at,
                    kind: ErrorKind::ControlCharacter,
                };
            }
            None => {
                return Run::Cut(Half {
                    escape: Escape::None,
                    escaped,
                });
            }
        }
        escaped = true;
        at = match bytes.get(at + 1) {
            Some(&byte) if is_simple_escape(byte) => at + 2,
            Some(b'u') if are_hex_digits(bytes, at + 2) => at + 6,
            _ => match rest_of_escape(bytes, at + 1, Escape::Begun) {
                Ok(behind) => behind,
                Err(run) => return run,
            },
        };
        at = marks.next(bytes, at);
    }
}

/// Completes an escape sequence; gives the index behind it, or why the string stops here.
#[inline]
fn rest_of_escape(bytes: &[u8], mut at: usize, mut escape: Escape) -> Result<usize, Run> {
    while escape != Escape::None {
        let Some(&byte) = bytes.get(at) else {
            return Err(Run::Cut(Half {
                escape,
                escaped: true,
            }));
        };
        escape = match escape {
            Escape::Begun if byte == b'u' => Escape::Hex(4),
            Escape::Begun if is_simple_escape(byte) => Escape::None,
            Escape::Hex(1) if byte.is_ascii_hexdigit() => Escape::None,
            Escape::Hex(left) if byte.is_ascii_hexdigit() => Escape::Hex(left - 1),
            _ => {
                return Err(Run::Bad {
                    at,
                    kind: ErrorKind::BadEscape,
                });
            }
        };
        at += 1;
    }
    Ok(at)
}

/// Whether four hexadecimal digits stand at the index.
#[inline]
fn are_hex_digits(bytes: &[u8], at: usize) -> bool {
    let digits = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[inline]
fn is_simple_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_all(bytes: &[u8]) -> Run {
        run(bytes, 0)
    }

    /// What the grammar says, one byte after the other.
    fn slow(bytes: &[u8]) -> Run {
        let mut escaped = false;
        let mut at = 0;
        loop {
            match bytes.get(at) {
                None => {
                    return Run::Cut(Half {
                        escape: Escape::None,
                        escaped,
                    });
                }
                Some(b'"') => {
                    return Run::Closed {
                        end: at + 1,
                        escaped,
                    };
                }
                Some(b'\\') => {
                    escaped = true;
                    match rest_of_escape(bytes, at + 1, Escape::Begun) {
                        Ok(next) => at = next,
                        Err(run) => return run,
                    }
                }
                Some(0..0x20) => {
                    return Run::Bad {
                        at,
                        kind: ErrorKind::ControlCharacter,
                    };
                }
                Some(_) => at += 1,
            }
        }
    }

    #[test]
    fn every_byte_at_every_place_ends_or_continues_as_the_grammar_says() {
        for len in [1, 31, 63, 64, 65, 127, 128, 129, 200, 300] {
            for place in 0..len {
                for byte in 0..=255u8 {
                    let mut text = vec![b'x'; len];
                    text[place] = byte;
                    text.push(b'"');
                    assert_eq!(
                        run_all(&text),
                        slow(&text),
                        "byte {byte} at {place} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_cut_anywhere_in_an_escape_changes_nothing() {
        let text = br#"a\u00e9\n\\\"\ud83d\uDE00"#;
        let whole = [&text[..], b"\""].concat();
        for cut in 0..text.len() {
            let Run::Cut(half) = run_all(&whole[..cut]) else {
                panic!("cut at {cut} was no cut");
            };
            let resumed = resume(&whole[cut..], half);
            assert_eq!(
                resumed,
                Run::Closed {
                    end: whole.len() - cut,
                    escaped: true
                }
            );
        }
    }

    #[test]
    fn a_bad_escape_is_reported_at_the_byte_that_breaks_it() {
        for (text, at) in [
            (&br#"\x""#[..], 1),
            (br#"\u00g0""#, 4),
            (b"\\u12\"", 4),
            (b"\\\x01", 1),
        ] {
            assert_eq!(
                run_all(text),
                Run::Bad {
                    at,
                    kind: ErrorKind::BadEscape
                }
            );
        }
    }
}
