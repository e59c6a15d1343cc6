//! The jobs that were given to a site: written down before the batch system hears of them, so that none of them is ever
//! unknown to the book. What the book remembers of a job follows from its events alone.

use bookahead_lrms::{Job, JobState};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It is about to be given to the batch system.
    Submitted {
        /// What.
        job: Job,
        /// The key of the call.
        key: Key,
        /// When.
        at: Time,
    },
    /// The batch system has taken it.
    Handed {
        /// Which.
        id: JobId,
    },
    /// It is over, or the batch system did not take it.
    Over {
        /// Which.
        id: JobId,
        /// How.
        state: JobState,
        /// When.
        at: Time,
    },
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
    /// When it was over, and how.
    pub over: Option<(Time, JobState)>,
}

/// All jobs in the book.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs(BTreeMap<JobId, Record>);

impl Jobs {
    /// The fold. What was over for as long as a site remembers is forgotten on the way.
    pub fn apply(&mut self, event: &Event, retention: Seconds) {
        match event {
            Event::Submitted { job, key, at } => {
                let record =
                    Record { job: job.clone(), key: *key, submitted: *at, handed: false, over: None };
                self.0.entry(job.id).or_insert(record);
            }
            Event::Handed { id } => {
                if let Some(record) = self.0.get_mut(id) {
                    record.handed = true;
                }
            }
            Event::Over { id, state, at } => {
                if let Some(record) = self.0.get_mut(id) {
                    record.over.get_or_insert((*at, state.clone()));
                }
                let old = |over: &(Time, JobState)| over.0 + retention < *at;
                self.0.retain(|_, record| !record.over.as_ref().is_some_and(old));
            }
        }
    }

    /// One of them.
    pub fn get(&self, id: JobId) -> Option<&Record> {
        self.0.get(&id)
    }

    /// The one that came with a key.
    pub fn with_key(&self, key: Key) -> Option<&Record> {
        self.all().find(|record| record.key == key)
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.0.values()
    }

    /// Those that are not over.
    pub fn live(&self) -> impl Iterator<Item = &Record> {
        self.all().filter(|record| record.over.is_none())
    }
}
