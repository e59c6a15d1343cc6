//! Calls about what is booked, passed on to the peers that have it: longer holds, jobs, other terms, early release. The
//! key of what is passed on is derived from the owner's, so that a repeated call has one effect everywhere.

use super::booking::Booking;
use super::calls::{About, Outgoing};
use super::{Broker, Client, Effects, Event};
use crate::clock::Moment;
use crate::ids::{JobId, Key, ReservationId};
use crate::level::{Received, release};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Impossible, Problem, Why};
use std::collections::BTreeMap;

/// A call that was passed on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Errand {
    client: Client,
    id: ReservationId,
    call: Call,
    /// Whom an answer is expected from, by part.
    waiting: usize,
    /// What came back, and when it was asked.
    answers: BTreeMap<usize, (Moment, Answer)>,
}

impl Broker {
    pub(super) fn begin_errand(
        &mut self,
        now: Moment,
        client: Client,
        envelope: &Envelope,
        effects: &mut Effects,
    ) {
        let Some(id) = envelope.call.id() else { return };
        if self.errands.contains_key(&client.key) {
            // It is under way; its answer will do for both.
            return;
        }
        if self.errands.len() >= self.rules.under_way {
            return effects.reply(client, Problem::new(Why::Busy).into());
        }
        let passed_on = self.owned(id, &envelope.caller).and_then(|booking| pass_on(booking, &envelope.call));
        let calls = match passed_on {
            Ok(calls) => calls,
            Err(why @ (Why::Unknown(_) | Why::NotOwner(_))) => {
                return effects.reply(client, Problem::new(why).into());
            }
            Err(why) => return self.answer(now, id, client, Problem::new(why).into(), effects),
        };
        let Some(booking) = self.bookings.get(&id) else { return };
        if calls.is_empty() {
            let answer = booking.answer(now);
            return self.answer(now, id, client, answer, effects);
        }
        let Some(asked) = &booking.asked else { return };
        let waiting = calls.len();
        for (part, call) in calls {
            let key = envelope.key.derived(part);
            let Some(child) = booking.children.get(part) else { continue };
            let envelope = Envelope { key, caller: asked.caller.clone(), call };
            let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
            let about = About::Errand { errand: client.key, part };
            let until = now + self.hold_time(&child.pick.peer);
            effects.send.push(self.calls.send(now, outgoing, about, until));
        }
        let call = envelope.call.clone();
        self.errands.insert(client.key, Errand { client, id, call, waiting, answers: BTreeMap::new() });
    }

    pub(super) fn errand_ended(
        &mut self,
        now: Moment,
        key: Key,
        part: usize,
        sent: Moment,
        answer: Option<&Answer>,
        effects: &mut Effects,
    ) {
        let Some(errand) = self.errands.get_mut(&key) else { return };
        errand.waiting -= 1;
        let answer = answer.cloned().unwrap_or_else(|| Problem::new(Why::Silence).into());
        errand.answers.insert(part, (sent, answer));
        if errand.waiting == 0
            && let Some(errand) = self.errands.remove(&key)
        {
            self.finish_errand(now, errand, effects);
        }
    }

