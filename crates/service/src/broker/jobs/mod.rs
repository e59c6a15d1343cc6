//! The job broker: jobs that were given to a broker, and where they are. For each it ranks the sites by the shortest expected
//! delay, asks the best three for a reservation, keeps the one in which the job is done first, hands the job over to that
//! site, and looks after it until it is over. What was given to it is written down before anybody hears of it.

mod kept;
mod places;
mod words;

pub(super) use words::{Effects, Errand};
pub use words::{Event, Rules};

use super::Peer;
use crate::party::Viewer;
use bookahead_api as api;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::choice::{self, Order, Outcome};
use bookahead_protocol::jobs::{Task, rank, ranking};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Name};
use kept::Kept;
use places::sites_of;
use std::collections::BTreeMap;

/// A broker looks after at most so many jobs at a time.
const MOST_LIVE: usize = 10_000;

/// All jobs of a broker.
pub(super) struct Jobs {
    rules: Rules,
    all: BTreeMap<JobId, Kept>,
    identities: Identities,
}

impl Jobs {
    /// None yet.
    pub(super) fn new(rules: Rules) -> Jobs {
        Jobs { rules, all: BTreeMap::new(), identities: Identities::new(0, 0) }
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
            Event::Submitted { id, key, caller, asked, at } => {
                let kept = Kept::new(*key, caller.clone(), asked.clone(), *at);
                self.all.entry(*id).or_insert(kept);
                *id
            }
            Event::Choice { id, .. } | Event::Handed { id } | Event::Unwanted { id } => *id,
            Event::Over { job, .. } => job.id,
        };
        if let Some(kept) = self.all.get_mut(&id) {
            kept.apply(event);
        }
        if let Event::Over { at, .. } = event {
            let retention = self.rules.retention;
            let old = |over: &(Time, Box<api::Job>)| over.0 + retention < *at;
            self.all.retain(|_, kept| !kept.over.as_ref().is_some_and(old));
        }
    }

    fn note(&mut self, event: Event, effects: &mut Effects) {
        self.apply(&event);
        effects.events.push(event);
    }

    /// Takes a job; the same one twice is taken once.
    pub(super) fn submit(
        &mut self,
        now: Moment,
        caller: &Caller,
        (key, id): (Key, JobId),
        asked: api::SubmitJob,
        peers: impl Iterator<Item = Peer>,
    ) -> Result<Effects, api::Problem> {
        let mut effects = Effects::default();
        let is_same = |known: &Kept| known.asked.same_but_for_id(&asked) && known.caller.user == caller.user;
        let mut with_key = self.all.iter().filter(|(_, known)| known.key == key);
        if with_key.any(|(other, known)| *other != id || !is_same(known)) {
            return Err(Problem::new(Why::KeyTaken(key)).into());
        }
        if let Some(known) = self.all.get(&id) {
            let same = is_same(known);
            let why = || format!("{id} is already another job; make a new id");
            return if same { Ok(effects) } else { Err(api::Problem::new(api::Code::JobTaken, why())) };
        }
        check(&asked)?;
        if self.live().count() >= MOST_LIVE {
            return Err(Problem::new(Why::Busy).into());
        }
        let asked = Box::new(asked);
        let at = now.second();
        let submitted = Event::Submitted { id, key, caller: caller.clone(), asked: asked.clone(), at };
        self.note(submitted, &mut effects);
        let order = self.order(now, caller, id, &asked, peers);
        let Some(kept) = self.all.get_mut(&id) else { return Ok(effects) };
        let chosen = kept.choice.start(now, order, &mut self.identities);
        self.chosen(now, id, chosen, &mut effects);
        Ok(effects)
    }

    fn order(
        &self,
        now: Moment,
        caller: &Caller,
        job: JobId,
        asked: &api::SubmitJob,
        peers: impl Iterator<Item = Peer>,
    ) -> Order {
        let rules = &self.rules;
        let task = Task {
            cores: Capacity(asked.capacity),
            run: Millis::seconds(asked.limit_seconds),
            rate: asked.reference_mhz.unwrap_or(1),
            files: asked.input_bytes.into_iter().collect(),
            kind: asked.kind.clone(),
            requirements: asked.requirements.iter().cloned().map(Into::into).collect(),
        };
        let sites: Vec<ranking::Site> = peers.flat_map(|peer| sites_of(&peer, asked)).collect();
        let usual = now.second() + rules.usual_window + Seconds(asked.limit_seconds);
        Order {
            caller: caller.clone(),
            job,
            ranked: rank(&task, &sites),
            task,
            latest_end: asked.latest_end.map_or(usual, api::Timestamp::time),
            at_a_time: Order::THREE,
            hold_for: rules.hold_for,
            answer_within: rules.answer_within,
            patience: rules.patience,
        }
    }

    /// Takes over what a choice decided.
    fn chosen(&mut self, now: Moment, id: JobId, chosen: choice::Effects, effects: &mut Effects) {
        for event in chosen.events {
            // The choice has taken it over already; what is left is to remember it.
            if let Some(kept) = self.all.get_mut(&id) {
                kept.history.push(Event::Choice { id, event: event.clone() });
            }
            effects.events.push(Event::Choice { id, event });
        }
        effects.errands.extend(chosen.send.into_iter().map(|out| Errand::Call(out.to, out.envelope)));
        match chosen.outcome {
            Some(Outcome::Failed(why)) => {
                let problem = Problem::new(why);
                self.end(now, id, api::JobState::CouldNotStart, Some(problem.why.to_string()), effects);
            }
            Some(Outcome::Booked { .. }) => self.attend(now, id, effects),
            None => {}
        }
    }

    /// A peer answers a call about a reservation. Whether it was one of ours.
    pub(super) fn on_answer(
        &mut self,
        now: Moment,
        from: &Name,
        key: Key,
        answer: &Answer,
    ) -> Option<Effects> {
        let mut effects = Effects::default();
        let live: Vec<JobId> = self.unsettled().collect();
        for id in live {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            let chosen = kept.choice.on_answer(now, from, key, answer);
            self.chosen(now, id, chosen, &mut effects);
        }
        let nothing = effects.events.is_empty() && effects.errands.is_empty();
        (!nothing).then_some(effects)
    }

    /// A site tells how a job is.
    pub(super) fn on_job(
        &mut self,
        now: Moment,
        from: &Name,
        id: JobId,
        answer: Result<Box<api::Job>, api::Problem>,
    ) -> Effects {
        let mut effects = Effects::default();
        let Some(kept) = self.all.get(&id).filter(|kept| kept.over.is_none()) else { return effects };
        if kept.place().is_none_or(|(site, _)| site != *from) {
            return effects;
        }
        match answer {
            Ok(job) if job.state.is_over() => {
                let job = Box::new(api::Job { site: Some(from.clone()), ..*job });
                self.note(Event::Over { job, at: now.second() }, &mut effects);
                self.give_back(id, &mut effects);
            }
            Ok(job) => {
                if !kept.handed {
                    self.note(Event::Handed { id }, &mut effects);
                }
                let next = now + self.rules.look_every;
                if let Some(kept) = self.all.get_mut(&id) {
                    (kept.seen, kept.next) = (Some(job), next);
                }
            }
            Err(problem) if problem.is_final() => {
                self.end(now, id, api::JobState::CouldNotStart, Some(problem.detail), &mut effects);
                self.give_back(id, &mut effects);
            }
            Err(_) => {}
        }
        effects
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
        if kept.over.is_none() {
            self.note(Event::Unwanted { id }, &mut effects);
            self.attend(now, id, &mut effects);
        }
        Ok(effects)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Moment) -> Effects {
        let mut effects = Effects::default();
        let unsettled: Vec<JobId> = self.unsettled().collect();
        for id in unsettled {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            if kept.choice.next_timer().is_some_and(|due| due <= now) {
                let chosen = kept.choice.tick(now);
                self.chosen(now, id, chosen, &mut effects);
            }
        }
        let due: Vec<JobId> = self.live().filter(|(_, kept)| kept.next <= now).map(|(id, _)| id).collect();
        due.into_iter().for_each(|id| self.attend(now, id, &mut effects));
        effects
    }

    /// When [`Jobs::tick`] has something to do.
    pub(super) fn next_timer(&self) -> Option<Moment> {
        let choices = self.all.values().filter_map(|kept| kept.choice.next_timer());
        let looks = self.live().filter(|(_, kept)| kept.place().is_some()).map(|(_, kept)| kept.next);
        choices.chain(looks).min()
    }

    /// Goes on after a restart.
    pub(super) fn resume(&mut self, now: Moment) -> Effects {
        let mut effects = Effects::default();
        let ids: Vec<JobId> = self.all.keys().copied().collect();
        for id in ids {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            let chosen = kept.choice.resume(now);
            self.chosen(now, id, chosen, &mut effects);
            if self.all.get(&id).is_some_and(|kept| kept.over.is_none()) {
                self.attend(now, id, &mut effects);
            }
        }
        effects
    }

    /// Does what is next for a job that has a place: hands it over, asks how it is, or has it ended.
    fn attend(&mut self, now: Moment, id: JobId, effects: &mut Effects) {
        let next = now + self.rules.look_every;
        let Some(kept) = self.all.get_mut(&id) else { return };
        kept.next = next;
        let Some((site, reservation)) = kept.place() else { return };
        let caller = kept.caller.clone();
        effects.errands.push(match (kept.unwanted, kept.handed) {
            (true, _) => Errand::Cancel(site, caller, id),
            (false, true) => Errand::Look(site, caller, id),
            (false, false) => {
                let asked = api::SubmitJob {
                    id: Some(id),
                    reservation: Some(reservation),
                    mode: None,
                    latest_end: None,
                    reference_mhz: None,
                    input_bytes: None,
                    ..*kept.asked.clone()
                };
                Errand::Submit(site, caller, Box::new(asked))
            }
        });
    }

    /// What is left of its reservation is of no use.
    fn give_back(&self, id: JobId, effects: &mut Effects) {
        let Some(kept) = self.all.get(&id) else { return };
        let Some((site, reservation)) = kept.place() else { return };
        let call = Call::Cancel { id: reservation };
        let envelope = Envelope { key: Key(reservation.0).derived(1), caller: kept.caller.clone(), call };
        effects.errands.push(Errand::Call(site, envelope));
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
        let job = Box::new(api::Job { state, detail, ended, ..kept.shown(id) });
        self.note(Event::Over { job, at: now.second() }, effects);
    }

    fn live(&self) -> impl Iterator<Item = (JobId, &Kept)> {
        self.all.iter().filter(|(_, kept)| kept.over.is_none()).map(|(id, kept)| (*id, kept))
    }

    /// Those whose choice has something to do.
    fn unsettled(&self) -> impl Iterator<Item = JobId> {
        self.all.iter().filter(|(_, kept)| !kept.choice.is_over()).map(|(id, _)| *id)
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

fn check(asked: &api::SubmitJob) -> Result<(), api::Problem> {
    if asked.capacity == 0 || asked.limit_seconds < 1 {
        let why = "a job has a capacity of at least 1 and a limit of at least one second";
        return Err(api::Problem::new(api::Code::BadRequest, why));
    }
    if asked.reservation.is_some() {
        let why = "a broker finds the reservation for a job itself; submit a job with a reservation of your own to \
                   the site that holds it";
        return Err(api::Problem::new(api::Code::JobRefused, why));
    }
    if asked.mode == Some(api::Mode::Flood) {
        let why = "this broker reserves for jobs (mode \"reserve\") and does not flood";
        return Err(api::Problem::new(api::Code::JobRefused, why));
    }
    Ok(())
}

pub(super) fn unknown(id: JobId) -> api::Problem {
    api::Problem::new(api::Code::UnknownJob, format!("{id} is not known here"))
}
