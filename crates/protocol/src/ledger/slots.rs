//! The slots of a request on one resource. Where a begin is as good as any other that fits, they are runs of
//! begins, found by searches in the profile; where begins are rated one by one, they are begins spread over
//! the window.

use super::sight::Sight;
use crate::message::{Impact, Rating};
use bookahead_plan::placement::{self, Method, Request};
use bookahead_plan::{Capacity, Interval, Seconds, Starts, Time};
use std::ops::RangeInclusive;

/// How slots are looked for.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// At most so many where all are equally good.
    pub(super) most: usize,
    /// Begins that are of special interest.
    pub(super) starts: &'a [Time],
    /// Whether a slot may stand for all begins of a run.
    pub(super) runs: bool,
    /// Whether it must be known what each does to waiting jobs.
    pub(super) impacts: bool,
}

impl Search<'_> {
    /// For the first begin that can be had.
    pub(super) const FIRST: Search<'static> = Search { most: 1, starts: &[], runs: true, impacts: false };
}

/// A slot that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: Time,
    /// It may begin later by so much.
    pub(super) slack: Seconds,
    pub(super) rating: Rating,
    pub(super) impact: Option<Impact>,
    /// Whether its begin is of special interest.
    pub(super) named: bool,
}

impl Sight<'_> {
    /// Slots that can be had, in order of time.
    pub(super) fn slots(&mut self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        if request.latest_start() < request.earliest_start || request.capacity > self.capacity {
            return Vec::new();
        }
        if !self.fitting_is_enough() {
            return self.rated(request, search);
        }
        let mut found =
            if search.runs { self.covering(request, search) } else { self.spread(request, search) };
        if search.impacts && !self.view.waiting.is_empty() {
            self.add_impacts(request, &mut found);
        } else if search.impacts {
            found.iter_mut().for_each(|slot| slot.impact = Some(Impact::default()));
        }
        found
    }

    /// Whether every begin that fits is as good as any other.
    fn fitting_is_enough(&self) -> bool {
        let rules = &self.offered.placement;
        let by_vacancy = matches!(rules.method, Method::EarliestStart { .. });
        self.view.has_no_jobs() || (by_vacancy && rules.admission.is_unlimited())
    }

    fn covering(&self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        let (window, need) = (request.window(), request.need());
        let runs = if search.most == 1 {
            self.free.runs(window, need, 1)
        } else {
            self.free.cover(window, need, search.most)
        };
        let mut found: Vec<Found> = runs.into_iter().map(|run| Found::run(run, false)).collect();
        for &start in search.starts.iter().filter(|start| allowed(request).contains(start)) {
            let covered = |slot: &Found| slot.start <= start && start <= slot.start + slot.slack;
            if !found.iter().any(covered) && self.free.fits(start, need) {
                found.push(Found::run(self.free.run(start, need, request.latest_end), true));
            }
        }
        found.sort_by_key(|slot| slot.start);
        found
    }

    fn spread(&mut self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        let mut begins = self.begins(request, search);
        let earliest =
            self.free.earliest_fit(request.earliest_start, request.need(), Some(request.latest_end));
        if let Some(earliest) = earliest
            && let Err(at) = begins.binary_search_by_key(&earliest, |(start, _)| *start)
        {
            begins.insert(at, (earliest, false));
        }
        let fitting = begins.into_iter().filter(|(start, _)| self.free.fits(*start, request.need()));
        fitting.map(|(start, named)| Found::run(Starts { first: start, last: start }, named)).collect()
    }

    fn rated(&mut self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        let named = self.begins(request, search);
        let begins: Vec<Time> = named.iter().map(|(start, _)| *start).collect();
        let (free, rules) = (self.free, &self.offered.placement);
        let slots = self.plan(|prober, cluster| {
            let mut slots = prober.probe_in(free.room, rules, cluster, request, &begins);
            let mut until = prober.looked_until();
            // A probe knows nothing of shares.
            slots.retain(|slot| slot.availability > 0.0 && free.fits(slot.start, request.need()));
            if search.impacts && slots.iter().any(|slot| slot.impact.is_none()) {
                prober.add_impacts(rules.policy, cluster, request, &mut slots);
                until = until.max(prober.looked_until());
            }
            (slots, until)
        });
        let found = slots.into_iter().map(|slot| Found {
            start: slot.start,
            slack: Seconds::ZERO,
            rating: Rating::of(slot.availability),
            impact: slot.impact.as_ref().map(told),
            named: named.binary_search(&(slot.start, true)).is_ok(),
        });
        found.collect()
    }

    /// The begins to look at, in order, and whether each is of special interest.
    fn begins(&mut self, request: &Request, search: &Search<'_>) -> Vec<(Time, bool)> {
        let begins = &mut self.memory.begins;
        self.offered.placement.slots.starts(request, self.now, self.free.room, begins);
        let mut begins: Vec<(Time, bool)> =
            begins.iter().map(|start| (*start, search.starts.contains(start))).collect();
        let named = search.starts.iter().filter(|start| allowed(request).contains(start));
        begins.extend(named.map(|start| (*start, true)));
        begins.sort_unstable();
        begins.dedup();
        begins
    }

    fn add_impacts(&mut self, request: &Request, found: &mut [Found]) {
        let slot = |found: &Found| placement::Slot { start: found.start, availability: 1.0, impact: None };
        let policy = self.offered.placement.policy;
        let planned = self.plan(|prober, cluster| {
            let mut slots: Vec<placement::Slot> = found.iter().map(slot).collect();
            prober.add_impacts(policy, cluster, request, &mut slots);
            (slots, prober.looked_until())
        });
        for (found, slot) in found.iter_mut().zip(planned) {
            found.impact = slot.impact.as_ref().map(told);
        }
    }

    /// What is free throughout a slot, also if it begins later.
    pub(super) fn free_beside(&self, request: &Request, slot: &Found) -> Capacity {
        let interval = Interval::new(slot.start, slot.start + slot.slack + request.duration);
        Capacity(u32::try_from(self.free.room.min_free(interval).max(0)).unwrap_or(u32::MAX))
    }
}

impl Found {
    fn run(run: Starts, named: bool) -> Found {
        Found { start: run.first, slack: run.last - run.first, rating: Rating::BEST, impact: None, named }
    }

    /// By how much it delays waiting jobs in all.
    pub(super) fn delay(&self) -> Seconds {
        self.impact.map_or(Seconds::ZERO, |impact| impact.total_delay)
    }
}

/// The begins that a request allows.
fn allowed(request: &Request) -> RangeInclusive<Time> {
    request.earliest_start..=request.latest_start()
}

/// An impact without the names of jobs.
fn told(impact: &placement::Impact) -> Impact {
    Impact {
        delayed: u32::try_from(impact.delayed.len()).unwrap_or(u32::MAX),
        total_delay: impact.total_delay,
        longest_delay: impact.longest_delay,
    }
}
