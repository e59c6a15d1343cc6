//! Where the marks of an axis of numbers stand: at steps of 1, 2 or 5 times a power of ten.
//! It relies on decimal parsing rather than on logarithms, so that a mark is the number its label says on
//! every machine. It never returns more than a few dozen marks and never draws.

use crate::log_ticks::log2;

/// The largest value that an axis reaches: far from overflow when it is multiplied or rounded up.
pub(crate) const LARGEST: f64 = 1e300;
/// The smallest value that an axis tells from zero.
pub(crate) const SMALLEST: f64 = 1e-300;
/// The smallest part of its values that an axis spans: below it, steps are lost in rounding.
pub(crate) const NARROWEST: f64 = 1e-9;

/// Marks of an axis of numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct NumberTicks {
    /// The lower end of the axis.
    pub(crate) bottom: f64,
    /// The upper end of the axis: above the lower one.
    pub(crate) top: f64,
    /// Whether equal distances stand for equal factors; then both ends are positive.
    pub(crate) logarithmic: bool,
    /// The values to mark, ascending, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
}

impl NumberTicks {
    /// How much of the axis lies below `value`: from 0 to 1, for values outside it too.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let place = |value| if self.logarithmic { log2(value) } else { value };
        let (bottom, top) = (place(self.bottom), place(self.top));
        ((place(value) - bottom) / (top - bottom)).clamp(0.0, 1.0)
    }
}

/// What an axis of numbers must reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach {
    /// At least this far: rounded up to the next mark.
    AtLeast(f64),
    /// Exactly this far.
    Exactly(f64),
}

/// Marks for an axis from zero with room for about `room` of them; only whole numbers where `whole` says so.
pub(crate) fn number_ticks(reach: Reach, room: u32, whole: bool) -> NumberTicks {
    ticks_from(0.0, reach, room, whole)
}

/// Like [`number_ticks`], for an axis that starts at `low`, rounded down to the next mark.
pub(crate) fn ticks_from(low: f64, reach: Reach, room: u32, whole: bool) -> NumberTicks {
    let (high, rounded) = match reach {
        Reach::AtLeast(value) => (value, true),
        Reach::Exactly(value) => (value, false),
    };
    let low = if low.is_nan() { 0.0 } else { low.clamp(-LARGEST, LARGEST) };
    let narrowest = SMALLEST.max(NARROWEST * low.abs());
    let high = if high.is_nan() { low } else { high.min(LARGEST) };
    // Where it is not above `low`, as far above it as that is from zero.
    let high = if high - low > narrowest { high } else { low + low.abs().max(1.0) };
    let step = step_for(high - low, room.max(1), whole);
    let first = (low / step.value()).floor() as i64;
    let last = if rounded { (high / step.value()).ceil() } else { (high / step.value()).floor() } as i64;
    // At most `room`, but for rounding.
    let last = last.clamp(first, first.saturating_add(100));
    let top =
        if rounded { step.times(last.max(first.saturating_add(1))) } else { high.max(step.times(last)) };
    let marks = (first..=last).map(|index| (step.times(index), step.label(index, first, last))).collect();
    NumberTicks { bottom: step.times(first), top, logarithmic: false, marks }
}

/// `digit` times ten to the `exponent`: exact, where a float would not be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) digit: i64,
    pub(crate) exponent: i32,
}

impl Step {
    pub(crate) fn value(self) -> f64 {
        self.times(1)
    }

    fn times(self, count: i64) -> f64 {
        decimal(self.digit.saturating_mul(count), self.exponent)
    }

    /// The label of the `index`th mark of an axis from the `first` to the `last`: all get the same suffix and
    /// the same number of decimals.
    pub(crate) fn label(self, index: i64, first: i64, last: i64) -> String {
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

/// The power of ten, and its letter, in which numbers up to `largest` are short.
fn magnitude(largest: f64) -> (i32, &'static str) {
    match largest {
        large if large >= 1e12 => (12, "T"),
        large if large >= 1e9 => (9, "G"),
        large if large >= 1e6 => (6, "M"),
        _ => (0, ""),
    }
}

/// The smallest 1-2-5 step of which at most `room` reach `wanted`.
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

/// The exponent of `value` in decimal scientific notation, read off its own digits.
pub(crate) fn exponent_of(value: f64) -> i32 {
    let written = format!("{value:e}");
    written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// A count in short: thousands apart, millions and more as a multiple with three digits or so.
pub(crate) fn short_count(count: u64) -> String {
    let value = count as f64;
    let (power, suffix) = magnitude(value);
    if power == 0 {
        return grouped(&count.to_string());
    }
    let shortened = format!("{:.2}", value / decimal(1, power));
    format!("{}{suffix}", shortened.trim_end_matches('0').trim_end_matches('.'))
}

/// A number with four digits or so, as tooltips and descriptions give it.
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

/// A number with so many decimals, thousands apart; never minus zero.
pub(crate) fn with_decimals(value: f64, decimals: usize) -> String {
    let digits = format!("{value:.decimals$}");
    let is_zero = digits.bytes().all(|byte| matches!(byte, b'-' | b'.' | b'0'));
    grouped(if is_zero { digits.trim_start_matches('-') } else { &digits })
}

/// Digits, perhaps after a minus, with a comma before every third one of the whole part.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &NumberTicks) -> Vec<&str> {
        ticks.marks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn numbers_step_by_one_two_or_five() {
        let check = |reach, whole, expected: &[&str]| {
            assert_eq!(labels(&number_ticks(reach, 5, whole)), expected, "{reach:?}");
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
                let ticks = number_ticks(reach, 6, false);
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
}
