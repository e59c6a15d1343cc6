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
    /// Whether the workload is the real trace.
    pub(super) real: bool,
}

impl Results {
    pub(super) fn new(
        workload: &Workload,
        cut: usize,
        batches: Vec<Batch>,
        findings: Vec<Finding>,
    ) -> Results {
        let seeds = batches.iter().map(|batch| batch.setting.seed).max().unwrap_or(0);
        let (jobs, real) = (workload.jobs.len(), workload.real);
        Results { all: batches.into_iter().zip(findings).collect(), seeds, cut, jobs, real }
    }

    /// The distinct hours of the runs, sorted.
    pub(super) fn hours(&self, of: impl Fn(&Setting) -> i64) -> Vec<i64> {
        let mut hours: Vec<i64> = self.all.iter().map(|(batch, _)| of(&batch.setting)).collect();
        hours.sort_unstable();
        hours.dedup();
        hours
    }

    /// The mean of `value` over matching runs, with one value per seed.
    pub(super) fn mean(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> Estimate {
        // The workloads of a seed have the same jobs as requests and are not independent, so they give one
        // value together.
        let of_seed = |seed: u64| {
            let found: Vec<f64> = self
                .all
                .iter()
                .filter(|(batch, _)| batch.setting.seed == seed && matching(batch))
                .map(|(_, finding)| value(finding))
                .collect();
            found.iter().sum::<f64>() / found.len().max(1) as f64
        };
        Estimate::of(&(1..=self.seeds).map(of_seed).collect::<Vec<_>>())
    }

    /// Minimum and maximum `value` of the matching runs.
    pub(super) fn range(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> (f64, f64) {
        let found = self.all.iter().filter(|(batch, _)| matching(batch)).map(|(_, finding)| value(finding));
        found.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The setting of the matching run with the greatest `value`.
    pub(super) fn greatest(
        &self,
        matching: impl Fn(&Batch) -> bool,
        value: impl Fn(&Finding) -> f64,
    ) -> Option<&Setting> {
        let found = self.all.iter().filter(|(batch, _)| matching(batch));
        // `total_cmp`, because `f64` has no total order otherwise; no value is NaN.
        found.max_by(|a, b| value(&a.1).total_cmp(&value(&b.1))).map(|(batch, _)| &batch.setting)
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
