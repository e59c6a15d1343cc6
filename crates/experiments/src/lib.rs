//! Reproductions of the experiments of the source papers. Each module has the set-up of one paper, its published
//! results as data, and our results. Results depend only on the seeds; nothing is tuned to match.
//!
//! - [`what_if`]: what-if rating compared with load rating
//! - [`check`]: comparisons with a paper's numbers and orders, and the rule of judgement
//! - [`claim`]: claims of a paper, our results, and how far they agree
//! - [`co_reservation`]: co-reservation of several machines, with and without probing, and the timeout of holds
//! - [`cosy`]: the shortest notice time for reservations, after COSY
//! - [`gridsim`]: waiting, offsets, utilisation and rejections with advance reservations, after GridSim
//! - [`migol`]: estimates of the earliest start, and the job broker, after Migol
//! - [`report`]: tables, figures and claims as one self-contained HTML file
//! - [`statistics`]: means with confidence intervals

pub mod check;
pub mod claim;
pub mod co_reservation;
pub mod cosy;
pub mod gridsim;
pub mod migol;
pub mod report;
pub mod statistics;
pub mod what_if;

pub use check::{Check, Verdict};
pub use claim::{Claim, Measured};
pub use report::{Page, Section, Table};
pub use statistics::Estimate;

use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Run a smaller version, as a smoke test.
    pub quick: bool,
    /// Seed of the first run.
    pub first_seed: u64,
    /// Number of independent runs, each with the next seed; at least one. Two or more give confidence intervals.
    pub seeds: usize,
    /// Number of threads; does not change the results.
    pub threads: usize,
}

impl Scale {
    /// The seeds of the runs.
    fn each_seed(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed.saturating_add(self.seeds.max(1) as u64)
    }
}

/// Called with the number of finished runs and the total, from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs all inputs on the threads of `scale` and reports progress. The outputs are in the order of the inputs.
fn run_each<I: Sync, O: Send + Sync>(
    inputs: &[I],
    scale: &Scale,
    progress: Progress<'_>,
    run: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    let done = AtomicUsize::new(0);
    // Only a count for display: no other data depends on its order, so relaxed ordering is enough.
    let tell = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, inputs.len());
    bookahead_sim::run_all(inputs, scale.threads, run, tell)
}
