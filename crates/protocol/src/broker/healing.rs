//! Healing: replacing lost parts. If a site has lost a part of a booking, or some of its capacity, the broker
//! searches for a replacement that satisfies all constraints with the remaining parts: at the same times
//! first, then at others if the owner allowed it. It holds the replacement, commits it, and only then cancels
//! the rest of the old part. A replacement is not promised before that: if a crash interrupts it, it is
//! released and searched again.

use super::booking::Booking;
use super::calls::About;
use super::survey::{Purpose, Survey};
use super::watching::is_promised;
use super::{Asked, Broker, Event, Outcome, Outgoing, Pick, Step};
use crate::candidates::{Candidate, Excluded, Found};
use crate::clock::{Millis, Moment};
use crate::ids::{Key, ReservationId};
use crate::level::Received;
use crate::message::{Call, Envelope, Lost, Slot};
use crate::problem::{Problem, Why};
use crate::request::{Constraint, OnLoss, Part};
use crate::tres::Tres;
use bookahead_plan::{Seconds, Time, placement};

/// Most bookings healed at once: a failed site with thousands of parts must not flood all other sites.
const AT_ONCE: usize = 16;

/// How often the interval between searches doubles while no replacement is found: up to 16 minutes by
/// default.
const MOST_DOUBLINGS: u32 = 4;

/// Failed searches after which a booking without any remaining part is closed.
const TRIES_FOR_NOTHING: u32 = 3;

/// Allowed starts of replacements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Times {
    /// Those of the lost parts.
    Same,
    /// All that the request allows.
    Any,
}

impl Booking {
    /// Whether a part is lost and its owner did not give it up.
    pub(super) fn is_healable(&self, part: usize) -> bool {
        let loss = self.children.get(part).and_then(|child| child.loss);
        loss.is_some_and(|loss| loss.why != Lost::GivenUp)
    }

    /// The time range in which to search a replacement for a part. A part that has started and only lacks
    /// capacity is left alone, because jobs may run in it.
    fn healable(&self, part: usize, heal_after: Millis) -> Option<(Moment, Moment)> {
        let child = self.children.get(part).filter(|_| self.is_healable(part))?;
        let (loss, interval) = (child.loss?, child.pick.slot.interval);
        let until = if loss.why.is_gone() { interval.end } else { interval.begin };
        Some((loss.since + heal_after, Moment::of(until)))
    }

    /// When to act on a loss. None if nothing is lost or nothing can be done.
    pub(super) fn heal_at(&self, heal_after: Millis) -> Option<Moment> {
        let on_loss = self.asked.as_ref()?.request.on_loss;
        let busy = !self.replacing.is_empty() || self.change.is_some();
        if !is_promised(self.state) || busy || on_loss == OnLoss::Keep {
            return None;
        }
        let healable = (0..self.children.len()).filter_map(|part| self.healable(part, heal_after));
        let due = |(from, until): (Moment, Moment)| {
            let at = self.heal_next.map_or(from, |next| next.max(from));
            (at < until).then_some(at)
        };
        healable.filter_map(due).min()
    }
}

impl Broker {
    pub(super) fn next_heal(&self) -> Option<Moment> {
        let first = self
            .heals
            .iter()
            .find(|(_, id)| !self.healing.contains_key(id) && !self.changes.contains_key(id));
        first.filter(|_| self.healing.len() < AT_ONCE).map(|(at, _)| *at)
    }

    /// Acts on losses that are due.
    pub(super) fn heal(&mut self, step: &mut Step) {
        while self.next_heal().is_some_and(|at| at <= step.now) {
            let due = self
                .heals
                .iter()
                .find(|(_, id)| !self.healing.contains_key(id) && !self.changes.contains_key(id));
            let Some((at, id)) = due.copied() else { return };
            self.heals.remove(&(at, id));
            let on_loss = self.bookings.get(&id).and_then(|booking| booking.asked.as_ref());
            match on_loss.map(|asked| asked.request.on_loss) {
                Some(OnLoss::Cancel) => self.close(id, Outcome::Lost, step),
                Some(OnLoss::Heal | OnLoss::HealAnyTime) => self.look_for_replacements(id, Times::Same, step),
                Some(OnLoss::Keep) | None => {}
            }
        }
    }

    fn look_for_replacements(&mut self, id: ReservationId, times: Times, step: &mut Step) {
        self.healing.insert(id, times);
        match self.survey_of_lost(id, times, step.now) {
            Some(survey) => self.begin_survey(survey, step),
            None => self.not_healed(id, Problem::new(Why::NoCandidate { tried: 0, all: true }), step),
        }
    }

