//! Checking a journal without changing it: everything is read, everything is compared, and all that is wrong is told in
//! sentences, not only the first. It needs no knowledge of what the events mean.

use super::error::{Damage, JournalError};
use super::format::{self, FORMAT};
use super::{lock, verify, wal};
use rusqlite::Connection;
use serde::de::IgnoredAny;
use std::fmt;
use std::path::{Path, PathBuf};

/// So many damages are listed; of the others only their number is told.
const MOST_LISTED: usize = 20;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The journal.
    pub path: PathBuf,
    /// The kind of head it belongs to.
    pub what: String,
    /// Whose it is.
    pub owner: String,
    /// The version of its format.
    pub format: u32,
    /// Records up to this one were dropped by compaction; a snapshot stands for them.
    pub base: u64,
    /// The last record.
    pub last: u64,
    /// How many records there are.
    pub records: u64,
    /// How many snapshots agree with their checksums.
    pub snapshots: usize,
    /// Who has it open.
    pub held_by: Option<String>,
    /// All that is wrong.
    pub damages: Vec<Damage>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

/// Reads a journal from one end to the other. Fails only where it cannot be read at all.
pub fn check(path: &Path) -> Result<Report, JournalError> {
    let path = path.canonicalize().map_err(|_| JournalError::Missing { path: path.to_owned() })?;
    let held_by = lock::holder_of(&path);
    let mut damages = Vec::new();
    if held_by.is_none() {
        // The log of a running journal changes while one looks.
        note(wal::look_for_damage(&path), &mut damages)?;
    }
    let connection = format::open_to_read(&path)?;
    // What follows is one moment of a journal that may be written to meanwhile.
    let reading = connection.unchecked_transaction().map_err(|error| JournalError::reading(&path, &error))?;
    let format = format::format_of(&path, &reading, FORMAT)?;
    let meta = format::meta(&path, &reading)?;
    note(structure(&path, &reading), &mut damages)?;
    let (mut records, mut kept) = (0, 0);
    let walked = verify::snapshots(&path, &reading, &meta).and_then(|snapshots| {
        verify::records(&path, &reading, &meta, &snapshots, |raw| {
            serde_json::from_str::<IgnoredAny>(raw.event).map(drop).map_err(|error| error.to_string())
        })
    });
    let walked = walked.map(|walked| {
        (records, kept) = (walked.records, walked.snapshots);
        damages.extend(walked.damages);
    });
    note(walked, &mut damages)?;
    if meta.base > 0 && kept == 0 && damages.is_empty() {
        damages.push(Damage::Gap { first: 1, last: meta.base });
    }
    let (base, last) = (meta.base, meta.tail);
    let (what, owner, snapshots) = (meta.what, meta.owner, kept);
    Ok(Report { path, what, owner, format, base, last, records, snapshots, held_by, damages })
}

/// Damage goes onto the list; any other failure ends the check.
fn note(outcome: Result<(), JournalError>, damages: &mut Vec<Damage>) -> Result<(), JournalError> {
    match outcome {
        Err(JournalError::Damaged { damage, .. }) => {
            damages.push(damage);
            Ok(())
        }
        other => other,
    }
}

/// What SQLite itself finds.
fn structure(path: &Path, connection: &Connection) -> Result<(), JournalError> {
    let said: String = connection
        .query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))
        .map_err(|error| JournalError::reading(path, &error))?;
    if said == "ok" {
        return Ok(());
    }
    Err(JournalError::Damaged { path: path.to_owned(), damage: Damage::Unreadable(said), more: 0 })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { what, owner, format, base, last, records, snapshots, .. } = self;
        writeln!(f, "{} is the journal of {what} {owner}, format {format}.", self.path.display())?;
        writeln!(f, "It has {records} records up to record {last}, and {snapshots} sound snapshots.")?;
        if *base > 0 {
            writeln!(f, "Records up to {base} were dropped by compaction; a snapshot stands for them.")?;
        }
        if let Some(by) = &self.held_by {
            writeln!(
                f,
                "It is in use by {by}: its write-ahead log was read, but not looked through for damage."
            )?;
        }
        if self.is_sound() {
            return writeln!(f, "Everything agrees with its checksum.");
        }
        writeln!(f, "It is damaged; restore a backup. What is wrong:")?;
        for damage in self.damages.iter().take(MOST_LISTED) {
            writeln!(f, "- {damage}")?;
        }
        match self.damages.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => writeln!(f, "- and {more} more"),
        }
    }
}
