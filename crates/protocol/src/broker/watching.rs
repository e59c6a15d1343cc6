//! Watching booked parts. The broker asks peers for the state of the parts of standing bookings: when a peer
//! reports changes, after a restart, and all of them at intervals. A part that its site no longer has, or has
//! less of, is shown as lost. A peer that does not answer says nothing about its parts. Nothing that a site
//! still has is ever given up.

use super::booking::{Booking, Child};
use super::calls::About;
use super::{Broker, Effects, Event, Outcome, Outgoing, Step};
use crate::clock::{Millis, Moment};
use crate::flaw::Flaw;
use crate::ids::{Key, Name, ReservationId};
use crate::life_cycle::{Because, State};
use crate::message::{Answer, Call, Envelope, Lost, Reservation, Slot};
use crate::problem::Why;
use bookahead_plan::Capacity;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most queries in flight: a peer that comes back with thousands of parts is not flooded, and 10,000 queries
/// take seconds.
const AT_ONCE: usize = 64;

/// Delay before a query is repeated that had no answer or no usable one.
const ASK_AGAIN: Millis = Millis::seconds(5);

/// Parts of standing bookings, and which of them to query. Lost in a crash; the index is derived from the
/// bookings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Watched {
    /// Booking and part by the id of the peer's reservation.
    parts: BTreeMap<ReservationId, (ReservationId, usize)>,
    /// Parts to query, in order and each once.
    queue: VecDeque<(ReservationId, usize)>,
    queued: BTreeSet<(ReservationId, usize)>,
    /// Parts being queried, with the version of the booking at that time.
    under_way: BTreeMap<(ReservationId, usize), u32>,
    /// Time of the next query of all parts.
    again: Option<Moment>,
    /// Parts whose query had no usable answer, and the time of the next one.
    undecided: BTreeSet<(ReservationId, usize)>,
    undecided_again: Option<Moment>,
}

impl Watched {
    /// Updates the index after a booking changed.
    pub(super) fn note(&mut self, booking: &Booking) {
        for pick in &booking.leftovers {
            self.parts.remove(&pick.child);
        }
        // Includes bookings that are being committed: a loss before the last commit must not be missed.
        let standing = is_promised(booking.state) || booking.is_being_committed();
        for (part, child) in booking.children.iter().enumerate() {
            if standing && booking.has_part(part) {
                self.parts.insert(child.pick.child, (booking.id, part));
            } else {
                self.parts.remove(&child.pick.child);
            }
        }
    }

    fn add(&mut self, part: (ReservationId, usize)) {
        if !self.under_way.contains_key(&part) && self.queued.insert(part) {
            self.queue.push_back(part);
        }
    }
}

impl Broker {
    /// A peer reports changes: queries the broker's parts among `changed`, or all parts at the peer with
    /// None.
    pub fn look_after(&mut self, now: Moment, peer: &Name, changed: Option<&[ReservationId]>) -> Effects {
        let mut step = Step::new(now);
        match changed {
            Some(changed) => {
                for child in changed {
                    let ours = self.watched.parts.get(child).copied();
                    ours.into_iter().for_each(|part| self.watched.add(part));
                }
            }
            None => self.queue_parts(|at| at == peer),
        }
        self.go_on_watching(&mut step);
        step.effects
    }

    fn queue_parts(&mut self, of: impl Fn(&Name) -> bool) {
        let all: Vec<(ReservationId, usize)> = self.watched.parts.values().copied().collect();
        for (id, part) in all {
            let child = self.bookings.get(&id).and_then(|booking| booking.children.get(part));
            if child.is_some_and(|child| of(&child.pick.peer)) {
                self.watched.add((id, part));
            }
        }
    }

    pub(super) fn next_watch(&self) -> Option<Moment> {
        let all = self.watched.again.filter(|_| !self.watched.parts.is_empty());
        [all, self.watched.undecided_again].into_iter().flatten().min()
    }

    /// Queries parts that are due.
    pub(super) fn watch(&mut self, step: &mut Step) {
        let Some(every) = self.rules.watch_every else { return };
        // A clock that was set back must not delay it.
        let due = |at: Moment, every: Millis| at <= step.now || at > step.now + every;
        if self.watched.undecided_again.is_some_and(|at| due(at, ASK_AGAIN)) {
            self.watched.undecided_again = None;
            let undecided = std::mem::take(&mut self.watched.undecided);
            undecided.into_iter().for_each(|part| self.watched.add(part));
        }
        if self.watched.again.is_some_and(|at| due(at, every)) {
            self.queue_parts(|_| true);
            self.watched.again = None;
        }
        if self.watched.again.is_none() && !self.watched.parts.is_empty() {
            self.watched.again = Some(step.now + every);
        }
        self.go_on_watching(step);
    }

    fn go_on_watching(&mut self, step: &mut Step) {
        if self.broken.is(Flaw::ForgetParts) {
            return;
        }
        while self.watched.under_way.len() < AT_ONCE
            && let Some((id, part)) = self.watched.queue.pop_front()
        {
            self.watched.queued.remove(&(id, part));
            let Some(booking) = self.bookings.get(&id) else { continue };
            let Some((asked, child)) = booking.asked.as_ref().zip(booking.children.get(part)) else {
                continue;
            };
            let peer = child.pick.peer.clone();
            // An answer from before the last commit or the end of a change could be applied after it, and
            // would be outdated.
            if booking.is_being_committed() || self.is_changing(id) || !self.peers.contains_key(&peer) {
                self.ask_again_about((id, part), step.now);
                continue;
            }
            let envelope = Envelope {
                key: Key(self.identities.make()),
                caller: asked.caller.clone(),
                call: Call::Show { id: child.pick.child },
            };
            let until = step.now + self.hold_time(&peer);
            self.watched.under_way.insert((id, part), booking.version);
            self.calls.send(Outgoing { to: peer, envelope }, About::Show { id, part }, until, step);
        }
    }

