//! Numbers in the fields of a job line. Nearly all are short whole numbers, which have a fast path; all others
//! are parsed exactly by the standard library. A value that does not fit is an error: nothing wraps, and the
//! result is never NaN or infinite.

use crate::reason::Reason;
use std::num::IntErrorKind;

/// Every number with this many digits fits an `i64`.
const SHORT_DIGITS: usize = 18;

/// Numbers with this many digits are exact in an `f64`, and so is ten to that power: their quotient is rounded once.
const EXACT_DIGITS: usize = 15;

const POWERS_OF_TEN: [f64; EXACT_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Whether `byte` separates fields.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Position of the first byte at or after `at` that is not blank, or the length of the line.
#[inline]
pub(super) fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|byte| is_blank(*byte)) {
        at += 1;
    }
    at
}

/// Whether a field may end at `at`.
#[inline]
fn ends(line: &[u8], at: usize) -> bool {
    line.get(at).is_none_or(|byte| is_blank(*byte))
}

/// Appends the digits at `at` to `value`; returns the position after them. It wraps if there are too many, so the
/// caller counts them.
#[inline]
fn digits(line: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(&byte) = line.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

#[inline]
fn signed(negative: bool, magnitude: u64) -> i64 {
    // Callers use the result only with at most 18 digits, which never reach the sign bit.
    let value = magnitude.cast_signed();
    if negative { -value } else { value }
}

/// Whether the field at `begin` is `-1`, as about half of all fields are.
#[inline]
pub(super) fn is_minus_one(line: &[u8], begin: usize) -> bool {
    line.get(begin..begin + 2) == Some(b"-1") && ends(line, begin + 2)
}

/// A whole number of few digits at `begin`, and the position after it.
#[inline]
pub(super) fn short_whole(line: &[u8], begin: usize) -> Option<(i64, usize)> {
    let negative = line.get(begin) == Some(&b'-');
    let first = begin + usize::from(negative);
    let (magnitude, end) = digits(line, first, 0);
    let sound = (1..=SHORT_DIGITS).contains(&(end - first)) && ends(line, end);
    sound.then(|| (signed(negative, magnitude), end))
}

/// A number of few digits at `begin`, with an optional fraction, and the position after it.
#[inline]
pub(super) fn short_real(line: &[u8], begin: usize) -> Option<(f64, usize)> {
    let negative = line.get(begin) == Some(&b'-');
    let first = begin + usize::from(negative);
    let (whole, point) = digits(line, first, 0);
    let (magnitude, end, places) = match line.get(point) {
        Some(b'.') => {
            let (magnitude, end) = digits(line, point + 1, whole);
            (magnitude, end, end - point - 1)
        }
        _ => (whole, point, 0),
    };
    let count = point - first + places;
    let sound = (1..=EXACT_DIGITS).contains(&count) && ends(line, end);
    sound.then(|| (signed(negative, magnitude) as f64 / POWERS_OF_TEN[places], end))
}

/// Any number as a whole one, and whether it was rounded.
pub(super) fn whole(token: &[u8]) -> Result<(i64, bool), Reason> {
    let text = std::str::from_utf8(token).map_err(|_| Reason::MalformedLine)?;
    match text.parse::<i64>() {
        Ok(value) => Ok((value, false)),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Err(Reason::NumberOutOfRange),
            _ => rounded(real(token)?),
        },
    }
}

/// The nearest whole number; halves are rounded away from zero.
fn rounded(value: f64) -> Result<(i64, bool), Reason> {
    let nearest = value.round();
    // 2^63 is exact in an `f64` and the smallest value that does not fit.
    if nearest.abs() >= 9_223_372_036_854_775_808.0 {
        return Err(Reason::NumberOutOfRange);
    }
    Ok((nearest as i64, nearest != value))
}

pub(super) fn real(token: &[u8]) -> Result<f64, Reason> {
    // `parse` also accepts `inf`, `nan` and `infinity`, which are no numbers of the format.
    let decimal = token.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let text = std::str::from_utf8(token).map_err(|_| Reason::MalformedLine)?;
    match text.parse::<f64>() {
        // Adding zero removes the sign of a negative zero, so that the result equals that of the fast path.
        Ok(value) if decimal && value.is_finite() => Ok(value + 0.0),
        Ok(_) if decimal => Err(Reason::NumberOutOfRange),
        _ => Err(Reason::MalformedLine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the reader makes of a whole field: the short way, else the long one.
    fn read_whole(text: &str) -> Result<(i64, bool), Reason> {
        match short_whole(text.as_bytes(), 0) {
            Some((value, _)) => Ok((value, false)),
            None => whole(text.as_bytes()),
        }
    }

    fn read_real(text: &str) -> Result<f64, Reason> {
        match short_real(text.as_bytes(), 0) {
            Some((value, _)) => Ok(value),
            None => real(text.as_bytes()),
        }
    }

    #[test]
    fn whole_numbers_are_exact_up_to_the_last_that_fits() {
        for value in [0, 1, -1, 999_999_999_999_999_999, i64::MAX - 1, i64::MAX, i64::MIN] {
            assert_eq!(read_whole(&value.to_string()), Ok((value, false)));
        }
        assert_eq!(read_whole("000000000000000000000000012"), Ok((12, false)));
        assert_eq!(read_whole("+5"), Ok((5, false)));
    }

    #[test]
    fn blanks_are_skipped_however_many_there_are() {
        for blanks in 0..40 {
            for after in ["x", "xxxxxxxxxxxx", ""] {
                let spaces = " ".repeat(blanks) + after;
                assert_eq!(skip_blanks(spaces.as_bytes(), 0), blanks);
                let mixed: String = (0..blanks).map(|at| if at % 3 == 0 { '\t' } else { ' ' }).collect();
                assert_eq!(skip_blanks((mixed + after).as_bytes(), 0), blanks);
            }
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused_and_never_wrap() {
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551617", "1e19", "-9.3e18"]
        {
            assert_eq!(read_whole(text), Err(Reason::NumberOutOfRange), "{text}");
        }
        assert_eq!(read_whole(&"9".repeat(5000)), Err(Reason::NumberOutOfRange));
        assert_eq!(read_real("1e999"), Err(Reason::NumberOutOfRange));
    }

    #[test]
    fn what_is_not_a_number_is_malformed() {
        for text in ["-", "+", ".", "e5", "1e", "nan", "NaN", "inf", "-infinity", "1-", "0x10", "1,5", "é"] {
            assert_eq!(read_whole(text), Err(Reason::MalformedLine), "{text}");
            assert_eq!(read_real(text), Err(Reason::MalformedLine), "{text}");
        }
        assert_eq!(whole(b"\xff1"), Err(Reason::MalformedLine));
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!(read_whole("2.5"), Ok((3, true)));
        assert_eq!(read_whole("-2.5"), Ok((-3, true)));
        assert_eq!(read_whole("2.49"), Ok((2, true)));
        assert_eq!(read_whole("12.00"), Ok((12, false)));
        assert_eq!(read_whole("1.5E3"), Ok((1500, false)));
    }

    #[test]
    fn the_short_way_gives_the_same_reals_as_the_standard_library() {
        for text in ["0", "-1", "552.21", "-0.1", ".5", "5.", "0.000000000000001", "123456789.012345", "1e-3"]
        {
            assert_eq!(read_real(text), Ok(text.parse::<f64>().unwrap()), "{text}");
        }
    }
}
