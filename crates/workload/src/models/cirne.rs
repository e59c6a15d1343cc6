//! In the manner of W. Cirne and F. Berman, "A comprehensive model of the supercomputer workload", IEEE
//! Workshop on Workload Characterization, 2001: requested times are uniform in the logarithm, and jobs use a
//! gamma-distributed share of them; sizes are uniform in the logarithm with many powers of two; arrivals depend
//! on the hour of the day. The structure is theirs, the numbers are rounded, and no job is cancelled.

use super::setting::{DailyCycle, Drawn, ModelError, Setting, check_ends, check_range};
use crate::LONGEST;
use crate::streams::Stream;
use crate::trace::Job;

/// Requested times are rounded up to whole minutes.
const MINUTE: f64 = 60.0;

/// The model in the manner of Cirne and Berman.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cirne {
    /// Number of jobs, machine, load and seed.
    pub setting: Setting,
    /// Mean time between two submissions, in seconds.
    pub mean_gap: f64,
    /// Weight of each hour of the day, from midnight on; only ratios matter.
    pub hours: [f64; 24],
    /// Share of jobs whose size is a power of two.
    pub power_of_two: f64,
    /// Shortest and longest requested time, in seconds.
    pub request: (i64, i64),
    /// Shape and scale of the gamma distribution of run time over requested time; values above 1 are drawn again.
    pub accuracy: (f64, f64),
}

impl Default for Cirne {
    /// A job every ten minutes on average, four fifths of them powers of two, requests of five minutes to a
    /// day, of which jobs use about a third.
    fn default() -> Cirne {
        Cirne {
            setting: Setting::default(),
            mean_gap: 600.0,
            hours: [
                0.5, 0.4, 0.3, 0.3, 0.3, 0.3, 0.4, 0.6, 1.0, 1.4, 1.7, 1.8, 1.7, 1.7, 1.9, 1.9, 1.8, 1.5,
                1.2, 1.0, 0.9, 0.8, 0.7, 0.6,
            ],
            power_of_two: 0.8,
            request: (300, 86_400),
            accuracy: (0.7, 0.8),
        }
    }
}

impl Cirne {
    /// Draws the jobs, in order of submission.
    pub fn generate(&self) -> Result<Vec<Job>, ModelError> {
        self.check()?;
        let seed = self.setting.seed;
        let mut gaps = Stream::new(seed, "cirne/gaps");
        let mut sizes = Stream::new(seed, "cirne/sizes");
        let mut requests = Stream::new(seed, "cirne/requests");
        let mut accuracies = Stream::new(seed, "cirne/accuracies");
        let mut clock = DailyCycle::new(self.hours);
        self.setting.draw(|| {
            let request = self.request_time(&mut requests);
            let used = request as f64 * self.used_share(&mut accuracies);
            Drawn {
                submit: clock.advance(gaps.exponential(self.mean_gap)),
                processors: self.size(&mut sizes),
                run: (used.ceil() as i64).clamp(1, request),
                request,
            }
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        self.setting.check()?;
        check_range("a mean gap", self.mean_gap, 1e-3..=1e9, "0.001 to 1000000000 s")?;
        for weight in self.hours {
            check_range("a weight of an hour", weight, 1e-3..=1e3, "0.001 to 1000")?;
        }
        check_range("a share of powers of two", self.power_of_two, 0.0..=1.0, "a share from 0 to 1")?;
        check_ends("requested times", self.request, 1, LONGEST)?;
        let (shape, scale) = self.accuracy;
        // With a mean above one most draws would be rejected, and drawing might not end.
        check_range("a shape of the accuracy", shape, 0.01..=100.0, "0.01 to 100")?;
        check_range("a mean of the accuracy", shape * scale, 1e-3..=1.0, "0.001 to 1")
    }

    /// Uniform in the logarithm, from 1 to the size of the machine.
    fn size(&self, stream: &mut Stream) -> u32 {
        let machine = self.setting.processors.0;
        let power_of_two = stream.unit() < self.power_of_two;
        let power = stream.uniform(0.0, libm::log2(f64::from(machine)));
        if power_of_two {
            // On a machine that is no power of two, rounding up could give a job that is wider than it.
            1 << (power.round() as u32).min(machine.ilog2())
        } else {
            (libm::exp2(power).round() as u32).clamp(1, machine)
        }
    }

    /// Uniform in the logarithm, in whole minutes.
    fn request_time(&self, stream: &mut Stream) -> i64 {
        let (low, high) = self.request;
        let seconds = libm::exp(stream.uniform(libm::log(low as f64), libm::log(high as f64)));
        // Rounding up to a minute may exceed the longest request.
        (((seconds / MINUTE).ceil() * MINUTE) as i64).clamp(low, high)
    }

    fn used_share(&self, stream: &mut Stream) -> f64 {
        loop {
            let share = stream.gamma(self.accuracy.0, self.accuracy.1);
            if share <= 1.0 {
                return share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Statistics;

    #[test]
    fn jobs_use_part_of_what_they_ask_for() {
        let jobs = Cirne::default().generate().unwrap();
        assert!(jobs.iter().all(|job| job.run <= job.request && (300..=86_400).contains(&job.request.0)));
        let statistics = Statistics::of_jobs(&jobs, Cirne::default().setting.processors).unwrap();
        assert!((0.25..0.45).contains(&statistics.accuracy), "{statistics:?}");
        assert!((statistics.gap.mean / 600.0 - 1.0).abs() < 0.05, "{statistics:?}");
        // The median of a log-uniform time is the geometric mean of its ends.
        assert!((4700..5600).contains(&statistics.request.median), "{statistics:?}");
        assert!(statistics.power_of_two_share + statistics.serial_share > 0.8, "{statistics:?}");
    }

    #[test]
    fn more_jobs_arrive_by_day_than_by_night() {
        let jobs = Cirne::default().generate().unwrap();
        let within = |from: i64, to: i64| {
            jobs.iter().filter(|job| (from..to).contains(&(job.submit.0 % 86_400 / 3600))).count()
        };
        assert!(within(12, 16) > 4 * within(2, 6));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |model: Cirne| model.generate().is_err();
        assert!(refused(Cirne { hours: [0.0; 24], ..Cirne::default() }));
        assert!(refused(Cirne { request: (10, 5), ..Cirne::default() }));
        assert!(refused(Cirne { accuracy: (10.0, 10.0), ..Cirne::default() }));
        assert!(refused(Cirne { power_of_two: -0.1, ..Cirne::default() }));
        assert!(refused(Cirne { mean_gap: f64::INFINITY, ..Cirne::default() }));
    }
}
