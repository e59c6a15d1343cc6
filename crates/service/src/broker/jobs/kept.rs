//! One job at a broker, and how far it has come. It changes by events alone; how sites see it at the moment is only
//! remembered to be shown.

use super::told::{as_the_job, earliest};
use super::words::{Event, PartThere};
use bookahead_api as api;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::broker::name_here;
use bookahead_protocol::jobs::Race;
use bookahead_protocol::jobs::choice::{Choice, Outcome};
use bookahead_protocol::level::Received;
use bookahead_protocol::{Caller, JobId, Key, Moment, Name, ReservationId};
use std::collections::BTreeMap;

/// A job.
pub(super) struct Kept {
    /// All that happened to it.
    pub(super) history: Vec<Event>,
    /// The key of the call by which it came.
    pub(super) key: Key,
    pub(super) caller: Caller,
    pub(super) asked: Box<api::SubmitJob>,
    pub(super) at: Time,
    /// The brokers that it came through.
    pub(super) via: Vec<Name>,
    /// Of one that is to run in a reservation of its owner's: the part of it.
    pub(super) part: Option<Box<PartThere>>,
    /// Of one that is to run in a reservation which the broker finds.
    pub(super) choice: Choice,
    /// Of one that is flooded.
    pub(super) race: Race,
    pub(super) handed: bool,
    pub(super) unwanted: bool,
    pub(super) over: Option<(Time, Box<api::Job>)>,
    /// As the sites told last.
    pub(super) seen: BTreeMap<Name, Box<api::Job>>,
    /// When a site last told something.
    pub(super) heard: Moment,
    /// When something is to be done about it, apart from its choice.
    pub(super) next: Moment,
}

impl Kept {
    /// One that was just submitted.
    pub(super) fn new(
        key: Key,
        caller: Caller,
        asked: Box<api::SubmitJob>,
        (at, via): (Time, Vec<Name>),
        part: Option<Box<PartThere>>,
    ) -> Kept {
        Kept {
            history: Vec::new(),
            key,
            part,
            choice: Choice::new(Received::with_a_job()),
            race: Race::default(),
            caller,
            asked,
            at,
            via,
            handed: false,
            unwanted: false,
            over: None,
            seen: BTreeMap::new(),
            heard: Moment::of(at),
            next: Moment::of(at),
        }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        self.history.push(event.clone());
        match event {
            Event::Submitted { .. } => {}
            Event::Choice { event, .. } => self.choice.apply(event),
            Event::Flood { event, .. } => self.race.apply(event),
            Event::Handed { .. } => self.handed = true,
            Event::Unwanted { .. } => self.unwanted = true,
            Event::Over { job, at } => {
                self.over.get_or_insert((*at, job.clone()));
            }
        }
    }

    /// Whether copies of it wait at several sites.
    pub(super) fn is_flooded(&self) -> bool {
        self.asked.mode == Some(api::Mode::Flood)
    }

    /// Whether it is over, and nothing is left of it anywhere that would have to be given back.
    pub(super) fn is_settled(&self) -> bool {
        let nothing_left = match self.is_flooded() {
            true => self.race.is_over(),
            false => self.part.is_some() || self.choice.is_over(),
        };
        self.over.is_some() && nothing_left
    }

    /// Where it is to run, and in which reservation.
    pub(super) fn place(&self) -> Option<(Name, ReservationId)> {
        if let Some(part) = &self.part {
            return Some((part.site.clone(), part.reservation));
        }
        match self.choice.outcome() {
            Some(Outcome::Booked { site, id, .. }) => Some((site.clone(), *id)),
            Some(Outcome::Failed(_)) | None => None,
        }
    }

    /// When its reservation begins, and when the job is over at the latest.
    pub(super) fn when(&self) -> Option<Interval> {
        let booked = match self.choice.outcome() {
            Some(Outcome::Booked { start, finish, .. }) => Some(Interval::new(*start, finish.second())),
            Some(Outcome::Failed(_)) | None => None,
        };
        self.part.as_ref().map(|part| part.when).or(booked)
    }

