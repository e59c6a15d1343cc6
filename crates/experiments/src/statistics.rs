//! Means with 95% confidence intervals over independent runs, by Student's t. One run has a value and no interval.

use serde::Serialize;

/// A mean with its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Arithmetic mean over the runs.
    pub mean: f64,
    /// Half the width of the interval; None with a single run.
    pub margin: Option<f64>,
    /// Number of runs.
    pub runs: usize,
}

/// Two-sided 97.5% quantiles of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The quantile of the normal distribution, used above 30 degrees of freedom.
const NORMAL: f64 = 1.96;

impl Estimate {
    /// The estimate from one value per run; zero without values.
    pub fn of(values: &[f64]) -> Estimate {
        let runs = values.len();
        // Without values the mean is 0, because NaN would be written as null in JSON.
        let mean = values.iter().sum::<f64>() / runs.max(1) as f64;
        if runs < 2 {
            return Estimate { mean, margin: None, runs };
        }
        // Divided by one less than the runs, because the mean comes from the same values.
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
        // The first quantile is for one degree of freedom, that is for two runs.
        let t = T.get(runs - 2).copied().unwrap_or(NORMAL);
        Estimate { mean, margin: Some(t * (variance / runs as f64).sqrt()), runs }
    }

    /// A value that does not depend on a seed, such as a count of calls: its interval is the value itself.
    pub fn exact(value: f64) -> Estimate {
        Estimate { mean: value, margin: Some(0.0), runs: 1 }
    }

    /// The lower end of the interval; the mean without one.
    pub fn low(&self) -> f64 {
        self.mean - self.margin.unwrap_or(0.0)
    }

    /// The upper end of the interval; the mean without one.
    pub fn high(&self) -> f64 {
        self.mean + self.margin.unwrap_or(0.0)
    }

    /// The difference to another estimate, taken as independent of this one. For values of the same seeds the estimate
    /// of the differences has a narrower interval.
    pub fn minus(self, other: Estimate) -> Estimate {
        if self.runs == 0 || other.runs == 0 {
            return Estimate::of(&[]);
        }
        let margin = self.margin.zip(other.margin).map(|(one, other)| one.hypot(other));
        Estimate { mean: self.mean - other.mean, margin, runs: self.runs.min(other.runs) }
    }

    pub(crate) fn negated(self) -> Estimate {
        Estimate { mean: -self.mean, ..self }
    }

    /// The mean and, if known, its margin, with as many digits as two significant ones of the margin need:
    /// `92.4 ± 1.1`, `68000 ± 96000`. Without a margin three significant digits of the mean, and all before the point.
    /// At most `digits` after the point, so that the rows of a table look alike.
    pub fn show(&self, digits: usize) -> String {
        let places = |value: f64, significant: i32| significant - 1 - value.abs().log10().floor() as i32;
        let places = match self.margin {
            Some(margin) if margin > 0.0 => places(margin, 2),
            _ if self.mean != 0.0 => places(self.mean, 3).max(0),
            _ => i32::MAX,
        };
        // Numbers of more places than this are never shown, and beyond 300 powers of ten are not finite.
        let places = places.clamp(-15, 15).min(i32::try_from(digits).unwrap_or(i32::MAX));
        let after_point = usize::try_from(places).unwrap_or(0);
        let unit = 10f64.powi((-places).max(0));
        let rounded = |value: f64| if places < 0 { (value / unit).round() * unit } else { value };
        let shown = |value: f64| {
            let text = format!("{:.after_point$}", rounded(value));
            // A small negative number is shown as zero and not as minus zero.
            if text.contains(|digit| matches!(digit, '1'..='9')) { text } else { text.replace('-', "") }
        };
        match self.margin {
            Some(margin) => format!("{} ± {}", shown(self.mean), shown(margin)),
            None => shown(self.mean),
        }
    }
}

impl From<f64> for Estimate {
    /// An exact value, such as a bound.
    fn from(value: f64) -> Estimate {
        Estimate::exact(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_four_runs_by_hand() {
        // Mean 5, variance 20/3, t(3) = 3.182: 3.182 * sqrt(20/3/4).
        let estimate = Estimate::of(&[2.0, 4.0, 6.0, 8.0]);
        assert!((estimate.mean - 5.0).abs() < 1e-12);
        assert!((estimate.margin.expect("four runs") - 3.182 * (20.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(estimate.show(1), "5.0 ± 4.1");
    }

    #[test]
    fn the_margins_of_a_difference_add_as_squares() {
        let one = Estimate { mean: 10.0, margin: Some(3.0), runs: 5 };
        let other = Estimate { mean: 4.0, margin: Some(4.0), runs: 3 };
        assert_eq!(one.minus(other), Estimate { mean: 6.0, margin: Some(5.0), runs: 3 });
        assert_eq!(one.minus(4.0.into()), Estimate { mean: 6.0, margin: Some(3.0), runs: 1 });
        assert_eq!(one.minus(Estimate::of(&[1.0])).margin, None, "one run has no interval");
        assert_eq!(one.minus(Estimate::of(&[])).runs, 0, "nothing was measured");
        assert_eq!((one.low(), one.high()), (7.0, 13.0));
    }

    #[test]
    fn one_run_has_no_interval_and_none_is_zero() {
        assert_eq!(Estimate::of(&[3.0]), Estimate { mean: 3.0, margin: None, runs: 1 });
        assert_eq!(Estimate::of(&[]), Estimate { mean: 0.0, margin: None, runs: 0 });
    }

    #[test]
    fn two_digits_of_the_margin_are_shown() {
        let shown = |mean, margin, digits| Estimate { mean, margin, runs: 5 }.show(digits);
        assert_eq!(shown(68_348.0, Some(95_638.1), 1), "68000 ± 96000");
        assert_eq!(shown(-341.26, Some(40.1), 1), "-341 ± 40");
        assert_eq!(shown(82.41, Some(1.04), 4), "82.4 ± 1.0");
        assert_eq!(shown(97.316, Some(0.312), 4), "97.32 ± 0.31");
        assert_eq!(shown(97.316, Some(0.312), 1), "97.3 ± 0.3");
        assert_eq!(shown(8.0, Some(0.0), 1), "8.0 ± 0.0");
        assert_eq!(shown(-0.001, Some(0.004), 1), "0.0 ± 0.0");
        assert_eq!(shown(0.012_34, None, 6), "0.0123");
        assert_eq!(shown(68_348.2, None, 1), "68348");
        assert_eq!(shown(3.0, None, 0), "3");
    }
}
