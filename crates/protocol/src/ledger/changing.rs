//! New terms for committed and active reservations. A plain change takes effect as soon as the new terms are
//! granted. A prepared change waits for its owner: old and new terms are both taken, at each instant the
//! larger of the two, until [`Call::FinishChange`](crate::Call::FinishChange) arrives or the deadline passes.
//! A broker uses this to change all parts of a co-reservation together or not at all.

use super::decision::{Context, Decided, Decision};
use super::entry::{Entry, What};
use super::placing::Wish;
use super::spans::{both, extended, lowered, rest_from, since, until};
use super::state::Ledger;
use crate::clock::{Millis, Moment};
use crate::ids::{ChangeId, ReservationId};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Call, Caller, Envelope, NewTerms};
use crate::problem::{Impossible, Problem, Why};
use crate::request::Request;
use crate::sharing::merged;
use crate::tres::Tres;
use bookahead_plan::{Capacity, Interval, Span, Time, placement};

/// New terms that have room.
struct Wanted {
    spans: Vec<Span>,
    /// The new request. None for an extension.
    request: Option<Box<Request>>,
    /// Whether only the end moves: capacity missing from the old terms is missing from the new ones too.
    extends: bool,
}

impl Ledger {
    pub(super) fn change(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        request: &Request,
    ) -> Decided {
        let Wanted { spans, extends, request } = self.changed(ctx, id, version, request)?;
        let entry = self.owned(id, ctx.caller)?;
        // An active reservation that only shrinks needs no new capacity, so the batch system is not asked. Nor is
        // it asked if the terms stay.
        let same = spans == entry.spans
            && (extends || entry.missing == Capacity::ZERO)
            && tres_of(request.as_deref(), entry) == entry.tres();
        if entry.state != State::Active && !same || lasts_until(&spans) > entry.end() {
            return Ok(self.want(ctx.now, id, Wanted { spans, extends, request }));
        }
        let released = (spans != entry.spans).then_some(What::Released { id, spans });
        let request = request.filter(|request| **request != *entry.current_request());
        let changed = request.map(|request| What::RequestChanged { id, request });
        Ok(Decision::show_after(id, released.into_iter().chain(changed).collect()))
    }

    pub(super) fn extend(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        end: Time,
    ) -> Decided {
        let wanted = self.extended(ctx, id, version, end)?;
        let same = self.entries.get(&id).is_some_and(|entry| entry.spans == wanted.spans);
        Ok(if same { Decision::show(id) } else { self.want(ctx.now, id, wanted) })
    }

    pub(super) fn prepare_change(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        terms: &NewTerms,
        prepares: (ChangeId, Millis),
    ) -> Decided {
        let (change, hold_for) = prepares;
        let entry = self.owned(id, ctx.caller)?;
        // A repetition must not start a second change, whether the first one is pending, prepared or
        // finished.
        match entry.preparing().filter(|preparing| preparing.change == change) {
            Some(preparing) if preparing.ready => return Ok(Decision::show(id)),
            Some(_) => return Ok(Decision::wait_after(id, Vec::new())),
            None => {}
        }
        match entry.last_change.filter(|(last, _)| *last == change) {
            Some((_, true)) => return Ok(Decision::show(id)),
            Some((_, false)) => return Err(Problem::new(Why::NotPrepared)),
            None => {}
        }
        let Wanted { spans, extends, request } = match terms {
            NewTerms::Request(request) => self.changed(ctx, id, version, request)?,
            NewTerms::Until(end) => self.extended(ctx, id, version, *end)?,
        };
        let entry = self.owned(id, ctx.caller)?;
        // New terms within the old ones cannot fail, so they are prepared without asking the batch system.
        let needs_no_more = entry.missing == Capacity::ZERO
            && both(&entry.spans, &spans) == entry.spans
            && entry.tres().lacks(tres_of(request.as_deref(), entry)).is_none();
        let prepares = Some(prepares);
        if let Some(limit) = self.rules.consent.filter(|_| !needs_no_more) {
            let until = self.answer_by(ctx.now, limit, lasts_until(&spans));
            return Ok(Decision::wait_after(
                id,
                vec![What::ChangeRequested { id, spans, extends, until, prepares, request }],
            ));
        }
        let until = self.prepared_until(ctx.now, entry, &spans, hold_for);
        let requested = What::ChangeRequested { id, spans, extends, until, prepares, request };
        Ok(Decision::show_after(id, vec![requested, What::ChangePrepared { id, until }]))
    }

