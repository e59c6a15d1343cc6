//! Independent runs on several threads, and the same workload under several rules. Results are in the order of the
//! inputs, so the number of threads changes only the computing time.

use crate::site::{Job, Outcome, Placement, Site, simulate};
use bookahead_workload::requests::Request;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `run` to every input on `threads` threads (at least one). `done` is called after each input, on any thread.
pub fn run_all<I: Sync, R: Send + Sync>(
    inputs: &[I],
    threads: usize,
    run: impl Fn(&I) -> R + Sync,
    done: impl Fn() + Sync,
) -> Vec<R> {
    let results: Vec<OnceLock<R>> = inputs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(input), Some(slot)) = (inputs.get(at), results.get(at)) else { return };
            // `fetch_add` gives every index to one thread only, so the slot is empty.
            let _ = slot.set(run(input));
            done();
        }
    };
    std::thread::scope(|scope| {
        // One thread fewer: this one works too.
        for _ in 1..threads.clamp(1, inputs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results.into_iter().map(|slot| slot.into_inner().expect("every input was run")).collect()
}

/// Simulates every site of `sites` on `threads` threads, and returns the outcomes in their order. `placement` creates
/// the placement of a site. `observe` is called on any thread with the number of jobs that have ended since its last
/// call.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_inputs_on_any_number_of_threads() {
        let inputs: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = inputs.iter().map(|n| n * n).collect();
        for threads in [0, 1, 2, 7] {
            let count = AtomicUsize::new(0);
            let results = run_all(
                &inputs,
                threads,
                |n| n * n,
                || {
                    count.fetch_add(1, Ordering::Relaxed);
                },
            );
            assert_eq!(results, squares);
            assert_eq!(count.into_inner(), 100);
        }
    }
}
