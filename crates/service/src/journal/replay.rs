//! What opening a journal reads: the newest valid snapshot and all later events, verified. They go to a [`Restore`] one
//! after the other, so that a start needs no memory for all of them together.

use super::error::{Damage, JournalError};
use super::format::{Chain, Meta};
use super::verify::{Raw, Snapshot, Source};
use super::{Kind, verify};
use serde::de::DeserializeOwned;

/// Contents of a journal: apply `events` to `snapshot` to restore the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay<E> {
    /// Whether the journal was just created.
    pub fresh: bool,
    /// State to start from. `None` for the empty state.
    pub snapshot: Option<Snapshot>,
    /// Later events, in order and without gaps.
    pub events: Vec<Record<E>>,
    /// Damaged newer snapshots that were not needed, because all their events are still there. Log a warning.
    pub set_aside: Vec<Damage>,
}

/// Gets the contents of a journal while it is read. If opening the journal fails afterwards, what it got is of no use.
pub trait Restore<E> {
    /// First: the state to start from, and the number of the last event of the journal.
    fn begin(&mut self, snapshot: Option<Snapshot>, last: u64);

    /// The later events, in order and without gaps.
    fn event(&mut self, record: Record<E>);
}

/// What is known of a journal besides its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Whether the journal was just created.
    pub fresh: bool,
    /// See [`Replay::set_aside`].
    pub set_aside: Vec<Damage>,
}

/// Keeps everything, for small journals.
pub(super) struct Collected<E> {
    pub(super) snapshot: Option<Snapshot>,
    pub(super) events: Vec<Record<E>>,
}

impl<E> Restore<E> for Collected<E> {
    fn begin(&mut self, snapshot: Option<Snapshot>, _: u64) {
        self.snapshot = snapshot;
    }

    fn event(&mut self, record: Record<E>) {
        self.events.push(record);
    }
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<E> {
    /// Number of the event, starting at 1.
    pub sequence: u64,
    /// Wall-clock time of the write in milliseconds since 1970. For people, never for decisions.
    pub written_at: i64,
    /// The event itself.
    pub event: E,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) sequence: u64,
    pub(crate) chain: Chain,
}

/// Reads and verifies everything. Fails if the journal is damaged.
pub(crate) fn replay<E: DeserializeOwned>(
    source: &mut dyn Source,
    meta: &Meta,
    kind: &Kind,
    restore: &mut dyn Restore<E>,
) -> Result<Vec<Damage>, JournalError> {
    let mut snapshots = verify::snapshots(source, meta)?;
    let after = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.up_to);
    let mut newest_schema = snapshots.newest.as_ref().map_or(0, |snapshot| snapshot.schema);
    let mut next = after + 1;
    if newest_schema <= kind.schema {
        restore.begin(snapshots.newest.take(), meta.tail);
    }
    let walked = verify::records(source, meta, &snapshots, |raw| {
        newest_schema = newest_schema.max(raw.schema);
        // Older records are verified as well, but the snapshot replaces them. Newer schemas are only counted,
        // because the error below names the newest.
        if raw.sequence > after && raw.schema <= kind.schema {
            let event = event(raw, kind)?;
            // Nothing after a damage, which is reported below.
            if raw.sequence == next && newest_schema <= kind.schema {
                next += 1;
                restore.event(Record { sequence: raw.sequence, written_at: raw.written_at, event });
            }
        }
        Ok(())
    })?;
    if newest_schema > kind.schema {
        let (what, found, known) = ("events of version", newest_schema, kind.schema);
        return Err(JournalError::Newer { path: source.path().to_owned(), what, found, known });
    }
    // Events before the base were dropped. Without a snapshot that covers them, the state cannot be restored.
    let needed = after < meta.base;
    let aside = |damage: &Damage| !needed && snapshots.damages.contains(damage);
    let (set_aside, damages): (Vec<_>, Vec<_>) = walked.damages.into_iter().partition(aside);
    if let Some(damage) = damages.first() {
        let (damage, more) = (damage.clone(), damages.len() - 1);
        return Err(JournalError::Damaged { path: source.path().to_owned(), damage, more });
    }
    if needed {
        let damage = Damage::Gap { first: 1, last: meta.base };
        return Err(JournalError::Damaged { path: source.path().to_owned(), damage, more: 0 });
    }
    Ok(set_aside)
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
