//! The smallest changes with which a request would be granted. Each is tried before it is suggested, on a
//! [`Trial`]: a cluster at one moment, or a site's ledger.

use super::prober::{Prober, Rules};
use super::{Method, Request};
use crate::planner::Cluster;
use crate::profile::{Need, Profile};
use crate::units::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// Delays tried to tell how long a resource is busy: 5, 10, 15, 30 and 45 minutes.
pub const BUSY_STEPS: [Seconds; 5] =
    [Seconds(300), Seconds(600), Seconds(900), Seconds(1_800), Seconds(2_700)];

/// How far beyond the first room a request is postponed at most, 30 days. Bounds the search.
const FURTHEST: Seconds = Seconds(30 * 86_400);

/// A change with which the request would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relaxation {
    /// A later end, by this much.
    Later(Seconds),
    /// A shorter duration, by this much.
    Shorter(Seconds),
    /// Less capacity, by this much.
    Fewer(Capacity),
    /// An earlier window: it could start at this time.
    Earlier(Time),
}

/// A place to try changed requests.
pub trait Trial {
    /// The earliest possible start of anything.
    fn first_begin(&self) -> Time;
    /// Shortest distance between two tried starts.
    fn gap(&self) -> Seconds;
    /// The earliest start of a need in the capacity available to reservations.
    fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time>;
    /// The longest time for which a capacity is free in a window.
    fn longest_vacancy(&self, window: Interval, capacity: Capacity) -> Option<Seconds>;
    /// The first start with which a changed request would be granted.
    fn would_do(&mut self, changed: &Request) -> Option<Time>;
}

/// All changes that would be granted, each on its own.
pub fn relaxations(trial: &mut impl Trial, request: &Request) -> Vec<Relaxation> {
    let from = request.earliest_start.max(trial.first_begin());
    let found = [
        later(trial, request, from),
        shorter(trial, request, from),
        fewer(trial, request, from),
        earlier(trial, request, from),
    ];
    found.into_iter().flatten().collect()
}

/// The smallest of [`BUSY_STEPS`] with which a later start would be granted.
pub fn busy_for(trial: &mut impl Trial, request: &Request) -> Option<Seconds> {
    let from = request.earliest_start.max(trial.first_begin());
    BUSY_STEPS.into_iter().find(|&step| {
        let earliest_start = from + step;
        let latest_end = earliest_start + request.duration;
        trial.would_do(&Request { earliest_start, latest_end, ..*request }).is_some()
    })
}

/// If there is room only later: the first room. If there is room that is not admitted: the first slot in
/// windows that grow step by step.
fn later(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let room = trial.earliest_fit(from, request.need(), None)?;
    let mut latest_end = (room + request.duration).max(request.latest_end);
    let furthest = latest_end + FURTHEST;
    let mut step = trial.gap().max(Seconds(1));
    while latest_end <= furthest {
        if let Some(start) = trial.would_do(&Request { latest_end, ..*request }) {
            // The window was wider than needed. Reduce it to this start, and check that the request is still
            // granted.
            let by = start + request.duration - request.latest_end;
            let changed = Request { latest_end: request.latest_end + by, ..*request };
            let does = by > Seconds::ZERO && trial.would_do(&changed).is_some();
            return does.then_some(Relaxation::Later(by));
        }
        latest_end = latest_end + step;
        // Doubled, so that 30 days need only a few trials.
        step = step + step;
    }
    None
}

fn shorter(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let longest = trial.longest_vacancy(Interval::new(from, request.latest_end), request.capacity)?;
    // At least one second less: the request as it is was refused.
    let duration = longest.min(Seconds(request.duration.0 - 1));
    let by = Seconds(request.duration.0 - duration.0);
    let changed = Request { duration, ..*request };
    let does = duration > Seconds::ZERO && trial.would_do(&changed).is_some();
    does.then_some(Relaxation::Shorter(by))
}

fn fewer(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let fits = |capacity: u32| {
        let need = Need { capacity: Capacity(capacity), length: request.duration };
        trial.earliest_fit(from, need, Some(request.latest_end)).is_some()
    };
    // Binary search: a smaller capacity fits wherever a larger one does.
    let (mut fitting, mut too_much) = (0, request.capacity.0);
    while too_much - fitting > 1 {
        let middle = fitting + (too_much - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_much = middle }
    }
    let by = Capacity(request.capacity.0 - fitting);
    let changed = Request { capacity: Capacity(fitting), ..*request };
    let does = fitting > 0 && trial.would_do(&changed).is_some();
    does.then_some(Relaxation::Fewer(by))
}

fn earlier(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    // A slot that ends by then starts before `from`.
    let deadline = from + request.duration - Seconds(1);
    let start = trial.earliest_fit(trial.first_begin(), request.need(), Some(deadline))?;
    let latest_end = start + request.duration;
    let changed = Request { earliest_start: start, latest_end, ..*request };
    trial.would_do(&changed).map(|_| Relaxation::Earlier(start))
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// It needs more capacity than the resource has.
    TooWide,
    /// Its window is shorter than its duration, or in the past.
    NoWindow,
    /// Running jobs, the first waiting job or reservations leave no room in the window.
    NoRoom,
    /// There is room, but taking it would delay waiting jobs more than the site allows, or the method finds
    /// no good slot.
    NotAdmitted,
}

