//! Concurrent appends, and appends that are faster than the disk.

use crate::*;
use bookahead_service::journal::MOST_WAITING;

const THREADS: u32 = 64;
const APPENDS: u32 = 40;

fn appended_by_many(options: &Options) {
    let (_folder, path) = folder();
    let (journal, _) = Journal::<Note>::open_with(&path, &kind(), options).unwrap();
    let sequences = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|writer| {
                let journal = &journal;
                scope.spawn(move || append_many(journal, writer))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    journal.close().unwrap();
    let replay = open(&path).1;
    let found = |sequence: u64| &replay.events[sequence as usize - 1].event;
    assert!(sequences.iter().all(|(sequence, note)| found(*sequence) == note));
    let mut taken: Vec<u64> = sequences.iter().map(|(sequence, _)| *sequence).collect();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(1..=replay.events.len() as u64), "every number once");
    for writer in 0..THREADS {
        let own = replay.events.iter().map(|record| &record.event).filter(|note| note.writer == writer);
        assert!(own.is_sorted_by_key(|note| note.number), "in the order of the writer");
    }
}

/// Waits for every second ticket only, so that several appends are in progress.
fn append_many(journal: &Journal<Note>, writer: u32) -> Vec<(u64, Note)> {
    let mut placed = Vec::new();
    for number in 0..APPENDS {
        let notes: Vec<Note> = (0..=number % 3).map(|more| note(writer, 3 * number + more)).collect();
        let ticket = journal.append(&notes).unwrap();
        placed.extend(ticket.sequences().zip(notes));
        if number % 2 == 1 {
            ticket.wait().unwrap();
        }
    }
    placed
}

#[test]
fn what_many_threads_append_is_there_once_and_in_the_order_of_each() {
    appended_by_many(&Options::default());
    appended_by_many(&unsynced());
    appended_by_many(&Options { durability: Durability::EachAppend, ..unsynced() });
}

#[test]
fn appending_waits_while_too_much_waits() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    let hand = rusqlite::Connection::open(&path).unwrap();
    hand.execute_batch("BEGIN IMMEDIATE").unwrap();
    let hundred = notes(0..100);
    let append = |_| journal.append(&hundred).unwrap();
    let tickets: Vec<_> = (0..MOST_WAITING / 100).map(append).collect();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| journal.append(&hundred).unwrap().wait().unwrap());
        hand.execute_batch("ROLLBACK").unwrap();
        let last = blocked.join().unwrap();
        assert_eq!(last.end, 100 * (tickets.len() as u64 + 1) + 1);
    });
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    let more_than_may_wait = notes(0..MOST_WAITING as u32 + 1);
    journal.append(&more_than_may_wait).unwrap().wait().unwrap();
}

#[test]
fn an_append_of_nothing_says_when_all_before_it_is_written() {
    let (_folder, path) = folder();
    let (journal, _) = open(&path);
    drop(journal.append(&notes(0..7)).unwrap());
    assert_eq!(journal.append(&[]).unwrap().wait(), Ok(8..8));
    journal.close().unwrap();
    assert_eq!(all(&path).unwrap().len(), 7);
}
