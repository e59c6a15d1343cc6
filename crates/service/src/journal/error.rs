//! What can go wrong with a journal, in words for whoever runs it: what, why, and what to do. Errors can be cloned, since
//! one failure of the disk is told to everybody who waits.

use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a journal cannot be opened, written or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalError {
    /// Another process, or another part of this one, has it open.
    #[error(
        "the journal {} is in use by {by}; stop that first, or give this one another journal",
        path.display()
    )]
    Held {
        /// The journal.
        path: PathBuf,
        /// Who, as far as it is known.
        by: String,
    },
    /// There is no file of that name.
    #[error("there is no journal {}; look at the path", path.display())]
    Missing {
        /// The journal.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a journal of Bookahead: {why}; look at the path, or restore a backup", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// How that is known.
        why: String,
    },
    /// The journal belongs to somebody else.
    #[error("{} is the journal of {found}, not of {wanted}; look at the path", path.display())]
    WrongKind {
        /// The journal.
        path: PathBuf,
        /// What it says it is.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A newer release wrote it.
    #[error(
        "the journal {} has {what} {found}, and this release knows them up to {known}; use a newer release",
        path.display()
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Which version: of the format, or of the events.
        what: &'static str,
        /// What was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// What is on disk is not what was written.
    #[error(
        "the journal {} is damaged: {damage}{}; `check` lists all that is wrong; restore a backup",
        path.display(),
        and_more(*more)
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The first damage found.
        damage: Damage,
        /// How many more there are.
        more: usize,
    },
    /// The disk or SQLite failed.
    #[error("the journal {}: {doing} failed: {why}", path.display())]
    Storage {
        /// The journal.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What SQLite or the system said.
        why: String,
        /// Whether there was no room left.
        full: bool,
    },
    /// A write failed before; what is on disk since then is unknown, so nothing is acknowledged any more.
    #[error(
        "the journal takes nothing any more, since an earlier write failed: {why}; open it again once that is mended"
    )]
    Poisoned {
        /// The failure.
        why: String,
    },
    /// So much waits to be written that no more is taken.
    #[error("the journal has {waiting} events waiting to be written and takes no more now; try again")]
    Full {
        /// How many wait.
        waiting: usize,
    },
    /// It was closed.
    #[error("the journal is closed")]
    Closed,
    /// An event or a state cannot be written as JSON, or read from it.
    #[error("{what} is not to be had as JSON: {why}")]
    Json {
        /// Which event or state.
        what: String,
        /// What the reader or writer said.
        why: String,
    },
    /// A snapshot stands for events that are not there.
    #[error("a snapshot up to record {up_to} cannot be kept: the journal has records {first} to {last}")]
    SnapshotElsewhere {
        /// Of the snapshot.
        up_to: u64,
        /// The first record that is kept.
        first: u64,
        /// The last.
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
pub enum Damage {
    /// SQLite cannot make sense of the file.
    Unreadable(String),
    /// Records that should be there are not.
    Gap {
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// A record is not what was written after the one before it.
    Changed {
        /// Its number.
        sequence: u64,
    },
    /// A record cannot be read.
    Senseless {
        /// Its number.
        sequence: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A snapshot is not what was written.
    Snapshot {
        /// Up to which record.
        up_to: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The journal says that it ends elsewhere.
    Tail {
        /// Where it says it ends.
        said: u64,
        /// Where it ends.
        found: u64,
    },
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
