//! The thread that owns the connection. It writes waiting events in transactions, with one sync for many appends,
//! and completes their tickets after SQLite has committed. After a failed write it stops: the state of a disk after
//! an error is unknown until it is read again.

use super::error::{Damage, JournalError};
use super::format::Chain;
use super::mark::Mark;
use super::queue::{Batch, Order, Queue, Work};
use super::replay::Tail;
use super::{Durability, KEPT_SNAPSHOTS, format, verify};
use crate::time_of_day;
use rusqlite::{Connection, OptionalExtension};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    /// Device and inode of the file when it was opened.
    pub(crate) file: Option<(u64, u64)>,
    pub(crate) mark: Mark,
    pub(crate) connection: Connection,
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

impl Writer {
    /// Runs until the queue is closed and empty, or a write fails.
    pub(crate) fn run(mut self) -> Result<(), JournalError> {
        let _poison = PoisonAtEnd(self.queue.clone());
        let most = if self.durability == Durability::EachAppend { 1 } else { usize::MAX };
        while let Some(work) = self.queue.next(most) {
            let done = match work {
                Work::Write(batches) => self.write(batches),
                Work::Other(order) => self.carry_out(order),
            };
            if let Err(error) = done {
                self.queue.poison(&error.to_string());
                return Err(error);
            }
        }
        self.finish()
    }

    /// Writes one transaction. An error is reported to all its batches and ends the writer.
    fn write(&mut self, batches: Vec<Batch>) -> Result<(), JournalError> {
        let mut events = batches.iter().flat_map(|batch| &batch.events).peekable();
        let written = match events.peek() {
            // All earlier appends are on disk already.
            None => Ok(self.tail),
            Some(_) => self
                .transaction("writing events", |writer| writer.insert(events))
                .and_then(|tail| self.is_there().map(|()| tail)),
        };
        match written {
            Ok(tail) => {
                self.tail = tail;
                batches.into_iter().for_each(|batch| drop(batch.done.send(Ok(()))));
                // After the answers: a mark ahead of the journal would make the next start refuse a sound journal.
                self.mark.set(tail.sequence);
                Ok(())
            }
            Err(error) => {
                // Later appends must be refused before any caller learns of this failure.
                self.queue.poison(&error.to_string());
                batches.into_iter().for_each(|batch| drop(batch.done.send(Err(error.clone()))));
                Err(error)
            }
        }
    }

    /// Fails if the file was deleted or replaced: writes to an unlinked file are lost when it is closed.
    fn is_there(&self) -> Result<(), JournalError> {
        if format::file_id(&self.path) == self.file {
            return Ok(());
        }
        let damage = Damage::Unreadable("it was deleted or replaced while it was open".to_owned());
        Err(JournalError::Damaged { path: self.path.clone(), damage, more: 0 })
    }

