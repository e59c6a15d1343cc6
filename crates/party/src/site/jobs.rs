//! The jobs submitted to a site. Each is journalled before it is submitted to the batch system, so no job
//! there is ever unknown to the site. A record follows from its events only.

use crate::batch::{Ended, Job, JobState};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::per_user::{Most, PerUser};
use bookahead_protocol::{JobId, Key, Moment, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A journal entry about a job.
#[allow(missing_docs, reason = "`id` is the job that it happened to")]
#[allow(clippy::large_enum_variant, reason = "most jobs are submitted, and each of these is written once")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEvent {
    /// It is about to be submitted to the batch system.
    Submitted { job: Job, key: Key, at: Time },
    /// The batch system has accepted it.
    Handed { id: JobId },
    /// It was submitted on hold, and was released.
    Released { id: JobId },
    /// A waiting job was assigned to a reservation.
    Given { id: JobId, reservation: ReservationId },
    /// The result of moving it in the batch system.
    Bound {
        id: JobId,
        /// Whether it was moved. Otherwise it runs or waits where it was.
        bound: bool,
    },
    /// The batch system's own id of it.
    Named { id: JobId, native: String },
    /// Its turn has come; it waits for a go.
    Claimed { id: JobId },
    /// Its broker lets it run.
    MayRun { id: JobId },
    /// It runs.
    Started {
        id: JobId,
        /// Start of the run.
        at: Time,
    },
    /// Its run is over, and it goes back to the queue, out of its reservation.
    Requeued {
        id: JobId,
        /// How often it did so, this time included.
        restarts: u32,
        /// Why its run ended. None if the batch system put it back by itself.
        why: Option<Ended>,
        at: Time,
    },
    /// The batch system has it in the queue again.
    Queued { id: JobId },
    /// It got the signal that its time ends soon.
    Warned { id: JobId },
    /// It is over, or the batch system refused it.
    Over { id: JobId, state: JobState, at: Time },
}

impl JobEvent {
    /// The job that the event is about.
    pub fn id(&self) -> JobId {
        match self {
            JobEvent::Submitted { job, .. } => job.id,
            JobEvent::Handed { id }
            | JobEvent::Released { id }
            | JobEvent::Given { id, .. }
            | JobEvent::Bound { id, .. }
            | JobEvent::Named { id, .. }
            | JobEvent::Claimed { id }
            | JobEvent::MayRun { id }
            | JobEvent::Started { id, .. }
            | JobEvent::Requeued { id, .. }
            | JobEvent::Queued { id }
            | JobEvent::Warned { id }
            | JobEvent::Over { id, .. } => *id,
        }
    }
}

/// A job of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The job as submitted, with its current reservation.
    pub job: Job,
    /// Key of its submission.
    pub key: Key,
    /// When it was submitted.
    pub submitted: Time,
    /// Whether the batch system has accepted it. Then it is never submitted again.
    #[serde(default)]
    pub handed: bool,
    /// Whether the hold with which it was submitted was released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Whether it was submitted without a reservation and assigned to one later.
    #[serde(default)]
    pub given: bool,
    /// Whether the batch system must still be told of that.
    #[serde(default)]
    pub binding: bool,
    /// The batch system's own id of it.
    #[serde(default)]
    pub native: Option<String>,
    /// Whether its turn has come and it waits for a go.
    #[serde(default)]
    pub claims: bool,
    /// Whether its broker lets it run.
    #[serde(default)]
    pub may_run: bool,
    /// When it started.
    #[serde(default)]
    pub started: Option<Time>,
    /// How often it went back to the queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restarts: u32,
    /// Why it went back the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_back: Option<Ended>,
    /// Whether the batch system must still be told of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeuing: bool,
    /// The reservation that it was submitted with and left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<ReservationId>,
    /// Whether its present run got the signal that its time ends soon.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warned: bool,
    /// When and how it ended.
    #[serde(default)]
    pub over: Option<(Time, JobState)>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record {
    /// Whether it is this job, as originally submitted.
    pub(super) fn is(&self, job: &Job) -> bool {
        // A repeated submission does not name the reservation that the job was assigned to later.
        let reservation = self.left.or(self.job.reservation.filter(|_| !self.given));
        // Whether it is held is a choice of the site, which may have changed.
        Job { reservation, held: job.held, ..self.job.clone() } == *job
    }

    /// Whether it waits on hold for its release.
    pub(super) fn is_to_be_released(&self) -> bool {
        let waits = self.started.is_none() && !self.claims && self.over.is_none() && self.restarts == 0;
        self.job.held && !self.released && self.handed && waits
    }

    /// Whether it runs and must still be warned before its end.
    fn is_to_be_warned(&self) -> bool {
        let runs = self.started.is_some() && self.over.is_none() && !self.requeuing;
        runs && !self.warned && self.job.rerun.warn_seconds.is_some()
    }

    fn go_back(&mut self, restarts: u32, why: Option<&Ended>) {
        if !self.given {
            self.left = self.left.or(self.job.reservation);
        }
        (self.job.reservation, self.given, self.binding) = (None, false, false);
        (self.started, self.warned, self.requeuing) = (None, false, why.is_some());
        (self.restarts, self.sent_back) = (restarts, why.cloned());
    }

    /// Its current state.
    pub fn state(&self) -> JobState {
        match &self.over {
            Some((_, state)) => state.clone(),
            None if self.started.is_some() => JobState::Running,
            None if self.claims => JobState::Claiming,
            None => JobState::Waiting,
        }
    }
}

