//! The offered load of a machine, and how to change it: gaps between submissions are stretched or compressed, the
//! jobs stay as they are. The same jobs and factor give the same result on every machine.
//!
//! Estimates are the run times that the scheduler assumes: as requested by the users, the actual ones, or a multiple of
//! the actual ones. An estimate below the run time is an overrun, to which the rule for overruns applies.

use super::job::{Job, Overrun};
use crate::LONGEST;
use bookahead_plan::{Capacity, Seconds, Time};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Why a load cannot be scaled.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScalingError {
    /// The factor is not a positive number.
    #[error("a load cannot be multiplied by {0}; give a number above 0")]
    BadFactor(f64),
    /// The last submission would be later than [`LONGEST`].
    #[error(
        "a load multiplied by {0} would spread the submissions over more than 2^40 s; give a larger factor"
    )]
    TooSparse(f64),
    /// All jobs are submitted at one instant, so the load is undefined.
    #[error("the load of jobs that are all submitted at one instant cannot be changed; give more jobs")]
    NoSpan,
}

/// Submitted work per second as a share of the machine: the sum of processors times run time over the size of the
/// machine times the time from the first submission to the last. `None` if that time is zero.
pub fn offered_load(jobs: &[Job], machine: Capacity) -> Option<f64> {
    let (first, last) = (jobs.first()?.submit, jobs.last()?.submit);
    let room = i128::from((last - first).0) * i128::from(machine.0);
    let work: i128 = jobs.iter().map(Job::area).sum();
    (room > 0).then(|| work as f64 / room as f64)
}

/// Multiplies the load by `factor`: all gaps between submissions are divided by it and rounded to the second; the first
/// submission stays. The jobs must be in order of submission; after an error they are unchanged.
pub fn scale_load(jobs: &mut [Job], factor: f64) -> Result<(), ScalingError> {
    if !factor.is_finite() || factor <= 0.0 {
        return Err(ScalingError::BadFactor(factor));
    }
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(()) };
    let first = first.submit;
    // Checked before any job is changed.
    if scaled(last.submit, first, factor) > LONGEST as f64 {
        return Err(ScalingError::TooSparse(factor));
    }
    for job in jobs {
        job.submit = Time(scaled(job.submit, first, factor) as i64);
    }
    Ok(())
}

fn scaled(submit: Time, first: Time, factor: f64) -> f64 {
    // From the first submission and not gap by gap, so that rounding errors do not add up.
    first.0 as f64 + ((submit - first).0 as f64 / factor).round()
}

/// Scales the gaps so that the offered load becomes `load`.
pub(crate) fn scale_to_load(jobs: &mut [Job], machine: Capacity, load: f64) -> Result<(), ScalingError> {
    match offered_load(jobs, machine) {
        // Not zero: every job has at least one processor and one second.
        Some(offered) => scale_load(jobs, load / offered),
        None => Err(ScalingError::NoSpan),
    }
}

/// Source of the requested times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Estimates {
    /// As in the log.
    #[default]
    Requested,
    /// The actual run time.
    Actual,
    /// A multiple of the actual run time, rounded up.
    Factor(f64),
}

/// An invalid kind of estimates.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum EstimatesError {
    /// An unknown name.
    #[error("unknown estimates '{0}'; use requested, actual or factor:F, as in factor:2.5")]
    UnknownName(String),
    /// The factor is not a positive number.
    #[error("run times cannot be multiplied by '{0}'; give a number above 0, as in factor:2.5")]
    BadFactor(String),
}

impl Estimates {
    /// Sets the requested time of all jobs and returns the number of overruns that result. A multiple of the run time
    /// is at least a second. With [`Overrun::Drop`] jobs may be removed.
    pub fn apply(self, jobs: &mut Vec<Job>, overruns: Overrun) -> Result<usize, EstimatesError> {
        match self {
            Estimates::Requested => Ok(0),
            Estimates::Actual => {
                jobs.iter_mut().for_each(|job| job.request = job.run);
                Ok(0)
            }
            Estimates::Factor(factor) => {
                check_factor(factor)?;
                jobs.iter_mut().for_each(|job| job.request = multiplied(job.run, factor));
                Ok(settle_overruns(jobs, overruns))
            }
        }
    }
}

fn check_factor(factor: f64) -> Result<(), EstimatesError> {
    if factor.is_finite() && factor > 0.0 {
        return Ok(());
    }
    Err(EstimatesError::BadFactor(factor.to_string()))
}

fn multiplied(run: Seconds, factor: f64) -> Seconds {
    // The cast to `i64` saturates, so a product that is too large is clamped too.
    Seconds(((run.0 as f64 * factor).ceil() as i64).clamp(1, LONGEST))
}

fn settle_overruns(jobs: &mut Vec<Job>, overruns: Overrun) -> usize {
    let count = jobs.iter().filter(|job| job.run > job.request).count();
    match overruns {
        Overrun::Kill => jobs.iter_mut().for_each(|job| job.run = job.run.min(job.request)),
        Overrun::Extend => {}
        Overrun::Drop => jobs.retain(|job| job.run <= job.request),
    }
    count
}

impl FromStr for Estimates {
    type Err = EstimatesError;

