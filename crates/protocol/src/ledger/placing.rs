//! Where a part could go: every suitable resource is looked at, within the limits of the caller. Nothing is
//! booked here.

use super::limits::Usage;
use super::offers::Candidate;
use super::rules::UserLimits;
use super::sight::Looker;
use super::slots::Search;
use super::view::Views;
use super::{Ledger, refusal};
use crate::clock::Moment;
use crate::flaw::Flaw;
use crate::ids::{Name, ReservationId};
use crate::life_cycle::Move;
use crate::message::Caller;
use crate::problem::{Limit, Problem, Why};
use crate::request::{Objective, Part, Request};
use bookahead_plan::placement::{self, Reason};
use bookahead_plan::{Need, Seconds, Span, Time};
use std::sync::Arc;

/// A part that somebody wants at a moment.
pub(super) struct Wish<'a> {
    pub(super) part: &'a Part,
    pub(super) objective: Objective,
    pub(super) user: &'a Name,
    pub(super) limits: UserLimits,
    /// What the user has already.
    pub(super) usage: Usage,
    pub(super) now: Moment,
    /// It may begin no earlier, whatever is wanted.
    pub(super) first_begin: Time,
    /// The reservation whose terms it is to become.
    pub(super) replaces: Option<ReservationId>,
}

impl Wish<'_> {
    /// What of `wanted` the caller may have at all.
    pub(super) fn allowed(&self, wanted: &placement::Request) -> Result<placement::Request, Why> {
        let earliest_start = wanted.earliest_start.max(self.first_begin);
        let allowed = self.limits.window(self.now, &placement::Request { earliest_start, ..*wanted })?;
        let area = Span::starting(Time(0), wanted.duration, wanted.capacity).area();
        self.limits.check_area(&self.usage, area)?;
        Ok(allowed)
    }

    pub(super) fn looker(&self, limit_share: bool) -> Looker<'_> {
        Looker {
            now: self.now.second(),
            user: self.user,
            share: self.limits.share.filter(|_| limit_share),
            without: self.replaces,
        }
    }
}

