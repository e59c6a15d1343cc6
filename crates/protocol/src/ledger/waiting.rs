//! Hold times, carrying out decisions, recording answers, and waiting for the batch system. If the rules have
//! a time limit ([`Rules::consent`](super::Rules::consent)), nothing is promised before the batch system has
//! granted it. A request, a late commit or a change then stays in the ledger, takes its capacity, and is
//! settled by [`Ledger::granted`], [`Ledger::not_granted`], a cancel, or time. The call that caused the wait
//! is part of the ledger, so its repetitions get the same answer even after a restart. Other calls may wait
//! for the same result ([`Ledger::settled_answer`]).

use super::decision::{Decision, Reply};
use super::entry::{Entry, Then, Ticked, What};
use super::state::{Granted, Ledger};
use crate::clock::{Millis, Moment};
use crate::deadline::Observed;
use crate::ids::{JobId, ReservationId};
use crate::life_cycle::State;
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Problem, Why};
use bookahead_plan::placement::Reason;
use bookahead_plan::{Span, Time};

impl Ledger {
    /// Deadline for the batch system: at most `limit` from now, and not after `latest`, when a grant would be
    /// useless.
    pub(super) fn answer_by(&self, now: Moment, limit: Millis, latest: Time) -> Moment {
        (now + limit).min(Moment::of(latest)).max(now)
    }

    /// The batch system granted a pending step. Does nothing if the reservation no longer waits; the caller
    /// must then release the grant.
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
            Some(Then::Change { preparing: None, .. }) => vec![What::ChangeSettled { id }],
            Some(Then::Change { preparing: Some(preparing), .. }) if preparing.ready => return course,
            Some(Then::Change { spans, preparing: Some(preparing), .. }) => {
                let until = self.prepared_until(now, entry, &spans, preparing.hold_for);
                vec![What::ChangePrepared { id, until }]
            }
        };
        self.happen(now, events, &mut course);
        course
    }

    /// The batch system refused a pending step.
    pub fn not_granted(&mut self, now: Moment, id: ReservationId, why: Why) -> Ticked {
        let mut course = self.tick(now);
        if self.is_waiting(id) {
            let problem = Problem::new(why);
            self.happen(self.latest, vec![What::NotGranted { id, problem }], &mut course);
        }
        course
    }

    /// Whether a reservation waits for the batch system. A prepared change waits for its owner instead.
    pub fn is_waiting(&self, id: ReservationId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.waiting.is_some() && !entry.is_prepared())
    }

    /// Deadline of a prepared change: as for a hold, and not after the first instant at which old or new
    /// terms would no longer be whole.
    pub(super) fn prepared_until(
        &self,
        now: Moment,
        entry: &Entry,
        spans: &[Span],
        hold_for: Millis,
    ) -> Moment {
        let begun = entry.state == State::Active || entry.has_begun();
        let new = if begun {
            spans.last().map(|span| span.interval.end)
        } else {
            spans.first().map(|span| span.interval.begin)
        };
        let old = if begun { entry.end() } else { entry.begin() };
        self.deadline(now, hold_for, new.map_or(old, |new| new.min(old)))
    }

    /// The call that caused the wait of a reservation.
    pub(super) fn asked(&self, id: ReservationId) -> Option<&Envelope> {
        self.entries.get(&id)?.waiting.as_ref()?.asked.as_deref()
    }

    /// The pending call with the same key and reservation id.
    pub(super) fn asked_by_key(&self, envelope: &Envelope) -> Option<(ReservationId, &Envelope)> {
        let id = envelope.call.id()?;
        Some((id, self.asked(id).filter(|asked| asked.key == envelope.key)?))
    }

    /// Applies events about one reservation. If they end its wait, the call that caused the wait is answered.
    pub(super) fn happen(&mut self, at: Moment, events: Vec<What>, course: &mut Ticked) {
        // Looked up before the events are applied: they remove the pending call from the entry.
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

    /// The answer to a call whose wait was ended by the event `by`. It is recorded for repetitions.
    pub fn settled_answer(&mut self, now: Moment, envelope: &Envelope, by: &What) -> (Answer, Ticked) {
        let mut course = Ticked::default();
        let now = now.max(self.latest);
        if let Some(known) = self.answers.get(&envelope.key).filter(|known| known.call.is(envelope)) {
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
            // By its old terms it started or ended before the new ones were granted.
            (
                What::Begun { .. } | What::Completed { .. },
                Call::Change { .. } | Call::Extend { .. } | Call::Release { .. } | Call::PrepareChange { .. },
            ) => {
                Problem::new(Why::NotGranted("it began or ended before the change was granted".into())).into()
            }
            (What::ChangeGivenUp { .. }, Call::PrepareChange { .. }) => Problem::new(Why::NotPrepared).into(),
            _ => match self.reservation(now, id) {
                Some(reservation) => Answer::Reservation(reservation),
                None => Problem::new(Why::Unknown(id)).into(),
            },
        }
    }
}

