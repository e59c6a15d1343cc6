//! Statistics of a workload: number, length, size, rate and accuracy of jobs, in seconds and units of the
//! machine, ready to be shown or serialised.

use crate::trace::{Job, offered_load};
use bookahead_plan::Capacity;
use serde::Serialize;

/// Mean and quantiles of one property of the jobs. A quantile is the smallest value that is not exceeded by
/// at least that share of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the values are at most this.
    pub median: i64,
    /// 95 % of the values are at most this.
    pub p95: i64,
}

impl Distribution {
    fn of(values: impl Iterator<Item = i64>) -> Distribution {
        let mut values: Vec<i64> = values.collect();
        if values.is_empty() {
            return Distribution::default();
        }
        values.sort_unstable();
        // The sum of millions of large times could exceed an `i64`.
        let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
        // Rounded up: the nearest-rank quantile is always one of the values, also for few jobs.
        let quantile = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        Distribution { mean: sum as f64 / values.len() as f64, median: quantile(50), p95: quantile(95) }
    }
}

/// Statistics of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of jobs.
    pub jobs: usize,
    /// First submission, in seconds.
    pub first_submit: i64,
    /// Last submission, in seconds.
    pub last_submit: i64,
    /// From the first submission to the last, in seconds.
    pub span: i64,
    /// Size of the machine, in units.
    pub machine: u32,
    /// Submitted work per second as a share of the machine; None if all jobs are submitted at one instant.
    pub offered_load: Option<f64>,
    /// Run times, in seconds.
    pub run: Distribution,
    /// Requested times, in seconds.
    pub request: Distribution,
    /// Sizes, in units.
    pub processors: Distribution,
    /// Time between two submissions, in seconds.
    pub gap: Distribution,
    /// Share of jobs of one unit.
    pub serial_share: f64,
    /// Share of jobs of 2, 4, 8, ... units.
    pub power_of_two_share: f64,
    /// Mean of run time over requested time.
    pub accuracy: f64,
}

impl Statistics {
    /// Statistics of `jobs`, which must be in order of submission; `None` if there are no jobs.
    pub fn of_jobs(jobs: &[Job], machine: Capacity) -> Option<Statistics> {
        let (first, last) = (jobs.first()?.submit, jobs.last()?.submit);
        let share = |count: usize| count as f64 / jobs.len() as f64;
        let parallel = |job: &&Job| job.processors.0 > 1;
        let power_of_two = |job: &&Job| job.processors.0.is_power_of_two();
        let accuracies: f64 = jobs.iter().map(|job| job.run.0 as f64 / job.request.0.max(1) as f64).sum();
        Some(Statistics {
            jobs: jobs.len(),
            first_submit: first.0,
            last_submit: last.0,
            span: (last - first).0,
            machine: machine.0,
            offered_load: offered_load(jobs, machine),
            run: Distribution::of(jobs.iter().map(|job| job.run.0)),
            request: Distribution::of(jobs.iter().map(|job| job.request.0)),
            processors: Distribution::of(jobs.iter().map(|job| i64::from(job.processors.0))),
            gap: Distribution::of(jobs.windows(2).map(|pair| (pair[1].submit - pair[0].submit).0)),
            serial_share: share(jobs.iter().filter(|job| job.processors.0 == 1).count()),
            // 1 is a power of two as well, but such jobs are counted as serial.
            power_of_two_share: share(jobs.iter().filter(parallel).filter(power_of_two).count()),
            accuracy: accuracies / jobs.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Seconds, Time};

    fn job(submit: i64, run: i64, request: i64, processors: u32) -> Job {
        Job {
            number: 1,
            submit: Time(submit),
            run: Seconds(run),
            request: Seconds(request),
            processors: Capacity(processors),
            user: 0,
        }
    }

    #[test]
    fn a_small_workload_has_the_numbers_worked_out_by_hand() {
        let jobs = [job(0, 10, 20, 1), job(10, 20, 20, 2), job(40, 30, 40, 3), job(100, 40, 80, 4)];
        let statistics = Statistics::of_jobs(&jobs, Capacity(10)).unwrap();
        assert_eq!((statistics.jobs, statistics.span, statistics.machine), (4, 100, 10));
        assert_eq!(statistics.offered_load, Some(0.3));
        assert_eq!(statistics.run, Distribution { mean: 25.0, median: 20, p95: 40 });
        assert_eq!(statistics.gap, Distribution { mean: 100.0 / 3.0, median: 30, p95: 60 });
        assert_eq!((statistics.serial_share, statistics.power_of_two_share), (0.25, 0.5));
        assert_eq!(statistics.accuracy, (0.5 + 1.0 + 0.75 + 0.5) / 4.0);
    }

    #[test]
    fn one_job_has_no_gap_and_no_load() {
        let statistics = Statistics::of_jobs(&[job(5, 10, 20, 1)], Capacity(10)).unwrap();
        assert_eq!((statistics.offered_load, statistics.gap), (None, Distribution::default()));
        assert_eq!(Statistics::of_jobs(&[], Capacity(10)), None);
    }

    #[test]
    fn ninety_five_of_a_hundred_values_are_not_above_the_quantile() {
        let distribution = Distribution::of((1..=100).rev());
        assert_eq!((distribution.median, distribution.p95), (50, 95));
    }
}
