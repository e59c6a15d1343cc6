//! Damage to what commands print, for the tests of all that reads it: flipped bytes, bytes left out, lines twice, the rest cut
//! off, bytes that are no UTF-8. The same seed gives the same damage.

use std::time::{Duration, Instant};

/// How many cases for each text.
const CASES: u64 = 2_000;
/// No reader needs a hundredth of that for a small text; a loop that does not end needs more.
const LONGEST: Duration = Duration::from_secs(2);

/// Numbers that only the seed decides (splitmix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap()
    }
}

/// Damages some bytes of a text.
pub(crate) fn damage(text: &[u8], numbers: &mut Numbers) -> String {
    let mut bytes = text.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
            1 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = [0, 0xff, 0xca, b'"', b'<', b'\n'][numbers.below(6)]),
            2 => drop(bytes.drain(at..bytes.len().min(at + 1 + numbers.below(40)))),
            3 => bytes.truncate(at),
            4 => {
                let end = bytes
                    .iter()
                    .skip(at)
                    .position(|byte| *byte == b'\n')
                    .map_or(bytes.len(), |end| at + end + 1);
                let line = bytes[at..end].to_vec();
                bytes.splice(at..at, line);
            }
            _ => drop(bytes.splice(at..at, [0xc3, 0x28, 0x80][..=numbers.below(3)].to_vec())),
        }
    }
    // As the output of a command is read.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads thousands of damaged texts: none makes it panic, and none takes long.
pub(crate) fn survives(text: &str, mut read: impl FnMut(&str)) {
    read(text);
    for seed in 0..CASES {
        let damaged = damage(text.as_bytes(), &mut Numbers::new(seed));
        let began = Instant::now();
        read(&damaged);
        assert!(began.elapsed() < LONGEST, "seed {seed}: {damaged}");
    }
}

/// Reads texts in which one line of a record is damaged, but for its line feed; all other records must be there.
/// `records` answers the ids of those that are found.
pub(crate) fn loses_only_one(text: &str, records: impl Fn(&str) -> Vec<String>) {
    let (all, lines) = (records(text), text.split_inclusive('\n').collect::<Vec<_>>());
    for seed in 0..CASES {
        let mut numbers = Numbers::new(seed);
        let at = numbers.below(lines.len());
        let line = lines[at].trim_end_matches('\n');
        let hurt = damage(line.as_bytes(), &mut numbers).replace('\n', " ");
        let damaged = [&lines[..at].concat(), hurt.as_str(), "\n", &lines[at + 1..].concat()].concat();
        let left = records(&damaged);
        let lost = all.iter().filter(|id| !left.contains(id)).count();
        assert!(lost <= 1, "seed {seed}: {lost} of {all:?} are lost, {left:?} are there: {hurt:?}");
    }
}
