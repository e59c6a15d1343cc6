//! The same workload under several rules at once, on as many threads as wanted. Each run is a function of its
//! input and results come in the order of the sites, so the number of threads changes nothing but the time taken.

use crate::site::{EarliestFit, Job, Outcome, Site, simulate};
use bookahead_workload::requests::Request;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Simulates every site of `sites` on `threads` threads (at least one). `observe` hears how many jobs have ended
/// since it was last called, from any of them.
pub fn side_by_side(
    sites: &[Site],
    jobs: &[Job],
    requests: &[Request],
    threads: usize,
    observe: impl Fn(usize) + Sync,
) -> Vec<Outcome> {
    let outcomes: Vec<OnceLock<Outcome>> = sites.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((site, slot)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            sites.get(at).zip(outcomes.get(at))
        } {
            let mut told = 0;
            let outcome = simulate(*site, jobs, requests, &mut EarliestFit, |ended| {
                observe(ended - told);
                told = ended;
            });
            // Every place is taken by one thread only.
            let _ = slot.set(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, sites.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    outcomes.into_iter().map(|slot| slot.into_inner().expect("every site was simulated")).collect()
}
