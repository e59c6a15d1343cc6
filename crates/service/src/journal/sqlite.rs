//! A journal in a SQLite file: writes transactions, and reads rows back. An error ends the writer, because the state
//! of a disk after an error is unknown until it is read again.

use super::error::{Damage, JournalError};
use super::format::Chain;
use super::lock::Lock;
use super::mark::Mark;
use super::replay::Tail;
use super::verify::{Raw, RawSnapshot, SeeRecord, SeeSnapshot, Source};
use super::writer::{Line, Storage, compactable};
use super::{KEPT_SNAPSHOTS, Kind, Options, format, verify};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::{Path, PathBuf};

/// An open file.
pub(crate) struct Sqlite {
    path: PathBuf,
    /// Device and inode of the file when it was opened.
    file: Option<(u64, u64)>,
    mark: Mark,
    connection: Connection,
    _lock: Lock,
}

impl Sqlite {
    /// Opens or creates the file. Returns whether it was created.
    pub(crate) fn open(
        path: &Path,
        kind: &Kind,
        options: &Options,
    ) -> Result<(Sqlite, format::Meta, bool), JournalError> {
        // The canonical path, so that the lock file is the same for all links to the journal.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // Before anything else: the steps below must not run while another process writes.
        let lock = Lock::take(&path)?;
        let mark = Mark::beside(&path)?;
        let fresh = !path.exists();
        if fresh {
            mark.check(&path, None)?;
            format::create(&path, kind)?;
        }
        // Before SQLite opens the file: recovery would discard the frames behind a damaged one.
        verify::look_for_damage(&path)?;
        let connection = format::open_to_write(&path, options)?;
        let meta = format::meta(&path, &connection)?;
        if (&meta.what, &meta.owner) != (&kind.what, &kind.owner) {
            let found = format!("the {} of {}", meta.what, meta.owner);
            let wanted = format!("the {} of {}", kind.what, kind.owner);
            return Err(JournalError::WrongKind { path, found, wanted });
        }
        mark.check(&path, Some(meta.tail))?;
        let file = format::file_id(&path);
        Ok((Sqlite { path, file, mark, connection, _lock: lock }, meta, fresh))
    }

