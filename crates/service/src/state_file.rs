//! A small file of a party, written as a whole: in its state folder, or in the database of its journal, where the next
//! active process finds it.

use crate::journal::{Document, Lease, Store};
use crate::replace_file::replace_file;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub(crate) enum StateFile {
    /// Kept nowhere, for tests.
    Memory,
    File(PathBuf),
    Database(Document),
}

impl StateFile {
    /// The file `name` of a party with this kind of journal.
    pub(crate) fn new(
        name: &'static str,
        (what, owner): (&'static str, &str),
        state: &Path,
        (store, lease): (&Store, &Lease),
    ) -> StateFile {
        match store {
            Store::File(_) => StateFile::File(state.join(name)),
            Store::Postgres(database) => {
                let (database, owner, lease) = (database.clone(), owner.to_owned(), lease.clone());
                StateFile::Database(Document { database, what, owner, name, lease })
            }
        }
    }

    /// Blocks.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match self {
            StateFile::Memory => Ok(None),
            StateFile::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
                Err(why) => Err(why),
            },
            StateFile::Database(document) => document.read().map_err(io::Error::other),
        }
    }

    /// Replaces the content durably. Blocks.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            StateFile::Memory => Ok(()),
            StateFile::File(path) => replace_file(path, bytes),
            StateFile::Database(document) => document.write(bytes).map_err(io::Error::other),
        }
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateFile::Memory => f.write_str("memory"),
            StateFile::File(path) => write!(f, "{}", path.display()),
            StateFile::Database(document) => write!(f, "{} in {:?}", document.name, document.database),
        }
    }
}