    fn insert<'a>(&self, events: impl Iterator<Item = &'a String>) -> rusqlite::Result<Tail> {
        let Tail { mut sequence, mut chain } = self.tail;
        let now = now();
        let mut insert = self.connection.prepare("INSERT INTO records VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for event in events {
            sequence += 1;
            chain = chain.then(sequence, self.schema, now, event.as_bytes());
            insert.execute((
                sequence.cast_signed(),
                self.schema,
                now,
                event.as_str(),
                chain.0.cast_signed(),
            ))?;
        }
        // The tail on disk must be the known one. Otherwise another process wrote to the file.
        let changed = self.connection.execute(
            "UPDATE meta SET tail = ?1, tail_chain = ?2 WHERE tail = ?3 AND tail_chain = ?4",
            (
                sequence.cast_signed(),
                chain.0.cast_signed(),
                self.tail.sequence.cast_signed(),
                self.tail.chain.0.cast_signed(),
            ),
        )?;
        if changed == 1 {
            Ok(Tail { sequence, chain })
        } else {
            Err(rusqlite::Error::StatementChangedRows(0))
        }
    }

    /// An error ends the writer. A failure that left the journal unchanged is only reported to the caller.
    fn carry_out(&mut self, order: Order) -> Result<(), JournalError> {
        match order {
            Order::Append(batch) => self.write(vec![batch]),
            Order::Snapshot { up_to, state, done } => {
                let outcome = self.snapshot(up_to, &state);
                let fatal = fatal(&outcome);
                let _ = done.send(outcome);
                fatal
            }
            Order::Compact { done } => {
                let outcome = self.compact();
                let fatal = fatal(&outcome);
                let _ = done.send(outcome);
                fatal
            }
        }
    }

    fn snapshot(&mut self, up_to: u64, state: &str) -> Result<(), JournalError> {
        let Some(chain) = self.chain_at(up_to)? else {
            let first = format::meta(&self.path, &self.connection)?.base + 1;
            return Err(JournalError::SnapshotElsewhere { up_to, first, last: self.tail.sequence });
        };
        let now = now();
        let sum = format::of_snapshot(up_to, self.schema, now, chain, state.as_bytes());
        self.transaction("writing a snapshot", |writer| {
            writer.connection.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (
                    up_to.cast_signed(),
                    writer.schema,
                    now,
                    chain.0.cast_signed(),
                    state,
                    sum.cast_signed(),
                ),
            )?;
            writer.connection.execute(
                "DELETE FROM snapshots WHERE up_to NOT IN (SELECT up_to FROM snapshots ORDER BY up_to DESC LIMIT ?1)",
                [KEPT_SNAPSHOTS],
            )?;
            Ok(())
        })
    }

    fn chain_at(&self, sequence: u64) -> Result<Option<Chain>, JournalError> {
        if sequence == self.tail.sequence {
            return Ok(Some(self.tail.chain));
        }
        let meta = format::meta(&self.path, &self.connection)?;
        if sequence == meta.base {
            return Ok(Some(meta.base_chain));
        }
        let query = "SELECT checksum FROM records WHERE sequence = ?1";
        let found: Option<i64> = self
            .connection
            .query_row(query, [sequence.cast_signed()], |row| row.get(0))
            .optional()
            .map_err(|error| JournalError::reading(&self.path, &error))?;
        Ok(found.map(|chain| Chain(chain.cast_unsigned())))
    }

    /// Verifies everything before it drops anything.
    fn compact(&mut self) -> Result<u64, JournalError> {
        let meta = format::meta(&self.path, &self.connection)?;
        let snapshots = verify::snapshots(&self.path, &self.connection, &meta)?;
        let walked = verify::records(&self.path, &self.connection, &meta, &snapshots, |_| Ok(()))?;
        if let Some(damage) = walked.damages.first() {
            let (path, damage, more) = (self.path.clone(), damage.clone(), walked.damages.len() - 1);
            return Err(JournalError::Damaged { path, damage, more });
        }
        let Some((&up_to, &chain)) = snapshots.chains.last_key_value() else { return Ok(0) };
        self.transaction("compacting", |writer| {
            let up_to = up_to.cast_signed();
            writer.connection.execute("DELETE FROM records WHERE sequence <= ?1", [up_to])?;
            writer.connection.execute("DELETE FROM snapshots WHERE up_to < ?1", [up_to])?;
            writer
                .connection
                .execute("UPDATE meta SET base = ?1, base_chain = ?2", (up_to, chain.0.cast_signed()))?;
            Ok(())
        })?;
        // Deleting rows only marks pages as free.
        self.do_now("freeing space", "VACUUM")?;
        self.checkpoint()?;
        Ok(up_to - meta.base)
    }

    /// Commits all of it or nothing.
    fn transaction<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Writer) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        let go = || {
            // Takes the write lock at once. A deferred transaction could fail at its first write.
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            let outcome = work(self)?;
            self.connection.execute_batch("COMMIT")?;
            Ok(outcome)
        };
        go().map_err(|error: rusqlite::Error| {
            if !self.connection.is_autocommit() {
                // If this fails, too, nothing is lost: the transaction ends with the connection.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            match error {
                rusqlite::Error::StatementChangedRows(_) => JournalError::Damaged {
                    path: self.path.clone(),
                    damage: Damage::Unreadable("another process wrote to it while it was open".to_owned()),
                    more: 0,
                },
                error => JournalError::sqlite(&self.path, doing, &error),
            }
        })
    }

    fn do_now(&self, doing: &'static str, statement: &str) -> Result<(), JournalError> {
        let done = self.connection.execute_batch(statement);
        done.map_err(|error| JournalError::sqlite(&self.path, doing, &error))
    }

    /// Moves everything from the write-ahead log into the database. A reader may prevent it, which does no harm.
    fn checkpoint(&self) -> Result<(), JournalError> {
        self.do_now("merging the write-ahead log", "PRAGMA wal_checkpoint(TRUNCATE)")
    }

    fn finish(self) -> Result<(), JournalError> {
        self.checkpoint()?;
        let path = self.path;
        self.connection.close().map_err(|(_, error)| JournalError::sqlite(&path, "closing it", &error))
    }
}

/// Whether the writer must stop. A full disk is no reason: SQLite has rolled back the order, and it contained no
/// events.
fn fatal<T>(outcome: &Result<T, JournalError>) -> Result<(), JournalError> {
    match outcome {
        Err(error @ JournalError::Storage { full: false, .. }) => Err(error.clone()),
        _ => Ok(()),
    }
}

/// The validated wall clock: if it ran ahead for a while, the journal would make the correct clock look late at the
/// next start.
fn now() -> i64 {
    time_of_day::now().0
}
