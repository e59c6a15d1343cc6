//! Checks a journal without changing it, and exports it as JSON lines. Reads everything, reports every damage, and
//! still exports the sound records. Does not interpret events.

use super::error::{Damage, JournalError};
use super::format::{FORMAT, Meta};
use super::postgres::Reader;
use super::sqlite::Rows;
use super::verify::Source;
use super::{Store, format, lock, verify};
use rusqlite::{Connection, Statement};
use serde::de::IgnoredAny;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Damages listed in a report. The rest is only counted, so that the report of a badly damaged file stays readable.
const MOST_LISTED: usize = 20;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Path of the journal.
    pub path: PathBuf,
    /// Kind of journal: `ledger` or `broker`.
    pub what: String,
    /// Name of the site or broker.
    pub owner: String,
    /// Format version.
    pub format: u32,
    /// Records up to this one were dropped by compaction; a snapshot replaces them.
    pub base: u64,
    /// Number of the last record.
    pub last: u64,
    /// Number of records in the file.
    pub records: u64,
    /// Number of snapshots with a valid checksum.
    pub snapshots: usize,
    /// The process that has it open, if any.
    pub held_by: Option<String>,
    /// All damages found.
    pub damages: Vec<Damage>,
}

impl Report {
    /// Whether there is no damage.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

/// Reads a whole journal. Fails only if it cannot be read at all; damage is part of the report.
pub fn check(store: impl Into<Store>) -> Result<Report, JournalError> {
    match store.into() {
        Store::File(path) => check_file(&path),
        Store::Postgres(database) => {
            let mut reader = Reader::open(&database)?;
            let (meta, format, held_by) = (reader.meta.clone(), reader.format, reader.held_by.take());
            report(&mut reader, meta, format, held_by, Vec::new())
        }
    }
}

fn check_file(path: &Path) -> Result<Report, JournalError> {
    let path = path.canonicalize().map_err(|_| JournalError::Missing { path: path.to_owned() })?;
    let held_by = lock::holder_of(&path);
    let mut damages = Vec::new();
    if held_by.is_none() {
        // The write-ahead log of a running service changes while it is read, which would look like damage.
        note(verify::look_for_damage(&path), &mut damages)?;
    }
    let connection = format::open_to_read(&path)?;
    // One read transaction: the journal may be written to meanwhile, and all queries must see the same state.
    let reading = connection.unchecked_transaction().map_err(|error| JournalError::reading(&path, &error))?;
    let format = format::format_of(&path, &reading, FORMAT)?;
    let meta = format::meta(&path, &reading)?;
    note(structure(&path, &reading), &mut damages)?;
    report(&mut Rows { path: &path, connection: &reading }, meta, format, held_by, damages)
}

fn report(
    source: &mut dyn Source,
    meta: Meta,
    format: u32,
    held_by: Option<String>,
    mut damages: Vec<Damage>,
) -> Result<Report, JournalError> {
    let (mut records, mut kept) = (0, 0);
    let walked = verify::snapshots(source, &meta).and_then(|snapshots| {
        verify::records(source, &meta, &snapshots, |raw| {
            serde_json::from_str::<IgnoredAny>(raw.event).map(drop).map_err(|error| error.to_string())
        })
    });
    let walked = walked.map(|walked| {
        (records, kept) = (walked.records, walked.snapshots);
        damages.extend(walked.damages);
    });
    note(walked, &mut damages)?;
    // Only a snapshot can replace dropped records. If other damage was found, it explains the missing snapshot
    // better.
    if meta.base > 0 && kept == 0 && damages.is_empty() {
        damages.push(Damage::Gap { first: 1, last: meta.base });
    }
    let (path, base, last) = (source.path().to_owned(), meta.base, meta.tail);
    let (what, owner, snapshots) = (meta.what, meta.owner, kept);
    Ok(Report { path, what, owner, format, base, last, records, snapshots, held_by, damages })
}

/// Adds damage to the list. Any other failure ends the check.
fn note(outcome: Result<(), JournalError>, damages: &mut Vec<Damage>) -> Result<(), JournalError> {
    match outcome {
        Err(JournalError::Damaged { damage, .. }) => {
            damages.push(damage);
            Ok(())
        }
        other => other,
    }
}

/// Integrity check of SQLite.
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
            writeln!(f, "Records up to {base} were dropped by compaction; a snapshot replaces them.")?;
        }
        if let Some(by) = &self.held_by {
            let log = "its write-ahead log was read, but not checked for damage";
            let is_file = self.path.is_file();
            let note = if is_file { format!("; {log}") } else { String::new() };
            writeln!(f, "It is in use by {by}{note}.")?;
        }
        if self.is_sound() {
            return writeln!(f, "All checksums are correct.");
        }
        writeln!(f, "It is damaged; restore a backup. Damage:")?;
        for damage in self.damages.iter().take(MOST_LISTED) {
            writeln!(f, "- {damage}")?;
        }
        match self.damages.len().saturating_sub(MOST_LISTED) {
            0 => Ok(()),
            more => writeln!(f, "- and {more} more"),
        }
    }
}

