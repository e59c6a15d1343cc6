//! All samples, and what they say: how accurate estimates are, and how often they rank two clusters right. Every drawing is
//! an independent run, so that margins come from one seed as well as from several.

use super::samples::{At, Sample, Samples};
use super::setup::{PAIRS, Size};
use crate::{Estimate, Progress, Scale};
use bookahead_plan::Seconds;
use bookahead_sim::run_all;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The samples of every drawing.
pub(super) struct Results {
    drawings: Vec<Samples>,
}

/// Runs everything.
pub(super) fn run(scale: &Scale, progress: Progress<'_>) -> Results {
    let size = Size::of(scale.quick);
    let seeds = 1..=scale.seeds.max(1) as u64;
    let inputs: Vec<(u64, usize)> =
        seeds.flat_map(|seed| (0..size.drawings).map(move |drawing| (seed, drawing))).collect();
    let done = AtomicUsize::new(0);
    let drawings = run_all(
        &inputs,
        scale.threads,
        |&(seed, drawing)| Samples::draw(seed, drawing, size),
        || progress(done.fetch_add(1, Ordering::Relaxed) + 1, inputs.len()),
    );
    Results { drawings }
}

impl Results {
    /// How many drawings.
    pub(super) fn drawings(&self) -> usize {
        self.drawings.len()
    }

    /// The mean accuracy, in per cent, of the samples that `wanted` selects: one value for each drawing.
    pub(super) fn accuracy(&self, estimator: usize, wanted: impl Fn(&At) -> bool) -> Estimate {
        self.mean(&wanted, |sample| sample.accuracy(estimator).map(|accuracy| 100.0 * accuracy))
    }

    /// The mean wait in minutes: as estimated, or as it came.
    pub(super) fn wait(&self, estimator: Option<usize>, wanted: impl Fn(&At) -> bool) -> Estimate {
        self.mean(&wanted, |sample| {
            let wait = estimator.map_or(sample.real, |estimator| sample.estimated[estimator]);
            Some(wait.0 as f64 / 60.0)
        })
    }

    /// How many samples say nothing about accuracy, and how many there are.
    pub(super) fn left_out(&self, estimator: usize) -> (usize, usize) {
        let all = || self.drawings.iter().flat_map(|drawing| At::all().flat_map(|at| drawing.at(at)));
        (all().filter(|sample| sample.accuracy(estimator).is_none()).count(), all().count())
    }

    /// How often, in per cent, the cluster that is chosen is the one that starts the test job first. Decisions where both
    /// start it at the same time are left out: nothing could be wrong.
    pub(super) fn ranked_right(
        &self,
        chooser: Chooser,
        clusters: (usize, usize),
        wanted: impl Fn(&Decision) -> bool,
    ) -> Estimate {
        let per_drawing = self.drawings.iter().filter_map(|drawing| {
            let right: Vec<f64> = Decision::all(clusters)
                .filter(|decision| wanted(decision))
                .flat_map(|decision| decision.verdicts(drawing, chooser))
                .map(|right| if right { 100.0 } else { 0.0 })
                .collect();
            mean(&right)
        });
        Estimate::of(&per_drawing.collect::<Vec<f64>>())
    }

    fn mean(&self, wanted: &impl Fn(&At) -> bool, value: impl Fn(&Sample) -> Option<f64>) -> Estimate {
        let per_drawing = self.drawings.iter().filter_map(|drawing| {
            let samples = At::all().filter(|at| wanted(at)).flat_map(|at| drawing.at(at));
            mean(&samples.filter_map(&value).collect::<Vec<f64>>())
        });
        Estimate::of(&per_drawing.collect::<Vec<f64>>())
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Who chooses between two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chooser {
    /// The estimate, by its place among the estimators: the cluster that it says starts first, of equals the first.
    Estimate(usize),
    /// Somebody who knows nothing of the moment, and always takes the second.
    AlwaysSecond,
}

/// Siemens and Highland.
pub(super) const AS_IN_PAPER: (usize, usize) = (0, 1);

/// Where a test job should go: to the first cluster with the first workload of a pair, or to the second with the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    /// The pair, by its place in [`PAIRS`].
    pub(super) pair: usize,
    first: At,
    second: At,
}

impl Decision {
    /// All of them, between two clusters.
    fn all(clusters: (usize, usize)) -> impl Iterator<Item = Decision> {
        (0..PAIRS.len()).flat_map(move |pair| {
            let of_first = move |at: &At| (at.cluster, at.workload) == (clusters.0, PAIRS[pair].0);
            At::all().filter(of_first).map(move |first| {
                let second = At { cluster: clusters.1, workload: PAIRS[pair].1, ..first };
                Decision { pair, first, second }
            })
        })
    }

    /// The wall time, by its place in the set-up.
    pub(super) fn wall_time(&self) -> usize {
        self.first.wall_time
    }

    /// The test job, by its place in the set-up.
    pub(super) fn test_job(&self) -> usize {
        self.first.test_job
    }

    fn verdicts(self, drawing: &Samples, chooser: Chooser) -> impl Iterator<Item = bool> {
        let pairs = drawing.at(self.first).iter().zip(drawing.at(self.second));
        pairs.filter_map(move |(first, second)| verdict(first, second, chooser))
    }
}

/// Whether the cluster is chosen that really starts first; None where both start at the same time.
fn verdict(first: &Sample, second: &Sample, chooser: Chooser) -> Option<bool> {
    let chooses_first = match chooser {
        Chooser::Estimate(at) => first.estimated[at] <= second.estimated[at],
        Chooser::AlwaysSecond => false,
    };
    let gained = Seconds(second.real.0 - first.real.0);
    (gained != Seconds::ZERO).then_some(chooses_first == (gained > Seconds::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_right_where_the_chosen_cluster_starts_first() {
        let sample = |estimated, real| Sample { estimated: [Seconds(estimated); 2], real: Seconds(real) };
        let by_estimate = Chooser::Estimate(0);
        assert_eq!(verdict(&sample(10, 20), &sample(30, 25), by_estimate), Some(true));
        assert_eq!(verdict(&sample(10, 20), &sample(30, 25), Chooser::AlwaysSecond), Some(false));
        assert_eq!(verdict(&sample(10, 26), &sample(30, 25), by_estimate), Some(false));
        assert_eq!(verdict(&sample(30, 26), &sample(10, 25), by_estimate), Some(true));
        assert_eq!(verdict(&sample(10, 20), &sample(30, 20), by_estimate), None, "nothing could be wrong");
    }

    #[test]
    fn every_pair_is_decided_for_every_test_job_and_wall_time() {
        let all = || Decision::all(AS_IN_PAPER);
        assert_eq!(all().count(), 3 * 2 * 5);
        assert!(all().all(|decision| (decision.first.cluster, decision.second.cluster) == AS_IN_PAPER));
    }
}
