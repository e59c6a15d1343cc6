//! What a broker does when somebody calls: it answers at once, from what it remembers, or as soon as the booking has come
//! that far. Every answer about a booking is remembered for those who repeat their call.

use super::booking::Booking;
use super::survey::{Purpose, Survey};
use super::{Answered, Asked, Broker, Client, Effects, Event, Opening, Outcome};
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::level::Received;
use crate::life_cycle::{IllegalMove, Move, State};
use crate::message::{Answer, Call, Caller, Envelope};
use crate::problem::{Problem, Why};

/// Nobody looks at more offers, and each costs a search.
const MOST_OFFERS: u32 = 100;

impl Broker {
    /// Somebody calls.
    pub fn handle(&mut self, now: Moment, from: &Name, envelope: &Envelope) -> Effects {
        let mut effects = Effects::default();
        let client = Client { name: from.clone(), key: envelope.key, call: envelope.call.clone() };
        if let Some(answer) = self.answered_before(now, envelope) {
            effects.reply(client, answer);
            return effects;
        }
        let others = self.pending.len();
        let caller = &envelope.caller;
        let received = Received::of(&envelope.call);
        match &envelope.call {
            Call::Probe { request, most, starts } => {
                let purpose = Purpose::Tell { client, most: (*most).min(MOST_OFFERS) };
                let starts = &starts[..starts.len().min(self.rules.slots as usize)];
                let survey = Survey::new(purpose, caller, received.probing(), request, starts);
                self.begin_survey(now, survey, &mut effects);
            }
            Call::Reserve { id, request, hold_for, book } => {
                let hold_for = (*hold_for).min(self.rules.longest_hold);
                let asked = Asked { caller: caller.clone(), request: request.clone(), hold_for, book: *book };
                let survey = Survey::new(Purpose::Book(*id), caller, received.probing(), request, &[]);
                self.reserve(now, client, *id, asked, survey, &mut effects);
            }
            Call::Commit { id, .. } => self.commit(now, client, *id, envelope, &mut effects),
            Call::Cancel { id } => self.cancel(now, client, *id, caller, &mut effects),
            Call::Show { id } => effects.reply(client, self.show(now, *id, caller)),
            Call::Hold { .. }
            | Call::Extend { .. }
            | Call::Attach { .. }
            | Call::Change { .. }
            | Call::Release { .. } => {
                self.begin_errand(now, client, envelope, &mut effects);
            }
        }
        self.advance_searches(now, others, &mut effects);
        effects
    }

    /// How a booking is, for those who may see it.
    pub fn show(&self, now: Moment, id: ReservationId, caller: &Caller) -> Answer {
        match self.owned(id, caller) {
            Ok(booking) => Answer::Reservation(booking.view(now)),
            Err(why) => Problem::new(why).into(),
        }
    }

    /// A booking that the caller may act on.
    pub(super) fn owned(&self, id: ReservationId, caller: &Caller) -> Result<&Booking, Why> {
        let booking = self.bookings.get(&id).filter(|booking| booking.asked.is_some());
        let booking = booking.ok_or(Why::Unknown(id))?;
        if caller.may_act_for(&booking.owner()) { Ok(booking) } else { Err(Why::NotOwner(id)) }
    }

    /// The answer to a call that was answered before.
    fn answered_before(&self, now: Moment, envelope: &Envelope) -> Option<Answer> {
        if envelope.call.only_asks() {
            return None;
        }
        let booking = self.owned(envelope.call.id()?, &envelope.caller).ok()?;
        let before = booking.answered.iter().find(|answered| answered.key == envelope.key)?;
        if before.call == envelope.call {
            Some(before.answer.again(now - before.at))
        } else {
            Some(Problem::new(Why::KeyTaken(envelope.key)).into())
        }
    }

    /// Answers a call about a booking, and remembers it.
    pub(super) fn answer(
        &mut self,
        now: Moment,
        id: ReservationId,
        client: Client,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if self.bookings.contains_key(&id) {
            let Client { key, call, .. } = client.clone();
            let answered = Answered { at: now, key, call, answer: answer.clone() };
            self.note(effects, Event::Answered { id, answered });
        }
        effects.reply(client, answer);
    }

