//! Damaged output of commands, for the tests of all parsers, made by the fuzzer that all crates share.

use bookahead_tests::fuzz::{self, Corpus, Numbers, mutate};

/// Cases for each text, each with its own seed.
const CASES: u64 = 2_000;

/// Parses thousands of damaged texts: none may make it panic or take long.
pub(crate) fn survives(text: &str, mut read: impl FnMut(&str)) {
    fuzz::run(Corpus { inputs: &[text.as_bytes()], words: &[] }, CASES, |bytes| {
        // The output of a command is decoded in the same way.
        read(&String::from_utf8_lossy(bytes));
        false
    });
}

/// Parses texts in which one line of a record is damaged, except for its line feed; all other records must survive.
/// `records` returns the ids of the records found.
pub(crate) fn loses_only_one(text: &str, records: impl Fn(&str) -> Vec<String>) {
    let (all, lines) = (records(text), text.split_inclusive('\n').collect::<Vec<_>>());
    for seed in 0..CASES {
        let mut numbers = Numbers::new(seed);
        let at = numbers.below(lines.len());
        let line = lines[at].trim_end_matches('\n').as_bytes();
        let hurt = String::from_utf8_lossy(&mutate(line, line, &[], &mut numbers)).replace('\n', " ");
        let damaged = [&lines[..at].concat(), hurt.as_str(), "\n", &lines[at + 1..].concat()].concat();
        let left = records(&damaged);
        let lost = all.iter().filter(|id| !left.contains(id)).count();
        assert!(lost <= 1, "seed {seed}: {lost} of {all:?} are lost, {left:?} are there: {hurt:?}");
    }
}
