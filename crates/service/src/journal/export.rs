//! A journal as lines of JSON, for people and for programs that know nothing of SQLite: the newest snapshot if there is
//! one, then each event after it, with its number and time. What is written is verified; where something is damaged, what
//! is sound is still written, and the damage is the result.

use super::error::JournalError;
use super::format::{self, FORMAT};
use super::verify;
use rusqlite::Statement;
use serde::de::IgnoredAny;
use std::io::Write;
use std::path::Path;

/// Milliseconds since the epoch as RFC 3339 has them.
const IN_WORDS: &str =
    "SELECT strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000, 'unixepoch') || printf('.%03dZ', ?1 % 1000)";

/// Writes a journal to `out`, also while another process has it open; gives the number of events written. A line is
/// `{"sequence":7,"written_at":"2026-03-01T12:00:00.000Z","schema":1,"event":…}`; that of a snapshot has `up_to` and
/// `state` instead.
pub fn export(path: &Path, out: &mut impl Write) -> Result<u64, JournalError> {
    let reading = |error: rusqlite::Error| JournalError::reading(path, &error);
    let connection = format::open_to_read(path)?;
    let connection = connection.unchecked_transaction().map_err(reading)?;
    format::format_of(path, &connection, FORMAT)?;
    let meta = format::meta(path, &connection)?;
    let snapshots = verify::snapshots(path, &connection, &meta)?;
    let mut lines = Lines { out, clock: connection.prepare(IN_WORDS).map_err(reading)?, failed: None };
    let after = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.up_to);
    if let Some(newest) = &snapshots.newest {
        let put = lines.put(["up_to", "state"], after, newest.written_at, newest.schema, &newest.json);
        put.map_err(|why| JournalError::Json { what: format!("the snapshot up to record {after}"), why })?;
    }
    let mut events = 0;
    let walked = verify::records(path, &connection, &meta, &snapshots, |raw| {
        if raw.sequence <= after {
            return Ok(());
        }
        events += 1;
        lines.put(["sequence", "event"], raw.sequence, raw.written_at, raw.schema, raw.event)
    })?;
    if let Some(error) = lines.failed {
        return Err(JournalError::io(path, "exporting it", &error));
    }
    match walked.damages.split_first() {
        None => Ok(events),
        Some((damage, rest)) => {
            let (damage, more) = (damage.clone(), rest.len());
            Err(JournalError::Damaged { path: path.to_owned(), damage, more })
        }
    }
}

struct Lines<'a, W> {
    out: &'a mut W,
    clock: Statement<'a>,
    /// Once a line could not be written, no more are.
    failed: Option<std::io::Error>,
}

impl<W: Write> Lines<'_, W> {
    /// Fails where `json` is none, which then is not written.
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
