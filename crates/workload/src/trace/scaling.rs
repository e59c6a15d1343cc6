//! How loaded a machine is, and how to change it: the gaps between submissions are stretched or squeezed,
//! the jobs stay as they are. The same jobs and factor give the same result on every machine.

use bookahead_plan::{Capacity, Time};
use thiserror::Error;

use super::job::Job;
use crate::LONGEST;

/// Why a load cannot be changed as asked.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ScalingError {
    /// The factor is no positive number.
    #[error("a load cannot be multiplied by {0}; give a number above 0")]
    BadFactor(f64),
    /// The last submission would come too late to be a time.
    #[error(
        "a load multiplied by {0} would spread the submissions over more than 2^40 s; give a larger factor"
    )]
    TooSparse(f64),
    /// The jobs have no load that could be multiplied.
    #[error("the load of jobs that are all submitted at one instant cannot be changed; give more jobs")]
    NoSpan,
}

/// The work that the jobs bring per second, as a share of the machine: the sum of processors times run time
/// over the machine times the time from the first submission to the last. `None` where that time is zero.
pub fn offered_load(jobs: &[Job], machine: Capacity) -> Option<f64> {
    let (first, last) = (jobs.first()?.submit, jobs.last()?.submit);
    let room = i128::from((last - first).0) * i128::from(machine.0);
    let work: i128 = jobs.iter().map(Job::area).sum();
    (room > 0).then(|| work as f64 / room as f64)
}

/// Multiplies the load by `factor`: all gaps between submissions are divided by it, to the nearest second,
/// and the first submission stays where it is. The jobs are in order of submission; they are untouched where
/// there is an error.
pub fn scale_load(jobs: &mut [Job], factor: f64) -> Result<(), ScalingError> {
    if !factor.is_finite() || factor <= 0.0 {
        return Err(ScalingError::BadFactor(factor));
    }
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(()) };
    let first = first.submit;
    if scaled(last.submit, first, factor) > LONGEST as f64 {
        return Err(ScalingError::TooSparse(factor));
    }
    for job in jobs {
        job.submit = Time(scaled(job.submit, first, factor) as i64);
    }
    Ok(())
}

fn scaled(submit: Time, first: Time, factor: f64) -> f64 {
    first.0 as f64 + ((submit - first).0 as f64 / factor).round()
}

/// Scales the gaps so that the offered load becomes `load`.
pub fn scale_to_load(jobs: &mut [Job], machine: Capacity, load: f64) -> Result<(), ScalingError> {
    match offered_load(jobs, machine) {
        Some(offered) => scale_load(jobs, load / offered),
        None => Err(ScalingError::NoSpan),
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
