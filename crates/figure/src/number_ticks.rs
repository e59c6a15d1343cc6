//! The marks of a numeric axis, at steps of 1, 2 or 5 times a power of ten, or at powers of two or ten on a logarithmic
//! axis; and the formatting of numbers. Steps are computed by decimal parsing, so that a mark is exactly the number of
//! its label, and logarithms with operations that every machine rounds alike, so that pictures are reproducible. There
//! are never more than a few dozen marks.

/// The largest value of an axis: small enough that rounding up or multiplying does not overflow.
const LARGEST: f64 = 1e300;
/// Smaller values count as zero: their reciprocals would overflow.
const SMALLEST: f64 = 1e-300;
/// Minimum range of an axis relative to its values: in a smaller one, steps would be lost by rounding.
pub(crate) const NARROWEST: f64 = 1e-9;

/// Marks of an axis of numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct NumberTicks {
    /// Lower end of the axis.
    pub(crate) bottom: f64,
    /// Upper end of the axis; greater than `bottom`.
    pub(crate) top: f64,
    /// Whether the scale is logarithmic; both ends are then positive.
    pub(crate) logarithmic: bool,
    /// Values and labels of the marks, ascending.
    pub(crate) marks: Vec<(f64, String)>,
}

impl NumberTicks {
    /// Position of `value` on the axis, clamped to 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let place = |value| if self.logarithmic { log2(value) } else { value };
        let (bottom, top) = (place(self.bottom), place(self.top));
        ((place(value) - bottom) / (top - bottom)).clamp(0.0, 1.0)
    }
}

/// The upper end of an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach {
    /// Rounded up to the next mark.
    AtLeast(f64),
    /// Exactly this value.
    Exactly(f64),
}

/// About `room` marks for an axis that starts at `low`, rounded down to the next mark; whole numbers only if `whole`.
pub(crate) fn ticks_from(low: f64, reach: Reach, room: u32, whole: bool) -> NumberTicks {
    let (high, rounded) = match reach {
        Reach::AtLeast(value) => (value, true),
        Reach::Exactly(value) => (value, false),
    };
    let low = if low.is_nan() { 0.0 } else { low.clamp(-LARGEST, LARGEST) };
    let narrowest = SMALLEST.max(NARROWEST * low.abs());
    let high = if high.is_nan() { low } else { high.min(LARGEST) };
    // An empty range is extended by the distance of `low` from zero.
    let high = if high - low > narrowest { high } else { low + low.abs().max(1.0) };
    let step = step_for(high - low, room.max(1), whole);
    let first = (low / step.value()).floor() as i64;
    let last = if rounded { (high / step.value()).ceil() } else { (high / step.value()).floor() } as i64;
    // There are about `room` steps; the clamp guards against rounding at extreme values.
    let last = last.clamp(first, first.saturating_add(100));
    let top =
        if rounded { step.times(last.max(first.saturating_add(1))) } else { high.max(step.times(last)) };
    let marks = (first..=last).map(|index| (step.times(index), step.label(index, first, last))).collect();
    NumberTicks { bottom: step.times(first), top, logarithmic: false, marks }
}

/// `digit` times ten to the `exponent`. Kept as integers, because a float such as 0.1 would not be exact.
#[derive(Debug, Clone, Copy)]
struct Step {
    digit: i64,
    exponent: i32,
}

impl Step {
    fn value(self) -> f64 {
        self.times(1)
    }

    fn times(self, count: i64) -> f64 {
        decimal(self.digit.saturating_mul(count), self.exponent)
    }

    /// The label of the `index`th mark of an axis from the `first` to the `last`. All labels have the same suffix and
    /// number of decimals.
    fn label(self, index: i64, first: i64, last: i64) -> String {
        let largest = self.times(first).abs().max(self.times(last).abs());
        if self.exponent < -4 || largest >= 1e15 {
            return format!("{:e}", self.times(index));
        }
        let (power, suffix) = magnitude(largest);
        let exponent = self.exponent - power;
        let value = decimal(self.digit.saturating_mul(index), exponent);
        let decimals = usize::try_from(-exponent).unwrap_or(0);
        let digits = format!("{value:.decimals$}");
        format!("{}{}", grouped(&digits), if index == 0 { "" } else { suffix })
    }
}

fn decimal(digits: i64, exponent: i32) -> f64 {
    format!("{digits}e{exponent}").parse().unwrap_or(0.0)
}

