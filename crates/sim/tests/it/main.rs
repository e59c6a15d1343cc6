//! Integration tests of the simulator, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contention;
mod equals_oracles;
mod equals_reference;
mod faults;
mod invariants;
mod known_answers;
mod reference;
mod scale;

use bookahead_plan::{Capacity, Owner, Policy, Seconds, Time, Waiting};
use bookahead_sim::{EarliestFit, Fate, Job, Outcome, Overrun, Site, simulate};

/// A job of a test: submit, processors, run, request.
fn job(submit: i64, capacity: u32, run: i64, estimate: i64) -> Job {
    let (submit, estimate, capacity) = (Time(submit), Seconds(estimate), Capacity(capacity));
    Job { asked: Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE }, run: Seconds(run) }
}

fn site(policy: Policy, capacity: u32) -> Site {
    Site { policy, capacity: Capacity(capacity), overrun: Overrun::Kill }
}

fn starts(outcome: &Outcome) -> Vec<i64> {
    let start = |fate: &Fate| match fate {
        Fate::Ran(ran) => ran.start.0,
        Fate::TooWide => -1,
    };
    outcome.jobs.iter().map(start).collect()
}

fn run(site: Site, jobs: &[Job]) -> Outcome {
    simulate(site, jobs, &[], &mut EarliestFit, |_| {})
}
