//! Capacity that fails, and comes back. A batch system that is asked says itself which reservations miss something
//! ([`Ledger::kept`]). Without one, where the book is overfull, the newest promises are hit first, and those that are in use
//! last: of them as much is marked as missing as must be. What only waits for the batch system is refused. Whenever room
//! appears, the oldest that miss something get it first. A book that was lost is made anew from what is kept free on the
//! machines ([`Ledger::adopt`]).

use super::entry::{Ticked, What};
use super::fold::rest_from;
use super::{Ledger, View, book};
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::life_cycle::State;
use crate::problem::{Problem, Why};
use crate::request::{Part, Request};
use bookahead_plan::{Capacity, Interval, Span, Time, placement};
use std::collections::BTreeSet;

impl Ledger {
    /// So much more of a resource has failed, from now on. Where the book is overfull then, all others are hit before those
    /// that are `spared`: they are in use, or a batch system is known to keep them. Without `spared` nobody is hit yet.
    pub fn lost(
        &mut self,
        now: Moment,
        resource: &Name,
        capacity: Capacity,
        spared: Option<&BTreeSet<ReservationId>>,
    ) -> Ticked {
        let mut course = self.tick(now);
        let Some(at) = self.at(resource) else { return course };
        let capacity = capacity.min(self.books[at].standing());
        if capacity > Capacity::ZERO {
            self.record(self.latest, What::Lost { resource: resource.clone(), capacity }, &mut course);
        }
        if let Some(spared) = spared {
            self.hit(at, spared, &mut course);
        }
        course
    }

    /// So much of what had failed is back.
    pub fn restored(&mut self, now: Moment, resource: &Name, capacity: Capacity) -> Ticked {
        let mut course = self.tick(now);
        let Some(at) = self.at(resource) else { return course };
        let capacity = capacity.min(self.books[at].lost);
        if capacity > Capacity::ZERO {
            self.record(self.latest, What::Restored { resource: resource.clone(), capacity }, &mut course);
            self.mend(self.latest, at, &mut course);
        }
        course
    }

    /// Where the rules offer less of a resource than was promised before they changed, the newest promises are hit as if the
    /// rest had failed.
    pub fn fit_rules(&mut self, now: Moment) -> Ticked {
        let mut course = self.tick(now);
        for at in 0..self.books.len() {
            self.hit(at, &BTreeSet::new(), &mut course);
            self.mend(self.latest, at, &mut course);
        }
        course
    }

    /// Whoever keeps the machines has only so much for a reservation; or all of it again, as far as there is room. For what is
    /// only requested nothing has to be kept.
    pub fn kept(&mut self, now: Moment, id: ReservationId, kept: Capacity) -> Ticked {
        let mut course = self.tick(now);
        let promised_to = |entry: &&super::Entry| entry.is_live() && entry.state != State::Requested;
        let Some(entry) = self.entries.get(&id).filter(promised_to) else { return course };
        let promised = entry.spans.iter().map(|span| span.capacity.0).max().unwrap_or(0);
        let missing = promised.saturating_sub(kept.0);
        let free = self.at(&entry.resource).map_or(0, |at| self.free_beside(id, at));
        let missing = Capacity(missing.max(entry.missing.0.saturating_sub(free)));
        if missing != entry.missing {
            self.record_as_it_is(self.latest, What::Missing { id, capacity: missing }, &mut course);
        }
        course
    }

    /// Those that miss something of a resource, the oldest first.
    pub fn degraded(&self, resource: &Name) -> impl Iterator<Item = ReservationId> {
        let book = self.at(resource).map(|at| &self.books[at]);
        book.into_iter().flat_map(|book| book.degraded.iter().map(|(_, id)| *id))
    }

    /// How much of its promise a reservation could have for the rest of its time, beside other promises and beside what a
    /// batch system shows. Rather too little than too much.
    pub fn could_have(&self, id: ReservationId, view: &View) -> Capacity {
        let Some(entry) = self.entries.get(&id) else { return Capacity::ZERO };
        let Some(at) = self.at(&entry.resource) else { return Capacity::ZERO };
        let could_have = |span: &Span| {
            let Span { interval, capacity } = *span;
            let own = i64::from(capacity.0.saturating_sub(entry.missing.0));
            let running = view.running.iter().filter(|job| job.expected_end > interval.begin);
            let foreign = view
                .foreign
                .iter()
                .filter(|other| other.interval.begin < interval.end && interval.begin < other.interval.end);
            let taken = running.map(|job| job.capacity).chain(foreign.map(|other| other.capacity));
            let free = self.books[at].profile.min_free(interval) + own;
            let free = free - taken.map(|capacity| i64::from(capacity.0)).sum::<i64>();
            Capacity(u32::try_from(free.max(0)).unwrap_or(u32::MAX)).min(capacity)
        };
        let rest = book::since(&entry.spans, rest_from(self.latest));
        rest.iter().map(could_have).min().unwrap_or(Capacity::ZERO)
    }