/// Milliseconds since 1970 as RFC 3339. SQLite computes it, so that the journal needs no calendar.
const IN_WORDS: &str =
    "SELECT strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000, 'unixepoch') || printf('.%03dZ', ?1 % 1000)";

/// Writes a journal to `out`, even while another process has it open. Returns the number of events written. A line
/// is `{"sequence":7,"written_at":"2026-03-01T12:00:00.000Z","schema":1,"event":…}`; a line with a snapshot has
/// `up_to` and `state` instead.
pub fn export(store: impl Into<Store>, out: &mut impl Write) -> Result<u64, JournalError> {
    match store.into() {
        Store::File(path) => {
            let reading = |error: rusqlite::Error| JournalError::reading(&path, &error);
            let connection = format::open_to_read(&path)?;
            let connection = connection.unchecked_transaction().map_err(reading)?;
            format::format_of(&path, &connection, FORMAT)?;
            let meta = format::meta(&path, &connection)?;
            export_from(&mut Rows { path: &path, connection: &connection }, &meta, out)
        }
        Store::Postgres(database) => {
            let mut reader = Reader::open(&database)?;
            let meta = reader.meta.clone();
            export_from(&mut reader, &meta, out)
        }
    }
}

fn export_from(source: &mut dyn Source, meta: &Meta, out: &mut impl Write) -> Result<u64, JournalError> {
    let path = source.path().to_owned();
    let failed = |error: rusqlite::Error| JournalError::sqlite(&path, "exporting it", &error);
    let calendar = Connection::open_in_memory().map_err(failed)?;
    let snapshots = verify::snapshots(source, meta)?;
    let mut lines = Lines { out, clock: calendar.prepare(IN_WORDS).map_err(failed)?, failed: None };
    let after = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.up_to);
    if let Some(newest) = &snapshots.newest {
        let put = lines.put(["up_to", "state"], after, newest.written_at, newest.schema, &newest.json);
        put.map_err(|why| JournalError::Json { what: format!("the snapshot up to record {after}"), why })?;
    }
    let mut events = 0;
    let walked = verify::records(source, meta, &snapshots, |raw| {
        if raw.sequence <= after {
            return Ok(());
        }
        events += 1;
        lines.put(["sequence", "event"], raw.sequence, raw.written_at, raw.schema, raw.event)
    })?;
    if let Some(error) = lines.failed {
        return Err(JournalError::io(&path, "exporting it", &error));
    }
    match walked.damages.split_first() {
        None => Ok(events),
        Some((damage, rest)) => {
            let (damage, more) = (damage.clone(), rest.len());
            Err(JournalError::Damaged { path, damage, more })
        }
    }
}

struct Lines<'a, W> {
    out: &'a mut W,
    clock: Statement<'a>,
    /// After the first failed write nothing more is written.
    failed: Option<std::io::Error>,
}

impl<W: Write> Lines<'_, W> {
    /// Fails if `json` is not valid JSON; it is not written then.
    fn put(
        &mut self,
        [number, content]: [&str; 2],
        sequence: u64,
        written_at: i64,
        schema: u32,
        json: &str,
    ) -> Result<(), String> {
        serde_json::from_str::<IgnoredAny>(json).map_err(|error| error.to_string())?;
        let time: rusqlite::Result<Option<String>> = self.clock.query_row([written_at], |row| row.get(0));
        // A damaged time may lie outside of SQLite's calendar. The number is better than no line.
        let time = time.ok().flatten().unwrap_or_else(|| written_at.to_string());
        if self.failed.is_none() {
            let line = writeln!(
                self.out,
                r#"{{"{number}":{sequence},"written_at":"{time}","schema":{schema},"{content}":{json}}}"#
            );
            self.failed = line.err();
        }
        Ok(())
    }
}
