//! Tables of the schema `bookahead`: created at the first start, with the row of each party, and the small files that
//! the processes of a party share.

use super::database::{Database, Failure, Session};
use super::{PATIENCE, Value};
use crate::journal::Kind;
use crate::journal::error::JournalError;
use crate::journal::format::{Chain, Meta};
use crate::journal::lease::Lease;
use crate::journal::verify::{Raw, RawSnapshot, Source};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// The version of the tables that is written.
const FORMAT: u32 = 1;

const TABLES: &str = include_str!("tables.sql");

/// Records in one statement of a copy.
const AT_ONCE: usize = 2_000;

pub(super) fn exist(session: &mut Session) -> Result<bool, Failure> {
    let rows = session.query(PATIENCE, "SELECT to_regclass('bookahead.party') IS NOT NULL", &[])?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

/// Creates the tables unless they exist, and refuses those of a newer release.
pub(super) fn prepare(session: &mut Session) -> Result<(), JournalError> {
    let path = session.path().to_owned();
    let failed = |failure: Failure| failure.into_error(&path, "creating its tables");
    if !exist(session).map_err(failed)? {
        // Not CREATE … IF NOT EXISTS, which two processes cannot run at the same time either.
        match session.batch(PATIENCE, TABLES) {
            Err(Failure::Refused { exists: true, .. }) | Ok(()) => {}
            Err(failure) => return Err(failed(failure)),
        }
    }
    format(session).map(drop)
}

/// The version of the tables, if it is supported.
pub(super) fn format(session: &mut Session) -> Result<u32, JournalError> {
    let path = session.path().to_owned();
    let rows = session.query(PATIENCE, "SELECT version FROM bookahead.format", &[]);
    let rows = rows.map_err(|failure| failure.into_error(&path, "reading it"))?;
    let found: Option<i32> = rows.first().and_then(|row| row.try_get(0).ok());
    match found.and_then(|found| u32::try_from(found).ok()) {
        Some(found) if found <= FORMAT => Ok(found),
        found => {
            let (what, found) = ("a format of version", found.unwrap_or(u32::MAX));
            Err(JournalError::Newer { path, what, found, known: FORMAT })
        }
    }
}

/// Number of a party. Creates its row.
pub(super) fn party(session: &mut Session, kind: &Kind) -> Result<i64, JournalError> {
    let path = session.path().to_owned();
    let failed = |failure: Failure| failure.into_error(&path, "opening it");
    let genesis = Chain::genesis(&kind.what, &kind.owner).0.cast_signed();
    let names: [Value<'_>; 2] = [(&kind.what, Type::TEXT), (&kind.owner, Type::TEXT)];
    let find = "SELECT id FROM bookahead.party WHERE what = $1 AND owner = $2";
    let mut rows = session.query(PATIENCE, find, &names).map_err(failed)?;
    if rows.is_empty() {
        let insert = "INSERT INTO bookahead.party (what, owner, base, base_chain, tail, tail_chain) \
                      VALUES ($1, $2, 0, $3, 0, $3) ON CONFLICT DO NOTHING";
        let values: [Value<'_>; 3] =
            [(&kind.what, Type::TEXT), (&kind.owner, Type::TEXT), (&genesis, Type::INT8)];
        session.query(PATIENCE, insert, &values).map_err(failed)?;
        rows = session.query(PATIENCE, find, &names).map_err(failed)?;
    }
    let Some(row) = rows.first() else { return Err(JournalError::Missing { path }) };
    row.try_get(0).map_err(|why| failed(why.into()))
}

/// A small file that all processes of a party share.
#[derive(Debug, Clone)]
pub struct SharedFile<'a> {
    /// Database of the journal.
    pub database: &'a Database,
    /// Kind of the journal.
    pub what: &'a str,
    /// Name of the party.
    pub owner: &'a str,
    /// Name of the file.
    pub name: &'a str,
}

/// The contents of a shared file. Stores `offered` if there is none, and returns what is stored: of several processes
/// that offer something at the same time, all get the same. Needs no lease, because nothing is replaced.
pub fn shared_file(
    file: &SharedFile<'_>,
    offered: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, JournalError> {
    let SharedFile { database, what, owner, name } = *file;
    let mut session = Session::new(database, true)?;
    prepare(&mut session)?;
    let failed = |failure: Failure| failure.into_error(database.shown(), "reading a shared file");
    let key: [Value<'_>; 3] = [(&what, Type::TEXT), (&owner, Type::TEXT), (&name, Type::TEXT)];
    let find = "SELECT content FROM bookahead.file WHERE what = $1 AND owner = $2 AND name = $3";
    let mut rows = session.query(PATIENCE, find, &key).map_err(failed)?;
    if rows.is_empty()
        && let Some(content) = offered()
    {
        let insert = "INSERT INTO bookahead.file VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let mut values = key.to_vec();
        values.push((&content, Type::BYTEA));
        session.query(PATIENCE, insert, &values).map_err(failed)?;
        rows = session.query(PATIENCE, find, &key).map_err(failed)?;
    }
    rows.first().map(|row| row.try_get(0)).transpose().map_err(|why| failed(why.into()))
}

/// Deletes a shared file.
pub fn remove_shared_file(file: &SharedFile<'_>) -> Result<(), JournalError> {
    let SharedFile { database, what, owner, name } = *file;
    let mut session = Session::new(database, true)?;
    let delete = "DELETE FROM bookahead.file WHERE what = $1 AND owner = $2 AND name = $3";
    let key: [Value<'_>; 3] = [(&what, Type::TEXT), (&owner, Type::TEXT), (&name, Type::TEXT)];
    let deleted = session.query(PATIENCE, delete, &key);
    deleted.map(drop).map_err(|failure| failure.into_error(database.shown(), "deleting a shared file"))
}

/// A small file of a party, which only its active process writes.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) database: Arc<Database>,
    pub(crate) what: &'static str,
    pub(crate) owner: String,
    pub(crate) name: &'static str,
    pub(crate) lease: Lease,
}

impl Document {
    /// Its contents. Blocks.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, JournalError> {
        let Document { database, what, owner, name, .. } = self;
        shared_file(&SharedFile { database, what, owner, name }, || None)
    }

    /// Replaces its contents. Blocks. Fails if another process is active.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), JournalError> {
        // Opened for each write, which are few.
        let mut session = Session::new(&self.database, false)?;
        let failed = |failure: Failure| failure.into_error(self.database.shown(), "writing a shared file");
        let epoch = self.lease.epoch().cast_signed();
        let values: [Value<'_>; 5] = [
            (&self.what, Type::TEXT),
            (&self.owner, Type::TEXT),
            (&self.name, Type::TEXT),
            (&content, Type::BYTEA),
            (&epoch, Type::INT8),
        ];
        let write = "INSERT INTO bookahead.file SELECT $1, $2, $3, $4 FROM bookahead.party \
                     WHERE what = $1 AND owner = $2 AND epoch = $5 \
                     ON CONFLICT (what, owner, name) DO UPDATE SET content = excluded.content RETURNING 1";
        if session.query(PATIENCE, write, &values).map_err(failed)?.is_empty() {
            let why = "another process took over".to_owned();
            return Err(JournalError::LeaseLost { path: self.database.shown().to_owned(), why });
        }
        Ok(())
    }
}

/// The highest epochs of the callers of a party.
pub(crate) struct CallerEpochs {
    pub(crate) database: Arc<Database>,
    pub(crate) what: &'static str,
    pub(crate) owner: String,
}

impl CallerEpochs {
    /// All of them.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, u64>, JournalError> {
        let mut session = Session::new(&self.database, true)?;
        let failed = |failure: Failure| failure.into_error(self.database.shown(), "reading epochs");
        let query = "SELECT caller, epoch FROM bookahead.caller WHERE what = $1 AND owner = $2";
        let values: [Value<'_>; 2] = [(&self.what, Type::TEXT), (&self.owner, Type::TEXT)];
        let rows = session.query(PATIENCE, query, &values).map_err(failed)?;
        let pair = |row: &Row| Ok((row.try_get(0)?, row.try_get::<_, i64>(1)?.cast_unsigned()));
        let pairs: Result<_, tokio_postgres::Error> = rows.iter().map(pair).collect();
        pairs.map_err(|why| failed(why.into()))
    }

    /// Raises one, and forgets others. Needs no lease, because it never goes back.
    pub(crate) fn raise(&self, caller: &str, epoch: u64, forgotten: &[String]) -> Result<(), JournalError> {
        let mut session = Session::new(&self.database, false)?;
        let raise = "INSERT INTO bookahead.caller AS known VALUES ($1, $2, $3, $4) \
                     ON CONFLICT (what, owner, caller) DO UPDATE SET epoch = greatest(known.epoch, excluded.epoch)";
        let epoch = epoch.cast_signed();
        let values: [Value<'_>; 4] = [
            (&self.what, Type::TEXT),
            (&self.owner, Type::TEXT),
            (&caller, Type::TEXT),
            (&epoch, Type::INT8),
        ];
        let failed = |failure: Failure| failure.into_error(self.database.shown(), "recording an epoch");
        session.query(PATIENCE, raise, &values).map_err(failed)?;
        for caller in forgotten {
            let forget = "DELETE FROM bookahead.caller WHERE what = $1 AND owner = $2 AND caller = $3";
            let values: [Value<'_>; 3] =
                [(&self.what, Type::TEXT), (&self.owner, Type::TEXT), (caller, Type::TEXT)];
            session.query(PATIENCE, forget, &values).map_err(failed)?;
        }
        Ok(())
    }
}

/// Fills the journal of a new party with the rows of another journal, as they are.
pub(crate) fn fill(database: &Database, meta: &Meta, source: &mut dyn Source) -> Result<(), JournalError> {
    let mut session = Session::new(database, false)?;
    prepare(&mut session)?;
    let id = party(&mut session, &Kind::new(meta.what.clone(), meta.owner.clone(), 0))?;
    let path = database.shown().to_owned();
    let failed = |failure: Failure| failure.into_error(&path, "copying");
    session.begin(PATIENCE, "BEGIN").map_err(failed)?;
    let claim = "UPDATE bookahead.party SET base = $2, base_chain = $3, tail = $4, tail_chain = $5 \
                 WHERE id = $1 AND holder IS NULL AND base = 0 AND tail = 0 RETURNING id";
    let ends = [meta.base, meta.base_chain.0, meta.tail, meta.tail_chain.0].map(u64::cast_signed);
    let mut values: Vec<Value<'_>> = vec![(&id, Type::INT8)];
    values.extend(ends.iter().map(|end| (end as _, Type::INT8)));
    if session.query(PATIENCE, claim, &values).map_err(failed)?.is_empty() {
        let (path, owner) = (path.display(), &meta.owner);
        return Err(JournalError::Address(format!(
            "{path} has a journal of {owner} already; nothing was copied"
        )));
    }
    let mut copy = Copy { session, id, waiting: Vec::new(), outcome: Ok(()) };
    source.each_record(&mut |_, raw| copy.take(raw))?;
    copy.flush();
    source.each_snapshot(&mut |_, raw| copy.take_snapshot(raw))?;
    copy.outcome.map_err(failed)?;
    copy.session.batch(PATIENCE, "COMMIT").map_err(failed)
}

/// Writes records in groups. After a failure it writes nothing more.
struct Copy {
    session: Session,
    id: i64,
    waiting: Vec<(i64, i64, i64, String, i64)>,
    outcome: Result<(), Failure>,
}

impl Copy {
    fn take(&mut self, raw: Result<Raw<'_>, String>) {
        // The source was verified before, so every row can be read.
        let Ok(raw) = raw else { return };
        let (sequence, checksum) = (raw.sequence.cast_signed(), raw.checksum.0.cast_signed());
        self.waiting.push((sequence, raw.schema.into(), raw.written_at, raw.event.to_owned(), checksum));
        if self.waiting.len() >= AT_ONCE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if self.outcome.is_err() || waiting.is_empty() {
            return;
        }
        let sequences: Vec<i64> = waiting.iter().map(|line| line.0).collect();
        let schemas: Vec<i64> = waiting.iter().map(|line| line.1).collect();
        let times: Vec<i64> = waiting.iter().map(|line| line.2).collect();
        let events: Vec<&str> = waiting.iter().map(|line| line.3.as_str()).collect();
        let checksums: Vec<i64> = waiting.iter().map(|line| line.4).collect();
        let insert = "INSERT INTO bookahead.record SELECT $1, * FROM unnest($2, $3, $4, $5, $6)";
        let values: [Value<'_>; 6] = [
            (&self.id, Type::INT8),
            (&sequences, Type::INT8_ARRAY),
            (&schemas, Type::INT8_ARRAY),
            (&times, Type::INT8_ARRAY),
            (&events, Type::TEXT_ARRAY),
            (&checksums, Type::INT8_ARRAY),
        ];
        self.outcome = self.session.query(PATIENCE * 6, insert, &values).map(drop);
    }

    fn take_snapshot(&mut self, raw: Result<RawSnapshot<'_>, String>) {
        let (Ok(()), Ok(raw)) = (&self.outcome, raw) else { return };
        let schema = i64::from(raw.schema);
        let numbers = [raw.up_to, raw.chain.0, raw.checksum].map(u64::cast_signed);
        let insert = "INSERT INTO bookahead.snapshot VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values: [Value<'_>; 7] = [
            (&self.id, Type::INT8),
            (&numbers[0], Type::INT8),
            (&schema, Type::INT8),
            (&raw.written_at, Type::INT8),
            (&numbers[1], Type::INT8),
            (&raw.state, Type::TEXT),
            (&numbers[2], Type::INT8),
        ];
        self.outcome = self.session.query(PATIENCE * 6, insert, &values).map(drop);
    }
}