impl Ledger {
    /// The one part of a request that a site takes, with the limits of the caller. What is held must begin
    /// after now, so that there is time to commit it.
    pub(super) fn wish<'a>(
        &self,
        now: Moment,
        caller: &'a Caller,
        request: &'a Request,
        at_once: bool,
    ) -> Result<Wish<'a>, Why> {
        request.check()?;
        let [part] = request.parts.as_slice() else { return Err(Why::OnePartOnly(request.parts.len())) };
        let this_second = now.second();
        Ok(Wish {
            part,
            objective: request.objective,
            user: &caller.user,
            limits: self.rules.limits.of(caller),
            usage: self.usage_beside(&caller.user, None),
            now,
            first_begin: if at_once { this_second } else { this_second + Seconds(1) },
            replaces: None,
        })
    }

    /// The best slot.
    pub(super) fn best(&mut self, wish: &Wish<'_>, views: &Views) -> Result<Candidate, Problem> {
        let found = self.place(wish, views, &self.search_for_one(wish))?;
        let best = found.into_iter().min_by_key(|candidate| candidate.order(wish.objective));
        // There is one, or `place` would have said why not.
        best.ok_or_else(|| Problem::new(Why::NoSlot(Reason::NoRoom)))
    }

    /// The first one does where all that fit are equally good; the least impact must be looked for.
    fn search_for_one(&self, wish: &Wish<'_>) -> Search<'static> {
        let least_impact = wish.objective == Objective::LeastImpact;
        let most = if least_impact { self.rules.reveal.slots.max(2) } else { 1 };
        Search { most, runs: !least_impact, impacts: least_impact, ..Search::FIRST }
    }

    /// Slots on all suitable resources: at least one, or why there is none.
    pub(super) fn place(
        &mut self,
        wish: &Wish<'_>,
        views: &Views,
        search: &Search<'_>,
    ) -> Result<Vec<Candidate>, Problem> {
        let suitable = self.suitable(wish);
        if suitable.is_empty() {
            return Err(Problem::new(Why::NoSuchResource { part: 0, kind: wish.part.kind.clone() }));
        }
        wish.limits.check_count(&wish.usage).map_err(Problem::new)?;
        let allowed = wish.allowed(&wish.part.wanted).map_err(Problem::new)?;
        let found = self.found(&suitable, wish, &allowed, views, search, true);
        if !found.is_empty() {
            return Ok(found);
        }
        if wish.limits.share.is_some() {
            let beyond = self.found(&suitable, wish, &allowed, views, &Search::FIRST, false);
            if let Some(first) = beyond.first() {
                return Err(Problem::new(self.beyond_share(wish, views, first)));
            }
        }
        Err(refusal::refuse(self, wish, views, &suitable))
    }

    /// The resources that could serve it, if they had the time. What was promised on one resource stays
    /// there.
    fn suitable(&self, wish: &Wish<'_>) -> Vec<usize> {
        let bound_to = wish.replaces.and_then(|id| self.entries.get(&id)).map(|entry| &entry.resource);
        let offered = self.rules.resources.iter().enumerate();
        let suitable = offered.filter(|(_, offered)| {
            bound_to.is_none_or(|name| *name == offered.resource.name) && offered.resource.suits(wish.part)
        });
        suitable.map(|(at, _)| at).collect()
    }

    fn found(
        &mut self,
        suitable: &[usize],
        wish: &Wish<'_>,
        allowed: &placement::Request,
        views: &Views,
        search: &Search<'_>,
        limit_share: bool,
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        let (rules, free) = (Arc::clone(&self.rules), self.rules.reveal.free);
        for &at in suitable {
            let resource = &rules.resources[at].resource;
            let cost = resource.cost(wish.part);
            all.extend(self.look(at, &wish.looker(limit_share), views.on(&resource.name), |sight| {
                let found = sight.slots(allowed, search).into_iter();
                let candidate = |slot| {
                    let free = free.then(|| sight.free_beside(allowed, &slot));
                    Candidate { resource: at, slot, free, cost }
                };
                found.map(candidate).collect::<Vec<_>>()
            }));
        }
        all
    }

    /// How much of the resource the user would have, had he the slot that others could have.
    fn beyond_share(&mut self, wish: &Wish<'_>, views: &Views, slot: &Candidate) -> Why {
        let rules = Arc::clone(&self.rules);
        let resource = &rules.resources[slot.resource].resource;
        let wanted = wish.part.wanted;
        let span = Span::starting(slot.slot.start, wanted.duration, wanted.capacity);
        let has = self.look(slot.resource, &wish.looker(true), views.on(&resource.name), |sight| {
            sight.free.share.map_or(0, |share| share.has(span.interval))
        });
        let in_all = (i64::from(has) + i64::from(wanted.capacity.0)) * 100;
        let asked = (in_all + i64::from(resource.capacity.0) - 1) / i64::from(resource.capacity.0.max(1));
        Why::Limit { limit: Limit::Share, most: i64::from(wish.limits.share.unwrap_or(0)), asked }
    }

    /// Whether the room of a hold that expired is still there, from now on, and what is left of it.
    pub(super) fn still_free(
        &mut self,
        now: Moment,
        id: ReservationId,
        caller: &Caller,
        views: &Views,
    ) -> Result<Vec<Span>, Why> {
        let Some(entry) = self.entries.get(&id) else { return Err(Why::Unknown(id)) };
        entry.state.after(Move::Commit)?;
        let (resource, owner) = (entry.resource.clone(), entry.owner.clone());
        let rest = super::spans::since(&entry.spans, now.second());
        let owned = Caller { user: owner.clone(), roles: caller.roles.clone() };
        let limits = self.rules.limits.of(&owned);
        let usage = self.usage_beside(&owner, None);
        limits.check_count(&usage)?;
        limits.check_area(&usage, super::spans::area(&rest))?;
        let Some(at) = self.at(&resource) else { return Err(Why::Expired) };
        let looker = Looker { now: now.second(), user: &owner, share: limits.share, without: None };
        let free = self.look(at, &looker, views.on(&resource), |sight| {
            rest.iter().all(|span| sight.free.fits(span.interval.begin, need(span)))
        });
        let free = free || self.broken.is(Flaw::LateCommitsUnseen);
        if free && !rest.is_empty() { Ok(rest) } else { Err(Why::Expired) }
    }

    /// What is promised where a request is placed: to whom, for what, where and when.
    pub(super) fn placed(
        &self,
        caller: &Caller,
        request: &Request,
        best: &Candidate,
    ) -> (Name, Request, Name, Span) {
        let resource = self.rules.resources[best.resource].resource.name.clone();
        let span = best.span(&request.parts[0].wanted);
        (caller.user.clone(), request.clone(), resource, span)
    }
}

fn need(span: &Span) -> Need {
    Need { capacity: span.capacity, length: span.interval.length() }
}