    /// The rows of the journal.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { path: &self.path, connection: &self.connection }
    }

    /// Fails if the file was deleted or replaced: writes to an unlinked file are lost when it is closed.
    fn is_there(&self) -> Result<(), JournalError> {
        if format::file_id(&self.path) == self.file {
            return Ok(());
        }
        let damage = Damage::Unreadable("it was deleted or replaced while it was open".to_owned());
        Err(JournalError::Damaged { path: self.path.clone(), damage, more: 0 })
    }

    fn insert(&self, (from, to): (Tail, Tail), lines: &[Line<'_>]) -> rusqlite::Result<()> {
        // Cached, like the other statements of an append, so that they are not parsed for each transaction.
        let mut insert = self.connection.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for line in lines {
            insert.execute((
                line.sequence.cast_signed(),
                line.schema,
                line.written_at,
                line.event,
                line.checksum.0.cast_signed(),
            ))?;
        }
        // The tail on disk must be the known one. Otherwise another process wrote to the file.
        let update = "UPDATE meta SET tail = ?1, tail_chain = ?2 WHERE tail = ?3 AND tail_chain = ?4";
        let changed = self.connection.prepare_cached(update)?.execute((
            to.sequence.cast_signed(),
            to.chain.0.cast_signed(),
            from.sequence.cast_signed(),
            from.chain.0.cast_signed(),
        ))?;
        if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(0)) }
    }

    /// Commits all of it or nothing.
    fn transaction<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Sqlite) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        let go = || {
            // Takes the write lock at once. A deferred transaction could fail at its first write.
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
            let outcome = work(self)?;
            self.connection.prepare_cached("COMMIT")?.execute(())?;
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

    /// Fills an empty journal with the rows of another one, as they are.
    pub(crate) fn fill(&self, meta: &format::Meta, source: &mut dyn Source) -> Result<(), JournalError> {
        let failed = |error: &rusqlite::Error| JournalError::sqlite(&self.path, "copying", error);
        let go = |statement: &str| self.do_now("copying", statement);
        go("BEGIN IMMEDIATE")?;
        let mut outcome = Ok(());
        let mut insert = self
            .connection
            .prepare("INSERT INTO records VALUES (?1, ?2, ?3, ?4, ?5)")
            .map_err(|error| failed(&error))?;
        source.each_record(&mut |_, raw| {
            if let (Ok(()), Ok(raw)) = (&outcome, raw) {
                let sequence = raw.sequence.cast_signed();
                let values = (sequence, raw.schema, raw.written_at, raw.event, raw.checksum.0.cast_signed());
                outcome = insert.execute(values).map(drop);
            }
        })?;
        source.each_snapshot(&mut |_, raw| {
            if let (Ok(()), Ok(raw)) = (&outcome, raw) {
                outcome = self.put_snapshot(&raw);
            }
        })?;
        let update = "UPDATE meta SET base = ?1, base_chain = ?2, tail = ?3, tail_chain = ?4";
        let chain = |chain: Chain| chain.0.cast_signed();
        let ends = (
            meta.base.cast_signed(),
            chain(meta.base_chain),
            meta.tail.cast_signed(),
            chain(meta.tail_chain),
        );
        outcome.and_then(|()| self.connection.execute(update, ends)).map_err(|error| failed(&error))?;
        go("COMMIT")?;
        self.checkpoint()
    }

    fn put_snapshot(&self, raw: &RawSnapshot<'_>) -> rusqlite::Result<()> {
        let values = (
            raw.up_to.cast_signed(),
            raw.schema,
            raw.written_at,
            raw.chain.0.cast_signed(),
            raw.state,
            raw.checksum.cast_signed(),
        );
        let insert = "INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.connection.execute(insert, values).map(drop)
    }
}

impl Storage for Sqlite {
    fn append(&mut self, ends: (Tail, Tail), lines: &[Line<'_>]) -> Result<(), JournalError> {
        self.transaction("writing events", |sqlite| sqlite.insert(ends, lines))?;
        self.is_there()
    }

    fn acknowledged(&mut self, tail: Tail) {
        self.mark.set(tail);
    }

    fn snapshot(&mut self, raw: &RawSnapshot<'_>) -> Result<(), JournalError> {
        self.transaction("writing a snapshot", |sqlite| {
            sqlite.put_snapshot(raw)?;
            sqlite.connection.execute(
                "DELETE FROM snapshots WHERE up_to NOT IN (SELECT up_to FROM snapshots ORDER BY up_to DESC LIMIT ?1)",
                [KEPT_SNAPSHOTS],
            )?;
            Ok(())
        })
    }

    fn base(&mut self) -> Result<Tail, JournalError> {
        let meta = format::meta(&self.path, &self.connection)?;
        Ok(Tail { sequence: meta.base, chain: meta.base_chain })
    }

    fn chain_at(&mut self, sequence: u64) -> Result<Option<Chain>, JournalError> {
        let query = "SELECT checksum FROM records WHERE sequence = ?1";
        let found: Option<i64> = self
            .connection
            .query_row(query, [sequence.cast_signed()], |row| row.get(0))
            .optional()
            .map_err(|error| JournalError::reading(&self.path, &error))?;
        Ok(found.map(|chain| Chain(chain.cast_unsigned())))
    }

    fn compact(&mut self) -> Result<u64, JournalError> {
        let meta = format::meta(&self.path, &self.connection)?;
        let Some((up_to, chain)) = compactable(&mut self.rows(), &meta)? else { return Ok(0) };
        self.transaction("compacting", |sqlite| {
            let up_to = up_to.cast_signed();
            sqlite.connection.execute("DELETE FROM records WHERE sequence <= ?1", [up_to])?;
            sqlite.connection.execute("DELETE FROM snapshots WHERE up_to < ?1", [up_to])?;
            sqlite
                .connection
                .execute("UPDATE meta SET base = ?1, base_chain = ?2", (up_to, chain.0.cast_signed()))?;
            Ok(())
        })?;
        // Deleting rows only marks pages as free.
        self.do_now("freeing space", "VACUUM")?;
        self.checkpoint()?;
        Ok(up_to - meta.base)
    }

    fn finish(self) -> Result<(), JournalError> {
        self.checkpoint()?;
        let path = self.path;
        self.connection.close().map_err(|(_, error)| JournalError::sqlite(&path, "closing it", &error))
    }
}

impl Source for Sqlite {
    fn path(&self) -> &Path {
        &self.path
    }

