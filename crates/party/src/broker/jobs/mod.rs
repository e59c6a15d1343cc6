//! The job broker: jobs submitted to a broker, and where they are. It ranks sites by expected delay. A job
//! gets a reservation at one of the best sites ([`reserved`]), or waits at several of them until the turn of
//! one copy comes ([`flooded`]). A job that names a reservation runs in a part of that ([`sites`]).

mod flooded;
mod record;
mod reserved;
mod sites;

use super::event::{JobEvent, JobRules};
use crate::queries::Viewer;
use crate::register::Register;
use crate::step::{JobCall, Level, Notice, Origin, PeerCall, PeerRequest, Remark};
use bookahead_plan::Time;
use bookahead_protocol::broker::Broker as Head;
use bookahead_protocol::ids::Identities;
use bookahead_protocol::jobs::{
    JobAnswer, JobRequest, JobView, JobWord, LostAttempt, MOST_COPIES, Mode, Race, Work, choice,
};
use bookahead_protocol::per_user::{Most, PerUser};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Caller, JobId, Key, Moment, Name, ReservationId};
use record::{Course, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most jobs in progress at a time. Each costs regular queries.
const MOST_LIVE: usize = 10_000;

/// Most bytes of jobs that are over, of one user and of all: thousands of usual scripts.
const MOST_OVER: Most = Most { each: 16 << 20, all: 64 << 20 };

/// Approximate memory use of a job without its work and its texts.
const JOB_BYTES: usize = 4_096;

/// The last reports of sites about jobs that are not over.
pub(super) type Seen = BTreeMap<(JobId, Name), Arc<JobView>>;

/// All jobs of a broker.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    rules: JobRules,
    all: BTreeMap<JobId, Record>,
    /// All events of each job. None on a copy for readers.
    history: Option<BTreeMap<JobId, Vec<JobEvent>>>,
    /// Jobs by the key of their submission. This and the next three are derived from the events.
    keys: BTreeMap<Key, JobId>,
    /// Jobs by the keys of their reserve, commit and cancel calls.
    calls: BTreeMap<Key, JobId>,
    /// Jobs by the ids of their copies.
    copies: BTreeMap<JobId, JobId>,
    /// Finished jobs, by the time when the broker learned that.
    over: BTreeSet<(Time, JobId)>,
    /// Those of which nothing can be left at a site, with their bytes.
    over_bytes: PerUser<JobId, ()>,
    /// When to act on a job.
    agenda: BTreeSet<(Moment, JobId)>,
    /// Number of flooded jobs in the agenda.
    racing: i64,
    identities: Identities,
    pub(super) seen: Arc<Seen>,
    seen_changes: u64,
    pub(super) flaw: Option<bookahead_protocol::flaw::Flaw>,
}

/// The moment of an input, and its effects so far. Events are stored before calls are sent.
#[derive(Debug)]
pub(super) struct Effects {
    now: Moment,
    pub(super) events: Vec<JobEvent>,
    pub(super) calls: Vec<PeerCall>,
    /// Each with the index of its event.
    pub(super) notices: Vec<(usize, Notice)>,
    pub(super) remarks: Vec<Remark>,
}

impl Effects {
    pub(super) fn new(now: Moment) -> Effects {
        Effects { now, events: Vec::new(), calls: Vec::new(), notices: Vec::new(), remarks: Vec::new() }
    }
}

/// The other components of the broker.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) head: &'a Head,
    pub(super) register: &'a Register,
}

/// A submitted job.
pub(super) struct Submission {
    pub(super) caller: Caller,
    pub(super) key: Key,
    pub(super) id: JobId,
    pub(super) job: Box<JobRequest>,
    /// The brokers that it passed through.
    pub(super) via: Arc<[Name]>,
}

impl Jobs {
    pub(super) fn new(rules: JobRules) -> Jobs {
        Jobs {
            rules,
            all: BTreeMap::new(),
            history: Some(BTreeMap::new()),
            keys: BTreeMap::new(),
            calls: BTreeMap::new(),
            copies: BTreeMap::new(),
            over: BTreeSet::new(),
            over_bytes: PerUser::default(),
            agenda: BTreeSet::new(),
            racing: 0,
            identities: Identities::new(0, 0),
            seen: Arc::default(),
            seen_changes: 0,
            flaw: None,
        }
    }

