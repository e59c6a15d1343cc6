//! Comparisons of our results with a paper, as data. One comparison is one number, order, bound or curve; [`verdict`]
//! judges all comparisons of a claim by the same rule for every paper.

use crate::Estimate;
use serde::{Serialize, Serializer};
use std::fmt;

/// Two values count as the same if they differ by at most this share of the second: what "unchanged", "no improvement"
/// or "about as many" means, where the paper prints no tolerance.
pub const SAME: f64 = 0.05;

/// An interval counts up to this share of the paper's number on each side: noise must not make a claim reproduced.
pub const WIDEST: f64 = 0.1;

/// Digits after the point that a difference is shown with at most.
const DIGITS: usize = 3;

/// How a claim, or all comparisons of it together, was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Each number of the paper lies in our interval or is ours at its printed precision, and each order that the paper
    /// states holds with the whole interval.
    Reproduced,
    /// The orders that the paper states hold on average, but a number differs or an interval includes the opposite.
    DirectionOnly,
    /// An order that the paper states does not hold, or the numbers differ and the claim states no order.
    NotReproduced,
    /// The runs cannot support or contradict the claim; the claim says why.
    NotJudged,
}

impl Verdict {
    /// All verdicts, the best first.
    pub const ALL: [Verdict; 4] =
        [Verdict::Reproduced, Verdict::DirectionOnly, Verdict::NotReproduced, Verdict::NotJudged];

    /// As words: `direction only`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotJudged => "not judged",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name().replace(' ', "-"))
    }
}

/// A number as the paper prints it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Printed {
    /// The number.
    pub value: f64,
    /// The unit of its last significant digit: 1 for "97%", 100 for "about 300". Half of it is the precision.
    pub unit: f64,
}

impl Printed {
    /// Digits after the point.
    fn digits(self) -> usize {
        (-self.unit.log10().floor()).max(0.0) as usize
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.digits(), self.value)
    }
}

/// A number as the paper prints it, with the unit of its last significant digit.
pub(crate) const fn printed(value: f64, unit: f64) -> Printed {
    Printed { value, unit }
}

/// What is compared, and with what.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Comparison {
    /// The paper prints a number.
    Number {
        /// Our value.
        ours: Estimate,
        /// The paper's.
        paper: Printed,
    },
    /// The paper prints the ends of a range in which the value lies.
    Range {
        /// Our value.
        ours: Estimate,
        /// The lower end.
        low: Printed,
        /// The upper end.
        high: Printed,
    },
    /// The paper states an order or a bound: this difference is above zero.
    Order {
        /// The difference that must be positive.
        difference: Estimate,
        /// Whether zero is enough.
        or_equal: bool,
    },
    /// The paper states that two values do not differ.
    Same {
        /// The first value less the second.
        difference: Estimate,
        /// The largest difference that counts as none.
        tolerance: f64,
    },
    /// The paper states that a curve rises or falls.
    Curve {
        /// From the first point to the last; positive in the stated direction.
        ends: Estimate,
        /// From each point to the next, likewise.
        steps: Vec<Estimate>,
    },
    /// The paper states that something holds in most cases: in more than half of these.
    Most {
        /// The cases.
        cases: Vec<Comparison>,
    },
}

/// How far one comparison agrees with the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Not at all, or nothing was measured.
    No,
    /// On average only: the interval includes the opposite, or is missing.
    OnAverage,
    /// In full.
    Full,
}

/// One comparison of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What is compared, in a few words.
    pub what: String,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// How far it agrees with the paper.
    pub agreement: Agreement,
}

/// Judges a claim by all of its comparisons.
pub fn verdict(checks: &[Check]) -> Verdict {
    let mut orders = checks.iter().filter(|check| !check.comparison.is_number()).peekable();
    if checks.is_empty() {
        Verdict::NotJudged
    } else if checks.iter().all(|check| check.agreement == Agreement::Full) {
        Verdict::Reproduced
    } else if orders.peek().is_some() && orders.all(|check| check.agreement >= Agreement::OnAverage) {
        Verdict::DirectionOnly
    } else {
        Verdict::NotReproduced
    }
}

