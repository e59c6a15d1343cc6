//! Why our figures differ from the paper's, as far as the runs show: each reason is put together from measured
//! numbers. It never decides whether we differ.

use super::case::Case;
use super::measures::Measures;
use super::results::{
    NON_RESTARTABLE, RESTARTABLE, Results, all, booked, granted, mean_of_sites, offset, percent_above,
    rejections, rejections_each, success, utilisation, wait,
};
use super::setup::{ALTERNATIVES, CHOICES, HINT_LIMIT};

const NONE: Case = Case::advance(0, RESTARTABLE);
const TEN: Case = Case::advance(10, RESTARTABLE);
const TWENTY: Case = Case::advance(20, RESTARTABLE);

fn mean(results: &Results, case: Case, number: fn(&Measures) -> f64) -> f64 {
    results.of(case, all(number)).mean
}

fn overload() -> String {
    format!(
        "As the set-up is printed, work arrives {:.0} times as fast as the resources do it",
        CHOICES.overload()
    )
}

fn mean_used(results: &Results, case: Case) -> f64 {
    results.of(case, mean_of_sites(utilisation)).mean
}

/// What the alternative with a lighter load says, where it was run.
fn lighter(results: &[Results], text: impl FnOnce(&Results) -> String) -> String {
    let at = ALTERNATIVES.iter().position(|(_, choices)| choices.per_hour < CHOICES.per_hour);
    at.and_then(|at| results.get(at + 1)).map(text).unwrap_or_default()
}

/// Figure 7.
pub(super) fn waiting(results: &[Results]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        let growth = |case| lighter.against(case, NONE, all(wait), percent_above).mean;
        format!(
            ". With a load that the five together can carry (other choices, below) the growth is {:+.0}% and {:+.0}%",
            growth(TEN),
            growth(TWENTY)
        )
    });
    format!(
        "{}: waiting, {:.0} minutes without any reservation, is the draining of a backlog. There, jobs that go first \
         lengthen the mean wait of the others by about their own share, and only {:.1}% and {:.1}% of the jobs get a \
         reservation where 10 and 20% want one; standing idle for them costs little ({:.0}% of the CPU time is \
         used){lighter}",
        overload(),
        mean(ours, NONE, wait),
        mean(ours, TEN, booked),
        mean(ours, TWENTY, booked),
        mean_used(ours, TWENTY),
    )
}

/// The size of the offsets in Figure 8.
pub(super) fn offset_size(results: &[Results]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        let late = |case| mean(lighter, case, offset);
        format!(
            ". With a load that the five together can carry (other choices, below) it is {:.0} and {:.0} minutes",
            late(TEN),
            late(TWENTY)
        )
    });
    format!(
        "{}, and reservations alone ask for more than R0, R3 and R4 have: {:.0}% and {:.0}% of those wanted are granted, \
         after {:.1} and {:.1} rejections for each one wanted. The offset then measures how long users keep asking (here \
         up to {} minutes) and how far ahead they ask, neither of which the paper states{lighter}",
        overload(),
        mean(ours, TEN, granted),
        mean(ours, TWENTY, granted),
        mean(ours, TEN, rejections_each),
        mean(ours, TWENTY, rejections_each),
        HINT_LIMIT.0 / 60,
    )
}

/// Advance against immediate reservations.
pub(super) fn immediate(results: &[Results]) -> String {
    let results = &results[0];
    format!(
        "advance reservations that are granted are {:.0} and {:.0} minutes late, immediate ones {:.0} and {:.0}; with so \
         few jobs the resources are not full of reservations yet",
        mean(results, TEN, offset),
        mean(results, TWENTY, offset),
        mean(results, Case::immediate(10), offset),
        mean(results, Case::immediate(20), offset),
    )
}

/// Figure 9.
pub(super) fn used(results: &[Results]) -> String {
    let ours = &results[0];
    let long = Case::advance(20, NON_RESTARTABLE);
    let lighter = lighter(results, |lighter| {
        format!(
            ". With a load that the five together can carry (other choices, below) it is {:.0}%, {:.0}% and {:.0}%",
            mean_used(lighter, NONE),
            mean_used(lighter, TWENTY),
            mean_used(lighter, long)
        )
    });
    format!(
        "{}, so that hardly a CPU stands idle: {:.0}% of their time is used without reservations. Waiting for a \
         reservation before which the next job does not fit leaves {:.0}%, slots that are too long leave {:.0}%{lighter}",
        overload(),
        mean_used(ours, NONE),
        mean_used(ours, TWENTY),
        mean_used(ours, long),
    )
}

/// Figure 10.
pub(super) fn rejected(results: &[Results]) -> String {
    let results = &results[0];
    format!(
        "{:.0} and {:.0} requests for restartable jobs are rejected, {:.0} and {:.0} for others: too few to tell",
        mean(results, TEN, rejections),
        mean(results, TWENTY, rejections),
        mean(results, Case::advance(10, NON_RESTARTABLE), rejections),
        mean(results, Case::advance(20, NON_RESTARTABLE), rejections),
    )
}

/// Figure 11.
pub(super) fn parallel(results: &[Results]) -> String {
    let results = &results[0];
    format!(
        "{:.0}% and {:.0}% of the reservations wanted for parallel jobs are granted, and {:.1}% of the jobs find four \
         CPUs at once without one",
        mean(results, Case::parallel(10), granted),
        mean(results, Case::parallel(20), granted),
        mean(results, Case::parallel(0), success),
    )
}
