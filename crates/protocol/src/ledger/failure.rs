//! Capacity that fails and comes back. With a batch system, the batch system reports which reservations lost
//! capacity ([`Ledger::kept`]). Without one, an overbooked resource takes capacity from the newest promises
//! first and from those in use last; they become degraded. Requests that are pending are refused. Capacity
//! that becomes free goes to degraded reservations first, oldest first. A lost ledger is rebuilt from the
//! reservations found in the batch system ([`Ledger::adopt`]).

use super::decision::View;
use super::entry::{Ticked, What};
use super::spans::{self, rest_from};
use super::state::Ledger;
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::life_cycle::State;
use crate::problem::{Problem, Why};
use crate::request::{Part, Request};
use crate::tres::Tres;
use bookahead_plan::{Capacity, Interval, Span, Time, placement};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Ledger {
    /// More capacity of a resource has failed, from now on. If the resource is overbooked then, reservations
    /// in `spared` lose capacity last: they are in use, or the batch system is known to keep them. With None,
    /// no reservation loses capacity yet.
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

    /// Failed capacity has come back. Degraded reservations get it first.
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

    /// Enforces the rules after a restart with less capacity: the newest promises lose capacity, as if the
    /// difference had failed.
    pub fn fit_rules(&mut self, now: Moment) -> Ticked {
        let mut course = self.tick(now);
        for at in 0..self.books.len() {
            self.hit(at, &BTreeSet::new(), &mut course);
            self.mend(self.latest, at, &mut course);
        }
        course
    }

    /// The batch system keeps `kept` capacity for a reservation. It becomes degraded, or recovers as far as
    /// there is room. Pending requests are ignored: nothing is kept for them yet.
    pub fn kept(&mut self, now: Moment, id: ReservationId, kept: Capacity) -> Ticked {
        let mut course = self.tick(now);
        let promised_to = |entry: &&super::Entry| entry.is_live() && entry.state != State::Requested;
        let Some(entry) = self.entries.get(&id).filter(promised_to) else { return course };
        let promised = entry.spans.iter().map(|span| span.capacity.0).max().unwrap_or(0);
        let missing = promised.saturating_sub(kept.0);
        let free = self.at(&entry.resource).map_or(0, |at| self.free_beside(id, at));
        // It recovers only as far as there is room: the lost capacity may have been promised to others
        // meanwhile.
        let missing = Capacity(missing.max(entry.missing.0.saturating_sub(free)));
        if missing != entry.missing {
            self.record_as_it_is(self.latest, What::Missing { id, capacity: missing }, &mut course);
        }
        course
    }

    /// Degraded reservations of a resource, oldest first.
    pub fn degraded(&self, resource: &Name) -> impl Iterator<Item = ReservationId> {
        let book = self.at(resource).map(|at| &self.books[at]);
        book.into_iter().flat_map(|book| book.degraded.iter().map(|(_, id)| *id))
    }

    /// How much of its promise a reservation could have for the rest of its time, next to other promises,
    /// running jobs and foreign reservations. A lower bound: jobs and foreign reservations count over the
    /// whole span that they overlap.
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
        let rest = spans::since(&entry.spans, rest_from(self.latest));
        rest.iter().map(could_have).min().unwrap_or(Capacity::ZERO)
    }

    fn free_beside(&self, id: ReservationId, at: usize) -> u32 {
        let Some(entry) = self.entries.get(&id) else { return 0 };
        let rest = spans::since(&entry.spans, rest_from(self.latest));
        let free = rest.iter().map(|span| self.books[at].profile.min_free(span.interval)).min();
        u32::try_from(free.unwrap_or(0)).unwrap_or(0)
    }

    /// Takes capacity from the newest promises until nothing is overbooked, and from `spared` ones last.
    fn hit(&mut self, at: usize, spared: &BTreeSet<ReservationId>, course: &mut Ticked) {
        // The current second cannot be given back.
        let (now, from) = (self.latest, rest_from(self.latest));
        if self.books[at].profile.min_free(Interval::new(from, Time::MAX)) >= 0 {
            return;
        }
        let mut newest_last: Vec<(bool, u64, ReservationId)> = Vec::new();
        // Sorted so that `pop` yields the newest reservation that is not spared first, and spared ones at the
        // end.
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
                // Missing capacity is counted against the whole promise, even where a span is larger.
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
                    // Its previous terms may have to lose capacity too.
                    newest_last.push(next);
                    continue;
                }
                _ => What::Missing { id, capacity: missing },
            };
            self.record_as_it_is(now, what, course);
        }
    }

    /// Gives free capacity to degraded reservations, oldest first. With a batch system they recover when it
    /// reports so ([`Ledger::kept`]).
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

    // Unlike `record`, does not call `mend`: this is called while capacity is being redistributed.
    fn record_as_it_is(&mut self, at: Moment, what: What, course: &mut Ticked) {
        let event = super::Event { at, what };
        course.changes.extend(self.apply(&event));
        course.events.push(event);
    }
}

impl Ledger {
    /// Whether no reservation was ever accepted.
    pub fn is_unused(&self) -> bool {
        self.accepted == 0
    }

    /// Takes over an existing reservation of the batch system as committed, exactly where it is. Does nothing
    /// if the id is known, the resource is unknown, or the reservation has ended.
    pub fn adopt(
        &mut self,
        now: Moment,
        id: ReservationId,
        owner: &Name,
        resource: &Name,
        spans: &[Span],
        tres: &Tres,
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
        let (named, tres) = (Some(resource.clone()), tres.clone());
        let part = Part { resource: named, tres, ..Part::new(wanted, offered.kind.clone()) };
        let request = Arc::new(Request::single(part));
        let (owner, resource, span) = (owner.clone(), offered.name.clone(), *first);
        // A held event carries one span. The others follow as new terms after the commit.
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
