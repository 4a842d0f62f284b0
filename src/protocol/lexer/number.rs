//! Numbers, as RFC 8259 writes them: no sign but the minus, no leading zero, digits on both
//! sides of the point.

use super::Scalar;

/// What of a number has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The minus; a digit must follow.
    Minus,
    /// A zero; no digit may follow.
    Zero,
    /// Digits before the point.
    Whole,
    /// The point; a digit must follow.
    Point,
    /// Digits behind the point.
    Fraction,
    /// The `e`; a sign or a digit must follow.
    Exponent,
    /// The exponent's sign; a digit must follow.
    Sign,
    /// Digits of the exponent.
    Power,
}

impl Stage {
    /// What the first byte of a number leads to; `None` if no number begins with it.
    #[inline]
    pub(super) fn begun_by(byte: u8) -> Option<Stage> {
        match byte {
            b'-' => Some(Stage::Minus),
            b'0' => Some(Stage::Zero),
            b'1'..=b'9' => Some(Stage::Whole),
            _ => None,
        }
    }

    /// Whether a number may end here.
    #[inline]
    pub(super) fn is_complete(self) -> bool {
        matches!(
            self,
            Stage::Zero | Stage::Whole | Stage::Fraction | Stage::Power
        )
    }

    /// What kind of number was read.
    #[inline]
    pub(super) fn kind(self) -> Scalar {
        if matches!(self, Stage::Zero | Stage::Whole) {
            Scalar::Integer
        } else {
            Scalar::Decimal
        }
    }

    #[inline]
    fn step(self, byte: u8) -> Option<Stage> {
        match (self, byte) {
            (Stage::Minus, b'0') => Some(Stage::Zero),
            (Stage::Minus | Stage::Whole, b'0'..=b'9') => Some(Stage::Whole),
            (Stage::Zero | Stage::Whole, b'.') => Some(Stage::Point),
            (Stage::Point | Stage::Fraction, b'0'..=b'9') => Some(Stage::Fraction),
            (Stage::Zero | Stage::Whole | Stage::Fraction, b'e' | b'E') => Some(Stage::Exponent),
            (Stage::Exponent, b'+' | b'-') => Some(Stage::Sign),
            (Stage::Exponent | Stage::Sign | Stage::Power, b'0'..=b'9') => Some(Stage::Power),
            _ => None,
        }
    }
}

/// Reads on from `at`; gives the index of the first byte that is no part of the number (or the
/// length of the chunk), and the stage reached. The caller decides whether it may end there.
#[inline(always)]
pub(super) fn run(bytes: &[u8], mut at: usize, stage: Stage) -> (usize, Stage) {
    // Most numbers are short whole ones.
    if stage == Stage::Whole {
        at = digits(bytes, at);
    }
    match bytes.get(at) {
        Some(b',' | b'}' | b']') => (at, stage),
        _ => run_on(bytes, at, stage),
    }
}

#[inline(never)]
fn run_on(bytes: &[u8], mut at: usize, mut stage: Stage) -> (usize, Stage) {
    while let Some(next) = bytes.get(at).and_then(|&byte| stage.step(byte)) {
        stage = next;
        at += 1;
        if matches!(stage, Stage::Whole | Stage::Fraction | Stage::Power) {
            at = digits(bytes, at);
        }
    }
    (at, stage)
}

#[inline(always)]
fn digits(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_number(text: &str) -> bool {
        let bytes = text.as_bytes();
        let Some(stage) = bytes.first().and_then(|&byte| Stage::begun_by(byte)) else {
            return false;
        };
        let (end, stage) = run(bytes, 1, stage);
        end == bytes.len() && stage.is_complete()
    }

    /// Every text of up to six bytes of this alphabet, against serde_json.
    #[test]
    fn agrees_with_serde_json_on_every_short_text() {
        let alphabet = ['-', '+', '0', '1', '9', '.', 'e', 'E'];
        let mut texts = vec![String::new()];
        for _ in 0..6 {
            texts = texts
                .iter()
                .flat_map(|text| alphabet.iter().map(move |letter| format!("{text}{letter}")))
                .collect();
            for text in &texts {
                let theirs = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
                assert_eq!(is_number(text), theirs, "{text}");
            }
        }
    }

    #[test]
    fn knows_integers() {
        for (text, integer) in [("0", true), ("-12", true), ("1.0", false), ("1e3", false)] {
            let bytes = text.as_bytes();
            let (_, stage) = run(bytes, 1, Stage::begun_by(bytes[0]).unwrap());
            assert_eq!(stage.kind() == Scalar::Integer, integer, "{text}");
        }
    }
}