impl Comparison {
    fn is_number(&self) -> bool {
        matches!(self, Comparison::Number { .. } | Comparison::Range { .. })
    }

    fn agreement(&self) -> Agreement {
        match self {
            Comparison::Number { ours, paper } => agrees(ours, *paper, *paper),
            Comparison::Range { ours, low, high } => agrees(ours, *low, *high),
            Comparison::Order { difference, or_equal } => {
                let met = |value: f64| value > 0.0 || (*or_equal && value >= 0.0);
                holds(difference, |low, _| met(low))
            }
            Comparison::Same { difference, tolerance } => {
                holds(difference, |low, high| -tolerance <= low && high <= *tolerance)
            }
            Comparison::Curve { ends, steps } => {
                // A step may go the other way by chance: only one whose whole interval does counts.
                let against = |step: &Estimate| step.runs == 0 || step.high() < 0.0;
                let whole = holds(ends, |low, _| low > 0.0);
                if steps.iter().any(against) { whole.min(Agreement::OnAverage) } else { whole }
            }
            Comparison::Most { cases } => {
                let half = |least: Agreement| {
                    2 * cases.iter().filter(|case| case.agreement() >= least).count() > cases.len()
                };
                let most = [Agreement::Full, Agreement::OnAverage].into_iter().find(|least| half(*least));
                most.unwrap_or(Agreement::No)
            }
        }
    }
}

/// Whether the paper's range, which may be one number, reaches into our interval, or our mean is in it at the printed
/// precision.
fn agrees(ours: &Estimate, low: Printed, high: Printed) -> Agreement {
    let slack = |end: Printed| {
        let margin = ours.margin.unwrap_or(0.0).min(WIDEST * end.value.abs());
        margin.max(end.unit / 2.0)
    };
    let met = low.value - slack(low) <= ours.mean && ours.mean <= high.value + slack(high);
    if ours.runs > 0 && met { Agreement::Full } else { Agreement::No }
}

