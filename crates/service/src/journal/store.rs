//! Where a journal is stored, and a lease that was taken before the journal is opened.

use super::error::JournalError;
use super::lease::Lease;
use super::postgres::{self, Active, Database, Held, Taken};
use super::{Durability, Kind, Options};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a journal is stored.
#[derive(Debug, Clone)]
pub enum Store {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL database.
    Postgres(Arc<Database>),
}

impl Store {
    /// Parses a path or the URL of a database. Paths are relative to `base`.
    pub fn parse(text: &Path, base: &Path) -> Result<Store, JournalError> {
        match text.to_str().filter(|text| Database::is_url(text)) {
            Some(url) => Ok(Store::Postgres(Arc::new(Database::parse(url, base)?))),
            None => Ok(Store::File(base.join(text))),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Store::File(path) => write!(f, "{}", path.display()),
            Store::Postgres(database) => write!(f, "{}", database.shown().display()),
        }
    }
}

impl From<&Path> for Store {
    fn from(path: &Path) -> Store {
        Store::File(path.to_owned())
    }
}

impl From<PathBuf> for Store {
    fn from(path: PathBuf) -> Store {
        Store::File(path)
    }
}

impl From<&PathBuf> for Store {
    fn from(path: &PathBuf) -> Store {
        Store::File(path.clone())
    }
}

impl From<&Store> for Store {
    fn from(store: &Store) -> Store {
        store.clone()
    }
}

/// A lease that was taken for a journal that is opened next. It is not renewed before that.
#[derive(Clone)]
pub struct Claim(Arc<Mutex<Option<Box<Held>>>>);

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claim")
    }
}

impl Claim {
    /// Takes the lease of a party, unless another process holds it. Fails if the database does not have the record in
    /// `mark` ([`Options::mark`]).
    pub fn take(
        database: &Database,
        kind: &Kind,
        lease: &Lease,
        mark: Option<&Path>,
    ) -> Result<Result<Claim, Active>, JournalError> {
        Ok(match postgres::take(database, kind, lease, mark, false)? {
            Taken::Held(held) => Ok(Claim(Arc::new(Mutex::new(Some(held))))),
            Taken::ByOther(active) => Err(active),
        })
    }

    /// The lease, which can be used once.
    pub(super) fn used(&self) -> Option<Box<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Takes the lease, or fails if another process holds it.
pub(super) fn take(database: &Database, kind: &Kind, options: &Options) -> Result<Box<Held>, JournalError> {
    let unsafe_settings = options.durability == Durability::None;
    match postgres::take(database, kind, &options.lease, options.mark.as_deref(), unsafe_settings)? {
        Taken::Held(held) => Ok(held),
        Taken::ByOther(Active { holder, .. }) => {
            Err(JournalError::Held { path: database.shown().to_owned(), by: holder })
        }
    }
}
