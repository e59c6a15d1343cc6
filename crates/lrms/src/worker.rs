//! Executes the orders of one site on its batch system, several in parallel, and reports each outcome. Orders for the
//! same reservation or job run in the order they were given (`Queues`). One thread does all looks: a look serves
//! every look order given before it began, and looks also happen without an order while the site has jobs in the
//! batch system.
//!
//! Every command must end within its timeout. The worker never blocks its caller and decides nothing. Reports come
//! from one thread at a time: those about one job in the order of events, and a look includes everything reported as
//! done before it.

use crate::batch::{Batch, Looked};
use crate::error::LrmsError;
use bookahead_party::{BatchError, BatchOrder, BatchReport, OrderId};
use bookahead_protocol::{JobId, Moment, ReservationId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Threads that execute orders. Dropping it stops and joins them.
pub struct Worker {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    batch: Batch,
    now: Arc<dyn Fn() -> Moment + Send + Sync>,
    report: Arc<dyn Fn(BatchReport) + Send + Sync>,
    reporting: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queues: Queues,
    /// Unreported look orders, each with the number of the last look begun before the order.
    looks: Vec<(OrderId, u64)>,
    stopping: bool,
}

impl Worker {
    /// Executes up to `at_once` orders (at least 1) in parallel, and one look beside them. `now` is the site's clock.
    /// `report` is called from the worker's threads and must return quickly.
    pub fn start(
        batch: Batch,
        at_once: usize,
        now: Arc<dyn Fn() -> Moment + Send + Sync>,
        report: Arc<dyn Fn(BatchReport) + Send + Sync>,
    ) -> Worker {
        let (reporting, state) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { batch, now, report, reporting, state, changed: Condvar::new() });
        let thread = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            // If a thread cannot be started, the others do its work.
            thread::Builder::new().name(name.into()).spawn(move || work(&shared)).ok()
        };
        let orders = (0..at_once.max(1)).filter_map(|_| thread("lrms-orders", Shared::carry_out_orders));
        let threads = orders.chain(thread("lrms-looks", Shared::look_when_due)).collect();
        Worker { shared, threads }
    }

    /// Queues an order. Its outcome is reported unless the worker stops before the order begins.
    pub fn order(&self, order: BatchOrder) {
        let mut state = self.shared.state();
        match order {
            BatchOrder::Look { order } => state.looks.push((order, self.shared.batch.looks_begun())),
            order => state.queues.push(order),
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Starts no more orders and waits for those in progress, at most one command timeout for a command that hangs.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        // If `report` drops the worker, this runs in one of its own threads, which cannot join itself.
        let ours = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != ours) {
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    fn carry_out_orders(&self) {
        while let Some((number, order)) = self.next_order() {
            let report = self.carry_out(&order);
            // Report before `done`: the next order for this reservation or job, and its report, must come later.
            self.tell(Some(|| report));
            self.state().queues.done(number, &order);
            self.changed.notify_all();
        }
    }

    fn next_order(&self) -> Option<(u64, BatchOrder)> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
            if let Some(next) = state.queues.take() {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&self, order: &BatchOrder) -> BatchReport {
        let (batch, now) = (&self.batch, (self.now)());
        let of_job = |order: &OrderId, job, outcome: Result<(), LrmsError>| BatchReport::Job {
            order: *order,
            job,
            outcome: outcome.map_err(BatchError::from),
        };
        match order {
            BatchOrder::Keep { order, backing } => {
                let outcome = batch.keep(now, backing).map_err(BatchError::from);
                BatchReport::Kept { order: *order, id: backing.id, outcome }
            }
            BatchOrder::Submit { order, job } => of_job(order, job.id, batch.submit(now, job)),
            BatchOrder::Bind { order, job } => of_job(order, job.id, batch.bind(now, job)),
            BatchOrder::Release { order, job } => of_job(order, *job, batch.release(now, *job)),
            BatchOrder::Go { order, job } => of_job(order, *job, batch.go(now, *job)),
            BatchOrder::Requeue { order, job, restarts } => {
                of_job(order, job.id, batch.requeue(now, job, *restarts))
            }
            BatchOrder::Warn { order, job } => of_job(order, *job, batch.warn(now, *job)),
            BatchOrder::Cancel { order, job } => of_job(order, *job, batch.cancel(now, *job)),
            BatchOrder::Look { order } => {
                let outcome = batch.look(now).map_err(BatchError::from);
                BatchReport::Looked { order: Some(*order), at: now, outcome }
            }
        }
    }

    fn look_when_due(&self) {
        let mut not_before = Instant::now();
        while let Some(begun) = self.next_look(not_before) {
            let began = Instant::now();
            let looked = self.batch.look_after((self.now)(), begun);
            // Pause as long as the look took, so that a slow batch system is not polled all the time.
            not_before = Instant::now() + began.elapsed();
            let order = self.served(&looked);
            self.tell(Some(|| BatchReport::Looked {
                order,
                at: looked.at,
                // Read `seen` at the time of the report, under the report lock: it then contains every outcome
                // reported before.
                outcome: looked.outcome.map(|()| self.batch.seen()).map_err(BatchError::from),
            }));
            let is_wanted = || {
                let state = self.state();
                state.stopping || !state.looks.is_empty()
            };
            // A failure is retried after the next look, and that look reports an outage.
            let _failure = self.batch.follow((self.now)(), is_wanted);
            self.tell(None::<fn() -> BatchReport>);
        }
    }

    /// Waits until a look is ordered, or due and not before `not_before`. Returns the number that the look must
    /// exceed.
    fn next_look(&self, not_before: Instant) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
            // Look orders are numbered in order, so a look begun after the last one serves all of them.
            if let Some((_, begun)) = state.looks.last() {
                return Some(*begun);
            }
            let refresh = if state.queues.is_empty() { None } else { self.batch.next_refresh() };
            let due = self.batch.next_look().into_iter().chain(refresh).min().map(|due| {
                let millis = u64::try_from((due - (self.now)()).0).unwrap_or(0);
                Duration::from_millis(millis).max(not_before.saturating_duration_since(Instant::now()))
            });
            state = match due {
                Some(Duration::ZERO) => return Some(self.batch.looks_begun()),
                Some(wait) => {
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Removes the look orders that this look serves and returns the newest.
    fn served(&self, looked: &Looked) -> Option<OrderId> {
        let mut state = self.state();
        let served = state.looks.iter().take_while(|(_, begun)| *begun < looked.number).count();
        state.looks.drain(..served).next_back().map(|(order, _)| order)
    }

    /// Reports new native ids and changes of jobs, and then `report`.
    fn tell(&self, report: Option<impl FnOnce() -> BatchReport>) {
        // One lock for collecting and reporting: otherwise two threads could report changes of one job in the wrong
        // order.
        let _turn = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
        for (job, native) in self.batch.names() {
            (self.report)(BatchReport::JobNamed { job, native });
        }
        self.batch.changes().into_iter().for_each(|change| (self.report)(BatchReport::JobChanged(change)));
        report.into_iter().for_each(|report| (self.report)(report()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Reservation(ReservationId),
    Job(JobId),
}

/// Orders that wait or are in progress. Bounded by the number of orders a site has outstanding.
#[derive(Debug, Default)]
struct Queues {
    next: u64,
    waiting: BTreeMap<u64, BatchOrder>,
    /// Order numbers for each reservation and job, each with whether it excludes all others.
    lines: BTreeMap<Key, VecDeque<(u64, bool)>>,
}

impl Queues {
    fn push(&mut self, order: BatchOrder) {
        for (key, alone) in keys(&order) {
            self.lines.entry(key).or_default().push_back((self.next, alone));
        }
        self.waiting.insert(self.next, order);
        self.next += 1;
    }

    /// The first order that no earlier order blocks, with its number.
    fn take(&mut self) -> Option<(u64, BatchOrder)> {
        let may_run = |(number, order): &(&u64, &BatchOrder)| {
            keys(order).into_iter().all(|(key, alone)| {
                let line = self.lines.get(&key).into_iter().flatten();
                let mut before = line.take_while(|(other, _)| other < number);
                before.all(|(_, other_alone)| !alone && !other_alone)
            })
        };
        let number = *self.waiting.iter().find(may_run)?.0;
        self.waiting.remove_entry(&number)
    }

    /// Whether no order waits or is in progress.
    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes a finished order, which lets later orders for the same key run.
    fn done(&mut self, number: u64, order: &BatchOrder) {
        for (key, _) in keys(order) {
            if let Some(line) = self.lines.get_mut(&key) {
                line.retain(|(other, _)| *other != number);
                if line.is_empty() {
                    self.lines.remove(&key);
                }
            }
        }
    }
}

/// The reservations and jobs that an order concerns, each with whether it excludes other orders for them.
fn keys(order: &BatchOrder) -> Vec<(Key, bool)> {
    match order {
        BatchOrder::Keep { backing, .. } => vec![(Key::Reservation(backing.id), true)],
        BatchOrder::Submit { job, .. } | BatchOrder::Bind { job, .. } => {
            // Several jobs may be submitted into one reservation in parallel, but not while the reservation is
            // changed.
            let inside = job.reservation.map(|id| (Key::Reservation(id), false));
            inside.into_iter().chain([(Key::Job(job.id), true)]).collect()
        }
        BatchOrder::Requeue { job, .. } => vec![(Key::Job(job.id), true)],
        BatchOrder::Release { job, .. }
        | BatchOrder::Go { job, .. }
        | BatchOrder::Warn { job, .. }
        | BatchOrder::Cancel { job, .. } => vec![(Key::Job(*job), true)],
        BatchOrder::Look { .. } => Vec::new(),
    }
}
