//! Reads a whole journal and verifies every checksum. All readers of a journal use this module; no damage is
//! skipped silently.
//!
//! It also checks the write-ahead log for damage that SQLite ignores. SQLite uses a log up to the first invalid
//! frame, because that is what a crash leaves. A flipped bit in the middle looks the same, and the transactions
//! behind it would vanish silently. But a transaction starts only after the previous one was synced, so a crash
//! leaves at most *one* incomplete transaction. Two ends of transactions behind an invalid frame mean damage.
//!
//! It only reads. It cannot detect damage to the very last transaction, or a truncated log.

use super::error::{Damage, JournalError};
use super::format::{self, Chain, Meta};
use super::lock::beside;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

pub(crate) struct Raw<'a> {
    pub(crate) sequence: u64,
    pub(crate) schema: u32,
    pub(crate) written_at: i64,
    pub(crate) event: &'a str,
    pub(crate) checksum: Chain,
}

pub(crate) struct Walked {
    pub(crate) records: u64,
    /// Number of snapshots with a valid checksum.
    pub(crate) snapshots: usize,
    /// In the order of discovery, snapshots first.
    pub(crate) damages: Vec<Damage>,
}

/// A state that replaces all events up to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last of those events.
    pub up_to: u64,
    /// Version of states and events at that time.
    pub schema: u32,
    /// Wall-clock time of the write in milliseconds since 1970.
    pub written_at: i64,
    /// The state as JSON.
    pub json: String,
}

impl Snapshot {
    /// Parses the state.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, JournalError> {
        serde_json::from_str(&self.json).map_err(|error| JournalError::Json {
            what: format!("the snapshot up to record {}", self.up_to),
            why: error.to_string(),
        })
    }
}

/// The newest valid snapshot, the chain value of each valid one, and damages of the others.
pub(crate) struct Snapshots {
    pub(crate) newest: Option<Snapshot>,
    pub(crate) chains: BTreeMap<u64, Chain>,
    pub(crate) damages: Vec<Damage>,
}

/// A snapshot as stored.
pub(crate) struct RawSnapshot<'a> {
    pub(crate) up_to: u64,
    pub(crate) schema: u32,
    pub(crate) written_at: i64,
    pub(crate) chain: Chain,
    pub(crate) state: &'a str,
    pub(crate) checksum: u64,
}

