//! Migol's brokering: the accuracy of estimated start times, how well they rank clusters, how response times grow with
//! the number of reservations, and the cost of a submission. Estimates come from the planner, real starts from the
//! simulator, and the broker is that of [`bookahead_protocol::jobs`]. Nothing is tuned to match.
//!
//! After an evaluation of Migol's Job Broker Service, Advance Reservation Service and Earliest Start Time Estimation.
//!
//! Response times are measured, so they differ from run to run; with a given clock ([`run_with_clock`]) the page
//! depends only on the scale.

#[cfg(test)]
mod borders;
mod claims;
mod costs;
mod page;
mod samples;
mod setup;
mod sites;

use crate::{Page, Progress, Scale};
use std::time::{Duration, Instant};

/// Runs the experiment with the clock of this machine.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let begun = Instant::now();
    run_with_clock(scale, progress, &|| begun.elapsed())
}

/// Runs the experiment with `clock`, which returns the time since a fixed moment. A test clock makes the page
/// reproducible.
pub fn run_with_clock(scale: &Scale, progress: Progress<'_>, clock: &dyn Fn() -> Duration) -> Page {
    let results = samples::run(scale, progress);
    let points = costs::measure(scale.quick, clock);
    let costs = costs::measure_costs(clock);
    page::page(scale.quick, &results, &points, costs.as_ref()).judged_at(scale)
}
