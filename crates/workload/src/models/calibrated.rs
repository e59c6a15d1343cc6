//! Jobs drawn from the figures of a real sample: see [`Tables`]. Each figure is drawn in strata: the values of N jobs
//! come one from each of N equal parts of the distribution, in random order. So a short workload has the quantiles and
//! the load of its sample too, which matters if a few long jobs hold most of the work.

use super::setting::{Drawn, ModelError, Setting};
use super::tables::{Band, Class, HOUR, PERIOD, QUANTILES, Tables, total, works};
use crate::streams::Stream;
use crate::trace::Job;
use bookahead_plan::Capacity;
use std::collections::BTreeMap;

/// The model of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The figures of the sample.
    pub tables: Tables,
    /// Number of jobs. More than the sample has repeat its calendar.
    pub jobs: usize,
    /// Offered load, reached by scaling the gaps between jobs; by default that of the sample.
    pub load: Option<f64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Size and times of a job.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    size: u32,
    request: i64,
    run: i64,
}

impl Calibrated {
    /// Draws the jobs, in order of submission, for the machine of the sample.
    pub fn generate(&self) -> Result<Vec<Job>, ModelError> {
        let Calibrated { ref tables, jobs, load, seed } = *self;
        let setting = Setting { jobs, processors: Capacity(tables.machine), load, seed };
        setting.check()?;
        tables.check()?;
        let whole = usize::try_from(tables.jobs()).unwrap_or(usize::MAX);
        let round = |number| Round { tables, jobs: whole.min(jobs - number * whole), seed, number };
        let mut drawn = (0..jobs.div_ceil(whole)).map(round).flat_map(|round| round.draw());
        setting.draw(|| {
            // There is one item for each job.
            let (submit, kind) = drawn.next().unwrap_or_default();
            Drawn { submit, processors: kind.size, run: kind.run, request: kind.request }
        })
    }
}

/// One pass through the calendar of the sample. Each has the quantiles and the load of the sample, and the time to draw
/// many jobs grows with their number only.
struct Round<'a> {
    tables: &'a Tables,
    jobs: usize,
    seed: u64,
    number: usize,
}

