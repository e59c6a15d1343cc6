//! Reading a journal in PostgreSQL: the queries, and a reader for journals that another process may hold.

use super::database::{Database, Failure, Session};
use super::{PATIENCE, tables};
use crate::journal::error::JournalError;
use crate::journal::format::{Chain, Meta};
use crate::journal::verify::{Raw, RawSnapshot, SeeRecord, SeeSnapshot, Source};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// The newest first.
pub(super) const SNAPSHOTS: &str = "SELECT up_to, schema, written_at, chain, state, checksum \
                                    FROM bookahead.snapshot WHERE party = $1 ORDER BY up_to DESC";

/// One page. A few thousand records take some milliseconds and a few megabytes.
pub(super) const RECORDS: &str = "SELECT sequence, schema, written_at, event, checksum FROM bookahead.record \
                                  WHERE party = $1 AND sequence > $2 ORDER BY sequence LIMIT 4096";

/// How long a reader that holds nothing waits for one page.
const PAGE_WITHIN: Duration = Duration::from_secs(60);

/// Shows the snapshots.
pub(super) fn snapshot_rows(rows: &[Row], see: SeeSnapshot<'_>) {
    for row in rows {
        let snapshot = || -> Result<RawSnapshot<'_>, tokio_postgres::Error> {
            Ok(RawSnapshot {
                up_to: number(row, 0)?,
                schema: schema(row, 1)?,
                written_at: row.try_get(2)?,
                chain: Chain(number(row, 3)?),
                state: row.try_get(4)?,
                checksum: number(row, 5)?,
            })
        };
        see(number(row, 0).unwrap_or(0), snapshot().map_err(|why| why.to_string()));
    }
}

/// Shows a page of records. Returns the number of the last one; `None` after the last page.
pub(super) fn record_page(rows: &[Row], see: SeeRecord<'_>) -> Option<i64> {
    for row in rows {
        let record = || -> Result<Raw<'_>, tokio_postgres::Error> {
            Ok(Raw {
                sequence: number(row, 0)?,
                schema: schema(row, 1)?,
                written_at: row.try_get(2)?,
                event: row.try_get(3)?,
                checksum: Chain(number(row, 4)?),
            })
        };
        see(number(row, 0).unwrap_or(0), record().map_err(|why| why.to_string()));
    }
    rows.last().and_then(|row| row.try_get(0).ok())
}

fn number(row: &Row, at: usize) -> Result<u64, tokio_postgres::Error> {
    row.try_get::<_, i64>(at).map(i64::cast_unsigned)
}

/// A version outside of its range counts as one that no release knows, and is reported as too new.
fn schema(row: &Row, at: usize) -> Result<u32, tokio_postgres::Error> {
    row.try_get::<_, i64>(at).map(|schema| u32::try_from(schema).unwrap_or(u32::MAX))
}

/// Reads one journal in a read-only transaction, so that all queries see the same state.
pub(crate) struct Reader {
    session: Session,
    id: i64,
    path: PathBuf,
    pub(crate) meta: Meta,
    pub(crate) format: u32,
    /// The process that is active.
    pub(crate) held_by: Option<String>,
}

/// Kinds and owners of all journals in a database.
fn parties(database: &Database) -> Result<Vec<(String, String)>, JournalError> {
    let mut session = Session::new(database, true)?;
    let failed = |failure: Failure| failure.into_error(database.shown(), "reading it");
    if !tables::exist(&mut session).map_err(failed)? {
        return Ok(Vec::new());
    }
    let query = "SELECT what, owner FROM bookahead.party ORDER BY owner, what";
    let rows = session.query(PATIENCE, query, &[]).map_err(failed)?;
    let pair = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let pairs: Result<Vec<_>, tokio_postgres::Error> = rows.iter().map(pair).collect();
    pairs.map_err(|why| failed(why.into()))
}

impl Reader {
    /// Opens the journal of the party that the URL names, or the only one.
    pub(crate) fn open(database: &Database) -> Result<Reader, JournalError> {
        let all = parties(database)?;
        let wanted =
            |(_, owner): &&(String, String)| database.party.as_ref().is_none_or(|party| party == owner);
        let found: Vec<_> = all.iter().filter(wanted).collect();
        let [(what, owner)] = found[..] else {
            let names: Vec<_> = all.iter().map(|(_, owner)| owner.as_str()).collect();
            return Err(match &all[..] {
                [] => JournalError::Missing { path: database.shown().to_owned() },
                _ => JournalError::Address(format!(
                    "{} has the journals of {}; add party=NAME to its URL",
                    database.shown().display(),
                    names.join(", ")
                )),
            });
        };
        let mut session = Session::new(database, true)?;
        let path = database.shown().to_owned();
        let failed = |failure: Failure| failure.into_error(&path, "reading it");
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        session.begin(PATIENCE, begin).map_err(failed)?;
        let format = tables::format(&mut session)?;
        let query = "SELECT id, base, base_chain, tail, tail_chain, \
                     CASE WHEN lease_until > clock_timestamp() THEN holder END \
                     FROM bookahead.party WHERE what = $1 AND owner = $2";
        let rows =
            session.query(PATIENCE, query, &[(what, Type::TEXT), (owner, Type::TEXT)]).map_err(failed)?;
        let Some(row) = rows.first() else { return Err(JournalError::Missing { path }) };
        let read = |at: usize| number(row, at).map_err(|why| failed(why.into()));
        let mut meta = Meta {
            what: what.clone(),
            owner: owner.clone(),
            base: read(1)?,
            base_chain: Chain(read(2)?),
            tail: read(3)?,
            tail_chain: Chain(read(4)?),
        };
        meta.trust_genesis();
        let id = read(0)?.cast_signed();
        let held_by = row.try_get(5).map_err(|why| failed(why.into()))?;
        Ok(Reader { session, id, path, meta, format, held_by })
    }
}

impl Source for Reader {
    fn path(&self) -> &Path {
        &self.path
    }

    fn each_snapshot(&mut self, see: SeeSnapshot<'_>) -> Result<(), JournalError> {
        let rows = self.session.query(PAGE_WITHIN, SNAPSHOTS, &[(&self.id, Type::INT8)]);
        let rows = rows.map_err(|failure| failure.into_error(&self.path, "reading it"))?;
        snapshot_rows(&rows, see);
        Ok(())
    }

    fn each_record(&mut self, see: SeeRecord<'_>) -> Result<(), JournalError> {
        let mut after = 0_i64;
        loop {
            let values = [(&self.id as _, Type::INT8), (&after as _, Type::INT8)];
            let rows = self.session.query(PAGE_WITHIN, RECORDS, &values);
            let rows = rows.map_err(|failure| failure.into_error(&self.path, "reading it"))?;
            let Some(last) = record_page(&rows, see) else { return Ok(()) };
            after = last;
        }
    }
}
