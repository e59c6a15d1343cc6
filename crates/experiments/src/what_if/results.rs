//! All findings, and queries on them: means over matching workloads, with intervals over the seeds.

use super::run::{Contender, Finding, Setting};
use super::workload::Workload;
use crate::Estimate;
use bookahead_workload::trace::Estimates;

#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// Whether jobs are cut to the paper's size limit.
    pub(super) limited: bool,
    pub(super) setting: Setting,
}

pub(super) struct Results {
    all: Vec<(Batch, Finding)>,
    seeds: u64,
    /// Number of jobs that the size limit affects.
    pub(super) cut: usize,
    pub(super) jobs: usize,
}

impl Results {
    pub(super) fn new(
        workload: &Workload,
        cut: usize,
        batches: Vec<Batch>,
        findings: Vec<Finding>,
    ) -> Results {
        let seeds = batches.iter().map(|batch| batch.setting.seed).max().unwrap_or(0);
        let jobs = workload.jobs.len();
        Results { all: batches.into_iter().zip(findings).collect(), seeds, cut, jobs }
    }

    /// The distinct hours of the runs, sorted.
    pub(super) fn hours(&self, of: impl Fn(&Setting) -> i64) -> Vec<i64> {
        let mut hours: Vec<i64> = self.all.iter().map(|(batch, _)| of(&batch.setting)).collect();
        hours.sort_unstable();
        hours.dedup();
        hours
    }

    /// Book-ahead time and window of each workload.
    pub(super) fn workloads(&self) -> Vec<(i64, i64)> {
        let windows = self.hours(|setting| setting.window);
        let of_ahead = |ahead| windows.iter().map(move |&window| (ahead, window));
        self.hours(|setting| setting.book_ahead).into_iter().flat_map(of_ahead).collect()
    }

    /// The mean of `value` over matching runs, with one value per seed.
    pub(super) fn mean(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> Estimate {
        Estimate::of(&self.per_seed(matching, value))
    }

    /// The mean of `value` over matching runs for each seed. The workloads of a seed have the same jobs as requests and
    /// are not independent, so they give one value together.
    fn per_seed(&self, matching: impl Fn(&Batch) -> bool, value: impl Fn(&Finding) -> f64) -> Vec<f64> {
        let mean =
            |found: Vec<f64>| (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64);
        // Without runs the value is missing.
        (1..=self.seeds).filter_map(|seed| mean(self.of_seed(seed, &matching, &value))).collect()
    }

    fn of_seed(
        &self,
        seed: u64,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> Vec<f64> {
        let found = self.all.iter().filter(|(batch, _)| batch.setting.seed == seed && matching(batch));
        found.map(|(_, finding)| value(finding)).collect()
    }

    /// The mean of `value` under what-if less that under load, seed by seed: both have the same jobs and requests.
    pub(super) fn difference(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> Estimate {
        let [what_if, load] = [Contender::WhatIf, Contender::Load]
            .map(|method| self.per_seed(|batch| of(method)(batch) && matching(batch), &value));
        Estimate::of(&what_if.iter().zip(load).map(|(what_if, load)| what_if - load).collect::<Vec<_>>())
    }

    /// The least and the most `value` of the matching runs, each as a mean over the seeds.
    pub(super) fn ends(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> [Estimate; 2] {
        let of_seeds = |end: fn(f64, f64) -> f64| {
            let seeds = (1..=self.seeds).map(|seed| self.of_seed(seed, &matching, &value));
            Estimate::of(&seeds.filter_map(|found| found.into_iter().reduce(end)).collect::<Vec<_>>())
        };
        [of_seeds(f64::min), of_seeds(f64::max)]
    }

    /// The first matching run of seed 1.
    pub(super) fn first(&self, matching: impl Fn(&Batch) -> bool) -> Option<&Finding> {
        self.all
            .iter()
            .find(|(batch, _)| batch.setting.seed == 1 && matching(batch))
            .map(|(_, finding)| finding)
    }
}

/// Selects runs of one contender with requested estimates and without the size limit.
pub(super) fn of(contender: Contender) -> impl Fn(&Batch) -> bool + Copy {
    move |batch| {
        !batch.limited
            && batch.setting.contender == contender
            && batch.setting.estimates == Estimates::Requested
    }
}

/// Total added wait of the delayed jobs, in hours.
pub(super) fn added_hours(finding: &Finding) -> f64 {
    finding.added.iter().map(|(_, added)| added.0 as f64).sum::<f64>() / 3_600.0
}

#[cfg(test)]
impl Results {
    /// Results made by hand: the findings of all runs of two seeds.
    pub(super) fn made(cut: usize, finding: impl Fn(&Batch) -> Finding) -> Results {
        let scale = crate::Scale { quick: false, first_seed: 1, seeds: 2, threads: 1 };
        let all = super::batches(&scale).into_iter().map(|batch| (batch, finding(&batch))).collect();
        Results { all, seeds: 2, cut, jobs: 2_000 }
    }
}
