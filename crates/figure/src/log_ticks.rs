//! Where the marks of a logarithmic axis stand: at powers of two, or at 1, 2 and 5 times powers of ten.
//! It relies on a logarithm of its own, made of operations that every machine rounds alike. It never returns
//! more than a few dozen marks and never draws.

use crate::number_ticks::{
    LARGEST, NARROWEST, NumberTicks, SMALLEST, Step, exponent_of, short_count, written,
};

/// Marks for an axis from `low` to `high`, which are positive, with room for about `room` of them: powers of
/// two where `binary` says so.
pub(crate) fn log_ticks(low: f64, high: f64, room: u32, binary: bool) -> NumberTicks {
    let (low, high) = widened(positive(low), positive(high));
    let room = room.max(1) as usize;
    let candidates = match binary {
        true => enclosing(powers_of_two(low, high), low, high),
        false => {
            let fine = enclosing(decades(low, high, &[1, 2, 5]), low, high);
            if fine.len() <= room + 1 { fine } else { enclosing(decades(low, high, &[1]), low, high) }
        }
    };
    let (bottom, top) = match (candidates.first(), candidates.last()) {
        (Some(first), Some(last)) if first.0 < last.0 => (first.0, last.0),
        _ => (low, high),
    };
    let marks = candidates.iter().step_by(candidates.len().div_ceil(room + 1).max(1)).cloned().collect();
    NumberTicks { bottom, top, logarithmic: true, marks }
}

fn positive(value: f64) -> f64 {
    if value > SMALLEST { value.min(LARGEST) } else { SMALLEST }
}

/// An axis of one value has it in the middle.
fn widened(low: f64, high: f64) -> (f64, f64) {
    if high > low * (1.0 + NARROWEST) { (low, high) } else { (low / 2.0, low * 2.0) }
}

/// The candidates, which ascend, from the last that is not above `low` to the first that is not below `high`.
fn enclosing(candidates: Vec<(f64, String)>, low: f64, high: f64) -> Vec<(f64, String)> {
    let first = candidates.partition_point(|candidate| candidate.0 <= low).saturating_sub(1);
    let last = candidates.partition_point(|candidate| candidate.0 < high);
    candidates.into_iter().take(last + 1).skip(first).collect()
}

fn powers_of_two(low: f64, high: f64) -> Vec<(f64, String)> {
    (binary_exponent(low)..=binary_exponent(high) + 1)
        .map(power_of_two)
        .map(|value| (value, power_label(value)))
        .collect()
}

fn power_label(value: f64) -> String {
    if (1e9..1e15).contains(&value) { short_count(value as u64) } else { written(value) }
}

fn decades(low: f64, high: f64, digits: &[i64]) -> Vec<(f64, String)> {
    (exponent_of(low)..=exponent_of(high) + 1)
        .flat_map(|exponent| digits.iter().map(move |&digit| Step { digit, exponent }))
        .map(|step| (step.value(), step.label(1, 1, 1)))
        .collect()
}

/// Bits of a 64-bit float below its exponent.
const FRACTION_BITS: u32 = 52;
/// What is added to the exponent of a 64-bit float to store it.
const BIAS: i64 = 1023;
/// Terms of the series below: each adds about a decimal digit.
const TERMS: u32 = 20;

fn binary_exponent(value: f64) -> i64 {
    ((value.to_bits() >> FRACTION_BITS) & 0x7ff) as i64 - BIAS
}

fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + BIAS).clamp(1, 2 * BIAS) as u64) << FRACTION_BITS)
}

/// Whether `value` is two to the power of some whole number.
pub(crate) fn is_power_of_two(value: f64) -> bool {
    value.is_normal() && value == power_of_two(binary_exponent(value))
}

/// The binary logarithm, the same on every machine; what is not positive counts as hardly more than zero.
pub(crate) fn log2(value: f64) -> f64 {
    let value = positive(value);
    let exponent = binary_exponent(value);
    let fraction = value / power_of_two(exponent);
    // ln f = 2 artanh r, as a series in r, which is at most a third.
    let ratio = (fraction - 1.0) / (fraction + 1.0);
    let (mut sum, mut power) = (0.0, ratio);
    for term in 0..TERMS {
        sum += power / f64::from(2 * term + 1);
        power *= ratio * ratio;
    }
    exponent as f64 + 2.0 * sum / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, binary: bool) -> Vec<String> {
        log_ticks(low, high, 8, binary).marks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn logarithms_are_right() {
        for exponent in -900..900 {
            assert_eq!(log2(power_of_two(exponent)), exponent as f64);
        }
        for value in [1e-200, 0.1, 0.9999, 1.0001, 3.0, 7.5, 1e17, 1e300] {
            assert!((log2(value) - value.log2()).abs() <= 1e-13 * value.log2().abs().max(1.0), "{value}");
        }
        assert!(log2(f64::NAN).is_finite() && log2(-1.0).is_finite() && log2(f64::INFINITY).is_finite());
        assert!(is_power_of_two(0.25) && is_power_of_two(1.0) && !is_power_of_two(3.0));
        assert!(!is_power_of_two(0.0) && !is_power_of_two(-2.0) && !is_power_of_two(f64::NAN));
    }

    #[test]
    fn marks_enclose_the_values() {
        assert_eq!(labels(1.0, 64.0, true), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(labels(3.0, 70.0, true), ["2", "4", "8", "16", "32", "64", "128"]);
        assert_eq!(labels(1.0, 24.0, false), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(0.3, 4e5, false), ["0.1", "1", "10", "100", "1,000", "10,000", "100,000", "1M"]);
        assert_eq!(labels(5.0, 5.0, false), ["2", "5", "10"]);
    }

    #[test]
    fn no_number_breaks_a_logarithmic_axis() {
        let odd = [f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 0.0, 1e-12, 1e299, 0.3];
        for (low, high) in odd.into_iter().flat_map(|low| odd.map(|high| (low, high))) {
            for binary in [true, false] {
                let ticks = log_ticks(low, high, 8, binary);
                assert!(0.0 < ticks.bottom && ticks.bottom < ticks.top && ticks.top.is_finite(), "{ticks:?}");
                assert!(ticks.marks.len() <= 9 && !ticks.marks.is_empty(), "{low} {high}: {ticks:?}");
            }
        }
    }
}
