//! The jobs submitted to a site. Each is journalled before it is submitted to the batch system, so no job
//! there is ever unknown to the site. A record follows from its events only.

use crate::batch::{Job, JobState};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Key, ReservationId};
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
    /// It is over, or the batch system refused it.
    Over { id: JobId, state: JobState, at: Time },
}

impl JobEvent {
    /// The job that the event is about.
    pub fn id(&self) -> JobId {
        match self {
            JobEvent::Submitted { job, .. } => job.id,
            JobEvent::Handed { id }
            | JobEvent::Given { id, .. }
            | JobEvent::Bound { id, .. }
            | JobEvent::Named { id, .. }
            | JobEvent::Claimed { id }
            | JobEvent::MayRun { id }
            | JobEvent::Started { id, .. }
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
    /// When and how it ended.
    #[serde(default)]
    pub over: Option<(Time, JobState)>,
}

impl Record {
    /// Whether it is this job, as originally submitted.
    pub(super) fn is(&self, job: &Job) -> bool {
        // A repeated submission does not name the reservation that the job was assigned to later.
        let reservation = self.job.reservation.filter(|_| !self.given);
        Job { reservation, ..self.job.clone() } == *job
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

/// All jobs of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Record>", into = "Vec<Record>")]
pub struct Jobs {
    records: BTreeMap<JobId, Record>,
    // The fields below are derived from the records.
    by_key: BTreeMap<Key, JobId>,
    live: BTreeSet<JobId>,
    over: BTreeSet<(Time, JobId)>,
}

impl Jobs {
    /// Applies an event. Also drops jobs that ended longer ago than `retention`.
    pub fn apply(&mut self, event: &JobEvent, retention: Seconds) {
        match event {
            JobEvent::Submitted { job, key, at } => {
                let (job, key, submitted) = (job.clone(), *key, *at);
                let (handed, given, binding, claims, may_run) = (false, false, false, false, false);
                let (native, started, over) = (None, None, None);
                self.insert(Record {
                    job,
                    key,
                    submitted,
                    handed,
                    given,
                    binding,
                    native,
                    claims,
                    may_run,
                    started,
                    over,
                });
            }
            JobEvent::Handed { id } => self.edit(*id, |record| record.handed = true),
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
            JobEvent::Over { id, state, at } => {
                // Only the first end counts: the batch system may still report one after a cancellation.
                if self.live.remove(id) {
                    self.over.insert((*at, *id));
                    self.edit(*id, |record| record.over = Some((*at, state.clone())));
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
        self.records.insert(id, record);
    }

    fn edit(&mut self, id: JobId, edit: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(&id) {
            edit(record);
        }
    }

    fn forget_old(&mut self, now: Time, retention: Seconds) {
        while let Some(&(at, id)) = self.over.first().filter(|(at, _)| *at + retention < now) {
            self.over.remove(&(at, id));
            if let Some(record) = self.records.remove(&id) {
                self.by_key.remove(&record.key);
            }
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

    /// Jobs that are not over.
    pub fn live(&self) -> impl Iterator<Item = &Record> {
        self.live.iter().filter_map(|id| self.records.get(id))
    }
}

impl From<Vec<Record>> for Jobs {
    fn from(records: Vec<Record>) -> Jobs {
        let mut jobs = Jobs::default();
        records.into_iter().for_each(|record| jobs.insert(record));
        jobs
    }
}

impl From<Jobs> for Vec<Record> {
    fn from(jobs: Jobs) -> Vec<Record> {
        jobs.records.into_values().collect()
    }
}
