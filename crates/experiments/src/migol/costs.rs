//! The cost of submitting a job: the number of calls and round trips, and the computing time of our code on this
//! machine, also by the number of active reservations. The clock is a parameter. Network, encryption and batch system
//! are not included.

use super::setup::CLUSTERS;
use super::sites::{Cost, Grid, calendar};
use crate::Estimate;
use bookahead_plan::placement::Prober;
use bookahead_plan::{Capacity, Cluster, Need, Policy, Profile, Seconds, Span, Time};
use bookahead_protocol::jobs::race::{
    Ask, Entry, Incoming, Order, Outgoing, Pace, Race, SiteReport, copy_of,
};
use bookahead_protocol::jobs::{Ending, Patience};
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId};
use bookahead_workload::streams::Stream;
use std::time::Duration;

/// Returns the time since a fixed moment.
pub(super) type Clock<'a> = &'a dyn Fn() -> Duration;

/// Active reservations at each site: the range of the paper, then far more.
const COUNTS: [usize; 7] = [175, 350, 525, 700, 7_000, 70_000, 100_000];
/// How many of [`COUNTS`] a quick run uses: the larger ones take too long.
const QUICK_COUNTS: usize = 5;
/// Groups of measurements. The median of each is used, because unlike the mean it is not changed by a few measurements
/// that the operating system interrupted; the groups give an interval.
const GROUPS: usize = 5;
/// Measurements of each value, a multiple of [`GROUPS`].
const REPEATED: usize = 105;
/// Measurements with more than [`MANY`] reservations, where building the lists takes long.
const FEW_REPEATED: usize = 15;
const MANY: usize = 10_000;
/// The job to place.
const NEED: Need = Need { capacity: Capacity(8), length: Seconds(3_600) };

/// Measurements with one number of reservations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Active reservations at each site.
    pub(super) reservations: usize,
    /// Changes of the free capacity over time, which a plain list has to scan.
    pub(super) breakpoints: usize,
    /// Microseconds for an estimate from lists, which the paper makes for every request.
    pub(super) estimate: Estimate,
    /// Microseconds for a hold and its commit in a ledger, which keeps its calendar between requests.
    pub(super) reserve: Estimate,
    /// Microseconds for the best of three.
    pub(super) best_of_three: Estimate,
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
    // Measured in separate loops, because each would evict the data of the others from the processor caches.
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

/// The time in microseconds from a call of `act` until the moment that it returns, over all `begins`. A first call is
/// not measured, because it has cold caches and allocates memory.
fn middle(
    begins: &[Time],
    clock: Clock<'_>,
    mut act: impl FnMut(Time, Clock<'_>) -> Option<Duration>,
) -> Option<Estimate> {
    act(*begins.first()?, clock)?;
    let mut times = Vec::with_capacity(begins.len());
    for &from in begins {
        let begun = clock();
        times.push(act(from, clock)?.saturating_sub(begun));
    }
    Some(medians(&times))
}

/// The median of each group of measurements, in microseconds.
fn medians(times: &[Duration]) -> Estimate {
    let median = |group: &[Duration]| {
        let mut group = group.to_vec();
        group.sort_unstable();
        group[group.len() / 2].as_nanos() as f64 / 1_000.0
    };
    Estimate::of(&times.chunks((times.len() / GROUPS).max(1)).map(median).collect::<Vec<_>>())
}

/// Reservations in the background; the paper has up to ten jobs and reservations.
const BACKGROUND: usize = 10;
/// Submissions of each way, a multiple of [`GROUPS`].
const SUBMITTED: usize = 105;

/// Costs by way of submission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    /// One reservation: hold and commit.
    pub(super) reservation: Way,
    /// The best of three, with three sites.
    pub(super) best_of_three: Way,
    /// The best of three, with a hundred sites.
    pub(super) of_a_hundred: Way,
    /// Number of calls from the submission of three copies until one has run and none is left.
    pub(super) flooding: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    pub(super) cost: Cost,
    /// Measured time of the calls to broker and sites together, in microseconds.
    pub(super) computing: Estimate,
}