    fn from_str(text: &str) -> Result<Estimates, EstimatesError> {
        match (text, text.strip_prefix("factor:")) {
            ("requested", _) => Ok(Estimates::Requested),
            ("actual", _) => Ok(Estimates::Actual),
            (_, Some(number)) => {
                let bad = || EstimatesError::BadFactor(number.to_owned());
                let factor = number.parse().map_err(|_| bad())?;
                check_factor(factor).map(|()| Estimates::Factor(factor)).map_err(|_| bad())
            }
            _ => Err(EstimatesError::UnknownName(text.to_owned())),
        }
    }
}

impl fmt::Display for Estimates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimates::Requested => f.write_str("requested"),
            Estimates::Actual => f.write_str("actual"),
            Estimates::Factor(factor) => write!(f, "factor:{factor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Seconds;

    fn jobs(submits: &[i64]) -> Vec<Job> {
        let job = |submit: &i64| Job {
            number: 1,
            submit: Time(*submit),
            run: Seconds(10),
            request: Seconds(20),
            processors: Capacity(4),
            user: 0,
        };
        submits.iter().map(job).collect()
    }

    fn submits(jobs: &[Job]) -> Vec<i64> {
        jobs.iter().map(|job| job.submit.0).collect()
    }

    #[test]
    fn load_is_work_over_machine_and_span() {
        assert_eq!(offered_load(&jobs(&[0, 50, 100]), Capacity(8)), Some(0.15));
        assert_eq!(offered_load(&jobs(&[5, 5]), Capacity(8)), None);
        assert_eq!(offered_load(&[], Capacity(8)), None);
    }

    #[test]
    fn gaps_are_divided_and_the_first_submission_stays() {
        let mut scaled = jobs(&[100, 110, 110, 125, 200]);
        scale_load(&mut scaled, 2.0).unwrap();
        assert_eq!(submits(&scaled), [100, 105, 105, 113, 150]);
        scale_load(&mut scaled, 0.5).unwrap();
        assert_eq!(submits(&scaled), [100, 110, 110, 126, 200]);
    }

    #[test]
    fn impossible_factors_are_refused_and_change_nothing() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            let mut same = jobs(&[0, 10]);
            assert!(scale_load(&mut same, factor).is_err(), "{factor}");
            assert_eq!(submits(&same), [0, 10]);
        }
        assert!(scale_load(&mut [], 2.0).is_ok());
    }

    #[test]
    fn a_load_can_be_aimed_at() {
        let mut scaled = jobs(&[0, 500, 1000]);
        scale_to_load(&mut scaled, Capacity(8), 0.03).unwrap();
        assert_eq!(submits(&scaled), [0, 250, 500]);
        assert_eq!(scale_to_load(&mut jobs(&[5]), Capacity(8), 0.5), Err(ScalingError::NoSpan));
    }
}

#[cfg(test)]
mod estimates_tests {
    use super::*;
    use bookahead_plan::{Capacity, Time};

    fn jobs(times: &[(i64, i64)]) -> Vec<Job> {
        let job = |(run, request): &(i64, i64)| Job {
            number: 1,
            submit: Time(0),
            run: Seconds(*run),
            request: Seconds(*request),
            processors: Capacity(1),
            user: 0,
        };
        times.iter().map(job).collect()
    }

    #[track_caller]
    fn check(estimates: Estimates, overruns: Overrun, expected: &[(i64, i64)], overrun: usize) {
        let mut jobs = jobs(&[(1, 100), (10, 100), (15, 100)]);
        assert_eq!(estimates.apply(&mut jobs, overruns), Ok(overrun));
        let times: Vec<_> = jobs.iter().map(|job| (job.run.0, job.request.0)).collect();
        assert_eq!(times, expected);
    }

    #[test]
    fn estimates_are_requested_actual_or_a_multiple() {
        check(Estimates::Requested, Overrun::Kill, &[(1, 100), (10, 100), (15, 100)], 0);
        check(Estimates::Actual, Overrun::Kill, &[(1, 1), (10, 10), (15, 15)], 0);
        check(Estimates::Factor(2.5), Overrun::Kill, &[(1, 3), (10, 25), (15, 38)], 0);
        check(Estimates::Factor(1e300), Overrun::Kill, &[(1, LONGEST), (10, LONGEST), (15, LONGEST)], 0);
    }

    #[test]
    fn estimates_below_the_run_time_are_overruns() {
        check(Estimates::Factor(0.5), Overrun::Kill, &[(1, 1), (5, 5), (8, 8)], 2);
        check(Estimates::Factor(0.5), Overrun::Extend, &[(1, 1), (10, 5), (15, 8)], 2);
        check(Estimates::Factor(0.5), Overrun::Drop, &[(1, 1)], 2);
    }

    #[test]
    fn a_name_gives_the_estimates_and_back() {
        for text in ["requested", "actual", "factor:2.5", "factor:1"] {
            assert_eq!(text.parse::<Estimates>().unwrap().to_string(), text);
        }
        for text in ["", "exact", "factor", "factor:", "factor:0", "factor:-1", "factor:nan", "factor:inf"] {
            assert!(text.parse::<Estimates>().is_err(), "{text}");
        }
    }

    #[test]
    fn impossible_factors_are_refused_when_applied() {
        assert!(Estimates::Factor(f64::NAN).apply(&mut jobs(&[(1, 1)]), Overrun::Kill).is_err());
    }
}