impl Reason {
    /// Stable name for programs. Never changes.
    pub fn code(self) -> &'static str {
        match self {
            Reason::TooWide => "too-wide",
            Reason::NoWindow => "no-window",
            Reason::NoRoom => "no-room",
            Reason::NotAdmitted => "not-admitted",
        }
    }
}

/// Something that takes capacity at the beginning of the window, by its index in the cluster's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocker {
    /// A running job.
    Running(usize),
    /// A reservation.
    Reservation(usize),
    /// A waiting job, at its planned time.
    Waiting(usize),
}

/// A refusal with alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// What blocks the start of the window.
    pub blockers: Vec<Blocker>,
    /// The smallest of [`BUSY_STEPS`] with which a later start would be granted.
    pub busy_for: Option<Seconds>,
    /// Changes that would be granted, each on its own.
    pub relaxations: Vec<Relaxation>,
}

impl Refusal {
    /// For a request without any slot by [`Prober::probe`].
    pub fn of(prober: &mut Prober, rules: &Rules, cluster: &Cluster<'_>, request: &Request) -> Refusal {
        let from = request.earliest_start.max(cluster.now);
        let possible = request.capacity <= cluster.capacity && request.latest_start() >= from;
        let room = prober.room(rules.policy, cluster, prefers_local_jobs(rules));
        let mut search = Search { prober, rules, cluster, request, room, from };
        Refusal {
            reason: search.reason(possible),
            blockers: if possible { search.blockers() } else { Vec::new() },
            busy_for: busy_for(&mut search, request),
            relaxations: relaxations(&mut search, request),
        }
    }
}

fn prefers_local_jobs(rules: &Rules) -> bool {
    let by_method = matches!(rules.method, Method::EarliestStart { local_jobs_preferred: true });
    by_method || rules.admission.delayed_jobs == Some(0)
}

struct Search<'a, 'c> {
    prober: &'a mut Prober,
    rules: &'a Rules,
    cluster: &'a Cluster<'c>,
    request: &'a Request,
    /// Capacity available to reservations; with local jobs preferred, the part that all planned jobs leave.
    room: Profile,
    from: Time,
}

impl Search<'_, '_> {
    fn reason(&self, possible: bool) -> Reason {
        if self.request.capacity > self.cluster.capacity {
            return Reason::TooWide;
        }
        if !possible {
            return Reason::NoWindow;
        }
        match self.room.earliest_fit(self.from, self.request.need(), Some(self.request.latest_end)) {
            None => Reason::NoRoom,
            Some(_) => Reason::NotAdmitted,
        }
    }

    /// Everything that takes capacity during a slot at the beginning of the window.
    fn blockers(&mut self) -> Vec<Blocker> {
        let slot = Interval::starting(self.from, self.request.duration);
        let overlaps = |begin: Time, end: Time| begin < slot.end && slot.begin < end;
        let now = self.cluster.now;
        let running = self.cluster.running.iter().enumerate();
        let running =
            running.filter(|(_, job)| overlaps(now, job.expected_end)).map(|(at, _)| Blocker::Running(at));
        let reserved = self.cluster.reservations.iter().enumerate();
        let reserved = reserved
            .filter(|(_, span)| overlaps(span.interval.begin, span.interval.end))
            .map(|(at, _)| Blocker::Reservation(at));
        let planned = self.prober.planned(self.rules.policy, self.cluster);
        // Other waiting jobs are not protected, so they do not block a reservation.
        let all = prefers_local_jobs(self.rules);
        let first = planned.iter().zip(self.cluster.waiting).enumerate();
        let head = first.clone().min_by_key(|(_, (_, job))| (std::cmp::Reverse(job.priority), job.submit));
        let head = head.map(|(at, _)| at);
        let waiting = first
            .filter(|(at, (start, job))| {
                (all || Some(*at) == head) && overlaps(**start, **start + job.estimate)
            })
            .map(|(at, _)| Blocker::Waiting(at));
        running.chain(reserved).chain(waiting).collect()
    }
}

impl Trial for Search<'_, '_> {
    fn first_begin(&self) -> Time {
        self.cluster.now
    }

    fn gap(&self) -> Seconds {
        self.rules.slots.gap
    }

    fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        self.room.earliest_fit(from, need, deadline)
    }

    fn longest_vacancy(&self, window: Interval, capacity: Capacity) -> Option<Seconds> {
        // With a need of one second, a run of starts is as long as its vacancy.
        let second = Need { capacity, length: Seconds(1) };
        self.room.all_fits(window, second).map(|run| (run.last - run.first) + Seconds(1)).max()
    }

    fn would_do(&mut self, changed: &Request) -> Option<Time> {
        let slots = self.prober.probe(self.rules, self.cluster, changed);
        slots.iter().find(|slot| slot.availability > 0.0).map(|slot| slot.start)
    }
}