/// Counts calls and measures times. None if nothing could be booked.
pub(super) fn measure_costs(clock: Clock<'_>) -> Option<Costs> {
    let calendar = calendar(BACKGROUND, CLUSTERS[1].capacity());
    let (mut few, mut many) = (Grid::new(3, &calendar)?, Grid::new(100, &calendar)?);
    let best = |grid: &mut Grid| {
        let (cost, booked) = grid.best_of_three(Time(0));
        booked.map(|(site, id)| (cost, Some(site), id))
    };
    let one = |grid: &mut Grid| {
        let (cost, booked) = grid.reserve(Time(0));
        booked.map(|id| (cost, None, id))
    };
    Some(Costs {
        reservation: way(&mut few, clock, one)?,
        best_of_three: way(&mut few, clock, best)?,
        of_a_hundred: way(&mut many, clock, best)?,
        flooding: flooding(),
    })
}

fn way(
    grid: &mut Grid,
    clock: Clock<'_>,
    submit: impl Fn(&mut Grid) -> Option<(Cost, Option<Name>, ReservationId)>,
) -> Option<Way> {
    let mut times = Vec::new();
    // Not measured, like the first call of `middle`.
    let (mut counted, site, id) = submit(grid)?;
    grid.give_back(site.as_ref(), id);
    for _ in 0..SUBMITTED {
        let begun = clock();
        let (cost, site, id) = submit(grid)?;
        times.push(clock() - begun);
        counted = cost;
        grid.give_back(site.as_ref(), id);
    }
    Some(Way { cost: counted, computing: medians(&times) })
}

const JOB: JobId = JobId(1);

/// The number of calls for a job that is sent to three sites: the second site is ready to start it a moment later, and
/// has finished it at the next poll.
fn flooding() -> usize {
    let pace = Pace {
        patience: Patience::default(),
        look_every: Millis::seconds(1),
        silence: Millis::seconds(30),
        doubt: Millis::seconds(10),
    };
    let (mut race, mut now, mut calls) = (Race::default(), Moment(0), 0);
    let mut sent = race.start(now, three_sites(), &pace).send;
    while !race.is_over() {
        if sent.is_empty() {
            // A race always has a timer until it is over.
            now = race.next_timer(&pace).unwrap_or(Moment::MAX);
            sent = race.tick(now, &pace).send;
        }
        calls += sent.len();
        for Outgoing { to, copy, ask } in std::mem::take(&mut sent) {
            let report = answer(&to, ask, race.granted());
            let answer = Incoming { from: to, copy, asked: ask, report };
            sent.extend(race.on_answer(now, answer, &pace).send);
        }
    }
    calls
}

/// The site that is ready first.
const FIRST: &str = "b";

fn three_sites() -> Order {
    let entry = |(place, site)| Entry {
        site: Name::from(site),
        resource: "cluster".into(),
        copy: copy_of(JOB, place),
        limit: Seconds(3_600),
        start_by: None,
    };
    Order {
        entries: ["a", FIRST, "c"].into_iter().enumerate().map(entry).collect(),
        at_once: 3,
        claims: false,
        retries: 0,
    }
}

/// The answer of a site that follows all calls.
fn answer(site: &Name, ask: Ask, granted: Option<&Name>) -> SiteReport {
    let (since, until) = (Time(1), Time(3_600));
    match ask {
        Ask::Look if granted == Some(site) => {
            SiteReport::Ran { since: Some(since), until, how: Ending::Finished }
        }
        Ask::Look if site.as_str() == FIRST => SiteReport::Claims,
        Ask::Submit | Ask::Look => SiteReport::Waits,
        Ask::Go => SiteReport::Runs { since },
        Ask::Drop => SiteReport::NeverRan { why: "dropped".to_owned(), again: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_few_slow_measurements_change_no_median() {
        let mut times = vec![Duration::from_micros(4); 15];
        // One of each group of three.
        times.iter_mut().step_by(3).for_each(|time| *time = Duration::from_secs(1));
        assert_eq!(medians(&times), Estimate { mean: 4.0, margin: Some(0.0), runs: 5 });
    }

    #[test]
    fn the_cost_of_each_way_by_hand() {
        let costs = measure_costs(&|| Duration::ZERO).unwrap();
        assert_eq!(costs.reservation.cost, Cost { calls: 2, rounds: 2 }, "hold, commit");
        assert_eq!(
            costs.best_of_three.cost,
            Cost { calls: 6, rounds: 2 },
            "three holds; a commit and two cancels"
        );
        assert_eq!(costs.of_a_hundred.cost, costs.best_of_three.cost);
        // Three submissions, a look at each, a go and two drops, and a look that finds it over.
        assert_eq!(costs.flooding, 3 + 3 + 3 + 1);
    }
}
