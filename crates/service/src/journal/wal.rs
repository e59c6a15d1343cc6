//! Looking through the write-ahead log for damage that SQLite would pass over. SQLite takes a log up to the first frame
//! that is not whole, since that is what a crash leaves; a changed bit in the middle looks the same to it, and the
//! transactions behind it would vanish without a word. But a transaction is begun only after the one before was synced, so
//! a crash leaves at most *one* that is not whole. Two ends of transactions behind a broken frame mean damage.
//!
//! It only reads. What it cannot see: damage to the very last transaction, and a log that was cut off.

use super::error::{Damage, JournalError};
use super::lock::beside;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

const MAGIC: u32 = 0x377f_0682;
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Fails where the log of a journal is broken in the middle.
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
            let why =
                format!("frame {frame} of its write-ahead log is broken, and whole transactions follow it");
            Err(JournalError::Damaged { path: journal.to_owned(), damage: Damage::Unreadable(why), more: 0 })
        }
    }
}

/// The first broken frame, where more follows than a crash can leave; frame 0 is the header.
fn broken_in_the_middle(mut log: impl Read) -> std::io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let mut sum = Sum { big_endian: word(&header, 0) & 1 == 1, s: [0, 0] };
    sum.add(&header[..24]);
    let sound = word(&header, 0) & !1 == MAGIC && sum.is(&header[24..]);
    let page = if sound { word(&header, 8) as usize } else { 4_096 };
    let mut frame = vec![0; FRAME_HEADER + page];
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
        let ends = word(&frame, 4) != 0;
        if broken.is_some() && ours && ends {
            ends_behind += 1;
        }
    }
    Ok(broken.filter(|_| ends_behind >= 2))
}

/// Whether there was that much.
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

/// The running checksum of a log, over pairs of words.
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
