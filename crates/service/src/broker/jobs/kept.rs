//! One job at a broker, and how far it has come. It changes by events alone; how the site sees it at the moment is only
//! remembered to be shown.

use super::words::Event;
use bookahead_api as api;
use bookahead_plan::Time;
use bookahead_protocol::jobs::choice::{Choice, Outcome};
use bookahead_protocol::level::Received;
use bookahead_protocol::{Caller, JobId, Key, Moment, Name, ReservationId};

/// A job.
pub(super) struct Kept {
    /// All that happened to it.
    pub(super) history: Vec<Event>,
    /// The key of the call by which it came.
    pub(super) key: Key,
    pub(super) caller: Caller,
    pub(super) asked: Box<api::SubmitJob>,
    pub(super) at: Time,
    pub(super) choice: Choice,
    pub(super) handed: bool,
    pub(super) unwanted: bool,
    pub(super) over: Option<(Time, Box<api::Job>)>,
    /// As the site told last.
    pub(super) seen: Option<Box<api::Job>>,
    /// When the site is asked next.
    pub(super) next: Moment,
}

impl Kept {
    pub(super) fn new(key: Key, caller: Caller, asked: Box<api::SubmitJob>, at: Time) -> Kept {
        Kept {
            history: Vec::new(),
            key,
            choice: Choice::new(Received::with_a_job()),
            caller,
            asked,
            at,
            handed: false,
            unwanted: false,
            over: None,
            seen: None,
            next: Moment::of(at),
        }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        self.history.push(event.clone());
        match event {
            Event::Submitted { .. } => {}
            Event::Choice { event, .. } => self.choice.apply(event),
            Event::Handed { .. } => self.handed = true,
            Event::Unwanted { .. } => self.unwanted = true,
            Event::Over { job, at } => {
                self.over.get_or_insert((*at, job.clone()));
            }
        }
    }

    /// Where it is to run, and in which reservation.
    pub(super) fn place(&self) -> Option<(Name, ReservationId)> {
        match self.choice.outcome() {
            Some(Outcome::Booked { site, id, .. }) => Some((site.clone(), *id)),
            Some(Outcome::Failed(_)) | None => None,
        }
    }

    pub(super) fn shown(&self, id: JobId) -> api::Job {
        if let Some((_, job)) = &self.over {
            return (**job).clone();
        }
        let place = self.place();
        if let (Some(seen), Some((site, _))) = (&self.seen, &place) {
            return api::Job { site: Some(site.clone()), ..(**seen).clone() };
        }
        let expected_start = match self.choice.outcome() {
            Some(Outcome::Booked { start, .. }) => Some(api::Timestamp::nearest(*start)),
            _ => None,
        };
        api::Job {
            id,
            owner: self.caller.user.clone(),
            site: place.as_ref().map(|(site, _)| site.clone()),
            resource: None,
            reservation: place.map(|(_, id)| id),
            capacity: self.asked.capacity,
            limit_seconds: self.asked.limit_seconds,
            state: api::JobState::Placing,
            submitted: api::Timestamp::nearest(self.at),
            started: None,
            ended: None,
            expected_start,
            exit: None,
            detail: None,
        }
    }
}
