//! The slots for a request on one resource, and the offers made from them. If all starts that fit are equally
//! good, slots are runs of starts, found in the profile. If starts are rated one by one, slots are single
//! starts spread over the window.

use super::entry::Entry;
use super::rules::{Offered, Reveal};
use super::sight::Sight;
use super::spans::{area, rest_from};
use super::state::Ledger;
use crate::clock::{Millis, Moment};
use crate::ids::ReservationId;
use crate::life_cycle::State;
use crate::message::{Condition, Impact, Offer, Rating, Reservation, Slot};
use crate::request::{Objective, Part};
use crate::tres::Tres;
use bookahead_plan::placement::{self, Method, Request};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Starts, Time};
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Parameters of a search for slots.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    /// Most slots, if all are equally good.
    pub(super) most: usize,
    /// Preferred starts.
    pub(super) starts: &'a [Time],
    /// Whether one slot may stand for a run of starts.
    pub(super) runs: bool,
    /// Whether to compute the impact on waiting jobs.
    pub(super) impacts: bool,
}

impl Search<'_> {
    /// Finds the first possible start.
    pub(super) const FIRST: Search<'static> = Search { most: 1, starts: &[], runs: true, impacts: false };
}

/// An available slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: Time,
    /// How much later it may start.
    pub(super) slack: Seconds,
    pub(super) rating: Rating,
    pub(super) impact: Option<Impact>,
    /// Whether it is a preferred start.
    pub(super) named: bool,
}

impl Sight<'_> {
    /// Available slots by start.
    pub(super) fn slots(&mut self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        if request.latest_start() < request.earliest_start || request.capacity > self.on.capacity {
            return Vec::new();
        }
        if !self.fitting_is_enough() {
            return self.rated(request, search);
        }
        let mut found =
            if search.runs { self.covering(request, search) } else { self.spread(request, search) };
        // Without waiting jobs nothing can be delayed, and planning is skipped.
        if search.impacts && !self.on.view.waiting.is_empty() {
            self.add_impacts(request, &mut found);
        } else if search.impacts {
            found.iter_mut().for_each(|slot| slot.impact = Some(Impact::default()));
        }
        found
    }

    /// Whether all starts that fit are equally good.
    fn fitting_is_enough(&self) -> bool {
        let rules = &self.on.offered.placement;
        let by_vacancy = matches!(rules.method, Method::EarliestStart { .. });
        let no_jobs = self.on.view.running.is_empty() && self.on.counted.is_empty();
        no_jobs || (by_vacancy && rules.admission.is_unlimited())
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
        let begins = self.begins(request, search);
        let begins = self.with_earliest(request, begins);
        let fitting = begins.into_iter().filter(|(start, _)| self.free.fits(*start, request.need()));
        fitting.map(|(start, named)| Found::run(Starts { first: start, last: start }, named)).collect()
    }

    fn rated(&mut self, request: &Request, search: &Search<'_>) -> Vec<Found> {
        let named = self.begins(request, search);
        // The starts to try follow the profile of the capacity. Things beside it have their own.
        let named = if self.free.tres.is_empty() { named } else { self.with_earliest(request, named) };
        let begins: Vec<Time> = named.iter().map(|(start, _)| *start).collect();
        let (free, rules) = (self.free, &self.on.offered.placement);
        // What a slot does to jobs that do not count is told, too.
        let all = self.on.counted.len() == self.on.view.waiting.len();
        let slots = self.on.plan(self.memory, self.on.counted, |prober, cluster| {
            let mut slots = prober.probe_in(free.room, rules, cluster, request, &begins);
            let mut until = prober.looked_until();
            // The prober does not know about shares.
            slots.retain(|slot| slot.availability > 0.0 && free.fits(slot.start, request.need()));
            if search.impacts && all && slots.iter().any(|slot| slot.impact.is_none()) {
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
        let mut found: Vec<Found> = found.collect();
        if search.impacts && !all {
            self.add_impacts(request, &mut found);
        }
        found
    }

    /// The starts to try, ascending, and whether each is preferred.
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
        let planned = self.on.plan(self.memory, &self.on.view.waiting, |prober, cluster| {
            let mut slots: Vec<placement::Slot> = found.iter().map(slot).collect();
            prober.add_impacts(policy, cluster, request, &mut slots);
            (slots, prober.looked_until())
        });
        for (found, slot) in found.iter_mut().zip(planned) {
            found.impact = slot.impact.as_ref().map(told);
        }
    }

    /// The starts with the earliest that fits, even if it lies between them.
    fn with_earliest(&self, request: &Request, mut begins: Vec<(Time, bool)>) -> Vec<(Time, bool)> {
        let earliest =
            self.free.earliest_fit(request.earliest_start, request.need(), Some(request.latest_end));
        if let Some(earliest) = earliest
            && let Err(at) = begins.binary_search_by_key(&earliest, |(start, _)| *start)
        {
            begins.insert(at, (earliest, false));
        }
        begins
    }

    /// Capacity free throughout a slot, even if it starts later.
    pub(super) fn free_beside(&self, request: &Request, slot: &Found) -> Capacity {
        let interval = slot.reach(request);
        Capacity(u32::try_from(self.free.room.min_free(interval).max(0)).unwrap_or(u32::MAX))
    }
}

impl Found {
    /// From its start to its end, if it starts as late as possible.
    pub(super) fn reach(&self, request: &Request) -> Interval {
        Interval::new(self.start, self.start + self.slack + request.duration)
    }

    fn run(run: Starts, named: bool) -> Found {
        Found { start: run.first, slack: run.last - run.first, rating: Rating::BEST, impact: None, named }
    }

    /// Sum of the delays of waiting jobs.
    pub(super) fn delay(&self) -> Seconds {
        self.impact.map_or(Seconds::ZERO, |impact| impact.total_delay)
    }
}

fn allowed(request: &Request) -> RangeInclusive<Time> {
    request.earliest_start..=request.latest_start()
}

/// An impact without job names, which must not leave the site.
fn told(impact: &placement::Impact) -> Impact {
    Impact {
        delayed: u32::try_from(impact.delayed.len()).unwrap_or(u32::MAX),
        total_delay: impact.total_delay,
        longest_delay: impact.longest_delay,
    }
}

/// A slot on one of the resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) resource: usize,
    pub(super) slot: Found,
    pub(super) free: Option<Capacity>,
    /// What is free of the requested things throughout it.
    pub(super) free_tres: Tres,
    pub(super) cost: u64,
    /// Its duration on this resource.
    pub(super) duration: Seconds,
}

