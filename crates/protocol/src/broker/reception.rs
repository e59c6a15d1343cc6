//! Incoming calls. A broker answers at once, from a recorded answer, or as soon as the booking has progressed
//! far enough. Every answer about a booking is recorded for repetitions. Calls about a booking (longer holds,
//! jobs, new terms, early release) are forwarded to the peers that have it, with keys derived from the
//! caller's, so a repeated call has one effect everywhere.

use super::booking::Booking;
use super::calls::About;
use super::survey::{Purpose, Survey};
use super::watching::is_promised;
use super::{Answered, Asked, Broker, Client, Effects, Event, MOST_SLOTS, Outcome, Outgoing, Step};
use crate::clock::Moment;
use crate::digest::Digest;
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::level::{Received, release};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Answer, Call, Caller, Envelope, Reservation};
use crate::problem::{Impossible, Problem, Why};
use crate::request::Part;
use std::collections::BTreeMap;

/// Most offers for a request with several parts: each costs a search, and more combinations help no client.
/// For one part see [`MOST_SLOTS`].
const MOST_OFFERS: u32 = 100;

impl Broker {
    /// Handles a call.
    pub fn handle(&mut self, now: Moment, from: &Name, envelope: &Envelope) -> Effects {
        let mut step = Step::new(now);
        let client = Client { name: from.clone(), key: envelope.key, call: envelope.call.clone() };
        if let Some(answer) = self.answered_before(now, envelope) {
            step.reply(client, answer);
            return step.effects;
        }
        // Only searches started by this call are advanced in this step: a burst of calls must not wait for
        // old searches.
        let others = self.pending.len();
        let caller = &envelope.caller;
        let received = Received::of(&envelope.call);
        match &envelope.call {
            Call::Probe { request, most, starts } => {
                let bound = if request.parts.len() == 1 { MOST_SLOTS } else { MOST_OFFERS };
                let purpose = Purpose::Tell { client, most: (*most).min(bound) };
                let starts = &starts[..starts.len().min(self.rules.slots as usize)];
                let request = request.clone().without_repetitions();
                let survey = Survey::new(purpose, caller, received.probing(), &request, starts);
                self.begin_survey(survey, &mut step);
            }
            Call::Reserve { id, request, hold_for, book } => {
                let hold_for = (*hold_for).min(self.rules.longest_hold);
                let request = request.clone().without_repetitions();
                let survey = Survey::new(Purpose::Book(*id), caller, received.probing(), &request, &[]);
                let asked = Asked { caller: caller.clone(), request, hold_for, book: *book, refused: None };
                self.reserve(client, *id, asked, survey, &mut step);
            }
            Call::Commit { id, .. } => self.commit(client, *id, envelope, &mut step),
            Call::Cancel { id } => self.cancel(client, *id, caller, &mut step),
            Call::Show { id } => step.reply(client, self.show(now, *id, caller)),
            Call::PrepareChange { .. } => self.change(client, envelope, &mut step),
            Call::FinishChange { .. } => self.finish_change(client, envelope, &mut step),
            Call::Change { id, .. } | Call::Extend { id, .. } if self.has_several_parts(*id) => {
                self.change(client, envelope, &mut step);
            }
            Call::Hold { .. }
            | Call::Extend { .. }
            | Call::Attach { .. }
            | Call::Change { .. }
            | Call::Release { .. } => {
                self.forward(client, envelope, &mut step);
            }
        }
        self.advance_searches(others, &mut step);
        step.effects
    }

    fn has_several_parts(&self, id: ReservationId) -> bool {
        self.bookings.get(&id).is_some_and(|booking| booking.children.len() > 1)
    }

    /// Shows a booking to its owner or an operator.
    pub fn show(&self, now: Moment, id: ReservationId, caller: &Caller) -> Answer {
        match self.usable(id, caller) {
            Ok(booking) => {
                // Of a refused request only a digest is kept.
                let known = booking.request().filter(|request| !request.parts.is_empty());
                let request = known.cloned().map(Box::new);
                Answer::Reservation(Reservation { request, ..booking.view(now) })
            }
            Err(why) => Problem::new(why).into(),
        }
    }