    /// Sets the maker and the number of the start for new identities.
    pub(super) fn live_as(&mut self, maker: u128, life: u32) {
        self.identities = Identities::new(maker, life);
    }

    /// Replaces all jobs by those of a snapshot.
    pub(super) fn restore(&mut self, history: &[JobEvent]) {
        *self = Jobs::new(self.rules);
        history.iter().for_each(|event| self.apply(event));
    }

    /// All events of remembered jobs.
    pub(super) fn history(&self) -> Vec<JobEvent> {
        self.history.iter().flat_map(BTreeMap::values).flatten().cloned().collect()
    }

    /// A copy for queries, to which events are applied.
    pub(super) fn read_copy(&self) -> Jobs {
        let (all, over, seen) = (self.all.clone(), self.over.clone(), self.seen.clone());
        let over_bytes = self.over_bytes.clone();
        Jobs { all, over, over_bytes, seen, history: None, ..Jobs::new(self.rules) }
    }

    /// The last reports of sites, and a number that grows with every change.
    pub(super) fn seen(&self) -> (u64, Arc<Seen>) {
        (self.seen_changes, self.seen.clone())
    }

    /// Applies an event, live or on replay.
    pub(super) fn apply(&mut self, event: &JobEvent) {
        if let Some(record) = Record::of(event) {
            self.all.entry(record.id).or_insert(record);
        }
        if let Some(record) = self.all.get_mut(&event.id()) {
            record.apply(event);
            self.take_note(event);
            self.count_over(event.id());
        }
    }

    /// Counts a job once it is over and settled, and drops others that are too much.
    fn count_over(&mut self, id: JobId) {
        let Some(record) = self.all.get(&id).filter(|record| record.is_settled()) else { return };
        let Some((at, _)) = record.over else { return };
        // What it takes does not change any more.
        if self.over_bytes.get(&id).is_some() {
            return;
        }
        let user = record.caller.user.clone();
        let bytes = JOB_BYTES + record.job.work.bytes() + record.job.description.bytes();
        for id in self.over_bytes.remember((Moment::of(at), &user), &id, (), bytes, MOST_OVER) {
            self.drop_job(id);
        }
    }

    /// Records an event that a record has already applied, and updates the indexes.
    fn take_note(&mut self, event: &JobEvent) {
        let id = event.id();
        if let Some(history) = &mut self.history {
            history.entry(id).or_default().push(event.clone());
        }
        match event {
            JobEvent::Submitted { key, .. } => {
                self.keys.insert(*key, id);
            }
            JobEvent::Choice { event: choice::Event::Begun { .. }, .. } => {
                let choice = self.all.get_mut(&id).and_then(Record::choice);
                self.calls.extend(choice.iter().flat_map(|choice| choice.keys()).map(|key| (key, id)));
            }
            JobEvent::Race { .. } => {
                let race = self.all.get_mut(&id).and_then(Record::race);
                self.copies.extend(race.iter().flat_map(|race| race.ids()).map(|copy| (copy, id)));
            }
            JobEvent::Retried { .. } => {
                self.forget_seen(id);
                let record = self.all.get(&id).filter(|record| matches!(record.course, Course::Reserved(..)));
                if let Some(there) = record.map(Record::there) {
                    self.copies.insert(there, id);
                    self.calls.retain(|_, job| *job != id);
                }
            }
            JobEvent::Over { at, .. } => {
                let first = self.all.get(&id).and_then(|record| record.over.as_ref());
                self.over.extend(first.map(|(at, _)| (*at, id)));
                self.forget_seen(id);
                self.forget_the_old(*at);
            }
            _ => {}
        }
    }

    /// Drops finished jobs after the retention time, unless something of them may still be at a site.
    fn forget_the_old(&mut self, now: Time) {
        let old = self.over.iter().take_while(|(at, _)| *at + self.rules.retention < now);
        let old = old.filter(|(_, id)| self.all.get(id).is_none_or(Record::is_settled));
        for (at, id) in old.copied().collect::<Vec<_>>() {
            self.over.remove(&(at, id));
            self.drop_job(id);
        }
    }

