//! Waiting for the batch system. Where the rules name a time limit ([`Rules::consent`](super::Rules::consent)), nothing is
//! promised before the batch system has granted it: a request, a late commit or a change rests in the book, takes its
//! room, and is settled by [`Ledger::granted`], [`Ledger::not_granted`], a cancel, or time. The call because of which it waits
//! is part of the book, so that its repetitions get the same answer, also after a restart. Others may wait for the same
//! ([`Ledger::settled_answer`]).

use super::Ledger;
use super::entry::{Then, Waiting};
use super::event::{Ticked, What};
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, ReservationId};
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Problem, Why};
use bookahead_plan::Time;

impl Ledger {
    /// Until when the batch system may answer: not longer than the rules say, and not when it is of no use any more.
    pub(super) fn answer_by(&self, now: Moment, limit: Millis, latest: Time) -> Moment {
        (now + limit).min(Moment::of(latest)).max(now)
    }

    /// The batch system granted what a reservation waited for. Nothing happens where it does not wait any more: then what
    /// was granted is to be given back.
    pub fn granted(&mut self, now: Moment, id: ReservationId) -> Ticked {
        let mut course = self.tick(now);
        let now = self.latest;
        let Some(entry) = self.entries.get(&id) else { return course };
        let begin = entry.begin();
        let booked = |jobs: Vec<JobId>| {
            vec![What::Granted { id, deadline: now }, What::Committed { id, jobs, late: None }]
        };
        let events = match entry.waiting.as_ref().map(|waiting| waiting.then.clone()) {
            None => return course,
            Some(Then::Hold(hold_for)) => {
                vec![What::Granted { id, deadline: self.deadline(now, hold_for, begin) }]
            }
            Some(Then::Book) => booked(Vec::new()),
            Some(Then::CommitLate(jobs)) => booked(jobs),
            Some(Then::Change { .. }) => vec![What::ChangeSettled { id }],
        };
        self.happen(now, events, &mut course);
        course
    }

    /// The batch system refused what a reservation waited for.
    pub fn not_granted(&mut self, now: Moment, id: ReservationId, why: Why) -> Ticked {
        let mut course = self.tick(now);
        if self.is_waiting(id) {
            let problem = Problem::new(why);
            self.happen(self.latest, vec![What::NotGranted { id, problem }], &mut course);
        }
        course
    }

    /// Whether a reservation waits for the batch system.
    pub fn is_waiting(&self, id: ReservationId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.waiting.is_some())
    }

    /// The call because of which a reservation waits.
    pub(super) fn asked(&self, id: ReservationId) -> Option<&Envelope> {
        self.entries.get(&id)?.waiting.as_ref()?.asked.as_deref()
    }

    /// The call with this key because of which the reservation of a call waits.
    pub(super) fn asked_by_key(&self, envelope: &Envelope) -> Option<(ReservationId, &Envelope)> {
        let id = envelope.call.id()?;
        Some((id, self.asked(id).filter(|asked| asked.key == envelope.key)?))
    }

    /// Lets events about one reservation happen. If it waits no longer then, the call because of which it waited is
    /// answered.
    pub(super) fn happen(&mut self, at: Moment, events: Vec<What>, course: &mut Ticked) {
        let by = events.first().and_then(|by| {
            let id = by.id()?;
            Some((id, self.asked(id)?.clone(), by.clone()))
        });
        for what in events {
            self.record(at, what, course);
        }
        if let Some((id, asked, by)) = by.filter(|(id, ..)| !self.is_waiting(*id)) {
            let answer = self.answer_after(at, id, &asked.call, &by);
            self.remember(at, &asked, &answer, course);
        }
    }

    /// What a call waited for has come, by this event: its answer, which is remembered for repetitions.
    pub fn settled_answer(&mut self, now: Moment, envelope: &Envelope, by: &What) -> (Answer, Ticked) {
        let mut course = Ticked::default();
        let now = now.max(self.latest);
        if let Some(known) = self.answers.get(envelope.key).filter(|known| *known.envelope == *envelope) {
            return (known.answer.again(now - known.at), course);
        }
        let Some(id) = envelope.call.id() else { return (Problem::new(Why::Silence).into(), course) };
        let answer = self.answer_after(now, id, &envelope.call, by);
        self.remember(now, envelope, &answer, &mut course);
        (answer, course)
    }

    fn answer_after(&self, now: Moment, id: ReservationId, call: &Call, by: &What) -> Answer {
        match (by, call) {
            (What::NotGranted { problem, .. }, _) => problem.clone().into(),
            // Its old terms made it begin or end before the new ones were granted.
            (What::Begun { .. } | What::Completed { .. }, Call::Change { .. } | Call::Extend { .. }) => {
                Problem::new(Why::NotGranted("it began or ended before the change was granted".into())).into()
            }
            _ => match self.reservation(now, id) {
                Some(reservation) => Answer::Reservation(reservation),
                None => Problem::new(Why::Unknown(id)).into(),
            },
        }
    }

    /// Since when the reservation waits that has waited for longest.
    pub fn waits_since(&self) -> Option<Moment> {
        let waiting = self.entries.values().filter_map(|entry| entry.waiting.as_ref());
        waiting.map(|Waiting { since, .. }| *since).min()
    }
}
