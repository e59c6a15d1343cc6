//! The what-if method against the load method: 36 workloads of 2,000 jobs, of which 200 become reservation requests
//! (T. Röblitz, K. Rzadca, Euro-Par 2006), and what none has shown beside them: earliest start with and without local jobs
//! preferred, an admission limit, and estimates of other quality.

mod claims;
mod contender;
mod page;
mod published;
mod results;
mod run;
mod workload;

pub use contender::Contender;
pub use run::{BOOK_AHEAD, Finding, Setting, WINDOWS, run as run_one};
pub use workload::{Workload, WorkloadError};

use crate::{Page, Progress, Scale};
use bookahead_plan::Capacity;
use bookahead_sim::run_all;
use bookahead_workload::trace::Estimates;
use results::{Batch, Results};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The paper's job size limitation: fewer than 89.
const WIDEST: Capacity = Capacity(88);
/// The window at which delays are looked at, in hours.
const WIDE_WINDOW: i64 = 30;

/// Runs the experiment on `workload`.
pub fn run(workload: &Workload, scale: &Scale, progress: Progress<'_>) -> Page {
    let (limited, cut) = workload.limited(WIDEST);
    let batches = batches(scale);
    let done = AtomicUsize::new(0);
    let findings = run_all(
        &batches,
        scale.threads,
        |batch| run_one(if batch.limited { &limited } else { workload }, &batch.setting),
        || progress(done.fetch_add(1, Ordering::Relaxed) + 1, batches.len()),
    );
    page::page(workload, cut, &Results::new(batches, findings))
}

/// Everything that is run, in a fixed order.
fn batches(scale: &Scale) -> Vec<Batch> {
    let hours = |all: [i64; 6], some: [i64; 3]| if scale.quick { some.to_vec() } else { all.to_vec() };
    let (book_ahead, windows) = (hours(BOOK_AHEAD, [0, 4, 24]), hours(WINDOWS, [0, 2, 30]));
    let mut batches = Vec::new();
    for seed in 1..=scale.seeds.max(1) as u64 {
        for &ahead in &book_ahead {
            for &window in &windows {
                let setting =
                    |contender, estimates| Setting { contender, book_ahead: ahead, window, estimates, seed };
                let plain =
                    |contender| Batch { limited: false, setting: setting(contender, Estimates::Requested) };
                batches.extend(Contender::ALL.map(plain));
                for estimates in [Estimates::Factor(2.0), Estimates::Actual] {
                    let other = |contender| Batch { limited: false, setting: setting(contender, estimates) };
                    batches.extend(Contender::PAPER.map(other));
                }
                if window == WIDE_WINDOW {
                    let narrow = |contender| Batch {
                        limited: true,
                        setting: setting(contender, Estimates::Requested),
                    };
                    batches.extend(Contender::PAPER.map(narrow));
                }
            }
        }
    }
    batches
}
