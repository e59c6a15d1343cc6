//! Damage to the write-ahead log of a killed process: truncation loses whole appends from the end and nothing else,
//! like a crash before the sync; damage in the middle is found.

use crate::*;
use bookahead_service::journal::check;
use std::fs;

const FRAME: usize = 4_096 + 24;

/// A journal and its log as left by a killed process, and the length of the log after each append of four.
struct Left {
    journal: Vec<u8>,
    log: Vec<u8>,
    ends: Vec<usize>,
}

fn left() -> Left {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let log = path.with_file_name("north.journal-wal");
    let ends = notes(0..40)
        .chunks(4)
        .map(|four| {
            journal.append(four).unwrap().wait().unwrap();
            fs::metadata(&log).unwrap().len() as usize
        })
        .collect();
    Left { journal: fs::read(&path).unwrap(), log: fs::read(&log).unwrap(), ends }
}

impl Left {
    /// The result of opening with another log, and whether a check finds damage.
    fn with(&self, log: &[u8]) -> (Result<Vec<Note>, JournalError>, bool) {
        let (_folder, path) = folder();
        fs::write(&path, &self.journal).unwrap();
        fs::write(path.with_file_name("north.journal-wal"), log).unwrap();
        let sound = check(&path).unwrap().is_sound();
        (all(&path), sound)
    }

    /// The log with one flipped bit.
    fn flipped(&self, at: usize) -> Vec<u8> {
        let mut log = self.log.clone();
        log[at] ^= 4;
        log
    }
}

#[test]
fn a_log_that_was_cut_loses_whole_appends_from_the_end_and_nothing_else() {
    let left = left();
    assert_eq!(left.with(&left.log), (Ok(notes(0..40)), true));
    let frames = (32..=left.log.len()).step_by(FRAME);
    let places = frames.flat_map(|frame| [0, 1, 23, 24, 25, 2_000, FRAME - 1].map(|more| frame + more));
    for cut in [0, 1, 16, 31].into_iter().chain(places).filter(|cut| *cut <= left.log.len()) {
        let whole = left.ends.iter().filter(|end| **end <= cut).count() as u32;
        assert_eq!(left.with(&left.log[..cut]), (Ok(notes(0..4 * whole)), true), "cut at {cut}");
    }
}

#[test]
fn damage_in_the_middle_of_a_log_is_found() {
    let left = left();
    let last_begins = left.ends[left.ends.len() - 2];
    for frame in (32..last_begins).step_by(FRAME) {
        for place in [0, 16, 24, 3_000, FRAME - 1] {
            let (read, sound) = left.with(&left.flipped(frame + place));
            let before_the_last_two = frame < left.ends[left.ends.len() - 3];
            if before_the_last_two || place >= 24 {
                let error = read.expect_err(&format!("byte {place} of the frame at {frame}"));
                assert!(error.to_string().contains("complete transactions follow"), "{error}");
                assert!(!sound);
            }
        }
    }
    for place in 0..32 {
        let (read, sound) = left.with(&left.flipped(place));
        assert!(read.is_err() && !sound, "byte {place} of the head of the log");
    }
}

#[test]
fn damage_to_the_last_transaction_of_a_log_is_like_a_crash_before_its_sync() {
    let left = left();
    for at in left.ends[left.ends.len() - 2]..left.log.len() {
        if at % 97 == 0 {
            assert_eq!(left.with(&left.flipped(at)), (Ok(notes(0..36)), true), "byte {at}");
        }
    }
}

#[test]
fn a_journal_that_lost_what_was_answered_for_is_refused_until_the_mark_is_deleted() {
    let left = left();
    let (_folder, path) = folder();
    let (journal, log, mark) =
        (&path, path.with_file_name("north.journal-wal"), path.with_file_name("north.journal.mark"));
    let lay = |bytes: &[u8]| {
        fs::write(journal, &left.journal).unwrap();
        fs::write(&log, bytes).unwrap();
        fs::write(&mark, "00000000000000000040\n").unwrap();
    };
    let refused = |why: &str| {
        let error = all(journal).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("records up to 40") && error.contains(".mark"),
            "{error}"
        );
    };
    lay(&left.log);
    assert_eq!(all(journal), Ok(notes(0..40)));
    lay(&left.log[..left.ends[7]]);
    refused("it ends with record 32");
    lay(&[]);
    refused("it ends with record 0");
    fs::remove_file(journal).unwrap();
    let _ = fs::remove_file(&log);
    refused("it is gone");
    fs::remove_file(&mark).unwrap();
    assert_eq!(all(journal), Ok(Vec::new()), "without the mark the journal opens with what is left");
    for unreadable in ["", "000", "x"] {
        lay(&left.log[..left.ends[7]]);
        fs::write(&mark, unreadable).unwrap();
        assert_eq!(all(journal), Ok(notes(0..32)), "a mark that was not written to its end says nothing");
    }
}

#[test]
fn a_journal_that_is_deleted_or_replaced_while_it_is_open_takes_nothing_more() {
    for replaced in [false, true] {
        let (_folder, path) = folder();
        let (journal, _) = open(&path);
        journal.append(&notes(0..4)).unwrap().wait().unwrap();
        fs::remove_file(&path).unwrap();
        if replaced {
            fs::write(&path, "another").unwrap();
        }
        let error = journal.append(&notes(4..8)).unwrap().wait().unwrap_err().to_string();
        assert!(error.contains("deleted or replaced"), "{error}");
        assert!(journal.append(&notes(8..9)).is_err(), "it is known to be unfit");
    }
}
