//! The course of a command: time passes first, then the call is recognised as a repetition or decided, and
//! every change becomes an event.

use super::decision::{Context, Decision, Views};
use super::entry::{AnsweredCall, Entry, Event, Handled, Ticked, What, forgotten_at};
use super::state::Ledger;
use crate::clock::Moment;
use crate::ids::ReservationId;
use crate::message::{Answer, Call, Caller, Envelope};
use crate::problem::{Problem, Why};
use std::sync::Arc;

impl Ledger {
    /// Handles a command. Deciding changes nothing; every change to the state is made by an event.
    pub fn handle(&mut self, now: Moment, envelope: &Envelope, views: &Views) -> Handled {
        let mut course = self.tick(now);
        let (answer, waits) = self.answer(envelope, views, &mut course);
        Handled { answer, waits, events: course.events, changes: course.changes }
    }

    /// Answers a call that changes nothing, without advancing time. Answers `busy` to any other call.
    pub fn ask(&mut self, now: Moment, caller: &Caller, call: &Call, views: &Views) -> Answer {
        let now = now.max(self.latest);
        if !call.only_asks() {
            return Problem::new(Why::Busy).into();
        }
        let decision = self.decide(Context { now, caller, views }, call);
        self.carry_out(now, decision, &mut Ticked::default())
    }

    fn answer(
        &mut self,
        envelope: &Envelope,
        views: &Views,
        course: &mut Ticked,
    ) -> (Answer, Option<ReservationId>) {
        let now = self.latest;
        if envelope.call.only_asks() {
            let decision = self.decide(Context { now, caller: &envelope.caller, views }, &envelope.call);
            return (self.carry_out(now, decision, course), None);
        }
        // The key is checked before the id: a repeated call must get its first answer, even if the
        // reservation has changed since.
        if let Some(known) = self.answers.get(&envelope.key) {
            let same = known.call.is(envelope);
            let again = || known.answer.again(now - known.at);
            return (if same { again() } else { key_taken(envelope) }, None);
        }
        // A call that still waits for the batch system has no recorded answer yet; its envelope is in the
        // entry.
        if let Some((id, asked)) = self.asked_by_key(envelope) {
            let same = *asked == *envelope;
            let decision = if same { Decision::show(id) } else { Decision::say(key_taken(envelope)) };
            return (self.carry_out(now, decision, course), same.then_some(id));
        }
        let decision = self.decide(Context { now, caller: &envelope.caller, views }, &envelope.call);
        let waits = decision.waits;
        let answer = self.carry_out(now, decision, course);
        let passing = matches!(&answer, Answer::Problem(problem) if problem.why.is_passing());
        // The first call that waits is recorded now; its answer is recorded when the wait ends. Transient
        // problems are not recorded, so a retry with the same key is decided anew.
        match waits {
            Some(id) if self.asked(id).is_none() => {
                self.record(now, What::Asked { envelope: Box::new(envelope.clone()) }, course);
            }
            None if !passing => self.remember(now, envelope, &answer, course),
            _ => {}
        }
        (answer, waits)
    }

    /// Whether the call is a repetition: its key was answered before, or it reserves under a known id. Such a
    /// call is not decided anew.
    pub fn knows(&self, envelope: &Envelope) -> bool {
        let reserved = match &envelope.call {
            Call::Reserve { id, .. } => {
                self.entries.contains_key(id) || self.denied_to(*id, &envelope.caller.user).is_some()
            }
            _ => false,
        };
        reserved || self.answers.get(&envelope.key).is_some()
    }

    pub(super) fn remember(
        &mut self,
        now: Moment,
        envelope: &Envelope,
        answer: &Answer,
        course: &mut Ticked,
    ) {
        let call = AnsweredCall::of(envelope);
        self.record(now, What::Answered { call, answer: Arc::new(answer.clone()) }, course);
        while self.answers.len() > self.rules.most_answers
            && let Some((_, &key)) = self.answers.oldest()
        {
            self.record(now, What::AnswerForgotten { key }, course);
        }
    }

    /// Advances time: holds expire, reservations start and complete, old records are dropped. Each event
    /// carries the moment at which it was due, not `now`.
    pub fn tick(&mut self, now: Moment) -> Ticked {
        let mut course = Ticked::default();
        let now = now.max(self.latest);
        // One event can make the next one due (a reservation that started may also have ended), so the
        // earliest is looked up again each time.
        // The deadline is compared first, because it is cheaper than the event, and mostly nothing is due.
        while self.next_deadline().is_some_and(|due| due <= now)
            && let Some((due, what)) = self.next_due()
        {
            self.latest = self.latest.max(due);
            self.happen(self.latest, vec![what], &mut course);
        }
        self.latest = now;
        self.books.iter_mut().for_each(|book| book.advance(now.second()));
        course
    }

    /// When [`Ledger::tick`] has its next event; None if nothing is pending.
    pub fn next_deadline(&self) -> Option<Moment> {
        let answer = self.answers.oldest().map(|(at, _)| forgotten_at(at, self.rules.retention));
        let denied = self.denied.oldest().map(|(at, _)| forgotten_at(at, self.rules.retention));
        let entry = self.agenda.first().map(|(due, _)| *due);
        [answer, denied, entry].into_iter().flatten().min()
    }

    /// Earliest moment at which a live reservation begins, ends or expires.
    pub fn next_change(&self) -> Option<Moment> {
        let live = |(_, id): &&(Moment, ReservationId)| self.entries.get(id).is_some_and(Entry::is_live);
        self.agenda.iter().find(live).map(|(due, _)| *due)
    }

    fn next_due(&self) -> Option<(Moment, What)> {
        let answer = self.answers.oldest();
        let answer =
            answer.map(|(at, &key)| (forgotten_at(at, self.rules.retention), What::AnswerForgotten { key }));
        let denied = self.denied.oldest().map(|(at, (id, owner))| {
            (forgotten_at(at, self.rules.retention), What::DenialForgotten { id: *id, owner: owner.clone() })
        });
        let entry = self.agenda.first().map(|&(due, id)| {
            let entry = self.entries.get(&id);
            (due, entry.map_or(What::Forgotten { id }, |entry| entry.due_event(id)))
        });
        [entry, denied, answer].into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// Applies an event and collects it together with its effect on schedules. Capacity that becomes free
    /// goes to degraded reservations before any later event can use it.
    pub(super) fn record(&mut self, at: Moment, what: What, course: &mut Ticked) {
        let event = Event { at, what };
        let change = self.apply(&event);
        course.events.push(event);
        if let Some(change) = change {
            let gave_back = !change.gave_back.is_empty();
            let resource = gave_back.then(|| self.at(&change.resource)).flatten();
            course.changes.push(change);
            if let Some(resource) = resource {
                self.mend(at, resource, course);
            }
        }
    }
}

fn key_taken(envelope: &Envelope) -> Answer {
    Problem::new(Why::KeyTaken(envelope.key)).into()
}