    pub(super) fn finish_change(
        &self,
        caller: &Caller,
        id: ReservationId,
        change: ChangeId,
        accept: bool,
    ) -> Decided {
        let entry = self.owned(id, caller)?;
        if let Some(preparing) = entry.preparing().filter(|preparing| preparing.change == change) {
            let finished = match (accept, preparing.ready) {
                (true, true) => What::ChangeSettled { id },
                (true, false) => return Err(entry.busy()),
                (false, _) => What::ChangeGivenUp { id, change },
            };
            return Ok(Decision::show_after(id, vec![finished]));
        }
        match entry.last_change.filter(|(last, _)| *last == change) {
            Some((_, accepted)) if accepted == accept => Ok(Decision::show(id)),
            _ if accept && entry.state.is_over() => {
                Err(Problem::new(IllegalMove { from: entry.state, attempted: Move::SettleChange }))
            }
            Some(_) => Err(Problem::new(Why::NotPrepared)),
            None if accept => Err(Problem::new(Why::NotPrepared)),
            None if !entry.is_live() => Ok(Decision::show(id)),
            // Remembered, in case the prepare call arrives after this one: it is then refused.
            None => Ok(Decision::show_after(id, vec![What::ChangeGivenUp { id, change }])),
        }
    }

    /// The best terms for a request in place of the current ones.
    fn changed(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        request: &Request,
    ) -> Result<Wanted, Problem> {
        if self.entries.get(&id).is_some_and(|entry| entry.state == State::Active) {
            return self.changed_active(ctx, id, version, request);
        }
        let entry = self.changeable(id, ctx.caller, version, Move::RequestChange)?;
        if request.has_same_terms(entry.current_request()) {
            // Only the description or the sharing changes. Searched again, a flexible request might move.
            request.check()?;
            self.check_class(ctx, entry.current_request(), request)?;
            let (spans, kept) = (entry.spans.clone(), entry.kept_with(request));
            return Ok(Wanted { spans, extends: true, request: Some(kept) });
        }
        let (resource, roles) = (entry.resource.clone(), ctx.caller.roles.clone());
        // The owner's limits apply, even if an operator makes the change.
        let owner = Caller { user: entry.owner.clone(), roles };
        let wish = self.wish(Context { caller: &owner, ..ctx }, request, true)?;
        let kept = entry.kept_with(request);
        let wish = Wish { stays_on: Some(resource), ..self.wish_instead(ctx, id, wish)? };
        let best = self.best(&wish)?;
        Ok(Wanted { spans: vec![best.span(&wish.part.wanted)], extends: false, request: Some(kept) })
    }

    /// Whether the caller may use a new priority class. The present one may be kept.
    fn check_class(&self, ctx: Context<'_>, now: &Request, changed: &Request) -> Result<(), Why> {
        let class = changed.description.priority.as_deref();
        let kept = class == now.description.priority.as_deref();
        if kept { Ok(()) } else { self.rules.priorities.check(ctx.caller, class) }
    }

