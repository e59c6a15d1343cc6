//! New terms for a booking, all parts or none. Each site prepares its part: it keeps old and new terms until
//! it is told which ones apply. When all are prepared and every deadline is far enough away, the broker
//! decides, and repeats the decision to each site until it has answered. If one refuses or does not answer,
//! all keep their old terms. Parts whose terms do not change are not asked.
//!
//! After a restart, unfinished preparations are given up, and decisions are finished. A broker that is asked
//! to prepare a change does the same with its peers, and leaves the decision to its caller.

use super::booking::Booking;
use super::calls::{About, Pending};
use super::change::wanted;
use super::survey::{Purpose, Survey};
use super::watching::{is_promised, lost};
use super::{Answered, Broker, Changing, Client, Event, Outgoing, Stage, Step};
use crate::candidates::Candidate;
use crate::clock::{Millis, Moment};
use crate::deadline::{Scheme, technical};
use crate::digest::Digest;
use crate::flaw::Flaw;
use crate::ids::{ChangeId, Key, ReservationId};
use crate::level::{Received, give_up_change};
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Answer, Call, Envelope, Lost, NewTerms, Reservation, Slot};
use crate::problem::{Problem, Why};
use crate::request::{Part, Request};
use bookahead_plan::Seconds;
use std::collections::{BTreeMap, BTreeSet};

/// State of a change that is lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct UnderWay {
    /// Callers waiting for the result.
    clients: Vec<Client>,
    /// The call, until peers are asked to prepare.
    asked: Option<(Key, Call)>,
    /// Deadlines of prepared parts.
    prepared: BTreeMap<usize, Moment>,
    /// Parts whose peers confirmed which terms they took.
    finished: BTreeSet<usize>,
}

impl Broker {
    /// Handles a call that changes a booking or prepares a change.
    pub(super) fn change(&mut self, client: Client, envelope: &Envelope, step: &mut Step) {
        let Some(id) = envelope.call.id() else { return };
        let booking = match self.owned(id, &envelope.caller) {
            Ok(booking) => booking,
            Err(why) => return step.refuse(client, why),
        };
        if let Call::PrepareChange { change, .. } = envelope.call
            && let Some(known) = known_change(booking, change)
        {
            return match known {
                Known::Taken | Known::Ready => {
                    let answer = Answer::Reservation(booking.view(step.now));
                    self.answer(id, client, answer, step);
                }
                Known::Preparing => self.wait_for_change(id, client),
                Known::NotTaken => self.answer(id, client, Problem::new(Why::NotPrepared).into(), step),
            };
        }
        // The same call again, while the first one is in progress: both get the same answer.
        let same = |key: &Key, call: &Call| *key == client.key && *call == client.call;
        let asked = self.changes.get(&id).and_then(|under_way| under_way.asked.as_ref());
        if asked.is_some_and(|(key, call)| same(key, call))
            || booking
                .change
                .as_ref()
                .is_some_and(|change| change.is_open() && same(&change.key, &change.call))
        {
            return self.wait_for_change(id, client);
        }
        // Healing and changing both replace terms of parts, so only one of them may run at a time.
        let healing = self.healing.contains_key(&id) || !booking.replacing.is_empty();
        if healing || booking.change.is_some() || self.changes.contains_key(&id) {
            return step.refuse(client, Why::ChangeUnderWay);
        }
        match wanted(booking, &envelope.call, step.now) {
            Ok(None) => {
                let answer = booking.answer(step.now);
                self.answer(id, client, answer, step);
            }
            Ok(Some((request, given))) => {
                let permission = Received::of(&envelope.call).probing();
                let survey = Survey::new(Purpose::Change(id), &envelope.caller, permission, &request, &[]);
                let asked = Some((client.key, client.call.clone()));
                self.changes.insert(id, UnderWay { clients: vec![client], asked, ..UnderWay::default() });
                let not_at = vec![None; given.len()];
                self.begin_survey(survey.beside(given, not_at), step);
            }
            Err(why) => self.answer(id, client, Problem::new(why).into(), step),
        }
    }

