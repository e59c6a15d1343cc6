//! All runs of the experiment, their measures, and the results with confidence intervals. Runs are independent, so that
//! the number of threads does not change the results; measures are sums of integers, so that the order of addition does
//! not matter. All figures and claims read from here.

use super::case::{Case, Placed, run};
use super::model::{Resource, Stopped, Work};
use super::setup::{Choices, SITES, draw};
use crate::{Estimate, Progress, Scale, run_each};
use bookahead_plan::{Interval, Time};
use std::ops::AddAssign;

pub(super) const RESTARTABLE: Stopped = Stopped::Queue;
pub(super) const NON_RESTARTABLE: Stopped = Stopped::Return;
/// Shares of reservations, in percent.
pub(super) const SHARES: [u32; 3] = [0, 10, 20];

/// All variants. Without reservations, both kinds of jobs are the same.
pub(super) const CASES: [Case; 10] = [
    Case::advance(0, RESTARTABLE),
    Case::advance(10, RESTARTABLE),
    Case::advance(20, RESTARTABLE),
    Case::advance(10, NON_RESTARTABLE),
    Case::advance(20, NON_RESTARTABLE),
    Case::immediate(10),
    Case::immediate(20),
    Case::parallel(0),
    Case::parallel(10),
    Case::parallel(20),
];

/// The runs with one set of choices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Results {
    /// By case and then by seed: the measures of each resource.
    runs: Vec<Vec<Vec<Measures>>>,
}

/// Runs all cases for all seeds with each of the `sets`, in their order.
pub(super) fn run_sets(sets: &[Choices], scale: &Scale, progress: Progress<'_>) -> Vec<Results> {
    // `chunks` panics on a size of zero.
    let seeds = scale.seeds.max(1);
    let inputs: Vec<(usize, usize, u64)> = (0..sets.len())
        .flat_map(|set| (0..CASES.len()).map(move |case| (set, case)))
        .flat_map(|(set, case)| scale.each_seed().map(move |seed| (set, case, seed)))
        .collect();
    let ran = run_each(&inputs, scale, progress, |&(set, case, seed)| {
        run(CASES[case], &sets[set], &draw(&sets[set], seed))
    });
    let by_set = ran.chunks(CASES.len() * seeds);
    by_set.map(|set| Results { runs: set.chunks(seeds).map(<[_]>::to_vec).collect() }).collect()
}

impl Results {
    /// One value per seed, computed from the measures of the resources. Without reservations both kinds of jobs are the
    /// same case.
    pub(super) fn per_seed(&self, case: Case, number: impl Fn(&[Measures]) -> f64) -> Vec<f64> {
        let case = if case.share == 0 && !case.parallel { CASES[0] } else { case };
        let at = CASES.iter().position(|known| *known == case);
        at.map(|at| self.runs[at].iter().map(|sites| number(sites)).collect()).unwrap_or_default()
    }

    pub(super) fn of(&self, case: Case, number: impl Fn(&[Measures]) -> f64) -> Estimate {
        Estimate::of(&self.per_seed(case, number))
    }

    /// Compares a value of one case with that of another, seed by seed.
    pub(super) fn against(
        &self,
        case: Case,
        base: Case,
        number: impl Fn(&[Measures]) -> f64,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Estimate {
        let (ours, base) = (self.per_seed(case, &number), self.per_seed(base, &number));
        // Both cases of a seed have the same jobs. The difference by seed removes the variation between
        // workloads, which would make the interval much wider.
        let compared: Vec<f64> = ours.iter().zip(&base).map(|(&ours, &base)| compare(ours, base)).collect();
        Estimate::of(&compared)
    }
}

pub(super) fn site(at: usize, number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| sites.get(at).map_or(0.0, number)
}

/// A measure of all resources together.
pub(super) fn all(number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| number(&Measures::total(sites))
}

/// The unweighted mean of a measure over the resources.
pub(super) fn mean_of_sites(number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| sites.iter().map(number).sum::<f64>() / SITES.len() as f64
}

/// Mean waiting time of queued jobs, in minutes.
pub(super) fn wait(measures: &Measures) -> f64 {
    measures.waits.mean() / 60.0
}

/// Mean offset of reservations from the requested start, in minutes.
pub(super) fn offset(measures: &Measures) -> f64 {
    measures.offsets.mean() / 60.0
}

/// Utilisation until the last arrival, in percent.
pub(super) fn utilisation(measures: &Measures) -> f64 {
    measures.arrivals.mean() * 100.0
}

/// Utilisation until the resource's last end, in percent.
pub(super) fn whole_utilisation(measures: &Measures) -> f64 {
    measures.whole.mean() * 100.0
}

pub(super) fn rejections(measures: &Measures) -> f64 {
    measures.rejections.total as f64
}

/// Percentage of all jobs whose parts ran together.
pub(super) fn success(measures: &Measures) -> f64 {
    measures.success.mean() * 100.0
}

/// Percentage of the jobs that requested a reservation whose parts ran together.
pub(super) fn reserved_success(measures: &Measures) -> f64 {
    measures.reserved_success.mean() * 100.0
}

/// Percentage of all jobs that got a reservation.
pub(super) fn booked(measures: &Measures) -> f64 {
    measures.offsets.count as f64 / measures.success.count.max(1) as f64 * 100.0
}

/// Percentage of the jobs that requested a reservation and got one.
pub(super) fn granted(measures: &Measures) -> f64 {
    measures.offsets.count as f64 / measures.rejections.count.max(1) as f64 * 100.0
}

/// Rejections per requested reservation.
pub(super) fn rejections_each(measures: &Measures) -> f64 {
    measures.rejections.mean()
}

/// Jobs from the queue that were paused for a reservation, in percent.
pub(super) fn paused(measures: &Measures) -> f64 {
    measures.paused.mean() * 100.0
}

/// How much `ours` is above `base`, in percent.
pub(super) fn percent_above(ours: f64, base: f64) -> f64 {
    if base == 0.0 { 0.0 } else { (ours / base - 1.0) * 100.0 }
}

/// A sum and the number of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) total: i64,
    pub(super) count: i64,
}

