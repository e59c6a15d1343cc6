//! The jobs of this site in a batch system, in order of submission, with their states. A limited number of finished
//! jobs is remembered; the one that ended first is forgotten first.

use super::system::JobFact;
use bookahead_party::{Job, JobState, JobStatus};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, ReservationId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: JobId,
    /// As submitted; None for a job that was found after a restart and not submitted again.
    pub(super) job: Option<Job>,
    /// Native id.
    pub(super) native: String,
    pub(super) submitted: Time,
    pub(super) state: JobState,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) expected_start: Option<Time>,
    pub(super) limit: Option<Seconds>,
    pub(super) reservation: Option<ReservationId>,
    /// Known end of that reservation.
    pub(super) until: Option<Time>,
    /// A cancellation was requested, and its command was not answered.
    pub(super) unheard: bool,
    /// Was signalled to end with its reservation; it may take some time.
    pub(super) ending: bool,
    /// Claims, and no look has shown it past its go-ahead.
    pub(super) awaits_go: bool,
    pub(super) claims_since: Option<Time>,
    /// How often it went back to the queue.
    pub(super) restarts: u32,
    /// Number of the last look begun when we last changed the job; only looks with higher numbers show the change.
    pub(super) stamp: u64,
}

#[derive(Debug, Default)]
pub(super) struct Register {
    entries: BTreeMap<JobId, (u64, Entry)>,
    ordered: BTreeMap<u64, JobId>,
    /// In the order in which they ended.
    over: VecDeque<JobId>,
    /// Jobs whose native id was not reported yet.
    pub(super) unnamed: Vec<(JobId, String)>,
}

impl Entry {
    /// A job that was just submitted; for `stamp` see [`Entry::stamp`].
    pub(super) fn submitted(job: &Job, native: String, at: Time, until: Option<Time>, stamp: u64) -> Entry {
        let (limit, reservation) = (Some(job.limit), job.reservation);
        let found = JobFact { submitted: at, limit, awaits_go: job.claims, ..JobFact::new(native) };
        Entry { job: Some(job.clone()), until, stamp, ..Entry::found(job.id, &found, reservation) }
    }

    /// A job found in the batch system. Its state is applied later.
    pub(super) fn found(id: JobId, fact: &JobFact, reservation: Option<ReservationId>) -> Entry {
        Entry {
            id,
            job: None,
            native: fact.native.clone(),
            submitted: fact.submitted,
            state: JobState::Waiting,
            started: None,
            ended: None,
            expected_start: None,
            limit: fact.limit,
            reservation,
            until: None,
            unheard: false,
            ending: false,
            awaits_go: fact.awaits_go,
            claims_since: None,
            restarts: fact.restarts,
            stamp: 0,
        }
    }

    fn status(&self) -> JobStatus {
        JobStatus {
            id: self.id,
            state: self.state.clone(),
            submitted: self.submitted,
            started: self.started,
            ended: self.ended,
            // After the start, an old estimate would contradict the real time.
            expected_start: self.expected_start.filter(|_| self.state == JobState::Waiting),
            restarts: self.restarts,
        }
    }
}

impl Register {
    pub(super) fn live(&self) -> usize {
        // Cannot underflow: each id in `over` has an entry, and both are removed together.
        self.entries.len() - self.over.len()
    }

    pub(super) fn live_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(_, entry)| entry).filter(|entry| !entry.state.is_over())
    }

    /// The next time after `after` at which a reservation with a running job ends, or at which `early` remains until
    /// then.
    pub(super) fn next_end(&self, after: Time, early: Seconds) -> Option<Time> {
        let running = |entry: &&Entry| matches!(entry.state, JobState::Running | JobState::Claiming);
        let inside = self.live_entries().filter(running).filter(|entry| entry.reservation.is_some());
        // Jobs are ended at the first of both times if another reservation follows, else at the second.
        let ends = inside.filter_map(|entry| entry.until).flat_map(|until| [until - early, until]);
        ends.filter(|end| *end > after).min()
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.entries.get(&id).map(|(_, entry)| entry)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(|(_, entry)| entry)
    }

    /// Adds a new job behind all others.
    pub(super) fn add(&mut self, entry: Entry) {
        // Not the number of entries: it shrinks when old jobs are forgotten, and would repeat an order.
        let order = self.ordered.last_key_value().map_or(0, |(order, _)| order.saturating_add(1));
        self.ordered.insert(order, entry.id);
        self.unnamed.push((entry.id, entry.native.clone()));
        self.entries.insert(entry.id, (order, entry));
    }

    /// Records a state; returns whether it is new. The state of a finished job never changes.
    pub(super) fn note(&mut self, id: JobId, state: &JobState, at: Time) -> bool {
        let Some(entry) = self.get_mut(id).filter(|entry| !entry.state.is_over()) else { return false };
        if entry.state == *state {
            return false;
        }
        entry.state = state.clone();
        match state {
            // The batch system put the job back into its queue.
            JobState::Waiting => entry.started = None,
            // Only the wrapper runs: for its owner the job has not started before the go-ahead.
            JobState::Claiming => (entry.started, entry.claims_since) = (None, Some(at)),
            JobState::Running => entry.started = Some(at),
            JobState::Done { .. } | JobState::Killed(_) => {
                entry.ended = Some(at);
                self.over.push_back(id);
            }
        }
        true
    }

    /// Records that a job that was over is in the queue again, outside of reservations.
    pub(super) fn requeued(&mut self, id: JobId, restarts: u32, stamp: u64) {
        self.over.retain(|over| *over != id);
        if let Some(entry) = self.get_mut(id) {
            *entry = Entry {
                job: entry.job.take().map(|job| Job { reservation: None, ..job }),
                state: JobState::Waiting,
                started: None,
                ended: None,
                expected_start: None,
                reservation: None,
                until: None,
                unheard: false,
                ending: false,
                restarts,
                stamp,
                ..entry.clone()
            };
        }
    }

    /// Forgets the oldest finished jobs beyond this number.
    pub(super) fn forget_old(&mut self, remembered: usize) {
        while self.over.len() > remembered {
            let Some(id) = self.over.pop_front() else { return };
            if let Some((order, _)) = self.entries.remove(&id) {
                self.ordered.remove(&order);
            }
        }
    }

    pub(super) fn statuses(&self) -> Vec<JobStatus> {
        self.ordered.values().filter_map(|id| self.get(*id)).map(Entry::status).collect()
    }
}
