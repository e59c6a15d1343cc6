//! A small mutation fuzzer for readers of untrusted input. Inputs are mutated from a corpus; the reader must not panic,
//! and must not take long or much memory. The mutation of a round depends only on its number, so a failure is
//! reproduced by the next run.
//!
//! Tests run a few thousand rounds. `BOOKAHEAD_FUZZ_SECONDS=300` runs each target for that long.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Timeout of one input. Readers need microseconds; only an endless loop needs this long, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(5);
/// Largest input: enough to reach every bound that a small file can exceed.
const MOST_BYTES: usize = 64 * 1024;
/// Number of accepted inputs that are kept as a base of further mutations.
const MOST_KEPT: usize = 256;
/// Largest growth of the process's peak memory in a run. Inputs are small, so a reader that needs more is unbounded.
const MOST_GROWTH: u64 = 512 << 20;
/// Environment variable with the length of each run in seconds.
const SECONDS: &str = "BOOKAHEAD_FUZZ_SECONDS";

/// Numbers at the limits of the types that readers use.
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
/// Bytes with a meaning in most formats, and bytes that are not UTF-8.
const BYTES: &[u8] = b"\0\xff\xca\x80\"'<>{}[]():;,=#|\\/.-+\r\n\t ";

/// Random numbers from a seed (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// A number from 0 to just below `bound`; 0 if `bound` is 0.
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

/// Initial inputs, and words of their format.
#[derive(Debug, Clone, Copy)]
pub struct Corpus<'c> {
    /// Well-formed inputs, and inputs that failed once.
    pub inputs: &'c [&'c [u8]],
    /// Words of the format, to insert.
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
            // Repeats a line once, and sometimes 200 times.
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

/// Replaces the next number by one of [`NUMBERS`].
fn replace_number(bytes: &mut Vec<u8>, at: usize, numbers: &mut Numbers) {
    let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit).map(|begin| at + begin) else { return };
    let end =
        bytes[begin..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |end| begin + end);
    let number = numbers.one_of(&NUMBERS).unwrap_or("0");
    drop(bytes.splice(begin..end, number.bytes()));
}

/// Passes all inputs of the corpus to a reader, and then mutated ones: for `rounds` rounds, or for the time in the
/// environment. The reader returns whether it accepted the input. Panics if the reader does, or if it takes too long or too
/// much memory. Returns the number of accepted inputs of the corpus.
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
            // The corpus stays; a new input replaces a random older one.
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

/// Whether the reader accepts an input; a failure prints the input.
fn checked(which: &str, input: &[u8], read: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(input)));
    let took = began.elapsed();
    match outcome {
        Ok(accepted) if took < LONGEST => accepted,
        Ok(_) => panic!("{which} took {took:?}: \"{}\"", input.escape_ascii()),
        Err(panic) => {
            // Printed here, because the panic message of the reader does not contain the input.
            eprintln!("{which} failed: \"{}\"", input.escape_ascii());
            resume_unwind(panic)
        }
    }
}

/// Peak memory of this process, in bytes; None if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