    /// A booking that the caller may see and run jobs in.
    fn usable(&self, id: ReservationId, caller: &Caller) -> Result<&Booking, Why> {
        let booking = self.bookings.get(&id).filter(|booking| booking.asked.is_some());
        let booking = booking.filter(|booking| caller.may_use(&booking.owner(), booking.guests()));
        booking.map_or_else(|| self.owned(id, caller), Ok)
    }

    pub(super) fn owned(&self, id: ReservationId, caller: &Caller) -> Result<&Booking, Why> {
        let booking = self.bookings.get(&id).filter(|booking| booking.asked.is_some());
        let booking = booking.ok_or(Why::Unknown(id))?;
        if caller.may_act_for(&booking.owner()) { Ok(booking) } else { Err(Why::NotOwner(id)) }
    }

    /// The recorded answer of a repeated call.
    fn answered_before(&self, now: Moment, envelope: &Envelope) -> Option<Answer> {
        if envelope.call.only_asks() {
            return None;
        }
        let booking = self.usable(envelope.call.id()?, &envelope.caller).ok()?;
        let before = booking.answered.iter().find(|answered| answered.key == envelope.key)?;
        if before.call == Digest::of(&envelope.call) {
            Some(before.answer.again(now - before.at))
        } else {
            Some(Problem::new(Why::KeyTaken(envelope.key)).into())
        }
    }

    /// Answers a call about a booking and records the answer.
    pub(super) fn answer(&mut self, id: ReservationId, client: Client, answer: Answer, step: &mut Step) {
        if self.bookings.contains_key(&id) {
            let Client { key, call, .. } = client.clone();
            let answered = Answered { at: step.now, key, call: Digest::of(&call), answer: answer.clone() };
            self.note(Event::Answered { id, answered }, step);
        }
        step.reply(client, answer);
    }

    fn reserve(&mut self, client: Client, id: ReservationId, asked: Asked, survey: Survey, step: &mut Step) {
        if self.cancelled_before.get(&(id, asked.caller.user.clone())).is_some() {
            return step.refuse(client, Why::CancelledBefore(id));
        }
        let known = self.bookings.get(&id).map(|booking| booking.asked.as_ref());
        let known = known.or_else(|| self.opening.get(&id).map(Some));
        match known {
            Some(Some(before)) if !before.is_repeated_by(&asked) => {
                return step.refuse(client, Why::IdTaken(id));
            }
            Some(_) => return self.answer_or_wait(client, id, step),
            None => {}
        }
        if let Err(malformed) = asked.request.check() {
            return step.refuse(client, malformed);
        }
        let under_way = [self.opening.len(), self.tries.len(), self.surveys.len(), self.pending.len()];
        if under_way.iter().sum::<usize>() >= self.rules.under_way {
            return step.refuse(client, Why::Busy);
        }
        self.clients.entry(id).or_default().push(client);
        self.opening.insert(id, asked);
        self.begin_survey(survey, step);
    }

    /// Answers with the result of a booking, now or as soon as it is known.
    fn answer_or_wait(&mut self, client: Client, id: ReservationId, step: &mut Step) {
        match self.bookings.get(&id) {
            Some(booking) if booking.state != State::Requested && !booking.is_being_committed() => {
                let answer = booking.answer(step.now);
                self.answer(id, client, answer, step);
            }
            _ => {
                let clients = self.clients.entry(id).or_default();
                if !clients.contains(&client) {
                    clients.push(client);
                }
            }
        }
    }