    fn wait_for_change(&mut self, id: ReservationId, client: Client) {
        let clients = &mut self.changes.entry(id).or_default().clients;
        if !clients.contains(&client) {
            clients.push(client);
        }
    }

    pub(super) fn is_changing(&self, id: ReservationId) -> bool {
        self.changes.contains_key(&id)
            || self.bookings.get(&id).is_some_and(|booking| booking.change.is_some())
    }

    /// The change is refused before any peer was asked to prepare it.
    pub(super) fn change_refused(&mut self, id: ReservationId, problem: Problem, step: &mut Step) {
        let Some(UnderWay { clients, .. }) = self.changes.remove(&id) else { return };
        self.answer_change(id, clients, &problem.into(), step);
    }

    /// Answers waiting callers. A temporary problem is not recorded, so a repeated call is tried again.
    fn answer_change(&mut self, id: ReservationId, clients: Vec<Client>, answer: &Answer, step: &mut Step) {
        let passes = matches!(answer, Answer::Problem(problem) if !problem.why.is_final());
        for client in clients {
            if passes {
                step.reply(client, answer.clone());
            } else {
                self.answer(id, client, answer.clone(), step);
            }
        }
    }

    /// Terms for all parts were found. Stores them, then asks the peers to prepare them.
    pub(super) fn change_found(
        &mut self,
        id: ReservationId,
        request: Request,
        candidate: &Candidate,
        step: &mut Step,
    ) {
        let Some((key, call)) = self.changes.get_mut(&id).and_then(|under_way| under_way.asked.take()) else {
            return;
        };
        let Some(booking) = self.bookings.get(&id) else { return };
        let parts = booking.children.iter().zip(candidate.slots());
        let renamed = booking.renamed_by(&call);
        let says_other = says_other(booking, &call);
        let slots = parts.map(|(child, (_, _, slot))| {
            let (old, slack) = (&child.pick.slot, Seconds::ZERO);
            let same = (old.interval, old.capacity) == (slot.interval, slot.capacity);
            (!same || says_other).then(|| Slot { slack, ..slot.clone() })
        });
        let slots: Vec<Option<Slot>> = slots.collect();
        // `changes` and the bound resource are only for probes. They are not stored: a replacement may go
        // elsewhere.
        let before = booking.request().into_iter().flat_map(|request| &request.parts);
        let parts = request.parts.into_iter().zip(before);
        let parts =
            parts.map(|(part, before)| Part { changes: None, resource: before.resource.clone(), ..part });
        let changed = booking.kept_with(&Request { parts: parts.collect(), ..request });
        let request = renamed.unwrap_or(*changed);
        let change = match call {
            Call::PrepareChange { change, .. } => change,
            _ => ChangeId(self.identities.make()),
        };
        let changing = Changing { change, key, call, request, slots, stage: Stage::Preparing };
        self.note(Event::Changing { id, at: step.now, changing: Box::new(changing) }, step);
        self.send_prepares(id, step);
    }

