//! What all models have in common: the number of jobs, the machine, the load and the seed; how drawn jobs
//! are put together, brought to the load that is wanted, and made into a log. Nothing is drawn here.

use std::ops::RangeInclusive;

use bookahead_plan::{Capacity, Seconds, Time};
use thiserror::Error;

use crate::swf::{Header, Record};
use crate::trace::{Job, ScalingError, scale_to_load};
use crate::{LARGEST, LONGEST};

/// No model draws more jobs than this: they would fill 40 GB.
const MOST_JOBS: usize = 1_000_000_000;

/// Room is made in advance for so many; more come as they are drawn.
const MOST_ROOM: usize = 1 << 20;

/// What all models have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// How many jobs are drawn.
    pub jobs: usize,
    /// The size of the machine.
    pub processors: Capacity,
    /// The offered load that the gaps between jobs are scaled to; by default what the model gives.
    pub load: Option<f64>,
    /// What chance depends on.
    pub seed: u64,
}

impl Default for Setting {
    /// Ten thousand jobs on 256 processors.
    fn default() -> Setting {
        Setting { jobs: 10_000, processors: Capacity(256), load: None, seed: 1 }
    }
}

/// Why a model cannot draw.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ModelError {
    /// A parameter is out of its range.
    #[error("{what} of {value} cannot be drawn with; give {wanted}")]
    BadParameter {
        /// The parameter.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What it should be.
        wanted: &'static str,
    },
    /// The lower end of a range is above the upper.
    #[error(
        "{what} from {low} to {high} cannot be drawn; give the lower end first, within {least} to {most}"
    )]
    BadRange {
        /// The range.
        what: &'static str,
        /// Its lower end.
        low: i64,
        /// Its upper end.
        high: i64,
        /// The least that can be.
        least: i64,
        /// The most that can be.
        most: i64,
    },
    /// The jobs would be submitted over more time than can be counted.
    #[error("the jobs would be submitted over more than 2^40 s; give fewer jobs or shorter gaps")]
    TooLong,
    /// The load cannot be reached.
    #[error(transparent)]
    Load(#[from] ScalingError),
}

/// What a model draws for one job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    /// Seconds after the start.
    pub(super) submit: f64,
    pub(super) processors: u32,
    pub(super) run: i64,
    pub(super) request: i64,
}

impl Setting {
    pub(super) fn check(&self) -> Result<(), ModelError> {
        check_range("numbers of jobs", self.jobs as f64, 1.0..=MOST_JOBS as f64, "1 to 1000000000")?;
        let processors = f64::from(self.processors.0);
        check_range("a machine", processors, 1.0..=LARGEST as f64, "1 to 2147483647 processors")?;
        check_range("a load", self.load.unwrap_or(1.0), 1e-6..=1e6, "a number above 0, such as 0.7")
    }

    /// Draws all jobs, numbered from 1, and scales them to the load.
    pub(super) fn draw(&self, mut one: impl FnMut() -> Drawn) -> Result<Vec<Job>, ModelError> {
        let mut jobs = Vec::with_capacity(self.jobs.min(MOST_ROOM));
        for number in (1..).take(self.jobs) {
            jobs.push(job(number, &one())?);
        }
        if let Some(load) = self.load {
            scale_to_load(&mut jobs, self.processors, load)?;
        }
        Ok(jobs)
    }
}

fn job(number: i64, drawn: &Drawn) -> Result<Job, ModelError> {
    if !(0.0..=LONGEST as f64).contains(&drawn.submit) {
        return Err(ModelError::TooLong);
    }
    Ok(Job {
        number,
        submit: Time(drawn.submit as i64),
        run: Seconds(drawn.run.clamp(1, LONGEST)),
        request: Seconds(drawn.request.clamp(1, LONGEST)),
        processors: Capacity(drawn.processors.max(1)),
    })
}

/// Refuses a value outside its range, and what is not a number.
pub(super) fn check_range(
    what: &'static str,
    value: f64,
    range: RangeInclusive<f64>,
    wanted: &'static str,
) -> Result<(), ModelError> {
    if range.contains(&value) { Ok(()) } else { Err(ModelError::BadParameter { what, value, wanted }) }
}

/// Refuses a range that is empty or goes beyond `least` to `most`.
pub(super) fn check_ends(
    what: &'static str,
    (low, high): (i64, i64),
    least: i64,
    most: i64,
) -> Result<(), ModelError> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(ModelError::BadRange { what, low, high, least, most })
}

/// The jobs as lines of a log.
pub fn records(jobs: &[Job]) -> Vec<Record> {
    jobs.iter().map(|job| job.record(1)).collect()
}

/// A header for the jobs that `model` drew under `setting`.
pub fn header(model: &str, setting: &Setting) -> Header {
    let mut header = Header::new();
    header.push("Version", "2.2");
    header.push("Computer", format_args!("none, drawn from the {model} model"));
    header.push("Note", format_args!("seed {}", setting.seed));
    header.push("MaxJobs", setting.jobs);
    header.push("MaxRecords", setting.jobs);
    header.push("MaxNodes", setting.processors);
    header.push("MaxProcs", setting.processors);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused() {
        let setting = Setting::default();
        assert_eq!(setting.check(), Ok(()));
        assert!(Setting { jobs: 0, ..setting }.check().is_err());
        assert!(Setting { processors: Capacity(0), ..setting }.check().is_err());
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Setting { load: Some(load), ..setting }.check().is_err());
        }
    }

    #[test]
    fn the_header_tells_the_machine() {
        assert_eq!(header("test", &Setting::default()).processors(), Some(256));
    }

    #[test]
    fn an_endless_workload_is_an_error() {
        let drawn = Drawn { submit: 1e300, processors: 1, run: 1, request: 1 };
        assert_eq!(Setting::default().draw(|| drawn), Err(ModelError::TooLong));
    }
}