/// Most bytes of jobs that are over, of one user and of all: thousands of usual scripts. A user may submit and cancel any
/// number of jobs, because only live ones count for its limits.
const MOST_OVER: Most = Most { each: 16 << 20, all: 64 << 20 };

/// Approximate memory use of a job without its work and its texts.
const JOB_BYTES: usize = 1_024;

/// All jobs of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Record>", into = "Vec<Record>")]
pub struct Jobs {
    records: BTreeMap<JobId, Record>,
    // The fields below are derived from the records.
    by_key: BTreeMap<Key, JobId>,
    live: BTreeSet<JobId>,
    over: BTreeSet<(Time, JobId)>,
    /// The same with their bytes.
    over_bytes: PerUser<JobId, ()>,
    to_warn: BTreeSet<JobId>,
}

impl Jobs {
    /// Applies an event. Also drops jobs that ended longer ago than `retention`, and those beyond the bounds.
    pub fn apply(&mut self, event: &JobEvent, retention: Seconds) {
        match event {
            JobEvent::Submitted { job, key, at } => {
                let (job, key, submitted) = (job.clone(), *key, *at);
                self.insert(Record {
                    job,
                    key,
                    submitted,
                    handed: false,
                    released: false,
                    given: false,
                    binding: false,
                    native: None,
                    claims: false,
                    may_run: false,
                    started: None,
                    restarts: 0,
                    sent_back: None,
                    requeuing: false,
                    left: None,
                    warned: false,
                    over: None,
                });
            }
            JobEvent::Handed { id } => self.edit(*id, |record| record.handed = true),
            JobEvent::Released { id } => self.edit(*id, |record| record.released = true),
            JobEvent::Given { id, reservation } => self.edit(*id, |record| {
                record.job.reservation = Some(*reservation);
                (record.given, record.binding) = (true, true);
            }),
            JobEvent::Bound { id, bound } => self.edit(*id, |record| {
                record.binding = false;
                if !bound {
                    // The job stays in the queue, as if it had never been assigned.
                    (record.job.reservation, record.given) = (None, false);
                }
            }),
            JobEvent::Named { id, native } => {
                self.edit(*id, |record| record.native = Some(native.clone()));
            }
            JobEvent::Claimed { id } => self.edit(*id, |record| record.claims = true),
            JobEvent::MayRun { id } => self.edit(*id, |record| record.may_run = true),
            JobEvent::Started { id, at } => self.edit(*id, |record| {
                // The first report counts: a later look may tell the same start again.
                record.started.get_or_insert(*at);
            }),
            JobEvent::Requeued { id, restarts, why, .. } => {
                self.edit(*id, |record| record.go_back(*restarts, why.as_ref()));
            }
            JobEvent::Queued { id } => self.edit(*id, |record| record.requeuing = false),
            JobEvent::Warned { id } => self.edit(*id, |record| record.warned = true),
            JobEvent::Over { id, state, at } => {
                // Only the first end counts: the batch system may still report one after a cancellation.
                if self.live.remove(id) {
                    self.over.insert((*at, *id));
                    self.edit(*id, |record| record.over = Some((*at, state.clone())));
                    self.count_over(*id);
                }
                // By the time of the event, not by a clock: a replay must forget the same jobs.
                self.forget_old(*at, retention);
            }
        }
    }

    fn insert(&mut self, record: Record) {
        let id = record.job.id;
        if self.records.contains_key(&id) {
            return;
        }
        self.by_key.insert(record.key, id);
        match &record.over {
            Some((at, _)) => self.over.insert((*at, id)),
            None => self.live.insert(id),
        };
        if record.is_to_be_warned() {
            self.to_warn.insert(id);
        }
        self.records.insert(id, record);
    }

