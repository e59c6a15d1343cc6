//! High-water mark of a journal: the file `….mark` has the number of the last acknowledged record. A journal that
//! ends before it has lost records, for instance with its write-ahead log; a journal that is missing was deleted.
//! Both are detected at the next start. The mark is written after the answers and not synced: after a power failure
//! it may be behind the journal, never ahead.

use super::error::{Damage, JournalError};
use super::lock::beside;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Mark {
    path: PathBuf,
    file: File,
}

impl Mark {
    /// Opens or creates the mark of a journal and returns its number; 0 if there is none or it is unreadable.
    pub(crate) fn open(journal: &Path) -> Result<(Mark, u64), JournalError> {
        let path = beside(journal, ".mark");
        let failed = |error: &std::io::Error| JournalError::io(journal, "opening its mark", error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        let mut text = String::new();
        // A text that is not a number is an interrupted write.
        let read = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
        Ok((Mark { path, file }, read.unwrap_or(0)))
    }

    /// Refuses a journal that ends before the mark.
    pub(crate) fn check(&self, journal: &Path, marked: u64, tail: Option<u64>) -> Result<(), JournalError> {
        let found = match tail {
            Some(tail) if tail >= marked => return Ok(()),
            None if marked == 0 => return Ok(()),
            Some(tail) => format!("it ends with record {tail}"),
            None => "it is gone".to_owned(),
        };
        let why = format!(
            "{found}, but records up to {marked} were acknowledged; restore it from a backup together with the files \
             next to it, or, to continue with the rest, delete {}",
            self.path.display()
        );
        Err(JournalError::Damaged { path: journal.to_owned(), damage: Damage::Unreadable(why), more: 0 })
    }

    /// Records up to this one were acknowledged. A failed write is ignored: it only weakens the check.
    pub(crate) fn set(&mut self, sequence: u64) {
        // Fixed width: it overwrites the old number completely, without truncating the file first.
        let text = format!("{sequence:020}\n");
        let _ = self.file.rewind().and_then(|()| self.file.write_all(text.as_bytes()));
    }
}
