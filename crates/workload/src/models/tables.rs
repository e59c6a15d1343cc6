//! Tables of figures of a sample of jobs: sizes, requested times by size, accuracy of the requests, arrivals by hour,
//! work by quarter of a day, gaps, and series of like jobs. They hold shares and quantiles and no rows of the log, in a
//! file of a few kB. [`super::Calibrated`] draws jobs from them.

use super::setting::{ModelError, check_range};
use crate::trace::Job;
use crate::{LARGEST, LONGEST};
use bookahead_plan::{Capacity, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cumulative shares at which a table has its values. Denser at the ends: few long jobs hold most of the work.
pub const QUANTILES: [f64; 14] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Fewest jobs of a group with quantiles of its own; a smaller group joins its neighbour.
const FEWEST: usize = 8;
/// Length of a period, in seconds: a quarter of a day.
pub const PERIOD: i64 = 21_600;
pub(super) const HOUR: i64 = 3_600;

/// The figures of a sample of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// The sample, such as the name of the log and the number of jobs.
    pub sample: String,
    /// Size of the machine, in units.
    pub machine: u32,
    /// From the first submission to the last, in seconds.
    pub span: i64,
    /// Offered load of the sample.
    pub load: f64,
    /// Number of jobs by hour since the first submission.
    pub arrivals: Vec<u32>,
    /// Share of the submitted work by [`PERIOD`] since the first submission, as run, as requested, and as
    /// requested by wide jobs: those of more than half of the machine.
    pub work: Vec<[f64; 3]>,
    /// Quantiles of the gaps between submissions of one hour, in mean gaps of that hour.
    pub gaps: Vec<f64>,
    /// Quantiles of the number of jobs in a series: jobs of the same size and requested time in one period.
    pub series: Vec<f64>,
    /// How alike the run times of a series are: the share of the variance of their logarithms, among jobs of the same
    /// size and requested time, that is between series and not within them.
    pub alike: f64,
    /// Jobs by size, the smallest first.
    pub classes: Vec<Class>,
}

/// Jobs of similar size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Each size, in units, with its share of all jobs.
    pub sizes: Vec<(u32, f64)>,
    /// Each requested time, in seconds, with its share of the class. Users ask for few round values.
    pub requests: Vec<(i64, f64)>,
    /// Quantiles of the run times in seconds. Not drawn from: they check what is drawn.
    pub runs: Vec<i64>,
    /// Accuracy of the requests, by requested time.
    pub bands: Vec<Band>,
}

/// Jobs of a class with similar requested times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Longest requested time, in seconds.
    pub longest: i64,
    /// Quantiles of run time over requested time.
    pub accuracy: Vec<f64>,
}

impl Tables {
    /// The figures of the first 2,000 sound jobs of SDSC Blue Horizon in nodes of eight processors, measured from the
    /// log in the Parallel Workloads Archive.
    pub fn blue_horizon() -> Tables {
        serde_json::from_str(include_str!("blue_horizon.json")).expect("the file is read by a test")
    }

    /// The figures of `jobs`, which must be in order of submission; `None` without two submission times.
    pub fn of(sample: &str, jobs: &[Job], machine: Capacity) -> Option<Tables> {
        let (first, last) = (jobs.first()?.submit, jobs.last()?.submit);
        let since = |job: &Job| (job.submit - first).0;
        let span = (last - first).0;
        let load = crate::trace::offered_load(jobs, machine)?;
        let mut arrivals = vec![0; (span / HOUR) as usize + 1];
        let mut work = vec![[0.0; 3]; (span / PERIOD) as usize + 1];
        let areas = |job: &Job| works(job.processors.0, job.run.0, job.request.0, machine.0);
        let all = total(jobs.iter().map(areas));
        for job in jobs {
            arrivals[(since(job) / HOUR) as usize] += 1;
            let sums = &mut work[(since(job) / PERIOD) as usize];
            for ((sum, area), all) in sums.iter_mut().zip(areas(job)).zip(all) {
                *sum += if all > 0.0 { area / all } else { 0.0 };
            }
        }
        let mut tables = Tables {
            sample: sample.to_owned(),
            machine: machine.0,
            span,
            load: rounded(load),
            arrivals,
            work: work.into_iter().map(|sums| sums.map(rounded)).collect(),
            gaps: Vec::new(),
            series: Vec::new(),
            alike: 0.0,
            classes: classes(jobs),
        };
        tables.measure_series(jobs);
        let hour = |job: &Job| since(job) / HOUR;
        let same_hour = jobs.windows(2).filter(|pair| hour(&pair[0]) == hour(&pair[1]));
        let gap = |pair: &[Job]| (pair[1].submit - pair[0].submit).0 as f64;
        let rate = |pair: &[Job]| f64::from(tables.arrivals[hour(&pair[0]) as usize]) / HOUR as f64;
        let gaps = same_hour.map(|pair| gap(pair) * rate(pair)).collect();
        tables.gaps = quantiles(gaps).into_iter().map(rounded).collect();
        Some(tables)
    }

