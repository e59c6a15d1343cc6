//! Copies a journal to another store, record by record, and verifies the copy. The source stays as it is. Both must be
//! unused meanwhile, and there must be nothing at the destination.

use super::error::JournalError;
use super::format::{self, Meta};
use super::lease::Lease;
use super::lock::Lock;
use super::postgres::{self, Reader, Taken, fill};
use super::sqlite::{Rows, Sqlite};
use super::verify::{self, Source};
use super::{Kind, Options, Store};

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Kind and owner of the journal.
    pub of: (String, String),
    /// Number of the last record.
    pub last: u64,
    /// Number of records.
    pub records: u64,
    /// Number of snapshots.
    pub snapshots: usize,
}

/// Copies a journal. Fails without a trace at the destination if the source is damaged or in use.
pub fn copy(from: impl Into<Store>, to: impl Into<Store>) -> Result<Copied, JournalError> {
    let to = to.into();
    match from.into() {
        Store::File(path) => {
            let _lock = Lock::take(&path)?;
            let connection = format::open_to_read(&path)?;
            format::format_of(&path, &connection, format::FORMAT)?;
            let meta = format::meta(&path, &connection)?;
            copy_from(&mut Rows { path: &path, connection: &connection }, &meta, &to)
        }
        Store::Postgres(database) => {
            // The party is known only after reading its row. The lease keeps the service away meanwhile.
            let meta = Reader::open(&database)?.meta;
            let kind = Kind::new(meta.what, meta.owner, 0);
            match postgres::take(&database, &kind, &Lease::default(), None, false)? {
                Taken::ByOther(active) => {
                    Err(JournalError::Held { path: database.shown().to_owned(), by: active.holder })
                }
                Taken::Held(mut held) => {
                    let meta = held.meta().clone();
                    let copied = copy_from(&mut *held, &meta, &to);
                    held.release();
                    copied
                }
            }
        }
    }
}

fn copy_from(source: &mut dyn Source, meta: &Meta, to: &Store) -> Result<Copied, JournalError> {
    let expected = verified(source, meta)?;
    let written = match to {
        Store::File(path) => {
            if path.exists() {
                let path = path.display();
                return Err(JournalError::Address(format!("{path} exists already; nothing was copied")));
            }
            let kind = Kind::new(meta.what.clone(), meta.owner.clone(), 0);
            let (sqlite, _, _) = Sqlite::open(path, &kind, &Options::default())?;
            sqlite.fill(meta, source)?;
            drop(sqlite);
            let connection = format::open_to_read(path)?;
            let found = format::meta(path, &connection)?;
            (verified(&mut Rows { path, connection: &connection }, &found)?, found)
        }
        Store::Postgres(database) => {
            fill(database, meta, source)?;
            let mut named = (**database).clone();
            named.party = Some(meta.owner.clone());
            let mut reader = Reader::open(&named)?;
            let found = reader.meta.clone();
            (verified(&mut reader, &found)?, found)
        }
    };
    // Checksums are chained: with the same last one, all records are the same.
    if written == (expected.clone(), meta.clone()) {
        return Ok(expected);
    }
    Err(JournalError::Address(format!("the copy {to} differs from its source; delete it and copy again")))
}

/// Verifies every record and snapshot.
fn verified(source: &mut dyn Source, meta: &Meta) -> Result<Copied, JournalError> {
    let snapshots = verify::snapshots(source, meta)?;
    let walked = verify::records(source, meta, &snapshots, |_| Ok(()))?;
    if let Some((damage, rest)) = walked.damages.split_first() {
        let (path, damage, more) = (source.path().to_owned(), damage.clone(), rest.len());
        return Err(JournalError::Damaged { path, damage, more });
    }
    let of = (meta.what.clone(), meta.owner.clone());
    Ok(Copied { of, last: meta.tail, records: walked.records, snapshots: walked.snapshots })
}
