//! What can go wrong with a journal, in words for whoever runs it: what, why, and what to do. Errors can be cloned, since
//! one failure of the disk is told to everybody who waits.

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
    #[error("there is no journal {}; look at the path", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a journal of Bookahead: {why}; look at the path, or restore a backup", path.display())]
    NotAJournal { path: PathBuf, why: String },
    #[error("{} is the journal of {found}, not of {wanted}; look at the path", path.display())]
    WrongKind { path: PathBuf, found: String, wanted: String },
    #[error(
        "the journal {} has {what} {found}, and this release knows them up to {known}; use a newer release",
        path.display()
    )]
    Newer {
        path: PathBuf,
        /// Which version: of the format, or of the events.
        what: &'static str,
        found: u32,
        known: u32,
    },
    #[error(
        "the journal {} is damaged: {damage}{}; `check` lists all that is wrong; restore a backup",
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
        "the journal {} cannot be written, and its write-ahead log has records that are not merged yet; copy both files \
         (….db and ….db-wal) to a folder that can be written, and read them there",
        path.display()
    )]
    Unmerged { path: PathBuf },
    #[error("the journal {}: {doing} failed: {why}", path.display())]
    Storage {
        path: PathBuf,
        doing: &'static str,
        why: String,
        /// Whether there was no room left.
        full: bool,
    },
    #[error(
        "the journal takes nothing any more, since an earlier write failed: {why}; open it again once that is mended"
    )]
    Poisoned { why: String },
    #[error("the journal is closed")]
    Closed,
    #[error("{what} is not to be had as JSON: {why}")]
    Json { what: String, why: String },
    #[error("a snapshot up to record {up_to} cannot be kept: the journal has records {first} to {last}")]
    SnapshotElsewhere {
        up_to: u64,
        /// The first record that is kept.
        first: u64,
        last: u64,
    },
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

impl JournalError {
    /// What the system said of a file.
    pub(crate) fn io(path: &Path, doing: &'static str, error: &std::io::Error) -> JournalError {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        JournalError::Storage { path: path.to_owned(), doing, why: error.to_string(), full }
    }

    /// What SQLite said while something was written.
    pub(crate) fn sqlite(path: &Path, doing: &'static str, error: &rusqlite::Error) -> JournalError {
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        JournalError::Storage { path: path.to_owned(), doing, why: error.to_string(), full }
    }

    /// What SQLite said while a journal was read: where it is not the system's fault, the file is not what was
    /// written.
    pub(crate) fn reading(path: &Path, error: &rusqlite::Error) -> JournalError {
        use rusqlite::ErrorCode as Code;
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(Code::NotADatabase) => {
                JournalError::NotAJournal { path, why: "it is not a SQLite database".to_owned() }
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                JournalError::Held { path, by: "a process that works on it with SQLite".to_owned() }
            }
            Some(
                Code::CannotOpen
                | Code::PermissionDenied
                | Code::ReadOnly
                | Code::SystemIoFailure
                | Code::DiskFull
                | Code::OutOfMemory,
            ) => JournalError::sqlite(&path, "reading it", error),
            _ => JournalError::Damaged { path, damage: Damage::Unreadable(error.to_string()), more: 0 },
        }
    }

    /// Whether what failed was for lack of room on the disk.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, JournalError::Storage { full: true, .. })
    }
}

/// One thing that is wrong in a journal.
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
            Damage::Unreadable(why) => write!(f, "SQLite cannot read it ({why})"),
            Damage::Gap { first, last } if first == last => write!(f, "record {first} is missing"),
            Damage::Gap { first, last } => write!(f, "records {first} to {last} are missing"),
            Damage::Changed { sequence } => write!(
                f,
                "record {sequence} does not agree with its checksum: it, or its place in the journal, was changed"
            ),
            Damage::Senseless { sequence, why } => write!(f, "record {sequence} cannot be read: {why}"),
            Damage::Snapshot { up_to, why } => {
                write!(f, "the snapshot up to record {up_to} is unusable: {why}")
            }
            Damage::Tail { said, found } if said == found => {
                write!(f, "record {found}, the last, is not the one that was written last")
            }
            Damage::Tail { said, found } => {
                write!(f, "it should end with record {said}, but ends with record {found}")
            }
        }
    }
}
