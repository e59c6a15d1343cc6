//! One process for one journal: a file beside it, `….lock`, is locked for as long as the journal is open, and says who
//! has it. The system gives the lock back when the process ends, however it ends; the file itself stays and means nothing
//! by itself. SQLite's own lock is not held in between, so that a running journal can be checked and exported.

use super::error::JournalError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that is just being started from this one has it open for a moment, too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes it, or says at once who has it.
    pub(crate) fn take(journal: &Path) -> Result<Lock, JournalError> {
        let path = beside(journal, ".lock");
        let failed = |error: &std::io::Error| JournalError::io(journal, "locking it", error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => sign(&mut file).map_err(|error| failed(&error))?,
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Held { path: journal.to_owned(), by: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        Ok(Lock { file })
    }
}

/// Who has the journal open, if anybody has. It takes nothing and makes no file.
pub(crate) fn holder_of(journal: &Path) -> Option<String> {
    let mut file = File::open(beside(journal, ".lock")).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        _ => {
            let _ = file.unlock();
            None
        }
    }
}

/// A file beside the journal: `site.journal` and `.lock` make `site.journal.lock`.
pub(crate) fn beside(journal: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(journal.as_os_str());
    name.push(ending);
    PathBuf::from(name)
}

fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {}", std::process::id())
}

/// What the holder wrote; it may be about to write it.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    let text = text.trim();
    if read.is_err() || text.is_empty() { "another process".to_owned() } else { text.to_owned() }
}
