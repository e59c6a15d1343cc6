//! One resource of a site without a batch system: the scheduler of `plan` with a queue, planned around the
//! reservations. Local jobs come from a source and are forgotten when they end; changes of submitted jobs are
//! reported.
//!
//! The caller must report the end of a job whose run time is not known in advance. This module starts no processes.
//! It never lets a job outlive its limit or stay in capacity that is reserved.

use super::Hosted;
use super::reserved::{Go, Guest, Reserved, end_of_run};
use super::sources::{LocalJob, Source};
use crate::maintenance::{self, RENEWED_EVERY, Window};
use bookahead_party::{Ended, Job, JobChange, JobState, Seen};
use bookahead_plan::notice::WINDOW;
use bookahead_plan::{
    Capacity, Interval, JobKey, Owner, Planner, Policy, Running, Scheduler, Seconds, Span, Time, Waiting,
    planner,
};
use bookahead_protocol::ledger::{Maintenance, Started, View};
use bookahead_protocol::{JobId, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Limit of waiting local jobs; further ones are dropped. A source that offers more than the resource can run must
/// not fill the memory.
pub(super) const MOST_WAITING: usize = 10_000;

/// A job outside of reservations.
#[derive(Debug, Clone, Copy)]
struct Task {
    asked: Waiting,
    /// Only for submitted jobs.
    id: Option<JobId>,
    /// Run time; None if only the process determines it.
    run: Option<Seconds>,
    /// When it got its capacity.
    started: Option<Time>,
    go: Go,
}

impl Task {
    /// The scheduler's view of it, if it runs.
    fn running(&self) -> Option<Running> {
        let expected_end = self.started? + self.asked.estimate;
        Some(Running { expected_end, capacity: self.asked.capacity, owner: self.asked.owner.id })
    }

    /// When and how it ends, if it runs and nothing unexpected happens.
    fn end(&self) -> Option<(Time, JobState)> {
        self.started.map(|started| end_of_run(started, self.go, self.run, self.asked.estimate))
    }
}

pub(super) struct Cluster {
    name: Name,
    policy: Policy,
    /// Numbers of priority classes.
    priorities: BTreeMap<Name, i32>,
    /// Numbers of users, for fair share. Local jobs belong to number 0.
    owners: BTreeMap<Name, u32>,
    /// Total capacity, including the failed part.
    pub(super) capacity: Capacity,
    pub(super) lost: Capacity,
    scheduler: Scheduler,
    /// Jobs that wait or run outside of reservations; later ones have higher keys.
    tasks: BTreeMap<JobKey, Task>,
    next_key: u32,
    /// Ends of running jobs.
    ends: BTreeSet<(Time, JobKey)>,
    /// Keys of submitted jobs.
    keys: BTreeMap<JobId, JobKey>,
    pub(super) reserved: Reserved,
    windows: Vec<Window>,
    /// Maintenance in the scheduler.
    maintenance: Vec<Maintenance>,
    /// When the windows are computed anew. None if there are none.
    renew_at: Option<Time>,
    source: Box<dyn Source>,
    upcoming: Option<LocalJob>,
    latest_submit: Time,
    /// Whether a change requires a new step.
    unsettled: bool,
    /// Whether the scheduler still has a job that has left the queue.
    stale: bool,
    /// Increases with each change of the visible state.
    pub(super) version: u64,
    /// The visible state, cached until it changes.
    seen: Option<Arc<Seen>>,
    /// Jobs that started since it was made, at most [`WINDOW`].
    starts: VecDeque<Started>,
}

impl Cluster {
    pub(super) fn new(hosted: Hosted, now: Time) -> Cluster {
        let mut source = hosted.source;
        let upcoming = source.next();
        let mut cluster = Cluster {
            name: hosted.name,
            policy: hosted.policy,
            priorities: hosted.priorities,
            owners: BTreeMap::new(),
            capacity: hosted.capacity,
            lost: Capacity::ZERO,
            scheduler: Scheduler::new(hosted.policy, hosted.capacity, now),
            tasks: BTreeMap::new(),
            next_key: 0,
            ends: BTreeSet::new(),
            keys: BTreeMap::new(),
            reserved: Reserved::default(),
            renew_at: (!hosted.maintenance.is_empty()).then_some(now),
            windows: hosted.maintenance,
            maintenance: Vec::new(),
            source,
            upcoming,
            latest_submit: Time::MIN,
            unsettled: true,
            stale: false,
            version: 0,
            seen: None,
            starts: VecDeque::new(),
        };
        cluster.renew_maintenance(now);
        cluster
    }

    /// Computes the maintenance windows anew if it is time.
    fn renew_maintenance(&mut self, now: Time) {
        if self.renew_at.is_none_or(|due| now < due) {
            return;
        }
        for span in self.maintenance_from(now) {
            self.scheduler.release(span);
        }
        self.maintenance = maintenance::planned(&self.windows, &self.name, self.capacity, now);
        for span in self.maintenance_from(now) {
            self.scheduler.reserve(span);
        }
        self.renew_at = Some(now + RENEWED_EVERY);
        self.unsettled = true;
        self.touch();
    }

    /// What maintenance takes that is not over.
    fn maintenance_from(&self, now: Time) -> Vec<Span> {
        let taken = maintenance::taken(&self.maintenance);
        taken.into_iter().filter(|span| span.interval.end > now).collect()
    }

    fn touch(&mut self) {
        self.version += 1;
        self.seen = None;
    }

    /// The visible state. Reservations are not included: only the site knows them.
    pub(super) fn seen(&mut self) -> Arc<Seen> {
        if let Some(seen) = &self.seen {
            return seen.clone();
        }
        let started = self.starts.drain(..).collect();
        let seen = Arc::new(Seen { view: self.view(), lost: self.lost, started, ..Seen::default() });
        self.seen = Some(seen.clone());
        seen
    }

    fn view(&self) -> View {
        let running = self.tasks.values().filter_map(Task::running).collect();
        let usage = self.scheduler.usage();
        let queue = self.tasks.values().filter(|task| task.started.is_none());
        let waiting = queue.map(|task| usage.told(task.asked)).collect();
        let foreign = maintenance::taken(&self.maintenance);
        let maintenance = self.maintenance.clone();
        View { running, waiting, foreign, maintenance, by_class: true, ..View::default() }
    }

    /// The next event, if nothing unexpected happens before.
    pub(super) fn next_event(&self) -> Option<Time> {
        let now = self.scheduler.now();
        if self.unsettled {
            return Some(now);
        }
        let end = self.ends.first().map(|(time, _)| *time);
        let submission = self.upcoming.map(|job| job.submit);
        let guest = self.reserved.next_event(now);
        [end, submission, guest, self.next_chance(), self.renew_at]
            .into_iter()
            .flatten()
            .min()
            .map(|time| time.max(now))
    }

    /// When a waiting job may start, or a running one must leave because more is promised than available.
    fn next_chance(&self) -> Option<Time> {
        let overbooked = || {
            let ahead = Interval::new(self.scheduler.now(), Time::MAX);
            self.scheduler.profile().min_free(ahead) < 0
        };
        // Without waiting jobs it matters only if more is promised than available.
        self.scheduler.next_chance().filter(|_| self.scheduler.waiting() > 0 || overbooked())
    }

    /// Advances to `now`. With `pretended` time, each event happens when it is due; otherwise overdue events happen
    /// now, since no process can be started in the past.
    pub(super) fn advance(&mut self, now: Time, pretended: bool, changes: &mut Vec<JobChange>) {
        while let Some(next) = self.next_event().filter(|next| *next <= now) {
            self.step(if pretended { next } else { now.max(next) }, changes);
        }
        self.scheduler.advance(now);
        self.reserved.forget_past(now);
    }

    fn step(&mut self, now: Time, changes: &mut Vec<JobChange>) {
        self.scheduler.advance(now);
        self.unsettled = false;
        self.renew_maintenance(now);
        // Order matters: free capacity first, then settle reservations, and only then start jobs in the rest.
        self.end_due(now, changes);
        self.take_local(now);
        if self.stale {
            self.rebuild();
        }
        self.make_room(now, changes);
        let available = Capacity(self.capacity.0.saturating_sub(self.lost.0));
        let before = changes.len();
        self.reserved.settle(now, available, changes);
        if changes.len() > before {
            self.touch();
        }
        self.start(now, changes);
    }

    fn end_due(&mut self, now: Time, changes: &mut Vec<JobChange>) {
        while let Some(&(_, key)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.end(key, None, changes);
        }
    }

    /// Removes a running job: at its normal end, or killed with a reason.
    fn end(&mut self, key: JobKey, killed: Option<(Ended, Time)>, changes: &mut Vec<JobChange>) {
        let Some(task) = self.tasks.remove(&key) else { return };
        let (Some(running), Some((end, state))) = (task.running(), task.end()) else { return };
        self.touch();
        self.ends.remove(&(end, key));
        self.scheduler.end(running);
        if let Some(id) = task.id {
            self.keys.remove(&id);
            let (state, at) = killed.map_or((state, end), |(why, at)| (JobState::Killed(why), at));
            changes.push(JobChange { id, state, at });
        }
    }

    fn take_local(&mut self, now: Time) {
        while let Some(job) = self.upcoming.filter(|job| job.submit <= now) {
            self.upcoming = self.source.next();
            if self.scheduler.waiting() < MOST_WAITING {
                let (estimate, run) = (job.estimate, Some(job.run));
                self.enqueue(Task {
                    asked: waiting(job.submit, estimate, job.capacity),
                    id: None,
                    run,
                    started: None,
                    go: Go::NotNeeded,
                });
            }
        }
    }

    /// After a failure of capacity, kills jobs, the last submitted first, until reservations have their capacity.
    fn make_room(&mut self, now: Time, changes: &mut Vec<JobChange>) {
        if self.scheduler.profile().free_now() >= 0 {
            return;
        }
        // Promises to waiting jobs occupy the profile, too; no running job is killed for their sake.
        self.scheduler.withdraw_promises();
        while self.scheduler.profile().free_now() < 0
            && let Some(key) =
                self.tasks.iter().rev().find(|(_, task)| task.started.is_some()).map(|(key, _)| *key)
        {
            self.end(key, Some((Ended::Displaced, now)), changes);
        }
    }

    fn start(&mut self, now: Time, changes: &mut Vec<JobChange>) {
        let mut started = Vec::new();
        self.scheduler.schedule(|key| started.push(key));
        for key in started {
            let Some(task) = self.tasks.get_mut(&key) else { continue };
            task.started = Some(now);
            self.ends.extend(task.end().map(|(end, _)| (end, key)));
            changes.extend(task.id.map(|id| JobChange { id, state: task.go.first_state(), at: now }));
            let Waiting { submit: eligible, capacity, estimate, .. } = task.asked;
            self.starts.push_back(Started { start: now, eligible, capacity, estimate });
            if self.starts.len() > WINDOW {
                self.starts.pop_front();
            }
            self.touch();
        }
    }

    /// Appends a job to the queue, or adopts it if it already runs. A job wider than the machine is dropped.
    fn enqueue(&mut self, mut task: Task) {
        if self.next_key == u32::MAX {
            self.rebuild();
        }
        // The order of keys is the order of the queue, so submit times must not decrease.
        self.latest_submit = self.latest_submit.max(task.asked.submit);
        task.asked.submit = self.latest_submit;
        self.unsettled = true;
        self.touch();
        self.insert(task);
    }

    fn insert(&mut self, task: Task) {
        let key = JobKey(self.next_key);
        if let Some(running) = task.running() {
            self.scheduler.adopt(running);
            self.ends.extend(task.end().map(|(end, _)| (end, key)));
        } else if self.scheduler.submit(key, task.asked).is_err() {
            return;
        }
        self.next_key += 1;
        self.keys.extend(task.id.map(|id| (id, key)));
        self.tasks.insert(key, task);
    }

    /// Rebuilds the scheduler with new keys: a waiting job cannot be removed from it.
    fn rebuild(&mut self) {
        self.stale = false;
        let usage = self.scheduler.usage().clone();
        self.scheduler.reset(self.policy, self.capacity, self.scheduler.now());
        self.scheduler.set_usage(usage);
        self.scheduler.reserve(Span::always(self.lost));
        for span in self.reserved.backings.values().flatten() {
            self.scheduler.reserve(*span);
        }
        for span in self.maintenance_from(self.scheduler.now()) {
            self.scheduler.reserve(span);
        }
        self.next_key = 0;
        self.ends.clear();
        self.keys.clear();
        for task in std::mem::take(&mut self.tasks).into_values() {
            self.insert(task);
        }
    }

    /// Adds a submitted job; it starts in the next step at the earliest. With `started` it already runs.
    pub(super) fn submit(
        &mut self,
        job: &Job,
        order: u64,
        run: Option<Seconds>,
        submit: Time,
        started: Option<Time>,
    ) {
        let (id, capacity, limit) = (job.id, job.capacity, job.limit);
        let go = match (job.claims, started) {
            (false, _) => Go::NotNeeded,
            (true, None) => Go::Awaited,
            (true, Some(started)) => Go::Given(started),
        };
        self.unsettled = true;
        match job.reservation {
            Some(reservation) => {
                self.touch();
                self.reserved.admit(reservation, Guest { id, order, capacity, limit, run, started, go });
            }
            None => {
                let class = job.description.priority.as_deref().map(Name::from);
                let priority = class.and_then(|class| self.priorities.get(&class)).copied().unwrap_or(0);
                let owner = Owner { id: self.owner_of(&job.user), used: 0 };
                let asked = Waiting { priority, owner, ..waiting(submit, limit, capacity) };
                self.enqueue(Task { asked, id: Some(id), run, started, go });
            }
        }
    }

    /// The number of a user. Users stay known: there are few, and their usage counts for weeks.
    fn owner_of(&mut self, user: &Name) -> u32 {
        let next = self.owners.len() as u32 + 1;
        *self.owners.entry(user.clone()).or_insert(next)
    }

    /// Lets a claiming job run. It keeps its capacity until its limit, which counts from when it got the capacity.
    pub(super) fn go(&mut self, id: JobId, now: Time) {
        self.touch();
        let Some(key) = self.keys.get(&id).copied() else { return self.reserved.go(id, now) };
        let Some(task) = self.tasks.get_mut(&key) else { return };
        let before = task.end();
        task.go = Go::Given(now);
        let after = task.end();
        if let Some((end, _)) = before {
            self.ends.remove(&(end, key));
        }
        self.ends.extend(after.map(|(end, _)| (end, key)));
    }

    /// Removes a submitted job, waiting or running: it was cancelled, or its process has ended.
    pub(super) fn remove(&mut self, id: JobId) {
        self.unsettled = true;
        self.touch();
        match self.keys.get(&id).copied() {
            None => drop(self.reserved.remove(id)),
            Some(key) if self.tasks.get(&key).is_some_and(|task| task.started.is_some()) => {
                self.end(key, None, &mut Vec::new());
            }
            Some(key) => {
                self.tasks.remove(&key);
                self.keys.remove(&id);
                self.stale = true;
            }
        }
    }

    /// Sets the reserved spans of `id`.
    pub(super) fn back(&mut self, id: ReservationId, spans: &[Span]) {
        // A repeated order needs no new scheduling pass.
        if self.reserved.spans(id) == spans {
            return;
        }
        for span in self.reserved.back(id, spans) {
            self.scheduler.release(span);
        }
        spans.iter().for_each(|span| self.scheduler.reserve(*span));
        self.unsettled = true;
        // Expected starts of jobs may have changed.
        if !self.keys.is_empty() || !self.reserved.guests.is_empty() {
            self.touch();
        }
    }

    /// Sets the failed capacity.
    pub(super) fn set_lost(&mut self, lost: Capacity) {
        self.scheduler.release(Span::always(self.lost));
        self.scheduler.reserve(Span::always(lost));
        self.lost = lost;
        self.unsettled = true;
        self.touch();
    }

    /// Expected start of each waiting submitted job, if all jobs use their full time and no others come.
    pub(super) fn expected_starts(&self) -> BTreeMap<JobId, Time> {
        let now = self.scheduler.now();
        let mut starts: BTreeMap<JobId, Time> = self.reserved.expected_starts(now).into_iter().collect();
        let queue = || self.tasks.values().filter(|task| task.started.is_none());
        if queue().any(|task| task.id.is_some()) {
            let View { running, waiting, .. } = self.view();
            let reserved = self.reserved.backings.values().flatten().copied();
            let reserved = reserved.chain(self.maintenance_from(now));
            let reservations: Vec<Span> = reserved.chain([Span::always(self.lost)]).collect();
            let frozen = planner::Cluster {
                capacity: self.capacity,
                now,
                running: &running,
                waiting: &waiting,
                reservations: &reservations,
            };
            let mut planner = Planner::new();
            let planned = planner.plan(self.policy, &frozen).iter().zip(queue());
            starts.extend(planned.filter_map(|(start, task)| Some((task.id?, *start))));
        }
        starts.retain(|_, start| *start < Time::MAX);
        starts
    }

    /// Number of stored items, for tests of memory bounds.
    pub(super) fn remembered(&self) -> usize {
        let scheduled = self.scheduler.waiting() + self.scheduler.profile().breakpoints();
        self.tasks.len() + self.ends.len() + self.keys.len() + scheduled
    }
}

fn waiting(submit: Time, estimate: Seconds, capacity: Capacity) -> Waiting {
    Waiting { submit, estimate: estimate.max(Seconds(1)), capacity, priority: 0, owner: Owner::NONE }
}

#[cfg(test)]
mod tests {
    use super::super::sources::Nothing;
    use super::*;

    #[test]
    fn when_keys_run_out_jobs_get_new_ones_and_keep_their_order() {
        let source = Box::new(Nothing);
        let hosted = Hosted { policy: Policy::FCFS, source, ..Hosted::new(Name::from("cpu"), Capacity(8)) };
        let mut cluster = Cluster::new(hosted, Time(0));
        cluster.next_key = u32::MAX - 3;
        let mut changes = Vec::new();
        for number in 0..8 {
            let task = Task {
                asked: waiting(Time(0), Seconds(10), Capacity(4)),
                id: Some(JobId(number)),
                run: Some(Seconds(10)),
                started: None,
                go: Go::NotNeeded,
            };
            cluster.enqueue(task);
            cluster.advance(Time(0), true, &mut changes);
        }
        assert!(cluster.next_key < 10);
        cluster.advance(Time(100), true, &mut changes);
        let started = changes.iter().filter(|change| change.state == JobState::Running);
        let started: Vec<(u128, i64)> = started.map(|change| (change.id.0, change.at.0)).collect();
        assert_eq!(started, [(0, 0), (1, 0), (2, 10), (3, 10), (4, 20), (5, 20), (6, 30), (7, 30)]);
        assert_eq!(cluster.remembered(), 0);
    }
}