    /// Answers all callers that wait for the result of a booking.
    pub(super) fn tell(&mut self, id: ReservationId, step: &mut Step) {
        let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(step.now)) else { return };
        for client in self.clients.remove(&id).unwrap_or_default() {
            self.answer(id, client, answer.clone(), step);
        }
    }

    fn commit(&mut self, client: Client, id: ReservationId, envelope: &Envelope, step: &mut Step) {
        let booking = match self.owned(id, &envelope.caller) {
            Ok(booking) => booking,
            Err(why) => return step.refuse(client, why),
        };
        let with_jobs = matches!(&envelope.call, Call::Commit { jobs, .. } if !jobs.is_empty());
        match booking.state {
            State::Held if booking.is_being_committed() => self.answer_or_wait(client, id, step),
            // Checked here and not only by the timer, which may be late.
            State::Held if booking.until.is_some_and(|until| until <= step.now) => {
                self.close(id, Outcome::Expired, step);
                self.answer(id, client, Problem::new(Why::Expired).into(), step);
            }
            State::Held if with_jobs => {
                let why = Why::Unsupported(Impossible::JobsWithCommit);
                self.answer(id, client, Problem::new(why).into(), step);
            }
            State::Held => {
                self.clients.entry(id).or_default().push(client);
                self.decide(id, envelope.call.clone(), step);
            }
            State::Committed | State::Active => self.forward(client, envelope, step),
            State::Completed => {
                let answer = booking.answer(step.now);
                self.answer(id, client, answer, step);
            }
            from => {
                let answer = match booking.answer(step.now) {
                    Answer::Problem(problem) => Answer::Problem(problem),
                    _ => Problem::new(IllegalMove { from, attempted: Move::Commit }).into(),
                };
                self.answer(id, client, answer, step);
            }
        }
    }

    fn cancel(&mut self, client: Client, id: ReservationId, caller: &Caller, step: &mut Step) {
        if let Some(asked) = self.opening.get(&id) {
            if asked.caller.user != caller.user {
                return step.refuse(client, Why::NotOwner(id));
            }
            self.clients.entry(id).or_default().push(client);
            return self.close(id, Outcome::Cancelled, step);
        }
        let owned = self.owned(id, caller).map(|booking| (booking.state, booking.owner() == caller.user));
        match owned {
            Ok((State::Completed, _)) => {
                let illegal = IllegalMove { from: State::Completed, attempted: Move::Cancel };
                step.refuse(client, illegal);
            }
            Ok((state, by_owner)) => {
                if !state.is_over() {
                    let outcome = if by_owner { Outcome::Cancelled } else { Outcome::Revoked };
                    self.close(id, outcome, step);
                }
                if let Some(view) = self.bookings.get(&id).map(|booking| booking.view(step.now)) {
                    self.answer(id, client, Answer::Reservation(view), step);
                }
            }
            Err(Why::Unknown(_)) => {
                // Remembered, in case the reserve call arrives after this one: it is then refused.
                let (user, at) = (caller.user.clone(), step.now);
                if self.cancelled_before.get(&(id, user.clone())).is_none() {
                    self.note(Event::CancelledBefore { id, user, at }, step);
                }
                step.refuse(client, Why::NothingToCancel(id));
            }
            Err(why) => step.refuse(client, why),
        }
    }
}

/// A forwarded call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ForwardedCall {
    client: Client,
    id: ReservationId,
    call: Call,
    /// Number of parts without an answer.
    waiting: usize,
    /// Answers by part, and when their calls were sent.
    answers: BTreeMap<usize, (Moment, Answer)>,
}

impl Broker {
    pub(super) fn forward(&mut self, client: Client, envelope: &Envelope, step: &mut Step) {
        let Some(id) = envelope.call.id() else { return };
        if self.forwarded.contains_key(&client.key) {
            // Already in flight; its answer serves the repetition too.
            return;
        }
        let changes_terms =
            matches!(envelope.call, Call::Change { .. } | Call::Extend { .. } | Call::Release { .. });
        if changes_terms && self.is_changing(id) {
            return step.refuse(client, Why::ChangeUnderWay);
        }
        if self.forwarded.len() >= self.rules.under_way {
            return step.refuse(client, Why::Busy);
        }
        // Only jobs are attached by others than the owner. The site checks whose they are.
        let (owned, attaches) =
            (self.owned(id, &envelope.caller).is_ok(), matches!(envelope.call, Call::Attach { .. }));
        let booking =
            if attaches { self.usable(id, &envelope.caller) } else { self.owned(id, &envelope.caller) };
        let passed_on = booking.and_then(|booking| {
            // During a replacement the parts are about to change.
            if !booking.replacing.is_empty() {
                return Err(Why::ChangeUnderWay);
            }
            pass_on(booking, &envelope.call)
        });
        let calls = match passed_on {
            Ok(calls) => calls,
            Err(why @ (Why::Unknown(_) | Why::NotOwner(_) | Why::ChangeUnderWay)) => {
                return step.refuse(client, why);
            }
            Err(why) => return self.answer(id, client, Problem::new(why).into(), step),
        };
        let Some(booking) = self.bookings.get(&id) else { return };
        if calls.is_empty() {
            let answer = booking.answer(step.now);
            return self.answer(id, client, answer, step);
        }
        let Some(asked) = &booking.asked else { return };
        let caller = if owned { &asked.caller } else { &envelope.caller };
        let waiting = calls.len();
        for (part, call) in calls {
            let Some(child) = booking.children.get(part) else { continue };
            // Derived from the part's id too: a part that was replaced is another reservation, perhaps at the
            // same site, and must not get the recorded answer of the old one.
            let key = Key(envelope.key.0 ^ child.pick.child.0).derived(part);
            let envelope = Envelope { key, caller: caller.clone(), call };
            let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
            let about = About::Forwarded { key: client.key, part };
            let until = step.now + self.hold_time(&child.pick.peer);
            self.calls.send(outgoing, about, until, step);
        }
        let call = envelope.call.clone();
        self.forwarded
            .insert(client.key, ForwardedCall { client, id, call, waiting, answers: BTreeMap::new() });
    }