impl Round<'_> {
    /// The second of submission and the kind of each job, in order of submission.
    fn draw(&self) -> Vec<(f64, Kind)> {
        let submits = self.submits();
        let mut periods = self.periods(self.series(self.kinds()), &submits);
        let mut order = self.stream("order");
        periods.iter_mut().for_each(|kinds| shuffle(kinds, &mut order));
        let begin = self.number as f64 * self.tables.span as f64;
        submits.into_iter().map(|submit| begin + submit).zip(periods.into_iter().flatten()).collect()
    }

    fn stream(&self, purpose: &str) -> Stream {
        Stream::new(self.seed, &format!("calibrated/{}/{purpose}", self.number))
    }

    /// Seconds of all submissions, in order.
    fn submits(&self) -> Vec<f64> {
        let Tables { span, arrivals, .. } = self.tables;
        let mut stream = self.stream("gaps");
        let mut submits: Vec<f64> = Vec::with_capacity(self.jobs);
        for (hour, &jobs) in (0..).zip(arrivals) {
            let length = (span - hour * HOUR).clamp(1, HOUR);
            // Above zero, so that an hour can be divided if all gaps of the sample are zero.
            let gap = |_| at(&self.tables.gaps, stream.unit()).max(1e-6);
            let gaps: Vec<f64> = (0..=jobs).map(gap).collect();
            let scale = length as f64 / gaps.iter().sum::<f64>();
            let mut moment = (hour * HOUR) as f64;
            for gap in &gaps[..jobs as usize] {
                moment += gap * scale;
                submits.push(moment);
                if submits.len() == self.jobs {
                    return submits;
                }
            }
        }
        submits
    }

    /// Sizes and times of all jobs, by class.
    fn kinds(&self) -> Vec<Kind> {
        let [mut classes, mut sizes, mut requests, mut runs] =
            ["classes", "sizes", "requests", "runs"].map(|name| self.stream(name));
        let shares: Vec<f64> = self.tables.classes.iter().map(Class::share).collect();
        let mut counts = vec![0; shares.len()];
        for share in strata(self.jobs, &mut classes) {
            counts[chosen(&shares, share)] += 1;
        }
        let mut kinds = Vec::with_capacity(self.jobs);
        for (class, count) in self.tables.classes.iter().zip(counts) {
            let sizes = values(&class.sizes, count, &mut sizes);
            let requests = values(&class.requests, count, &mut requests);
            let runs = class.runs_of(&requests, &mut runs);
            let of_class = sizes.into_iter().zip(requests).zip(runs);
            kinds.extend(of_class.map(|((size, request), run)| Kind { size, request, run }));
        }
        kinds
    }

    /// Jobs of the same size and requested time in series, whose run times are more alike than those of others.
    fn series(&self, kinds: Vec<Kind>) -> Vec<Vec<Kind>> {
        let mut groups: BTreeMap<(u32, i64), Vec<Kind>> = BTreeMap::new();
        for kind in kinds {
            groups.entry((kind.size, kind.request)).or_default().push(kind);
        }
        let (mut keys, mut lengths) = (self.stream("alike"), self.stream("lengths"));
        let (alike, other) = (libm::sqrt(self.tables.alike), libm::sqrt(1.0 - self.tables.alike));
        let mut series = Vec::new();
        for mut group in groups.into_values() {
            group.sort_by_key(|kind| kind.run);
            let count = group.len() as f64;
            // Neighbours by a key of which the run time determines only a part.
            let mut keyed: Vec<(f64, Kind)> = (0..)
                .zip(group)
                .map(|(rank, kind)| (alike * f64::from(rank) / count + other * keys.unit(), kind))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut left = &keyed[..];
            while !left.is_empty() {
                let length = at(&self.tables.series, lengths.unit()).round() as usize;
                let (taken, rest) = left.split_at(length.clamp(1, left.len()));
                series.push(taken.iter().map(|(_, kind)| *kind).collect());
                left = rest;
            }
        }
        series
    }

    /// Distributes series over the periods of the submissions, the one with the most work first, each to the period
    /// that lacks most of what it has.
    fn periods(&self, series: Vec<Vec<Kind>>, submits: &[f64]) -> Vec<Vec<Kind>> {
        let mut periods = self.lacks(submits);
        let works = |kind: &Kind| works(kind.size, kind.run, kind.request, self.tables.machine);
        let all = total(series.iter().flatten().map(works));
        let share = |jobs: &[Kind]| {
            let sum = total(jobs.iter().map(works));
            std::array::from_fn(|at| if all[at] > 0.0 { sum[at] / all[at] } else { 0.0 })
        };
        let mut series: Vec<([f64; 3], Vec<Kind>)> =
            series.into_iter().map(|jobs| (share(&jobs), jobs)).collect();
        series.sort_by(|(a, _), (b, _)| b.iter().sum::<f64>().total_cmp(&a.iter().sum()));
        let (mut rest, mut places) = ([1.0; 3], submits.len());
        for (_, jobs) in series {
            let mut left = &jobs[..];
            while !left.is_empty() {
                let mean = rest.map(|share| share / places as f64);
                let more = beyond(share(left), left.len(), mean);
                let open = periods.iter_mut().filter(|period| period.open() > 0);
                let best = open.max_by(|a, b| a.gain(more, mean).total_cmp(&b.gain(more, mean)));
                // There are as many places as jobs.
                let Some(best) = best else { break };
                let (taken, others) = left.split_at(left.len().min(best.open()));
                let had = share(taken);
                best.lacks = std::array::from_fn(|at| best.lacks[at] - had[at]);
                best.kinds.extend_from_slice(taken);
                rest = std::array::from_fn(|at| rest[at] - had[at]);
                places -= taken.len();
                left = others;
            }
        }
        periods.into_iter().map(|period| period.kinds).collect()
    }

    fn lacks(&self, submits: &[f64]) -> Vec<Period> {
        let scale = self.tables.jobs() as f64 / self.jobs as f64;
        let lacks = |work: &[f64; 3]| work.map(|share| share * scale);
        let empty = |work| Period { places: 0, lacks: lacks(work), kinds: Vec::new() };
        let mut periods: Vec<Period> = self.tables.work.iter().map(empty).collect();
        for submit in submits {
            // The last submission is rounded to the end of the span at most, which is in the last period.
            let number = ((submit / PERIOD as f64) as usize).min(periods.len() - 1);
            periods[number].places += 1;
        }
        periods
    }
}

