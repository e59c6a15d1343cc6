//! What a journal gives back when it is opened: the newest sound snapshot and every event after it, all of it verified.

use super::error::{Damage, JournalError};
use super::format::{Chain, Meta};
use super::verify::Raw;
use super::{Kind, verify};
use rusqlite::Connection;
use serde::de::DeserializeOwned;
use std::path::Path;

/// What was in the journal: whoever folds `events` onto `snapshot` has the state of before.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay<E> {
    /// Whether the journal was made just now.
    pub fresh: bool,
    /// Where to begin; None: with nothing.
    pub snapshot: Option<Snapshot>,
    /// What came after, in order and without a gap.
    pub events: Vec<Record<E>>,
    /// Newer snapshots that are damaged and were not needed, since the events they stand for are all there. Worth a
    /// warning.
    pub set_aside: Vec<Damage>,
}

/// An event and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<E> {
    /// Its number; the first is 1.
    pub sequence: u64,
    /// When it was written, in milliseconds since the epoch by the clock of the machine: for people, never for decisions.
    pub written_at: i64,
    /// The event.
    pub event: E,
}

/// A state that stands for all events up to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last of those events.
    pub up_to: u64,
    /// The version of the form that states and events had then.
    pub schema: u32,
    /// When it was written, in milliseconds since the epoch.
    pub written_at: i64,
    /// The state.
    pub json: String,
}

impl Snapshot {
    /// The state.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, JournalError> {
        serde_json::from_str(&self.json).map_err(|error| JournalError::Json {
            what: format!("the snapshot up to record {}", self.up_to),
            why: error.to_string(),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) sequence: u64,
    pub(crate) chain: Chain,
}

/// Reads everything, verifies everything, and fails at the first thing that is not as it was written.
pub(crate) fn replay<E: DeserializeOwned>(
    path: &Path,
    connection: &Connection,
    meta: &Meta,
    kind: &Kind,
) -> Result<Replay<E>, JournalError> {
    let snapshots = verify::snapshots(path, connection, meta)?;
    let after = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.up_to);
    let mut events = Vec::new();
    let mut newest_schema = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.schema);
    let walked = verify::records(path, connection, meta, &snapshots, |raw| {
        newest_schema = newest_schema.max(raw.schema);
        if raw.sequence > after && raw.schema <= kind.schema {
            let event = event(raw, kind)?;
            events.push(Record { sequence: raw.sequence, written_at: raw.written_at, event });
        }
        Ok(())
    })?;
    if newest_schema > kind.schema {
        let (what, found, known) = ("events of version", newest_schema, kind.schema);
        return Err(JournalError::Newer { path: path.to_owned(), what, found, known });
    }
    let needed = after < meta.base;
    let aside = |damage: &Damage| !needed && snapshots.damages.contains(damage);
    let (set_aside, damages): (Vec<_>, Vec<_>) = walked.damages.into_iter().partition(aside);
    if let Some(damage) = damages.first() {
        let (damage, more) = (damage.clone(), damages.len() - 1);
        return Err(JournalError::Damaged { path: path.to_owned(), damage, more });
    }
    if needed {
        let damage = Damage::Gap { first: 1, last: meta.base };
        return Err(JournalError::Damaged { path: path.to_owned(), damage, more: 0 });
    }
    Ok(Replay { fresh: false, snapshot: snapshots.newest, events, set_aside })
}

fn event<E: DeserializeOwned>(raw: &Raw<'_>, kind: &Kind) -> Result<E, String> {
    let read = match kind.upgrade.filter(|_| raw.schema < kind.schema) {
        None => serde_json::from_str(raw.event),
        Some(upgrade) => {
            serde_json::from_str(raw.event).and_then(|event| E::deserialize(upgrade(raw.schema, event)))
        }
    };
    read.map_err(|error| format!("{error}"))
}