/// Measures of one resource, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Measures {
    /// Seconds from submission to first start, of jobs from the queue. Includes jobs that failed to get a reservation,
    /// but not reserved jobs that joined the queue later.
    pub(super) waits: Sum,
    /// The same jobs that were paused for a reservation.
    pub(super) paused: Sum,
    /// Seconds from the requested to the booked start of reservations.
    pub(super) offsets: Sum,
    /// Rejected requests; the count is the number of jobs that requested a reservation.
    pub(super) rejections: Sum,
    /// CPU seconds used of those available, from the beginning to the last arrival.
    pub(super) arrivals: Sum,
    /// The same to the end of the resource's last job.
    pub(super) whole: Sum,
    /// Successful jobs of those that requested a reservation: all parts ran together and to their end.
    pub(super) reserved_success: Sum,
    /// The same, of all jobs.
    pub(super) success: Sum,
}

impl Sum {
    pub(super) fn add(&mut self, value: i64) {
        self.total += value;
        self.count += 1;
    }

    /// The mean; zero without terms.
    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.total += other.total;
        self.count += other.count;
    }
}

impl Measures {
    /// The measures of a resource after its last event.
    pub(super) fn of(
        resource: &Resource,
        placed: &[Placed<'_>],
        rejections: Sum,
        arrivals_end: Time,
    ) -> Measures {
        let last_end = resource.pieces().iter().map(|piece| piece.interval.end).max().unwrap_or(Time(0));
        let mut measures = Measures {
            rejections,
            arrivals: used(resource, arrivals_end),
            whole: used(resource, last_end),
            ..Measures::default()
        };
        let parts = placed.last().map_or(0, |last| last.parts.end);
        let fates = fates(resource, parts);
        for Placed { job, parts, wanted, offset } in placed {
            let fates = &fates[parts.clone()];
            match offset {
                Some(offset) => measures.offsets.add(offset.0),
                // Each part of a parallel job was queued on its own and has its own wait.
                None => fates.iter().for_each(|fate| {
                    measures.waits.add((fate.start - job.submit).0);
                    measures.paused.add(i64::from(fate.pieces > 1));
                }),
            }
            // Parts from the queue start as CPUs become free, which is rarely at the same time.
            let together = fates.iter().all(|fate| fate.is_whole() && fate.start == fates[0].start);
            measures.success.add(i64::from(together));
            if *wanted {
                measures.reserved_success.add(i64::from(together));
            }
        }
        measures
    }

    pub(super) fn total<'a>(all: impl IntoIterator<Item = &'a Measures>) -> Measures {
        let mut total = Measures::default();
        for measures in all {
            total.waits += measures.waits;
            total.paused += measures.paused;
            total.offsets += measures.offsets;
            total.rejections += measures.rejections;
            total.arrivals += measures.arrivals;
            total.whole += measures.whole;
            total.reserved_success += measures.reserved_success;
            total.success += measures.success;
        }
        total
    }
}

#[derive(Clone, Copy)]
struct Fate {
    start: Time,
    pieces: u32,
    finished: bool,
}

impl Fate {
    /// Whether it ran without interruption and to its end.
    fn is_whole(&self) -> bool {
        self.pieces == 1 && self.finished
    }
}

fn fates(resource: &Resource, parts: usize) -> Vec<Fate> {
    let mut fates = vec![Fate { start: Time::MAX, pieces: 0, finished: false }; parts];
    for piece in resource.pieces() {
        let fate = &mut fates[piece.job.0 as usize];
        fate.start = fate.start.min(piece.interval.begin);
        fate.pieces += 1;
    }
    for returned in resource.returned() {
        fates[returned.job.0 as usize].finished = returned.left == Work::NONE;
    }
    fates
}

/// CPU seconds used until `until`, of those available.
fn used(resource: &Resource, until: Time) -> Sum {
    // An interval that begins after `until` becomes empty and has the length zero.
    let inside = |interval: Interval| Interval::new(interval.begin, interval.end.min(until)).length().0;
    let total = resource.pieces().iter().map(|piece| inside(piece.interval)).sum();
    Sum { total, count: until.0 * i64::from(resource.capacity().0) }
}