    fn edit(&mut self, id: JobId, edit: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(&id) else { return };
        edit(record);
        match record.is_to_be_warned() {
            true => self.to_warn.insert(id),
            false => self.to_warn.remove(&id),
        };
    }

    fn forget_old(&mut self, now: Time, retention: Seconds) {
        while let Some(&(at, id)) = self.over.first().filter(|(at, _)| *at + retention < now) {
            self.over.remove(&(at, id));
            self.forget(id);
        }
    }

    /// Counts a job that is over, and drops others that are too much.
    fn count_over(&mut self, id: JobId) {
        let Some(Record { job, over: Some((at, _)), .. }) = self.records.get(&id) else { return };
        let bytes = JOB_BYTES + job.work.bytes() + job.description.bytes();
        let (at, user) = (Moment::of(*at), job.user.clone());
        let dropped = self.over_bytes.remember((at, &user), &id, (), bytes, MOST_OVER);
        dropped.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: JobId) {
        self.over_bytes.forget(&id);
        let Some(record) = self.records.remove(&id) else { return };
        self.by_key.remove(&record.key);
        if let Some((at, _)) = record.over {
            self.over.remove(&(at, id));
        }
    }

    /// A remembered job.
    pub fn get(&self, id: JobId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// The job submitted with a key.
    pub(crate) fn with_key(&self, key: Key) -> Option<&Record> {
        self.by_key.get(&key).and_then(|id| self.records.get(id))
    }

    /// All remembered jobs by id.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Running jobs that must still be warned before their end.
    pub(super) fn to_warn(&self) -> impl Iterator<Item = &Record> {
        self.to_warn.iter().filter_map(|id| self.records.get(id))
    }

    /// Jobs that are not over.
    pub fn live(&self) -> impl Iterator<Item = &Record> {
        self.live.iter().filter_map(|id| self.records.get(id))
    }
}

impl From<Vec<Record>> for Jobs {
    fn from(records: Vec<Record>) -> Jobs {
        let mut jobs = Jobs::default();
        records.into_iter().for_each(|record| jobs.insert(record));
        // The oldest first, so that these are dropped if there are too many.
        jobs.over.clone().into_iter().for_each(|(_, id)| jobs.count_over(id));
        jobs
    }
}

impl From<Jobs> for Vec<Record> {
    fn from(jobs: Jobs) -> Vec<Record> {
        jobs.records.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Capacity;
    use bookahead_protocol::Description;
    use bookahead_protocol::jobs::{Rerun, Work};

    fn submitted(id: u128, user: &str, script: usize) -> JobEvent {
        let job = Job {
            id: JobId(id),
            user: user.into(),
            resource: "cluster".into(),
            capacity: Capacity(1),
            limit: Seconds(60),
            reservation: None,
            work: Work::Script { text: "x".repeat(script), arguments: Vec::new() },
            claims: false,
            held: false,
            rerun: Rerun::default(),
            description: Description::default(),
        };
        JobEvent::Submitted { job, key: Key(id), at: Time(0) }
    }

    #[test]
    fn jobs_submitted_and_cancelled_without_end_are_remembered_within_bounds() {
        const RETENTION: Seconds = Seconds(86_400);
        let mut jobs = Jobs::default();
        let over = |id| JobEvent::Over {
            id: JobId(id),
            state: JobState::Killed(Ended::Cancelled),
            at: Time(id as i64),
        };
        jobs.apply(&submitted(1, "ada", 10), RETENTION);
        jobs.apply(&over(1), RETENTION);
        jobs.apply(&submitted(2, "eve", 1_000_000), RETENTION);
        for id in 10..100 {
            jobs.apply(&submitted(id, "eve", 1_000_000), RETENTION);
            jobs.apply(&over(id), RETENTION);
        }
        let known: Vec<u128> = jobs.all().map(|record| record.job.id.0).collect();
        assert_eq!(known[..2], [1, 2], "those of others, and what is not over");
        assert_eq!(known[2..], (84..100).collect::<Vec<_>>(), "16 MiB");
        assert!(jobs.with_key(Key(50)).is_none() && jobs.with_key(Key(99)).is_some());
        let written = serde_json::to_string(&jobs).unwrap();
        assert_eq!(serde_json::from_str::<Jobs>(&written).unwrap(), jobs);
        jobs.apply(
            &JobEvent::Over { id: JobId(2), state: JobState::Killed(Ended::Cancelled), at: Time(1_000_000) },
            RETENTION,
        );
        assert_eq!(jobs.all().count(), 1, "retention counts as before");
    }
}
