//! A small mutation fuzzer for readers of untrusted input: bytes are mutated from a corpus, the reader must not panic, and
//! must not take long or much memory. Rounds are numbered and the mutation of a round follows from its number, so that a
//! failure comes again with the next run.
//!
//! Tests run a few thousand rounds. `BOOKAHEAD_FUZZ_SECONDS=300` runs each target for that long.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Time limit of one input. Readers need microseconds; a loop that does not end needs more, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);
/// Most bytes of an input: enough for every bound that a small file can reach.
const MOST_BYTES: usize = 64 * 1024;
/// Accepted inputs that are kept to be mutated further.
const MOST_KEPT: usize = 256;
/// Most growth of the process's peak memory over a run. Inputs are small, so a reader that needs this much has no bound.
const MOST_GROWTH: u64 = 512 << 20;
/// Environment variable with the length of each run in seconds.
const SECONDS: &str = "BOOKAHEAD_FUZZ_SECONDS";

/// Numbers at the ends of the types that readers use.
const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "-1",
    "1e9",
    "1e400",
    "NaN",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "0.1e-400",
    "99999999999999999999999999999999999999999",
];
/// Bytes that mean something in most formats, or are no UTF-8.
const BYTES: &[u8] = b"\0\xff\xca\x80\"'<>{}[]():;,=#|\\/.-+\r\n\t ";

/// Numbers that follow from a seed (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// A number from 0 to just below `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> Option<&'a T> {
        all.get(self.below(all.len())).copied()
    }
}

/// Inputs to begin with, and words of the format.
#[derive(Debug, Clone, Copy)]
pub struct Corpus<'c> {
    /// Well-formed inputs, and inputs that failed once.
    pub inputs: &'c [&'c [u8]],
    /// Words to insert.
    pub words: &'c [&'c str],
}

/// Mutates one input in up to four places. `other` is another input, to take pieces of.
pub fn mutate(input: &[u8], other: &[u8], words: &[&str], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=numbers.below(4) {
        mutate_once(&mut bytes, other, words, numbers);
    }
    bytes.truncate(MOST_BYTES);
    bytes
}

fn mutate_once(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    let piece = |from: &[u8], numbers: &mut Numbers| {
        let begin = numbers.below(from.len());
        let end = from.len().min(begin + 1 + numbers.below(40));
        from.get(begin..end).unwrap_or_default().to_vec()
    };
    match numbers.below(12) {
        0 | 1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
        2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = BYTES[numbers.below(BYTES.len())]),
        3 => bytes.insert(at, BYTES[numbers.below(BYTES.len())]),
        4 => drop(bytes.drain(at..bytes.len().min(at + 1 + numbers.below(40)))),
        5 => bytes.truncate(at),
        6 => {
            // A line twice, and now and then very often.
            let line = &bytes[at..];
            let end = line.iter().position(|byte| *byte == b'\n').map_or(line.len(), |end| end + 1);
            let times = if numbers.below(16) == 0 { 200 } else { 1 };
            let lines = line[..end.min(200)].repeat(times);
            drop(bytes.splice(at..at, lines));
        }
        7 => drop(bytes.splice(at..at, piece(&bytes.clone(), numbers))),
        8 => drop(bytes.splice(at..at, piece(other, numbers))),
        9 => {
            let cut = numbers.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[cut..]);
        }
        10 => replace_number(bytes, at, numbers),
        _ => {
            let word = numbers.one_of(words).unwrap_or("\u{feff}");
            drop(bytes.splice(at..at, word.bytes()));
        }
    }
}

/// Replaces the next number by an odd one.
fn replace_number(bytes: &mut Vec<u8>, at: usize, numbers: &mut Numbers) {
    let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit).map(|begin| at + begin) else { return };
    let end =
        bytes[begin..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |end| begin + end);
    let number = numbers.one_of(&NUMBERS).unwrap_or("0");
    drop(bytes.splice(begin..end, number.bytes()));
}

/// Gives a reader all inputs of the corpus and then mutated ones: so many `rounds`, or for as long as the environment
/// says. The reader answers whether it accepted the input. Panics where the reader does, or takes too long or too much.
/// Answers how many inputs of the corpus were accepted.
pub fn run(corpus: Corpus<'_>, rounds: u64, mut read: impl FnMut(&[u8]) -> bool) -> usize {
    let lasts = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let (began, memory) = (Instant::now(), peak_memory());
    let mut kept: Vec<Vec<u8>> = corpus.inputs.iter().map(|input| input.to_vec()).collect();
    let well_formed = kept.iter().filter(|input| checked("the corpus", input, &mut read)).count();
    let (mut round, mut accepted) = (0, 0u64);
    while lasts.map_or(round < rounds, |lasts| began.elapsed() < lasts) {
        let mut numbers = Numbers::new(round);
        let (input, other) = (numbers.below(kept.len()), numbers.below(kept.len()));
        let input = mutate(&kept[input], &kept[other], corpus.words, &mut numbers);
        if checked(&format!("round {round}"), &input, &mut read) {
            accepted += 1;
            // The corpus stays, and what was accepted last takes the place of what was accepted first.
            let room = corpus.inputs.len() + MOST_KEPT;
            if kept.len() < room {
                kept.push(input);
            } else {
                let at = corpus.inputs.len() + numbers.below(MOST_KEPT);
                kept[at] = input;
            }
        }
        round += 1;
    }
    eprintln!("{round} rounds in {:.1?}, {accepted} inputs accepted", began.elapsed());
    if let (Some(before), Some(after)) = (memory, peak_memory()) {
        assert!(after - before < MOST_GROWTH, "the reader took {} MiB", (after - before) >> 20);
    }
    well_formed
}

/// Whether the reader accepts an input; a failure names it.
fn checked(which: &str, input: &[u8], read: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(input)));
    let took = began.elapsed();
    match outcome {
        Ok(accepted) if took < LONGEST => accepted,
        Ok(_) => panic!("{which} took {took:?}: \"{}\"", input.escape_ascii()),
        Err(panic) => {
            eprintln!("{which} failed: \"{}\"", input.escape_ascii());
            resume_unwind(panic)
        }
    }
}

/// The most memory that this process has had, in bytes; None where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
