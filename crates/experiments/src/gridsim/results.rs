//! All runs of the experiment, and what they give with their intervals. Runs are independent, so that the number of
//! threads changes nothing; every figure and claim reads from here.

use super::case::{Case, run};
use super::measures::Measures;
use super::model::Stopped;
use super::setup::{Choices, SITES};
use super::workload::draw;
use crate::{Estimate, Progress, Scale};
use bookahead_sim::run_all;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Restartable jobs.
pub const RESTARTABLE: Stopped = Stopped::Queue;
/// Jobs that are not.
pub const NON_RESTARTABLE: Stopped = Stopped::Return;
/// The shares of reservations, in percent.
pub const SHARES: [u32; 3] = [0, 10, 20];

/// Every variant that is run. Without reservations, both kinds of jobs are the same.
pub const CASES: [Case; 10] = [
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

/// The runs under one set of choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// By case and then by seed: the measures of each resource.
    runs: Vec<Vec<Vec<Measures>>>,
}

/// Runs every case for every seed under each of the `sets`; in their order.
pub fn run_sets(sets: &[Choices], scale: &Scale, progress: Progress<'_>) -> Vec<Results> {
    let seeds = scale.seeds.max(1);
    let inputs: Vec<(usize, usize, u64)> = (0..sets.len())
        .flat_map(|set| (0..CASES.len()).map(move |case| (set, case)))
        .flat_map(|(set, case)| (1..=seeds as u64).map(move |seed| (set, case, seed)))
        .collect();
    let done = AtomicUsize::new(0);
    let ran = run_all(
        &inputs,
        scale.threads,
        |&(set, case, seed)| run(CASES[case], &sets[set], &draw(&sets[set], seed)),
        || progress(done.fetch_add(1, Ordering::Relaxed) + 1, inputs.len()),
    );
    let by_set = ran.chunks(CASES.len() * seeds);
    by_set.map(|set| Results { runs: set.chunks(seeds).map(<[_]>::to_vec).collect() }).collect()
}

impl Results {
    /// A number for each seed, from the measures of the resources in a case. Kinds of jobs are one where nothing is
    /// reserved.
    pub fn per_seed(&self, case: Case, number: impl Fn(&[Measures]) -> f64) -> Vec<f64> {
        let case = if case.share == 0 && !case.parallel { CASES[0] } else { case };
        let at = CASES.iter().position(|known| *known == case);
        at.map(|at| self.runs[at].iter().map(|sites| number(sites)).collect()).unwrap_or_default()
    }

    /// The mean of [`Results::per_seed`].
    pub fn of(&self, case: Case, number: impl Fn(&[Measures]) -> f64) -> Estimate {
        Estimate::of(&self.per_seed(case, number))
    }

    /// A number in one case against the same in another, seed by seed.
    pub fn against(
        &self,
        case: Case,
        base: Case,
        number: impl Fn(&[Measures]) -> f64,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Estimate {
        let (ours, base) = (self.per_seed(case, &number), self.per_seed(base, &number));
        let compared: Vec<f64> = ours.iter().zip(&base).map(|(&ours, &base)| compare(ours, base)).collect();
        Estimate::of(&compared)
    }
}

/// A number of one resource.
pub fn site(at: usize, number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| sites.get(at).map_or(0.0, number)
}

/// A number of all resources taken together.
pub fn all(number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| number(&Measures::total(sites))
}

/// The plain mean of a number over the resources.
pub fn mean_of_sites(number: fn(&Measures) -> f64) -> impl Fn(&[Measures]) -> f64 {
    move |sites| sites.iter().map(number).sum::<f64>() / SITES.len() as f64
}

/// Mean waiting time of queued jobs, in minutes.
pub fn wait(measures: &Measures) -> f64 {
    measures.waits.mean() / 60.0
}

/// Mean offset of reservations from the time wanted, in minutes.
pub fn offset(measures: &Measures) -> f64 {
    measures.offsets.mean() / 60.0
}

/// Utilisation until the last arrival, in percent.
pub fn utilisation(measures: &Measures) -> f64 {
    measures.arrivals.mean() * 100.0
}

/// Utilisation until the resource's last end, in percent.
pub fn whole_utilisation(measures: &Measures) -> f64 {
    measures.whole.mean() * 100.0
}

/// How many requests were rejected.
pub fn rejections(measures: &Measures) -> f64 {
    measures.rejections.total as f64
}

/// Percent of all jobs that ran as wanted.
pub fn success(measures: &Measures) -> f64 {
    measures.success.mean() * 100.0
}

/// Percent of the jobs that wanted a reservation that ran as wanted.
pub fn reserved_success(measures: &Measures) -> f64 {
    measures.reserved_success.mean() * 100.0
}

/// Percent of all jobs that got a reservation.
pub fn booked(measures: &Measures) -> f64 {
    measures.offsets.count as f64 / measures.success.count.max(1) as f64 * 100.0
}

/// Percent of the jobs that wanted a reservation that got one.
pub fn granted(measures: &Measures) -> f64 {
    measures.offsets.count as f64 / measures.rejections.count.max(1) as f64 * 100.0
}

/// How many requests were rejected for each reservation wanted.
pub fn rejections_each(measures: &Measures) -> f64 {
    measures.rejections.mean()
}

/// By how many percent `ours` is above `base`.
pub fn percent_above(ours: f64, base: f64) -> f64 {
    if base == 0.0 { 0.0 } else { (ours / base - 1.0) * 100.0 }
}