/// The power of ten and its suffix for numbers up to `largest`.
fn magnitude(largest: f64) -> (i32, &'static str) {
    match largest {
        large if large >= 1e12 => (12, "T"),
        large if large >= 1e9 => (9, "G"),
        large if large >= 1e6 => (6, "M"),
        _ => (0, ""),
    }
}

/// The smallest 1-2-5 step for which `room` steps cover `wanted`.
fn step_for(wanted: f64, room: u32, whole: bool) -> Step {
    let rough = wanted / f64::from(room);
    let exponent = exponent_of(rough);
    let candidates = [(1, exponent), (2, exponent), (5, exponent), (1, exponent + 1)];
    let fitting = candidates
        .into_iter()
        .map(|(digit, exponent)| Step { digit, exponent })
        .find(|step| step.value() >= rough)
        .unwrap_or(Step { digit: 2, exponent: exponent + 1 });
    if whole && fitting.exponent < 0 { Step { digit: 1, exponent: 0 } } else { fitting }
}

/// The exponent of `value` in decimal scientific notation. Parsed from its digits, because a logarithm could be off by
/// one.
pub(crate) fn exponent_of(value: f64) -> i32 {
    let written = format!("{value:e}");
    written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// A short form of a count: `65,536`, `1.05M`.
pub(crate) fn short_count(count: u64) -> String {
    let value = count as f64;
    let (power, suffix) = magnitude(value);
    if power == 0 {
        return grouped(&count.to_string());
    }
    let shortened = format!("{:.2}", value / decimal(1, power));
    format!("{}{suffix}", shortened.trim_end_matches('0').trim_end_matches('.'))
}

/// A number with about four significant digits, for tooltips and descriptions.
pub(crate) fn written(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        return format!("{value:.3e}");
    }
    let decimals = usize::try_from(3 - exponent_of(size)).unwrap_or(0);
    let digits = with_decimals(value, decimals);
    if !digits.contains('.') {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with `decimals` decimals and thousands separators; never `-0`.
pub(crate) fn with_decimals(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    let is_zero = digits.bytes().all(|byte| matches!(byte, b'-' | b'.' | b'0'));
    grouped(if is_zero { digits.trim_start_matches('-') } else { &digits })
}

/// Adds thousands separators to the whole part of a number.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    let mut text = String::with_capacity(sign.len() + digits.len() + digits.len() / 3);
    text.push_str(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// About `room` marks for a logarithmic axis from `low` to `high`, which are positive; at powers of two if `binary`.
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
    // The axis spans all candidates; only the marks are thinned out.
    let marks = candidates.iter().step_by(candidates.len().div_ceil(room + 1).max(1)).cloned().collect();
    NumberTicks { bottom, top, logarithmic: true, marks }
}

fn positive(value: f64) -> f64 {
    if value > SMALLEST { value.min(LARGEST) } else { SMALLEST }
}

/// Widens a range of a single value, so that it is in the middle of the axis.
fn widened(low: f64, high: f64) -> (f64, f64) {
    if high > low * (1.0 + NARROWEST) { (low, high) } else { (low / 2.0, low * 2.0) }
}

/// The part of the ascending candidates from the last one at or below `low` to the first one at or above `high`.
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
/// Bias of the stored exponent of a 64-bit float.
const BIAS: i64 = 1023;
/// Terms of the series in [`log2`]. Each adds about a decimal digit, so that 20 exceed the precision of a float.
const TERMS: u32 = 20;

fn binary_exponent(value: f64) -> i64 {
    ((value.to_bits() >> FRACTION_BITS) & 0x7ff) as i64 - BIAS
}

fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + BIAS).clamp(1, 2 * BIAS) as u64) << FRACTION_BITS)
}

pub(crate) fn is_power_of_two(value: f64) -> bool {
    value.is_normal() && value == power_of_two(binary_exponent(value))
}

