//! Refusals that help: why, what stands in the way, and the smallest changes to the request with which it would fit,
//! each of them tried before it is told.

use super::prober::{Prober, Rules};
use super::{Method, Request};
use crate::planner::Cluster;
use crate::profile::{Need, Profile};
use crate::units::{Capacity, Interval, Seconds, Time};

/// The steps in which a busy resource says how much later to ask for, in seconds.
pub const BUSY_STEPS: [Seconds; 5] =
    [Seconds(300), Seconds(600), Seconds(900), Seconds(1_800), Seconds(2_700)];

/// A request is not put off further than this beyond the first room.
const FURTHEST: Seconds = Seconds(30 * 86_400);

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It takes more than there is.
    TooWide,
    /// Its window is shorter than its duration, or over.
    NoWindow,
    /// Running jobs, the first waiting job or reservations leave no room in the window.
    NoRoom,
    /// There is room, but taking it would do more to waiting jobs than the site allows, or the method finds no good slot.
    NotAdmitted,
}

impl Reason {
    /// A name for programs; it never changes.
    pub fn code(self) -> &'static str {
        match self {
            Reason::TooWide => "too-wide",
            Reason::NoWindow => "no-window",
            Reason::NoRoom => "no-room",
            Reason::NotAdmitted => "not-admitted",
        }
    }
}

/// What holds capacity at the beginning of the window, by its place in the cluster's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocker {
    /// A running job.
    Running(usize),
    /// A reservation.
    Reservation(usize),
    /// The waiting job that is planned to hold it.
    Waiting(usize),
}

/// A change with which the request would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relaxation {
    /// If it might end later by so much.
    Later(Seconds),
    /// If it took so much less time.
    Shorter(Seconds),
    /// If it took so much less capacity.
    Fewer(Capacity),
    /// If its window were earlier: it could begin then.
    Earlier(Time),
}

/// Why not, and what instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What is in the way when the window begins.
    pub blockers: Vec<Blocker>,
    /// The first step by which a later begin would do, if one does.
    pub busy_for: Option<Seconds>,
    /// What would do, each tried on its own.
    pub relaxations: Vec<Relaxation>,
}

impl Refusal {
    /// Of a request for which [`Prober::probe`] found no slot.
    pub fn of(prober: &mut Prober, rules: &Rules, cluster: &Cluster<'_>, request: &Request) -> Refusal {
        let from = request.earliest_start.max(cluster.now);
        let possible = request.capacity <= cluster.capacity && request.latest_start() >= from;
        let room = prober.room(rules.policy, cluster, prefers_local_jobs(rules));
        let mut search = Search { prober, rules, cluster, request, room, from };
        Refusal {
            reason: search.reason(possible),
            blockers: if possible { search.blockers() } else { Vec::new() },
            busy_for: search.busy_for(),
            relaxations: search.relaxations(),
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
    /// What reservations may take; with local jobs preferred, what all planned jobs leave.
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

    /// Whoever holds something while a slot at the beginning of the window would last.
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

    fn busy_for(&mut self) -> Option<Seconds> {
        BUSY_STEPS.into_iter().find(|&step| {
            let moved = Request {
                earliest_start: self.from + step,
                latest_end: self.from + step + self.request.duration,
                ..*self.request
            };
            self.would_do(&moved)
        })
    }

    fn relaxations(&mut self) -> Vec<Relaxation> {
        let found = [self.later(), self.shorter(), self.fewer(), self.earlier()];
        found.into_iter().flatten().collect()
    }

    /// Whether a probe of `changed` finds a slot.
    fn would_do(&mut self, changed: &Request) -> bool {
        let slots = self.prober.probe(self.rules, self.cluster, changed);
        slots.iter().any(|slot| slot.availability > 0.0)
    }

    /// Where there is room only later, the first room; where there is room that is not admitted, the first slot found
    /// in windows that are widened again and again.
    fn later(&mut self) -> Option<Relaxation> {
        let room = self.room.earliest_fit(self.from, self.request.need(), None)?;
        let mut latest_end = (room + self.request.duration).max(self.request.latest_end);
        let furthest = latest_end + FURTHEST;
        let mut step = self.rules.slots.gap.max(Seconds(1));
        while latest_end <= furthest {
            let wider = Request { latest_end, ..*self.request };
            let slots = self.prober.probe(self.rules, self.cluster, &wider);
            if let Some(slot) = slots.iter().find(|slot| slot.availability > 0.0) {
                let by = slot.start + self.request.duration - self.request.latest_end;
                let changed = Request { latest_end: self.request.latest_end + by, ..*self.request };
                return (by > Seconds::ZERO && self.would_do(&changed)).then_some(Relaxation::Later(by));
            }
            latest_end = latest_end + step;
            step = step + step;
        }
        None
    }

    fn shorter(&mut self) -> Option<Relaxation> {
        let second = Need { capacity: self.request.capacity, length: Seconds(1) };
        let window = Interval::new(self.from, self.request.latest_end);
        let longest =
            self.room.all_fits(window, second).map(|run| (run.last - run.first) + Seconds(1)).max()?;
        let duration = longest.min(Seconds(self.request.duration.0 - 1));
        let changed = Request { duration, ..*self.request };
        let by = Seconds(self.request.duration.0 - duration.0);
        (duration > Seconds::ZERO && self.would_do(&changed)).then_some(Relaxation::Shorter(by))
    }

    fn fewer(&mut self) -> Option<Relaxation> {
        let fits = |capacity: u32| {
            let need = Need { capacity: Capacity(capacity), length: self.request.duration };
            self.room.earliest_fit(self.from, need, Some(self.request.latest_end)).is_some()
        };
        let (mut fitting, mut too_much) = (0, self.request.capacity.0);
        while too_much - fitting > 1 {
            let middle = fitting + (too_much - fitting) / 2;
            if fits(middle) { fitting = middle } else { too_much = middle }
        }
        let changed = Request { capacity: Capacity(fitting), ..*self.request };
        let by = Capacity(self.request.capacity.0 - fitting);
        (fitting > 0 && self.would_do(&changed)).then_some(Relaxation::Fewer(by))
    }

    fn earlier(&mut self) -> Option<Relaxation> {
        let deadline = self.from + self.request.duration - Seconds(1);
        let start = self.room.earliest_fit(self.cluster.now, self.request.need(), Some(deadline))?;
        let changed =
            Request { earliest_start: start, latest_end: start + self.request.duration, ..*self.request };
        self.would_do(&changed).then_some(Relaxation::Earlier(start))
    }
}
