//! Independent runs on several threads. Results come in the order of the inputs, so that the number of threads changes
//! nothing but the time taken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `run` to every input on `threads` threads (at least one). `done` is called after each, from any of them.
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
            // Every place is taken by one thread only.
            let _ = slot.set(run(input));
            done();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, inputs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results.into_iter().map(|slot| slot.into_inner().expect("every input was run")).collect()
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
