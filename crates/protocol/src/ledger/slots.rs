//! The slots of a request on one resource, and the offers made of them. Where a begin is as good as any other that fits, slots
//! are runs of begins, found by searches in the profile; where begins are rated one by one, they are begins spread over the
//! window.

use super::entry::Entry;
use super::fold::rest_from;
use super::sight::Sight;
use super::{Ledger, Offered, Reveal};
use crate::clock::{Millis, Moment};
use crate::ids::ReservationId;
use crate::life_cycle::State;
use crate::message::{Condition, Impact, Offer, Rating, Reservation, Slot};
use crate::request::Objective;
use bookahead_plan::placement::{self, Method, Request};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Starts, Time};
use std::cmp::Reverse;
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
        if request.latest_start() < request.earliest_start || request.capacity > self.on.capacity {
            return Vec::new();
        }
        if !self.fitting_is_enough() {
            return self.rated(request, search);
        }
        let mut found =
            if search.runs { self.covering(request, search) } else { self.spread(request, search) };
        if search.impacts && !self.on.view.waiting.is_empty() {
            self.add_impacts(request, &mut found);
        } else if search.impacts {
            found.iter_mut().for_each(|slot| slot.impact = Some(Impact::default()));
        }
        found
    }

    /// Whether every begin that fits is as good as any other.
    fn fitting_is_enough(&self) -> bool {
        let rules = &self.on.offered.placement;
        let by_vacancy = matches!(rules.method, Method::EarliestStart { .. });
        self.on.view.has_no_jobs() || (by_vacancy && rules.admission.is_unlimited())
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
        let (free, rules) = (self.free, &self.on.offered.placement);
        let slots = self.on.plan(self.memory, |prober, cluster| {
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
        self.on.offered.placement.slots.starts(request, self.on.now, self.free.room, begins);
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
        let policy = self.on.offered.placement.policy;
        let planned = self.on.plan(self.memory, |prober, cluster| {
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

/// A slot on one of the resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) resource: usize,
    pub(super) slot: Found,
    pub(super) free: Option<Capacity>,
    pub(super) cost: u64,
}

type Order = (i128, Reverse<Rating>, u64, Seconds, Time, usize);

impl Candidate {
    /// The least is the best. Ties go to the better rating, the lower cost, the less impact, the earlier, then to the
    /// resource that the site names first.
    pub(super) fn order(&self, objective: Objective) -> Order {
        let (rating, delay, start) = (self.slot.rating, self.slot.delay(), self.slot.start);
        let first = match objective {
            Objective::EarliestEnd => i128::from(start.0),
            Objective::BestAvailability => -i128::from(rating.0),
            Objective::LeastImpact => i128::from(delay.0),
            Objective::LowestCost => i128::from(self.cost),
        };
        (first, Reverse(rating), self.cost, delay, start, self.resource)
    }

    pub(super) fn span(&self, wanted: &Request) -> Span {
        Span::starting(self.slot.start, wanted.duration, wanted.capacity)
    }
}

/// The best of them by an objective, at most so many. Those whose begins are of special interest are told
/// first; of the others the best rated, or, where all are rated alike, some that are spread over the window.
pub(super) fn choose(mut all: Vec<Candidate>, objective: Objective, most: usize) -> Vec<Candidate> {
    if all.len() > most {
        all.sort_by_key(|candidate| {
            (Reverse(candidate.slot.named), candidate.slot.start, candidate.resource)
        });
        let named = all.iter().filter(|candidate| candidate.slot.named).count();
        let mut others = all.split_off(named.min(most));
        others.retain(|candidate| !candidate.slot.named);
        let ratings = || others.iter().map(|candidate| candidate.slot.rating);
        if ratings().min() == ratings().max() {
            all.extend(spread(&others, most - all.len()));
        } else {
            others.sort_by_key(|candidate| candidate.order(Objective::BestAvailability));
            all.extend(others.iter().take(most - all.len()));
        }
    }
    all.sort_by_key(|candidate| candidate.order(objective));
    all
}

/// So many of them, from the first to the last.
fn spread(all: &[Candidate], most: usize) -> impl Iterator<Item = Candidate> {
    let most = most.min(all.len());
    (0..most).map(move |at| all[if most == 1 { 0 } else { at * (all.len() - 1) / (most - 1) }])
}

impl Ledger {
    /// An offer of a slot, as far as the site tells.
    pub(super) fn offer(&self, candidate: &Candidate, wanted: &Request) -> Offer {
        let Reveal { ratings, impacts, slack, .. } = self.rules.reveal;
        let found = &candidate.slot;
        let slot = Slot {
            slack: if slack { found.slack } else { Seconds::ZERO },
            free: candidate.free,
            rating: ratings.then_some(found.rating),
            impact: found.impact.filter(|_| impacts),
            cost: candidate.cost,
            ..slot(&self.rules.resources[candidate.resource], candidate.span(wanted))
        };
        Offer { slots: vec![slot] }
    }

    /// A reservation as its owner may see it at a moment.
    pub(super) fn view(&self, now: Moment, id: ReservationId, entry: &Entry) -> Reservation {
        let Entry { owner, jobs, .. } = entry;
        let Entry { state, missing, version, given_up, .. } = *entry;
        // What was given back in the middle of a second is shown as gone.
        let capacity = entry.capacity_at(rest_from(now));
        let span = Span { interval: entry.interval(), capacity };
        let offered = self.rules.resources.iter().find(|offered| offered.resource.name == entry.resource);
        let slots = offered.map(|offered| Slot { cost: cost(offered, &entry.spans), ..slot(offered, span) });
        let prepared = offered.zip(entry.prepared()).and_then(|(offered, spans)| {
            let first = spans.iter().find(|span| rest_from(now) < span.interval.end).or(spans.last())?;
            let interval = Interval::new(spans.first()?.interval.begin, spans.last()?.interval.end);
            let span = Span { interval, capacity: first.capacity };
            Some(Slot { cost: cost(offered, spans), ..slot(offered, span) })
        });
        let until = match (&entry.waiting, state) {
            (_, State::Held) => Some(entry.deadline),
            (Some(waiting), _) if entry.is_prepared() => Some(waiting.until),
            _ => None,
        };
        Reservation {
            id,
            owner: owner.clone(),
            state,
            slots: slots.into_iter().collect(),
            held_for: until.map(|until| (until - now).max(Millis::ZERO)),
            prepared: prepared.into_iter().collect(),
            jobs: jobs.iter().map(|job| (0, *job)).collect(),
            missing: vec![missing],
            condition: Condition::of(&[missing]),
            losses: Vec::new(),
            replaced: Vec::new(),
            given_up,
            version,
        }
    }
}

/// A slot with nothing told about it.
fn slot(offered: &Offered, span: Span) -> Slot {
    let resource = &offered.resource;
    Slot {
        resource: resource.name.clone(),
        site: resource.site.clone(),
        joins: resource.joins.clone(),
        interval: span.interval,
        capacity: span.capacity,
        slack: Seconds::ZERO,
        free: None,
        rating: None,
        impact: None,
        cost: 0,
    }
}

/// What spans cost, in thousandths.
fn cost(offered: &Offered, spans: &[Span]) -> u64 {
    let cost = super::book::area(spans) * i128::from(offered.resource.price) / 3_600;
    u64::try_from(cost).unwrap_or(u64::MAX)
}