    fn drop_job(&mut self, id: JobId) {
        self.over_bytes.forget(&id);
        self.history.iter_mut().for_each(|history| {
            history.remove(&id);
        });
        let Some(record) = self.all.remove(&id) else { return };
        if let Some((at, _)) = record.over {
            self.over.remove(&(at, id));
        }
        self.keys.remove(&record.key);
        if !record.attempts.is_empty() {
            self.copies.retain(|_, job| *job != id);
        }
        record.due.into_iter().for_each(|due| {
            self.agenda.remove(&(due, id));
        });
        match &record.course {
            Course::Part(..) => {}
            Course::Reserved(choice, _) => choice.keys().for_each(|key| {
                self.calls.remove(&key);
            }),
            Course::Flooded(race) => race.ids().for_each(|copy| {
                self.copies.remove(&copy);
            }),
        }
    }

    /// Records a site's report about a job that is not over. Reports are not events, so a broker tells once more
    /// after its restart that a job has started.
    fn note_seen(&mut self, id: JobId, site: &Name, view: Box<JobView>, effects: &mut Effects) {
        let place = (id, site.clone());
        // Most reports show nothing new. The map is shared with readers, so it is copied only for changes.
        if self.seen.get(&place).is_none_or(|known| **known != *view) {
            let running = |jobs: &Jobs| jobs.job(id).filter(|job| job.state == JobWord::Running);
            let ran = running(self).is_some();
            let requeued =
                self.seen.get(&place).is_some_and(|known| known.runs.restarts < view.runs.restarts);
            Arc::make_mut(&mut self.seen).insert(place, Arc::from(view));
            self.seen_changes += 1;
            if let Some(job) = self.job(id).filter(|_| requeued) {
                let notice = Notice { kind: "job-requeued", ..Notice::about_job(effects.now, &job) };
                effects.notices.push((effects.events.len(), notice));
            }
            if let Some(job) = running(self).filter(|_| !ran) {
                let at = job.started.map_or(effects.now, Moment::of);
                effects.notices.push((effects.events.len(), Notice::about_job(at, &job)));
            }
        }
    }

    fn forget_seen(&mut self, id: JobId) {
        let places = self.seen.range((id, Name::from(""))..).map(|(place, _)| place);
        let sites: Vec<Name> =
            places.take_while(|(job, _)| *job == id).map(|(_, site)| site.clone()).collect();
        sites.iter().for_each(|site| self.forget_seen_at(id, site));
    }

    fn forget_seen_at(&mut self, id: JobId, site: &Name) {
        let place = (id, site.clone());
        if self.seen.contains_key(&place) {
            Arc::make_mut(&mut self.seen).remove(&place);
            self.seen_changes += 1;
        }
    }

    fn note(&mut self, event: JobEvent, effects: &mut Effects) {
        self.apply(&event);
        let retried = matches!(event, JobEvent::Retried { .. });
        if (retried || matches!(event, JobEvent::Submitted { .. } | JobEvent::Over { .. }))
            && let Some(job) = self.job(event.id())
        {
            let notice = Notice::about_job(effects.now, &job);
            let kind = if retried { "job-retried" } else { notice.kind };
            effects.notices.push((effects.events.len(), Notice { kind, ..notice }));
        }
        effects.events.push(event);
    }

    /// Records that a site lost a job, which is submitted again.
    fn note_retry(&mut self, id: JobId, attempt: LostAttempt, effects: &mut Effects) {
        let remark = Remark::new(Level::Warn, "job_retried", attempt.why.clone());
        effects.remarks.push(remark.of_job(id).at(attempt.site.clone()));
        self.note(JobEvent::Retried { id, attempt }, effects);
    }

    /// Accepts a job. A repeated submission has no effect.
    pub(super) fn submit(
        &mut self,
        submission: Submission,
        around: Around<'_>,
        effects: &mut Effects,
    ) -> Result<(), Problem> {
        let Submission { caller, key, id, job, via } = submission;
        let is_same = |known: &Record| known.job == job && known.caller.user == caller.user;
        let with_key = self.keys.get(&key).and_then(|known| self.all.get(known));
        // The key is checked before the id: a key used for another job is an error, even with a new id.
        if with_key.is_some_and(|known| known.id != id || !is_same(known)) {
            return Err(Problem::new(Why::KeyTaken(key)));
        }
        match self.all.get(&id) {
            Some(known) if is_same(known) => return Ok(()),
            // The id of a copy is taken: reports about it belong to the flooded job.
            None if !self.copies.contains_key(&id) => {}
            _ => return Err(Problem::new(Why::JobTaken(id))),
        }
        check(&job)?;
        check_work(&job, around.register)?;
        if self.all.len() - self.over.len() >= MOST_LIVE {
            return Err(Problem::new(Why::Busy));
        }
        let part = match job.reservation {
            Some(named) => {
                let reservation = (named, around.head.booking(named));
                let found = sites::find(effects.now, &caller, &job, reservation, around.register.up());
                Some(Box::new(found.map_err(Problem::new)?))
            }
            None => None,
        };
        let (at, via) = (effects.now.second(), via.to_vec());
        self.note(JobEvent::Submitted { id, key, caller, job, at, via, part }, effects);
        match self.all.get(&id).map(|record| &record.course) {
            Some(Course::Part(..)) => self.visit(id, effects),
            Some(Course::Reserved(..)) => self.reserve(id, around, effects),
            Some(Course::Flooded(_)) => self.flood(id, around, effects),
            None => {}
        }
        self.rearm(id);
        Ok(())
    }