/// Gets the number of a row, and its contents or why they cannot be read.
pub(crate) type SeeRecord<'s> = &'s mut dyn FnMut(u64, Result<Raw<'_>, String>);
/// The same for a snapshot.
pub(crate) type SeeSnapshot<'s> = &'s mut dyn FnMut(u64, Result<RawSnapshot<'_>, String>);

/// The rows of a journal, wherever it is stored.
pub(crate) trait Source {
    /// Path or address, for errors.
    fn path(&self) -> &Path;

    /// The newest first.
    fn each_snapshot(&mut self, see: SeeSnapshot<'_>) -> Result<(), JournalError>;

    /// In order of their numbers.
    fn each_record(&mut self, see: SeeRecord<'_>) -> Result<(), JournalError>;
}

pub(crate) fn snapshots(source: &mut dyn Source, meta: &Meta) -> Result<Snapshots, JournalError> {
    let mut found = Snapshots { newest: None, chains: BTreeMap::new(), damages: vec![] };
    source.each_snapshot(&mut |up_to, raw| match raw.and_then(|raw| snapshot(&raw, meta)) {
        Ok((snapshot, chain)) => {
            found.chains.insert(up_to, chain);
            found.newest.get_or_insert(snapshot);
        }
        Err(why) => found.damages.push(Damage::Snapshot { up_to, why }),
    })?;
    Ok(found)
}

fn snapshot(raw: &RawSnapshot<'_>, meta: &Meta) -> Result<(Snapshot, Chain), String> {
    let RawSnapshot { up_to, schema, written_at, chain, state, checksum } = *raw;
    if format::of_snapshot(up_to, schema, written_at, chain, state.as_bytes()) != checksum {
        return Err("it does not match its checksum".to_owned());
    }
    if up_to < meta.base || meta.tail < up_to {
        return Err(format!("the journal has records {} to {}", meta.base + 1, meta.tail));
    }
    Ok((Snapshot { up_to, schema, written_at, json: state.to_owned() }, chain))
}

/// Reads all records and passes the valid ones to `take`, which may reject a record that it cannot interpret.
pub(crate) fn records(
    source: &mut dyn Source,
    meta: &Meta,
    snapshots: &Snapshots,
    mut take: impl FnMut(&Raw<'_>) -> Result<(), String>,
) -> Result<Walked, JournalError> {
    let mut walk = Walk {
        last: meta.base,
        chains: [meta.base_chain; 2],
        lost: false,
        expected: &snapshots.chains,
        records: 0,
        damages: snapshots.damages.clone(),
    };
    // A snapshot may end exactly at the base.
    walk.meet_snapshot();
    source.each_record(&mut |sequence, raw| match raw {
        Ok(raw) => walk.step(&raw, &mut take),
        Err(why) => walk.pass(sequence, why),
    })?;
    // Detects records that were removed from the end.
    if walk.last != meta.tail || !walk.chains.contains(&meta.tail_chain) {
        walk.damages.push(Damage::Tail { said: meta.tail, found: walk.last });
    }
    Ok(Walked { records: walk.records, snapshots: snapshots.chains.len(), damages: walk.damages })
}

struct Walk<'a> {
    last: u64,
    /// Checksums that the next record may be chained to: that of the last record as computed and as stored. They
    /// differ if the last record is damaged; accepting both avoids a second report for the next one.
    chains: [Chain; 2],
    /// The last record could not be read, so the next one cannot be verified.
    lost: bool,
    expected: &'a BTreeMap<u64, Chain>,
    records: u64,
    damages: Vec<Damage>,
}

impl Walk<'_> {
    fn step(&mut self, raw: &Raw<'_>, take: &mut impl FnMut(&Raw<'_>) -> Result<(), String>) {
        self.records += 1;
        let lost = std::mem::take(&mut self.lost);
        let follows = self.reach(raw.sequence) && !lost;
        let then = |chain: Chain| chain.then(raw.sequence, raw.schema, raw.written_at, raw.event.as_bytes());
        let computed = self.chains.map(then);
        if follows && !computed.contains(&raw.checksum) {
            self.damages.push(Damage::Changed { sequence: raw.sequence });
            self.chains = [computed[0], raw.checksum];
            return;
        }
        self.chains = [raw.checksum; 2];
        self.meet_snapshot();
        if let Err(why) = take(raw) {
            self.damages.push(Damage::Senseless { sequence: raw.sequence, why });
        }
    }

    fn pass(&mut self, sequence: u64, why: String) {
        self.records += 1;
        if sequence > self.last {
            self.reach(sequence);
            self.lost = true;
        }
        self.damages.push(Damage::Senseless { sequence, why });
    }

    fn reach(&mut self, sequence: u64) -> bool {
        let next = self.last.saturating_add(1);
        if sequence < next {
            let why = format!("it is out of place, after record {}", self.last);
            self.damages.push(Damage::Senseless { sequence, why });
            return false;
        }
        self.last = sequence;
        if sequence > next {
            self.damages.push(Damage::Gap { first: next, last: sequence - 1 });
        }
        sequence == next
    }

    /// The chain value of a snapshot must match that of the record it ends with.
    fn meet_snapshot(&mut self) {
        let expected = self.expected.get(&self.last);
        if expected.is_some_and(|chain| !self.chains.contains(chain)) {
            let why = "it was made from other records".to_owned();
            self.damages.push(Damage::Snapshot { up_to: self.last, why });
        }
    }
}

const MAGIC: u32 = 0x377f_0682;
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Fails if the write-ahead log is damaged in the middle.
pub(crate) fn look_for_damage(journal: &Path) -> Result<(), JournalError> {
    let failed = |error: &std::io::Error| JournalError::io(journal, "reading its write-ahead log", error);
    let file = match File::open(beside(journal, "-wal")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    match broken_in_the_middle(BufReader::new(file)).map_err(|error| failed(&error))? {
        None => Ok(()),
        Some(frame) => {
            let why = format!(
                "frame {frame} of its write-ahead log is damaged, but complete transactions follow it"
            );
            Err(JournalError::Damaged { path: journal.to_owned(), damage: Damage::Unreadable(why), more: 0 })
        }
    }
}

/// The first invalid frame, if more follows than a crash can leave. Frame 0 is the header.
fn broken_in_the_middle(mut log: impl Read) -> std::io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let mut sum = Sum { big_endian: word(&header, 0) & 1 == 1, s: [0, 0] };
    sum.add(&header[..24]);
    let sound = word(&header, 0) & !1 == MAGIC && sum.is(&header[24..]);
    // With a damaged header the page size is unknown; 4096 is SQLite's default and that of all journals.
    let page = if sound { word(&header, 8) as usize } else { 4_096 };
    let mut frame = vec![0; FRAME_HEADER + page];
    // Frames of an older generation of the log have other salts. They are leftovers, not damage.
    let mut salts: Option<[u8; 8]> = sound.then(|| copy(&header[16..24]));
    let mut broken = (!sound).then_some(0);
    let (mut at, mut ends_behind) = (0, 0);
    while fill(&mut log, &mut frame)? {
        at += 1;
        let found: [u8; 8] = copy(&frame[8..16]);
        let ours = found == *salts.get_or_insert(found);
        if broken.is_none() {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER..]);
            broken = (!ours || !sum.is(&frame[16..24])).then_some(at);
        }
        // The size of the database is set only in the last frame of a transaction.
        let ends = word(&frame, 4) != 0;
        if broken.is_some() && ours && ends {
            ends_behind += 1;
        }
    }
    Ok(broken.filter(|_| ends_behind >= 2))
}

/// Whether the buffer could be filled.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn copy<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut copied = [0; N];
    copied.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    copied
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(copy(&bytes[at..at + 4]))
}

/// Cumulative checksum of a write-ahead log, as defined by SQLite's file format.
struct Sum {
    big_endian: bool,
    s: [u32; 2],
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let word = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        for pair in bytes.chunks_exact(8) {
            let (first, second) = (word(copy(&pair[..4])), word(copy(&pair[4..])));
            self.s[0] = self.s[0].wrapping_add(first).wrapping_add(self.s[1]);
            self.s[1] = self.s[1].wrapping_add(second).wrapping_add(self.s[0]);
        }
    }

    fn is(&self, stored: &[u8]) -> bool {
        [word(stored, 0), word(stored, 4)] == self.s
    }
}
