//! The scheduler of one resource. Jobs and reservations come and go; on each scheduling event it tells which
//! waiting jobs start now.
//!
//! # Order of steps
//! All events of one instant are handled together, in this order: ends of jobs and reservations, starts of
//! reservations, submissions, then one scheduling pass. The pass has these steps:
//! 1. The first waiting job gets the earliest start without a conflict with a running job or a reservation,
//!    and its capacity is kept free ([`Scheduler::place_first`]).
//! 2. The driver grants requests for reservations that conflict with nothing placed
//!    ([`Scheduler::reserve`]).
//! 3. The remaining jobs are placed by the policy ([`Scheduler::place_rest`]).
//!
//! [`Scheduler::schedule`] does steps 1 and 3, for a pass without requests.
//!
//! # Ties
//! Jobs are ordered by priority (higher first), then by the policy's [order](crate::order), then by submit
//! time, then by the order of submission here (their keys, if the order changes with time), so a trace keeps
//! its own order. Intervals are half-open: capacity that is released at an instant can be taken
//! at the same instant.
//!
//! # Promises
//! The first jobs of the queue that cannot start have a promised start: one job under EASY (its shadow), all
//! under conservative backfilling (whose promises are found only as far as they decide which jobs start now, see
//! [`conservative`]). A promise is taken from the profile like a reservation, so no job that starts can break it.
//! Promises are renewed in the order of the queue whenever unforeseen room appears. A single one can then only move
//! earlier; of several, a later one may lose its place to one before it. Between such events only time passes, so a
//! pass visits only new jobs.
//!
//! If the order changes with time, every pass sorts the queue and makes all promises again, so a promise is
//! kept only as long as its job keeps its place. This costs a sort and a search for each promise in each pass.
//!
//! The driver must report every end in time, and extend in time jobs that run beyond their estimates. The
//! scheduler never reads a clock: time moves by [`Scheduler::advance`].

mod conservative;

use crate::bound::Stairs;
use crate::order::Standing;
use crate::policy::{JobKey, Policy, Running, Waiting};
use crate::profile::{Frontier, Profile};
use crate::queue::Queue;
use crate::units::{Capacity, Interval, Seconds, Span, Time};
use crate::usage::Usage;
use conservative::Ahead;

/// A job that can never start: it needs more capacity than the resource has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("needs a capacity of {needed}, but the resource has {capacity}; request less")]
pub struct TooWide {
    /// Capacity that the job needs.
    pub needed: Capacity,
    /// Capacity of the resource.
    pub capacity: Capacity,
}

#[derive(Debug, Clone, Copy)]
struct Promise {
    key: JobKey,
    job: Waiting,
    start: Time,
}

/// Decides which waiting jobs start, around reservations.
pub struct Scheduler {
    policy: Policy,
    capacity: Capacity,
    /// Running jobs by their estimates, reservations, and promises.
    profile: Profile,
    /// The first waiting jobs, in order: first those with a promise, then those whose promise was withdrawn
    /// and must be renewed.
    promised: Vec<Promise>,
    /// Number of `promised` whose spans are in the profile.
    made: usize,
    /// The other waiting jobs: all, if all have promises.
    queue: Queue,
    /// The known part of the plan, if all have promises.
    ahead: Ahead,
    /// Jobs submitted since the last pass.
    fresh: Vec<(JobKey, Waiting)>,
    /// The earliest promised start.
    due: Time,
    /// Whether a single promise could now be moved earlier.
    may_move: bool,
    /// Whether room may have appeared or a promise come due since the last pass.
    unsettled: bool,
    frontier: Frontier,
    stairs: Stairs,
    /// Kept up to date only if the order needs it.
    usage: Usage,
}

impl Scheduler {
    /// An idle resource.
    pub fn new(policy: Policy, capacity: Capacity, now: Time) -> Scheduler {
        Scheduler {
            policy,
            capacity,
            profile: Profile::new(capacity, now),
            promised: Vec::new(),
            made: 0,
            queue: Queue::default(),
            ahead: Ahead::default(),
            fresh: Vec::new(),
            due: Time::MAX,
            may_move: false,
            unsettled: false,
            frontier: Frontier::new(),
            stairs: Stairs::default(),
            usage: Usage::new(now),
        }
    }