    pub(super) fn forward_ended(
        &mut self,
        key: Key,
        part: usize,
        sent: Moment,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(forwarded) = self.forwarded.get_mut(&key) else { return };
        forwarded.waiting -= 1;
        let answer = match answer.cloned() {
            Some(Answer::Problem(problem)) => match self.bookings.get(&forwarded.id) {
                Some(booking) => booking.of_peer(part, *problem).into(),
                None => Answer::Problem(problem),
            },
            Some(answer) => answer,
            None => Problem::new(Why::Silence).into(),
        };
        forwarded.answers.insert(part, (sent, answer));
        if forwarded.waiting == 0
            && let Some(forwarded) = self.forwarded.remove(&key)
        {
            self.finish_forwarded(forwarded, step);
        }
    }

    fn finish_forwarded(&mut self, forwarded: ForwardedCall, step: &mut Step) {
        let ForwardedCall { client, id, call, answers, .. } = forwarded;
        let refused = answers.values().find_map(|(_, answer)| match answer {
            Answer::Problem(problem) => Some(problem.clone()),
            _ => None,
        });
        if let Call::Hold { hold_for, .. } = call {
            self.extend(id, step.now + hold_for.min(self.rules.longest_hold), &answers, step);
        }
        match refused {
            // A temporary problem is not recorded, so a repeated call is tried again.
            Some(problem) if !problem.why.is_final() => {
                return step.reply(client, Answer::Problem(problem));
            }
            Some(problem) => return self.answer(id, client, Answer::Problem(problem), step),
            None => {}
        }
        for (part, (_, answer)) in &answers {
            self.take_over(id, *part, &call, answer, step);
        }
        if let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(step.now)) {
            self.answer(id, client, answer, step);
        }
    }

    /// A hold lasts as long as its shortest part.
    fn extend(
        &mut self,
        id: ReservationId,
        asked_for: Moment,
        answers: &BTreeMap<usize, (Moment, Answer)>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        for (part, (sent, answer)) in answers {
            if let (Some(child), Answer::Reservation(held)) = (booking.children.get_mut(*part), answer) {
                child.held_until = held.held_for.map(|held_for| *sent + held_for);
            }
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        // After a restart the end of a part's hold may be unknown. Then the deadline stays: all parts were
        // held at least that long.
        let known = booking.children.iter().all(|child| child.held_until.is_some());
        let before = booking.until.unwrap_or(step.now);
        let until = if known { self.commit_by(&booking.children).min(asked_for) } else { before };
        if until > before && booking.state == State::Held && booking.decided.is_none() {
            self.note(Event::Held { id, until }, step);
        }
    }

    fn take_over(&mut self, id: ReservationId, part: usize, call: &Call, answer: &Answer, step: &mut Step) {
        let Answer::Reservation(reservation) = answer else { return };
        let child = self.bookings.get(&id).and_then(|booking| booking.children.get(part));
        if child.is_none_or(|child| child.pick.child != reservation.id) {
            // The part was replaced meanwhile.
            return;
        }
        match call {
            Call::Attach { job, .. } => self.note(Event::Attached { id, part, job: *job }, step),
            Call::Commit { jobs, .. } => {
                for &job in jobs {
                    self.note(Event::Attached { id, part, job }, step);
                }
            }
            Call::Release { .. } if !is_promised(reservation.state) => self.take_in(id, part, answer, step),
            Call::Change { .. } | Call::Extend { .. } | Call::Release { .. } => {
                if let Some(slot) = reservation.slots.first() {
                    self.note(Event::Changed { id, part, slot: slot.clone() }, step);
                }
                if let Call::Change { request, .. } = call {
                    let request = self.bookings.get(&id).map(|booking| booking.kept_with(request));
                    let changed = request.map(|request| Event::RequestChanged { id, request });
                    changed.into_iter().for_each(|changed| self.note(changed, step));
                }
            }
            _ => {}
        }
    }
}