/// Whether a condition holds for the whole interval, or else for the mean. A single run has no interval.
fn holds(ours: &Estimate, condition: impl Fn(f64, f64) -> bool) -> Agreement {
    if ours.runs == 0 || !condition(ours.mean, ours.mean) {
        Agreement::No
    } else if ours.margin.is_some() && condition(ours.low(), ours.high()) {
        Agreement::Full
    } else {
        Agreement::OnAverage
    }
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, comparison: Comparison) -> Check {
        let agreement = comparison.agreement();
        Check { what: what.into(), comparison, agreement }
    }

    /// The paper prints a number for `ours`.
    pub(crate) fn number(what: impl Into<String>, ours: impl Into<Estimate>, paper: Printed) -> Check {
        Check::new(what, Comparison::Number { ours: ours.into(), paper })
    }

    /// The paper prints a range for `ours`.
    pub(crate) fn range(
        what: impl Into<String>,
        ours: impl Into<Estimate>,
        low: Printed,
        high: Printed,
    ) -> Check {
        Check::new(what, Comparison::Range { ours: ours.into(), low, high })
    }

    /// The first is higher than the second, which may be a bound. For values of the same seeds [`Check::positive`] with
    /// the difference seed by seed has a narrower interval.
    pub(crate) fn above(
        what: impl Into<String>,
        one: impl Into<Estimate>,
        other: impl Into<Estimate>,
    ) -> Check {
        Check::positive(what, one.into().minus(other.into()))
    }

    /// The first is lower than the second, which may be a bound.
    pub(crate) fn below(
        what: impl Into<String>,
        one: impl Into<Estimate>,
        other: impl Into<Estimate>,
    ) -> Check {
        Check::above(what, other, one)
    }

    /// The first is the second or higher.
    pub(crate) fn at_least(
        what: impl Into<String>,
        one: impl Into<Estimate>,
        other: impl Into<Estimate>,
    ) -> Check {
        let difference = one.into().minus(other.into());
        Check::new(what, Comparison::Order { difference, or_equal: true })
    }

    /// The first is the second or lower.
    pub(crate) fn at_most(
        what: impl Into<String>,
        one: impl Into<Estimate>,
        other: impl Into<Estimate>,
    ) -> Check {
        Check::at_least(what, other, one)
    }

    /// A difference is above zero.
    pub(crate) fn positive(what: impl Into<String>, difference: Estimate) -> Check {
        Check::new(what, Comparison::Order { difference, or_equal: false })
    }

    /// Two values do not differ by more than [`SAME`].
    pub(crate) fn same(
        what: impl Into<String>,
        one: impl Into<Estimate>,
        other: impl Into<Estimate>,
    ) -> Check {
        let (one, other) = (one.into(), other.into());
        let tolerance = SAME * other.mean.abs();
        Check::new(what, Comparison::Same { difference: one.minus(other), tolerance })
    }

    /// Each point is higher than the one before it.
    pub(crate) fn rising(what: impl Into<String>, points: &[Estimate]) -> Check {
        let rise = |from: Option<&Estimate>, to: Option<&Estimate>| {
            from.zip(to).map_or(Estimate::of(&[]), |(from, to)| to.minus(*from))
        };
        let steps = points.windows(2).map(|pair| rise(pair.first(), pair.last())).collect();
        let ends = if points.len() < 2 { Estimate::of(&[]) } else { rise(points.first(), points.last()) };
        Check::new(what, Comparison::Curve { ends, steps })
    }

    /// Each point is lower than the one before it.
    pub(crate) fn falling(what: impl Into<String>, points: &[Estimate]) -> Check {
        let negated: Vec<Estimate> = points.iter().map(|point| point.negated()).collect();
        Check::rising(what, &negated)
    }

    /// More than half of the cases agree.
    pub(crate) fn most(what: impl Into<String>, cases: impl IntoIterator<Item = Check>) -> Check {
        Check::new(what, Comparison::Most { cases: cases.into_iter().map(|case| case.comparison).collect() })
    }

    /// The values compared: `load: 82.4 ± 1.0, paper 80`.
    pub fn show(&self) -> String {
        format!("{}: {}", self.what, self.comparison.show())
    }
}

