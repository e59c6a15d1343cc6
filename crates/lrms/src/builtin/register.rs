//! The jobs that were submitted, in the order of submission, and what became of them. Those that are over are remembered
//! until too many are; then the one that has been over for longest is forgotten.

use bookahead_party::{Job, JobChange, JobState, JobStatus};
use bookahead_plan::Time;
use bookahead_protocol::JobId;
use std::collections::{BTreeMap, VecDeque};

/// A submitted job.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) job: Job,
    pub(super) order: u64,
    pub(super) submitted: Time,
    pub(super) state: JobState,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Register {
    entries: BTreeMap<JobId, Entry>,
    /// By the order of submission.
    ordered: BTreeMap<u64, JobId>,
    /// In the order in which they ended.
    over: VecDeque<JobId>,
}

impl Register {
    /// The number of the next job to be submitted.
    pub(super) fn next_order(&self) -> u64 {
        self.ordered.last_key_value().map_or(0, |(order, _)| order.saturating_add(1))
    }

    /// How many wait or run.
    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.over.len()
    }

    /// How many it remembers.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// Notes a job that was submitted.
    pub(super) fn add(&mut self, entry: Entry) {
        if entry.state.is_over() {
            self.over.push_back(entry.job.id);
        }
        self.ordered.insert(entry.order, entry.job.id);
        self.entries.insert(entry.job.id, entry);
    }

    /// Notes what became of a job; nothing becomes of one that is over.
    pub(super) fn note(&mut self, change: &JobChange) -> Option<&Entry> {
        let entry = self.entries.get_mut(&change.id).filter(|entry| !entry.state.is_over())?;
        entry.state = change.state.clone();
        if change.state.is_over() {
            entry.ended = Some(change.at);
            self.over.push_back(change.id);
        } else if change.state == JobState::Running {
            entry.started = Some(change.at);
        }
        Some(entry)
    }

    /// Forgets one that is over, if there are more of those than are to be remembered.
    pub(super) fn forget_oldest(&mut self, remembered: usize) -> Option<JobId> {
        if self.over.len() <= remembered {
            return None;
        }
        let id = self.over.pop_front()?;
        let entry = self.entries.remove(&id)?;
        self.ordered.remove(&entry.order);
        Some(id)
    }

    /// All, in the order of submission, with the starts that those who wait can expect.
    pub(super) fn statuses(&self, expected: &BTreeMap<JobId, Time>) -> Vec<JobStatus> {
        let entries = self.ordered.values().filter_map(|id| self.entries.get(id));
        let status = |entry: &Entry| JobStatus {
            id: entry.job.id,
            state: entry.state.clone(),
            submitted: entry.submitted,
            started: entry.started,
            ended: entry.ended,
            expected_start: expected.get(&entry.job.id).copied(),
        };
        entries.map(status).collect()
    }
}
