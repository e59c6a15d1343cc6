//! The same workload under several rules at once, on as many threads as wanted.

use crate::site::{EarliestFit, Job, Outcome, Site, simulate};
use crate::workers::run_all;
use bookahead_workload::requests::Request;

/// Simulates every site of `sites` on `threads` threads, and gives the outcomes in their order. `observe` hears how
/// many jobs have ended since it was last called, from any of them.
pub fn side_by_side(
    sites: &[Site],
    jobs: &[Job],
    requests: &[Request],
    threads: usize,
    observe: impl Fn(usize) + Sync,
) -> Vec<Outcome> {
    let run = |site: &Site| {
        let mut told = 0;
        simulate(*site, jobs, requests, &mut EarliestFit, |ended| {
            observe(ended - told);
            told = ended;
        })
    };
    run_all(sites, threads, run, || {})
}
