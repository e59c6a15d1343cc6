//! One resource of a simulated batch system: a scheduler that runs local and submitted jobs in virtual time around the
//! backings of reservations. It knows nothing of the ledgers: it is the ground truth of backings and running jobs.
//! Jobs inside reservations are in [`super::guests`].

use super::client::job_of;
use crate::site::{Job, Ran};
use bookahead_party::{Ended, Job as SiteJob, JobChange, JobState, JobStatus, Seen};
use bookahead_plan::{
    Capacity, Interval, JobKey, Policy, Profile, Running, Scheduler, Seconds, Span, Time, Waiting,
};
use bookahead_protocol::ledger::{Started, View, both, less, shortfall};
use bookahead_protocol::{JobId, ReservationId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Keys of submitted jobs begin here; the key of a local job is its place. So both fit into one scheduler.
const SUBMITTED: u32 = 1 << 31;

/// A cluster with its queue.
pub struct Cluster {
    scheduler: Scheduler,
    policy: Policy,
    capacity: Capacity,
    /// Local jobs, in order of submission.
    jobs: Vec<Job>,
    submitted: usize,
    running: BTreeMap<JobKey, Running>,
    waiting: BTreeMap<JobKey, Waiting>,
    ends: BinaryHeap<Reverse<(Time, JobKey)>>,
    ran: BTreeMap<JobKey, Ran>,
    /// Jobs submitted by the site, in order.
    pub(super) ours: Vec<Submitted>,
    /// Places of submitted jobs that are not over.
    pub(super) live: BTreeSet<usize>,
    /// Backings, including the share on nodes that are down.
    pub(super) reserved: BTreeMap<ReservationId, Vec<Span>>,
    /// Capacity of each backing on nodes that are down.
    pub(super) hits: BTreeMap<ReservationId, u32>,
    foreign: Vec<Span>,
    /// Failed capacity.
    pub(super) lost: u32,
    /// Submitted jobs that ended longer ago are forgotten, as by a real batch system.
    pub(super) remembers: Seconds,
    /// After a restart of an in-process scheduler no job may start until the site has told it the backings.
    asleep: bool,
    /// Increases with every visible change.
    pub(super) version: u64,
    /// State changes of submitted jobs since the last report.
    pub(super) changes: Vec<JobChange>,
    /// Number of executions of each job, over all copies.
    pub(super) executions: BTreeMap<JobId, u32>,
}

impl Cluster {
    /// An idle cluster; `jobs` are submitted at their times, which may lie before time zero.
    pub fn new(policy: Policy, capacity: Capacity, mut jobs: Vec<Job>) -> Cluster {
        jobs.sort_by_key(|job| job.asked.submit);
        let start = jobs.first().map_or(Time(0), |job| job.asked.submit.min(Time(0)));
        Cluster {
            scheduler: Scheduler::new(policy, capacity, start),
            policy,
            capacity,
            jobs,
            submitted: 0,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ends: BinaryHeap::new(),
            ran: BTreeMap::new(),
            ours: Vec::new(),
            live: BTreeSet::new(),
            reserved: BTreeMap::new(),
            hits: BTreeMap::new(),
            foreign: Vec::new(),
            lost: 0,
            remembers: Seconds(i64::MAX),
            asleep: false,
            version: 1,
            changes: Vec::new(),
            executions: BTreeMap::new(),
        }
    }

    /// Simulates until `now`; an earlier time has no effect.
    pub fn advance(&mut self, now: Time) {
        let now = now.max(self.now());
        while let Some(next) = self.next_event().filter(|next| *next <= now) {
            self.step(next);
        }
        self.scheduler.advance(now);
        let over = |spans: &Vec<Span>| spans.iter().all(|span| span.interval.end <= now);
        if self.reserved.values().any(over) {
            self.reserved.retain(|_, spans| !over(spans));
            self.hits.retain(|id, _| self.reserved.contains_key(id));
            self.version += 1;
        }
        // After a failure a reservation can begin without enough room; the pass stops jobs for it.
        if self.scheduler.profile().free_now() < 0 {
            self.pass();
        }
    }

    /// Time of the next end, submission, start or edge of a used backing.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let end = self.ends.peek().map(|Reverse((time, _))| *time);
        let submission = self.jobs.get(self.submitted).map(|job| job.asked.submit);
        let chance = self.scheduler.next_chance().filter(|_| self.scheduler.waiting() > 0 && !self.asleep);
        let ours = self.next_of_ours();
        [end, submission, chance, ours].into_iter().flatten().min().map(|time| time.max(self.now()))
    }

    fn step(&mut self, now: Time) {
        self.scheduler.advance(now);
        while let Some(&Reverse((_, key))) = self.ends.peek().filter(|Reverse((end, _))| *end <= now) {
            self.ends.pop();
            self.end(key);
        }
        self.end_ours(now);
        while let Some(job) = self.jobs.get(self.submitted).filter(|job| job.asked.submit <= now) {
            let (key, asked) = (JobKey(u32::try_from(self.submitted).unwrap_or(u32::MAX)), job.asked);
            // A job that is too wide is never started; it is not an error of the trace.
            self.enqueue(key, asked);
            self.submitted += 1;
        }
        self.pass();
    }

    /// Frees the room of a running job.
    fn end(&mut self, key: JobKey) {
        if let Some(running) = self.running.remove(&key) {
            self.scheduler.end(running);
            self.version += 1;
        }
    }

    /// Adds a job to the queue; false if it can never run.
    pub(super) fn enqueue(&mut self, key: JobKey, asked: Waiting) -> bool {
        let taken = self.scheduler.submit(key, asked).is_ok();
        if taken {
            self.waiting.insert(key, asked);
            self.version += 1;
        }
        taken
    }

    /// Removes a submitted job from the queue, or frees its room if it runs outside a reservation.
    pub(super) fn leave_queue(&mut self, place: usize) {
        let key = key_of(place);
        self.end(key);
        if self.waiting.remove(&key).is_some() {
            self.plan_anew();
        }
    }

    /// One scheduling pass. After a failure, running jobs are stopped first, the newest first, until reservations have
    /// their room.
    pub(super) fn pass(&mut self) {
        if self.asleep {
            return;
        }
        let now = self.now();
        self.scheduler.withdraw_promises();
        while self.scheduler.profile().free_now() < 0
            && let Some((key, running)) = self.running.pop_last()
        {
            self.scheduler.end(running);
            self.version += 1;
            match place_of(key) {
                Some(place) => self.over(place, JobState::Killed(Ended::Displaced), now),
                None => drop(self.ran.entry(key).and_modify(|ran| ran.end = now)),
            }
        }
        self.settle_guests(now);
        let mut started = Vec::new();
        self.scheduler.schedule(|key| started.push(key));
        for key in started {
            let Some(asked) = self.waiting.remove(&key) else { continue };
            let expected_end = now + asked.estimate;
            self.running
                .insert(key, Running { expected_end, capacity: asked.capacity, owner: asked.owner.id });
            self.version += 1;
            if let Some(place) = place_of(key) {
                self.turn(place, now);
                continue;
            }
            let end = now + self.jobs[key.0 as usize].run.min(asked.estimate);
            self.ran.insert(key, Ran { start: now, end });
            self.ends.push(Reverse((end, key)));
        }
    }

    /// Sets the backing of `id`, whether there is room or not. Empty spans remove it.
    pub fn reserve(&mut self, id: ReservationId, spans: Vec<Span>) {
        self.give_back(id);
        self.take(id, (spans, 0));
        self.pass();
    }

    /// Sets the backing of `id` if there is room beside everything else; returns whether.
    pub(super) fn try_reserve(&mut self, id: ReservationId, spans: Vec<Span>) -> bool {
        let before = self.give_back(id);
        // Shrinking needs no room, even if the cluster is overfull, and stays on the same nodes.
        let smaller = covers(&before.0, &spans, self.now());
        let fits = smaller || self.has_room(&spans);
        let largest = spans.iter().map(|span| span.capacity.0).max().unwrap_or(0);
        let hit = if smaller { before.1.min(largest) } else { 0 };
        self.take(id, if fits { (spans, hit) } else { before });
        self.pass();
        fits
    }

    /// Moves the backing of `id` to nodes that are up, if all of it fits there; returns whether.
    pub(super) fn try_move(&mut self, id: ReservationId) -> bool {
        let before = self.give_back(id);
        let fits = self.has_room(&before.0);
        self.take(id, if fits { (before.0, 0) } else { before });
        self.pass();
        fits
    }

    fn has_room(&mut self, spans: &[Span]) -> bool {
        self.scheduler.withdraw_promises();
        let (now, profile) = (self.now(), self.scheduler.profile());
        both(spans, &[]).iter().all(|span| {
            let rest = Interval::new(span.interval.begin.max(now), span.interval.end);
            rest.is_empty() || profile.min_free(rest) >= i64::from(span.capacity.0)
        })
    }

    /// Removes a backing; returns its spans and its capacity on nodes that are down.
    fn give_back(&mut self, id: ReservationId) -> (Vec<Span>, u32) {
        self.kept(id).into_iter().for_each(|span| self.scheduler.release(span));
        self.version += 1;
        (self.reserved.remove(&id).unwrap_or_default(), self.hits.remove(&id).unwrap_or(0))
    }

    fn take(&mut self, id: ReservationId, (spans, hit): (Vec<Span>, u32)) {
        if !spans.is_empty() {
            self.reserved.insert(id, spans);
            self.hits.insert(id, hit);
            self.kept(id).into_iter().for_each(|span| self.scheduler.reserve(span));
        }
    }

    /// The backing of a reservation without its nodes that are down.
    pub fn kept(&self, id: ReservationId) -> Vec<Span> {
        let hit = self.hits.get(&id).copied().unwrap_or(0);
        less(self.reserved.get(&id).map_or(&[], Vec::as_slice), Capacity(hit))
    }

    /// A reservation of another client of the batch system, if there is room.
    pub(super) fn reserve_foreign(&mut self, span: Span) -> bool {
        let fits = self.has_room(&[span]);
        if fits {
            self.scheduler.reserve(span);
            self.foreign.push(span);
            self.version += 1;
        }
        self.pass();
        fits
    }

    /// Adds a local job during the run, keeping the order of submission.
    pub(super) fn add_local(&mut self, job: Job) {
        let later = |known: &Job| known.asked.submit > job.asked.submit;
        let at = self.jobs.iter().position(later).unwrap_or(self.jobs.len()).max(self.submitted);
        self.jobs.insert(at, job);
    }

    /// Sets the total failed capacity. With `on_nodes` (external batch systems), the failed nodes belong to these
    /// backings in order, as far as they have enough.
    pub(super) fn lose(&mut self, lost: Capacity, on_nodes: Option<&[ReservationId]>) {
        self.lost = lost.0.min(self.capacity.0);
        // The profile limits the hits at every instant to the number of failed nodes.
        let mut left = Profile::new(Capacity(self.lost), self.now());
        let before = std::mem::take(&mut self.hits);
        let known = before.into_iter().filter(|(_, hit)| *hit > 0);
        let new = on_nodes.into_iter().flatten().map(|id| (*id, self.lost));
        for (id, most) in known.chain(new) {
            let spans = self.reserved.get(&id).map_or(&[][..], Vec::as_slice);
            let rests = spans.iter().map(|span| left.min_free(span.interval).min(span.capacity.0.into()));
            let nodes = u32::try_from(rests.min().unwrap_or(0)).unwrap_or(0).min(most);
            if nodes > 0 && !self.hits.contains_key(&id) {
                spans.iter().for_each(|span| left.add(Span { capacity: Capacity(nodes), ..*span }));
                self.hits.insert(id, nodes);
            }
        }
        self.plan_anew();
        if on_nodes.is_some() {
            self.hit_what_does_not_fit();
        }
        self.pass();
    }

    /// Every external backing is on concrete nodes: those that do not fit on the nodes that are up must be on failed
    /// ones.
    fn hit_what_does_not_fit(&mut self) {
        self.scheduler.withdraw_promises();
        let now = self.now();
        for id in self.reserved.keys().copied().collect::<Vec<_>>() {
            let kept = self.kept(id);
            let profile = self.scheduler.profile();
            let too_much = kept.iter().map(|span| {
                let rest = Interval::new(span.interval.begin.max(now), span.interval.end);
                let free = if rest.is_empty() { 0 } else { profile.min_free(rest) };
                u32::try_from(-free.min(0)).unwrap_or(u32::MAX).min(span.capacity.0)
            });
            if let Some(too_much) = too_much.max().filter(|too_much| *too_much > 0) {
                kept.iter().for_each(|span| self.scheduler.release(*span));
                *self.hits.entry(id).or_default() += too_much;
                self.kept(id).into_iter().for_each(|span| self.scheduler.reserve(span));
            }
        }
    }

    /// Rebuilds the scheduler from the present state.
    fn plan_anew(&mut self) {
        let now = self.now();
        self.scheduler.reset(self.policy, self.capacity, now);
        self.scheduler.reserve(Span::always(Capacity(self.lost)));
        self.foreign.iter().for_each(|span| self.scheduler.reserve(*span));
        for id in self.reserved.keys() {
            self.kept(*id).into_iter().for_each(|span| self.scheduler.reserve(span));
        }
        self.running.values().for_each(|running| self.scheduler.adopt(*running));
        for (key, asked) in &self.waiting {
            // It fits: it was accepted before.
            let _ = self.scheduler.submit(*key, *asked);
        }
        self.version += 1;
    }

    /// Loses all backings and starts nothing until [`Cluster::wake`].
    pub(super) fn sleep(&mut self) {
        for id in self.reserved.keys().copied().collect::<Vec<_>>() {
            self.give_back(id);
        }
        self.asleep = true;
    }

    /// The site has told all backings again.
    pub(super) fn wake(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.pass();
        }
    }

    /// A complete poll.
    pub(super) fn seen(&self) -> Seen {
        let (running, waiting, foreign) = (self.running(), self.waiting(), self.foreign());
        let view = View { running, waiting, foreign, by_class: true, ..View::default() };
        let away = self.hits.iter().filter(|(_, hit)| **hit > 0);
        let away = away.map(|(id, hit)| (*id, Capacity(*hit))).collect();
        let (lost, backings, in_use) = (Capacity(self.lost), self.reserved.clone(), self.in_use());
        Seen { view, lost, backings, away, in_use, started: self.starts() }
    }

    /// Local jobs that run.
    fn starts(&self) -> Vec<Started> {
        let local = self.running.keys().filter_map(|key| Some((self.ran.get(key)?, key)));
        let started = local.map(|(ran, key)| {
            let Waiting { submit: eligible, capacity, estimate, .. } = self.jobs[key.0 as usize].asked;
            Started { start: ran.start, eligible, capacity, estimate }
        });
        started.collect()
    }

    fn foreign(&self) -> Vec<Span> {
        let now = self.now();
        self.foreign.iter().copied().filter(|span| span.interval.end > now).collect()
    }

    pub(super) fn now(&self) -> Time {
        self.scheduler.now()
    }

    /// First time and amount by which running jobs, backings and failed capacity exceed the cluster.
    pub(crate) fn overfull(&mut self) -> Option<(Time, i64)> {
        // Promises to waiting jobs are no commitments; the pass below makes them again.
        self.scheduler.withdraw_promises();
        let (now, profile) = (self.now(), self.scheduler.profile());
        let overfull = profile.first_below(now, 0).map(|(when, free)| (when, -free));
        self.pass();
        overfull
    }

    /// Running jobs outside reservations.
    pub fn running(&self) -> Vec<Running> {
        self.running.values().copied().collect()
    }

    /// Waiting jobs, in the order of submission.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waiting.values().map(|job| self.scheduler.usage().told(*job)).collect()
    }

    /// Number of local jobs that have started.
    pub fn started(&self) -> usize {
        self.ran.len()
    }

    /// Start, end and capacity of each local job that has started.
    pub fn ran(&self) -> impl Iterator<Item = (Ran, Capacity)> {
        self.ran.iter().map(|(key, ran)| (*ran, self.jobs[key.0 as usize].asked.capacity))
    }

    /// Wait of each local job that has started.
    pub fn waits(&self) -> impl Iterator<Item = Seconds> {
        self.ran.iter().map(|(key, ran)| ran.start - self.jobs[key.0 as usize].asked.submit)
    }
}