    /// Handles a site's report about a job or a copy of one.
    pub(super) fn on_report(
        &mut self,
        from: &Name,
        (there, asked): (JobId, JobCall),
        answer: JobAnswer,
        effects: &mut Effects,
    ) {
        let id = self.copies.get(&there).copied().unwrap_or(there);
        match self.all.get(&id).map(|record| &record.course) {
            Some(Course::Flooded(_)) => self.copy_reported(from, (id, there, asked), answer, effects),
            _ => self.reserved_one_reported(from, (id, there), answer, effects),
        }
        self.rearm(id);
    }

    /// Cancels a job for its owner.
    pub(super) fn cancel(
        &mut self,
        caller: &Caller,
        id: JobId,
        effects: &mut Effects,
    ) -> Result<(), Problem> {
        if self.owned(caller, id)?.over.is_some() {
            return Ok(());
        }
        self.note(JobEvent::Unwanted { id }, effects);
        match self.all.get(&id).map(|record| &record.course) {
            Some(Course::Flooded(_)) => self.race(id, effects, Race::withdraw),
            _ => self.visit(id, effects),
        }
        self.rearm(id);
        Ok(())
    }

    /// Another broker, whose copy the job is, lets it run.
    pub(super) fn go(&mut self, caller: &Caller, id: JobId, effects: &mut Effects) -> Result<(), Problem> {
        self.owned(caller, id)?;
        self.race(id, effects, Race::go);
        self.rearm(id);
        Ok(())
    }

    fn owned(&self, caller: &Caller, id: JobId) -> Result<&Record, Problem> {
        let record = self.all.get(&id).ok_or_else(|| Problem::new(Why::UnknownJob(id)))?;
        match caller.may_act_for(&record.caller.user) {
            true => Ok(record),
            false => Err(Problem::new(Why::NotJobOwner(id))),
        }
    }