    fn reserve(
        &mut self,
        now: Moment,
        client: Client,
        id: ReservationId,
        asked: Asked,
        survey: Survey,
        effects: &mut Effects,
    ) {
        let known = self.bookings.get(&id).map(|booking| booking.asked.as_ref());
        let known = known.or_else(|| self.opening.get(&id).map(|opening| Some(&opening.asked)));
        match known {
            Some(Some(before)) if *before != asked => {
                return effects.reply(client, Problem::new(Why::IdTaken(id)).into());
            }
            Some(_) => return self.answer_or_wait(now, client, id, effects),
            None => {}
        }
        if let Err(malformed) = asked.request.check() {
            return effects.reply(client, Problem::new(malformed).into());
        }
        let under_way = [self.opening.len(), self.searches.len(), self.surveys.len(), self.pending.len()];
        if under_way.iter().sum::<usize>() >= self.rules.under_way {
            return effects.reply(client, Problem::new(Why::Busy).into());
        }
        self.clients.entry(id).or_default().push(client);
        self.opening.insert(id, Opening { asked, survey: None });
        self.begin_survey(now, survey, effects);
    }

    /// Tells how a booking came out, now or as soon as it is known.
    fn answer_or_wait(&mut self, now: Moment, client: Client, id: ReservationId, effects: &mut Effects) {
        match self.bookings.get(&id) {
            Some(booking) if booking.state != State::Requested && !booking.is_being_committed() => {
                let answer = booking.answer(now);
                self.answer(now, id, client, answer, effects);
            }
            _ => {
                let clients = self.clients.entry(id).or_default();
                if !clients.contains(&client) {
                    clients.push(client);
                }
            }
        }
    }

    /// Tells all who wait for it how a booking came out.
    pub(super) fn tell(&mut self, now: Moment, id: ReservationId, effects: &mut Effects) {
        let Some(answer) = self.bookings.get(&id).map(|booking| booking.answer(now)) else { return };
        for client in self.clients.remove(&id).unwrap_or_default() {
            self.answer(now, id, client, answer.clone(), effects);
        }
    }

    fn commit(
        &mut self,
        now: Moment,
        client: Client,
        id: ReservationId,
        envelope: &Envelope,
        effects: &mut Effects,
    ) {
        let booking = match self.owned(id, &envelope.caller) {
            Ok(booking) => booking,
            Err(why) => return effects.reply(client, Problem::new(why).into()),
        };
        match booking.state {
            State::Held if booking.is_being_committed() => self.answer_or_wait(now, client, id, effects),
            State::Held if booking.until.is_some_and(|until| until <= now) => {
                self.close(now, id, Outcome::Expired, effects);
                self.answer(now, id, client, Problem::new(Why::Expired).into(), effects);
            }
            State::Held => {
                self.clients.entry(id).or_default().push(client);
                self.decide(now, id, envelope.call.clone(), effects);
            }
            State::Committed | State::Active => self.begin_errand(now, client, envelope, effects),
            State::Completed => {
                let answer = booking.answer(now);
                self.answer(now, id, client, answer, effects);
            }
            from => {
                let answer = match booking.answer(now) {
                    Answer::Problem(problem) => Answer::Problem(problem),
                    _ => Problem::new(IllegalMove { from, attempted: Move::Commit }).into(),
                };
                self.answer(now, id, client, answer, effects);
            }
        }
    }

    fn cancel(
        &mut self,
        now: Moment,
        client: Client,
        id: ReservationId,
        caller: &Caller,
        effects: &mut Effects,
    ) {
        if let Some(Opening { asked, .. }) = self.opening.get(&id) {
            if asked.caller.user != caller.user {
                return effects.reply(client, Problem::new(Why::NotOwner(id)).into());
            }
            self.clients.entry(id).or_default().push(client);
            return self.close(now, id, Outcome::Cancelled, effects);
        }
        match self.owned(id, caller).map(|booking| booking.state) {
            Ok(State::Completed) => {
                let illegal = IllegalMove { from: State::Completed, attempted: Move::Cancel };
                effects.reply(client, Problem::new(illegal).into());
            }
            Ok(state) => {
                if !state.is_over() {
                    self.close(now, id, Outcome::Cancelled, effects);
                }
                if let Some(view) = self.bookings.get(&id).map(|booking| booking.view(now)) {
                    self.answer(now, id, client, Answer::Reservation(view), effects);
                }
            }
            Err(Why::Unknown(_)) => {
                // Should the call that it takes back arrive later, it is known to be taken back.
                if !self.bookings.contains_key(&id) {
                    self.close(now, id, Outcome::Cancelled, effects);
                }
                effects.reply(client, Problem::new(Why::CancelledBefore(id)).into());
            }
            Err(why) => effects.reply(client, Problem::new(why).into()),
        }
    }
}
