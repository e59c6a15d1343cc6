//! The simplest correct site: holds, commits and cancels by id, answers repeated keys as the first time, and
//! remembers early cancels. Its schedule is a single earliest start.

use bookahead_plan::{Interval, Time};
use bookahead_protocol::{
    Answer, Call, Condition, Envelope, JobId, Key, Millis, Moment, Name, Problem, Reservation, ReservationId,
    Slot, State, Tres, Why,
};
use std::collections::BTreeMap;

#[derive(Clone)]
pub(super) struct PlainSite {
    pub(super) name: Name,
    /// Earliest start of every reservation.
    pub(super) free_from: Time,
    /// Refuses every request.
    pub(super) full: bool,
    pub(super) book: BTreeMap<ReservationId, (Reservation, Moment)>,
    answers: BTreeMap<Key, Answer>,
}

impl PlainSite {
    pub(super) fn new(name: &str, free_from: i64) -> PlainSite {
        let (book, answers) = (BTreeMap::new(), BTreeMap::new());
        PlainSite { name: name.into(), free_from: Time(free_from), full: false, book, answers }
    }

    pub(super) fn handle(&mut self, now: Moment, envelope: &Envelope) -> Answer {
        self.expire(now);
        if let Some(answer) = self.answers.get(&envelope.key) {
            return answer.clone();
        }
        let answer = match &envelope.call {
            Call::Reserve { id, hold_for, .. } => self.reserve(now, *id, *hold_for, envelope),
            Call::Commit { id, jobs } => self.commit(*id, jobs),
            Call::Cancel { id } => self.cancel(*id, envelope),
            other => panic!("a job broker does not {}", other.word()),
        };
        self.answers.insert(envelope.key, answer.clone());
        answer
    }

    /// Drops holds that were not committed in time.
    pub(super) fn expire(&mut self, now: Moment) {
        for (reservation, until) in self.book.values_mut() {
            if reservation.state == State::Held && *until <= now {
                reservation.state = State::Expired;
            }
        }
    }

    pub(super) fn in_state(&self, state: State) -> Vec<ReservationId> {
        self.book.values().filter(|(it, _)| it.state == state).map(|(it, _)| it.id).collect()
    }

    pub(super) fn jobs_of(&self, id: ReservationId) -> Vec<JobId> {
        self.book[&id].0.jobs.iter().map(|(_, job)| *job).collect()
    }

    fn reserve(&mut self, now: Moment, id: ReservationId, hold_for: Millis, envelope: &Envelope) -> Answer {
        if self.book.contains_key(&id) {
            return Problem::new(Why::CancelledBefore(id)).into();
        }
        if self.full {
            return Problem::new(Why::NoSlot(bookahead_plan::placement::Reason::NoRoom)).into();
        }
        let Call::Reserve { request, .. } = &envelope.call else { panic!("it is a reserve") };
        let part = &request.parts[0];
        let begin = part.wanted.earliest_start.max(self.free_from);
        let slot = Slot {
            resource: "cluster".into(),
            site: self.name.clone(),
            joins: None,
            interval: Interval::starting(begin, part.wanted.duration),
            capacity: part.wanted.capacity,
            slack: bookahead_plan::Seconds::ZERO,
            free: None,
            rating: None,
            impact: None,
            tres: Tres::default(),
            free_tres: Tres::default(),
            cost: 0,
        };
        let reservation = Reservation {
            id,
            owner: envelope.caller.user.clone(),
            state: State::Held,
            slots: vec![slot],
            held_for: Some(hold_for),
            jobs: Vec::new(),
            missing: Vec::new(),
            condition: Condition::Whole,
            losses: Vec::new(),
            replaced: Vec::new(),
            given_up: None,
            refused: None,
            prepared: Vec::new(),
            version: 0,
            description: Default::default(),
            shared_with: Default::default(),
            consents: Default::default(),
            created: None,
            request: None,
        };
        self.book.insert(id, (reservation.clone(), now + hold_for));
        Answer::Reservation(reservation)
    }

    fn commit(&mut self, id: ReservationId, jobs: &[JobId]) -> Answer {
        let Some((reservation, _)) = self.book.get_mut(&id) else {
            return Problem::new(Why::Unknown(id)).into();
        };
        if reservation.state != State::Held {
            return Problem::new(Why::Expired).into();
        }
        reservation.state = State::Committed;
        reservation.jobs = jobs.iter().map(|&job| (0, job)).collect();
        reservation.held_for = None;
        Answer::Reservation(reservation.clone())
    }

    fn cancel(&mut self, id: ReservationId, envelope: &Envelope) -> Answer {
        let gone = || Reservation {
            id,
            owner: envelope.caller.user.clone(),
            state: State::Cancelled,
            slots: Vec::new(),
            held_for: None,
            jobs: Vec::new(),
            missing: Vec::new(),
            condition: Condition::Whole,
            losses: Vec::new(),
            replaced: Vec::new(),
            given_up: None,
            refused: None,
            prepared: Vec::new(),
            version: 0,
            description: Default::default(),
            shared_with: Default::default(),
            consents: Default::default(),
            created: None,
            request: None,
        };
        let (reservation, _) = self.book.entry(id).or_insert_with(|| (gone(), Moment::MAX));
        if reservation.state.holds_capacity() {
            reservation.state = State::Cancelled;
        }
        Answer::Reservation(reservation.clone())
    }
}
