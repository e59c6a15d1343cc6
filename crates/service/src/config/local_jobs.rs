//! Simulated local jobs at a site with the built-in scheduler: from a workload log, once or repeated, or drawn at
//! random without end. They start anew with each start of the site and are not stored.

use super::error::Wrong;
use bookahead_api::Length;
use bookahead_lrms::builtin::sources::{LocalJob, Mix, Nothing, Repeated, Source, Steady};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_workload::{Job, LoadError, LoadOptions, Trace};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Highest load of drawn jobs. Above 1 the queue grows without end; above 2 it is no realistic workload.
const HIGHEST_LOAD: f64 = 2.0;
/// Default run time estimates of drawn jobs.
const USUAL_ESTIMATES: [Length; 2] = [Length::of_seconds(600), Length::of_seconds(4 * 3_600)];

/// Simulated local jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalJobs {
    /// Log in Standard Workload Format, relative to the folder of the configuration.
    pub swf: Option<PathBuf>,
    /// Skip jobs submitted before this time after the first one.
    pub from: Option<Length>,
    /// Most jobs to use.
    pub first: Option<usize>,
    /// Whether to repeat the log. Default: true.
    pub repeat: Option<bool>,
    /// Drawn jobs: average utilization of the resource; 0.7 is 70 %.
    pub load: Option<f64>,
    /// Smallest and largest size. Sizes are powers of two times the smallest, and the largest.
    pub size: Option<[u32; 2]>,
    /// Shortest and longest estimate, likewise. Run times are half of the estimate on average.
    pub estimate: Option<[Length; 2]>,
    /// Seed of the random numbers. Default: 0.
    pub seed: Option<u64>,
    /// Simulate this much time before the site starts.
    pub warm_up: Length,
}

impl LocalJobs {
    /// Checks the fields against the capacity of the resource.
    pub fn check(&self, capacity: u32) -> Result<(), Wrong> {
        let of_log = self.from.is_some() || self.first.is_some() || self.repeat.is_some();
        let drawn = self.size.is_some() || self.estimate.is_some() || self.seed.is_some();
        match (&self.swf, self.load) {
            (Some(_), None) if drawn => Err(Wrong::new(
                "swf",
                "size, estimate and seed are for drawn jobs; leave out all three with swf",
            )),
            (None, Some(_)) if of_log => {
                Err(Wrong::new("load", "from, first and repeat are for logs; remove them, or set swf"))
            }
            (Some(_), None) => Ok(()),
            (None, Some(load)) => self.check_drawn(load, capacity),
            _ => Err(Wrong::all("jobs come either from a log (swf = \"log.swf\") or are drawn (load = 0.7)")),
        }
    }

    fn check_drawn(&self, load: f64, capacity: u32) -> Result<(), Wrong> {
        // In this form the test also refuses NaN, which TOML can express.
        if !(load > 0.0 && load <= HIGHEST_LOAD) {
            let why = format!("load must be above 0 and at most {HIGHEST_LOAD}, not {load}; or remove jobs");
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

    /// The jobs for a resource of this capacity, starting at an instant. Reads the log, if there is one.
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
        // Fixed and not drawn, so that a demonstration shows the same jobs after each restart.
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
        // The next round starts after one average gap, so that its first job does not coincide with the last one.
        let gap = length.0 / i64::try_from(jobs.len()).unwrap_or(i64::MAX).max(1);
        Box::new(Repeated::new(jobs, length + Seconds(gap.max(1)), start))
    }
}

/// Powers of two times the smallest, below the largest, and the largest itself.
fn doubling(smallest: i64, largest: i64) -> impl Iterator<Item = i64> {
    let below = std::iter::successors(Some(smallest), |number| number.checked_mul(2));
    // `<` and not `<=`: the largest would be listed twice, and drawn twice as often as the others.
    below.take_while(move |number| *number < largest).chain([largest])
}

/// Jobs of a log, shifted so that time starts at 0 with the first one selected.
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
