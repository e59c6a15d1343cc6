//! How the built-in scheduler goes on: time passes on all resources, programs start and are looked after, and whatever
//! becomes of a job is noted, written down and kept to be told.

use super::processes::Stored;
use super::processes::folder::{Over, Record};
use super::{Builtin, Phase};
use crate::error::LrmsError;
use bookahead_party::{Ended, Job, JobChange, JobState, JobStatus, Work};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Moment};
use std::collections::{BTreeMap, VecDeque};

impl Builtin {
    /// Takes up what the last one left.
    pub(super) fn load(&mut self) -> Result<(), LrmsError> {
        let Some(processes) = &mut self.processes else { return Ok(()) };
        let at = self.now.second();
        let mut stored = processes.load(self.now)?;
        // Those that are over in the order in which they ended; the others stay as they were submitted.
        stored.sort_by_key(|stored| stored.progress.over.as_ref().map(|over| over.at));
        for Stored { record, progress, found } in stored {
            let id = record.job.id;
            if let Some(over) = progress.over {
                self.register_as(record, over.state, progress.started, Some(over.at));
                continue;
            }
            let state = match (&record.job.work, found) {
                (Work::Pretended { .. }, _) if progress.started.is_some() => JobState::Running,
                (Work::Pretended { .. }, _) | (_, None) => JobState::Waiting,
                (_, Some(found)) => found.into(),
            };
            let started = Some(progress.started.unwrap_or(at)).filter(|_| state != JobState::Waiting);
            let no_place = self.has_no_place(&record.job);
            self.take(record, started);
            match (state, no_place) {
                (JobState::Waiting, Some(why)) => {
                    self.leave(id, JobState::Killed(Ended::CouldNotStart(why)), at);
                }
                (JobState::Running, Some(_)) => self.leave(id, JobState::Killed(Ended::Displaced), at),
                (JobState::Waiting | JobState::Running, None) => {}
                (over, _) => self.leave(id, over, at),
            }
        }
        Ok(())
    }

    /// Ended a job that was taken once would not be taken now.
    fn has_no_place(&self, job: &Job) -> Option<String> {
        match self.clusters.get(&job.resource) {
            None => Some(format!("there is no resource {} any more", job.resource)),
            Some(cluster) if job.capacity > cluster.capacity => {
                Some(format!("{} has only {} now", job.resource, cluster.capacity))
            }
            Some(_) => None,
        }
    }

    /// Takes a job that is written down; one that has started runs.
    pub(super) fn take(&mut self, record: Record, started: Option<Time>) {
        let state = if started.is_some() { JobState::Running } else { JobState::Waiting };
        if let Some(cluster) = self.clusters.get_mut(&record.job.resource) {
            let run = pretended(&record.job);
            cluster.submit(&record.job, record.order, run, record.submitted, started);
        }
        self.register_as(record, state, started, None);
    }

    fn register_as(&mut self, record: Record, state: JobState, started: Option<Time>, ended: Option<Time>) {
        let Record { job, submitted, order } = record;
        self.register.add(Entry { job, order, submitted, state, started, ended });
    }

    /// Lets time pass up to `now` before a command, unless nothing may happen yet.
    pub(super) fn catch_up(&mut self, now: Moment) {
        let second = self.now.second();
        self.now = self.now.max(now);
        if self.phase == Phase::Awake && self.now.second() > second {
            self.go_on();
        }
    }

    /// Lets jobs start and end until now.
    pub(super) fn go_on(&mut self) {
        let (now, pretended) = (self.now.second(), self.processes.is_none());
        loop {
            let mut changes = Vec::new();
            for cluster in self.clusters.values_mut() {
                cluster.advance(now, pretended, &mut changes);
            }
            if changes.is_empty() {
                return;
            }
            changes.sort_by_key(|change| change.at);
            // What cannot start leaves, which may let others start.
            changes.into_iter().for_each(|change| self.note(change));
        }
    }

    /// Notes which programs have ended.
    pub(super) fn look_after_processes(&mut self) {
        let Some(processes) = &mut self.processes else { return };
        for (id, state) in processes.look(self.now) {
            self.leave(id, state, self.now.second());
        }
    }

    /// A job leaves its resource before that would have ended it.
    pub(super) fn leave(&mut self, id: JobId, state: JobState, at: Time) {
        let resource = self.register.get(id).map(|entry| entry.job.resource.clone());
        if let Some(cluster) = resource.and_then(|resource| self.clusters.get_mut(&resource)) {
            cluster.remove(id);
        }
        self.note(JobChange { id, state, at });
    }

    /// Notes what became of a job, and does with its program what follows: one that claims has none yet.
    pub(super) fn note(&mut self, change: JobChange) {
        let Some(entry) = self.register.note(&change) else { return };
        let (id, at) = (change.id, change.at);
        if entry.state.is_over() {
            self.unwritten.insert(id);
        } else if entry.state == JobState::Running
            && let Some(processes) = &mut self.processes
        {
            let started = match pretended(&entry.job) {
                Some(_) => processes.note_start(id, at),
                None => processes.start(&entry.job, at),
            };
            if let Err(why) = started {
                return self.leave(id, JobState::Killed(Ended::CouldNotStart(why)), at);
            }
        }
        self.untold.push(change);
    }

    /// Ends what is left of jobs that are over, writes down how they ended, and forgets the oldest. What cannot be
    /// written is tried again the next time.
    pub(super) fn write_what_is_unwritten(&mut self) -> Result<(), LrmsError> {
        let mut failed = Ok(());
        for id in std::mem::take(&mut self.unwritten) {
            if let Err(why) = self.write_end(id) {
                self.unwritten.insert(id);
                failed = Err(why);
            }
        }
        self.forget_old();
        failed
    }

    fn write_end(&mut self, id: JobId) -> Result<(), LrmsError> {
        let (Some(processes), Some(entry)) = (&mut self.processes, self.register.get(id)) else {
            return Ok(());
        };
        let at = entry.ended.unwrap_or(self.now.second());
        let noted = processes.note_end(id, entry.started, Over { at, state: entry.state.clone() });
        match pretended(&entry.job) {
            Some(_) => noted,
            // Its processes have no room any more, noted or not.
            None => noted.and(processes.end(id, self.now)),
        }
    }

    fn forget_old(&mut self) {
        while let Some(id) = self.register.forget_oldest(self.remembered) {
            if let Some(processes) = &self.processes {
                // A folder that cannot be removed now is found, and forgotten again, at the next start.
                let _ = processes.forget(id);
            }
        }
    }
}

/// How long a job takes, if it is only pretended.
fn pretended(job: &Job) -> Option<Seconds> {
    match job.work {
        Work::Pretended { run } => Some(run),
        Work::Program { .. } | Work::Script { .. } => None,
    }
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) job: Job,
    pub(super) order: u64,
    pub(super) submitted: Time,
    pub(super) state: JobState,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct Register {
    entries: BTreeMap<JobId, Entry>,
    ordered: BTreeMap<u64, JobId>,
    /// In the order in which they ended.
    over: VecDeque<JobId>,
}

impl Register {
    /// The number of the next job to be submitted.
    pub(super) fn next_order(&self) -> u64 {
        self.ordered.last_key_value().map_or(0, |(order, _)| order.saturating_add(1))
    }

    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.over.len()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.entries.get(&id)
    }

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
