//! The thread that owns the storage. It writes waiting events in groups, with one sync for many appends, and completes
//! their tickets after the storage has committed. After a failed write it stops.

use super::error::JournalError;
use super::format::{self, Chain, Meta};
use super::queue::{Batch, Order, Queue, Work};
use super::replay::Tail;
use super::verify::{RawSnapshot, Source};
use super::{Durability, verify};
use crate::time_of_day;
use std::sync::Arc;
use std::time::Duration;

/// A new record.
pub(crate) struct Line<'a> {
    pub(crate) sequence: u64,
    pub(crate) schema: u32,
    pub(crate) written_at: i64,
    pub(crate) event: &'a str,
    pub(crate) checksum: Chain,
}

/// Where a journal is stored. Every call is durable when it returns, and takes effect as a whole or not at all.
pub(crate) trait Storage {
    /// Appends records between the known tail and the new one. Fails if the stored tail is not the known one.
    fn append(&mut self, ends: (Tail, Tail), lines: &[Line<'_>]) -> Result<(), JournalError>;

    /// Records up to this one were acknowledged.
    fn acknowledged(&mut self, _tail: Tail) {}

    /// Stores a snapshot, and drops all but the newest ones.
    fn snapshot(&mut self, raw: &RawSnapshot<'_>) -> Result<(), JournalError>;

    /// The last record that was dropped.
    fn base(&mut self) -> Result<Tail, JournalError>;

    /// Checksum of a stored record.
    fn chain_at(&mut self, sequence: u64) -> Result<Option<Chain>, JournalError>;

    /// Verifies everything, drops the records that the newest snapshot replaces, and returns their number.
    fn compact(&mut self) -> Result<u64, JournalError>;

    /// Time until [`Storage::renew`] is due. `None` if there is nothing to renew.
    fn renew_in(&self) -> Option<Duration> {
        None
    }

    /// Renews the lease.
    fn renew(&mut self, _tail: Tail) -> Result<(), JournalError> {
        Ok(())
    }

    fn finish(self) -> Result<(), JournalError>;
}

/// Where to compact to: the newest snapshot of an undamaged journal.
pub(crate) fn compactable(
    source: &mut dyn Source,
    meta: &Meta,
) -> Result<Option<(u64, Chain)>, JournalError> {
    let snapshots = verify::snapshots(source, meta)?;
    let walked = verify::records(source, meta, &snapshots, |_| Ok(()))?;
    if let Some(damage) = walked.damages.first() {
        let (path, damage, more) = (source.path().to_owned(), damage.clone(), walked.damages.len() - 1);
        return Err(JournalError::Damaged { path, damage, more });
    }
    Ok(snapshots.chains.last_key_value().map(|(&up_to, &chain)| (up_to, chain)))
}

pub(crate) struct Writer<S> {
    pub(crate) storage: S,
    pub(crate) queue: Arc<Queue>,
    pub(crate) schema: u32,
    pub(crate) durability: Durability,
    pub(crate) tail: Tail,
}

/// Poisons the queue if the writer panics.
struct PoisonAtEnd(Arc<Queue>);

impl Drop for PoisonAtEnd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("the writer has ended");
        }
    }
}

impl<S: Storage> Writer<S> {
    /// Runs until the queue is closed and empty, or a write fails.
    pub(crate) fn run(mut self) -> Result<(), JournalError> {
        let _poison = PoisonAtEnd(self.queue.clone());
        let most = if self.durability == Durability::EachAppend { 1 } else { usize::MAX };
        while let Some(work) = self.queue.next(most, self.storage.renew_in()) {
            let done = match work {
                Work::Write(batches) => self.write(&batches),
                Work::Other(order) => self.carry_out(order),
                Work::Renew => self.storage.renew(self.tail),
            };
            if let Err(error) = done {
                self.queue.poison(&error.to_string());
                return Err(error);
            }
        }
        self.storage.finish()
    }

    /// Writes one transaction. An error is reported to all its batches and ends the writer.
    fn write(&mut self, batches: &[Batch]) -> Result<(), JournalError> {
        let Tail { mut sequence, mut chain } = self.tail;
        let (now, schema) = (now(), self.schema);
        let events = batches.iter().flat_map(Batch::events);
        let lines = events.map(|event| {
            sequence += 1;
            chain = chain.then(sequence, schema, now, event.as_bytes());
            Line { sequence, schema, written_at: now, event, checksum: chain }
        });
        let lines: Vec<Line<'_>> = lines.collect();
        let tail = Tail { sequence, chain };
        // Without events, all earlier appends are on disk already.
        let written = if lines.is_empty() { Ok(()) } else { self.storage.append((self.tail, tail), &lines) };
        drop(lines);
        match written {
            Ok(()) => {
                self.tail = tail;
                self.queue.on_disk(batches.len());
                // After the answers: a mark ahead of the journal would make the next start refuse a sound journal.
                self.storage.acknowledged(tail);
                Ok(())
            }
            Err(error) => {
                self.queue.failed(batches.len(), &error);
                Err(error)
            }
        }
    }

    /// An error ends the writer. A failure that left the journal unchanged is only reported to the caller.
    fn carry_out(&mut self, order: Order) -> Result<(), JournalError> {
        match order {
            Order::Append(batch) => self.write(&[batch]),
            Order::Snapshot { up_to, state, done } => {
                let outcome = self.snapshot(up_to, &state);
                let fatal = fatal(&outcome);
                let _ = done.send(outcome);
                fatal
            }
            Order::Compact { done } => {
                let outcome = self.storage.compact();
                let fatal = fatal(&outcome);
                let _ = done.send(outcome);
                fatal
            }
        }
    }

    fn snapshot(&mut self, up_to: u64, state: &str) -> Result<(), JournalError> {
        let base = self.storage.base()?;
        let chain = match up_to {
            _ if up_to == self.tail.sequence => Some(self.tail.chain),
            _ if up_to == base.sequence => Some(base.chain),
            _ => self.storage.chain_at(up_to)?,
        };
        let Some(chain) = chain else {
            let (first, last) = (base.sequence + 1, self.tail.sequence);
            return Err(JournalError::SnapshotElsewhere { up_to, first, last });
        };
        let (written_at, schema) = (now(), self.schema);
        let checksum = format::of_snapshot(up_to, schema, written_at, chain, state.as_bytes());
        self.storage.snapshot(&RawSnapshot { up_to, schema, written_at, chain, state, checksum })
    }
}

/// Whether the writer must stop. A full disk is no reason: the order was rolled back, and it contained no events.
fn fatal<T>(outcome: &Result<T, JournalError>) -> Result<(), JournalError> {
    match outcome {
        Err(error @ (JournalError::Storage { full: false, .. } | JournalError::LeaseLost { .. })) => {
            Err(error.clone())
        }
        _ => Ok(()),
    }
}

/// The validated wall clock: if it ran ahead for a while, the journal would make the correct clock look late at the
/// next start.
fn now() -> i64 {
    time_of_day::now().0
}
