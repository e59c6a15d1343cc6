//! Advances the built-in scheduler: time passes on all resources, programs are started and watched, and changes of
//! jobs are recorded, written to disk and queued for reports.

use super::cluster::Cluster;
use super::processes::Stored;
use super::processes::folder::{Over, Record};
use super::{Builtin, Phase, Requeuing};
use crate::environment::Within;
use crate::error::LrmsError;
use bookahead_party::{BatchError, BatchReport, Ended, Job, JobChange, JobState, JobStatus, Work};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Moment, Name};
use std::collections::{BTreeMap, VecDeque};

impl Builtin {
    /// Restores the jobs of the previous run.
    pub(super) fn load(&mut self) -> Result<(), LrmsError> {
        let Some(processes) = &mut self.processes else { return Ok(()) };
        let at = self.now.second();
        let mut stored = processes.load(self.now)?;
        // Finished jobs in the order of their ends; the sort is stable, so the others stay in order of submission.
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

    /// Why a job that was accepted before would be refused now.
    fn has_no_place(&self, job: &Job) -> Option<String> {
        match self.clusters.get(&job.resource) {
            None => Some(format!("the resource {} no longer exists", job.resource)),
            Some(cluster) if job.capacity > cluster.capacity => {
                Some(format!("{} now has only {}", job.resource, cluster.capacity))
            }
            Some(_) => None,
        }
    }

    /// Takes a job that is on disk; with `started` it runs.
    pub(super) fn take(&mut self, record: Record, started: Option<Time>) {
        let state = if started.is_some() { JobState::Running } else { JobState::Waiting };
        if let Some(cluster) = self.clusters.get_mut(&record.job.resource) {
            let run = pretended(&record.job);
            cluster.submit(&record.job, record.order, run, record.submitted, started);
        }
        self.register_as(record, state, started, None);
    }

    fn register_as(&mut self, record: Record, state: JobState, started: Option<Time>, ended: Option<Time>) {
        let Record { job, submitted, order, restarts } = record;
        self.register.add(Entry { job, order, submitted, state, started, ended, restarts });
    }

    /// Advances to `now` before a command, unless jobs may not start yet.
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
            // A job that fails to start leaves, which may let others start: hence the loop.
            changes.into_iter().for_each(|change| self.note(change));
        }
    }

    /// Records which programs have ended.
    pub(super) fn look_after_processes(&mut self) {
        let Some(processes) = &mut self.processes else { return };
        for (id, state) in processes.look(self.now) {
            self.leave(id, state, self.now.second());
        }
    }

    /// A job leaves its resource before the resource would have ended it.
    pub(super) fn leave(&mut self, id: JobId, state: JobState, at: Time) {
        let resource = self.register.get(id).map(|entry| entry.job.resource.clone());
        if let Some(cluster) = resource.and_then(|resource| self.clusters.get_mut(&resource)) {
            cluster.remove(id);
        }
        self.note(JobChange { id, state, at });
    }

    /// Records a change of a job and starts or ends its program. A claiming job has no program yet.
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
                None => {
                    let within = within(&entry.job, &self.clusters);
                    processes.start(&entry.job, within.as_ref(), at)
                }
            };
            if let Err(why) = started {
                return self.leave(id, JobState::Killed(Ended::CouldNotStart(why)), at);
            }
        }
        self.untold.push(change);
    }

    /// Puts jobs back into the queue whose last run has no processes left, behind all others. A job must not run
    /// twice at the same time, and its processes may take some seconds to end.
    pub(super) fn requeue_what_is_gone(&mut self) -> Vec<BatchReport> {
        let busy = |id: &JobId| {
            let ending = self.processes.as_ref().is_some_and(|processes| processes.is_ending(*id));
            ending || self.unwritten.contains(id)
        };
        let ready: Vec<JobId> = self.requeuing.keys().filter(|id| !busy(id)).copied().collect();
        let mut reports = Vec::new();
        for id in ready {
            let Some(Requeuing { order, job, restarts }) = self.requeuing.remove(&id) else { continue };
            let outcome = self.requeue(job, restarts).map_err(BatchError::from);
            reports.push(BatchReport::Job { order, job: id, outcome });
        }
        reports
    }

    fn requeue(&mut self, job: Job, restarts: u32) -> Result<(), LrmsError> {
        let what = || format!("to put {} back into the queue", job.id);
        let Some(known) = self.register.get(job.id) else {
            return Err(LrmsError::Refused { what: what(), said: "it is no longer known".into() });
        };
        if known.restarts >= restarts {
            return Ok(());
        }
        if !known.state.is_over() {
            return Err(LrmsError::Refused { what: what(), said: "it still waits or runs".into() });
        }
        self.check_room(&job)?;
        let (id, submitted) = (job.id, known.submitted);
        let record = Record { restarts, ..Record::new(job, submitted, self.register.next_order()) };
        if let Some(processes) = &self.processes {
            processes.requeue(&record)?;
        }
        self.register.remove(id);
        self.take(record, None);
        Ok(())
    }

    /// Sends the warning signal to the program of a running job. A simulated job needs none.
    pub(super) fn warn(&mut self, id: JobId) -> Result<(), LrmsError> {
        let runs = self.register.get(id).filter(|entry| entry.state == JobState::Running);
        if runs.is_none() {
            let said = "it does not run".into();
            return Err(LrmsError::Refused { what: format!("to send a signal to {id}"), said });
        }
        self.processes.iter().for_each(|processes| processes.warn(id));
        Ok(())
    }

    /// Kills remaining processes of finished jobs, writes their ends to disk, and forgets the oldest. Failed writes
    /// are retried the next time.
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
            // Its processes must go, even if the write failed.
            None => noted.and(processes.end(id, self.now)),
        }
    }

    fn forget_old(&mut self) {
        while let Some(id) = self.register.forget_oldest(self.remembered) {
            if let Some(processes) = &self.processes {
                // A folder that cannot be removed now is found and forgotten again at the next start.
                let _ = processes.forget(id);
            }
        }
    }
}

