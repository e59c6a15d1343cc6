//! Carries out the orders of one site on its batch system, several at once, and reports the outcome of each. Orders for one
//! reservation, and those for one job, keep their order (`Queues`). One thread looks: one look for all look orders given
//! before it began, and without an order while the site has jobs there.
//!
//! It relies on every command to end within its time-out. It never blocks the caller and decides nothing. Reports come from one
//! thread at a time: those about a job in the order of events, and a look shows everything reported as done before it.

use crate::batch::{Batch, Looked};
use crate::error::LrmsError;
use bookahead_party::{BatchError, BatchOrder, BatchReport, OrderId};
use bookahead_protocol::{JobId, Moment, ReservationId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Threads that carry out orders. They end when it is dropped.
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
    /// Look orders that are not reported, each with the number of the last look that had begun when it was given.
    looks: Vec<(OrderId, u64)>,
    stopping: bool,
}

impl Worker {
    /// Carries out up to `at_once` orders at the same time, one at least, and a look beside them. `now` is the clock of the
    /// site; `report` is called from threads of the worker, and should not take long.
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
            // If the system gives us fewer threads, the others do the work.
            thread::Builder::new().name(name.into()).spawn(move || work(&shared)).ok()
        };
        let orders = (0..at_once.max(1)).filter_map(|_| thread("lrms-orders", Shared::carry_out_orders));
        let threads = orders.chain(thread("lrms-looks", Shared::look_when_due)).collect();
        Worker { shared, threads }
    }

    /// Takes an order. Its outcome is reported, unless the worker stops before it begins.
    pub fn order(&self, order: BatchOrder) {
        let mut state = self.shared.state();
        match order {
            BatchOrder::Look { order } => state.looks.push((order, self.shared.batch.looks_begun())),
            order => state.queues.push(order),
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Begins nothing more, and waits for what is under way: for a command that hangs no longer than its time-out.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
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
            BatchOrder::Go { order, job } => of_job(order, *job, batch.go(now, *job)),
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
            // A batch system that is slow to answer is not asked all the time.
            not_before = Instant::now() + began.elapsed();
            let order = self.served(&looked);
            self.tell(Some(|| BatchReport::Looked {
                order,
                at: looked.at,
                outcome: looked.outcome.map(|()| self.batch.seen()).map_err(BatchError::from),
            }));
            let is_wanted = || {
                let state = self.state();
                state.stopping || !state.looks.is_empty()
            };
            // What failed is tried again after the next look, which tells of silence.
            let _failure = self.batch.follow((self.now)(), is_wanted);
            self.tell(None::<fn() -> BatchReport>);
        }
    }

    /// Waits until a look is ordered, or due and not before `not_before`. Answers the number that the look must exceed.
    fn next_look(&self, not_before: Instant) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
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

    /// Removes the look orders that were given before this look began, and answers the newest.
    fn served(&self, looked: &Looked) -> Option<OrderId> {
        let mut state = self.state();
        let served = state.looks.iter().take_while(|(_, begun)| *begun < looked.number).count();
        state.looks.drain(..served).next_back().map(|(order, _)| order)
    }

    /// Reports names and changes of jobs, and then this.
    fn tell(&self, report: Option<impl FnOnce() -> BatchReport>) {
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

/// Orders that wait or are being carried out. Bounded by what a site has outstanding.
#[derive(Debug, Default)]
struct Queues {
    next: u64,
    waiting: BTreeMap<u64, BatchOrder>,
    /// The orders for each reservation and job, and whether each excludes all others.
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

    /// The first order that need not wait for another, with its number.
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

    /// Whether none waits or is being carried out.
    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes an order that was taken and is carried out.
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

/// What an order is for, and whether it excludes all other orders for that.
fn keys(order: &BatchOrder) -> Vec<(Key, bool)> {
    match order {
        BatchOrder::Keep { backing, .. } => vec![(Key::Reservation(backing.id), true)],
        BatchOrder::Submit { job, .. } | BatchOrder::Bind { job, .. } => {
            let inside = job.reservation.map(|id| (Key::Reservation(id), false));
            inside.into_iter().chain([(Key::Job(job.id), true)]).collect()
        }
        BatchOrder::Go { job, .. } | BatchOrder::Cancel { job, .. } => vec![(Key::Job(*job), true)],
        BatchOrder::Look { .. } => Vec::new(),
    }
}
