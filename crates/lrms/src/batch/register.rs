//! The jobs of this site in a batch system, in the order of submission, and what became of them. Those that are over are
//! remembered until too many are; then the one that has been over for longest is forgotten.

use super::system::JobFact;
use bookahead_party::{Job, JobState, JobStatus};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, ReservationId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: JobId,
    /// As it was submitted; None of one that was found and not submitted again.
    pub(super) job: Option<Job>,
    /// What it is called there.
    pub(super) native: String,
    pub(super) submitted: Time,
    pub(super) state: JobState,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) expected_start: Option<Time>,
    pub(super) limit: Option<Seconds>,
    /// Inside which it runs.
    pub(super) reservation: Option<ReservationId>,
    /// When that ends, as far as is known.
    pub(super) until: Option<Time>,
    /// Somebody said that it is to be ended, and it is not known whether the batch system heard.
    pub(super) unheard: bool,
    /// It was told to end with its reservation, and may take its time for that.
    pub(super) ending: bool,
    /// It claims and no look has shown it running.
    pub(super) awaits_go: bool,
    pub(super) claims_since: Option<Time>,
    /// The number of the last look that had begun when we last changed the job: only looks with higher numbers show that.
    pub(super) stamp: u64,
}

#[derive(Debug, Default)]
pub(super) struct Register {
    entries: BTreeMap<JobId, (u64, Entry)>,
    ordered: BTreeMap<u64, JobId>,
    /// In the order in which they ended.
    over: VecDeque<JobId>,
    /// Those whose native ids were not told yet.
    pub(super) unnamed: Vec<(JobId, String)>,
}

impl Entry {
    /// A job that was just submitted; for `stamp` see [`Entry::stamp`].
    pub(super) fn submitted(job: &Job, native: String, at: Time, until: Option<Time>, stamp: u64) -> Entry {
        let (limit, reservation) = (Some(job.limit), job.reservation);
        let found = JobFact { submitted: at, limit, awaits_go: job.claims, ..JobFact::new(native) };
        Entry { job: Some(job.clone()), until, stamp, ..Entry::found(job.id, &found, reservation) }
    }

    /// One that was found there; what became of it is still to be noted.
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
            expected_start: self.expected_start.filter(|_| self.state == JobState::Waiting),
        }
    }
}

impl Register {
    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.over.len()
    }

    pub(super) fn live_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(_, entry)| entry).filter(|entry| !entry.state.is_over())
    }

    /// When the next reservation ends that one runs in, or is `early` before its end, after this time.
    pub(super) fn next_end(&self, after: Time, early: Seconds) -> Option<Time> {
        let running = |entry: &&Entry| matches!(entry.state, JobState::Running | JobState::Claiming);
        let inside = self.live_entries().filter(running).filter(|entry| entry.reservation.is_some());
        let ends = inside.filter_map(|entry| entry.until).flat_map(|until| [until - early, until]);
        ends.filter(|end| *end > after).min()
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.entries.get(&id).map(|(_, entry)| entry)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(|(_, entry)| entry)
    }

    /// Notes one that is new, behind all others.
    pub(super) fn add(&mut self, entry: Entry) {
        let order = self.ordered.last_key_value().map_or(0, |(order, _)| order.saturating_add(1));
        self.ordered.insert(order, entry.id);
        self.unnamed.push((entry.id, entry.native.clone()));
        self.entries.insert(entry.id, (order, entry));
    }

    /// Notes how it stands with one; answers whether that is new. Nothing becomes of one that is over.
    pub(super) fn note(&mut self, id: JobId, state: &JobState, at: Time) -> bool {
        let Some(entry) = self.get_mut(id).filter(|entry| !entry.state.is_over()) else { return false };
        if entry.state == *state {
            return false;
        }
        entry.state = state.clone();
        match state {
            JobState::Waiting => entry.started = None,
            JobState::Claiming => (entry.started, entry.claims_since) = (None, Some(at)),
            JobState::Running => entry.started = Some(at),
            JobState::Done { .. } | JobState::Killed(_) => {
                entry.ended = Some(at);
                self.over.push_back(id);
            }
        }
        true
    }

    /// Forgets those that are over, but for so many.
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
