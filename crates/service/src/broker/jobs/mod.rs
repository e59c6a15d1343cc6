//! The job broker: jobs that were given to a broker, and where they are. It ranks the sites by the shortest expected delay.
//! A job gets a reservation at one of the best ([`reserve`]), or waits at several of them until one starts it ([`flood`]); one
//! that names a reservation runs in a part of that ([`part`]). What was given to it is written down before anybody hears of it.

mod flood;
mod kept;
mod part;
mod places;
mod reserve;
mod told;
mod words;

#[cfg(test)]
mod tests;

pub(super) use words::{Effects, Errand, What};
pub use words::{Event, PartThere, Rules};

use super::Peer;
use crate::party::Viewer;
use bookahead_api as api;
use bookahead_plan::{Capacity, Time};
use bookahead_protocol::broker::Booking;
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::race::Ask;
use bookahead_protocol::jobs::{Ranked, Task, rank, ranking};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Caller, JobId, Key, Millis, Moment, Name, ReservationId};
use kept::Kept;
use places::sites_of;
use std::collections::{BTreeMap, BTreeSet};

/// A broker looks after at most so many jobs at a time.
const MOST_LIVE: usize = 10_000;

/// All jobs of a broker.
pub(super) struct Jobs {
    rules: Rules,
    all: BTreeMap<JobId, Kept>,
    /// Which job a copy belongs to. Follows from the events.
    copies: BTreeMap<JobId, JobId>,
    /// When the races of copies want to be looked at.
    agenda: BTreeSet<(Moment, JobId)>,
    identities: Identities,
}

impl Jobs {
    /// None yet.
    pub(super) fn new(rules: Rules) -> Jobs {
        Jobs {
            rules,
            all: BTreeMap::new(),
            copies: BTreeMap::new(),
            agenda: BTreeSet::new(),
            identities: Identities::new(0, 0),
        }
    }

    /// From here on identities are made with this number and in this life.
    pub(super) fn live_as(&mut self, maker: u64, life: u32) {
        self.identities = Identities::new(maker, life);
    }

    /// All that happened to the jobs that are remembered.
    pub(super) fn history(&self) -> Vec<Event> {
        self.all.values().flat_map(|kept| kept.history.iter().cloned()).collect()
    }

    /// The fold.
    pub(super) fn apply(&mut self, event: &Event) {
        let id = match event {
            Event::Submitted { id, key, caller, asked, at, via, part } => {
                let kept = Kept::new(*key, caller.clone(), asked.clone(), (*at, via.clone()), part.clone());
                self.all.entry(*id).or_insert(kept);
                *id
            }
            Event::Choice { id, .. }
            | Event::Flood { id, .. }
            | Event::Handed { id }
            | Event::Unwanted { id } => *id,
            Event::Over { job, .. } => job.id,
        };
        if let Some(kept) = self.all.get_mut(&id) {
            kept.apply(event);
        }
        match event {
            Event::Flood { id, .. } => self.note_copies(*id),
            Event::Over { at, .. } => self.forget_the_old(*at),
            _ => {}
        }
    }

    /// What was over for as long as a broker remembers is forgotten, unless something of it may still be at a site.
    fn forget_the_old(&mut self, now: Time) {
        let retention = self.rules.retention;
        let old = |over: &(Time, Box<api::Job>)| over.0 + retention < now;
        let before = self.all.len();
        self.all.retain(|_, kept| !(kept.is_settled() && kept.over.as_ref().is_some_and(old)));
        if self.all.len() < before {
            let known = &self.all;
            self.copies.retain(|_, job| known.contains_key(job));
            self.agenda.retain(|(_, job)| known.contains_key(job));
        }
    }

    fn note(&mut self, event: Event, effects: &mut Effects) {
        self.apply(&event);
        effects.events.push(event);
    }

