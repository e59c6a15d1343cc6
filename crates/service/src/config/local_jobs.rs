//! Jobs of local users at a site whose jobs are only pretended: those of a log, once or again and again, or a stream that is
//! drawn and never ends. They begin when the site starts, each time anew; nothing of them is remembered.

use super::error::Wrong;
use super::length::Length;
use bookahead_lrms::builtin::sources::{LocalJob, Mix, Nothing, Repeated, Source, Steady};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_workload::{Job, LoadError, LoadOptions, Trace};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Nobody waits for a machine that is asked for more than twice of what it has.
const HIGHEST_LOAD: f64 = 2.0;
/// What drawn jobs ask for, if it is not said.
const USUAL_ESTIMATES: [Length; 2] = [Length::of_seconds(600), Length::of_seconds(4 * 3_600)];

/// Jobs of local users.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalJobs {
    /// A log in Standard Workload Format, from the folder of the configuration.
    pub swf: Option<PathBuf>,
    /// Only jobs that were submitted so long after its first one, or later.
    pub from: Option<Length>,
    /// Only so many of these.
    pub first: Option<usize>,
    /// Whether they come again when all have come; they do, unless this says no.
    pub repeat: Option<bool>,
    /// Drawn: how much of the resource they use in the long run; 0.7 is seven tenths.
    pub load: Option<f64>,
    /// The smallest and the largest size; those in between double.
    pub size: Option<[u32; 2]>,
    /// The shortest and the longest time that they ask for; those in between double. They run for half of it on average.
    pub estimate: Option<[Length; 2]>,
    /// Chance.
    pub seed: Option<u64>,
    /// The site begins as if they had come for so long already.
    pub warm_up: Length,
}

impl LocalJobs {
    /// Says what makes no sense.
    pub fn check(&self, capacity: u32) -> Result<(), Wrong> {
        let of_log = self.from.is_some() || self.first.is_some() || self.repeat.is_some();
        let drawn = self.size.is_some() || self.estimate.is_some() || self.seed.is_some();
        match (&self.swf, self.load) {
            (Some(_), None) if drawn => {
                Err(Wrong::new("swf", "jobs of a log are as they are; leave out size, estimate and seed"))
            }
            (None, Some(_)) if of_log => {
                Err(Wrong::new("load", "from, first and repeat are for logs; leave them out, or give swf"))
            }
            (Some(_), None) => Ok(()),
            (None, Some(load)) => self.check_drawn(load, capacity),
            _ => Err(Wrong::all("jobs are either those of a log (swf = \"log.swf\") or drawn (load = 0.7)")),
        }
    }

    fn check_drawn(&self, load: f64, capacity: u32) -> Result<(), Wrong> {
        if !(load > 0.0 && load <= HIGHEST_LOAD) {
            let why =
                format!("{load} is no load; give more than 0 and at most {HIGHEST_LOAD}, or leave out jobs");
            return Err(Wrong::new("load", why));
        }
        if let Some([low, high]) = self.size
            && !(1..=high.min(capacity)).contains(&low)
        {
            let why = format!(
                "give the smallest and the largest size, from 1 to {capacity}: size = [1, {capacity}]"
            );
            return Err(Wrong::new("size", why));
        }
        match self.estimate {
            Some([low, high]) if low > high || low.seconds() < Seconds(1) => {
                let why = "give the shortest and the longest time: estimate = [\"10m\", \"4h\"]";
                Err(Wrong::new("estimate", why))
            }
            _ => Ok(()),
        }
    }

