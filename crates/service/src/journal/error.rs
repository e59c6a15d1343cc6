//! Errors of a journal, for operators: what happened, why, and what to do. Errors can be cloned, because one failed
//! write is reported to all waiting callers.

use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a journal cannot be opened, written or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum JournalError {
    #[error(
        "the journal {} is in use by {by}; stop that first, or give this one another journal",
        path.display()
    )]
    Held { path: PathBuf, by: String },
    #[error("there is no journal {}; check the path", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a Bookahead journal: {why}; check the path, or restore a backup", path.display())]
    NotAJournal { path: PathBuf, why: String },
    #[error("{} is the journal of {found}, not of {wanted}; check the path", path.display())]
    WrongKind { path: PathBuf, found: String, wanted: String },
    #[error(
        "the journal {} has {what} {found}, but this release supports up to {known}; use a newer release",
        path.display()
    )]
    Newer {
        path: PathBuf,
        /// What is too new: the format, or the events.
        what: &'static str,
        found: u32,
        known: u32,
    },
    #[error(
        "the journal {} is damaged: {damage}{}; `check` lists all damage; restore a backup",
        path.display(),
        and_more(*more)
    )]
    Damaged {
        path: PathBuf,
        /// The first damage found.
        damage: Damage,
        more: usize,
    },
    #[error(
        "the journal {} is read-only, and its write-ahead log has records that are not merged yet; copy both files \
         (….db and ….db-wal) to a writable folder, and read them there",
        path.display()
    )]
    Unmerged { path: PathBuf },
    #[error("the journal {}: {doing} failed: {why}", path.display())]
    Storage {
        path: PathBuf,
        doing: &'static str,
        why: String,
        /// Whether the disk was full.
        full: bool,
    },
    #[error("lost the lease on the journal {}: {why}", path.display())]
    LeaseLost { path: PathBuf, why: String },
    #[error("{0}")]
    Address(String),
    #[error(
        "the journal accepts no more writes, because an earlier one failed: {why}; fix the cause and restart"
    )]
    Poisoned { why: String },
    #[error("the journal is closed")]
    Closed,
    #[error("{what} cannot be converted to or from JSON: {why}")]
    Json { what: String, why: String },
    #[error("cannot store a snapshot up to record {up_to}: the journal has records {first} to {last}")]
    SnapshotElsewhere {
        up_to: u64,
        /// First record in the file.
        first: u64,
        last: u64,
    },
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

impl JournalError {
    /// An I/O error of the operating system.
    pub(crate) fn io(path: &Path, doing: &'static str, error: &std::io::Error) -> JournalError {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        JournalError::Storage { path: path.to_owned(), doing, why: error.to_string(), full }
    }

    /// An error of SQLite while writing.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, error: &rusqlite::Error) -> JournalError {
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        JournalError::Storage { path: path.to_owned(), doing, why: error.to_string(), full }
    }

    /// An error of SQLite while reading. Unless the system is the cause, the file is damaged.
    pub(crate) fn reading(path: &Path, error: &rusqlite::Error) -> JournalError {
        use rusqlite::ErrorCode as Code;
        let path = path.to_owned();
        match error.sqlite_error_code() {
            // A wrong path is more likely than a damaged first page.
            Some(Code::NotADatabase) => {
                JournalError::NotAJournal { path, why: "it is not a SQLite database".to_owned() }
            }
            // The lock file excludes other services, so this is mostly another program, such as sqlite3.
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                JournalError::Held { path, by: "a process that uses it with SQLite".to_owned() }
            }
            Some(
                Code::CannotOpen
                | Code::PermissionDenied
                | Code::ReadOnly
                | Code::SystemIoFailure
                | Code::DiskFull
                | Code::OutOfMemory,
            ) => JournalError::sqlite(&path, "reading it", error),
            // Also errors without a code, such as a column with a value of another type.
            _ => JournalError::Damaged { path, damage: Damage::Unreadable(error.to_string()), more: 0 },
        }
    }

    /// Whether the cause is a full disk.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, JournalError::Storage { full: true, .. })
    }
}

/// One damage in a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Damage {
    Unreadable(String),
    Gap { first: u64, last: u64 },
    Changed { sequence: u64 },
    Senseless { sequence: u64, why: String },
    Snapshot { up_to: u64, why: String },
    Tail { said: u64, found: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Unreadable(why) => write!(f, "it cannot be read ({why})"),
            Damage::Gap { first, last } if first == last => write!(f, "record {first} is missing"),
            Damage::Gap { first, last } => write!(f, "records {first} to {last} are missing"),
            Damage::Changed { sequence } => {
                write!(f, "record {sequence} does not match its checksum: it was changed or moved")
            }
            Damage::Senseless { sequence, why } => write!(f, "record {sequence} cannot be read: {why}"),
            Damage::Snapshot { up_to, why } => {
                write!(f, "the snapshot up to record {up_to} is unusable: {why}")
            }
            Damage::Tail { said, found } if said == found => {
                write!(f, "the last record, {found}, is not the one that was written last")
            }
            Damage::Tail { said, found } => {
                write!(f, "it should end with record {said}, but ends with record {found}")
            }
        }
    }
}
