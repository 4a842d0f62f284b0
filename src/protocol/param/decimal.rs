//! Numbers as they are written, compared exactly: no float stands between `9007199254740993` and
//! `9007199254740992`.

use std::iter;

/// Exponents beyond this are not read, on either side of zero: arithmetic with them could overflow,
/// and no reader holds such a number as anything but zero or infinity.
const EXPONENT_MAX: i64 = 999_999_999;

/// Longest spelling without an exponent of a number that has one, in digits.
const PLAIN_DIGITS_MAX: i64 = 32;

/// 2^53 − 1, the largest integer that every reader holds exactly.
const SAFE_INTEGER_MAX: &[u8] = b"9007199254740991";

/// A number of JSON, of any length and exactly. Equal are those of equal value: `42`, `42.0` and
/// `420e-1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal<'a> {
    text: &'a str,
    negative: bool,
    /// The digits before and behind the point, without zeros at the beginning of the first and at
    /// the end of the last of them that is not empty.
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Where the point stands, counted from before the first digit: 42 is 0.42 × 10^2.
    point: i64,
}

/// Why a text is not read as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoDecimal {
    /// JSON does not write numbers like this.
    Grammar,
    /// Its exponent is beyond all use.
    Exponent,
}

impl<'a> Decimal<'a> {
    /// Reads a number exactly as JSON writes it: no sign but a minus, no zero before another digit,
    /// no blanks.
    pub(super) fn read(text: &'a str) -> Result<Decimal<'a>, NoDecimal> {
        let (negative, rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (whole, rest) = digits(rest);
        if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
            return Err(NoDecimal::Grammar);
        }
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => match digits(rest) {
                ([], _) => return Err(NoDecimal::Grammar),
                found => found,
            },
            rest => (&[][..], rest),
        };
        let exponent = exponent(rest)?;
        let mut number = Decimal {
            text,
            negative,
            whole,
            fraction,
            point: 0,
        };
        number.strip(exponent);
        Ok(number)
    }

    /// Takes the zeros away that say nothing, and finds where the point stands.
    fn strip(&mut self, exponent: i64) {
        let zeros = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
        self.whole = &self.whole[zeros(self.whole)..];
        self.point = exponent + length(self.whole);
        if self.whole.is_empty() {
            let leading = zeros(self.fraction);
            self.fraction = &self.fraction[leading..];
            self.point -= i64::try_from(leading).unwrap_or(i64::MAX / 2);
        }
        self.fraction = without_zeros_behind(self.fraction);
        if self.fraction.is_empty() {
            self.whole = without_zeros_behind(self.whole);
        }
        if self.is_zero() {
            (self.negative, self.point) = (false, 0);
        }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.whole.iter().chain(self.fraction).copied()
    }

    fn len(&self) -> i64 {
        length(self.whole) + length(self.fraction)
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// Whether it is a whole number beyond ±(2^53 − 1), which readers round.
    pub(super) fn is_unsafe_integer(&self) -> bool {
        let whole = self.point >= self.len();
        let safe = length(SAFE_INTEGER_MAX);
        whole
            && (self.point > safe
                || self.point == safe && self.digits().gt(SAFE_INTEGER_MAX.iter().copied()))
    }

    /// The number for a header: as it is written, or, because several readers of headers know no
    /// exponents, without one if that is short.
    pub(super) fn spelled(&self) -> String {
        let has_exponent = self.text.bytes().any(|byte| matches!(byte, b'e' | b'E'));
        let length = self.len().max(self.point) - self.point.min(0);
        if !has_exponent || length > PLAIN_DIGITS_MAX {
            return self.text.to_owned();
        }
        let mut plain = String::from(if self.negative { "-" } else { "" });
        let before = iter::repeat_n(b'0', usize::try_from(1 - self.point).unwrap_or(0));
        let behind = usize::try_from(self.point - self.len()).unwrap_or(0);
        let behind = iter::repeat_n(b'0', behind);
        let point = self.point.max(1);
        for (at, digit) in (0..).zip(before.chain(self.digits()).chain(behind)) {
            if at == point {
                plain.push('.');
            }
            plain.push(char::from(digit));
        }
        plain
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Decimal<'_>) -> bool {
        self.negative == other.negative
            && self.point == other.point
            && self.digits().eq(other.digits())
    }
}

/// The digits at the beginning, and what follows them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(len)
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX / 2)
}

fn without_zeros_behind(mut digits: &[u8]) -> &[u8] {
    while let [rest @ .., b'0'] = digits {
        digits = rest;
    }
    digits
}

/// Reads all that may follow the digits.
fn exponent(text: &[u8]) -> Result<i64, NoDecimal> {
    let text = match text {
        [] => return Ok(0),
        [b'e' | b'E', text @ ..] => text,
        _ => return Err(NoDecimal::Grammar),
    };
    let (sign, text) = match text {
        [b'-', text @ ..] => (-1, text),
        [b'+', text @ ..] => (1, text),
        text => (1, text),
    };
    let (digits, []) = digits(text) else {
        return Err(NoDecimal::Grammar);
    };
    if digits.is_empty() {
        return Err(NoDecimal::Grammar);
    }
    let value = digits.iter().try_fold(0, |value: i64, digit| {
        let value = value * 10 + i64::from(digit - b'0');
        (value <= EXPONENT_MAX).then_some(value)
    });
    value.map(|value| value * sign).ok_or(NoDecimal::Exponent)
}

#[cfg(test)]
mod tests;
