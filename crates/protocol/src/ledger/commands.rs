//! The decision for each call to a site. Deciding changes nothing; the result is a list of events and an
//! answer.

use super::decision::{Context, Decided, Decision};
use super::entry::{Denied, Entry, Then, Waiting, What};
use super::slots::{Search, choose};
use super::spans::{lowered, rest_from, since};
use super::state::Ledger;
use crate::clock::{Millis, Moment};
use crate::description::Description;
use crate::digest::Digest;
use crate::ids::{JobId, Name, ReservationId};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Answer, Call, Caller, Condition, Reservation};
use crate::problem::{Impossible, NotReleased, Problem, Why};
use crate::request::{Objective, Request};
use crate::sharing::Consents;
use bookahead_plan::{Capacity, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most jobs attached to one reservation. Bounds the size of an entry.
const MOST_JOBS: usize = 65_536;

impl Ledger {
    pub(super) fn decide(&mut self, ctx: Context<'_>, call: &Call) -> Decision {
        let decided = match call {
            Call::Probe { request, most, starts } => self.probe(ctx, request, *most, starts),
            Call::Reserve { id, request, hold_for, book } => {
                self.reserve(ctx, *id, request, *hold_for, *book)
            }
            Call::Hold { id, hold_for } => self.hold_longer(ctx, *id, *hold_for),
            Call::Extend { id, version, end } => self.extend(ctx, *id, *version, *end),
            Call::Commit { id, jobs } => self.commit(ctx, *id, jobs),
            Call::Attach { id, part, job } => self.attach(ctx.caller, *id, *part, *job),
            Call::Change { id, version, request } => self.change(ctx, *id, *version, request),
            Call::PrepareChange { id, change, version, terms, hold_for } => {
                self.prepare_change(ctx, *id, *version, terms, (*change, *hold_for))
            }
            Call::FinishChange { id, change, accept } => {
                self.finish_change(ctx.caller, *id, *change, *accept)
            }
            Call::Release { id, part, from, keep, .. } => {
                self.release(ctx.now, ctx.caller, *id, *part, (*from, *keep))
            }
            Call::Cancel { id } => self.cancel(ctx.caller, *id),
            Call::Show { id } => self.show(ctx, *id),
        };
        decided.unwrap_or_else(Decision::say)
    }

    fn show(&self, ctx: Context<'_>, id: ReservationId) -> Decided {
        let entry = self.usable(id, ctx.caller)?;
        let request = Some(Box::new(entry.current_request().clone()));
        let shown = Reservation { request, ..self.view(ctx.now, id, entry) };
        Ok(Decision::say(Answer::Reservation(shown)))
    }

    fn probe(&mut self, ctx: Context<'_>, request: &Request, most: u32, starts: &[Time]) -> Decided {
        let wish = self.wish(ctx, request, false)?;
        // A probe for new terms counts the room of the old ones as free, but only for their owner.
        let lives =
            |id: &ReservationId| self.owned(*id, ctx.caller).is_ok_and(|entry| entry.state.holds_capacity());
        let wish = match wish.part.changes.filter(lives) {
            Some(id) => self.wish_instead(ctx, id, wish)?,
            None => wish,
        };
        let reveal = self.rules.reveal;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(reveal.slots);
        let impacts = reveal.impacts || request.objective == Objective::LeastImpact;
        let starts = &starts[..starts.len().min(reveal.slots)];
        let search = Search { most: most.max(1), starts, runs: reveal.slack, impacts };
        let found = self.place(&wish, &search)?;
        let chosen = choose(found, request.objective, most);
        let offers = chosen.iter().map(|candidate| self.offer(candidate, wish.part)).collect();
        Ok(Decision::say(Answer::Offers(offers)))
    }

    fn reserve(
        &mut self,
        ctx: Context<'_>,
        id: ReservationId,
        request: &Request,
        hold_for: Millis,
        book: bool,
    ) -> Decided {
        if let Some(decision) = self.known(ctx.caller, id, request) {
            return decision;
        }
        let wish = self.wish(ctx, request, book).map_err(Problem::new);
        match wish.and_then(|wish| self.best(&wish)) {
            Ok(best) => {
                let (owner, span) = (ctx.caller.user.clone(), best.span(&request.parts[0].wanted));
                let resource = self.rules.resources[best.resource].resource.name.clone();
                let request = Arc::new(request.clone());
                if let Some(limit) = self.rules.consent {
                    // A booking may be granted after its start, as long as some of it remains. A hold must be
                    // committed before.
                    let latest = if book { span.interval.end } else { span.interval.begin };
                    let until = self.answer_by(ctx.now, limit, latest);
                    let asks = What::Requested { id, owner, request, resource, span, hold_for, book, until };
                    return Ok(Decision::wait_after(id, vec![asks]));
                }
                // Committed at once, so the hold time is zero. It does not count in the statistics of holds.
                let hold_for = if book { Millis::ZERO } else { hold_for };
                let deadline = self.deadline(ctx.now, hold_for, best.slot.start);
                let held = What::Held { id, owner, request, resource, span, deadline };
                let committed = book.then(|| What::Committed { id, jobs: Vec::new(), late: None });
                Ok(Decision::show_after(id, [held].into_iter().chain(committed).collect()))
            }
            // The refusal is recorded under the id, so a repetition gets the same answer even if room appears
            // later.
            Err(problem) => {
                let owner = ctx.caller.user.clone();
                let request = Digest::of(request);
                let refused = What::Refused { id, owner, request, problem: problem.clone() };
                Ok(Decision::say_after(vec![refused], problem))
            }
        }
    }

    /// The answer for an id that is in use or denied.
    fn known(&self, caller: &Caller, id: ReservationId, request: &Request) -> Option<Decided> {
        if let Some(entry) = self.entries.get(&id) {
            let same = caller.may_act_for(&entry.owner) && entry.is_of(request);
            return Some(match (same, entry.state) {
                (false, _) => Err(Problem::new(Why::IdTaken(id))),
                // A late commit is pending. Its result is no answer to a reserve call.
                (true, State::Requested) if entry.is_committed_late() => Err(Problem::new(Why::Busy)),
                (true, State::Requested) => Ok(Decision::wait_after(id, Vec::new())),
                (true, _) => Ok(Decision::show(id)),
            });
        }
        let denied = self.denied_to(id, &caller.user)?;
        let problem = match &denied.refusal {
            None => Problem::new(Why::CancelledBefore(id)),
            Some((known, problem)) if *known == Digest::of(request) => problem.clone(),
            Some(_) => Problem::new(Why::IdTaken(id)),
        };
        Some(Err(problem))
    }

    fn hold_longer(&self, ctx: Context<'_>, id: ReservationId, hold_for: Millis) -> Decided {
        let entry = self.owned(id, ctx.caller)?;
        match entry.state {
            State::Held => {
                // The whole hold, prolongations included, is limited: otherwise a client could block a
                // cluster without ever committing.
                let most = entry.accepted + self.rules.holds.longest;
                let deadline = self.deadline(ctx.now, hold_for, entry.begin()).min(most);
                let longer = (deadline > entry.deadline).then_some(What::HeldLonger { id, deadline });
                Ok(Decision::show_after(id, longer.into_iter().collect()))
            }
            // Committed: it is held until its end anyway.
            State::Committed | State::ChangeRequested | State::Active => Ok(Decision::show(id)),
            State::Requested => Err(Problem::new(Why::Busy)),
            State::Expired => Err(Problem::new(Why::Expired)),
            from => Err(Problem::new(IllegalMove { from, attempted: Move::Hold })),
        }
    }

    fn commit(&mut self, ctx: Context<'_>, id: ReservationId, jobs: &[JobId]) -> Decided {
        let entry = self.owned(id, ctx.caller)?;
        let jobs = new_jobs(entry, jobs)?;
        match &entry.waiting {
            Some(Waiting { then: Then::CommitLate(with), .. })
                if jobs.iter().all(|job| with.contains(job)) =>
            {
                return Ok(Decision::wait_after(id, Vec::new()));
            }
            Some(_) => return Err(entry.busy()),
            None => {}
        }
        entry.state.after(Move::Commit)?;
        // A late commit must find its capacity free again. On a committed reservation, a commit only attaches
        // jobs.
        let late = match entry.state {
            State::Expired if !self.rules.holds.late_commits => return Err(Problem::new(Why::Expired)),
            State::Expired => Some(self.still_free(ctx, id)?),
            State::Committed | State::Active if jobs.is_empty() => return Ok(Decision::show(id)),
            _ => None,
        };
        if let (Some(limit), Some(spans)) = (self.rules.consent, &late) {
            let end = spans.last().map_or(Time::MIN, |span| span.interval.end);
            let until = self.answer_by(ctx.now, limit, end);
            let asks = What::CommitRequested { id, jobs, spans: spans.clone(), until };
            return Ok(Decision::wait_after(id, vec![asks]));
        }
        Ok(Decision::show_after(id, vec![What::Committed { id, jobs, late }]))
    }

    fn attach(&self, caller: &Caller, id: ReservationId, part: usize, job: JobId) -> Decided {
        let entry = self.usable(id, caller)?;
        only_part(part)?;
        if entry.current_request().must_accept(&caller.user) {
            return Err(Problem::new(Why::Unsupported(Impossible::InvitationOpen)));
        }
        if entry.state == State::ChangeRequested {
            return Err(entry.busy());
        }
        if matches!(entry.state, State::Requested | State::Held | State::Expired) {
            let why = Why::Unsupported(Impossible::JobsOfAHold);
            return Err(Problem::new(why));
        }
        entry.state.after(Move::Commit)?;
        let jobs = new_jobs(entry, &[job])?;
        if jobs.is_empty() {
            return Ok(Decision::show(id));
        }
        Ok(Decision::show_after(id, vec![What::Committed { id, jobs, late: None }]))
    }

    fn release(
        &self,
        now: Moment,
        caller: &Caller,
        id: ReservationId,
        part: Option<usize>,
        what: (Time, Capacity),
    ) -> Decided {
        let entry = self.owned(id, caller)?;
        match self.released(now, caller, id, part, what)? {
            // Keeping nothing from the start or from now on means giving it up.
            None if entry.state == State::Active => {
                Ok(Decision::show_after(id, vec![What::Completed { id }]))
            }
            None => {
                let because = entry.given_up_by(caller);
                Ok(Decision::show_after(id, vec![What::Cancelled { id, because }]))
            }
            Some(spans) if spans == entry.spans || spans.is_empty() => Ok(Decision::show(id)),
            Some(spans) => Ok(self.give_back(now, id, spans)),
        }
    }

    /// The spans that a release leaves; None if it ends the reservation.
    pub(super) fn released(
        &self,
        now: Moment,
        caller: &Caller,
        id: ReservationId,
        part: Option<usize>,
        (from, keep): (Time, Capacity),
    ) -> Result<Option<Vec<Span>>, Problem> {
        let entry = self.owned(id, caller)?;
        only_part(part.unwrap_or(0))?;
        if !entry.is_live() {
            return Err(Problem::new(IllegalMove { from: entry.state, attempted: Move::Complete }));
        }
        if entry.waiting.is_some() {
            return Err(entry.busy());
        }
        let rest = rest_from(now);
        if from >= entry.end() {
            return Err(Problem::new(Why::NotReleased(NotReleased::AfterEnd)));
        }
        let left = since(&entry.spans, from.max(rest));
        let most = left.iter().map(|span| span.capacity).max();
        if let Some(has) = most.filter(|has| keep > *has) {
            return Err(Problem::new(Why::NotReleased(NotReleased::KeepsMore { has, keep })));
        }
        let over = keep == Capacity::ZERO && from <= rest.max(entry.begin());
        Ok((!over).then(|| lowered(&entry.spans, from.max(rest), keep)))
    }

    fn cancel(&self, caller: &Caller, id: ReservationId) -> Decided {
        // A cancel for an unknown id leaves a tombstone: the reserve call may still be on its way, and must
        // not book when it arrives.
        if self.entries.contains_key(&id) {
        } else if let Some(Denied { owner, refusal: Some((_, problem)), .. }) = self.known_denied(id, caller)
        {
            let refused = Some(problem.into());
            let shown = Reservation { refused, ..rejected(id, owner.clone()) };
            return Ok(Decision::say(Answer::Reservation(shown)));
        } else if self.denied_to(id, &caller.user).is_none() {
            let tombstone = What::CancelledBefore { id, owner: caller.user.clone() };
            return Ok(Decision::say_after(vec![tombstone], Problem::new(Why::NothingToCancel(id))));
        }
        let entry = self.owned(id, caller)?;
        let because = entry.given_up_by(caller);
        match entry.state {
            State::Active => Ok(Decision::show_after(id, vec![What::Terminated { id, because }])),
            State::ChangeRequested if entry.has_begun() => {
                Ok(Decision::show_after(id, vec![What::Terminated { id, because }]))
            }
            // Already over, as the caller wanted. An expired hold is not: it can still be committed late.
            State::Cancelled | State::Terminated => Ok(Decision::show(id)),
            state => {
                state.after(Move::Cancel)?;
                Ok(Decision::show_after(id, vec![What::Cancelled { id, because }]))
            }
        }
    }

    /// The denial of an id that concerns the caller: its own first, then those of users it may act for.
    fn known_denied(&self, id: ReservationId, caller: &Caller) -> Option<&Denied> {
        let others = || self.all_denied(id).find(|denied| caller.may_act_for(&denied.owner));
        self.denied_to(id, &caller.user).or_else(others)
    }

    /// A reservation that the caller may see and run jobs in.
    fn usable(&self, id: ReservationId, caller: &Caller) -> Result<&Entry, Problem> {
        let entry = self.entries.get(&id).filter(|entry| caller.may_use(&entry.owner, entry.guests()));
        entry.map_or_else(|| self.owned(id, caller), Ok)
    }

    /// A reservation that the caller may act on. The error tells what else is known about the id.
    pub(super) fn owned(&self, id: ReservationId, caller: &Caller) -> Result<&Entry, Problem> {
        if let Some(entry) = self.entries.get(&id) {
            let allowed = caller.may_act_for(&entry.owner);
            return if allowed { Ok(entry) } else { Err(Problem::new(Why::NotOwner(id))) };
        }
        Err(match self.known_denied(id, caller) {
            None => Problem::new(Why::Unknown(id)),
            Some(Denied { refusal: Some((_, problem)), .. }) => problem.clone(),
            Some(_) => Problem::new(Why::CancelledBefore(id)),
        })
    }
}

fn only_part(part: usize) -> Result<(), Problem> {
    if part == 0 { Ok(()) } else { Err(Problem::new(Why::NoSuchPart(part))) }
}

/// The jobs that are not attached yet, each once.
fn new_jobs(entry: &Entry, jobs: &[JobId]) -> Result<Vec<JobId>, Problem> {
    let mut new: Vec<JobId> = Vec::new();
    for job in jobs {
        if !entry.jobs.contains(job) && !new.contains(job) {
            new.push(*job);
        }
    }
    if entry.jobs.len() + new.len() > MOST_JOBS {
        return Err(Problem::new(Why::Unsupported(Impossible::TooManyJobs)));
    }
    Ok(new)
}

/// A refused request in the form of a reservation.
fn rejected(id: ReservationId, owner: Name) -> Reservation {
    Reservation {
        id,
        owner,
        state: State::Rejected,
        slots: Vec::new(),
        held_for: None,
        prepared: Vec::new(),
        jobs: Vec::new(),
        missing: Vec::new(),
        condition: Condition::Whole,
        losses: Vec::new(),
        replaced: Vec::new(),
        given_up: None,
        refused: None,
        version: 0,
        description: Description::default(),
        shared_with: BTreeSet::new(),
        consents: Consents::new(),
        created: None,
        request: None,
    }
}