    /// As [`Scheduler::new`], but reuses the memory.
    pub fn reset(&mut self, policy: Policy, capacity: Capacity, now: Time) {
        self.policy = policy;
        self.capacity = capacity;
        self.profile.reset(capacity, now);
        self.promised.clear();
        self.made = 0;
        self.queue.clear();
        self.ahead.clear();
        self.fresh.clear();
        self.due = Time::MAX;
        self.may_move = false;
        self.unsettled = false;
        self.frontier.forget();
        self.usage = Usage::new(now);
    }

    /// What owners have used, if the policy's order needs it.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Sets what owners have used before. Jobs that run must be adopted afterwards.
    pub fn set_usage(&mut self, mut usage: Usage) {
        usage.forget_running();
        self.usage = usage;
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.profile.origin()
    }

    /// Capacity left by running jobs (by their estimates), reservations and the promises made so far.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Number of waiting jobs.
    pub fn waiting(&self) -> usize {
        self.promised.len() + self.queue.len() + self.fresh.len()
    }

    /// Jobs whose promised start is known, in the order of the queue.
    pub fn promises(&self) -> impl Iterator<Item = (JobKey, Time)> {
        self.promised[..self.made].iter().map(|promise| (promise.key, promise.start)).chain(self.places())
    }

    /// The next instant at which a pass may start a job, if nothing unforeseen happens.
    pub fn next_chance(&self) -> Option<Time> {
        let change = self.profile.next_change(self.now());
        // If a reservation ends exactly where a promise begins, the free capacity does not change there.
        let due = Some(self.due).filter(|&due| due < Time::MAX);
        [change, due].into_iter().flatten().min()
    }

    /// Moves the current time.
    pub fn advance(&mut self, now: Time) {
        self.unsettled |= self.profile.advance(now) | (self.due <= now);
        if self.policy.order().needs_usage() {
            self.usage.advance(now);
        }
    }

    /// Adds a job to the queue, to be placed in the next pass. An estimate below one second counts as one
    /// second.
    pub fn submit(&mut self, key: JobKey, job: Waiting) -> Result<(), TooWide> {
        if job.capacity > self.capacity {
            return Err(TooWide { needed: job.capacity, capacity: self.capacity });
        }
        if self.policy.order().needs_usage() {
            self.usage.learn(job.owner);
        }
        self.fresh.push((key, Waiting { estimate: job.estimate.max(Seconds(1)), ..job }));
        Ok(())
    }

    /// Adds a job that was already running.
    pub fn adopt(&mut self, running: Running) {
        self.withdraw_promises();
        self.profile.add(rest_of(running, self.now()));
        self.charge(running.owner, running.capacity);
    }

    /// Ends a running job now, in time or early.
    pub fn end(&mut self, running: Running) {
        self.unsettled = true;
        self.usage.end(running.owner, running.capacity);
        // At its expected end its span is over already. Only an early end frees capacity that the profile
        // still counts.
        if running.expected_end > self.now() {
            if self.made > 1 || self.plans_ahead() {
                self.withdraw_promises();
            }
            self.profile.remove(rest_of(running, self.now()));
            self.frontier.forget();
            self.may_move = true;
        }
    }

    /// Moves the expected end of a running job to `new_end`, later than before. The driver must check that
    /// there is room, in [`Scheduler::profile`] after [`Scheduler::withdraw_promises`].
    pub fn extend(&mut self, running: Running, new_end: Time) {
        self.withdraw_promises();
        let interval = Interval::new(running.expected_end, new_end);
        self.profile.add(Span { interval, capacity: running.capacity });
    }

    /// Adds a reservation. The driver must check that there is room, in [`Scheduler::profile`] after
    /// [`Scheduler::place_first`]. Promises in its way are renewed later.
    pub fn reserve(&mut self, span: Span) {
        let conflict = self.profile.min_free(span.interval) < i64::from(span.capacity.0);
        if conflict || self.ahead.has_plan() {
            self.withdraw_promises();
        }
        self.profile.add(span);
    }

    /// Releases the rest of a reservation.
    pub fn release(&mut self, span: Span) {
        self.withdraw_promises();
        self.profile.remove(span);
    }

    /// Removes all promises from the profile. The next pass renews them.
    pub fn withdraw_promises(&mut self) {
        for promise in &self.promised[..self.made] {
            self.profile.remove(promise.span());
        }
        self.withdraw_places();
        self.made = 0;
        self.due = Time::MAX;
        self.unsettled = true;
        self.frontier.forget();
    }