    /// How much more a reservation could have, for the rest of its time.
    fn free_beside(&self, id: ReservationId, at: usize) -> u32 {
        let Some(entry) = self.entries.get(&id) else { return 0 };
        let rest = book::since(&entry.spans, rest_from(self.latest));
        let free = rest.iter().map(|span| self.books[at].profile.min_free(span.interval)).min();
        u32::try_from(free.unwrap_or(0)).unwrap_or(0)
    }

    /// Takes from the newest promises until nothing is overfull, and from those that are spared last.
    fn hit(&mut self, at: usize, spared: &BTreeSet<ReservationId>, course: &mut Ticked) {
        // Of the second that has begun nothing can be given back.
        let (now, from) = (self.latest, rest_from(self.latest));
        if self.books[at].profile.min_free(Interval::new(from, Time::MAX)) >= 0 {
            return;
        }
        let mut newest_last: Vec<(bool, u64, ReservationId)> = Vec::new();
        for (_, id) in &self.books[at].begins {
            let idle = !spared.contains(id);
            newest_last.extend(self.entries.get(id).map(|entry| (idle, entry.serial, *id)));
        }
        newest_last.sort_unstable();
        while self.books[at].profile.min_free(Interval::new(from, Time::MAX)) < 0
            && let Some(next) = newest_last.pop()
        {
            let id = next.2;
            let Some(entry) = self.entries.get(&id) else { continue };
            let overfull = entry.takes().into_iter().map(|span| {
                let rest = Interval::new(span.interval.begin.max(from), span.interval.end);
                let free = self.books[at].profile.min_free(rest);
                let too_much = u32::try_from(-free.min(0)).unwrap_or(u32::MAX);
                // What is missing is missing of the whole promise, also where that is larger.
                let missing = too_much.min(span.capacity.0).saturating_add(entry.missing.0);
                if too_much == 0 { 0 } else { missing }
            });
            let missing = Capacity(overfull.max().unwrap_or(0));
            if missing <= entry.missing {
                continue;
            }
            let what = match entry.state {
                State::Requested | State::ChangeRequested => {
                    let problem = Problem::new(Why::NotGranted("capacity failed while it waited".to_owned()));
                    self.happen(now, vec![What::NotGranted { id, problem }], course);
                    // What it was promised before may have to be hit as well.
                    newest_last.push(next);
                    continue;
                }
                _ => What::Missing { id, capacity: missing },
            };
            self.record_as_it_is(now, what, course);
        }
    }

    /// Gives room to those that miss something, the oldest first. Where a batch system has to be asked, what is missing comes
    /// back when it is kept there ([`Ledger::kept`]), and not before.
    pub(super) fn mend(&mut self, now: Moment, at: usize, course: &mut Ticked) {
        if self.rules.consent.is_some() {
            return;
        }
        let degraded: Vec<ReservationId> = self.books[at].degraded.iter().map(|(_, id)| *id).collect();
        for id in degraded {
            let Some(entry) = self.entries.get(&id) else { continue };
            let missing = Capacity(entry.missing.0.saturating_sub(self.free_beside(id, at)));
            if missing < entry.missing {
                self.record_as_it_is(now, What::Missing { id, capacity: missing }, course);
            }
        }
    }

    fn record_as_it_is(&mut self, at: Moment, what: What, course: &mut Ticked) {
        let event = super::Event { at, what };
        course.changes.extend(self.apply(&event));
        course.events.push(event);
    }
}

impl Ledger {
    /// Whether nothing was ever promised by it.
    pub fn is_unused(&self) -> bool {
        self.accepted == 0
    }

    /// Takes over a reservation that is kept free already, as committed. It is not placed anew: it is where it is. Nothing
    /// happens where the id is known, there is no such resource, or it is over.
    pub fn adopt(
        &mut self,
        now: Moment,
        id: ReservationId,
        owner: &Name,
        resource: &Name,
        spans: &[Span],
    ) -> Ticked {
        let mut course = self.tick(now);
        let now = self.latest;
        let Some(at) = self.at(resource) else { return course };
        let left = spans.iter().filter(|span| span.interval.end > now.second() && span.area() > 0);
        let left: Vec<Span> = left.copied().collect();
        let (Some(first), Some(last)) = (left.first(), left.last()) else { return course };
        let known = self.entries.contains_key(&id) || self.denied_to(id, owner).is_some();
        if known {
            return course;
        }
        let offered = &self.rules.resources[at].resource;
        let wanted = placement::Request {
            earliest_start: first.interval.begin,
            latest_end: last.interval.end,
            duration: last.interval.end - first.interval.begin,
            capacity: first.capacity,
        };
        let part = Part { resource: Some(resource.clone()), ..Part::new(wanted, offered.kind.clone()) };
        let request = Request::single(part);
        let (owner, resource, span) = (owner.clone(), offered.name.clone(), *first);
        self.record(now, What::Held { id, owner, request, resource, span, deadline: now }, &mut course);
        self.record(now, What::Committed { id, jobs: Vec::new(), late: None }, &mut course);
        if left.len() > 1 {
            self.record(now, What::Released { id, spans: left }, &mut course);
        }
        self.hit(at, &BTreeSet::new(), &mut course);
        self.mend(self.latest, at, &mut course);
        course
    }
}
