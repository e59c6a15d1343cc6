//! Opening of journals, and refusals.

use crate::children::child;
use crate::*;
use std::fs;

#[test]
fn a_new_journal_is_empty_and_says_that_it_is_new() {
    let (_folder, path) = folder();
    let (journal, replay) = open(&path);
    assert_eq!((replay.fresh, replay.snapshot, replay.events), (true, None, vec![]));
    journal.close().unwrap();
    assert!(!open(&path).1.fresh);
}

#[test]
fn what_was_appended_comes_back_in_order() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let tickets: Vec<_> = notes(0..9).chunks(2).map(|two| journal.append(two).unwrap()).collect();
    let sequences: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(sequences, [1..3, 3..5, 5..7, 7..9, 9..10]);
    journal.close().unwrap();
    assert_eq!(all(&path).unwrap(), notes(0..9));
}

#[test]
fn closing_and_dropping_write_what_waits() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    drop(journal.append(&notes(0..100)).unwrap());
    journal.close().unwrap();
    let (journal, _) = open(&path);
    drop(journal.append(&notes(100..200)).unwrap());
    drop(journal);
    assert_eq!(all(&path).unwrap(), notes(0..200));
    let beside: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 3, "only the journal, its lock and its mark are left: {beside:?}");
}

#[test]
fn a_second_opening_is_refused_at_once_and_says_who_has_it() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let error = Journal::<Note>::open(&path, &kind()).err().unwrap();
    let holder = format!("process {}", std::process::id());
    assert_eq!(error, JournalError::Held { path: path.canonicalize().unwrap(), by: holder.clone() });
    let output = child("open", &path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("is in use by {holder}; stop that first")), "{said}");
    journal.append(&notes(0..1)).unwrap().wait().unwrap();
    journal.close().unwrap();
    let output = child("open", &path).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nopened\n"));
}

#[cfg(unix)]
#[test]
fn a_link_to_a_journal_is_the_same_journal() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let link = path.with_file_name("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Journal::<Note>::open(&link, &kind()), Err(JournalError::Held { .. })));
    drop(journal);
}

#[test]
fn somebody_who_writes_to_the_file_by_hand_is_noticed() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    journal.append(&notes(0..3)).unwrap().wait().unwrap();
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute("UPDATE meta SET tail = 2", ()).unwrap();
    let error = journal.append(&notes(3..4)).unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("another process wrote to it"), "{error}");
    assert!(matches!(journal.append(&notes(3..4)), Err(JournalError::Poisoned { .. })));
    let error = journal.close().unwrap_err();
    assert!(error.to_string().contains("another process wrote to it"), "{error}");
}

#[test]
fn a_journal_of_another_kind_or_owner_is_refused() {
    let (_folder, path) = folder();
    filled(&path);
    for other in [Kind::new("notes", "south", 1), Kind::new("ledger", "north", 1)] {
        let error = Journal::<Note>::open(&path, &other).err().unwrap();
        assert!(
            matches!(&error, JournalError::WrongKind { found, .. } if found == "the notes of north"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_alone() {
    let (_folder, path) = folder();
    for content in ["", "some text", &"more text ".repeat(1_000)] {
        fs::write(&path, content).unwrap();
        let error = Journal::<Note>::open(&path, &kind()).err().unwrap();
        assert!(matches!(error, JournalError::NotAJournal { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE cake (slices)").unwrap();
    let error = Journal::<Note>::open(&path, &kind()).err().unwrap();
    assert!(error.to_string().contains("SQLite database of another program"), "{error}");
}

#[test]
fn a_log_without_its_journal_is_damage() {
    let (_folder, path) = folder();
    filled(&path);
    fs::rename(&path, path.with_file_name("north.journal-wal")).unwrap();
    assert!(matches!(Journal::<Note>::open(&path, &kind()), Err(JournalError::Damaged { .. })));
}

#[test]
fn a_journal_half_made_in_a_crash_is_made_anew() {
    let (_folder, path) = folder();
    fs::write(path.with_file_name("north.journal.new"), "half").unwrap();
    assert!(open(&path).1.fresh);
}