type Order = (i128, Reverse<Rating>, u64, Seconds, Time, usize);

impl Candidate {
    /// Sort key, best first. Ties are broken by rating, cost, impact, start, then the site's order of
    /// resources.
    pub(super) fn order(&self, objective: Objective) -> Order {
        let (rating, delay, start) = (self.slot.rating, self.slot.delay(), self.slot.start);
        let first = match objective {
            Objective::EarliestEnd => i128::from((start + self.duration).0),
            Objective::BestAvailability => -i128::from(rating.0),
            Objective::LeastImpact => i128::from(delay.0),
            Objective::LowestCost => i128::from(self.cost),
        };
        (first, Reverse(rating), self.cost, delay, start, self.resource)
    }

    pub(super) fn span(&self, wanted: &Request) -> Span {
        Span::starting(self.slot.start, self.duration, wanted.capacity)
    }
}

/// At most `most` slots, best first. Preferred starts are kept first. Of the others the best rated are kept,
/// or, if all have the same rating, some spread over the window.
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
            others.truncate(most - all.len());
            all.extend(others);
        }
    }
    all.sort_by_key(|candidate| candidate.order(objective));
    all
}

/// At most `most` of them, evenly from first to last.
fn spread(all: &[Candidate], most: usize) -> impl Iterator<Item = Candidate> {
    let most = most.min(all.len());
    (0..most).map(move |at| all[if most == 1 { 0 } else { at * (all.len() - 1) / (most - 1) }].clone())
}

impl Ledger {
    /// An offer with the details that the site reveals.
    pub(super) fn offer(&self, candidate: &Candidate, part: &Part) -> Offer {
        let Reveal { ratings, impacts, slack, .. } = self.rules.reveal;
        let found = &candidate.slot;
        let slot = Slot {
            slack: if slack { found.slack } else { Seconds::ZERO },
            free: candidate.free,
            rating: ratings.then_some(found.rating),
            impact: found.impact.filter(|_| impacts),
            cost: candidate.cost,
            free_tres: candidate.free_tres.clone(),
            ..slot(&self.rules.resources[candidate.resource], candidate.span(&part.wanted), &part.tres)
        };
        Offer { slots: vec![slot] }
    }

    /// A reservation as its owner may see it at `now`.
    pub(super) fn view(&self, now: Moment, id: ReservationId, entry: &Entry) -> Reservation {
        let Entry { owner, jobs, .. } = entry;
        let Entry { state, missing, version, given_up, .. } = *entry;
        // Capacity released in the current second is shown as gone, although the profile keeps it until the
        // second ends.
        let capacity = entry.capacity_at(rest_from(now));
        let span = Span { interval: entry.interval(), capacity };
        let offered = self.rules.resources.iter().find(|offered| offered.resource.name == entry.resource);
        let slots = offered
            .map(|offered| Slot { cost: cost(offered, &entry.spans), ..slot(offered, span, entry.tres()) });
        let prepared = offered.zip(entry.prepared()).and_then(|(offered, spans)| {
            let first = spans.iter().find(|span| rest_from(now) < span.interval.end).or(spans.last())?;
            let interval = Interval::new(spans.first()?.interval.begin, spans.last()?.interval.end);
            let span = Span { interval, capacity: first.capacity };
            Some(Slot { cost: cost(offered, spans), ..slot(offered, span, entry.prepared_tres()) })
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
            refused: None,
            version,
            description: entry.current_request().description.clone(),
            shared_with: entry.current_request().shared_with.clone(),
            consents: entry.current_request().consents.clone(),
            created: Some(entry.accepted.second()),
            request: None,
        }
    }
}

/// A slot without ratings.
fn slot(offered: &Offered, span: Span, tres: &Tres) -> Slot {
    let resource = &offered.resource;
    Slot {
        resource: resource.name.clone(),
        site: resource.site.clone(),
        joins: resource.joins.clone(),
        interval: span.interval,
        capacity: span.capacity,
        tres: tres.clone(),
        slack: Seconds::ZERO,
        free: None,
        free_tres: Tres::default(),
        rating: None,
        impact: None,
        cost: 0,
    }
}

/// Price in thousandths; prices are per unit and hour.
fn cost(offered: &Offered, spans: &[Span]) -> u64 {
    let cost = area(spans) * i128::from(offered.resource.price) / 3_600;
    u64::try_from(cost).unwrap_or(u64::MAX)
}