    fn finish_errand(&mut self, now: Moment, errand: Errand, effects: &mut Effects) {
        let Errand { client, id, call, answers, .. } = errand;
        let refused = answers.values().find_map(|(_, answer)| match answer {
            Answer::Problem(problem) => Some(problem.clone()),
            _ => None,
        });
        if let Call::Hold { hold_for, .. } = call {
            self.extend(now, id, now + hold_for.min(self.rules.longest_hold), &answers, effects);
        }
        match refused {
            // Whoever repeats the call may have more luck.
            Some(problem) if !problem.why.is_final() => {
                return effects.reply(client, Answer::Problem(problem));
            }
            Some(problem) => return self.answer(now, id, client, Answer::Problem(problem), effects),
            None => {}
        }
        for (part, (_, answer)) in &answers {
            self.take_over(id, *part, &call, answer, effects);
        }
        if let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(now)) {
            self.answer(now, id, client, answer, effects);
        }
    }

    /// The hold lasts as long as the shortest of its parts.
    fn extend(
        &mut self,
        now: Moment,
        id: ReservationId,
        asked_for: Moment,
        answers: &BTreeMap<usize, (Moment, Answer)>,
        effects: &mut Effects,
    ) {
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        for (part, (sent, answer)) in answers {
            if let (Some(child), Answer::Reservation(held)) = (booking.children.get_mut(*part), answer) {
                child.held_until = held.held_for.map(|held_for| *sent + held_for);
            }
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        // A part that we were told nothing of in this life is held at least as long as all were said to be.
        let known = booking.children.iter().all(|child| child.held_until.is_some());
        let before = booking.until.unwrap_or(now);
        let until = if known { self.commit_by(&booking.children).min(asked_for) } else { before };
        if until > before && booking.state == State::Held && booking.decided.is_none() {
            self.note(effects, Event::Held { id, until });
        }
    }

    fn take_over(
        &mut self,
        id: ReservationId,
        part: usize,
        call: &Call,
        answer: &Answer,
        effects: &mut Effects,
    ) {
        let Answer::Reservation(reservation) = answer else { return };
        match call {
            Call::Attach { job, .. } => self.note(effects, Event::Attached { id, part, job: *job }),
            Call::Commit { jobs, .. } => {
                for &job in jobs {
                    self.note(effects, Event::Attached { id, part, job });
                }
            }
            Call::Change { .. } | Call::Extend { .. } | Call::Release { .. } => {
                if let Some(slot) = reservation.slots.first() {
                    self.note(effects, Event::Changed { id, part, slot: slot.clone() });
                }
            }
            _ => {}
        }
    }
}

/// What is passed on to which part.
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
        Call::Release { part, from, keep, .. } if standing => {
            Ok(vec![(*part, release(at(*part)?, 0, *from, *keep))])
        }
        Call::Attach { part, job, .. } if standing => {
            let Some(permission) = received.committing() else { return illegal(Move::Commit) };
            Ok(vec![(*part, permission.attach(at(*part)?, 0, *job))])
        }
        Call::Commit { jobs, .. } if standing => more_jobs(booking, jobs, received),
        Call::Change { version, request, .. } if standing => {
            if let Some(seen) = version.filter(|seen| *seen != booking.version) {
                return Err(Why::Changed { seen, now: booking.version });
            }
            let (Some(permission), [only]) = (received.committing(), booking.children.as_slice()) else {
                return Err(Why::Unsupported(Impossible::ChangeOfSeveralParts));
            };
            let mut request = request.clone();
            request.parts.iter_mut().for_each(|part| part.resource = Some(only.pick.slot.resource.clone()));
            Ok(vec![(0, permission.change(only.pick.child, None, request))])
        }
        Call::Extend { version, end, .. } if standing => {
            if let Some(seen) = version.filter(|seen| *seen != booking.version) {
                return Err(Why::Changed { seen, now: booking.version });
            }
            let (Some(permission), [only]) = (received.committing(), booking.children.as_slice()) else {
                return Err(Why::Unsupported(Impossible::ChangeOfSeveralParts));
            };
            Ok(vec![(0, permission.extend(only.pick.child, None, *end))])
        }
        Call::Extend { .. } => illegal(Move::Extend),
        Call::Change { .. } => illegal(Move::RequestChange),
        Call::Release { .. } => illegal(Move::Complete),
        _ => illegal(Move::Commit),
    }
}

/// A commit of what is committed only brings jobs.
fn more_jobs(booking: &Booking, jobs: &[JobId], received: Received) -> Result<Vec<(usize, Call)>, Why> {
    let (Some(permission), Some(first)) = (received.committing(), booking.children.first()) else {
        return Ok(Vec::new());
    };
    let new: Vec<JobId> = jobs.iter().copied().filter(|job| !booking.jobs.contains(&(0, *job))).collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![(0, permission.commit(first.pick.child, new))])
}