    fn send_prepares(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(changing)) = (&booking.asked, &booking.change) else { return };
        let Some(permission) = Received::of(&changing.call).committing() else { return };
        let peers = changing.parts().filter_map(|part| Some(&booking.children.get(part)?.pick.peer));
        let longest = self.longest_hold_time(peers);
        let parts: Vec<usize> = changing.parts().collect();
        if parts.is_empty() {
            return self.all_prepared(id, step);
        }
        for &part in &parts {
            let (Some(child), Some(terms)) = (booking.children.get(part), changing.terms(part)) else {
                continue;
            };
            let peer = child.pick.peer.clone();
            let trips = technical(parts.len(), self.round_trip(&peer), Scheme::Parallel);
            // The requester's time starts when the last part is prepared, and the decision must still arrive.
            let hold_for =
                changing.left_to_caller().unwrap_or_default() + longest + trips + self.rules.hold_time;
            let call = permission.prepare_change(child.pick.child, changing.change, terms, hold_for);
            let key = Key(self.identities.make());
            let envelope = Envelope { key, caller: asked.caller.clone(), call };
            let until = step.now + self.hold_time(&peer);
            self.calls.send(Outgoing { to: peer, envelope }, About::Prepare { id, part }, until, step);
        }
    }

    /// Handles the answer to a prepare call, or its timeout.
    pub(super) fn prepare_ended(
        &mut self,
        (id, part): (ReservationId, usize),
        ended: &Pending,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(changing) = booking.change.as_ref().filter(|change| change.stage == Stage::Preparing) else {
            return;
        };
        let until = match answer {
            Some(Answer::Reservation(there)) => prepared(booking, changing, part, there),
            _ if self.broken.is(Flaw::ChangeInPart) => Some(Millis::seconds(600)),
            _ => None,
        };
        let Some(held_for) = until else {
            let problem = match answer {
                // A peer that restarted refuses this change id for good, but may accept the next one. So it
                // is a temporary problem.
                Some(Answer::Problem(problem)) if problem.why != Why::NotPrepared => {
                    booking.of_peer(part, Problem::clone(problem))
                }
                _ => Problem::new(Why::Silence),
            };
            return self.give_up_change(id, problem, step);
        };
        let all = changing.parts().count();
        let prepared = &mut self.changes.entry(id).or_default().prepared;
        prepared.insert(part, ended.sent + held_for);
        if prepared.len() == all {
            self.all_prepared(id, step);
        }
    }

    fn all_prepared(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(changing) = &booking.change else { return };
        let prepared = self.changes.get(&id).map(|under_way| under_way.prepared.clone()).unwrap_or_default();
        // The decision must still arrive everywhere.
        let by = |(part, until): (&usize, &Moment)| {
            let peer = &booking.children.get(*part)?.pick.peer;
            Some(*until - self.round_trip(peer))
        };
        let decide_by = prepared.iter().filter_map(by).min().unwrap_or(Moment::MAX);
        let left_to_caller = changing.left_to_caller();
        if decide_by <= step.now {
            // Usually the booking is about to start. A moment later it is active, and the change can be
            // requested again.
            return self.give_up_change(id, Problem::new(Why::ChangeUnderWay), step);
        }
        match left_to_caller {
            None => self.decide_change(id, step),
            Some(hold_for) => {
                let until = decide_by.min(step.now + hold_for.min(self.rules.longest_hold));
                self.note(Event::ChangePrepared { id, until }, step);
                let clients =
                    self.changes.get_mut(&id).map(|under_way| std::mem::take(&mut under_way.clients));
                if let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(step.now)) {
                    self.answer_change(id, clients.unwrap_or_default(), &answer, step);
                }
            }
        }
    }

    /// The point of no return: all parts take the new terms.
    fn decide_change(&mut self, id: ReservationId, step: &mut Step) {
        self.note(Event::ChangeDecided { id }, step);
        self.send_finishes(id, step);
    }

    /// All parts keep their old terms. Waiting callers get `problem`.
    pub(super) fn give_up_change(&mut self, id: ReservationId, problem: Problem, step: &mut Step) {
        self.calls.forget(About::prepares(id));
        let Some(changing) = self.bookings.get(&id).and_then(|booking| booking.change.as_ref()) else {
            return;
        };
        let change = changing.change;
        self.note(Event::ChangeGivenUp { id, change }, step);
        let clients = self.changes.get_mut(&id).map(|under_way| std::mem::take(&mut under_way.clients));
        self.answer_change(id, clients.unwrap_or_default(), &problem.into(), step);
        self.send_finishes(id, step);
    }

    /// Tells peers which terms apply, except those that have confirmed or are being told.
    pub(super) fn send_finishes(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(changing)) = (&booking.asked, &booking.change) else { return };
        let permission = Received::of(&changing.call).committing();
        let under_way = self.changes.entry(id).or_default();
        let left: Vec<usize> = changing.parts().filter(|part| !under_way.finished.contains(part)).collect();
        if left.is_empty() {
            return self.finish_change_of(id, step);
        }
        for part in left {
            let about = About::Finish { id, part };
            let Some(child) = booking.children.get(part).filter(|_| !self.calls.is_under_way(about)) else {
                continue;
            };
            let (call, until) = match (&changing.stage, permission) {
                (Stage::Decided, Some(permission)) => (
                    permission.accept_change(child.pick.child, changing.change),
                    self.tell_until(booking, part, step.now),
                ),
                // A site gives up an unaccepted change by itself, so there is no need to repeat this forever.
                _ => {
                    let until = step.now + self.hold_time(&child.pick.peer) + self.rules.longest_hold;
                    (give_up_change(child.pick.child, changing.change), until)
                }
            };
            let envelope = Envelope { key: Key(self.identities.make()), caller: asked.caller.clone(), call };
            self.calls.send(Outgoing { to: child.pick.peer.clone(), envelope }, about, until, step);
        }
    }

    /// When to stop repeating a decision: the part is over by old and by new terms.
    fn tell_until(&self, booking: &Booking, part: usize, now: Moment) -> Moment {
        let Some(child) = booking.children.get(part) else { return now };
        let new = booking.change.as_ref().and_then(|change| change.slots.get(part)?.as_ref());
        let old = child.pick.slot.interval.end;
        let end = new.map_or(old, |new| new.interval.end.max(old));
        Moment::of(end).max(now + self.hold_time(&child.pick.peer))
    }

    /// Handles a peer's answer to the decision.
    pub(super) fn finish_ended(
        &mut self,
        (id, part): (ReservationId, usize),
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(changing), Some(child)) = (&booking.change, booking.children.get(part)) else { return };
        let passes = matches!(answer, Some(Answer::Problem(problem)) if problem.why.is_passing());
        if passes {
            // The peer did not process the call; repeat it.
            return self.send_finishes(id, step);
        }
        if changing.stage == Stage::Decided {
            match answer {
                Some(Answer::Reservation(there)) if there.id == child.pick.child => {
                    self.take_changed(id, part, there, step);
                }
                Some(Answer::Problem(problem)) if problem.why == Why::NotPrepared => {
                    if !self.broken.is(Flaw::ChangeInPart) {
                        return self.change_again(id, part, step);
                    }
                }
                Some(Answer::Problem(problem)) => {
                    let forgotten = matches!(
                        problem.why,
                        Why::Unknown(_)
                            | Why::CancelledBefore(_)
                            | Why::NothingToCancel(_)
                            | Why::NotOwner(_)
                    );
                    let why = if forgotten { Lost::Forgotten } else { Lost::NotChanged };
                    self.not_changed(id, part, why, step);
                }
                _ => self.not_changed(id, part, Lost::NotChanged, step),
            }
        }
        self.part_finished(id, part, step);
    }

    /// The preparation expired before the decision arrived. Requests the same terms as a plain change.
    fn change_again(&mut self, id: ReservationId, part: usize, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(changing), Some(child)) =
            (&booking.asked, &booking.change, booking.children.get(part))
        else {
            return;
        };
        let (Some(permission), Some(terms)) =
            (Received::of(&changing.call).committing(), changing.terms(part))
        else {
            return;
        };
        let call = match terms {
            NewTerms::Request(request) => permission.change(child.pick.child, None, request),
            NewTerms::Until(end) => permission.extend(child.pick.child, None, end),
        };
        let envelope = Envelope { key: Key(self.identities.make()), caller: asked.caller.clone(), call };
        let until = self.tell_until(booking, part, step.now);
        let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
        self.calls.send(outgoing, About::ChangeAgain { id, part }, until, step);
    }

    pub(super) fn change_again_ended(
        &mut self,
        (id, part): (ReservationId, usize),
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(changing) = booking.change.as_ref().filter(|change| change.stage == Stage::Decided) else {
            return;
        };
        let wanted = changing.slots.get(part).and_then(|slot| slot.as_ref()).map(|slot| slot.interval);
        let child = booking.children.get(part).map(|child| child.pick.child);
        let given = |there: &Reservation| {
            Some(there.id) == child && there.slots.first().map(|slot| slot.interval) == wanted
        };
        match answer {
            Some(Answer::Problem(problem)) if problem.why.is_passing() => {
                return self.change_again(id, part, step);
            }
            Some(Answer::Reservation(there)) if given(there) => self.take_changed(id, part, there, step),
            _ => self.not_changed(id, part, Lost::NotChanged, step),
        }
        self.part_finished(id, part, step);
    }

    /// Records the new terms of a part, or its loss.
    fn take_changed(&mut self, id: ReservationId, part: usize, there: &Reservation, step: &mut Step) {
        match there.slots.first() {
            Some(slot) if is_promised(there.state) || there.state == State::Completed => {
                self.note(Event::Changed { id, part, slot: slot.clone() }, step);
            }
            _ => {
                let why = lost(there).map_or(Lost::Ended, |(why, _)| why);
                self.not_changed(id, part, why, step);
            }
        }
    }

    /// The peer does not have the decided terms. The booking shows the new terms, and the part as lost.
    fn not_changed(&mut self, id: ReservationId, part: usize, why: Lost, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let slot = booking.change.as_ref().and_then(|change| change.slots.get(part)?.clone());
        let Some(slot) = slot else { return };
        let capacity = slot.capacity;
        self.note(Event::Changed { id, part, slot }, step);
        self.note(Event::PartSeen { id, part, at: step.now, loss: Some((why, capacity)) }, step);
    }

    fn part_finished(&mut self, id: ReservationId, part: usize, step: &mut Step) {
        let Some(changing) = self.bookings.get(&id).and_then(|booking| booking.change.as_ref()) else {
            return;
        };
        let all = changing.parts().count();
        let finished = &mut self.changes.entry(id).or_default().finished;
        finished.insert(part);
        if finished.len() == all {
            self.finish_change_of(id, step);
        }
    }

    /// All peers have confirmed the terms. Ends the change.
    fn finish_change_of(&mut self, id: ReservationId, step: &mut Step) {
        let Some(changing) = self.bookings.get(&id).and_then(|booking| booking.change.clone()) else {
            return;
        };
        let clients = self.changes.remove(&id).map(|under_way| under_way.clients).unwrap_or_default();
        self.note(Event::ChangeSettled { id }, step);
        let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(step.now)) else { return };
        let Changing { key, call, .. } = changing;
        let waits = clients.iter().any(|client| client.key == key);
        if changing.stage == Stage::Decided && !waits && !matches!(call, Call::PrepareChange { .. }) {
            // The original caller is gone (the broker restarted). Record the answer, so that a repeated call
            // finds it.
            let answered = Answered { at: step.now, key, call: Digest::of(&call), answer: answer.clone() };
            self.note(Event::Answered { id, answered }, step);
        }
        self.answer_change(id, clients, &answer, step);
        self.end_if_nothing_is_left(id, step);
    }

    /// The booking is over; callers that wait for a change are told so.
    pub(super) fn drop_change(&mut self, id: ReservationId, step: &mut Step) {
        self.calls.forget(About::prepares(id));
        self.calls.forget(About::finishes(id));
        self.calls.forget(About::changes_again(id));
        let Some(UnderWay { clients, .. }) = self.changes.remove(&id) else { return };
        if let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(step.now)) {
            self.answer_change(id, clients, &answer, step);
        }
    }

    /// Handles the requester's decision about a prepared change.
    pub(super) fn finish_change(&mut self, client: Client, envelope: &Envelope, step: &mut Step) {
        let Call::FinishChange { id, change, accept } = envelope.call else { return };
        let booking = match self.owned(id, &envelope.caller) {
            Ok(booking) => booking,
            Err(why) => return step.refuse(client, why),
        };
        let ours = booking.change.as_ref().filter(|known| known.change == change);
        match (ours.map(|known| known.stage), accept) {
            (Some(Stage::Prepared(until)), true) if step.now < until => {
                self.wait_for_change(id, client);
                self.decide_change(id, step);
            }
            (Some(Stage::Decided), true) => self.wait_for_change(id, client),
            (Some(Stage::Preparing), true) => step.refuse(client, Why::ChangeUnderWay),
            (Some(Stage::Preparing | Stage::Prepared(_)), _) => {
                self.give_up_change(id, Problem::new(Why::NotPrepared), step);
                self.answer_finished(id, client, accept, step);
            }
            (Some(Stage::GivenUp), _) => self.answer_finished(id, client, accept, step),
            (Some(Stage::Decided), false) => {
                self.answer(id, client, Problem::new(Why::NotPrepared).into(), step);
            }
            (None, _) => match (booking.last_change.filter(|(last, _)| *last == change), accept) {
                (Some((_, accepted)), _) => self.answer_finished(id, client, accept != accepted, step),
                (None, true) if booking.state.is_over() => {
                    let illegal = IllegalMove { from: booking.state, attempted: Move::SettleChange };
                    self.answer(id, client, Problem::new(illegal).into(), step);
                }
                (None, _) => {
                    if !accept && !booking.state.is_over() {
                        // Remembered, in case the prepare call arrives after this one: it is then refused.
                        self.note(Event::ChangeGivenUp { id, change }, step);
                    }
                    self.answer_finished(id, client, accept, step);
                }
            },
        }
    }

    fn answer_finished(&mut self, id: ReservationId, client: Client, not_prepared: bool, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let answer = if not_prepared {
            Problem::new(Why::NotPrepared).into()
        } else {
            Answer::Reservation(booking.view(step.now))
        };
        self.answer(id, client, answer, step);
    }

    /// After a restart: finishes decided changes and gives up those that were not prepared everywhere.
    pub(super) fn resume_change(&mut self, id: ReservationId, step: &mut Step) {
        let stage =
            self.bookings.get(&id).and_then(|booking| booking.change.as_ref()).map(|change| &change.stage);
        match stage {
            Some(Stage::Preparing) => self.give_up_change(id, Problem::new(Why::NotPrepared), step),
            Some(Stage::Decided | Stage::GivenUp) => self.send_finishes(id, step),
            Some(Stage::Prepared(_)) | None => {}
        }
    }
}

