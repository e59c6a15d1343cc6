//! High-water mark of a journal: a local file with the number and the checksum of the last acknowledged record. A
//! journal that ends before it, or that has another record there, has lost records: it was deleted, emptied, restored
//! from an older copy, or is another one. That is detected at the next start or take-over.
//!
//! The mark is written after the answers and not synced: after a power failure it may be behind the journal, never
//! ahead. Next to a journal in a file it has the name `….mark`. For a journal in PostgreSQL each process has one in its
//! state folder; a stand-by follows the row of the party.

use super::error::{Damage, JournalError};
use super::format::Chain;
use super::lock::beside;
use super::replay::Tail;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Mark {
    path: PathBuf,
    file: File,
    /// Number of the marked record; 0 if there is none or the file is unreadable.
    sequence: u64,
    /// Its checksum, which earlier versions did not write.
    chain: Option<Chain>,
}

impl Mark {
    /// Opens or creates the mark next to a journal in a file.
    pub(crate) fn beside(journal: &Path) -> Result<Mark, JournalError> {
        Mark::open(beside(journal, ".mark"))
    }

    /// Opens or creates a mark.
    pub(crate) fn open(path: PathBuf) -> Result<Mark, JournalError> {
        let failed =
            |error: &std::io::Error| JournalError::io(&path, "opening the mark of the journal", error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        let mut text = String::new();
        // Other text is an interrupted write. Only the first line counts: an earlier version leaves the end of ours.
        let (sequence, chain) = match file.read_to_string(&mut text) {
            Ok(_) => read(text.lines().next().unwrap_or_default()).unwrap_or((0, None)),
            Err(_) => (0, None),
        };
        Ok(Mark { path, file, sequence, chain })
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Refuses a journal that ends before the mark, or is gone.
    pub(crate) fn check(&self, journal: &Path, tail: Option<u64>) -> Result<(), JournalError> {
        match tail {
            Some(tail) if tail >= self.sequence => Ok(()),
            None if self.sequence == 0 => Ok(()),
            Some(tail) => Err(self.refused(journal, format_args!("it ends with record {tail}"))),
            None => Err(self.refused(journal, format_args!("it is gone"))),
        }
    }

    /// Refuses a journal in which the marked record has another checksum.
    pub(crate) fn check_chain(&self, journal: &Path, found: Option<Chain>) -> Result<(), JournalError> {
        match (self.chain, found) {
            (Some(marked), Some(found)) if marked != found && self.sequence > 0 => {
                let record = self.sequence;
                Err(self.refused(
                    journal,
                    format_args!("its record {record} is not the one that was acknowledged"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, journal: &Path, found: impl Display) -> JournalError {
        let (marked, mark) = (self.sequence, self.path.display());
        let why = format!(
            "{found}, but records up to {marked} were acknowledged; restore the newest copy, or, to continue with what \
             is there and lose the rest, delete {mark}"
        );
        JournalError::Damaged { path: journal.to_owned(), damage: Damage::Unreadable(why), more: 0 }
    }

    /// Records up to this one were acknowledged. A failed write is ignored: it only weakens the check.
    pub(crate) fn set(&mut self, tail: Tail) {
        // Fixed width: it overwrites the old text completely, without truncating the file first.
        let text = format!("{:020} {:016x}\n", tail.sequence, tail.chain.0);
        let _ = self.file.rewind().and_then(|()| self.file.write_all(text.as_bytes()));
        (self.sequence, self.chain) = (tail.sequence, Some(tail.chain));
    }
}

/// Number and checksum in a line of a mark.
fn read(line: &str) -> Option<(u64, Option<Chain>)> {
    match line.trim().split_once(' ') {
        None => Some((line.trim().parse().ok()?, None)),
        Some((sequence, chain)) => {
            Some((sequence.parse().ok()?, Some(Chain(u64::from_str_radix(chain, 16).ok()?))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_an_earlier_version_has_no_checksum_even_written_over_one_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mark");
        let open = || Mark::open(path.clone()).unwrap();
        assert_eq!((open().sequence, open().chain), (0, None));
        open().set(Tail { sequence: 7, chain: Chain(u64::MAX) });
        assert_eq!((open().sequence, open().chain), (7, Some(Chain(u64::MAX))));
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all(b"00000000000000000009\n").unwrap();
        assert_eq!((open().sequence, open().chain), (9, None));
        std::fs::write(&path, "00000000000000000009 xyz").unwrap();
        assert_eq!((open().sequence, open().chain), (0, None));
    }
}