pub(super) fn key_of(place: usize) -> JobKey {
    JobKey(SUBMITTED + u32::try_from(place).unwrap_or(SUBMITTED - 1))
}

fn place_of(key: JobKey) -> Option<usize> {
    key.0.checked_sub(SUBMITTED).map(|place| place as usize)
}

/// Timeout of a claim without a go: others wait for its room.
const CLAIMS_FOR: Seconds = Seconds(20);

/// A submitted job and its state.
#[derive(Debug, Clone)]
pub(super) struct Submitted {
    pub(super) job: SiteJob,
    pub(super) state: JobState,
    pub(super) submitted: Time,
    /// Time at which its room was taken; a claiming copy runs only later.
    pub(super) turn: Option<Time>,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) may_run: bool,
    /// Whether it waits for its release.
    pub(super) held: bool,
    /// How often it went back to the queue.
    pub(super) restarts: u32,
    /// Whether it went back to the queue after this run, and another entry is about the next.
    pub(super) went_back: bool,
}

impl Submitted {
    /// Its expected end and final state, unless it is cancelled or displaced.
    pub(super) fn end(&self) -> Option<(Time, JobState)> {
        let turn = self.turn?;
        let limit = turn + self.job.limit;
        let (end, how) = match (self.started, job_of(&self.job.work)) {
            (None, _) => (turn + CLAIMS_FOR, JobState::Killed(Ended::NoGo)),
            (Some(started), Some((_, run))) => (started + run, JobState::Done { exit: 0 }),
            (Some(_), None) => (limit, JobState::Done { exit: 0 }),
        };
        Some(if end <= limit { (end, how) } else { (limit, JobState::Killed(Ended::Limit)) })
    }

    pub(super) fn status(&self) -> JobStatus {
        let Submitted { job, state, submitted, started, ended, restarts, .. } = self.clone();
        JobStatus { id: job.id, state, submitted, started, ended, expected_start: None, restarts }
    }
}

/// Whether `kept` has at least the capacity of `wanted` at every instant from now on.
pub(super) fn covers(kept: &[Span], wanted: &[Span], now: Time) -> bool {
    shortfall(wanted, kept, now) == 0
}