    /// A whole pass. Calls `started` for each job that starts now.
    pub fn schedule(&mut self, mut started: impl FnMut(JobKey)) {
        if self.policy.order().changes_with_time() {
            self.arrange();
            return self.place_rest(started);
        }
        // Without new room, the jobs in the queue still cannot start, so a single new job needs no full pass.
        if !self.unsettled && self.fresh.len() <= 1 {
            if let Some((key, job)) = self.fresh.pop() {
                self.place_newcomer(key, job, &mut started);
            }
            return;
        }
        self.place_rest(started);
    }

    /// Step 1 of a pass with requests: the first waiting job starts now or gets its promise. No other job has
    /// one.
    pub fn place_first(&mut self, mut started: impl FnMut(JobKey)) {
        self.withdraw_promises();
        self.enqueue_fresh();
        if self.policy.order().changes_with_time() {
            self.arrange();
        }
        if self.plans_ahead() {
            self.place_front(&mut started);
        } else if !self.promised.is_empty() {
            self.renew_promises(1, &mut started);
        } else if let Some((key, job)) = self.queue.pop_front() {
            self.place(key, job, &mut started);
        }
    }

    /// Step 3 of a pass: all jobs that step 1 did not place.
    pub fn place_rest(&mut self, mut started: impl FnMut(JobKey)) {
        self.enqueue_fresh();
        if self.plans_ahead() {
            self.plan_ahead(&mut started);
            self.unsettled = false;
            return;
        }
        self.move_promise();
        self.keep_due_promises(&mut started);
        self.renew_promises(usize::MAX, &mut started);
        self.promise_from_queue(&mut started);
        if self.policy.backfills() && self.queue.len() > 0 {
            self.backfill(&mut started);
        }
        self.unsettled = false;
        self.queue.sweep();
    }

    /// Places a single new job when no room has appeared: the jobs before it still cannot start.
    fn place_newcomer(&mut self, key: JobKey, job: Waiting, started: &mut impl FnMut(JobKey)) {
        if self.plans_ahead() {
            // Inside the queue it can delay a job and so let another one start.
            let last = self.queue.appends(self.policy.order(), &job);
            self.enqueue(key, job);
            if !last || self.fits_beside_places(&job) {
                self.place_rest(started);
            }
        } else if self.overtakes_promises(&job) {
            self.fresh.push((key, job));
            self.place_rest(started);
        } else if self.promised.len() < self.policy.promises() {
            self.place(key, job, started);
        } else if self.policy.backfills() && self.fits_now(&job) {
            self.profile.add(Span::starting(self.now(), job.estimate, job.capacity));
            self.start(key, &job, started);
        } else {
            self.queue.insert(self.policy.order(), key, job);
        }
    }

    fn enqueue_fresh(&mut self) {
        for at in 0..self.fresh.len() {
            let (key, job) = self.fresh[at];
            if self.overtakes_promises(&job) {
                self.recall_promises();
            }
            self.enqueue(key, job);
        }
        self.fresh.clear();
    }

    /// Sorts all waiting jobs by an order that changes with time. None has a promise afterwards.
    fn arrange(&mut self) {
        self.withdraw_promises();
        let order = self.policy.order();
        for Promise { key, job, .. } in self.promised.drain(..) {
            self.queue.insert(order, key, job);
        }
        self.enqueue_fresh();
        let used = |job: &Waiting| self.usage.of(job.owner.id);
        let most_used = self.queue.jobs().map(used).max().unwrap_or(0);
        let (now, capacity) = (self.profile.origin(), self.capacity);
        self.queue.arrange(|job| order.score(job, &Standing { now, capacity, used: used(job), most_used }));
    }

    fn start(&mut self, key: JobKey, job: &Waiting, started: &mut impl FnMut(JobKey)) {
        self.charge(job.owner.id, job.capacity);
        started(key);
    }

    fn charge(&mut self, owner: u32, capacity: Capacity) {
        if self.policy.order().needs_usage() {
            self.usage.start(owner, capacity);
        }
    }

    /// Whether a new job goes before one with a promise.
    fn overtakes_promises(&self, job: &Waiting) -> bool {
        self.promised.last().is_some_and(|last| !self.policy.order().keeps_before(&last.job, job))
    }

    /// Puts the jobs with promises back to the front of the queue.
    fn recall_promises(&mut self) {
        self.withdraw_promises();
        while let Some(promise) = self.promised.pop() {
            self.queue.push_front(promise.key, promise.job);
        }
    }