/// Number of resolved holds after which all counts are halved, so that recent holds weigh more.
const LOOKED_BACK_ON: u64 = 1_000;

impl Ledger {
    /// End of a hold that begins now: the requested time, limited by the rules and by the start of the slot.
    pub(super) fn deadline(&self, now: Moment, asked: Millis, begin: Time) -> Moment {
        let rules = &self.rules.holds;
        let adaptive = rules.adaptive.map(|adaptive| adaptive.hold(&self.observed, self.holds.mean()));
        let granted = asked.min(rules.longest).min(adaptive.unwrap_or(asked)).max(Millis::ZERO);
        (now + granted).min(Moment::of(begin)).max(now)
    }

    pub(super) fn observe_refusal(&mut self, problem: &Problem) {
        if matches!(problem.why, Why::NoSlot(Reason::NoRoom | Reason::NotAdmitted)) {
            self.observed.refused = self.observed.refused.saturating_add(1);
            self.hold_counts.refused += 1;
        }
    }

    pub(super) fn observe_grant(&mut self, entry: &Entry) {
        self.observed.granted = self.observed.granted.saturating_add(1);
        self.hold_counts.granted += 1;
        // A booking is committed at once; its hold time of zero would distort the mean.
        if entry.deadline > entry.accepted {
            self.holds.holds = self.holds.holds.saturating_add(1);
            self.holds.in_all = self.holds.in_all + (entry.deadline - entry.accepted);
        }
    }

    /// Counts a hold that an event is about to resolve.
    pub(super) fn observe(&mut self, id: ReservationId, what: &What) {
        let Some(entry) = self.entries.get(&id) else { return };
        let counts = &mut self.hold_counts;
        match (entry.state, what) {
            (State::Held | State::Expired, What::Committed { .. }) => counts.committed += 1,
            (State::Held, What::Expired { .. }) => counts.expired += 1,
            (State::Held, What::Cancelled { .. }) => counts.cancelled += 1,
            _ => {}
        }
        let seen = &mut self.observed;
        let lifetime = Moment::of(entry.end()) - entry.accepted;
        match (entry.state, what) {
            (State::Held, What::Committed { .. }) => seen.committed += 1,
            (State::Expired, What::Committed { .. }) => {
                // It was counted as evaporated when it expired.
                seen.evaporated = seen.evaporated.saturating_sub(1);
                seen.committed += 1;
            }
            // A late commit was granted, so the hold did not evaporate. The commit event that follows is
            // counted then.
            (State::Requested, What::Granted { .. }) if entry.is_committed_late() => {
                seen.evaporated = seen.evaporated.saturating_sub(1);
                return;
            }
            (State::Held, What::Expired { .. }) => seen.evaporated += 1,
            (State::Held, What::Cancelled { .. }) => seen.cancelled += 1,
            _ => return,
        }
        if matches!(what, What::Committed { .. }) {
            seen.lifetime = seen.lifetime + lifetime;
        }
        if seen.resolved() >= LOOKED_BACK_ON {
            *seen = Observed::halved(seen);
            let Granted { holds, in_all } = self.holds;
            self.holds = Granted { holds: holds / 2, in_all: Millis(in_all.0 / 2) };
        }
    }
}

impl Ledger {
    pub(super) fn carry_out(&mut self, now: Moment, decision: Decision, course: &mut Ticked) -> Answer {
        self.happen(now, decision.events, course);
        match decision.reply {
            Reply::Answer(answer) => *answer,
            Reply::View(id) => match self.entries.get(&id) {
                Some(entry) => Answer::Reservation(self.view(now, id, entry)),
                None => Problem::new(Why::Unknown(id)).into(),
            },
        }
    }
}