/// The calls to forward, by part.
fn pass_on(booking: &Booking, call: &Call) -> Result<Vec<(usize, Call)>, Why> {
    let illegal = |attempted| Err(IllegalMove { from: booking.state, attempted }.into());
    let standing = matches!(booking.state, State::Committed | State::Active);
    let child = |part: usize| booking.children.get(part).map(|child| child.pick.child);
    let at = |part: usize| child(part).ok_or(Why::NoSuchPart(part));
    let received = Received::of(call);
    match call {
        Call::Hold { hold_for, .. } => {
            let (State::Held, None, Some(permission)) =
                (booking.state, &booking.decided, received.reserving())
            else {
                return illegal(Move::Hold);
            };
            let parts = booking.children.iter().enumerate();
            Ok(parts.map(|(part, child)| (part, permission.hold(child.pick.child, *hold_for))).collect())
        }
        Call::Release { part, from, keep, end_jobs, .. } if standing => {
            let parts = booking.children.len();
            let part = match part {
                None if parts > 1 => return Err(Why::WhichPart(parts)),
                named => named.unwrap_or(0),
            };
            Ok(vec![(part, release(at(part)?, *from, *keep, *end_jobs))])
        }
        Call::Attach { part, job, .. } if standing => {
            let Some(permission) = received.committing() else { return illegal(Move::Commit) };
            Ok(vec![(*part, permission.attach(at(*part)?, 0, *job))])
        }
        Call::Commit { jobs, .. } if standing => more_jobs(booking, jobs, received),
        Call::Change { version, .. } | Call::Extend { version, .. } if standing => {
            if let Some(seen) = version.filter(|seen| *seen != booking.version) {
                return Err(Why::Changed { seen, now: booking.version });
            }
            // Several parts are changed together, by another path.
            let (Some(permission), [only]) = (received.committing(), booking.children.as_slice()) else {
                return illegal(Move::RequestChange);
            };
            let (child, resource) = (only.pick.child, &only.pick.slot.resource);
            let passed_on = match call {
                Call::Extend { end, .. } => permission.extend(child, None, *end),
                Call::Change { request, .. } => {
                    let begin = only.pick.slot.interval.begin;
                    let renamed = booking.renamed_by(call);
                    let mut request = request.clone();
                    request.webhook = None;
                    for part in &mut request.parts {
                        // The site has the part with a fixed begin, and recognises its own terms by that.
                        *part = match renamed {
                            Some(_) => part.fixed(begin, resource.clone()),
                            None => Part { resource: Some(resource.clone()), ..part.clone() },
                        };
                    }
                    permission.change(child, None, request)
                }
                _ => return illegal(Move::RequestChange),
            };
            Ok(vec![(0, passed_on)])
        }
        Call::Extend { .. } => illegal(Move::Extend),
        Call::Change { .. } => illegal(Move::RequestChange),
        Call::Release { .. } => illegal(Move::Complete),
        _ => illegal(Move::Commit),
    }
}

/// A commit of a committed booking only attaches jobs.
fn more_jobs(booking: &Booking, jobs: &[JobId], received: Received) -> Result<Vec<(usize, Call)>, Why> {
    let (Some(permission), Some(first)) = (received.committing(), booking.children.first()) else {
        return Ok(Vec::new());
    };
    let new: Vec<JobId> = jobs.iter().copied().filter(|job| !booking.jobs.contains(&(0, *job))).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    if booking.children.len() > 1 {
        return Err(Why::Unsupported(Impossible::JobsOfSeveralParts));
    }
    Ok(vec![(0, permission.commit(first.pick.child, new))])
}
