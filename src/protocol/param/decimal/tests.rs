use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Decimal<'_> {
    Decimal::read(text).unwrap()
}

/// A number as its integer and the power of ten that divides it: slow, and plain to see through.
fn oracle(text: &str) -> (i128, u32) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut integer: i128 = format!("{whole}{fraction}").parse().unwrap();
    let mut scale = i32::try_from(fraction.len()).unwrap() - exponent;
    while scale < 0 {
        (integer, scale) = (integer * 10, scale + 1);
    }
    while scale > 0 && integer % 10 == 0 {
        (integer, scale) = (integer / 10, scale - 1);
    }
    (integer, scale.unsigned_abs())
}

#[test]
fn numbers_are_equal_by_value() {
    for equal in [
        ["42", "42.0"],
        ["42", "420e-1"],
        ["42", "4.2E+1"],
        ["42", "0.42e2"],
        ["0", "-0"],
        ["0", "0.000e7"],
        ["1e999999999", "10e999999998"],
        ["1e-999999999", "0.1e-999999998"],
        ["100000000000000000000000000000000", "1e32"],
        ["-0.0012", "-12e-4"],
    ] {
        assert_eq!(read(equal[0]), read(equal[1]), "{equal:?}");
    }
    for different in [
        ["42", "-42"],
        ["42", "43"],
        ["42", "420"],
        ["42", "4.2"],
        ["9007199254740992", "9007199254740993"],
        ["0.1", "0.10000000000000001"],
        ["1e999999999", "1e999999998"],
        ["0", "1e-999999999"],
    ] {
        assert_ne!(read(different[0]), read(different[1]), "{different:?}");
    }
}

#[test]
fn only_what_json_writes_is_a_number() {
    for text in [
        "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "0x1a", " 1", "1 ", "1,000", "1_0",
        "--1", "NaN", "Infinity", "1e1.5", "1.2.3", "²", "१",
    ] {
        assert_eq!(
            Decimal::read(text).unwrap_err(),
            NoDecimal::Grammar,
            "{text}"
        );
    }
    for text in ["1e1000000000", "0e-1000000000", "1e99999999999999999999999"] {
        assert_eq!(
            Decimal::read(text).unwrap_err(),
            NoDecimal::Exponent,
            "{text}"
        );
    }
}

#[test]
fn integers_beyond_2_to_the_53_are_unsafe() {
    for text in [
        "9007199254740992",
        "-9007199254740992",
        "1e16",
        "9.1e15",
        "1e300",
    ] {
        assert!(read(text).is_unsafe_integer(), "{text}");
    }
    for text in [
        "9007199254740991",
        "-9007199254740991",
        "9007199254740991.0",
        "9e15",
        "0",
        "9007199254740992.5",
        "1e-300",
    ] {
        assert!(!read(text).is_unsafe_integer(), "{text}");
    }
}

#[test]
fn numbers_are_spelled_without_exponents_if_that_is_short() {
    for (text, spelled) in [
        ("42", "42"),
        ("42.0", "42.0"),
        ("-0", "-0"),
        ("4.2e1", "42"),
        ("-420E-1", "-42"),
        ("1.5e3", "1500"),
        ("15e-1", "1.5"),
        ("1e-7", "0.0000001"),
        ("-12e-3", "-0.012"),
        ("0e5", "0"),
        ("1e400", "1e400"),
        ("1e-400", "1e-400"),
    ] {
        assert_eq!(read(text).spelled(), spelled, "{text}");
    }
}

proptest! {
    #[test]
    fn equality_is_that_of_big_numbers(
        a in "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-3])?",
        b in "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-3])?",
    ) {
        prop_assert_eq!(read(&a) == read(&b), oracle(&a) == oracle(&b), "{} {}", a, b);
    }

    #[test]
    fn another_spelling_is_the_same_number(
        a in "-?(0|[1-9][0-9]{0,12})(\\.[0-9]{1,8})?([eE][+-]?[0-9])?",
        zeros in 0_usize..5,
    ) {
        let number = read(&a);
        let spelled = number.spelled();
        prop_assert_eq!(read(&spelled), number);
        prop_assert_eq!(oracle(&spelled), oracle(&a));
        let (mantissa, exponent) = a.split_once(['e', 'E']).unwrap_or((&a, "0"));
        let point = if mantissa.contains('.') { "" } else { "." };
        let longer = format!("{mantissa}{point}0{}e{exponent}", "0".repeat(zeros));
        prop_assert_eq!(read(&longer), number);
    }

    #[test]
    fn whatever_serde_takes_for_a_number_is_one(text in "[-+0-9.eE ]{0,8}") {
        let number = serde_json::from_str::<&serde_json::value::RawValue>(&text)
            .is_ok_and(|raw| raw.get() == text);
        prop_assert_eq!(Decimal::read(&text).is_ok(), number, "{}", text);
    }
}
