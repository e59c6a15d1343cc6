//! Refusals that help: why, what stands in the way, and the smallest changes to the request with which it would fit,
//! each of them tried before it is told.

use super::prober::{Prober, Rules};
use super::relax::{Relaxation, Trial, busy_for, relaxations};
use super::{Method, Request};
use crate::planner::Cluster;
use crate::profile::{Need, Profile};
use crate::units::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        let second = Need { capacity, length: Seconds(1) };
        self.room.all_fits(window, second).map(|run| (run.last - run.first) + Seconds(1)).max()
    }

    fn would_do(&mut self, changed: &Request) -> Option<Time> {
        let slots = self.prober.probe(self.rules, self.cluster, changed);
        slots.iter().find(|slot| slot.availability > 0.0).map(|slot| slot.start)
    }
}