    fn measure_series(&mut self, jobs: &[Job]) {
        let first = jobs.first().map_or(Time(0), |job| job.submit);
        let kind = |job: &Job| (job.processors, job.request);
        let (series, within) = grouped(jobs, |job| (kind(job), (job.submit - first).0 / PERIOD));
        let (_, all) = grouped(jobs, kind);
        self.series = quantiles(series);
        self.alike = if all > 0.0 { rounded(1.0 - within / all) } else { 0.0 };
    }

    /// The tables as text, with a line for each class of sizes and each group of requested times.
    pub fn to_json(&self) -> String {
        // Cannot fail: the tables have no maps and no keys other than names.
        serde_json::to_string(self).unwrap_or_default().replace("{\"", "\n{\"").trim_start().to_owned() + "\n"
    }

    /// Number of jobs of the sample.
    pub(super) fn jobs(&self) -> u64 {
        self.arrivals.iter().map(|&jobs| u64::from(jobs)).sum()
    }

    /// Refuses tables from which nothing can be drawn.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        check_range(
            "a machine",
            f64::from(self.machine),
            1.0..=LARGEST as f64,
            "1 to 2147483647 processors",
        )?;
        check_range("a span", self.span as f64, 1.0..=LONGEST as f64, "1 to 2^40 s")?;
        for (length, count) in [(HOUR, self.arrivals.len()), (PERIOD, self.work.len())] {
            let whole = (self.span / length + 1) as f64;
            check_range("periods", count as f64, whole..=whole, "one entry for each period of the span")?;
        }
        let jobs = self.arrivals.iter().map(|&jobs| f64::from(jobs)).sum();
        check_range("a number of jobs", jobs, 1.0..=LARGEST as f64, "at least one")?;
        check_range("a likeness of run times", self.alike, 0.0..=1.0, "a share from 0 to 1")?;
        check_range(
            "quantiles of series",
            self.series.len() as f64,
            LISTED,
            "one for each of the quantiles",
        )?;
        check_range("quantiles of gaps", self.gaps.len() as f64, LISTED, "one for each of the quantiles")?;
        check_range("classes of sizes", self.classes.len() as f64, 1.0..=64.0, "1 to 64")?;
        self.classes.iter().try_for_each(|class| class.check(self.machine))
    }
}

const LISTED: std::ops::RangeInclusive<f64> = QUANTILES.len() as f64..=QUANTILES.len() as f64;

impl Class {
    /// Share of all jobs.
    pub fn share(&self) -> f64 {
        self.sizes.iter().map(|(_, share)| share).sum()
    }

    fn of(jobs: &[Job], all: usize) -> Class {
        let sizes = shares(jobs.iter().map(|job| job.processors.0), all);
        let requests = shares(jobs.iter().map(|job| job.request.0), jobs.len());
        let runs = quantiles(jobs.iter().map(|job| job.run.0 as f64).collect());
        let band = |band: &[Job]| Band {
            longest: band.iter().map(|job| job.request.0).max().unwrap_or(LONGEST),
            accuracy: quantiles(band.iter().map(accuracy).collect()).into_iter().map(rounded).collect(),
        };
        let mut by_request = jobs.to_vec();
        by_request.sort_by_key(|job| job.request);
        let bands = groups(&by_request, |job| job.request.0).into_iter().map(band).collect();
        Class { sizes, requests, runs: runs.into_iter().map(|run| run.round() as i64).collect(), bands }
    }