/// The reservation of a job with its present times.
fn within(job: &Job, clusters: &BTreeMap<Name, Cluster>) -> Option<Within> {
    let id = job.reservation?;
    let spans = clusters.get(&job.resource).map_or(&[][..], |cluster| cluster.reserved.spans(id));
    Some(Within::of(id, spans.iter()))
}

/// Run time of a simulated job.
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
    pub(super) restarts: u32,
}

impl Entry {
    /// Whether it is this job. One that went back to the queue has left its reservation.
    pub(super) fn is(&self, job: &Job) -> bool {
        let reservation = if self.restarts > 0 { self.job.reservation } else { job.reservation };
        self.job == Job { reservation, ..job.clone() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Register {
    entries: BTreeMap<JobId, Entry>,
    ordered: BTreeMap<u64, JobId>,
    /// In the order in which they ended.
    over: VecDeque<JobId>,
}

impl Register {
    /// Sequence number of the next submitted job.
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

    /// Records a change. A finished job never changes.
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

    /// Removes a job that is added again.
    pub(super) fn remove(&mut self, id: JobId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.ordered.remove(&entry.order);
            self.over.retain(|over| *over != id);
        }
    }

    /// Forgets the oldest finished job if there are more than `remembered`.
    pub(super) fn forget_oldest(&mut self, remembered: usize) -> Option<JobId> {
        if self.over.len() <= remembered {
            return None;
        }
        let id = self.over.pop_front()?;
        let entry = self.entries.remove(&id)?;
        self.ordered.remove(&entry.order);
        Some(id)
    }

    /// All jobs in order of submission, with the expected starts of waiting ones.
    pub(super) fn statuses(&self, expected: &BTreeMap<JobId, Time>) -> Vec<JobStatus> {
        let entries = self.ordered.values().filter_map(|id| self.entries.get(id));
        let status = |entry: &Entry| JobStatus {
            id: entry.job.id,
            state: entry.state.clone(),
            submitted: entry.submitted,
            started: entry.started,
            ended: entry.ended,
            expected_start: expected.get(&entry.job.id).copied(),
            restarts: entry.restarts,
        };
        entries.map(status).collect()
    }
}
