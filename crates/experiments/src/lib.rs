//! The experiments of the source papers, run anew: each module has one paper's set-up, its published figures as data,
//! and ours beside them. Results are functions of the seeds; nothing is tuned to match.
//!
//! - [`what_if`]: what-if against load
//! - [`claim`]: what a paper says, what we found, and whether they agree
//! - [`co_reservation`]: reserving several machines at once, with and without probing, and the time-out of holds
//! - [`cosy`]: the shortest notice for reservations, after COSY
//! - [`gridsim`]: waiting, offsets, utilisation and rejections with advance reservations, after GridSim
//! - [`migol`]: estimates of the earliest start, and the job broker, after Migol
//! - [`report`]: tables, figures and claims as one self-contained HTML file
//! - [`statistics`]: means with confidence intervals

pub mod claim;
pub mod co_reservation;
pub mod cosy;
pub mod gridsim;
pub mod migol;
pub mod report;
pub mod statistics;
pub mod what_if;

pub use claim::{Claim, Measured};
pub use report::{Page, Section, Table};
pub use statistics::Estimate;

use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of an experiment is run, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// A smaller run, to see that it works.
    pub quick: bool,
    /// How many independent runs, with seeds 1, 2, …; at least one. Two or more give confidence intervals.
    pub seeds: usize,
    /// Threads; the results are the same for any number.
    pub threads: usize,
}

/// Hears how many of how many runs are done, from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs every input on the threads of `scale` and tells the progress; in the order of the inputs.
fn run_each<I: Sync, O: Send + Sync>(
    inputs: &[I],
    scale: &Scale,
    progress: Progress<'_>,
    run: impl Fn(&I) -> O + Sync,
) -> Vec<O> {
    let done = AtomicUsize::new(0);
    let tell = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, inputs.len());
    bookahead_sim::run_all(inputs, scale.threads, run, tell)
}