    fn each_snapshot(&mut self, see: SeeSnapshot<'_>) -> Result<(), JournalError> {
        self.rows().each_snapshot(see)
    }

    fn each_record(&mut self, see: SeeRecord<'_>) -> Result<(), JournalError> {
        self.rows().each_record(see)
    }
}

/// The rows of a journal in a SQLite file.
pub(crate) struct Rows<'a> {
    pub(crate) path: &'a Path,
    pub(crate) connection: &'a Connection,
}

impl Source for Rows<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn each_snapshot(&mut self, see: SeeSnapshot<'_>) -> Result<(), JournalError> {
        let query =
            "SELECT up_to, schema, written_at, chain, state, checksum FROM snapshots ORDER BY up_to DESC";
        self.each_row(query, |row| {
            see(u64::try_from(integer(row, 0)?).unwrap_or(0), snapshot(row));
            Ok(())
        })
    }

    fn each_record(&mut self, see: SeeRecord<'_>) -> Result<(), JournalError> {
        let query = "SELECT sequence, schema, written_at, event, checksum FROM records ORDER BY sequence";
        self.each_row(query, |row| {
            see(u64::try_from(integer(row, 0)?).unwrap_or(0), record(row));
            Ok(())
        })
    }
}

impl Rows<'_> {
    fn each_row(
        &self,
        query: &str,
        mut see: impl FnMut(&Row<'_>) -> Result<(), String>,
    ) -> Result<(), JournalError> {
        let reading = |error: rusqlite::Error| JournalError::reading(self.path, &error);
        let mut query = self.connection.prepare(query).map_err(reading)?;
        let mut rows = query.query(()).map_err(reading)?;
        while let Some(row) = rows.next().map_err(reading)? {
            see(row).map_err(|why| JournalError::Damaged {
                path: self.path.to_owned(),
                damage: Damage::Unreadable(why),
                more: 0,
            })?;
        }
        Ok(())
    }
}

fn snapshot<'a>(row: &'a Row<'_>) -> Result<RawSnapshot<'a>, String> {
    Ok(RawSnapshot {
        up_to: u64::try_from(integer(row, 0)?).map_err(|_| "its number is negative")?,
        schema: u32::try_from(integer(row, 1)?).map_err(|_| "its version is invalid")?,
        written_at: integer(row, 2)?,
        chain: Chain(integer(row, 3)?.cast_unsigned()),
        state: text(row, 4)?,
        checksum: integer(row, 5)?.cast_unsigned(),
    })
}

fn record<'a>(row: &'a Row<'_>) -> Result<Raw<'a>, String> {
    Ok(Raw {
        sequence: u64::try_from(integer(row, 0)?).map_err(|_| "its number is negative")?,
        schema: u32::try_from(integer(row, 1)?).map_err(|_| "its version is invalid")?,
        written_at: integer(row, 2)?,
        event: text(row, 3)?,
        checksum: Chain(integer(row, 4)?.cast_unsigned()),
    })
}

fn integer(row: &Row<'_>, at: usize) -> Result<i64, String> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => Ok(number),
        _ => Err(format!("column {} is not a number", at + 1)),
    }
}

fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, String> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) => {
            std::str::from_utf8(bytes).map_err(|_| format!("column {} is not valid UTF-8", at + 1))
        }
        _ => Err(format!("column {} is not a text", at + 1)),
    }
}
