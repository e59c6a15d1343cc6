//! The jobs that were given to a site: written down before the batch system hears of them, so that none of them is ever
//! unknown to the book. What the book remembers of a job follows from its events alone.

use crate::batch::{Job, JobState};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Key, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Something that happened to a job.
#[allow(missing_docs, reason = "`id` is the job that it happened to")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEvent {
    /// It is about to be given to the batch system.
    Submitted { job: Job, key: Key, at: Time },
    /// The batch system has taken it.
    Handed { id: JobId },
    /// It waited in the queue, and belongs to a reservation from now on.
    Given { id: JobId, reservation: ReservationId },
    /// The batch system was told so.
    Bound {
        id: JobId,
        /// Whether it did so; otherwise the job runs, or waits, where it was.
        bound: bool,
    },
    /// The batch system calls it so.
    Named { id: JobId, native: String },
    /// Its turn has come, and it waits for a go.
    Claimed { id: JobId },
    /// Its broker lets it run.
    MayRun { id: JobId },
    /// It runs.
    Started {
        id: JobId,
        /// Since when.
        at: Time,
    },
    /// It is over, or the batch system did not take it.
    Over { id: JobId, state: JobState, at: Time },
}

/// A job in the book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it is.
    pub job: Job,
    /// The key of the call by which it came.
    pub key: Key,
    /// When it was submitted.
    pub submitted: Time,
    /// Whether the batch system is known to have taken it: then it is never handed over again.
    #[serde(default)]
    pub handed: bool,
    /// Whether it came without a reservation and was given one later.
    #[serde(default)]
    pub given: bool,
    /// Whether the batch system has still to be told of that.
    #[serde(default)]
    pub binding: bool,
    /// What the batch system calls it.
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
    /// When it was over, and how.
    #[serde(default)]
    pub over: Option<(Time, JobState)>,
}

impl Record {
    /// Whether it is this job, as it was submitted.
    pub(super) fn is(&self, job: &Job) -> bool {
        let reservation = self.job.reservation.filter(|_| !self.given);
        Job { reservation, ..self.job.clone() } == *job
    }

    /// How it stands.
    pub fn state(&self) -> JobState {
        match &self.over {
            Some((_, state)) => state.clone(),
            None if self.started.is_some() => JobState::Running,
            None if self.claims => JobState::Claiming,
            None => JobState::Waiting,
        }
    }
}

/// All jobs in the book.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Record>", into = "Vec<Record>")]
pub struct Jobs {
    records: BTreeMap<JobId, Record>,
    // What follows is derived from the records.
    by_key: BTreeMap<Key, JobId>,
    live: BTreeSet<JobId>,
    over: BTreeSet<(Time, JobId)>,
}

impl Jobs {
    /// The fold. What was over for as long as a site remembers is forgotten on the way.
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
                    (record.job.reservation, record.given) = (None, false);
                }
            }),
            JobEvent::Named { id, native } => {
                self.edit(*id, |record| record.native = Some(native.clone()));
            }
            JobEvent::Claimed { id } => self.edit(*id, |record| record.claims = true),
            JobEvent::MayRun { id } => self.edit(*id, |record| record.may_run = true),
            JobEvent::Started { id, at } => self.edit(*id, |record| {
                record.started.get_or_insert(*at);
            }),
            JobEvent::Over { id, state, at } => {
                if self.live.remove(id) {
                    self.over.insert((*at, *id));
                    self.edit(*id, |record| record.over = Some((*at, state.clone())));
                }
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

    /// One of them.
    pub fn get(&self, id: JobId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// The one that came with a key.
    pub fn with_key(&self, key: Key) -> Option<&Record> {
        self.by_key.get(&key).and_then(|id| self.records.get(id))
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Those that are not over.
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