    /// Acts on the jobs that are due.
    pub(super) fn tick(&mut self, around: Around<'_>, effects: &mut Effects) {
        let due = self.agenda.iter().take_while(|(due, _)| *due <= effects.now);
        for id in due.map(|(_, id)| *id).collect::<Vec<_>>() {
            match self.all.get(&id).map(|record| &record.course) {
                Some(Course::Flooded(_)) => self.race(id, effects, Race::tick),
                _ => self.tick_reserved(id, around, effects),
            }
            self.rearm(id);
        }
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// Continues after a restart.
    pub(super) fn resume(&mut self, effects: &mut Effects) {
        for id in self.all.keys().copied().collect::<Vec<_>>() {
            // Submitted but not placed: its caller is gone, and nothing was sent to a site.
            if self.all.get(&id).is_some_and(Record::is_interrupted) {
                let why = Why::Interrupted.to_string();
                self.end(id, JobWord::CouldNotStart, Some(why), effects);
            }
            match self.all.get(&id).map(|record| &record.course) {
                Some(Course::Flooded(_)) => self.resume_race(id, effects),
                _ => self.resume_reserved(id, effects),
            }
            self.rearm(id);
        }
    }

    /// Updates the agenda after a job changed.
    fn rearm(&mut self, id: JobId) {
        let pace = self.pace();
        let Some(record) = self.all.get_mut(&id) else { return };
        let due = record.next_timer(&pace);
        let before = std::mem::replace(&mut record.due, due);
        if matches!(record.course, Course::Flooded(_)) {
            self.racing += i64::from(due.is_some()) - i64::from(before.is_some());
        }
        before.into_iter().for_each(|before| {
            self.agenda.remove(&(before, id));
        });
        self.agenda.extend(due.map(|due| (due, id)));
    }

    /// Ends a job in this state, or as cancelled if its owner cancelled it. A flooded job that may have run
    /// stays lost, so that a broker above does not run it again.
    fn end(&mut self, id: JobId, state: JobWord, detail: Option<String>, effects: &mut Effects) {
        let Some(record) = self.all.get(&id).filter(|record| record.over.is_none()) else { return };
        let may_have_run = state == JobWord::Lost && matches!(record.course, Course::Flooded(_));
        let state = if record.unwanted && !may_have_run { JobWord::Cancelled } else { state };
        if state == JobWord::Lost {
            let why = detail.clone().unwrap_or_default();
            effects.remarks.push(Remark::new(Level::Warn, "job_lost", why).of_job(id));
        }
        let (ended, expected_start) = (Some(effects.now.second()), None);
        let view = JobView { state, detail, ended, expected_start, ..record.unfinished(&self.seen) };
        self.note(JobEvent::Over { job: Box::new(view), at: effects.now.second() }, effects);
    }

    /// For a job that names a reservation: the reservation and the index of its part.
    pub(super) fn part_of(&self, id: JobId) -> Option<(ReservationId, usize)> {
        let record = self.all.get(&id)?;
        record.job.reservation.zip(record.part().map(|part| part.number))
    }

    /// The peer that has a job, and its id there.
    pub(super) fn place_of(&self, id: JobId) -> Option<(Name, JobId)> {
        self.all.get(&id)?.job_place()
    }

    pub(super) fn job(&self, id: JobId) -> Option<JobView> {
        self.all.get(&id).map(|record| record.shown(&self.seen))
    }

    /// The jobs that a viewer may see, newest last.
    pub(super) fn shown(&self, viewer: &Viewer) -> Vec<JobView> {
        let visible = self.all.values().filter(|record| viewer.sees(&record.caller.user));
        let mut jobs: Vec<JobView> = visible.map(|record| record.shown(&self.seen)).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        jobs
    }
}

impl Record {
    fn call(&self, to: Name, id: JobId, ask: JobCall, job: Option<JobRequest>) -> PeerCall {
        let request = PeerRequest::Job { caller: self.caller.clone(), id, ask, job: job.map(Box::new) };
        PeerCall { to, request, origin: self.origin() }
    }

    /// Without a trace: trace contexts end with a call, and a job outlives it.
    fn origin(&self) -> Origin {
        Origin { trace: None, via: self.via.clone() }
    }
}

/// Refuses a program if no peer runs programs. With an unknown peer it may run, so the job is accepted.
fn check_work(job: &JobRequest, register: &Register) -> Result<(), Problem> {
    let mut peers = register.all().peekable();
    let pretended = matches!(job.work, Work::Pretended { .. });
    if pretended || peers.peek().is_none() || !peers.all(|known| known.said.runs_no_programs()) {
        return Ok(());
    }
    let why = "the sites of this broker run no programs; submit a placeholder (--pretend 10m), or use sites with \
               processes = true or a batch system";
    Err(Problem::new(Why::JobRefused(why.to_owned())))
}

fn check(job: &JobRequest) -> Result<(), Problem> {
    let bad = |why: String| Err(Problem::new(Why::MalformedJob(why)));
    let floods = job.mode == Some(Mode::Flood);
    if job.capacity.0 == 0 || job.limit.0 < 1 {
        return bad("a job needs a capacity of at least 1 and a time limit of at least 1s".to_owned());
    }
    if job.reservation.is_some()
        && let Some(field) = sites::without_sense(job)
    {
        return bad(format!("{field} has no meaning for a job that names a reservation; leave it out"));
    }
    if let Some(why) = job.rerun.problem() {
        return bad(why);
    }
    if job.rerun.restartable && floods {
        let why = "a flooded job has no reservation to outlast; use retry instead of restartable";
        return bad(why.to_owned());
    }
    if job.claims && !floods {
        return bad("claims is only for copies of a flooded job; set the mode to \"flood\"".to_owned());
    }
    match job.copies {
        Some(copies) if !(1..=MOST_COPIES).contains(&copies) => {
            bad(format!("copies is {copies}; give 1 to {MOST_COPIES}"))
        }
        Some(_) if !floods => bad("copies is only for the mode \"flood\"; leave it out".to_owned()),
        _ => Ok(()),
    }
}