/// State of a change whose prepare call is repeated.
enum Known {
    Preparing,
    Ready,
    Taken,
    NotTaken,
}

fn known_change(booking: &Booking, change: ChangeId) -> Option<Known> {
    if let Some(changing) = booking.change.as_ref().filter(|known| known.change == change) {
        return Some(match changing.stage {
            Stage::Preparing => Known::Preparing,
            Stage::Prepared(_) => Known::Ready,
            Stage::Decided => Known::Taken,
            Stage::GivenUp => Known::NotTaken,
        });
    }
    let (_, accepted) = booking.last_change.filter(|(last, _)| *last == change)?;
    Some(if accepted { Known::Taken } else { Known::NotTaken })
}

/// Whether a call changes the description or the sharing, which all peers must know.
fn says_other(booking: &Booking, call: &Call) -> bool {
    match call {
        Call::Change { request, .. } | Call::PrepareChange { terms: NewTerms::Request(request), .. } => {
            booking.request().is_some_and(|before| request.says_other_than(before))
        }
        _ => false,
    }
}

/// How long a peer keeps both terms of a part. None if its answer does not confirm the requested terms.
fn prepared(booking: &Booking, changing: &Changing, part: usize, there: &Reservation) -> Option<Millis> {
    let (child, [slot]) = (booking.children.get(part)?, there.prepared.as_slice()) else { return None };
    let wanted = changing.slots.get(part)?.as_ref()?;
    let same = slot.interval == wanted.interval
        && (changing.only_extends() || slot.capacity == wanted.capacity)
        && there.id == child.pick.child;
    there.held_for.filter(|_| same)
}
