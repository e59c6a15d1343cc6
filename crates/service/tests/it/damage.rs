//! Damage to the file: found and explained, or without effect; never skipped silently.

use crate::*;
use bookahead_service::journal::{Damage, check};
use bookahead_tests::cases::quick;
use std::fs;

/// A filled journal after a manual change with SQLite: the error of opening it, and the damages of a check.
fn after(hand: &str) -> (JournalError, Vec<Damage>) {
    let (_folder, path) = folder();
    filled(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch(hand).unwrap();
    (all(&path).unwrap_err(), check(&path).unwrap().damages)
}

#[track_caller]
fn assert_found(hand: &str, expected: &[Damage]) {
    let (error, damages) = after(hand);
    assert_eq!(damages, expected, "{hand}");
    let JournalError::Damaged { damage, more, .. } = &error else { panic!("{hand}: {error}") };
    assert_eq!((damage, *more), (&expected[0], expected.len() - 1), "{hand}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[test]
fn a_changed_record_is_found() {
    let changed = [Damage::Changed { sequence: 33 }];
    for column in
        ["event = replace(event, 'r', 's')", "checksum = checksum + 1", "written_at = 7", "schema = 0"]
    {
        assert_found(&format!("UPDATE records SET {column} WHERE sequence = 33"), &changed);
    }
    let under_a_snapshot = [Damage::Changed { sequence: 7 }];
    assert_found("UPDATE records SET event = '7' WHERE sequence = 7", &under_a_snapshot);
}

#[test]
fn missing_records_are_found_wherever_they_were() {
    assert_found("DELETE FROM records WHERE sequence = 30", &[Damage::Gap { first: 30, last: 30 }]);
    assert_found("DELETE FROM records WHERE sequence < 4", &[Damage::Gap { first: 1, last: 3 }]);
    assert_found("DELETE FROM records WHERE sequence > 38", &[Damage::Tail { said: 40, found: 38 }]);
    assert_found("DELETE FROM records", &[Damage::Tail { said: 40, found: 0 }]);
}

#[test]
fn records_that_changed_places_are_found() {
    let swap = "UPDATE records SET sequence = -1 WHERE sequence = 25;
                UPDATE records SET sequence = 25 WHERE sequence = 26;
                UPDATE records SET sequence = 26 WHERE sequence = -1;";
    let (error, damages) = after(swap);
    assert!(
        matches!(error, JournalError::Damaged { damage: Damage::Changed { sequence: 25 }, .. }),
        "{error}"
    );
    assert!(damages.contains(&Damage::Changed { sequence: 26 }), "{damages:?}");
}

#[test]
fn records_that_were_not_written_by_a_journal_are_found() {
    assert_found(
        "INSERT INTO records SELECT 41, schema, written_at, event, checksum FROM records WHERE sequence = 40",
        &[Damage::Changed { sequence: 41 }, Damage::Tail { said: 40, found: 41 }],
    );
    let (error, _) = after("INSERT INTO records VALUES (-3, 1, 0, '{}', 0)");
    assert!(error.to_string().contains("negative"), "{error}");
}

#[test]
fn a_damaged_snapshot_is_set_aside_where_the_events_are_there_and_told() {
    let (_folder, path) = folder();
    let notes = filled(&path);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE snapshots SET state = '[]'", ()).unwrap();
    let replay = open(&path).1;
    assert_eq!((folded(&replay), replay.snapshot), (notes, None));
    let why = "it does not match its checksum".to_owned();
    assert_eq!(replay.set_aside, [Damage::Snapshot { up_to: 20, why }]);
    assert_eq!(check(&path).unwrap().damages, replay.set_aside);
}

#[test]
fn a_damaged_snapshot_that_is_needed_is_damage() {
    let (_folder, path) = folder();
    filled(&path);
    let (journal, _) = open(&path);
    assert_eq!(journal.compact(), Ok(20));
    journal.close().unwrap();
    let hand = rusqlite::Connection::open(&path).unwrap();
    for damage in ["UPDATE snapshots SET state = '[]'", "DELETE FROM snapshots"] {
        hand.execute(damage, ()).unwrap();
        let error = all(&path).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
        assert!(!check(&path).unwrap().is_sound());
    }
}

#[test]
fn nothing_is_dropped_from_a_damaged_journal() {
    let (_folder, path) = folder();
    filled(&path);
    let (journal, _) = open(&path);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute("UPDATE records SET event = '{}' WHERE sequence = 3", ()).unwrap();
    assert!(matches!(journal.compact(), Err(JournalError::Damaged { .. })));
    let left: u32 = hand.query_row("SELECT count(*) FROM records", (), |row| row.get(0)).unwrap();
    assert_eq!(left, 40);
}

/// Opens a journal with these bytes and returns its contents.
fn read(bytes: &[u8]) -> Result<Vec<Note>, JournalError> {
    let (_folder, path) = folder();
    fs::write(&path, bytes).unwrap();
    all(&path)
}

#[test]
fn a_file_that_was_cut_is_refused() {
    let (_folder, path) = folder();
    filled(&path);
    let whole = fs::read(&path).unwrap();
    let pages = (0..whole.len()).step_by(4_096);
    for cut in pages.flat_map(|page| [page, page + 1, page + 100, page + 4_095]) {
        let error = read(&whole[..cut]).expect_err(&format!("cut at {cut}"));
        let refused = matches!(error, JournalError::Damaged { .. } | JournalError::NotAJournal { .. });
        assert!(refused, "cut at {cut}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_or_has_no_effect() {
    let (_folder, path) = folder();
    let notes = filled(&path);
    let whole = fs::read(&path).unwrap();
    let step = if quick() { 67 } else { 17 };
    let header = 0..100;
    let (mut found, mut tried) = (0, 0);
    for at in header.chain((100..whole.len()).step_by(step)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        tried += 1;
        match read(&bytes) {
            Ok(read) => assert_eq!(read, notes, "bit {} of byte {at}", at % 8),
            Err(_) => found += 1,
        }
    }
    assert!(found > tried / 4, "most bytes matter: {found} of {tried}");
}

#[test]
fn a_record_that_cannot_be_read_is_told_once() {
    let (_folder, path) = folder();
    filled(&path);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch("UPDATE records SET event = CAST(x'ff20' AS TEXT) WHERE sequence = 31").unwrap();
    let why = "column 4 is not valid UTF-8".to_owned();
    assert_eq!(check(&path).unwrap().damages, [Damage::Senseless { sequence: 31, why }]);
    assert!(matches!(all(&path), Err(JournalError::Damaged { more: 0, .. })));
}
