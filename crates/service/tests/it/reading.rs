//! Check and export: read-only, verified, and possible while the journal is open.

use crate::*;
use bookahead_service::journal::{Damage, check, export};
use serde_json::Value;
use std::fs;

fn exported(path: &Path) -> Vec<Value> {
    let mut out = Vec::new();
    export(path, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_check_says_in_sentences_what_there_is() {
    let (_folder, path) = folder();
    filled(&path);
    let before = fs::read(&path).unwrap();
    let report = check(&path).unwrap();
    let place = path.canonicalize().unwrap();
    assert_eq!(
        report.to_string(),
        format!(
            "{} is the journal of notes north, format 1.\n\
             It has 40 records up to record 40, and 1 sound snapshots.\n\
             All checksums are correct.\n",
            place.display()
        )
    );
    assert_eq!(fs::read(&path).unwrap(), before, "a check changes nothing");
}

#[test]
fn a_check_lists_all_damage_and_says_what_to_do() {
    let (_folder, path) = folder();
    filled(&path);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch(
        "DELETE FROM records WHERE sequence IN (4, 5); UPDATE records SET event = '' WHERE sequence = 9",
    )
    .unwrap();
    let report = check(&path).unwrap();
    assert_eq!(report.damages, [Damage::Gap { first: 4, last: 5 }, Damage::Changed { sequence: 9 }]);
    let said = report.to_string();
    assert!(
        said.contains("It is damaged; restore a backup. Damage:\n- records 4 to 5 are missing\n"),
        "{said}"
    );
    assert!(
        check(path.parent().unwrap().join("other").as_path())
            .unwrap_err()
            .to_string()
            .contains("check the path")
    );
}

#[test]
fn an_open_journal_can_be_checked_and_exported() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    journal.append(&notes(0..5)).unwrap().wait().unwrap();
    let report = check(&path).unwrap();
    assert_eq!((report.records, report.is_sound()), (5, true));
    assert_eq!(report.held_by, Some(format!("process {}", std::process::id())));
    assert_eq!(exported(&path).len(), 5);
    journal.append(&notes(5..6)).unwrap().wait().unwrap();
    journal.close().unwrap();
    assert_eq!(check(&path).unwrap().held_by, None);
}

#[test]
fn an_export_has_a_line_for_the_snapshot_and_each_event_after_it() {
    let (_folder, path) = folder();
    let notes = filled(&path);
    let lines = exported(&path);
    assert_eq!((lines.len(), &lines[0]["up_to"]), (21, &Value::from(20)));
    let state: Vec<Note> = serde_json::from_value(lines[0]["state"].clone()).unwrap();
    assert_eq!(state, notes[..20]);
    for (line, sequence) in lines[1..].iter().zip(21_usize..) {
        assert_eq!((&line["sequence"], &line["schema"]), (&Value::from(sequence), &Value::from(1)));
        assert_eq!(serde_json::from_value::<Note>(line["event"].clone()).unwrap(), notes[sequence - 1]);
        let time = line["written_at"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
}

#[test]
fn an_export_of_a_damaged_journal_writes_what_is_sound_and_says_that_it_is_not_all() {
    let (_folder, path) = folder();
    filled(&path);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute("UPDATE records SET event = '{}' WHERE sequence = 30", ()).unwrap();
    let mut out = Vec::new();
    let error = export(&path, &mut out).unwrap_err();
    assert!(
        matches!(error, JournalError::Damaged { damage: Damage::Changed { sequence: 30 }, .. }),
        "{error}"
    );
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 20);
}
