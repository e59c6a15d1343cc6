//! Bounded queue of the journal writer. Events get their numbers when they enter it, so queue order is journal
//! order. It never reorders, and accepts nothing once it is poisoned.
//! A sender that is dropped without an outcome counts as a failed write, so that no caller waits for ever.

use super::error::JournalError;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most events that may wait to be written; further appends block. Several seconds' worth on a slow disk, a few
/// megabytes of memory.
pub const MOST_WAITING: usize = 16_384;

/// Most events in one transaction: enough to amortize the sync, few enough that the first event does not wait long
/// for the last.
const MOST_IN_A_TRANSACTION: usize = 4_096;

pub(crate) enum Order {
    Append(Batch),
    Snapshot {
        up_to: u64,
        state: String,
        done: Done<()>,
    },
    /// Drop the records that the newest snapshot replaces; returns their number.
    Compact {
        done: Done<u64>,
    },
}

/// Events that were appended together, as JSON; written all or none.
pub(crate) struct Batch {
    pub(crate) events: Vec<String>,
    pub(crate) done: Done<()>,
}

/// Weight of a batch. An empty one counts, too, so that empty appends cannot fill the memory.
fn size(events: &[String]) -> usize {
    events.len().max(1)
}

pub(crate) enum Work {
    Write(Vec<Batch>),
    Other(Order),
    /// The lease is due.
    Renew,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
}

struct State {
    orders: VecDeque<Order>,
    /// Total weight by [`size`].
    waiting: usize,
    /// Number of the next event.
    next: u64,
    closing: bool,
    poisoned: Option<String>,
}

impl State {
    fn refuse(&self) -> Result<(), JournalError> {
        match &self.poisoned {
            Some(why) => Err(JournalError::Poisoned { why: why.clone() }),
            None if self.closing => Err(JournalError::Closed),
            None => Ok(()),
        }
    }

    /// An empty queue accepts a batch of any size: otherwise one larger than the bound would block for ever.
    fn has_room(&self, events: &[String]) -> bool {
        self.waiting == 0 || self.waiting + size(events) <= MOST_WAITING
    }

    fn enter(&mut self, events: Vec<String>) -> Ticket {
        let (done, outcome) = outcome();
        let first = self.next;
        self.next += events.len() as u64;
        self.waiting += size(&events);
        self.orders.push_back(Order::Append(Batch { events, done }));
        Ticket { sequences: first..self.next, outcome }
    }
}

impl Queue {
    pub(crate) fn new(next: u64) -> Queue {
        let state = State { orders: VecDeque::new(), waiting: 0, next, closing: false, poisoned: None };
        Queue { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues events; blocks while the queue is full.
    pub(crate) fn append(&self, events: Vec<String>) -> Result<Ticket, JournalError> {
        let mut state = self.state();
        loop {
            // Tested after each wait, because the queue may have been closed or poisoned meanwhile.
            state.refuse()?;
            if state.has_room(&events) {
                break;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let ticket = state.enter(events);
        drop(state);
        self.work.notify_one();
        Ok(ticket)
    }

    /// Enqueues another order behind everything that waits.
    pub(crate) fn order(&self, order: Order) -> Result<(), JournalError> {
        let mut state = self.state();
        state.refuse()?;
        state.orders.push_back(order);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// The next work, with at most `most` batches in one transaction. Blocks until there is some, or `renew_in` has
    /// passed. `None` once the queue is closed and empty.
    pub(crate) fn next(&self, most: usize, renew_in: Option<Duration>) -> Option<Work> {
        let renew_at = renew_in.map(|renew_in| Instant::now() + renew_in);
        let mut state = self.state();
        loop {
            let left = renew_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Some(Work::Renew);
            }
            match state.orders.pop_front() {
                Some(Order::Append(first)) => return Some(Work::Write(self.gather(state, first, most))),
                Some(order) => return Some(Work::Other(order)),
                None if state.closing => return None,
                None => {
                    state = match left {
                        None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                        Some(left) => {
                            self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                        }
                    }
                }
            }
        }
    }

    /// Collects the batches that are written together with the first.
    fn gather(&self, mut state: MutexGuard<'_, State>, first: Batch, most: usize) -> Vec<Batch> {
        let mut events = size(&first.events);
        let mut batches = vec![first];
        // Ends at an order of another kind, so that a snapshot keeps its place between the records.
        while batches.len() < most
            && let Some(Order::Append(next)) = state.orders.front()
            && events + size(&next.events) <= MOST_IN_A_TRANSACTION
        {
            events += size(&next.events);
            if let Some(Order::Append(next)) = state.orders.pop_front() {
                batches.push(next);
            }
        }
        state.waiting -= events;
        drop(state);
        // All of them: one large transaction may make room for many appends.
        self.room.notify_all();
        batches
    }

    /// Accepts nothing more; waiting events are still written.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        // The writer ends once the queue is empty; appends that wait for room fail.
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Accepts nothing more, and fails all waiting orders.
    pub(crate) fn poison(&self, why: &str) {
        let mut state = self.state();
        // The first failure is the cause; later ones are consequences.
        let why = state.poisoned.get_or_insert_with(|| why.to_owned()).clone();
        let orders = std::mem::take(&mut state.orders);
        state.waiting = 0;
        drop(state);
        self.room.notify_all();
        for order in orders {
            let poisoned = JournalError::Poisoned { why: why.clone() };
            match order {
                // A caller that has dropped its ticket does not need the outcome.
                Order::Append(batch) => drop(batch.done.send(Err(poisoned))),
                Order::Snapshot { done, .. } => drop(done.send(Err(poisoned))),
                Order::Compact { done } => drop(done.send(Err(poisoned))),
            }
        }
    }

    /// Why it accepts nothing more. `None` if it still does.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.state().poisoned.clone()
    }
}

/// Completes when the appended events are on disk. Dropping it does not drop the events.
#[derive(Debug)]
#[must_use = "nothing may be acknowledged before the ticket has completed"]
pub struct Ticket {
    pub(crate) sequences: Range<u64>,
    pub(crate) outcome: Outcome<()>,
}

impl Ticket {
    /// The numbers of the events, valid once they are on disk.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Blocks until the events and all earlier ones are on disk, and returns their numbers. After an error it is
    /// unknown whether they are on disk: they must not be acknowledged. Reopen the journal to find out.
    pub fn wait(self) -> Result<Range<u64>, JournalError> {
        self.outcome.wait()?;
        Ok(self.sequences)
    }
}

/// Reports the outcome of one order.
pub(crate) type Done<T> = SyncSender<Result<T, JournalError>>;

/// A one-shot channel. Sending never blocks, because it has room for the one message.
pub(crate) fn outcome<T>() -> (Done<T>, Outcome<T>) {
    let (done, outcome) = sync_channel(1);
    (done, Outcome(outcome))
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Receiver<Result<T, JournalError>>);

impl<T> Outcome<T> {
    pub(crate) fn wait(self) -> Result<T, JournalError> {
        let ended = || JournalError::Poisoned { why: "the writer has ended".to_owned() };
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}
