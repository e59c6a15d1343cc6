//! Migol's brokering: how accurate estimates of the earliest start are, how well they rank clusters, how response times
//! grow with the number of reservations, and what a submission costs. It relies on the planner for estimates, on the
//! simulator for what really happens, and on [`bookahead_protocol::jobs`] for the broker. Nothing is tuned to match.
//!
//! After an evaluation of Migol's Job Broker Service, Advance Reservation Service and Earliest Start Time Estimation.
//!
//! Response times are measured, so those figures differ from run to run; with a clock that is handed in
//! ([`run_with_clock`]) everything is a function of the scale.

mod claims;
mod costs;
mod page;
mod samples;
mod setup;
mod sites;

use crate::{Page, Progress, Scale};
use std::time::{Duration, Instant};

/// Runs the experiment.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let begun = Instant::now();
    run_with_clock(scale, progress, &|| begun.elapsed())
}

/// The same, with times taken from `clock`, which tells how much time has passed since some moment.
pub fn run_with_clock(scale: &Scale, progress: Progress<'_>, clock: &dyn Fn() -> Duration) -> Page {
    let results = samples::run(scale, progress);
    let points = costs::measure(scale.quick, clock);
    let costs = costs::measure_costs(clock);
    page::page(scale.quick, &results, &points, costs.as_ref())
}
