//! Snapshots replace events, and compaction drops the replaced ones. Neither changes the restored state.

use crate::*;
use bookahead_service::journal::{KEPT_SNAPSHOTS, check};
use proptest::prelude::*;
use std::fs;

#[derive(Debug, Clone)]
enum Step {
    Append(u32),
    Snapshot(u64),
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..9_u32).prop_map(Step::Append),
        2 => (0..30_u64).prop_map(Step::Snapshot),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(60))]

    #[test]
    fn whatever_is_done_to_a_journal_it_folds_to_what_was_appended(steps in prop::collection::vec(step(), 0..25)) {
        let (_folder, path) = folder();
        let mut journal = open(&path).0;
        let mut written: Vec<Note> = vec![];
        for step in steps {
            match step {
                Step::Append(count) => {
                    let begin = written.len() as u32;
                    let new = notes(begin..begin + count);
                    drop(journal.append(&new).unwrap());
                    written.extend(new);
                }
                Step::Snapshot(back) => {
                    let up_to = (written.len() as u64).saturating_sub(back);
                    match journal.snapshot(up_to, &written[..up_to as usize]) {
                        Ok(()) => {}
                        Err(JournalError::SnapshotElsewhere { first, .. }) => prop_assert!(up_to + 1 < first),
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Compact => drop(journal.compact().unwrap()),
                Step::Reopen => {
                    journal.close().unwrap();
                    let opened = open(&path);
                    prop_assert_eq!(folded(&opened.1), &written[..]);
                    journal = opened.0;
                }
            }
        }
        journal.close().unwrap();
        prop_assert_eq!(all(&path).unwrap(), written);
        let report = check(&path).unwrap();
        prop_assert!(report.is_sound(), "{report}");
    }
}

#[test]
fn a_snapshot_spares_reading_the_events_before_it() {
    let (_folder, path) = folder();
    let notes = filled(&path);
    let replay = open(&path).1;
    assert_eq!(replay.snapshot.as_ref().map(|snapshot| snapshot.up_to), Some(20));
    assert_eq!((replay.events.len(), folded(&replay)), (20, notes));
}

#[test]
fn compaction_gives_the_room_back_and_numbers_go_on() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let many = notes(0..5_000);
    journal.append(&many).unwrap().wait().unwrap();
    assert_eq!(journal.compact(), Ok(0), "no snapshot, nothing to drop");
    journal.snapshot(4_999, &"short").unwrap();
    let before = fs::metadata(path.with_file_name("north.journal-wal")).unwrap().len();
    assert_eq!(journal.compact(), Ok(4_999));
    assert_eq!(journal.compact(), Ok(0));
    assert!(fs::metadata(&path).unwrap().len() < before / 10);
    assert_eq!(journal.append(&notes(0..1)).unwrap().wait(), Ok(5_001..5_002));
    journal.close().unwrap();
    let replay = open(&path).1;
    let sequences: Vec<u64> = replay.events.iter().map(|record| record.sequence).collect();
    assert_eq!(sequences, [5_000, 5_001]);
    let report = check(&path).unwrap();
    assert_eq!((report.base, report.last, report.records, report.is_sound()), (4_999, 5_001, 2, true));
}

#[test]
fn a_snapshot_of_events_that_are_not_there_is_refused() {
    let (_folder, path) = folder();
    filled(&path);
    let (journal, _) = open(&path);
    let elsewhere = |up_to, first| Err(JournalError::SnapshotElsewhere { up_to, first, last: 40 });
    assert_eq!(journal.snapshot(41, &()), elsewhere(41, 1));
    journal.compact().unwrap();
    assert_eq!(journal.snapshot(19, &()), elsewhere(19, 21));
    assert_eq!(journal.snapshot(20, &notes(0..20)), Ok(()));
}

#[test]
fn only_the_newest_snapshots_are_kept() {
    let (_folder, path) = folder();
    let notes = filled(&path);
    let (journal, _) = open(&path);
    (30..40).for_each(|up_to| journal.snapshot(up_to, &notes[..up_to as usize]).unwrap());
    journal.close().unwrap();
    assert_eq!(check(&path).unwrap().snapshots, KEPT_SNAPSHOTS as usize);
    assert_eq!(all(&path).unwrap(), notes);
}