    fn check(&self, machine: u32) -> Result<(), ModelError> {
        for &(size, share) in &self.sizes {
            check_range("a size", f64::from(size), 1.0..=f64::from(machine), "1 to the size of the machine")?;
            check_range("a share of a size", share, 0.0..=1.0, "a share from 0 to 1")?;
        }
        check_range("sizes", self.sizes.len() as f64, 1.0..=1e6, "at least one")?;
        check_range("requested times", self.requests.len() as f64, 1.0..=1e6, "at least one")?;
        for &(request, share) in &self.requests {
            check_range("a requested time", request as f64, 1.0..=LONGEST as f64, "1 to 2^40 s")?;
            check_range("a share of a requested time", share, 0.0..=1.0, "a share from 0 to 1")?;
        }
        check_range("groups of requested times", self.bands.len() as f64, 1.0..=64.0, "1 to 64")?;
        for band in &self.bands {
            check_range(
                "quantiles of accuracy",
                band.accuracy.len() as f64,
                LISTED,
                "one for each quantile",
            )?;
            for &accuracy in &band.accuracy {
                check_range("an accuracy", accuracy, 1e-9..=1.0, "a share above 0")?;
            }
        }
        Ok(())
    }
}

/// Work of a job: as run, as requested, and as requested if it is wide.
pub(super) fn works(size: u32, run: i64, request: i64, machine: u32) -> [f64; 3] {
    let [run, request] = [run, request].map(|time| f64::from(size) * time as f64);
    [run, request, if size > machine / 2 { request } else { 0.0 }]
}

pub(super) fn total(works: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    works.fold([0.0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f])
}

/// Each value with its share of `all`, in order.
fn shares<T: Ord + Copy>(values: impl Iterator<Item = T>, all: usize) -> Vec<(T, f64)> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let share = |group: &[T]| (group[0], rounded(group.len() as f64 / all as f64));
    values.chunk_by(|a, b| a == b).map(share).collect()
}

fn accuracy(job: &Job) -> f64 {
    job.run.0 as f64 / job.request.0.max(1) as f64
}

fn classes(jobs: &[Job]) -> Vec<Class> {
    let mut by_size = jobs.to_vec();
    by_size.sort_by_key(|job| job.processors);
    // Sizes of 1, 2, 3 to 4, 5 to 8 and so on.
    let class_of =
        |job: &Job| (job.processors.0.max(1) - 1).checked_ilog2().map_or(0, |power| i64::from(power) + 1);
    groups(&by_size, class_of).into_iter().map(|class| Class::of(class, jobs.len())).collect()
}

/// Consecutive jobs of the same group. A group of fewer than [`FEWEST`] jobs joins the one after it, and the last the
/// one before it.
fn groups(sorted: &[Job], group_of: impl Fn(&Job) -> i64) -> Vec<&[Job]> {
    let mut ends: Vec<usize> = Vec::new();
    let mut end = 0;
    for group in sorted.chunk_by(|a, b| group_of(a) == group_of(b)) {
        end += group.len();
        if end - ends.last().copied().unwrap_or(0) >= FEWEST {
            ends.push(end);
        }
    }
    match ends.last_mut() {
        Some(last) => *last = sorted.len(),
        None => ends.push(sorted.len()),
    }
    let mut begin = 0;
    ends.into_iter().map(|end| &sorted[std::mem::replace(&mut begin, end)..end]).collect()
}

/// The values at [`QUANTILES`], interpolated between neighbours.
fn quantiles(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |share: &f64| {
        let place = share * last as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        values[below] + part * (values[(below + 1).min(last)] - values[below])
    };
    if values.is_empty() { vec![0.0; QUANTILES.len()] } else { QUANTILES.iter().map(at).collect() }
}

/// Three significant digits: more would describe single jobs.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = libm::pow(10.0, 2.0 - libm::floor(libm::log10(value.abs())));
    (value * unit).round() / unit
}

/// Sizes of the groups of jobs with equal keys, and the sum of squared deviations of their logarithms of run times.
fn grouped<K: Ord>(jobs: &[Job], key: impl Fn(&Job) -> K) -> (Vec<f64>, f64) {
    let mut groups: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for job in jobs {
        groups.entry(key(job)).or_default().push(libm::log(job.run.0.max(1) as f64));
    }
    let squares = |runs: &Vec<f64>| {
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        runs.iter().map(|run| (run - mean) * (run - mean)).sum::<f64>()
    };
    (groups.values().map(|runs| runs.len() as f64).collect(), groups.values().map(squares).sum())
}