    /// The same wish with a reservation given up in exchange.
    pub(super) fn wish_instead<'a>(
        &self,
        ctx: Context<'_>,
        id: ReservationId,
        wish: Wish<'a>,
    ) -> Result<Wish<'a>, Problem> {
        let entry = self.owned(id, ctx.caller)?;
        let usage = self.usage_beside(&entry.owner, Some(entry.promised()));
        // The current second cannot be given back, so it cannot be taken in exchange either.
        Ok(Wish { usage, replaces: Some(id), first_begin: rest_from(ctx.now), ..wish })
    }

    /// An active reservation can move its end and reduce its capacity, nothing else.
    fn changed_active(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        request: &Request,
    ) -> Result<Wanted, Problem> {
        let entry = self.changeable(id, ctx.caller, version, Move::Extend)?;
        request.check()?;
        self.check_class(ctx, entry.current_request(), request)?;
        if request.has_same_terms(entry.current_request()) {
            let (spans, kept) = (entry.spans.clone(), entry.kept_with(request));
            return Ok(Wanted { spans, extends: true, request: Some(kept) });
        }
        let [part] = request.parts.as_slice() else {
            return Err(Problem::new(Why::OnePartOnly(request.parts.len())));
        };
        let here = self.rules.resources.iter().find(|offered| offered.resource.name == entry.resource);
        let duration = here.and_then(|offered| offered.resource.duration(part));
        let part = &part.lasting(duration.unwrap_or(part.wanted.duration));
        let impossible = |what| Err(Problem::new(Why::Unsupported(what)));
        let (wanted, rest) = (part.wanted, rest_from(ctx.now));
        let end = entry.begin() + wanted.duration;
        let elsewhere = part.resource.as_ref().is_some_and(|named| *named != entry.resource);
        if elsewhere || entry.begin() < wanted.earliest_start || end > wanted.latest_end {
            return impossible(Impossible::BeginOfActive);
        }
        if end <= rest {
            return impossible(Impossible::EndIsPast);
        }
        if entry.tres().lacks(&part.tres).is_some() {
            return impossible(Impossible::MoreOfActive);
        }
        let has = since(&entry.spans, rest).iter().map(|span| span.capacity).max();
        if has.is_some_and(|has| has < wanted.capacity) {
            return impossible(Impossible::MoreOfActive);
        }
        let spans = until(&lowered(&entry.spans, rest, wanted.capacity), end);
        let kept = Some(entry.kept_with(request));
        if end > entry.end() {
            return Ok(Wanted { request: kept, ..self.lengthened(ctx, id, &spans, end)? });
        }
        Ok(Wanted { spans, extends: true, request: kept })
    }

    /// A later end with the capacity at the current end. The current terms if they last that long already.
    fn extended(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        version: Option<u32>,
        end: Time,
    ) -> Result<Wanted, Problem> {
        let entry = self.changeable(id, ctx.caller, version, Move::Extend)?;
        let spans = entry.spans.clone();
        if end <= entry.end() {
            return Ok(Wanted { spans, extends: true, request: None });
        }
        self.lengthened(ctx, id, &spans, end)
    }

    /// The spans until a later end, if there is room for the extension.
    fn lengthened(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        spans: &[Span],
        end: Time,
    ) -> Result<Wanted, Problem> {
        let entry = self.owned(id, ctx.caller)?;
        let Some(last) = spans.last() else {
            return Ok(Wanted { spans: Vec::new(), extends: true, request: None });
        };
        let more = Span { interval: Interval::new(last.interval.end, end), capacity: last.capacity };
        let owner = Caller { user: entry.owner.clone(), roles: ctx.caller.roles.clone() };
        let spans = extended(spans, more);
        let mut request = (*entry.request).clone();
        if let Some(part) = request.parts.first_mut() {
            // Searched like a request for the extension alone, on the same resource. The current terms stay
            // taken.
            part.resource = Some(entry.resource.clone());
            part.measured_on = None;
            part.tres = entry.tres().clone();
            part.wanted = placement::Request {
                earliest_start: more.interval.begin,
                latest_end: end,
                duration: more.interval.length(),
                capacity: more.capacity,
            };
        }
        // It is the same reservation, so it must not count twice; its area does count.
        let usage = self.usage_beside(&owner.user, Some(&[]));
        let wish = self.wish(Context { caller: &owner, ..ctx }, &request, true)?;
        self.best(&Wish { usage, ..wish })?;
        Ok(Wanted { spans, extends: true, request: None })
    }

    /// A reservation whose terms the caller may change now.
    fn changeable(
        &self,
        id: ReservationId,
        caller: &Caller,
        version: Option<u32>,
        by: Move,
    ) -> Result<&Entry, Problem> {
        let entry = self.owned(id, caller)?;
        if entry.waiting.is_some() {
            return Err(entry.busy());
        }
        entry.state.after(by)?;
        match version.filter(|seen| *seen != entry.version) {
            Some(seen) => Err(Problem::new(Why::Changed { seen, now: entry.version })),
            None => Ok(entry),
        }
    }

    /// Gives back what `spans` leave out. A batch system is asked first: jobs inside may be in the way.
    pub(super) fn give_back(&self, now: Moment, id: ReservationId, spans: Vec<Span>) -> Decision {
        // A hold has no jobs, and cannot wait again.
        let held = self.entries.get(&id).is_some_and(|entry| entry.state == State::Held);
        if self.rules.consent.is_none() || held {
            return Decision::show_after(id, vec![What::Released { id, spans }]);
        }
        self.want(now, id, Wanted { spans, extends: true, request: None })
    }

    /// The spans that a call would leave a reservation with that has jobs, if the call lowers its capacity.
    pub fn lowered_by(&self, now: Moment, envelope: &Envelope) -> Option<(&Entry, Vec<Span>)> {
        let caller = &envelope.caller;
        let (id, spans) = match &envelope.call {
            Call::Release { id, part, from, keep, .. } => {
                (*id, self.released(now, caller, *id, *part, (*from, *keep)).ok()??)
            }
            Call::Change { id, request, .. }
            | Call::PrepareChange { id, terms: NewTerms::Request(request), .. } => {
                let ([part], Ok(entry)) = (request.parts.as_slice(), self.owned(*id, caller)) else {
                    return None;
                };
                (*id, lowered(&entry.spans, rest_from(now), part.wanted.capacity))
            }
            _ => return None,
        };
        let entry = self.entries.get(&id).filter(|entry| entry.waiting.is_none() && entry.is_live())?;
        (!entry.jobs.is_empty() && spans != entry.spans).then_some((entry, spans))
    }

    /// Requests new terms from the batch system, or takes them at once without one.
    fn want(&self, now: Moment, id: ReservationId, Wanted { spans, extends, request }: Wanted) -> Decision {
        let prepares = None;
        match self.rules.consent {
            Some(limit) => {
                let until = self.answer_by(now, limit, lasts_until(&spans));
                let requested = What::ChangeRequested { id, spans, extends, until, prepares, request };
                Decision::wait_after(id, vec![requested])
            }
            None => {
                let requested = What::ChangeRequested { id, spans, extends, until: now, prepares, request };
                Decision::show_after(id, vec![requested, What::ChangeSettled { id }])
            }
        }
    }
}

impl Entry {
    /// A new request with the webhook of the original one, which cannot be changed, and with earlier answers of guests.
    fn kept_with(&self, request: &Request) -> Box<Request> {
        let consents = merged(&request.shared_with, self.guests().consents, &request.consents);
        Box::new(Request { webhook: self.request.webhook.clone(), consents, ..request.clone() })
    }
}

/// The amounts beside the capacity in new terms. An extension keeps them.
fn tres_of<'a>(request: Option<&'a Request>, entry: &'a Entry) -> &'a Tres {
    request.and_then(|request| request.parts.first()).map_or(entry.tres(), |part| &part.tres)
}

fn lasts_until(spans: &[Span]) -> Time {
    spans.last().map_or(Time::MIN, |span| span.interval.end)
}
