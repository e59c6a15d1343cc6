//! The local jobs of a simulated site: a scheduler that works through them in virtual time, around the reservations
//! that the site's ledger makes. It knows nothing of Bookahead and survives its crashes, as a batch system does.

use crate::site::{Job, Ran};
use bookahead_plan::{Capacity, Interval, JobKey, Policy, Running, Scheduler, Seconds, Span, Time, Waiting};
use bookahead_protocol::ReservationId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A cluster with its queue.
pub struct Cluster {
    scheduler: Scheduler,
    capacity: Capacity,
    /// In order of submission.
    jobs: Vec<Job>,
    submitted: usize,
    running: BTreeMap<JobKey, Running>,
    waiting: BTreeMap<JobKey, Waiting>,
    ends: BinaryHeap<Reverse<(Time, JobKey)>>,
    /// When each job ran.
    ran: BTreeMap<JobKey, Ran>,
    reserved: BTreeMap<ReservationId, Vec<Span>>,
}

impl Cluster {
    /// An idle one, with jobs to come.
    pub fn new(policy: Policy, capacity: Capacity, mut jobs: Vec<Job>) -> Cluster {
        jobs.sort_by_key(|job| job.asked.submit);
        let start = jobs.first().map_or(Time(0), |job| job.asked.submit.min(Time(0)));
        Cluster {
            scheduler: Scheduler::new(policy, capacity, start),
            capacity,
            jobs,
            submitted: 0,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ends: BinaryHeap::new(),
            ran: BTreeMap::new(),
            reserved: BTreeMap::new(),
        }
    }

    /// Works on until `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some(next) = self.next_event().filter(|next| *next <= now) {
            self.step(next);
        }
        self.scheduler.advance(now);
        if self.scheduler.profile().free_now() < 0 {
            self.pass();
        }
    }

    /// When something happens to its jobs.
    pub fn next_event(&self) -> Option<Time> {
        let end = self.ends.peek().map(|Reverse((time, _))| *time);
        let submission = self.jobs.get(self.submitted).map(|job| job.asked.submit);
        let chance = self.scheduler.next_chance().filter(|_| self.scheduler.waiting() > 0);
        [end, submission, chance].into_iter().flatten().min().map(|time| time.max(self.scheduler.now()))
    }

    fn step(&mut self, now: Time) {
        self.scheduler.advance(now);
        while let Some(&Reverse((_, key))) = self.ends.peek().filter(|Reverse((end, _))| *end <= now) {
            self.ends.pop();
            if let Some(running) = self.running.remove(&key) {
                self.scheduler.end(running);
            }
        }
        while let Some(job) = self.jobs.get(self.submitted).filter(|job| job.asked.submit <= now) {
            let key = JobKey(u32::try_from(self.submitted).unwrap_or(u32::MAX));
            // One that is too wide never runs.
            if self.scheduler.submit(key, job.asked).is_ok() {
                self.waiting.insert(key, job.asked);
            }
            self.submitted += 1;
        }
        self.pass();
    }

    /// Starts what can start. Where capacity failed, jobs are stopped first, the newest first, until reservations have
    /// what they need.
    fn pass(&mut self) {
        let now = self.scheduler.now();
        self.scheduler.withdraw_promises();
        while self.scheduler.profile().free_now() < 0
            && let Some((key, running)) = self.running.pop_last()
        {
            self.scheduler.end(running);
            self.ran.entry(key).and_modify(|ran| ran.end = now);
        }
        let mut started = Vec::new();
        self.scheduler.schedule(|key| started.push(key));
        for key in started {
            let Some(asked) = self.waiting.remove(&key) else { continue };
            let expected_end = now + asked.estimate;
            let end = now + self.jobs[key.0 as usize].run.min(asked.estimate);
            self.running.insert(key, Running { expected_end, capacity: asked.capacity });
            self.ran.insert(key, Ran { start: now, end });
            self.ends.push(Reverse((end, key)));
        }
    }

    /// What is reserved for `id` is this from now on.
    pub fn reserve(&mut self, id: ReservationId, spans: Vec<Span>) {
        if let Some(before) = self.reserved.remove(&id) {
            before.into_iter().for_each(|span| self.scheduler.release(span));
        }
        spans.iter().for_each(|span| self.scheduler.reserve(*span));
        if !spans.is_empty() {
            self.reserved.insert(id, spans);
        }
        self.pass();
    }

    /// Part of it fails from now on, or comes back.
    pub fn lose(&mut self, capacity: Capacity, back: bool) {
        let span = Span { interval: Interval::new(Time::MIN, Time::MAX), capacity };
        if back {
            self.scheduler.release(span);
        } else {
            self.scheduler.reserve(span);
        }
        self.pass();
    }

    /// What is reserved, by whom it was made for.
    pub fn reserved(&self) -> &BTreeMap<ReservationId, Vec<Span>> {
        &self.reserved
    }

    /// What neither jobs nor reservations nor failures take now.
    pub fn free_now(&self) -> i64 {
        self.scheduler.profile().free_now()
    }

    /// Jobs that run.
    pub fn running(&self) -> Vec<Running> {
        self.running.values().copied().collect()
    }

    /// Jobs that wait, in the order of submission.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waiting.values().copied().collect()
    }

    /// How many jobs have started.
    pub fn started(&self) -> usize {
        self.ran.len()
    }

    /// What there is.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// When its jobs ran, with what they took.
    pub fn ran(&self) -> impl Iterator<Item = (Ran, Capacity)> {
        self.ran.iter().map(|(key, ran)| (*ran, self.jobs[key.0 as usize].asked.capacity))
    }

    /// How long each job that has started had waited.
    pub fn waits(&self) -> impl Iterator<Item = Seconds> {
        self.ran.iter().map(|(key, ran)| ran.start - self.jobs[key.0 as usize].asked.submit)
    }
}