    /// A job in a reservation as it is told here. Who has named a reservation is told of that one, and of the resource by the
    /// name that it has here.
    pub(super) fn as_here(&self, site: &Name, job: api::Job) -> api::Job {
        let (mut resource, mut reservation) = (job.resource, job.reservation);
        if let Some(part) = &self.part {
            resource = Some(name_here(&part.site, &part.resource));
            reservation = self.asked.reservation;
        }
        api::Job { site: Some(site.clone()), resource, reservation, ..job }
    }

    /// The job as its owner sees it.
    pub(super) fn shown(&self, id: JobId) -> api::Job {
        let shown = match &self.over {
            Some((_, job)) => (**job).clone(),
            None if self.is_flooded() => self.flooded(id),
            None => self.reserved(id),
        };
        // What becomes of copies may be learnt after the job is over.
        let said = shown.detail.clone().into_iter().chain(self.notes());
        let detail = said.collect::<Vec<_>>().join("; ");
        api::Job { detail: Some(detail).filter(|detail| !detail.is_empty()), ..shown }
    }

    fn reserved(&self, id: JobId) -> api::Job {
        let Some((site, there)) = self.place() else { return self.plain(id) };
        let placed = || {
            let expected_start = self.when().map(|when| api::Timestamp::nearest(when.begin));
            api::Job { reservation: Some(there), expected_start, ..self.plain(id) }
        };
        self.as_here(&site, self.seen.get(&site).map_or_else(placed, |seen| (**seen).clone()))
    }

    /// One job with its site, however many copies there are.
    pub(super) fn flooded(&self, id: JobId) -> api::Job {
        let plain = self.plain(id);
        if let Some(winner) = self.race.winner() {
            let entry = self.race.entries().find(|entry| entry.site == *winner);
            let there = api::Job {
                site: Some(winner.clone()),
                resource: entry.map(|entry| entry.resource.clone()),
                limit_seconds: entry.map_or(plain.limit_seconds, |entry| entry.limit.0),
                state: api::JobState::Running,
                ..plain
            };
            return self.seen.get(winner).map_or(there.clone(), |seen| as_the_job(seen, &there));
        }
        let queued = || self.race.queued();
        let Some(first) = queued().next() else { return plain };
        let copies = queued().filter_map(|site| self.seen.get(site)).map(|copy| &**copy);
        let others: String = queued().skip(1).map(|site| format!(", {site}")).collect();
        api::Job {
            state: api::JobState::Waiting,
            expected_start: earliest(copies),
            detail: Some(format!("waits at {first}{others}; the first that starts runs it")),
            ..plain
        }
    }

    /// What there is to say of its copies beside the job itself.
    fn notes(&self) -> Vec<String> {
        let wasted = self.race.wasted().map(|(site, Seconds(ran))| {
            format!("a copy at {site} had started too, and ran {ran} s in vain until it was cancelled")
        });
        let decided = self.race.winner().is_some() || self.race.outcome().is_some();
        let winner = self.race.winner().filter(|_| self.over.is_none());
        let left = self.race.dropping().filter(|site| decided && Some(*site) != winner);
        let left = left.map(|site| format!("a copy at {site} is cancelled as soon as the site answers"));
        wasted.chain(left).collect()
    }

    /// As far as it is known without any site.
    fn plain(&self, id: JobId) -> api::Job {
        api::Job {
            id,
            owner: self.caller.user.clone(),
            site: None,
            resource: None,
            reservation: None,
            capacity: self.asked.capacity,
            limit_seconds: self.asked.limit_seconds,
            state: api::JobState::Placing,
            submitted: api::Timestamp::nearest(self.at),
            started: None,
            ended: None,
            expected_start: None,
            exit: None,
            detail: None,
        }
    }
}
