//! Where the marks of an axis of numbers stand: at steps of 1, 2 or 5 times a power of ten.
//! It relies on decimal parsing rather than on logarithms, so that a mark is the number its label says on
//! every machine. It never returns more than a few dozen marks and never draws.

/// The largest value that an axis reaches: far from overflow when it is multiplied or rounded up.
const LARGEST: f64 = 1e300;

/// Marks of an axis of numbers, from zero upwards.
#[derive(Debug, PartialEq)]
pub(crate) struct NumberTicks {
    /// The upper end of the axis: a positive number.
    pub(crate) top: f64,
    /// The values to mark, ascending, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
}

/// What an axis of numbers must reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach {
    /// At least this far: rounded up to the next mark.
    AtLeast(f64),
    /// Exactly this far.
    Exactly(f64),
}

/// Marks for an axis with room for about `room` of them; only whole numbers where `whole` says so.
pub(crate) fn number_ticks(reach: Reach, room: u32, whole: bool) -> NumberTicks {
    let (wanted, rounded) = match reach {
        Reach::AtLeast(value) => (value, true),
        Reach::Exactly(value) => (value, false),
    };
    let wanted = if wanted > 1e-300 { wanted.min(LARGEST) } else { 1.0 };
    let step = step_for(wanted, room.max(1), whole);
    let count = if rounded { (wanted / step.value()).ceil() } else { (wanted / step.value()).floor() };
    // At most `room`, but for rounding.
    let count = count.clamp(0.0, 100.0) as u64;
    let top = if rounded { step.times(count.max(1)) } else { wanted };
    let marks = (0..=count).map(|index| (step.times(index), step.label(index, count))).collect();
    NumberTicks { top, marks }
}

/// `digit` times ten to the `exponent`: exact, where a float would not be.
#[derive(Debug, Clone, Copy)]
struct Step {
    digit: u64,
    exponent: i32,
}

impl Step {
    fn value(self) -> f64 {
        self.times(1)
    }

    fn times(self, count: u64) -> f64 {
        decimal(self.digit.saturating_mul(count), self.exponent)
    }

    /// The label of the `index`th mark of an axis whose last is the `last`th: all get the same suffix and
    /// the same number of decimals.
    fn label(self, index: u64, last: u64) -> String {
        let largest = self.times(last);
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

fn decimal(digits: u64, exponent: i32) -> f64 {
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
fn exponent_of(value: f64) -> i32 {
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

/// Digits with a comma before every third one of the whole part.
fn grouped(digits: &str) -> String {
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
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
    fn counts_are_short() {
        assert_eq!(short_count(430), "430");
        assert_eq!(short_count(65_536), "65,536");
        assert_eq!(short_count(1_048_576), "1.05M");
        assert_eq!(short_count(4_000_000_000), "4G");
    }
}
