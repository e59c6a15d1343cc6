//! Waiting for the batch system. Where the rules name a time limit ([`Rules::consent`]), nothing is promised before the
//! batch system has granted it: a request, a late commit or a change rests in the book, takes its room, and is settled by
//! [`Ledger::granted`], [`Ledger::not_granted`], a cancel, or time. Its callers wait for [`Ledger::settled_answer`].

use super::Ledger;
use super::entry::{Then, Waiting};
use super::event::{Ticked, What};
use crate::clock::{Millis, Moment};
use crate::ids::ReservationId;
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Problem, Why};
use bookahead_plan::Time;

impl Ledger {
    /// Until when the batch system may answer: not longer than the rules say, and of a hold not beyond its begin.
    pub(super) fn answer_by(&self, now: Moment, limit: Millis, latest: Time) -> Moment {
        (now + limit).min(Moment::of(latest)).max(now)
    }

    /// The batch system granted what a reservation waited for. Nothing happens where it does not wait any more: then what
    /// was granted is to be given back.
    pub fn granted(&mut self, now: Moment, id: ReservationId) -> Ticked {
        let mut course = self.tick(now);
        let now = self.latest;
        let Some(entry) = self.entries.get(&id) else { return course };
        let (begin, then) = (entry.begin(), entry.waiting.as_ref().map(|waiting| waiting.then.clone()));
        match then {
            None => {}
            Some(Then::Hold(hold_for)) => {
                let deadline = self.deadline(now, hold_for, begin);
                self.record(now, What::Granted { id, deadline }, &mut course);
            }
            Some(Then::Change { .. }) => self.record(now, What::ChangeSettled { id }, &mut course),
            Some(Then::Book) => self.grant_and_commit(now, id, Vec::new(), &mut course),
            Some(Then::CommitLate(jobs)) => self.grant_and_commit(now, id, jobs, &mut course),
        }
        course
    }

    fn grant_and_commit(
        &mut self,
        now: Moment,
        id: ReservationId,
        jobs: Vec<crate::JobId>,
        course: &mut Ticked,
    ) {
        self.record(now, What::Granted { id, deadline: now }, course);
        self.record(now, What::Committed { id, jobs, late: None }, course);
    }

    /// The batch system refused what a reservation waited for.
    pub fn not_granted(&mut self, now: Moment, id: ReservationId, why: Why) -> Ticked {
        let mut course = self.tick(now);
        if self.is_waiting(id) {
            let problem = Problem::new(why);
            self.record(self.latest, What::NotGranted { id, problem }, &mut course);
        }
        course
    }

    /// Whether a reservation waits for the batch system.
    pub fn is_waiting(&self, id: ReservationId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.waiting.is_some())
    }

    /// What a call waited for has come, by this event: its answer, which is remembered for repetitions.
    pub fn settled_answer(&mut self, now: Moment, envelope: &Envelope, by: &What) -> (Answer, Ticked) {
        let mut course = Ticked::default();
        let id = envelope.call.id();
        let answer = match (by, &envelope.call) {
            (What::NotGranted { problem, .. }, _) => problem.clone().into(),
            // Its old terms made it begin or end before the new ones were granted.
            (What::Begun { .. } | What::Completed { .. }, Call::Change { .. } | Call::Extend { .. }) => {
                Problem::new(Why::NotGranted("it began or ended before the change was granted".into())).into()
            }
            _ => match id.and_then(|id| self.reservation(now, id)) {
                Some(reservation) => Answer::Reservation(reservation),
                None => Problem::new(Why::Silence).into(),
            },
        };
        self.remember(self.latest.max(now), envelope, &answer, &mut course);
        (answer, course)
    }

    /// Since when the reservation waits that has waited for longest.
    pub fn waits_since(&self) -> Option<Moment> {
        let waiting = self.entries.values().filter_map(|entry| entry.waiting.as_ref());
        waiting.map(|Waiting { since, .. }| *since).min()
    }
}
