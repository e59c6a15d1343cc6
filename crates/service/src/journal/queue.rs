//! Bounded queue of the journal writer. Events get their numbers when they enter it, so queue order is journal
//! order. It never reorders, and accepts nothing once it is poisoned.
//! Tickets complete in the same order, so one counter tells all of them; the writer wakes their holder once for each
//! transaction.

use super::error::JournalError;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most events that may wait to be written; further appends block. Several seconds' worth on a slow disk, a few
/// megabytes of memory.
pub const MOST_WAITING: usize = 16_384;

/// First size of the text of a batch: the events of most calls fit.
const USUAL_SIZE: usize = 1_536;

/// Length of an event that counts as two: most have a few hundred bytes. So at most about 64 MB wait.
const LONG_EVENT: usize = 4_096;

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
#[derive(Default)]
pub(crate) struct Batch {
    /// The events one after the other: one text for all needs less memory than one for each.
    text: String,
    /// End of each event in the text.
    ends: Vec<usize>,
}

impl Batch {
    /// Serializes events.
    pub(crate) fn of<E: Serialize>(events: &[E]) -> Result<Batch, JournalError> {
        if events.is_empty() {
            return Ok(Batch::default());
        }
        let failed = |why: String| JournalError::Json { what: "an event".to_owned(), why };
        let (mut text, mut ends) = (Vec::with_capacity(USUAL_SIZE), Vec::with_capacity(events.len()));
        for event in events {
            serde_json::to_writer(&mut text, event).map_err(|error| failed(error.to_string()))?;
            ends.push(text.len());
        }
        let text = String::from_utf8(text).map_err(|error| failed(error.to_string()))?;
        Ok(Batch { text, ends })
    }

    /// The events in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = &str> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.text[begin..end])
    }

    /// Weight. An empty batch counts, too, so that empty appends cannot fill the memory; long events count as several.
    fn size(&self) -> usize {
        self.ends.len().max(self.text.len() / LONG_EVENT).max(1)
    }
}

pub(crate) enum Work {
    Write(Vec<Batch>),
    Other(Order),
    /// The lease is due.
    Renew,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    written: Arc<Written>,
    work: Condvar,
    room: Condvar,
}

struct State {
    orders: VecDeque<Order>,
    /// Total weight by [`Batch::size`].
    waiting: usize,
    /// Appends so far.
    appends: u64,
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
    fn has_room(&self, batch: &Batch) -> bool {
        self.waiting == 0 || self.waiting + batch.size() <= MOST_WAITING
    }

    fn enter(&mut self, batch: Batch, written: Arc<Written>) -> Ticket {
        let (first, bytes) = (self.next, batch.text.len() as u64);
        self.next += batch.ends.len() as u64;
        self.waiting += batch.size();
        self.appends += 1;
        self.orders.push_back(Order::Append(batch));
        Ticket { sequences: first..self.next, bytes, append: self.appends, written }
    }
}

impl Queue {
    pub(crate) fn new(next: u64) -> Queue {
        let orders = VecDeque::new();
        let state = State { orders, waiting: 0, appends: 0, next, closing: false, poisoned: None };
        let (work, room) = (Condvar::new(), Condvar::new());
        Queue { state: Mutex::new(state), written: Arc::default(), work, room }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues events; blocks while the queue is full.
    pub(crate) fn append(&self, batch: Batch) -> Result<Ticket, JournalError> {
        let mut state = self.state();
        loop {
            // Tested after each wait, because the queue may have been closed or poisoned meanwhile.
            state.refuse()?;
            if state.has_room(&batch) {
                break;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let ticket = state.enter(batch, self.written.clone());
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
        let mut events = first.size();
        let mut batches = vec![first];
        // Ends at an order of another kind, so that a snapshot keeps its place between the records.
        while batches.len() < most
            && let Some(Order::Append(next)) = state.orders.front()
            && events + next.size() <= MOST_IN_A_TRANSACTION
        {
            events += next.size();
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
        let poisoned = || JournalError::Poisoned { why: why.clone() };
        self.written.update(|progress| {
            progress.failed.get_or_insert_with(|| (0, poisoned(), poisoned()));
        });
        for order in orders {
            let poisoned = poisoned();
            match order {
                // Their tickets know.
                Order::Append(_) => {}
                Order::Snapshot { done, .. } => drop(done.send(Err(poisoned))),
                Order::Compact { done } => drop(done.send(Err(poisoned))),
            }
        }
    }

    /// The appends that were written next are on disk.
    pub(crate) fn on_disk(&self, appends: usize) {
        self.written.update(|progress| progress.appends += appends as u64);
    }

    /// These appends could not be written. Later ones are refused before any caller learns of it.
    pub(crate) fn failed(&self, appends: usize, error: &JournalError) {
        let why = error.to_string();
        let later = JournalError::Poisoned { why: why.clone() };
        self.state().poisoned.get_or_insert_with(|| why.clone());
        self.written.update(|progress| {
            let last = progress.appends + appends as u64;
            progress.failed.get_or_insert_with(|| (last, error.clone(), later));
        });
        self.poison(&why);
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
    sequences: Range<u64>,
    bytes: u64,
    /// Number of its append.
    append: u64,
    written: Arc<Written>,
}

/// How far the writer is.
#[derive(Debug, Default)]
struct Written {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Appends on disk.
    appends: u64,
    /// The last append whose write failed, its error, and that of all later appends. Nothing is written after it.
    failed: Option<(u64, JournalError, JournalError)>,
}

impl Written {
    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl Ticket {
    /// The numbers of the events, valid once they are on disk.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Size of the events in the journal.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks until the events and all earlier ones are on disk, and returns their numbers. After an error it is
    /// unknown whether they are on disk: they must not be acknowledged. Reopen the journal to find out.
    pub fn wait(self) -> Result<Range<u64>, JournalError> {
        let mut progress = self.written.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if progress.appends >= self.append {
                return Ok(self.sequences);
            }
            if let Some((last, error, later)) = &progress.failed {
                return Err(if self.append <= *last { error.clone() } else { later.clone() });
            }
            progress = self.written.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_batch_are_read_back_one_by_one() {
        let batch = Batch::of(&["a", "", "ü\"b"]).unwrap();
        assert_eq!(batch.events().collect::<Vec<_>>(), ["\"a\"", "\"\"", "\"ü\\\"b\""]);
        assert_eq!(Batch::of::<u64>(&[]).unwrap().events().count(), 0);
    }

    #[test]
    fn a_ticket_gets_the_error_of_its_own_write_and_later_ones_are_refused() {
        let queue = Queue::new(1);
        let append = || queue.append(Batch::of(&[7]).unwrap()).unwrap();
        let (written, failed, waiting) = (append(), append(), append());
        assert!(matches!(queue.next(1, None), Some(Work::Write(batches)) if batches.len() == 1));
        queue.on_disk(1);
        assert_eq!(written.wait().unwrap(), 1..2);
        assert!(matches!(queue.next(1, None), Some(Work::Write(_))));
        queue.failed(1, &JournalError::Closed);
        assert!(matches!(failed.wait(), Err(JournalError::Closed)));
        assert!(matches!(waiting.wait(), Err(JournalError::Poisoned { .. })));
        assert!(matches!(queue.append(Batch::default()), Err(JournalError::Poisoned { .. })));
    }
}
