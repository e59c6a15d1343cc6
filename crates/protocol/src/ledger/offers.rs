//! From slots to offers: which of many are told, in which order, and how much of them.

use super::Ledger;
use super::entry::Entry;
use super::slots::Found;
use super::{Offered, Reveal};
use crate::clock::{Millis, Moment};
use crate::ids::ReservationId;
use crate::life_cycle::State;
use crate::message::{Condition, Offer, Reservation, Slot};
use crate::request::Objective;
use bookahead_plan::placement::Request;
use bookahead_plan::{Capacity, Seconds, Span, Time};
use std::cmp::Reverse;

/// A slot on one of the resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) resource: usize,
    pub(super) slot: Found,
    pub(super) free: Option<Capacity>,
    pub(super) cost: u64,
}

impl Candidate {
    /// The least is the best. Ties go to the earlier, then to the resource that the site names first.
    pub(super) fn order(&self, objective: Objective) -> (i128, Time, usize) {
        let first = match objective {
            Objective::EarliestEnd => 0,
            Objective::BestAvailability => -i128::from(self.slot.rating.0),
            Objective::LeastImpact => i128::from(self.slot.delay().0),
            Objective::LowestCost => i128::from(self.cost),
        };
        (first, self.slot.start, self.resource)
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
        let Entry { owner, state, jobs, missing, version, .. } = entry.clone();
        let capacity = entry.capacity_at(now.second());
        let span = Span { interval: entry.interval(), capacity };
        let offered = self.rules.resources.iter().find(|offered| offered.resource.name == entry.resource);
        let slots = offered.map(|offered| Slot { cost: cost(offered, &entry.spans), ..slot(offered, span) });
        let held = state == State::Held;
        Reservation {
            id,
            owner,
            state,
            slots: slots.into_iter().collect(),
            held_for: held.then(|| (entry.deadline - now).max(Millis::ZERO)),
            jobs: jobs.into_iter().map(|job| (0, job)).collect(),
            missing: vec![missing],
            condition: Condition::of(&[missing]),
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
    let cost = super::spans::area(spans) * i128::from(offered.resource.price) / 3_600;
    u64::try_from(cost).unwrap_or(u64::MAX)
}