/// A part of the calendar that is filled with jobs.
struct Period {
    /// Number of submissions.
    places: usize,
    /// Work as run, as requested, and as requested by wide jobs, that is missing, as shares of all.
    lacks: [f64; 3],
    kinds: Vec<Kind>,
}

impl Period {
    /// Number of submissions without a job.
    fn open(&self) -> usize {
        self.places - self.kinds.len()
    }

    /// How much of what it lacks a series would fill that has so much `more` than as many average jobs. What the other
    /// open places will get on average is not lacking: otherwise periods of few jobs would end with too little work.
    fn gain(&self, more: [f64; 3], mean: [f64; 3]) -> f64 {
        let lacks = beyond(self.lacks, self.open(), mean);
        lacks.iter().zip(more).map(|(lack, more)| lack * more).sum()
    }
}

/// Shares of the work less those of `jobs` average jobs.
fn beyond(shares: [f64; 3], jobs: usize, mean: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|at| shares[at] - jobs as f64 * mean[at])
}

impl Class {
    /// A run time for each requested time.
    fn runs_of(&self, requests: &[i64], stream: &mut Stream) -> Vec<i64> {
        let last = self.bands.len() - 1;
        let band_of =
            |request: i64| self.bands.iter().position(|band| request <= band.longest).unwrap_or(last);
        let mut runs = vec![0; requests.len()];
        for (number, Band { accuracy, .. }) in self.bands.iter().enumerate() {
            let here: Vec<usize> =
                (0..requests.len()).filter(|&at| band_of(requests[at]) == number).collect();
            let shares = strata(here.len(), stream);
            for (place, share) in here.into_iter().zip(shares) {
                let run = requests[place] as f64 * at(accuracy, share);
                runs[place] = (run.round() as i64).clamp(1, requests[place]);
            }
        }
        runs
    }
}

/// One number from each of `count` equal parts of [0, 1), in random order.
fn strata(count: usize, stream: &mut Stream) -> Vec<f64> {
    let mut shares: Vec<f64> = (0..count).map(|part| (part as f64 + stream.unit()) / count as f64).collect();
    shuffle(&mut shares, stream);
    shares
}

/// `count` of the values in a table with their shares, in random order.
fn values<T: Copy>(table: &[(T, f64)], count: usize, stream: &mut Stream) -> Vec<T> {
    let shares: Vec<f64> = table.iter().map(|(_, share)| *share).collect();
    strata(count, stream).into_iter().map(|share| table[chosen(&shares, share)].0).collect()
}

fn shuffle<T>(values: &mut [T], stream: &mut Stream) {
    for last in (1..values.len()).rev() {
        let other = usize::try_from(stream.whole(0, last as i64)).unwrap_or(0);
        values.swap(last, other);
    }
}

/// The place in a list of shares at which `share` of their sum is reached.
fn chosen(shares: &[f64], share: f64) -> usize {
    let mut left = share * shares.iter().sum::<f64>();
    let found = shares.iter().position(|part| {
        left -= part;
        left < 0.0
    });
    found.unwrap_or(shares.len() - 1)
}

/// The value at `share` of a table with one value per entry of [`QUANTILES`].
fn at(table: &[f64], share: f64) -> f64 {
    let upper = QUANTILES.partition_point(|quantile| *quantile <= share).clamp(1, QUANTILES.len() - 1);
    let (low, high) = (QUANTILES[upper - 1], QUANTILES[upper]);
    let part = (share - low) / (high - low);
    let (below, above) = (table[upper - 1], table[upper]);
    // All values span several orders of magnitude, so they are interpolated in the logarithm.
    if below > 0.0 { below * libm::pow(above / below, part) } else { part * above }
}