    /// Earliest start of a replacement: an earlier one could not be committed in time.
    fn first_begin(&self, now: Moment) -> Time {
        let lead = self.rules.survey_time + self.rules.hold_time + Millis(999);
        (now + lead).second()
    }

    /// The survey for replacements of all lost parts. None if nothing can be replaced.
    fn survey_of_lost(&self, id: ReservationId, times: Times, now: Moment) -> Option<Survey> {
        let booking = self.bookings.get(&id)?;
        let (asked, decided) = (booking.asked.as_ref()?, booking.decided.as_ref()?);
        let mut request = booking.request()?.clone();
        if booking.children.len() != request.parts.len() {
            return None;
        }
        let first = self.first_begin(now);
        // Parts that cannot be replaced in time are treated as standing, so that they do not block the
        // others.
        let lost = |part: usize| {
            let (from, until) = booking.healable(part, self.rules.heal_after)?;
            (from <= now && Moment::of(first) < until).then_some(&booking.children[part])
        };
        let (mut standing, mut not_at) = (Vec::new(), Vec::new());
        for (at, child) in booking.children.iter().enumerate() {
            let part = &mut request.parts[at];
            let Pick { peer, slot, child: old } = &child.pick;
            let terms = at_its_time(slot, first);
            if lost(at).is_none() {
                part.wanted = at_its_time(slot, slot.interval.begin);
                let slot =
                    Slot { slack: Seconds::ZERO, free: None, free_tres: Tres::default(), ..slot.clone() };
                standing.push(Some(Found { peer: peer.clone(), slot }));
                not_at.push(None);
                continue;
            }
            part.wanted = match times {
                // A part that has started must continue now; its window is in the past.
                Times::Any if slot.interval.begin > now.second() => allowed_by(part, slot, first)?,
                _ => terms,
            };
            part.replaces = Some(*old);
            standing.push(None);
            // The operator of that site cancelled the part, so it must not go there again.
            let revoked = child.loss.is_some_and(|loss| loss.why == Lost::Revoked);
            not_at.push(revoked.then(|| (peer.clone(), slot.resource.clone())));
        }
        if standing.iter().all(Option::is_some) {
            return None;
        }
        let given_up = |part: &usize| !booking.has_part(*part) && standing[*part].is_some();
        // At the same times, time constraints hold anyway. Constraints with parts that are gone for good
        // cannot be satisfied.
        request.constraints.retain(|constraint| {
            let at_the_same_times = times == Times::Same && is_about_times(constraint);
            !at_the_same_times && !constraint.parts().iter().any(given_up)
        });
        let permission = Received::of(decided).probing();
        let survey = Survey::new(Purpose::Heal(id), &asked.caller, permission, &request, &[]);
        Some(survey.beside(standing, not_at))
    }

    /// Stores the picks for replacements, then asks the peers to hold them.
    pub(super) fn try_replacements(&mut self, id: ReservationId, candidate: &Candidate, step: &mut Step) {
        let Some(tried) = self.tries.get(&id) else { return };
        let standing = &tried.survey.standing;
        let lost = candidate.slots().filter(|(part, ..)| standing.get(*part).is_some_and(Option::is_none));
        let lost: Vec<_> = lost.map(|(part, peer, slot)| (part, peer.clone(), slot.clone())).collect();
        let mut picks = Vec::new();
        for (part, peer, slot) in lost {
            let child = ReservationId(self.identities.make());
            picks.push((part, Pick { peer, child, slot }));
        }
        self.note(Event::Replacing { id, picks: picks.clone() }, step);
        self.begin_holds(id, picks, step);
    }

    /// The request that replacements satisfy, and the call that permits them.
    pub(super) fn asked_of_lost(&self, id: ReservationId) -> Option<(Asked, Call)> {
        let booking = self.bookings.get(&id)?;
        // A replacement is committed as soon as it is held, so a short hold is enough.
        let (request, hold_for) = (self.tries.get(&id)?.survey.request.clone(), self.rules.hold_time);
        let asked = Asked { request, hold_for, ..booking.asked.clone()? };
        Some((asked, booking.decided.clone()?))
    }

