//! The what-if method compared with the load method: 36 workloads of 2,000 jobs, of which 200 become reservation
//! requests (T. Röblitz, K. Rzadca, Euro-Par 2006). Beyond the paper: earliest start with and without preference for
//! local jobs, an admission limit, and estimates of other quality.

#[cfg(test)]
mod borders;
mod claims;
mod figures;
mod page;
mod pattern;
mod results;
mod run;
mod workload;

pub use run::{Contender, Finding, Setting, run as run_one};
pub use workload::{Workload, WorkloadError};

use crate::{Page, Progress, Scale, run_each};
use bookahead_plan::Capacity;
use bookahead_workload::trace::Estimates;
use results::{Batch, Results};
use run::{BOOK_AHEAD, WINDOWS};

/// The widest job with the size limit of the paper: fewer than 89 nodes.
const WIDEST: Capacity = Capacity(88);
/// The window at which delays are measured, in hours.
const WIDE_WINDOW: i64 = 30;

/// Runs the experiment on `workload`. A quick run has fewer book-ahead times and windows.
pub fn run(workload: &Workload, scale: &Scale, progress: Progress<'_>) -> Page {
    let batches = batches(scale);
    let findings = run_each(&batches, scale, progress, |batch| {
        let jobs = workload.of_seed(batch.setting.seed);
        // Cut before the requests are selected, so that the limit holds for requests too.
        let jobs = if batch.limited { jobs.limited(WIDEST).0 } else { jobs };
        run_one(&jobs, &batch.setting)
    });
    let (_, cut) = workload.limited(WIDEST);
    let page = page::page(workload, &Results::new(workload, cut, batches, findings)).judged_at(scale);
    if workload.real { page } else { page.not_judged(page::DRAWN) }
}

/// All runs, in a fixed order.
fn batches(scale: &Scale) -> Vec<Batch> {
    let hours = |all: [i64; 6], some: &[i64]| if scale.quick { some.to_vec() } else { all.to_vec() };
    let (aheads, windows) = (hours(BOOK_AHEAD, &[0, 6, 12, 24]), hours(WINDOWS, &[0, 2, 30]));
    let mut batches = Vec::new();
    for seed in scale.each_seed() {
        for &book_ahead in &aheads {
            for &window in &windows {
                let batch = |limited, estimates| {
                    let setting = move |contender| Setting { contender, book_ahead, window, estimates, seed };
                    move |contender| Batch { limited, setting: setting(contender) }
                };
                batches.extend(Contender::ALL.map(batch(false, Estimates::Requested)));
                for estimates in [Estimates::Factor(2.0), Estimates::Actual] {
                    batches.extend(Contender::PAPER.map(batch(false, estimates)));
                }
                // Delays are compared only at this window; runs at the others would only cost time.
                if window == WIDE_WINDOW {
                    batches.extend(Contender::PAPER.map(batch(true, Estimates::Requested)));
                }
            }
        }
    }
    batches
}
