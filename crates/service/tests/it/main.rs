//! Integration tests of the services, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod chance;
mod children;
mod circles;
mod concurrent;
mod connections;
mod daemon;
mod damage;
mod failing_disk;
mod fake_peer;
mod flooding;
mod formats;
mod http;
mod kept_journals;
mod killed;
mod ledgers;
mod log_damage;
mod lying_peers;
mod minted;
mod notices;
mod oidc;
mod opening;
mod postgres;
mod postgres_network;
mod reading;
mod reluctant;
mod remembering;
mod security;
mod snapshots;
mod take_over;
mod usage;

use bookahead_service::journal::{Durability, Journal, JournalError, Kind, Options, Replay};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An event for the journal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Note {
    writer: u32,
    number: u32,
    text: String,
}

fn note(writer: u32, number: u32) -> Note {
    Note { writer, number, text: "grün ".repeat(number as usize % 40) }
}

fn notes(numbers: std::ops::Range<u32>) -> Vec<Note> {
    numbers.map(|number| note(0, number)).collect()
}

fn kind() -> Kind {
    Kind::new("notes", "north", 1)
}

/// Without syncs, for tests that are not about the disk.
fn unsynced() -> Options {
    Options { durability: Durability::None, ..Options::default() }
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("north.journal");
    (folder, path)
}

fn open(path: &Path) -> (Journal<Note>, Replay<Note>) {
    Journal::open_with(path, &kind(), &unsynced()).unwrap()
}

/// All notes in a journal, those of the snapshot first. A state is the list of all notes so far.
fn all(path: &Path) -> Result<Vec<Note>, JournalError> {
    let (_, replay) = Journal::open_with(path, &kind(), &unsynced())?;
    Ok(folded(&replay))
}

fn folded(replay: &Replay<Note>) -> Vec<Note> {
    let mut notes: Vec<Note> = replay.snapshot.as_ref().map_or(vec![], |snapshot| snapshot.state().unwrap());
    for record in &replay.events {
        notes.push(record.event.clone());
        assert_eq!(record.sequence, notes.len() as u64);
    }
    notes
}

/// A closed journal with forty notes in appends of four, and a snapshot up to the 20th.
fn filled(path: &Path) -> Vec<Note> {
    let (journal, _) = open(path);
    let notes = notes(0..40);
    for four in notes.chunks(4) {
        journal.append(four).unwrap().wait().unwrap();
    }
    journal.snapshot(20, &notes[..20]).unwrap();
    journal.close().unwrap();
    notes
}