    /// Takes a job; the same one twice is taken once. Where it names a reservation, that is what is known of it.
    pub(super) fn submit(
        &mut self,
        now: Moment,
        (caller, via): (&Caller, &[Name]),
        (key, id): (Key, JobId),
        asked: api::SubmitJob,
        reservation: Option<&Booking>,
        mut peers: impl Iterator<Item = Peer>,
    ) -> Result<Effects, api::Problem> {
        let mut effects = Effects::default();
        let is_same = |known: &Kept| known.asked.same_but_for_id(&asked) && known.caller.user == caller.user;
        let mut with_key = self.all.iter().filter(|(_, known)| known.key == key);
        if with_key.any(|(other, known)| *other != id || !is_same(known)) {
            return Err(Problem::new(Why::KeyTaken(key)).into());
        }
        let taken =
            || api::Problem::new(api::Code::JobTaken, format!("{id} is already another job; make a new id"));
        if let Some(known) = self.all.get(&id) {
            return if is_same(known) { Ok(effects) } else { Err(taken()) };
        }
        if self.job_of(id).is_some() {
            return Err(taken());
        }
        check(&asked)?;
        if self.live().count() >= MOST_LIVE {
            return Err(Problem::new(Why::Busy).into());
        }
        let part = match asked.reservation {
            Some(named) => Some(Box::new(part::find(now, caller, &asked, (named, reservation), &mut peers)?)),
            None => None,
        };
        let (in_part, flooded) = (part.is_some(), asked.mode == Some(api::Mode::Flood));
        let (caller, asked, at, via) = (caller.clone(), Box::new(asked), now.second(), via.to_vec());
        self.note(Event::Submitted { id, key, caller, asked, at, via, part }, &mut effects);
        match (in_part, flooded) {
            (true, _) => self.attend(now, id, &mut effects),
            (false, true) => self.flood(now, id, peers, &mut effects),
            (false, false) => self.reserve(now, id, peers, &mut effects),
        }
        Ok(effects)
    }

    /// A site tells how a job is, or a copy of it.
    pub(super) fn on_job(
        &mut self,
        now: Moment,
        from: &Name,
        (id, asked): (JobId, Ask),
        answer: Result<Box<api::Job>, api::Problem>,
    ) -> Effects {
        match self.job_of(id) {
            Some(job) => self.copy_answered(now, from, (job, id, asked), answer),
            None => self.reserved_job_answered(now, from, id, answer),
        }
    }

    /// Its owner no longer wants it.
    pub(super) fn cancel(
        &mut self,
        now: Moment,
        caller: &Caller,
        id: JobId,
    ) -> Result<Effects, api::Problem> {
        let mut effects = Effects::default();
        let kept = self.all.get(&id).ok_or_else(|| unknown(id))?;
        if !caller.may_act_for(&kept.caller.user) {
            return Err(api::Problem::new(api::Code::Forbidden, format!("{id} belongs to somebody else")));
        }
        if kept.over.is_some() {
            return Ok(effects);
        }
        let flooded = kept.is_flooded();
        self.note(Event::Unwanted { id }, &mut effects);
        if flooded {
            self.withdraw(now, id, &mut effects);
        } else {
            self.attend(now, id, &mut effects);
        }
        Ok(effects)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Moment) -> Effects {
        let mut effects = Effects::default();
        self.tick_choices(now, &mut effects);
        self.tick_races(now, &mut effects);
        effects
    }

    /// When [`Jobs::tick`] has something to do.
    pub(super) fn next_timer(&self) -> Option<Moment> {
        let race = self.agenda.first().map(|(due, _)| *due);
        [self.next_choice(), race].into_iter().flatten().min()
    }

    /// Goes on after a restart.
    pub(super) fn resume(&mut self, now: Moment) -> Effects {
        let mut effects = Effects::default();
        let ids: Vec<JobId> = self.all.keys().copied().collect();
        for id in ids {
            if self.all.get(&id).is_some_and(Kept::is_flooded) {
                self.resume_race(now, id, &mut effects);
            } else {
                self.resume_choice(now, id, &mut effects);
            }
        }
        effects
    }

