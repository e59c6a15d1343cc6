//! The simplest workload: jobs arrive at random with a constant rate; sizes and run times are uniform in
//! ranges. It is meant for studies that vary one thing only; no real log looks like this.

use super::setting::{Drawn, ModelError, RequestModel, Setting, check_ends, check_range};
use crate::LONGEST;
use crate::streams::Stream;
use crate::trace::Job;

/// Poisson arrivals, uniform sizes, uniform run times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    /// Number of jobs, machine, load and seed.
    pub setting: Setting,
    /// Mean time between two submissions, in seconds.
    pub mean_gap: f64,
    /// Smallest and largest size, in processors.
    pub processors: (u32, u32),
    /// Shortest and longest run time, in seconds.
    pub run: (i64, i64),
    /// Model of requested times.
    pub requests: RequestModel,
}

impl Default for Poisson {
    /// A job every ten minutes on average, of 1 to 64 processors for a minute to four hours.
    fn default() -> Poisson {
        Poisson {
            setting: Setting::default(),
            mean_gap: 600.0,
            processors: (1, 64),
            run: (60, 4 * 3600),
            requests: RequestModel::default(),
        }
    }
}

impl Poisson {
    /// Draws the jobs, in order of submission.
    pub fn generate(&self) -> Result<Vec<Job>, ModelError> {
        self.check()?;
        let seed = self.setting.seed;
        // One stream per property: a change of one range does not change the draws of the others.
        let mut gaps = Stream::new(seed, "poisson/gaps");
        let mut sizes = Stream::new(seed, "poisson/sizes");
        let mut runs = Stream::new(seed, "poisson/runs");
        let mut requests = Stream::new(seed, "poisson/requests");
        let mut submit = 0.0;
        self.setting.draw(|| {
            submit += gaps.exponential(self.mean_gap);
            let (low, high) = self.processors;
            let run = runs.whole(self.run.0, self.run.1);
            Drawn {
                submit,
                processors: sizes.whole(i64::from(low), i64::from(high)) as u32,
                run,
                request: self.requests.request(run, &mut requests),
            }
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        self.setting.check()?;
        self.requests.check()?;
        check_range("a mean gap", self.mean_gap, 1e-3..=1e9, "0.001 to 1000000000 s")?;
        let sizes = (i64::from(self.processors.0), i64::from(self.processors.1));
        // A job wider than the machine could never start.
        check_ends("sizes", sizes, 1, i64::from(self.setting.processors.0))?;
        check_ends("run times", self.run, 1, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Statistics;

    #[test]
    fn means_are_those_of_the_ranges() {
        let model = Poisson { setting: Setting { jobs: 50_000, ..Setting::default() }, ..Poisson::default() };
        let statistics = Statistics::of_jobs(&model.generate().unwrap(), model.setting.processors).unwrap();
        assert!((statistics.gap.mean - 600.0).abs() < 12.0, "{statistics:?}");
        assert!((statistics.processors.mean - 32.5).abs() < 0.5, "{statistics:?}");
        assert!((statistics.run.mean - 7230.0).abs() < 100.0, "{statistics:?}");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |model: Poisson| model.generate().is_err();
        assert!(refused(Poisson { mean_gap: 0.0, ..Poisson::default() }));
        assert!(refused(Poisson { mean_gap: f64::NAN, ..Poisson::default() }));
        assert!(refused(Poisson { processors: (0, 4), ..Poisson::default() }));
        assert!(refused(Poisson { processors: (5, 4), ..Poisson::default() }));
        assert!(refused(Poisson { processors: (1, 257), ..Poisson::default() }));
        assert!(refused(Poisson { run: (0, 10), ..Poisson::default() }));
        assert!(refused(Poisson { requests: RequestModel::Factor(0.5), ..Poisson::default() }));
    }
}