    /// The jobs, for a resource of this capacity, from an instant on. Reads the log, if they are those of one.
    pub fn source(&self, capacity: u32, start: Time, base: &Path) -> Result<Box<dyn Source>, Wrong> {
        self.check(capacity)?;
        match (&self.swf, self.load) {
            (Some(path), _) => {
                let jobs = jobs_of_log(&base.join(path), self.from, self.first, Capacity(capacity));
                let jobs = jobs.map_err(|why| Wrong::new("swf", why.to_string()))?;
                Ok(self.of_log(&jobs, start))
            }
            (None, Some(load)) => Ok(Box::new(Steady::new(&self.mix(load, capacity), start, self.seed()))),
            (None, None) => Ok(Box::new(Nothing)),
        }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    fn mix(&self, load: f64, capacity: u32) -> Mix {
        let [smallest, largest] = self.size.unwrap_or([1, capacity.div_ceil(2)]);
        let [shortest, longest] = self.estimate.unwrap_or(USUAL_ESTIMATES).map(|length| length.seconds().0);
        let widths = doubling(smallest.into(), largest.min(capacity).into());
        Mix {
            capacity: Capacity(capacity),
            load: (load * 100.0).round() as u32,
            widths: widths.filter_map(|width| u32::try_from(width).ok()).map(Capacity).collect(),
            estimates: doubling(shortest, longest).map(Seconds).collect(),
        }
    }

    fn of_log(&self, jobs: &[Job], start: Time) -> Box<dyn Source> {
        let local = |job: &Job| LocalJob {
            submit: job.submit,
            estimate: job.request,
            run: job.run,
            capacity: job.processors,
        };
        let jobs: Vec<LocalJob> = jobs.iter().map(local).collect();
        if self.repeat == Some(false) {
            let shift = start - Time(0);
            return Box::new(jobs.into_iter().map(move |job| LocalJob { submit: job.submit + shift, ..job }));
        }
        let length = jobs.last().map_or(Seconds::ZERO, |last| last.submit - Time(0));
        // The first job of the next round follows the last as jobs usually follow each other.
        let gap = length.0 / i64::try_from(jobs.len()).unwrap_or(i64::MAX).max(1);
        Box::new(Repeated::new(jobs, length + Seconds(gap.max(1)), start))
    }
}

/// From the smallest by doubling to the largest, which is one of them.
fn doubling(smallest: i64, largest: i64) -> impl Iterator<Item = i64> {
    let below = std::iter::successors(Some(smallest), |number| number.checked_mul(2));
    below.take_while(move |number| *number < largest).chain([largest])
}

/// The jobs of a log from a moment on, with which time begins.
pub fn jobs_of_log(
    path: &Path,
    from: Option<Length>,
    first: Option<usize>,
    capacity: Capacity,
) -> Result<Vec<Job>, LoadError> {
    let options = LoadOptions { processors: Some(capacity), ..LoadOptions::default() };
    let trace = Trace::load(path, &options)?;
    let earliest = trace.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    let begin = earliest + from.unwrap_or_default().seconds();
    let wanted = trace.jobs.into_iter().filter(|job| job.submit >= begin).take(first.unwrap_or(usize::MAX));
    Ok(wanted.map(|job| Job { submit: Time((job.submit - begin).0), ..job }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_from_the_smallest_to_the_largest() {
        assert_eq!(doubling(1, 6).collect::<Vec<_>>(), [1, 2, 4, 6]);
        assert_eq!(doubling(3, 3).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn drawn_jobs_come_without_end_from_the_start_on() {
        let jobs = LocalJobs { load: Some(0.7), seed: Some(3), ..LocalJobs::default() };
        let source = jobs.source(64, Time(1_000), Path::new("")).expect("jobs");
        let drawn: Vec<LocalJob> = source.take(1_000).collect();
        assert_eq!(drawn.len(), 1_000);
        assert!(drawn.iter().all(|job| job.submit >= Time(1_000) && job.capacity <= Capacity(32)));
    }

    #[test]
    fn a_log_comes_again_unless_that_is_not_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let line = |number: u32, submit: u32| {
            format!("{number} {submit} 0 60 4 -1 -1 4 120 -1 1 1 1 1 1 -1 -1 -1\n")
        };
        std::fs::write(folder.path().join("log.swf"), line(1, 100) + &line(2, 200)).expect("a log");
        let jobs = LocalJobs { swf: Some("log.swf".into()), ..LocalJobs::default() };
        let submits = |jobs: &LocalJobs| -> Vec<i64> {
            let source = jobs.source(8, Time(5_000), folder.path()).expect("jobs");
            source.take(3).map(|job| job.submit.0).collect()
        };
        assert_eq!(submits(&jobs), [5_000, 5_100, 5_150]);
        assert_eq!(submits(&LocalJobs { repeat: Some(false), ..jobs }), [5_000, 5_100]);
    }
}