    fn end(
        &mut self,
        now: Moment,
        id: JobId,
        state: api::JobState,
        detail: Option<String>,
        effects: &mut Effects,
    ) {
        let Some(kept) = self.all.get(&id).filter(|kept| kept.over.is_none()) else { return };
        let ended = Some(api::Timestamp::nearest(now.second()));
        let state = if kept.unwanted { api::JobState::Cancelled } else { state };
        let expected_start = None;
        let shown = if kept.is_flooded() { kept.flooded(id) } else { kept.shown(id) };
        let job = Box::new(api::Job { state, detail, ended, expected_start, ..shown });
        self.note_over(now, job, effects);
    }

    fn note_over(&mut self, now: Moment, job: Box<api::Job>, effects: &mut Effects) {
        if self.all.get(&job.id).is_some_and(|kept| kept.over.is_none()) {
            self.note(Event::Over { job, at: now.second() }, effects);
        }
    }

    fn live(&self) -> impl Iterator<Item = (JobId, &Kept)> {
        self.all.iter().filter(|(_, kept)| kept.over.is_none()).map(|(id, kept)| (*id, kept))
    }

    /// Of a job that its owner wants in a reservation: which, and in which of its parts.
    pub(super) fn part_of(&self, id: JobId) -> Option<(ReservationId, usize)> {
        let kept = self.all.get(&id)?;
        kept.asked.reservation.zip(kept.part.as_ref().map(|part| part.number))
    }

    /// One of them.
    pub(super) fn job(&self, id: JobId) -> Option<api::Job> {
        self.all.get(&id).map(|kept| kept.shown(id))
    }

    /// Those that a viewer may see.
    pub(super) fn shown(&self, viewer: &Viewer) -> Vec<api::Job> {
        let seen = self.all.iter().filter(|(_, kept)| viewer.sees(&kept.caller.user));
        let mut jobs: Vec<api::Job> = seen.map(|(id, kept)| kept.shown(*id)).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        jobs
    }
}

/// What a job needs, and the machines that suit it, the shortest expected delay first.
fn ranked(asked: &api::SubmitJob, peers: impl Iterator<Item = Peer>) -> (Task, Vec<Ranked>) {
    let task = Task {
        cores: Capacity(asked.capacity),
        run: Millis::seconds(asked.limit_seconds),
        rate: asked.reference_mhz.unwrap_or(1),
        files: asked.input_bytes.into_iter().collect(),
        kind: asked.kind.clone(),
        requirements: asked.requirements.iter().cloned().map(Into::into).collect(),
    };
    let sites: Vec<ranking::Site> = peers.flat_map(|peer| sites_of(&peer, asked)).collect();
    let ranked = rank(&task, &sites);
    (task, ranked)
}

fn check(asked: &api::SubmitJob) -> Result<(), api::Problem> {
    let bad = |why: String| Err(api::Problem::new(api::Code::BadRequest, why));
    if asked.capacity == 0 || asked.limit_seconds < 1 {
        return bad("a job has a capacity of at least 1 and a limit of at least one second".to_owned());
    }
    if asked.reservation.is_some()
        && let Some(field) = part::without_sense(asked)
    {
        return bad(format!(
            "{field} is for a job that a broker finds a place for; leave it out with a reservation"
        ));
    }
    let most = api::SubmitJob::MOST_COPIES;
    match asked.copies {
        Some(copies) if !(1..=most).contains(&copies) => bad(format!("copies is {copies}; give 1 to {most}")),
        Some(_) if asked.mode != Some(api::Mode::Flood) => {
            bad("copies is for the mode \"flood\"; a job in a reservation has none".to_owned())
        }
        _ => Ok(()),
    }
}

pub(super) fn unknown(id: JobId) -> api::Problem {
    api::Problem::new(api::Code::UnknownJob, format!("{id} is not known here"))
}
