//! Numbers, as ECMAScript writes them (RFC 8785, section 3.2.2.3).

/// Writes a number of JSON. A whole one that would become another, and one beyond doubles, stays as
/// it is written.
pub(super) fn write(raw: &[u8], written: &mut Vec<u8>) {
    let form = std::str::from_utf8(raw).ok().and_then(form);
    match form {
        Some(form) => written.extend_from_slice(form.as_bytes()),
        None => written.extend_from_slice(raw),
    }
}

fn form(raw: &str) -> Option<String> {
    let value: f64 = raw.parse().ok().filter(|value: &f64| value.is_finite())?;
    let mut buffer = ryu_js::Buffer::new();
    let form = buffer.format_finite(value);
    let is_other = decimal(raw).is_some_and(|number| {
        let (_, exponent) = number;
        exponent >= 0 && decimal(form) != Some(number)
    });
    (!is_other).then(|| form.to_owned())
}

/// The digits of a number from its first to its last that is no zero, and the power of ten that
/// they are to be multiplied with. Absent where 64 bits cannot hold that.
fn decimal(raw: &str) -> Option<(String, i64)> {
    let raw = raw.strip_prefix('-').unwrap_or(raw);
    let (digits, exponent) = raw.split_once(['e', 'E']).unwrap_or((raw, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_end_matches('0');
    let zeros = i64::try_from(all.len() - significant.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let exponent: i64 = exponent.parse().ok()?;
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Some((significant.to_owned(), exponent.checked_add(zeros)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of doubles at the borders of the forms, with their texts (RFC 8785, Appendix B).
    #[test]
    fn doubles_are_written_as_ecmascript_writes_them() {
        for (bits, text) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let mut buffer = ryu_js::Buffer::new();
            let written = buffer.format_finite(f64::from_bits(bits));
            assert_eq!(written, text, "{bits:x}");
        }
    }

    #[test]
    fn one_number_has_one_form() {
        let forms = [
            ("1", "1"),
            ("1.0", "1"),
            ("10e-1", "1"),
            ("0.1E+1", "1"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("0e99999999999999999999", "0"),
            ("1.50", "1.5"),
            ("-2.5e-8", "-2.5e-8"),
            ("0.0000010", "0.000001"),
            ("0.00000010", "1e-7"),
            ("1e20", "100000000000000000000"),
            ("999999999999999900000", "999999999999999900000"),
            ("1000000000000000000000", "1e+21"),
            ("1E30", "1e+30"),
            ("0.1000000000000000055511151231257827", "0.1"),
            ("1e-400", "0"),
            ("1e-99999999999999999999", "0"),
        ];
        for (raw, expected) in forms {
            assert_eq!(form(raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn a_whole_number_never_becomes_another() {
        for raw in [
            "9007199254740993",
            "-9007199254740993.0",
            "295147905179352825856",
            "12345678901234567890",
            "1000000000000000000001",
            "1e309",
            "-1e99999999999999999999",
        ] {
            let mut written = Vec::new();
            write(raw.as_bytes(), &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), raw);
        }
    }
}
