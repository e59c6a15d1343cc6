//! A full or failing disk: all callers learn of it, and nothing is acknowledged that is not on disk.

use crate::*;
use bookahead_service::journal::Ticket;

/// Space for some records, but not for many.
fn small() -> Options {
    Options { most_pages: Some(24), ..unsynced() }
}

#[test]
fn a_full_disk_reaches_everybody_and_nothing_more_is_acknowledged() {
    let (_folder, path) = folder();
    let (journal, _) = Journal::<Note>::open_with(&path, &kind(), &small()).unwrap();
    let tickets: Vec<_> = (0..2_000).map_while(|number| journal.append(&[note(0, number)]).ok()).collect();
    let outcomes: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
    let kept = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
    assert!(outcomes.len() > kept, "the disk was full");
    let (first, rest) = outcomes[kept..].split_first().unwrap();
    assert!(first.as_ref().unwrap_err().is_full_disk(), "{first:?}");
    let told = |error: &JournalError| error.is_full_disk() || matches!(error, JournalError::Poisoned { .. });
    assert!(rest.iter().all(|outcome| outcome.as_ref().is_err_and(told)));
    let later = journal.append(&[note(0, 0)]).unwrap_err();
    assert!(matches!(&later, JournalError::Poisoned { why } if why.contains("full")), "{later}");
    assert!(matches!(journal.snapshot(1, &()), Err(JournalError::Poisoned { .. })));
    assert!(journal.close().unwrap_err().is_full_disk());
    assert_eq!(all(&path).unwrap(), notes(0..kept as u32), "after that there is what was acknowledged");
}

#[test]
fn an_append_goes_in_whole_or_not_at_all() {
    let (_folder, path) = folder();
    let (journal, _) = Journal::<Note>::open_with(&path, &kind(), &small()).unwrap();
    journal.append(&notes(0..10)).unwrap().wait().unwrap();
    assert!(journal.append(&notes(10..3_000)).unwrap().wait().unwrap_err().is_full_disk());
    drop(journal);
    assert_eq!(all(&path).unwrap(), notes(0..10));
}

#[test]
fn a_snapshot_without_room_is_refused_and_events_still_go_in() {
    let (_folder, path) = folder();
    let (journal, _) = Journal::<Note>::open_with(&path, &kind(), &small()).unwrap();
    journal.append(&notes(0..10)).unwrap().wait().unwrap();
    assert!(journal.snapshot(10, &"x".repeat(1 << 20)).unwrap_err().is_full_disk());
    journal.append(&notes(10..12)).unwrap().wait().unwrap();
    journal.close().unwrap();
    assert_eq!(all(&path).unwrap(), notes(0..12));
}

#[cfg(unix)]
#[test]
fn a_write_that_really_fails_reaches_everybody() {
    use crate::children::{acknowledged, assert_kept, child_with_small_files};
    let (_folder, path) = folder();
    let output = child_with_small_files(400, "append for ever", &path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let acks: Vec<_> = said.lines().filter_map(acknowledged).collect();
    assert!(!acks.is_empty(), "{said}");
    let failed = said.lines().filter(|line| line.starts_with("failed ")).count();
    assert_eq!(failed, crate::children::WRITERS as usize, "{said}");
    assert!(said.contains("\nafter the journal accepts no more writes"), "{said}");
    assert!(said.contains("\nclosed "), "{said}");
    assert_kept(&path, &acks);
}