    /// Moves a single promise earlier if room has appeared. (Several are withdrawn instead: the first could
    /// take the capacity of the second.)
    fn move_promise(&mut self) {
        if !std::mem::take(&mut self.may_move) || self.made != 1 {
            return;
        }
        let promise = self.promised[0];
        if let Some(earlier) = self.profile.earlier_fit(self.now(), promise.job.need(), promise.start) {
            self.profile.remove(promise.span());
            self.promised[0].start = earlier;
            self.due = earlier;
            self.profile.add(self.promised[0].span());
        }
    }

    /// Starts the jobs whose promised time has come. Their capacity is already taken in the profile.
    fn keep_due_promises(&mut self, started: &mut impl FnMut(JobKey)) {
        let now = self.now();
        // The driver skipped the promised instant. The promises are outdated, so they are renewed from now
        // on.
        if self.due < now {
            self.withdraw_promises();
        }
        if self.due > now {
            return;
        }
        self.due = Time::MAX;
        let mut kept = 0;
        for at in 0..self.made {
            let promise = self.promised[at];
            if promise.start == now {
                self.start(promise.key, &promise.job, started);
            } else {
                self.promised[kept] = promise;
                self.due = self.due.min(promise.start);
                kept += 1;
            }
        }
        self.promised.drain(kept..self.made);
        self.made = kept;
    }

    /// Renews up to `most` withdrawn promises.
    fn renew_promises(&mut self, most: usize, started: &mut impl FnMut(JobKey)) {
        let first = self.made;
        let end = self.promised.len().min(first.saturating_add(most));
        for at in first..end {
            let Promise { key, job, .. } = self.promised[at];
            let start = self.take_earliest(job);
            if start == self.now() {
                self.start(key, &job, started);
            } else {
                self.promised[self.made] = Promise { key, job, start };
                self.made += 1;
                self.due = self.due.min(start);
            }
        }
        if self.made < end {
            self.promised.drain(self.made..end);
        }
    }

    /// Starts jobs from the front of the queue, or gives them promises, until the policy's number is reached.
    fn promise_from_queue(&mut self, started: &mut impl FnMut(JobKey)) {
        while self.promised.len() < self.policy.promises()
            && let Some((key, job)) = self.queue.pop_front()
        {
            self.place(key, job, started);
        }
    }

    fn place(&mut self, key: JobKey, job: Waiting, started: &mut impl FnMut(JobKey)) {
        let start = self.take_earliest(job);
        if start == self.now() {
            self.start(key, &job, started);
        } else {
            self.promised.push(Promise { key, job, start });
            self.made += 1;
            self.due = self.due.min(start);
        }
    }

    /// Takes the capacity of a job at its earliest start, and returns that start. [`Time::MAX`] if it never
    /// fits.
    fn take_earliest(&mut self, job: Waiting) -> Time {
        let (now, need) = (self.now(), job.need());
        if self.policy.promises() > 1 {
            return self.frontier.place(&mut self.profile, now, need).unwrap_or(Time::MAX);
        }
        let start = self.profile.earliest_fit(now, need, None).unwrap_or(Time::MAX);
        self.profile.add(Span::starting(start, job.estimate, job.capacity));
        start
    }

    /// Starts every queued job that fits now for its whole estimate, in order.
    fn backfill(&mut self, started: &mut impl FnMut(JobKey)) {
        // A cheap test first: with a full machine no job needs to be visited.
        if Stairs::room_now(&self.profile).is_none_or(|room| !self.queue.may_fit(&room)) {
            return;
        }
        let mut from = 0;
        self.stairs.reset();
        while let Some(room) = self.stairs.room(&self.profile)
            && let Some(at) = self.queue.candidate(from, &room)
        {
            let job = self.queue.get(at);
            // If `admit` finds a lower stair, the room for the next candidate includes it.
            if self.stairs.admit(&self.profile, job.capacity, job.estimate) {
                let (key, job) = self.queue.take(at);
                self.profile.add(Span::starting(self.now(), job.estimate, job.capacity));
                self.stairs.reset();
                self.start(key, &job, started);
            }
            from = at + 1;
        }
    }

    fn fits_now(&self, job: &Waiting) -> bool {
        i64::from(job.capacity.0) <= self.profile.free_now() && self.profile.fits(self.now(), job.need())
    }
}

impl Promise {
    fn span(&self) -> Span {
        Span::starting(self.start, self.job.estimate, self.job.capacity)
    }
}

fn rest_of(running: Running, now: Time) -> Span {
    Span { interval: Interval::new(now, running.expected_end), capacity: running.capacity }
}