impl Comparison {
    fn show(&self) -> String {
        match self {
            // One digit more than the paper's shows how near ours is.
            Comparison::Number { ours, paper } => {
                format!("{}, paper {paper}", ours.show(paper.digits() + 1))
            }
            Comparison::Range { ours, low, high } => {
                format!("{}, paper {low} to {high}", ours.show(low.digits() + 1))
            }
            Comparison::Order { difference, .. } => format!("difference {}", difference.show(DIGITS)),
            Comparison::Same { difference, tolerance } => {
                let tolerance = Estimate::of(&[*tolerance]).show(DIGITS);
                format!("difference {}, at most {tolerance} counts as none", difference.show(DIGITS))
            }
            Comparison::Curve { ends, steps } => {
                let against = steps.iter().filter(|step| step.high() < 0.0).count();
                let total = steps.len();
                format!("from end to end {}, {against} of {total} steps against it", ends.show(DIGITS))
            }
            Comparison::Most { cases } => {
                let count = |least| cases.iter().filter(|case| case.agreement() >= least).count();
                let (full, mean) = (count(Agreement::Full), count(Agreement::OnAverage));
                format!("in {full} of {} cases, on average in {mean}", cases.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Agreement::{Full, No, OnAverage};

    fn estimate(mean: f64, margin: f64) -> Estimate {
        Estimate { mean, margin: Some(margin), runs: 5 }
    }

    fn single(mean: f64) -> Estimate {
        Estimate::of(&[mean])
    }

    const NOTHING: Estimate = Estimate { mean: 0.0, margin: None, runs: 0 };

    #[track_caller]
    fn assert_each(rows: impl IntoIterator<Item = (Check, Agreement)>) {
        for (check, expected) in rows {
            assert_eq!(check.agreement, expected, "{check:?}");
        }
    }

    #[test]
    fn a_number_is_in_the_interval_or_as_printed() {
        let paper = |ours| Check::number("", ours, printed(97.0, 1.0));
        assert_each([
            (paper(estimate(95.0, 2.0)), Full),
            (paper(estimate(95.0, 1.99)), No),
            (paper(estimate(99.0, 2.0)), Full),
            (paper(estimate(99.0, 1.99)), No),
            (paper(estimate(97.5, 0.01)), Full),
            (paper(estimate(97.51, 0.01)), No),
            (paper(single(96.5)), Full),
            (paper(single(96.49)), No),
            (paper(NOTHING), No),
            // An interval wider than a tenth of the number counts as a tenth.
            (Check::number("", estimate(44.0, 40.0), printed(40.0, 1.0)), Full),
            (Check::number("", estimate(44.01, 40.0), printed(40.0, 1.0)), No),
            (Check::number("", 349.0, printed(300.0, 100.0)), Full),
            (Check::number("", 351.0, printed(300.0, 100.0)), No),
        ]);
    }

    #[test]
    fn a_range_reaches_into_the_interval_or_holds_the_mean_as_printed() {
        let paper = |ours| Check::range("", ours, printed(60.0, 1.0), printed(80.0, 1.0));
        assert_each([
            (paper(estimate(70.0, 0.1)), Full),
            (paper(estimate(82.0, 2.0)), Full),
            (paper(estimate(82.0, 1.99)), No),
            (paper(estimate(58.0, 2.0)), Full),
            (paper(estimate(58.0, 1.99)), No),
            (paper(single(80.5)), Full),
            (paper(single(80.51)), No),
        ]);
    }

    #[test]
    fn an_order_holds_with_the_whole_interval_or_on_average() {
        assert_each([
            (Check::positive("", estimate(1.0, 0.99)), Full),
            (Check::positive("", estimate(1.0, 1.0)), OnAverage),
            (Check::positive("", single(1.0)), OnAverage),
            (Check::positive("", estimate(0.0, 1.0)), No),
            (Check::positive("", NOTHING), No),
            (Check::at_least("", estimate(1.0, 1.0), 0.0), Full),
            (Check::at_most("", estimate(0.0, 1.0), 0.0), OnAverage),
            (Check::at_most("", estimate(0.01, 1.0), 0.0), No),
            // The margin of the difference is 5.
            (Check::above("", estimate(10.01, 3.0), estimate(5.0, 4.0)), Full),
            (Check::above("", estimate(10.0, 3.0), estimate(5.0, 4.0)), OnAverage),
            (Check::below("", estimate(10.0, 3.0), estimate(5.0, 4.0)), No),
        ]);
    }

    #[test]
    fn a_bound_is_compared_with_its_number() {
        assert_each([
            (Check::above("", estimate(61.0, 0.9), 60.0), Full),
            (Check::above("", estimate(61.0, 1.1), 60.0), OnAverage),
            (Check::above("", estimate(59.9, 1.1), 60.0), No),
            (Check::below("", 9.0, 10.0), Full),
            (Check::below("", 10.0, 10.0), No),
        ]);
    }

    #[test]
    fn values_are_the_same_within_a_twentieth_of_the_second() {
        assert_each([
            (Check::same("", estimate(104.0, 1.0), 100.0), Full),
            (Check::same("", estimate(96.0, 1.0), 100.0), Full),
            (Check::same("", estimate(104.0, 1.01), 100.0), OnAverage),
            (Check::same("", single(100.0), 100.0), OnAverage),
            (Check::same("", estimate(105.01, 0.0), 100.0), No),
            (Check::same("", estimate(94.99, 0.0), 100.0), No),
        ]);
    }

    #[test]
    fn a_curve_needs_its_ends_apart_and_no_step_against_it() {
        let points =
            |means: &[f64], margin: f64| means.iter().map(|mean| estimate(*mean, margin)).collect::<Vec<_>>();
        let singles = [1.0, 2.0].map(single);
        assert_each([
            (Check::rising("", &points(&[1.0, 2.0, 3.0], 0.1)), Full),
            (Check::falling("", &points(&[3.0, 2.0, 1.0], 0.1)), Full),
            // The second step is down by 0.1, its margin is 0.14.
            (Check::rising("", &points(&[1.0, 3.0, 2.9], 0.1)), Full),
            (Check::rising("", &points(&[1.0, 3.0, 2.8], 0.1)), OnAverage),
            (Check::rising("", &points(&[1.0, 2.0, 1.1], 0.1)), OnAverage),
            (Check::rising("", &points(&[1.0, 2.0, 0.9], 0.1)), No),
            (Check::rising("", &singles), OnAverage),
            (Check::falling("", &singles), No),
            (Check::rising("", &singles[..1]), No),
        ]);
    }

    #[test]
    fn most_is_more_than_half() {
        let cases = |full: usize, mean: usize, no: usize| {
            let of = |count, difference| std::iter::repeat_n(Check::positive("", difference), count);
            let all = of(full, estimate(1.0, 0.5)).chain(of(mean, estimate(1.0, 2.0)));
            Check::most("", all.chain(of(no, estimate(-1.0, 0.5))))
        };
        assert_each([
            (cases(3, 0, 2), Full),
            (cases(2, 0, 2), No),
            (cases(2, 1, 2), OnAverage),
            (cases(2, 2, 0), OnAverage),
            (cases(0, 0, 0), No),
        ]);
    }

    #[test]
    fn numbers_and_orders_together_give_the_verdict() {
        let number = |mean| Check::number("n", estimate(mean, 0.1), printed(8.0, 1.0));
        let order = |mean| Check::positive("o", estimate(mean, 1.0));
        let rows: [(&[Check], Verdict); 9] = [
            (&[number(8.0), order(2.0)], Verdict::Reproduced),
            (&[number(8.0)], Verdict::Reproduced),
            (&[order(2.0)], Verdict::Reproduced),
            (&[number(9.0), order(2.0)], Verdict::DirectionOnly),
            (&[number(8.0), order(0.5)], Verdict::DirectionOnly),
            (&[order(0.5)], Verdict::DirectionOnly),
            (&[number(8.0), order(-0.5)], Verdict::NotReproduced),
            (&[number(9.0)], Verdict::NotReproduced),
            (&[], Verdict::NotJudged),
        ];
        for (checks, expected) in rows {
            assert_eq!(verdict(checks), expected, "{checks:?}");
        }
    }

    #[test]
    fn a_check_shows_both_values() {
        let shown = |check: Check| check.show();
        let load = Check::number("load", estimate(82.41, 1.0), printed(80.0, 1.0));
        assert_eq!(shown(load), "load: 82.4 ± 1.0, paper 80");
        let rate = Check::number("rate", 0.5, printed(0.25, 0.01));
        assert_eq!(shown(rate), "rate: 0.500 ± 0.000, paper 0.25");
        let timeout = Check::number("time-out", single(1300.0), printed(300.0, 100.0));
        assert_eq!(shown(timeout), "time-out: 1300, paper 300");
        assert_eq!(shown(Check::positive("more", estimate(-12.0, 3.0))), "more: difference -12.0 ± 3.0");
        let curve = Check::falling("rate", &[1.0, 2.0].map(Estimate::exact));
        assert_eq!(shown(curve), "rate: from end to end -1.00 ± 0.00, 1 of 1 steps against it");
    }
}
