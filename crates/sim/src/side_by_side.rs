//! The same workload under several rules at once, on as many threads as wanted.

use crate::site::{Job, Outcome, Placement, Site, simulate};
use crate::workers::run_all;
use bookahead_workload::requests::Request;

/// Simulates every site of `sites` on `threads` threads, and gives the outcomes in their order; `placement` makes what
/// decides on the requests of a site. `observe` hears how many jobs have ended since it was last called, from any of
/// them.
pub fn side_by_side<P: Placement>(
    sites: &[Site],
    jobs: &[Job],
    requests: &[Request],
    placement: impl Fn(&Site) -> P + Sync,
    threads: usize,
    observe: impl Fn(usize) + Sync,
) -> Vec<Outcome> {
    let run = |site: &Site| {
        let mut told = 0;
        simulate(*site, jobs, requests, &mut placement(site), |ended| {
            observe(ended - told);
            told = ended;
        })
    };
    run_all(sites, threads, run, || {})
}
