//! A queue order of your own: smallest area (processors times requested time) first, until a job has waited for a
//! week. Compared with the built-in orders on a trace:
//!
//! ```console
//! $ cargo run --release -p own-policy -- examples/week.swf
//! ```

#![forbid(unsafe_code)]

use bookahead_plan::metrics::{Completed, Summary};
use bookahead_plan::order::{Order, Rank, Score, Standing};
use bookahead_plan::{Policy, Seconds, Waiting};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Site, simulate};
use bookahead_workload::{LoadOptions, Trace};
use std::error::Error;
use std::path::Path;

/// After this wait a job goes before all younger ones, so that none waits for ever.
const PATIENCE: Seconds = Seconds(7 * 86_400);

struct SmallestArea;

impl Rank for SmallestArea {
    fn name(&self) -> &'static str {
        "smallest-area"
    }

    fn score(&self, job: &Waiting, standing: &Standing) -> Score {
        let waited = standing.now - job.submit;
        if waited > PATIENCE {
            return Score::new(waited.0.unsigned_abs().into(), 1);
        }
        let area = u128::from(job.capacity.0) * u128::from(job.estimate.0.unsigned_abs());
        Score::new(1, area)
    }
}

/// Mean wait of the jobs of a trace.
fn mean_wait(trace: &Trace, policy: Policy) -> f64 {
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let site = Site { policy, capacity: trace.machine, overrun: Overrun::Kill };
    let outcome = simulate(site, &jobs, &[], &mut EarliestFit, |_| {});
    let ran = jobs.iter().zip(&outcome.jobs).filter_map(|(job, fate)| match fate {
        Fate::Ran(ran) => Some(job.completed(*ran)),
        Fate::TooWide => None,
    });
    Summary::of(&ran.collect::<Vec<Completed>>(), trace.machine).mean_wait
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give a trace in Standard Workload Format")?;
    let trace = Trace::load(Path::new(&path), &LoadOptions::default())?;
    for order in [Order::Submit, Order::Sjf, Order::Wfp3, Order::Own(&SmallestArea)] {
        let policy = Policy::EASY.ordered_by(order);
        println!("{policy:<28} mean wait {:>8.0} s", mean_wait(&trace, policy));
    }
    Ok(())
}