/// The binary logarithm, bit for bit the same on every machine, unlike that of the system library. Values that are not
/// positive count as [`SMALLEST`].
fn log2(value: f64) -> f64 {
    let value = positive(value);
    let exponent = binary_exponent(value);
    let fraction = value / power_of_two(exponent);
    // ln f = 2 artanh r with r = (f - 1) / (f + 1). The series converges fast, because r is at most a third.
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

    fn labels(ticks: &NumberTicks) -> Vec<&str> {
        ticks.marks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn numbers_step_by_one_two_or_five() {
        let check = |reach, whole, expected: &[&str]| {
            assert_eq!(labels(&ticks_from(0.0, reach, 5, whole)), expected, "{reach:?}");
        };
        check(Reach::Exactly(100.0), false, &["0", "20", "40", "60", "80", "100"]);
        check(Reach::AtLeast(0.7), false, &["0.0", "0.2", "0.4", "0.6", "0.8"]);
        check(Reach::AtLeast(23_000.0), false, &["0", "5,000", "10,000", "15,000", "20,000", "25,000"]);
        check(Reach::AtLeast(2.2e6), false, &["0.0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
        check(Reach::Exactly(3.0), true, &["0", "1", "2", "3"]);
        check(Reach::Exactly(430.0), true, &["0", "100", "200", "300", "400"]);
        check(Reach::AtLeast(f64::NAN), false, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn no_number_breaks_the_axis() {
        for value in [0.0, -1.0, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 1e-300, 1e-12, 1e299, 0.3] {
            for reach in [Reach::AtLeast(value), Reach::Exactly(value)] {
                let ticks = ticks_from(0.0, reach, 6, false);
                assert!(ticks.top > 0.0 && ticks.top.is_finite(), "{reach:?}");
                assert!(ticks.marks.len() <= 9 && !ticks.marks.is_empty(), "{reach:?}: {ticks:?}");
                assert!(ticks.marks.iter().all(|(at, _)| *at <= ticks.top), "{reach:?}: {ticks:?}");
            }
        }
    }

    #[test]
    fn an_axis_may_start_below_or_above_zero() {
        let check = |low, reach, expected: &[&str]| {
            assert_eq!(labels(&ticks_from(low, reach, 5, false)), expected, "{low} {reach:?}");
        };
        check(-30.0, Reach::AtLeast(50.0), &["-40", "-20", "0", "20", "40", "60"]);
        check(-2e6, Reach::AtLeast(0.0), &["-2.0M", "-1.5M", "-1.0M", "-0.5M", "0.0"]);
        check(64.0, Reach::AtLeast(512.0), &["0", "100", "200", "300", "400", "500", "600"]);
        check(-4000.0, Reach::Exactly(1500.0), &["-4,000", "-2,000", "0"]);
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 1e15, 0.0, -1e-310, 7.0];
        for (low, high) in odd.into_iter().flat_map(|low| odd.map(|high| (low, high))) {
            for reach in [Reach::AtLeast(high), Reach::Exactly(high)] {
                let ticks = ticks_from(low, reach, 6, false);
                assert!(ticks.bottom < ticks.top && (ticks.top - ticks.bottom).is_finite(), "{ticks:?}");
                assert!(ticks.marks.len() <= 9 && !ticks.marks.is_empty(), "{low} {reach:?}: {ticks:?}");
                assert!(ticks.marks.iter().all(|(at, _)| ticks.bottom <= *at && *at <= ticks.top));
            }
        }
    }

    #[test]
    fn numbers_are_written_with_four_digits() {
        let cases = [
            (0.0, "0"),
            (100.0, "100"),
            (-0.00001, "-1.000e-5"),
            (0.98765, "0.9877"),
            (97.314, "97.31"),
            (-12_345.6, "-12,346"),
            (1e15, "1.000e15"),
        ];
        for (value, text) in cases {
            assert_eq!(written(value), text);
        }
        assert_eq!(with_decimals(-0.04, 1), "0.0");
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(short_count(430), "430");
        assert_eq!(short_count(65_536), "65,536");
        assert_eq!(short_count(1_048_576), "1.05M");
        assert_eq!(short_count(4_000_000_000), "4G");
    }

    fn log_labels(low: f64, high: f64, binary: bool) -> Vec<String> {
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
        assert_eq!(log_labels(1.0, 64.0, true), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(log_labels(3.0, 70.0, true), ["2", "4", "8", "16", "32", "64", "128"]);
        assert_eq!(log_labels(1.0, 24.0, false), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(
            log_labels(0.3, 4e5, false),
            ["0.1", "1", "10", "100", "1,000", "10,000", "100,000", "1M"]
        );
        assert_eq!(log_labels(5.0, 5.0, false), ["2", "5", "10"]);
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