    /// Handles the answer to a query, or its timeout.
    pub(super) fn shown(&mut self, id: ReservationId, part: usize, answer: Option<&Answer>, step: &mut Step) {
        // An answer from before a change of terms says nothing about the new ones.
        let version = self.watched.under_way.remove(&(id, part));
        let is_current = self.bookings.get(&id).map(|booking| booking.version) == version;
        let is_current = is_current && !self.is_changing(id);
        match answer {
            Some(answer) if is_current && !is_undecided(answer) => self.take_in(id, part, answer, step),
            _ => self.ask_again_about((id, part), step.now),
        }
        self.go_on_watching(step);
    }

    /// Queries a part again later; its condition is unknown.
    fn ask_again_about(&mut self, part: (ReservationId, usize), now: Moment) {
        self.watched.undecided.insert(part);
        self.watched.undecided_again.get_or_insert(now + ASK_AGAIN);
    }

    /// Records the condition of a part as its peer reported it.
    pub(super) fn take_in(&mut self, id: ReservationId, part: usize, answer: &Answer, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id).filter(|booking| is_promised(booking.state)) else {
            return;
        };
        let Some(child) = booking.children.get(part).filter(|_| booking.has_part(part)) else { return };
        let before = child.loss.map(|loss| (loss.why, loss.missing));
        let all = child.pick.slot.capacity;
        let over = Moment::of(child.pick.slot.interval.end) <= step.now;
        let loss = match answer {
            Answer::Reservation(there) if there.id != child.pick.child => return,
            Answer::Reservation(there) if there.state == State::Completed && over => return,
            Answer::Reservation(there) => match completed_elsewhen(there, child, booking.state) {
                // The answers to a change were lost, or its owner changed it directly at the site.
                Some(slot) => return self.note(Event::Changed { id, part, slot: slot.clone() }, step),
                None => lost(there).map(|(why, missing)| (why, if why.is_gone() { all } else { missing })),
            },
            Answer::Problem(problem) => match problem.why {
                // The site has dropped it after its end; the booking ends here too in a moment.
                Why::Unknown(_) if over => return,
                // A site that lost its journal may have adopted the reservation for another owner.
                Why::Unknown(_) | Why::CancelledBefore(_) | Why::NothingToCancel(_) | Why::NotOwner(_) => {
                    Some((Lost::Forgotten, all))
                }
                _ => return,
            },
            Answer::Offers(_) => return,
        };
        if let Answer::Reservation(there) = answer
            && loss.is_none_or(|(why, _)| !why.is_gone())
            && let Some(slot) = there.slots.first()
            && (slot.interval, slot.capacity) != (child.pick.slot.interval, child.pick.slot.capacity)
        {
            // Its owner changed it directly at the site.
            self.note(Event::Changed { id, part, slot: slot.clone() }, step);
        }
        if loss != before {
            self.note(Event::PartSeen { id, part, at: step.now, loss }, step);
            self.heal_only_what_is_lost(id, step);
        }
        self.end_if_nothing_is_left(id, step);
    }

    /// Ends a booking without any remaining part, unless a replacement may still be found.
    pub(super) fn end_if_nothing_is_left(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id).filter(|booking| is_promised(booking.state)) else {
            return;
        };
        if (0..booking.children.len()).any(|part| booking.has_part(part)) {
            return;
        }
        let mut reasons = booking.children.iter().filter_map(|child| child.loss.map(|loss| loss.why));
        let by_owner = reasons.all(|why| why == Lost::GivenUp);
        if by_owner && booking.state == State::Active {
            return self.note(Event::Ended { id, at: step.now }, step);
        }
        if booking.heal_at(self.rules.heal_after).is_some() {
            // A replacement may still be found.
            return;
        }
        self.close(id, if by_owner { Outcome::Cancelled } else { Outcome::Lost }, step);
    }
}

/// Whether an answer does not tell the condition of a part.
fn is_undecided(answer: &Answer) -> bool {
    matches!(answer, Answer::Problem(problem) if !problem.why.is_final())
}

/// Whether the sites of a booking must have its parts.
pub(super) fn is_promised(state: State) -> bool {
    matches!(state, State::Committed | State::ChangeRequested | State::Active)
}

/// The slot of a part that began and ended at other times than the broker knows. One that only ended sooner was
/// given back by its owner.
fn completed_elsewhen<'a>(there: &'a Reservation, child: &Child, booking: State) -> Option<&'a Slot> {
    let slot = there.slots.first().filter(|_| there.state == State::Completed)?;
    let moved = slot.interval.begin != child.pick.slot.interval.begin;
    (moved || booking != State::Active).then_some(slot)
}

/// What a site no longer has of a reservation. None if it is whole.
pub(super) fn lost(there: &Reservation) -> Option<(Lost, Capacity)> {
    let missing = there.missing.iter().copied().max().unwrap_or(Capacity::ZERO);
    match (there.state, there.given_up) {
        (state, _) if is_promised(state) => (missing > Capacity::ZERO).then_some((Lost::Degraded, missing)),
        (_, Some(Because::Owner)) | (State::Completed, _) => Some((Lost::GivenUp, missing)),
        (_, Some(Because::Operator)) => Some((Lost::Revoked, missing)),
        _ => Some((Lost::Ended, missing)),
    }
}

/// Default interval between queries of all parts: losses that no peer reported are noticed after at most this
/// time.
pub(super) const WATCH_EVERY: Millis = Millis::seconds(300);
