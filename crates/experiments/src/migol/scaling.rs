//! Response times against the number of active reservations. Times are measured on the machine at hand by a clock that is
//! handed in; what is counted beside them is the same everywhere.

use super::setup::CLUSTERS;
use super::sites::{Grid, calendar};
use bookahead_plan::placement::Prober;
use bookahead_plan::{Capacity, Cluster, Need, Policy, Profile, Seconds, Span, Time};
use bookahead_workload::streams::Stream;
use std::time::Duration;

/// Tells how much time has passed since some moment.
pub(super) type Clock<'a> = &'a dyn Fn() -> Duration;

/// Active reservations at each site: the paper's three, then far more.
const COUNTS: [usize; 6] = [175, 350, 700, 7_000, 70_000, 100_000];
/// As many as a quick run has time for.
const QUICK_COUNTS: usize = 4;
/// How often each is measured, the middle one counts: less often where there are more reservations than this, since
/// building the lists takes long then.
const REPEATED: usize = 41;
const FEW_REPEATED: usize = 9;
const MANY: usize = 10_000;
/// The job that is asked for.
const NEED: Need = Need { capacity: Capacity(8), length: Seconds(3_600) };

/// What was found with so many reservations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Active reservations at each site.
    pub(super) reservations: usize,
    /// Changes of the free capacity over time: what a plain list has to walk through.
    pub(super) breakpoints: usize,
    /// Microseconds for an estimate from lists, as the paper makes it for every request.
    pub(super) estimate: f64,
    /// Microseconds for a hold and its commit in a ledger, which keeps its calendar from request to request.
    pub(super) reserve: f64,
    /// Microseconds for the best of three.
    pub(super) best_of_three: f64,
}

pub(super) fn measure(quick: bool, clock: Clock<'_>) -> Vec<Point> {
    let counts = if quick { &COUNTS[..QUICK_COUNTS] } else { &COUNTS };
    let repeated = |count: usize| if quick || count > MANY { FEW_REPEATED } else { REPEATED };
    counts.iter().filter_map(|&count| point(count, repeated(count), clock)).collect()
}

fn point(count: usize, repeated: usize, clock: Clock<'_>) -> Option<Point> {
    let capacity = CLUSTERS[1].capacity();
    let calendar = calendar(count, capacity);
    let mut grid = Grid::new(3, &calendar)?;
    let mut prober = Prober::default();
    let mut begins = Stream::new(1, "migol/begins");
    let begins: Vec<Time> = (0..repeated).map(|_| Time(begins.whole(0, grid.horizon().0))).collect();
    // One after the other, since each would push what the others need out of the processor's caches.
    let best_of_three = middle(&begins, clock, |from, clock| {
        let (_, booked) = grid.best_of_three(from);
        let done = clock();
        let (site, id) = booked?;
        grid.give_back(Some(&site), id);
        Some(done)
    })?;
    let reserve = middle(&begins, clock, |from, clock| {
        let (_, booked) = grid.reserve(from);
        let done = clock();
        grid.give_back(None, booked?);
        Some(done)
    })?;
    let estimate = middle(&begins, clock, |from, clock| {
        estimate(&mut prober, capacity, &calendar, from)?;
        Some(clock())
    })?;
    let breakpoints = breakpoints(capacity, &calendar);
    Some(Point { reservations: count, breakpoints, estimate, reserve, best_of_three })
}

fn estimate(prober: &mut Prober, capacity: Capacity, reservations: &[Span], from: Time) -> Option<Time> {
    let cluster = Cluster { capacity, now: Time(0), running: &[], waiting: &[], reservations };
    prober.room(Policy::CONSERVATIVE, &cluster, true).earliest_fit(from, NEED, None)
}

fn breakpoints(capacity: Capacity, calendar: &[Span]) -> usize {
    let mut profile = Profile::new(capacity, Time(0));
    calendar.iter().for_each(|&span| profile.add(span));
    profile.breakpoints()
}

/// The middle of the times, in microseconds, that `act` takes from each of the begins until the moment that it answers. The
/// first time all over is not counted: it finds cold caches and no memory.
fn middle(
    begins: &[Time],
    clock: Clock<'_>,
    mut act: impl FnMut(Time, Clock<'_>) -> Option<Duration>,
) -> Option<f64> {
    act(*begins.first()?, clock)?;
    let mut times = Vec::with_capacity(begins.len());
    for &from in begins {
        let begun = clock();
        times.push(act(from, clock)?.saturating_sub(begun));
    }
    times.sort_unstable();
    Some(times[times.len() / 2].as_nanos() as f64 / 1_000.0)
}
