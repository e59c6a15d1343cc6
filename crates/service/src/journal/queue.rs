//! What waits for the writer: a bounded queue. Numbers are given on entering it, so the order in it is the order in the
//! journal. It never reorders, and once it is poisoned it takes nothing any more.
//! A sender that is dropped without an outcome counts as a failed write, so that nothing waits for ever.

use super::error::JournalError;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many events may wait to be written; then appending waits, too. Some seconds' worth on a slow disk, some megabytes of
/// memory.
pub const MOST_WAITING: usize = 16_384;

/// So many events go into one transaction: enough to make the sync cheap, few enough that the first does not wait long for
/// the last.
pub const MOST_IN_A_TRANSACTION: usize = 4_096;

/// What the writer is asked to do.
pub(crate) enum Order {
    Append(Batch),
    Snapshot {
        up_to: u64,
        state: String,
        done: Done<()>,
    },
    /// Drop what the newest snapshot stands for; tells how many records were dropped.
    Compact {
        done: Done<u64>,
    },
}

/// Events that were appended together, as JSON: they are written all or none.
pub(crate) struct Batch {
    pub(crate) events: Vec<String>,
    pub(crate) done: Done<()>,
}

/// What a batch counts for; one without events takes room, too.
fn size(events: &[String]) -> usize {
    events.len().max(1)
}

pub(crate) enum Work {
    Write(Vec<Batch>),
    Other(Order),
}

pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
}

struct State {
    orders: VecDeque<Order>,
    /// Events in them, by [`size`].
    waiting: usize,
    /// The number that the next event gets.
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

    /// Where nothing waits, there is room for a batch of any size.
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

    /// Takes events; waits for room.
    pub(crate) fn append(&self, events: Vec<String>) -> Result<Ticket, JournalError> {
        let mut state = self.state();
        loop {
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

    /// Takes another order, behind everything that waits.
    pub(crate) fn order(&self, order: Order) -> Result<(), JournalError> {
        let mut state = self.state();
        state.refuse()?;
        state.orders.push_back(order);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// What to do next, with at most `most` batches in one transaction; waits for it. None once it is closed and empty.
    pub(crate) fn next(&self, most: usize) -> Option<Work> {
        let mut state = self.state();
        loop {
            match state.orders.pop_front() {
                Some(Order::Append(first)) => return Some(Work::Write(self.gather(state, first, most))),
                Some(order) => return Some(Work::Other(order)),
                None if state.closing => return None,
                None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The batches that go with the first.
    fn gather(&self, mut state: MutexGuard<'_, State>, first: Batch, most: usize) -> Vec<Batch> {
        let mut events = size(&first.events);
        let mut batches = vec![first];
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
        self.room.notify_all();
        batches
    }

    /// Takes nothing more; what waits is still written.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Takes nothing more, and tells everybody who waits.
    pub(crate) fn poison(&self, why: &str) {
        let mut state = self.state();
        let why = state.poisoned.get_or_insert_with(|| why.to_owned()).clone();
        let orders = std::mem::take(&mut state.orders);
        state.waiting = 0;
        drop(state);
        self.room.notify_all();
        for order in orders {
            let poisoned = JournalError::Poisoned { why: why.clone() };
            match order {
                Order::Append(batch) => drop(batch.done.send(Err(poisoned))),
                Order::Snapshot { done, .. } => drop(done.send(Err(poisoned))),
                Order::Compact { done } => drop(done.send(Err(poisoned))),
            }
        }
    }

    /// Why it takes nothing more, if it does not.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.state().poisoned.clone()
    }
}

/// Says when what was appended is on disk. Dropping it gives up the knowledge, not the events.
#[derive(Debug)]
#[must_use = "nothing may be acknowledged before the ticket says that it is on disk"]
pub struct Ticket {
    pub(crate) sequences: Range<u64>,
    pub(crate) outcome: Outcome<()>,
}

impl Ticket {
    /// The numbers that the events have, if they get onto the disk.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Blocks until the events, and everything appended before them, are on disk; gives their numbers. After an error it
    /// is unknown whether they are there: they must not be acknowledged, and opening the journal anew tells.
    pub fn wait(self) -> Result<Range<u64>, JournalError> {
        self.outcome.wait()?;
        Ok(self.sequences)
    }
}

/// Tells the outcome of one order to the writer.
pub(crate) type Done<T> = SyncSender<Result<T, JournalError>>;

/// A sender and the side that waits for it. Sending never blocks.
pub(crate) fn outcome<T>() -> (Done<T>, Outcome<T>) {
    let (done, outcome) = sync_channel(1);
    (done, Outcome(outcome))
}

/// What came of an order, when it is known.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Receiver<Result<T, JournalError>>);

impl<T> Outcome<T> {
    pub(crate) fn wait(self) -> Result<T, JournalError> {
        let ended = || JournalError::Poisoned { why: "the writer has ended".to_owned() };
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}