    pub(super) fn commit_replacements(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(call)) = (&booking.asked, &booking.decided) else { return };
        let Some(permission) = Received::of(call).committing() else { return };
        for (part, child) in &booking.replacing {
            let envelope = Envelope {
                key: Key(self.identities.make()),
                caller: asked.caller.clone(),
                call: permission.commit(child.pick.child, Vec::new()),
            };
            let until = step.now + self.hold_time(&child.pick.peer);
            let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
            self.calls.send(outgoing, About::Commit { id, part: *part }, until, step);
        }
    }

    pub(super) fn replacement_committed(
        &mut self,
        id: ReservationId,
        part: usize,
        committed: bool,
        step: &mut Step,
    ) {
        let Some(child) = self.bookings.get_mut(&id).and_then(|booking| booking.awaited(part)) else {
            return;
        };
        if !committed {
            let left_out = Excluded::Peer(child.pick.peer.clone());
            return self.give_up(id, Some(left_out), step);
        }
        child.committed = true;
        let all = self.bookings.get(&id).is_some_and(|booking| {
            let mut all = booking.replacing.iter();
            all.all(|(_, child)| child.committed)
        });
        if all {
            self.stop_healing(id);
            self.note(Event::Replaced { id, at: step.now }, step);
            self.give_back(id, step);
        }
    }

    /// Stops a replacement if the part has recovered or its owner gave it up.
    pub(super) fn heal_only_what_is_lost(&mut self, id: ReservationId, step: &mut Step) {
        if !self.healing.contains_key(&id) {
            return;
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        let survey = self.tries.get(&id).map(|tried| &*tried.survey);
        let survey = survey.or_else(|| self.surveys.get(self.booking_surveys.get(&id)?));
        let looked_for = survey.into_iter().flat_map(|survey| survey.standing.iter().enumerate());
        let mut looked_for = looked_for.filter(|(_, standing)| standing.is_none()).map(|(part, _)| part);
        let mut replaced = booking.replacing.iter().map(|(part, _)| *part);
        if looked_for.all(|part| booking.is_healable(part)) && replaced.all(|part| booking.is_healable(part))
        {
            return;
        }
        self.stop_healing(id);
        self.note(Event::NotReplaced { id }, step);
        self.give_back(id, step);
    }

    /// Drops everything in progress for replacements or a candidate of a booking.
    pub(super) fn stop_healing(&mut self, id: ReservationId) {
        self.drop_searches(id);
        self.calls.forget(About::holds(id));
        self.calls.forget(About::commits(id));
        self.healing.remove(&id);
    }

    /// No replacement was found. Tries other times if allowed; otherwise schedules the next search.
    pub(super) fn not_healed(&mut self, id: ReservationId, problem: Problem, step: &mut Step) {
        let times = self.healing.get(&id).copied();
        self.stop_healing(id);
        let Some(booking) = self.bookings.get(&id) else { return };
        let on_loss = booking.asked.as_ref().map(|asked| asked.request.on_loss);
        if times == Some(Times::Same) && on_loss == Some(OnLoss::HealAnyTime) {
            return self.look_for_replacements(id, Times::Any, step);
        }
        let first = self.rules.heal_after.max(self.rules.survey_time);
        let wait = first.0 << booking.not_healed.min(MOST_DOUBLINGS);
        let tries = booking.not_healed.saturating_add(1);
        let nothing_left = booking.ends().is_none() && tries >= TRIES_FOR_NOTHING;
        self.note(Event::NotHealed { id, at: step.now, tries, next: step.now + Millis(wait), problem }, step);
        if nothing_left {
            self.close(id, Outcome::Lost, step);
        }
    }
}

/// The terms of a slot, or the rest of them from `first` on.
fn at_its_time(slot: &Slot, first: Time) -> placement::Request {
    let begin = slot.interval.begin.max(first);
    placement::Request {
        earliest_start: begin,
        latest_end: slot.interval.end,
        duration: slot.interval.end - begin,
        capacity: slot.capacity,
    }
}

/// Capacity and duration of a slot, at any time that the request allows from `first` on. None if the window
/// is too short.
fn allowed_by(part: &Part, slot: &Slot, first: Time) -> Option<placement::Request> {
    let duration = slot.interval.end - slot.interval.begin;
    let wanted = placement::Request {
        earliest_start: part.wanted.earliest_start.min(slot.interval.begin).max(first),
        latest_end: part.wanted.latest_end.max(slot.interval.end),
        duration,
        capacity: slot.capacity,
    };
    (wanted.latest_start() >= wanted.earliest_start).then_some(wanted)
}

fn is_about_times(constraint: &Constraint) -> bool {
    matches!(constraint, Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. })
}
